"""The page of one run: what happens is drawn as it happens, and what a person may do about it."""

import json

import pytest
from playwright.sync_api import Locator, expect

from tests.api.project import ALL_SCOPES, Project, call, types_of
from tests.browser.conftest import Opens
from tests.browser.window import Scheme, Window
from tests.support.models.chat_server import Answer, HttpError, calls, text
from tests.support.services.client import Json
from tests.support.serving import Hold
from tests.support.tools.server import Behaviour

pytestmark = pytest.mark.timeout(240)

DOT = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9"
    "awAAAABJRU5ErkJggg=="
)
SCHEMES: list[Scheme] = ["light", "dark"]


def watch(opens: Opens, run: Json, *scopes: str, scheme: Scheme = "light") -> Window:
    window = opens(*scopes, at=f"#/runs/{run['id']}", scheme=scheme)
    expect(window.page.get_by_role("heading", level=1)).to_be_visible()
    return window


def entry(window: Window, words: str) -> Locator:
    return window.page.locator(".timeline .entry").filter(has_text=words)


def outcome(window: Window) -> Locator:
    return window.page.get_by_label("Outcome", exact=True)


def test_a_call_is_seen_while_the_model_writes_it_and_a_broken_answer_goes(
    project: Project, opens: Opens
) -> None:
    project.tool("pay", approval="always")
    written, silent, again = Hold(), Hold(), Hold()
    broken = Answer(text="Never mind me", pieces=2, hold=written, hold_after=3, cut_after=3)
    paying = (call(1, "pay", '{"x":"seven"}'),)
    asking = Answer(
        text="I pay.", calls=paying, pieces=2, hold=silent, hold_after=1, hold_end=again
    )
    run = project.start(broken, asking, text("Paid."), tools=["pay"])
    window = watch(opens, run)
    written.arrived()
    expect(entry(window, "Never mind me")).to_be_visible()
    written.release()
    silent.arrived()
    expect(entry(window, "Never mind me")).to_have_count(0)
    silent.release()
    again.arrived()
    expect(entry(window, "I pay.")).to_be_visible()
    call_entry = entry(window, "The model is writing this call")
    expect(call_entry).to_contain_text('{"x":"seven"}')
    again.release()
    expect(call_entry).to_have_count(0)
    expect(entry(window, "Waiting for a decision")).to_contain_text("seven")
    expect(entry(window, "is called again")).to_be_visible()


def test_calls_of_one_turn_have_bars_over_the_same_time(project: Project, opens: Opens) -> None:
    project.tool("slow", Behaviour(hold=project.suffix))
    project.tool("quick")
    run = project.start(
        calls(call(1, "slow"), call(2, "quick")), text("Both."), tools=["slow", "quick"]
    )
    window = watch(opens, run)
    expect(entry(window, "quick").get_by_text("Done")).to_be_visible()
    expect(entry(window, "slow").get_by_text("Running")).to_be_visible()
    project.tools.hold(project.suffix).release()
    expect(outcome(window)).to_contain_text("2 turns · 2 calls · 140 tokens · no price known")
    widths = {
        name: entry(window, name)
        .locator(".bar.attempt")
        .evaluate("bar => [bar.offsetLeft, bar.offsetWidth, bar.parentElement.offsetWidth]")
        for name in ("slow", "quick")
    }
    assert widths["slow"][1] > widths["quick"][1] > 0
    assert widths["slow"][0] + widths["slow"][1] <= widths["slow"][2] + 1
    expect(window.page.locator(".axis .tick").first).to_have_text("0")
    strip = window.page.get_by_label("Timing")
    for part in ("Model", "Tools"):
        expect(strip.get_by_role("listitem").filter(has_text=part)).to_be_visible()


def test_an_entry_and_its_events_point_at_each_other(project: Project, opens: Opens) -> None:
    project.tool("look")
    run = project.run(calls(call(1, "look", '{"x":"here"}')), text("Seen."), tools=["look"])
    window = watch(opens, run)
    page = window.page
    rows = page.locator(".raw-list > details")
    expect(rows).to_have_count(run["last_sequence"])
    entry(window, "look").get_by_role("button", name="3 events").press("Enter")
    chosen = page.locator(".raw-list > details.chosen")
    expect(chosen.locator("code")).to_have_text(
        ["tool_call.created", "tool_call.started", "tool_call.completed"]
    )
    expect(page.locator(".entry.chosen")).to_contain_text("look")
    said = rows.filter(has_text="message.completed")
    said.locator("summary").press("Enter")
    expect(said.locator("pre")).to_contain_text('"text": "Seen."')
    expect(page.locator(".entry.chosen")).to_contain_text("Seen.")
    expect(chosen).to_have_count(1)


def test_a_run_below_is_folded_into_its_call(project: Project, opens: Opens) -> None:
    project.tool("pay", approval="always")
    model = project.script(calls(call(1, "pay")), text("Paid."), name="cashier")
    project.client.call("POST", "/v1/agents", {"name": "cashier", "model": model, "tools": ["pay"]})
    ask = {"name": "ask_cashier", "type": "agent", "agent": "cashier"}
    project.client.call("POST", "/v1/tools", ask)
    run = project.start(
        calls(call(1, "ask_cashier", '{"input":"Pay it."}')), text("Done."), tools=["ask_cashier"]
    )
    window = watch(opens, run)
    child = window.page.locator(".entry details.child")
    # It opens by itself, since a person is asked below.
    expect(child).to_have_attribute("open", "")
    child.get_by_role("button", name="Approve").click()
    expect(outcome(window)).to_contain_text("Completed")
    expect(child.locator("summary").first).to_contain_text("2 turns, 1 call")
    child.locator("summary").first.click()
    expect(child.get_by_role("heading", name="Turn 1")).to_be_hidden()


def test_what_a_run_below_waits_for_is_settled_in_place(project: Project, opens: Opens) -> None:
    project.tool("pay", Behaviour("reset"), on_unknown="ask")
    model = project.script(calls(call(1, "pay")), text("Paid."), name="cashier")
    project.client.call("POST", "/v1/agents", {"name": "cashier", "model": model, "tools": ["pay"]})
    ask = {"name": "ask_cashier", "type": "agent", "agent": "cashier"}
    project.client.call("POST", "/v1/tools", ask)
    asking = calls(call(1, "ask_cashier", '{"input":"Pay it."}'))
    run = project.start(asking, text("Done."), tools=["ask_cashier"])
    window = watch(opens, run)
    unknown = window.page.locator("details.child").get_by_label("Outcome unknown: pay")
    unknown.get_by_role("button", name="The call failed").click()
    unknown.get_by_role("textbox").fill("the bank was closed")
    unknown.get_by_role("button", name="Report a failure").click()
    expect(outcome(window)).to_contain_text("Completed")
    assert "the bank was closed" in project.asked("cashier")[-1].results[-1][1]


def test_an_open_run_is_cancelled_now_or_after_its_turn(project: Project, opens: Opens) -> None:
    hold = Hold()
    project.tool("slow", Behaviour(hold=project.suffix), Behaviour())
    at_once = project.start(Answer("Too long", hold=hold, hold_after=2))
    model = project.script(calls(call(1, "slow")), text("not asked"), name="after")
    later = project.start(model=model, tools=["slow"])
    hold.arrived()
    window = watch(opens, at_once)
    window.page.get_by_role("button", name="Cancel…").click()
    window.page.get_by_role("button", name="Cancel now").click()
    expect(outcome(window)).to_contain_text("Cancelled")
    project.wait_for_hits("slow")
    window.go(f"#/runs/{later['id']}")
    window.page.get_by_role("button", name="Cancel…").press("Enter")
    expect(window.page.get_by_role("button", name="Back")).to_be_focused()
    window.page.get_by_role("button", name="Stop after this turn").press("Enter")
    expect(window.page.get_by_text("The run stops after this turn.")).to_be_visible()
    project.tools.hold(project.suffix).release()
    expect(outcome(window)).to_contain_text("Cancelled")
    expect(entry(window, "slow")).to_contain_text("Done")


def test_a_run_at_its_limit_is_continued_from_its_end(project: Project, opens: Opens) -> None:
    project.tool("look")
    model = project.script(calls(call(1, "look")), text("Found it."))
    run = project.run(model=model, tools=["look"], limits={"max_turns": 1})
    window = watch(opens, run)
    window.allow("422")
    expect(outcome(window)).to_contain_text("What to do: Continue the run with more turns")
    window.page.get_by_label("More turns").fill("200")
    window.page.get_by_role("button", name="Continue").click()
    expect(outcome(window).get_by_role("alert")).to_contain_text("max_turns")
    window.page.get_by_label("More turns").fill("2")
    window.page.get_by_role("button", name="Continue").click()
    expect(window.page.get_by_role("link", name="continues this earlier run")).to_be_visible()
    expect(outcome(window)).to_contain_text("Completed")
    expect(entry(window, "Found it.")).to_be_visible()


def test_a_message_is_sent_to_an_open_run_and_shown_in_it(project: Project, opens: Opens) -> None:
    project.tool("pay", approval="always")
    run = project.start(calls(call(1, "pay")), text("Paid, and told them."), tools=["pay"])
    window = watch(opens, run)
    field = window.page.get_by_role("textbox", name="Send a message to the run")
    field.fill("And tell them.")
    field.press("Control+Enter")
    expect(field).to_have_value("")
    received = entry(window, "The run received a message")
    expect(received).to_contain_text("And tell them.")
    window.page.get_by_role("button", name="Approve").click()
    expect(outcome(window)).to_contain_text("Completed")
    assert project.asked()[-1].messages[-1]["content"] == "And tell them."
    expect(field).to_have_count(0)


def test_what_is_typed_survives_what_happens_meanwhile(project: Project, opens: Opens) -> None:
    project.tool("pay", approval="always")
    asked = calls(call(1, "pay", '{"x":"one"}'), call(2, "pay", '{"x":"two"}'))
    run = project.start(asked, text("Done."), tools=["pay"])
    window = watch(opens, run)
    first, second = entry(window, "one"), entry(window, "two")
    second.get_by_role("button", name="Reject").click()
    reason = second.get_by_role("textbox")
    reason.fill("not the second")
    one, two = (
        next(
            approval
            for approval in project.client.call("GET", "/v1/approvals", run_id=run["id"])["data"]
            if approval["call_id"] == call_id
        )
        for call_id in ("c1", "c2")
    )
    project.client.decide(one["id"], "approve")
    expect(first.get_by_text("Done")).to_be_visible()
    expect(reason).to_have_value("not the second")
    expect(reason).to_be_focused()
    second.get_by_role("button", name="Reject the call").click()
    expect(outcome(window)).to_contain_text("Completed")
    assert project.client.call("GET", f"/v1/approvals/{two['id']}")["message"] == "not the second"


def test_an_unknown_outcome_is_settled_in_place(project: Project, opens: Opens) -> None:
    project.tool("pay", Behaviour("reset"), on_unknown="ask")
    run = project.start(calls(call(1, "pay")), text("It was paid."), tools=["pay"])
    window = watch(opens, run)
    asking = window.page.get_by_label("Outcome unknown: pay")
    asking.get_by_role("button", name="The call took effect").click()
    asking.get_by_role("textbox").first.fill("paid 1")
    asking.get_by_role("button", name="Record as completed").click()
    expect(outcome(window)).to_contain_text("Completed")
    expect(entry(window, "a person recorded the outcome")).to_contain_text("paid 1")


def test_a_failed_run_says_why_and_what_to_do(project: Project, opens: Opens) -> None:
    run = project.run(HttpError(401, "Incorrect API key provided"))
    assert run["status"] == "failed"
    window = watch(opens, run)
    expect(outcome(window)).to_contain_text(run["error"]["code"])
    expect(outcome(window)).to_contain_text("What to do")
    expect(window.page.get_by_role("button", name="Cancel…")).to_have_count(0)


def test_a_long_run_shows_the_rows_near_the_window(project: Project, opens: Opens) -> None:
    project.tool("step")
    steps = [
        Answer(text=f"Step {n}.", calls=(call(n, "step", json.dumps({"x": str(n)})),))
        for n in range(1, 31)
    ]
    run = project.run(*steps, text("All steps."), tools=["step"], limits={"max_turns": 40})
    window = watch(opens, run)
    page = window.page
    expect(outcome(window)).to_contain_text("All steps.")
    expect(page.get_by_text("Step 2.", exact=True)).to_be_visible()
    expect(page.get_by_text("Step 30.", exact=True)).to_have_count(0)
    # An event of a turn that is far away brings its entry into sight.
    page.locator(".raw-scroll").evaluate("(one) => { one.scrollTop = one.scrollHeight; }")
    expect(page.locator(".raw-list summary").filter(has_text="run.completed")).to_be_visible()
    page.locator(".raw-list summary").filter(has_text="message.completed").last.click()
    expect(page.locator(".timeline .entry.chosen")).to_contain_text("All steps.")
    expect(page.get_by_text("Step 2.", exact=True)).to_have_count(0)


def test_the_answer_comes_first_and_is_rendered(project: Project, opens: Opens) -> None:
    answer = "# Done\n\n" + "A **long** answer with `code`. " * 60
    answer += f"\n\n![dot](data:image/png;base64,{DOT})\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    run = project.run(text(answer))
    window = watch(opens, run)
    expect(outcome(window).get_by_role("heading", name="Done")).to_be_visible()
    expect(outcome(window).locator("strong").first).to_have_text("long")
    expect(outcome(window).get_by_role("cell", name="2")).to_be_visible()
    drawn = "(one) => one.decode().then(() => one.naturalWidth)"
    assert outcome(window).get_by_role("img", name="dot").evaluate(drawn) == 1
    assert window.serious_findings() == []
    follows = "(one) => one.compareDocumentPosition(document.querySelector('.run-input')) & 4"
    assert outcome(window).evaluate(follows)


def test_a_key_that_may_only_read_is_offered_nothing_else(project: Project, opens: Opens) -> None:
    project.tool("pay", approval="always")
    run = project.start(calls(call(1, "pay")), text("Paid."), tools=["pay"])
    window = watch(opens, run, "runs:read")
    expect(entry(window, "This API key cannot decide approvals")).to_be_visible()
    expect(window.page.get_by_role("button", name="Cancel…")).to_have_count(0)
    expect(window.page.get_by_role("textbox")).to_have_count(0)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_nobody_is_kept_out_of_a_run_that_works_waits_or_has_ended(
    project: Project, opens: Opens, scheme: Scheme
) -> None:
    project.tool("pay", approval="always")
    hold = Hold()
    working = project.start(Answer("A long answer", hold=hold, hold_after=3))
    asking = Answer(text="I pay.", calls=(call(1, "pay"),))
    waiting = project.start(model=project.script(asking, name="waits"), tools=["pay"])
    failing = project.script(HttpError(401, "no"), name="fails")
    failed = project.run(model=failing)
    hold.arrived()
    window = watch(opens, working, *ALL_SCOPES, scheme=scheme)
    expect(entry(window, "A long")).to_be_visible()
    assert window.serious_findings() == []
    window.go(f"#/runs/{waiting['id']}")
    window.page.get_by_role("button", name="Cancel…").click()
    expect(window.page.get_by_role("button", name="Approve")).to_be_visible()
    assert window.serious_findings() == []
    window.go(f"#/runs/{failed['id']}")
    expect(outcome(window)).to_contain_text("What to do")
    window.page.locator(".raw-list summary").first.click()
    assert window.serious_findings() == []
    hold.release()
    project.end(working)
    window.go(f"#/runs/{working['id']}")
    expect(outcome(window)).to_contain_text("Completed")
    assert window.serious_findings() == []
    assert types_of(project.client.events(working["id"]))[-1] == "run.completed"


def test_a_run_whose_content_was_erased_says_so(project: Project, opens: Opens) -> None:
    project.tool("pay")
    run = project.run(calls(call(1, "pay")), text("Paid."), tools=["pay"])
    window = watch(opens, run)
    expect(outcome(window)).to_contain_text("Paid.")
    project.client.request("DELETE", f"/v1/runs/{run['id']}")
    window.page.reload()
    expect(window.page.get_by_label("Input", exact=True)).to_contain_text("Content erased")
    expect(outcome(window)).to_contain_text("Completed")
    expect(outcome(window)).not_to_contain_text("The output is empty")
    expect(entry(window, "pay")).to_be_visible()
    expect(window.page.get_by_role("link", name="Run again with changes")).to_have_count(0)
    assert window.serious_findings() == []
