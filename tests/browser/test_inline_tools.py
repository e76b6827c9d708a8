"""Inline tools in the console: editing the arguments of a call, and running a run again."""

import json

import pytest
from playwright.sync_api import expect

from tests.api.project import Project, call
from tests.api.test_inline_tools_api import ONCE, pay
from tests.browser.conftest import Opens
from tests.browser.test_deciding import editing, send
from tests.browser.test_start import field, wrong
from tests.support.models.chat_server import calls, text

pytestmark = pytest.mark.timeout(240)


def test_the_form_for_the_arguments_has_the_schema_of_the_inline_tool(
    project: Project, opens: Opens
) -> None:
    project.tool("pay", parameters={"type": "object", "properties": {"other": {"type": "number"}}})
    tool = pay(project, approval="always")
    run = project.run(ONCE, text("done"), tools=[tool])
    window = opens()
    card = editing(window)
    card.get_by_role("textbox", name="x").fill("2")
    send(window)
    assert project.end(run)["status"] == "completed"
    assert [hit.body["arguments"] for hit in project.hits("pay")] == [{"x": "2"}]


def test_the_form_has_the_schema_of_the_agent_that_took_over(
    project: Project, opens: Opens
) -> None:
    tool = pay(project, approval="always")
    model = project.script(ONCE, text("done"), name="clerk")
    project.client.call("POST", "/v1/agents", {"name": "clerk", "model": model, "tools": [tool]})
    project.run(calls(call(2, "transfer_to_clerk", "{}")), handoffs=["clerk"])
    card = editing(opens())
    expect(card.get_by_role("textbox", name="x")).to_have_value("1")


def test_a_run_is_run_again_with_its_inline_tools(project: Project, opens: Opens) -> None:
    project.tool("look")
    paying = pay(project, headers={"X-Key": "hunter2"}, metadata={"team": "red"})
    given = {"name": "ask", "type": "client", "parameters": {"type": "object"}}
    model = project.script(text("Nothing."), ONCE, text("Paid."))
    first = project.run(model=model, tools=["look", paying, given])
    window = opens(at=f"#/start?from={first['id']}")
    page = window.page
    expect(
        page.get_by_text("The header values of the inline tools are not copied.")
    ).to_be_visible()
    definitions = page.get_by_label("Definitions", exact=True)
    page.get_by_role("button", name="Start", exact=True).click()
    assert wrong(page, "Definitions").startswith("the header X-Key of pay needs a value")
    definitions.fill(field(page, "Definitions").replace("…", "hunter3"))
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator(".entry").filter(has_text="Paid.")).to_be_visible()
    again = page.url.rpartition("/")[2]
    configs = [
        project.client.call("GET", f"/v1/runs/{one}", include="config")["config"]
        for one in (first["id"], again)
    ]
    assert configs[0] == configs[1]
    [hit] = project.hits("pay")
    assert (hit.headers["x-key"], json.dumps(configs).count("hunter")) == ("hunter3", 0)
