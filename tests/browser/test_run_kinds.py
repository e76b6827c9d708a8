"""What else stands in a run's timeline: reasoning, handoffs, guardrails, what a provider ran."""

import pytest
from playwright.sync_api import expect

from tests.api.project import Project, call
from tests.browser.conftest import Opens
from tests.browser.test_run import entry, outcome, watch
from tests.support.models.chat_server import calls, text
from tests.support.models.spoken import Says, Text, Thought
from tests.support.serving import Hold
from tests.support.tools.server import Behaviour

pytestmark = pytest.mark.timeout(240)


def test_reasoning_is_written_and_then_folded_away(project: Project, opens: Opens) -> None:
    providers = project.running.providers
    assert providers is not None
    hold = Hold()
    name = project.model_name("thinker")
    thoughts = "First I count the lamps, then I count them again to be sure of it."
    says = Says((Thought(thoughts), Text("Two lamps.")), hold=hold)
    providers.anthropic.script(name, says)
    run = project.start(model=f"anthropic:{name}")
    window = watch(opens, run)
    hold.arrived()
    thinking = window.page.locator(".entry.reasoning")
    expect(thinking).to_contain_text("First I count")
    hold.release()
    expect(outcome(window)).to_contain_text("Completed")
    expect(thinking.get_by_text("to be sure of it").last).to_be_hidden()
    thinking.locator("summary").click()
    expect(thinking.locator(".words")).to_contain_text(thoughts)
    expect(entry(window, "Two lamps.")).to_be_visible()


def test_a_handoff_and_a_guardrail_s_no_are_told(project: Project, opens: Opens) -> None:
    rail_url = project.tools.tool(
        project.tool_key("rail"),
        Behaviour("return", value={"action": "reject", "message": "Not on a Sunday."}),
    )
    rail = {"type": "webhook", "url": rail_url, "stage": "input"}
    project.tool("pay", guardrails=[rail])
    paying = project.script(calls(call(2, "pay")), text("It has to wait."), name="cashier")
    project.client.call(
        "POST", "/v1/agents", {"name": "cashier", "model": paying, "tools": ["pay"]}
    )
    run = project.run(calls(call(1, "transfer_to_cashier", "{}")), handoffs=["cashier"])
    assert run["status"] == "completed", run
    window = watch(opens, run)
    expect(entry(window, "Handed off")).to_contain_text("Handed off to cashier")
    refused = entry(window, "a guardrail rejected the call")
    expect(refused).to_contain_text("Not on a Sunday.")
    expect(refused.get_by_text("Rejected", exact=True)).to_be_visible()
    expect(window.page.get_by_role("heading", name="Turn 2 · cashier")).to_be_visible()
