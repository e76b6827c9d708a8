"""examples/one_agent/README.md, executed: five clients run one agent that requires approval."""

import shutil
from pathlib import Path

import pytest

from tests.docs.likeness import like
from tests.docs.story import Story
from tests.e2e.own_machine import needs
from tests.support.programs import NODE_BINARIES, missing
from tests.support.services.client import Client
from tests.support.services.service import ROOT
from tests.support.tools.server import Behaviour, ToolServer

pytestmark = pytest.mark.timeout(120)

EXAMPLE = ROOT / "examples" / "one_agent"
PYTHON = ROOT / ".venv" / "tested-clients" / "bin" / "python"
PARAMETERS = {
    "type": "object",
    "properties": {"order": {"type": "string"}, "amount": {"type": "number"}},
    "required": ["order", "amount"],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the example, with the packages that its users install."""
    needs("node", "nodejs")
    if not (NODE_BINARIES.parent / "ai").exists() or not PYTHON.exists():
        missing("the clients are not installed: make test-programs")
    copy = tmp_path / "one_agent"
    shutil.copytree(EXAMPLE, copy)
    (copy / "node_modules").symlink_to(NODE_BINARIES.parent)
    return copy


def prints(page: Story) -> None:
    """The next block prints what the block after it shows."""
    printed = page.sh()
    assert like(page.take("text").text.strip(), printed.strip()), printed


def test_five_clients_run_one_agent_and_wait_for_its_approval(
    client: Client, tools: ToolServer, folder: Path, tmp_path: Path
) -> None:
    url = tools.tool("refund", Behaviour("return", value={"refund": "R-1"}))
    description = "Refund an amount in euros for an order."
    client.register_tool(
        "refund", url, approval="always", parameters=PARAMETERS, description=description
    )
    instead = {"python3 langchain_client.py": f"{PYTHON} langchain_client.py"}
    with Story("examples/one_agent/README.md", client, tmp_path, instead) as page:
        page.sh()
        page.shows(page.curl())
        page.shows(page.curl())
        page.not_run()
        page.run(f"cd {folder}")
        for _ in ("OpenAI's SDK", "AI SDK", "LangChain", "MCP"):
            prints(page)
        runs = page.curl()["data"]
    assert [run["status"] for run in runs] == ["completed"] * 5
    assert len(tools.hits("refund")) == 5
    for run in runs:
        [approval] = client.approvals(status=None, run_id=run["id"])
        assert (approval["tool"], approval["status"]) == ("refund", "approved")
