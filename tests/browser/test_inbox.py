"""The inbox: what waits stands there, in order, as it comes and goes, with all that a person needs
to decide about it."""

import json
from hashlib import sha256

from playwright.sync_api import Locator, Request, Route, expect

from tests.api.project import Project, at_once, call
from tests.browser.conftest import Opens
from tests.browser.window import Window, button
from tests.support.models.chat_server import Answer, calls, text
from tests.support.services.client import Json

ASKS = "refund"
CLICK_WHAT_MOVED_UP = """
new MutationObserver((changes) => {
  if (!changes.some((change) => change.removedNodes.length)) return;
  const button = document.querySelector("article button.primary");
  button.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true, detail: 1 }));
}).observe(document.querySelector(".cards"), { childList: true });
"""
"""A person's click that was meant for the call that stood there a moment before."""


def waiting(project: Project, name: str = "main", tool: str = ASKS, **fields: str) -> Json:
    """A run of a model of its own whose only call waits for a person."""
    model = project.script(calls(call(1, tool)), text("Done."), name=name)
    return project.settle(project.start(model=model, tools=[tool], **fields))


def approval_of(project: Project, run: Json) -> Json:
    [found] = project.client.call("GET", "/v1/approvals", run_id=run["id"])["data"]
    return found


def decide(project: Project, run: Json, decision: str = "approve") -> None:
    approval = approval_of(project, run)
    project.client.call("POST", f"/v1/approvals/{approval['id']}/decision", {"decision": decision})


def cards(window: Window) -> Locator:
    return window.page.get_by_role("article")


def card(window: Window, tool: str = ASKS) -> Locator:
    return cards(window).filter(has=window.page.get_by_role("heading", name=tool))


# -- what stands there ----------------------------------------------------------------------------


def test_an_approval_shows_what_would_be_sent_where_to_and_what_led_to_it(
    project: Project, opens: Opens
) -> None:
    project.tool("look")
    made = project.tool(ASKS, approval="always")
    asked = Answer("The lamp is broken.", calls=(call(2, ASKS, '{"x":"12345678901234567890"}'),))
    model = project.script(calls(call(1, "look")), asked, text("Done."))
    body = {"name": "clerk", "model": model, "instructions": "", "tools": ["look", ASKS]}
    project.client.call("POST", "/v1/agents", body)
    shop = project.key("runs:write", name="shop's key")
    run = shop.start_run_of("clerk", input="Where is my money?")
    project.settle(run)
    window = opens()
    shown = card(window)
    expect(shown).to_contain_text(f"{ASKS} version 1")
    expect(shown).to_contain_text(made["url"])
    expect(shown).to_contain_text("12345678901234567890")
    expect(shown).to_contain_text("shop's key")
    expect(shown).to_contain_text("Where is my money?")
    expect(shown).to_contain_text("clerk")
    expect(shown).to_contain_text("The lamp is broken.")
    shown.get_by_text("The conversation so far").click()
    expect(shown.get_by_text("result · clerk · turn 1")).to_be_visible()
    shown.get_by_text("Digest").click()
    expect(shown).to_contain_text(approval_of(project, run)["digest"])
    shown.get_by_role("link", name="run_…").click()
    expect(window.page).to_have_url(f"{window.url}/#/runs/{run['id']}")


def test_a_child_runs_call_says_who_started_the_first_run_and_the_way_down(
    project: Project, opens: Opens
) -> None:
    project.tool(ASKS, approval="always")
    below = project.script(calls(call(1, ASKS)), text("Done."), name="below")
    body = {"name": "refunds", "model": below, "instructions": "", "tools": [ASKS]}
    project.client.call("POST", "/v1/agents", body)
    project.client.call("POST", "/v1/tools", {"name": "ask", "type": "agent", "agent": "refunds"})
    above = project.script(calls(call(1, "ask", '{"input":"pay it back"}')), text("Done."))
    run = project.start(model=above, tools=["ask"], input="My lamp is broken.")
    project.settle(run)
    [child] = project.client.call("GET", "/v1/runs", parent_run_id=run["id"])["data"]
    shown = card(opens())
    expect(shown).to_contain_text("My lamp is broken.")
    expect(shown).to_contain_text("refunds")
    to = [link.get_attribute("href") for link in shown.get_by_role("link").all()]
    assert to == [f"#/runs/{run['id']}", f"#/runs/{child['id']}"]


def test_what_cannot_be_seen_is_shown(project: Project, opens: Opens) -> None:
    project.tool(ASKS, approval="always")
    hidden = json.dumps({"x": "safe\u202egnp.exe\u200b"})
    model = project.script(calls(call(1, ASKS, hidden)), text("Done."))
    project.settle(project.start(model=model, tools=[ASKS], input="go\u2066od"))
    window = opens()
    for mark in ("U+202E", "U+200B"):
        expect(card(window).locator(".card-body > .stack").get_by_text(mark)).to_be_visible()
    expect(card(window).get_by_text("goU+2066od", exact=True).first).to_be_visible()
    card(window).get_by_role("button", name="Edit arguments").click()
    expect(card(window).locator(".unseen")).to_contain_text("U+202E")


def test_large_arguments_are_loaded_on_demand_with_their_size_and_digest(
    project: Project, opens: Opens
) -> None:
    project.tool(ASKS, approval="always")
    value = "All of it. " * 20_000
    model = project.script(calls(call(1, ASKS, json.dumps({"x": value}))), text("Done."))
    project.settle(project.start(model=model, tools=[ASKS]))
    window = opens()
    shown = card(window)
    shown.get_by_role("button", name="Load 214.8 KiB").click()
    fold = shown.locator("dl").first.locator("details.fold")
    expect(fold).to_contain_text("214.8 KiB")
    expect(fold).to_contain_text(f"sha256 {sha256(value.encode()).hexdigest()[:16]}")
    whole = fold.locator(".v-string")
    expect(whole).to_be_visible()
    assert whole.text_content() == value
    assert window.serious_findings() == []


def test_what_expires_within_the_hour_comes_first_then_the_oldest(
    project: Project, opens: Opens
) -> None:
    for name, seconds in (("a", 86_400), ("b", 172_800), ("c", 3000), ("d", 1500)):
        project.tool(name, approval="always", approval_expires_seconds=seconds)
    for name in ("b", "a", "c", "d"):
        waiting(project, name, tool=name)
    window = opens()
    expect(window.page).to_have_title("(4) Inbox · Runward")
    names = cards(window).get_by_role("heading", level=2)
    expect(names).to_contain_text(["d", "c", "b", "a"])
    expect(cards(window).nth(0)).to_contain_text("expires in 24 min")
    expect(cards(window).nth(2)).to_contain_text("expires in 47 h")


# -- as it comes and goes -------------------------------------------------------------------------


def test_what_comes_appears_by_itself_and_is_told_once(project: Project, opens: Opens) -> None:
    project.tool(ASKS, approval="always")
    window = opens()
    expect(window.page.get_by_text("No calls are waiting for you.")).to_be_visible()
    expect(window.page).to_have_title("Inbox · Runward")
    waiting(project)
    expect(card(window)).to_be_visible()
    expect(window.page).to_have_title("(1) Inbox · Runward")
    expect(window.page.get_by_role("link", name="Inbox 1 waiting")).to_be_visible()
    expect(window.page.get_by_role("status").get_by_text("New: refund. 1 waiting.")).to_have_count(
        1
    )


def test_what_another_window_decides_goes_with_a_note(project: Project, opens: Opens) -> None:
    project.tool(ASKS, approval="always")
    run = waiting(project)
    one, other = opens(name="Ada"), opens(name="Grace")
    expect(card(one)).to_be_visible()
    card(other).get_by_role("button", name="Approve").click()
    expect(cards(other)).to_have_count(0)
    expect(cards(one)).to_have_count(0)
    expect(one.page.get_by_text(f"{ASKS} was approved by Grace")).to_be_visible()
    expect(one.page).to_have_title("Inbox · Runward")
    assert project.end(run)["output"] == "Done."


def test_a_decision_that_comes_too_late_says_who_won(project: Project, opens: Opens) -> None:
    project.tool(ASKS, approval="always")
    run = waiting(project)
    window = opens()
    window.allow("409")
    expect(card(window)).to_be_visible()
    window.page.route("**/v1/required_actions?*", lambda route: route.abort())
    window.allow("ERR_FAILED")
    decide(project, run, "reject")
    card(window).get_by_role("button", name="Approve").click()
    expect(window.page.get_by_text(f"Already decided: {ASKS} was rejected by test")).to_be_visible()
    expect(cards(window)).to_have_count(0)


def test_what_nobody_answered_in_time_goes_with_a_note(project: Project, opens: Opens) -> None:
    project.tool(ASKS, approval="always", approval_expires_seconds=2)
    run = waiting(project)
    window = opens()
    expect(window.page.get_by_text(f"{ASKS} was expired without a decision")).to_be_visible()
    expect(cards(window)).to_have_count(0)
    project.end(run)


def test_a_cancelled_runs_call_goes_with_a_note(project: Project, opens: Opens) -> None:
    project.tool(ASKS, approval="always")
    run = waiting(project)
    window = opens()
    expect(card(window)).to_be_visible()
    project.client.cancel(run["id"])
    expect(window.page.get_by_text("was cancelled, since its run has ended")).to_be_visible()


def test_what_is_shown_is_said_to_be_old_while_the_service_cannot_be_reached(
    project: Project, opens: Opens
) -> None:
    project.tool(ASKS, approval="always")
    waiting(project)
    window = opens()
    window.allow("ERR_INTERNET_DISCONNECTED")
    expect(card(window).get_by_role("button", name="Approve")).to_be_visible()
    window.page.context.set_offline(True)
    expect(window.page.get_by_text("The data shown may be out of date")).to_be_visible()
    expect(card(window)).to_be_visible()
    card(window).get_by_role("button", name="Approve").click()
    expect(
        window.page.get_by_text("The decision was not stored. The server cannot be reached.")
    ).to_be_visible()
    window.page.context.set_offline(False)
    expect(window.page.get_by_text("The data shown may be out of date")).to_have_count(0)
    expect(window.page.locator(".stale")).to_be_hidden()
    card(window).get_by_role("button", name="Approve").click()
    expect(cards(window)).to_have_count(0)


def test_an_answer_that_does_not_come_is_not_waited_for_for_ever(
    project: Project, opens: Opens
) -> None:
    project.tool(ASKS, approval="always")
    run = waiting(project)
    window = opens()
    expect(card(window)).to_be_visible()
    window.page.route("**/v1/required_actions?*", hold_back)
    expect(window.page.get_by_text("The data shown may be out of date")).to_be_visible()
    window.page.unroute("**/v1/required_actions?*", hold_back)
    decide(project, run)
    expect(cards(window)).to_have_count(0)
    expect(window.page.get_by_text("The data shown may be out of date")).to_have_count(0)


def hold_back(route: Route) -> None:
    """Neither lets it through nor refuses it."""


def test_twenty_are_shown_and_more_on_demand(project: Project, opens: Opens) -> None:
    project.tool(ASKS, approval="always")
    many = [call(number, ASKS, json.dumps({"x": str(number)})) for number in range(23)]
    project.settle(project.start(calls(*many), text("Done."), tools=[ASKS]))
    window = opens()
    expect(window.page).to_have_title("(23) Inbox · Runward")
    expect(cards(window)).to_have_count(20)
    window.page.get_by_role("button", name="Show 3 more").click()
    expect(cards(window)).to_have_count(23)
    expect(cards(window).nth(20)).to_be_focused()


# -- who may do what ------------------------------------------------------------------------------


def test_a_key_without_the_scope_looks_and_does_not_decide(project: Project, opens: Opens) -> None:
    project.tool(ASKS, approval="always")
    waiting(project)
    window = opens("runs:read")
    expect(card(window)).to_contain_text("This API key cannot decide approvals")
    expect(card(window).get_by_role("button")).to_have_count(0)


def test_a_key_that_only_decides_sees_who_asked_but_not_the_conversation(
    project: Project, opens: Opens
) -> None:
    project.tool(ASKS, approval="always")
    run = waiting(project, input="Where is my money?")
    window = opens("approvals:decide")
    window.allow("403")
    expect(card(window)).to_contain_text("Where is my money?")
    card(window).get_by_text("The conversation so far").click()
    expect(card(window)).to_contain_text("cannot read the conversation")
    card(window).get_by_role("button", name="Approve").click()
    expect(cards(window)).to_have_count(0)
    project.end(run)


# -- by keyboard ----------------------------------------------------------------------------------


def test_cards_are_walked_by_keyboard_and_no_second_key_decides_about_another(
    project: Project, opens: Opens
) -> None:
    project.tool(ASKS, approval="always")
    first, second = waiting(project, "one"), waiting(project, "two")
    window = opens()
    expect(cards(window)).to_have_count(2)
    keys = window.page.keyboard
    window.page.get_by_role("main").focus()
    keys.press("j")
    expect(cards(window).nth(0)).to_be_focused()
    keys.press("j")
    expect(cards(window).nth(1)).to_be_focused()
    keys.press("k")
    expect(cards(window).nth(0)).to_be_focused()
    cards(window).nth(0).get_by_role("button", name="Approve").focus()
    keys.press("Enter")
    keys.press("Enter")
    expect(cards(window)).to_have_count(1)
    expect(cards(window).nth(0)).to_be_focused()
    keys.press("Enter")
    project.end(first)
    assert approval_of(project, second)["status"] == "pending"


def test_a_panel_is_left_with_escape_and_focus_returns(project: Project, opens: Opens) -> None:
    project.tool(ASKS, approval="always")
    waiting(project)
    window = opens()
    opener = button(card(window), "Reject")
    opener.focus()
    window.page.keyboard.press("Enter")
    expect(card(window).get_by_label("Reason")).to_be_focused()
    window.page.keyboard.type("jk")
    window.page.keyboard.press("Escape")
    expect(card(window).get_by_label("Reason")).to_have_count(0)
    expect(opener).to_be_focused()


def test_a_half_written_reason_stays_while_other_calls_come_and_go(
    project: Project, opens: Opens
) -> None:
    project.tool(ASKS, approval="always")
    project.tool("soon", approval="always", approval_expires_seconds=1800)
    waiting(project, "one")
    window = opens()
    button(card(window), "Reject").click()
    window.page.keyboard.type("Too ")
    other = waiting(project, "two", tool="soon")
    expect(cards(window)).to_have_count(2)
    expect(cards(window).nth(0)).to_contain_text("soon")
    decide(project, other)
    expect(cards(window)).to_have_count(1)
    window.page.keyboard.type("late")
    expect(card(window).get_by_label("Reason")).to_have_value("Too late")


def test_what_is_typed_stays_where_it_is_when_its_card_moves_up(
    project: Project, opens: Opens
) -> None:
    project.tool("later", approval="always", approval_expires_seconds=172_800)
    project.tool(ASKS, approval="always", approval_expires_seconds=3_604)
    waiting(project, "one", tool="later")
    waiting(project, "two")
    window = opens()
    expect(cards(window).nth(1)).to_contain_text(ASKS)
    button(card(window), "Reject").click()
    window.page.keyboard.type("Too ")
    expect(cards(window).nth(0)).to_contain_text(ASKS)  # it now expires within the hour
    window.page.keyboard.type("late")
    expect(card(window).get_by_label("Reason")).to_have_value("Too late")


def test_a_click_right_after_the_list_has_moved_is_not_taken(
    project: Project, opens: Opens
) -> None:
    project.tool(ASKS, approval="always")
    first, second = waiting(project, "one"), waiting(project, "two")
    window = opens()
    expect(cards(window).get_by_role("button", name="Approve")).to_have_count(2)
    window.page.evaluate(CLICK_WHAT_MOVED_UP)
    decide(project, first)
    expect(window.page.get_by_text("The list has just changed")).to_be_visible()
    expect(cards(window)).to_have_count(1)
    assert approval_of(project, second)["status"] == "pending"


def test_a_double_click_decides_once(project: Project, opens: Opens) -> None:
    project.tool(ASKS, approval="always")
    runs = at_once(2, lambda number: waiting(project, f"m{number}"))
    window = opens()
    expect(cards(window)).to_have_count(2)
    sent: list[str] = []

    def count(route: Route, request: Request) -> None:
        sent.append(request.url)
        route.continue_()

    window.page.route("**/decision", count)
    cards(window).nth(0).get_by_role("button", name="Approve").dblclick()
    expect(cards(window)).to_have_count(1)
    assert len(sent) == 1
    pending = [run for run in runs if approval_of(project, run)["status"] == "pending"]
    assert len(pending) == 1
