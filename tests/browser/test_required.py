"""What waits for a person though it is no approval: unknown outcomes, and results that only whoever
started the run can give. It stands in the inbox too."""

import pytest
from playwright.sync_api import Locator, expect

from tests.api.project import Project, call, result_of
from tests.api.test_client_tools_api import waiting
from tests.api.test_input_required_api import asking
from tests.browser.conftest import Opens
from tests.browser.window import Scheme, Window, button
from tests.support.models.chat_server import calls, text
from tests.support.services.client import Json
from tests.support.tools.server import Behaviour


def unknown(project: Project) -> Json:
    """A run whose call was sent and never answered."""
    project.tool("pay", Behaviour("reset"), Behaviour("return", "paid"), on_unknown="ask")
    return project.run(calls(call(1, "pay")), text("Done."), tools=["pay"])


def card_of(window: Window) -> Locator:
    return window.page.get_by_role("article")


def act(window: Window, name: str) -> Locator:
    button(card_of(window), name).click()
    return card_of(window)


def gone(window: Window) -> None:
    expect(card_of(window)).to_have_count(0)
    expect(window.page.get_by_text("has a result now")).to_be_visible()


def test_an_unknown_outcome_is_counted_and_settled_as_done(project: Project, opens: Opens) -> None:
    run = unknown(project)
    window = opens()
    expect(card_of(window)).to_contain_text("The call may or may not have taken effect")
    expect(window.page).to_have_title("(1) Inbox · Runward")
    card = act(window, "The call took effect")
    card.get_by_label("JSON").check()
    card.get_by_label("Output of the call").fill('{"paid": true}')
    act(window, "Record as completed")
    gone(window)
    project.end(run)
    assert result_of(project.asked(), "c1") == '{"paid":true}'
    assert len(project.hits("pay")) == 1


def test_an_unknown_outcome_is_settled_as_failed(project: Project, opens: Opens) -> None:
    run = unknown(project)
    window = opens()
    card = act(window, "The call failed")
    card.get_by_label("Error message").fill("The bank has no trace of it.")
    act(window, "Report a failure")
    gone(window)
    project.end(run)
    assert result_of(project.asked(), "c1") == "The bank has no trace of it."


def test_a_call_is_sent_again_only_by_a_second_click(project: Project, opens: Opens) -> None:
    run = unknown(project)
    project.retried_by_hand.add((run["id"], "c1"))
    window = opens()
    card = act(window, "Send again")
    expect(card).to_contain_text("Otherwise, the effect happens twice.")
    act(window, "Send the call again")
    gone(window)
    project.end(run)
    assert [hit.attempt for hit in project.hits("pay")] == [1, 2]


def test_a_result_that_a_client_owes_is_given_by_hand(project: Project, opens: Opens) -> None:
    run = waiting(project)
    window = opens()
    expect(card_of(window)).to_contain_text("Result required")
    expect(window.page).to_have_title("Inbox · Runward")
    act(window, "Submit the result").get_by_role("textbox", name="The result").fill("21.5 degrees")
    act(window, "Send this result")
    gone(window)
    project.end(run)
    assert result_of(project.asked(), "c1") == "21.5 degrees"


def test_what_a_tool_asks_is_answered(project: Project, opens: Opens) -> None:
    run, _ = asking(project, Behaviour("return", value="paid"))
    window = opens()
    expect(card_of(window).get_by_text("code", exact=True)).to_be_visible()
    card = act(window, "Answer")
    card.get_by_label("JSON").check()
    card.get_by_label("The answer").fill('{"code": "42"}')
    act(window, "Send the answer")
    gone(window)
    project.end(run)
    assert project.hits("work")[-1].body["input"]["responses"] == {"code": "42"}


def test_one_that_somebody_else_settled_goes_by_itself(project: Project, opens: Opens) -> None:
    run = unknown(project)
    window = opens()
    expect(card_of(window)).to_be_visible()
    project.client.resolve(run["id"], "c1", resolution="completed", output="paid")
    expect(card_of(window)).to_have_count(0)


def test_a_key_that_may_not_settle_it_is_told_what_it_needs(project: Project, opens: Opens) -> None:
    unknown(project)
    window = opens("runs:read")
    expect(card_of(window)).to_contain_text("requires the scope approvals:decide")
    expect(card_of(window).get_by_role("button")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_its_open_panels_keep_nobody_out(project: Project, opens: Opens, scheme: Scheme) -> None:
    unknown(project)
    window = opens(scheme=scheme, phone=scheme == "dark")
    for way in ("The call took effect", "The call failed", "Send again"):
        act(window, way)
        expect(card_of(window).get_by_role("button", name="Back")).to_be_visible()
        assert window.serious_findings() == []
        window.page.keyboard.press("Escape")
        expect(button(card_of(window), way)).to_be_focused()
