"""The blocks that no test can run, each with the reason; by their page and their first line. What
can be said about them all the same is said where their page is tested."""

from typing import Final

NOT_RUN: Final[dict[tuple[str, str], str]] = {
    (
        "README.md",
        "make demo    # a guided first run in this terminal; nothing of it stays",
    ): ("installs the dependencies, and runs all tests"),
    (
        "README.md",
        "  clients ── POST /v1/runs ──▶ api ──▶ PostgreSQL ◀── claim, commit ── worker ──▶ models",
    ): ("a drawing"),
    (
        "CONTRIBUTING.md",
        "RUNWARD_ORDERS=200 make test ARGS=tests/e2e/test_random_orders.py JOBS=0",
    ): ("takes many minutes"),
    ("CONTRIBUTING.md", '.venv/bin/alembic revision --autogenerate -m "what it does"'): (
        "writes a migration into the checkout"
    ),
    ("docs/getting-started.md", "git clone <this repository> runward && cd runward"): (
        "downloads everything"
    ),
    ("docs/deploying.md", "cp .env.example .env      # and fill it in"): "needs Docker",
    ("examples/codex/README.md", "npm install -g @openai/codex"): "downloads a program",
    ("examples/executors/README.md", ".venv/bin/python -m pip install 'playwright>=1.50'"): (
        "installs a browser into the system"
    ),
    (
        "examples/executors/README.md",
        "docker run --rm --init --read-only --tmpfs /work:uid=1000,mode=0700,exec --tmpfs /tmp \\",
    ): ("needs Docker"),
}
