"""The guides for migration: their programs for Runward work as written."""

import sys
from pathlib import Path

import pytest

from tests.api.project import Project
from tests.docs.blocks import ROOT
from tests.docs.story import Story
from tests.docs.test_tools_and_guards import REFUND
from tests.support.models.chat_server import Answer, Call, text
from tests.support.services.client import Json
from tests.support.tools.server import Behaviour

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(autouse=True)
def reader(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the SDK, and set the variables that it reads."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "sdks" / "python"), *sys.path])
    monkeypatch.setenv("RUNWARD_URL", project.client.url)
    monkeypatch.setenv("RUNWARD_KEY", project.client.key)


def model_that_calls(project: Project, tool: str, arguments: str) -> dict[str, str]:
    """Return the page's model with the model of this project that makes one call."""
    call = Answer(calls=(Call("call_1", tool, arguments),))
    return {"openai:gpt-5.2": project.script(call, text("Done."))}


def skip_their_program(page: Story) -> None:
    """Take the next block, a program for the other product, and compile it."""
    compile(page.not_run(), page.page, "exec")


def run_of(page: Story) -> Json:
    """Run the next program. Return its run. Close its client if the run has ended."""
    names = page.python()
    run: Json = names["run"].data
    if run["ended_at"]:
        names["client"].close()
    return run


def test_from_langgraph(project: Project, tmp_path: Path) -> None:
    here = model_that_calls(project, "refund", '{"order": "A-1018", "amount": 500}')
    paid = Behaviour("return", value="paid")
    url = project.tools.tool(project.tool_key("refund"), paid)
    here |= {"https://shop.example.com/refund": url}
    with Story("docs/how-to/migrate-from-langgraph.md", project.client, tmp_path, here) as page:
        skip_their_program(page)
        skip_their_program(page)
        assert page.http()["name"] == "desk"
        assert run_of(page)["output"] == "Done."
    assert [hit.arguments["amount"] for hit in project.hits("refund")] == [500]


def test_from_assistants(project: Project, tmp_path: Path) -> None:
    here = model_that_calls(project, "order_status", '{"order": "A-1017"}')
    with Story("docs/how-to/migrate-from-assistants.md", project.client, tmp_path, here) as page:
        skip_their_program(page)
        assert page.http()["name"] == "desk"
        run = run_of(page)
    assert run["output"] == "Done."
    [call] = project.client.tool_calls(run["id"])
    assert call["output"] == {"order": "A-1017", "status": "shipped"}


def test_from_the_agents_sdk(project: Project, tmp_path: Path) -> None:
    here = model_that_calls(project, "refund_order", '{"order": "A-1018", "amount": 500}')
    paid = Behaviour("return", value="paid")
    project.tool("refund_order", paid, **REFUND, approval={"when": "args.amount > 100"})
    with Story("docs/how-to/migrate-from-agents-sdk.md", project.client, tmp_path, here) as page:
        skip_their_program(page)
        page.elsewhere("test_plugins.py")
        assert page.http()["name"] == "desk"
        assert run_of(page)["status"] == "requires_action"
        assert run_of(page)["output"] == "Done."
    assert [hit.arguments["amount"] for hit in project.hits("refund_order")] == [500]
