"""The blocks that no test can run, each with the reason; by their page and how they begin. What can
be said about them all the same is said where their page is tested."""

from typing import Final

from tests.docs.blocks import Block

NOT_RUN: Final = {
    ("README.md", "make demo"): "installs the dependencies, and runs all tests",
    ("README.md", "  clients ──"): "a drawing",
    ("CONTRIBUTING.md", "RUNWARD_ORDERS=200"): "takes many minutes",
    ("CONTRIBUTING.md", ".venv/bin/alembic revision"): "writes a migration into the checkout",
    ("docs/tutorials/getting-started.md", "git clone"): "downloads everything",
    ("docs/how-to/deploying.md", "cp .env.example"): "needs Docker",
    ("docs/how-to/deploying.md", "docker build"): "needs Docker",
    ("docs/how-to/deploying.md", "FROM runward"): "needs Docker",
    ("docs/how-to/operations.md", "systemctl restart"): "needs systemd",
    ("docs/how-to/operations.md", "systemctl stop runward"): "needs systemd",
    ("docs/how-to/operations.md", "systemctl stop postgresql"): "needs systemd",
    ("docs/how-to/operations.md", "patronictl"): "needs Patroni; `make drill` executes failovers",
    ("docs/how-to/kubernetes.md", "kubectl create"): "needs a cluster",
    ("docs/how-to/kubernetes.md", "kubectl --namespace"): "needs a cluster",
    ("docs/how-to/kubernetes.md", "helm upgrade"): "needs a cluster",
    ("docs/how-to/systemd.md", "python3 -m venv /opt"): "installs into the system",
    ("docs/how-to/systemd.md", "install"): "installs into the system",
    ("docs/how-to/systemd.md", "systemctl"): "needs systemd",
    ("examples/codex/README.md", "npm install -g"): "downloads a program",
    ("examples/one_agent/README.md", "python3 -m pip install"): "downloads packages",
    ("examples/executors/README.md", ".venv/bin/python -m pip install 'playwright"): (
        "installs a browser into the system"
    ),
    ("examples/executors/README.md", "docker run"): "needs Docker",
    ("docs/how-to/migrate-from-langgraph.md", "from langchain_core"): "for LangGraph Server",
    ("docs/how-to/migrate-from-langgraph.md", "from langgraph_sdk"): "for LangGraph Server",
    ("docs/how-to/migrate-from-assistants.md", "import json"): "for an API that was shut down",
    ("docs/how-to/migrate-from-agents-sdk.md", "import asyncio"): "for the Agents SDK",
}


def reason(block: Block) -> str | None:
    """None: it can be run."""
    for (page, beginning), why in NOT_RUN.items():
        if block.page == page and block.text.startswith(beginning):
            return why
    return None
