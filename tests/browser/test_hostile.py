"""What others plant stays text: in every place where the console shows words of a model, a tool, a
customer or a colleague, the very characters are there (those that nobody can see as marks), no
script runs, nothing becomes an element, no request leaves, and nothing sticks out of the page.
"""

import json
from hashlib import sha256

import pytest
from playwright.sync_api import Locator, expect

from tests.api.project import Project, call
from tests.browser.conftest import Opens
from tests.browser.hostile import ALL, FOLDED, LONG, ONE, SHORT
from tests.browser.reading import read, read_all, unfold, unharmed, unmarked
from tests.browser.window import Window, button
from tests.support.models.chat_server import Answer, HttpError, calls, text
from tests.support.models.spoken import Text, Thought, says
from tests.support.services.client import Json
from tests.support.serving import Hold
from tests.support.tools.server import Behaviour

pytestmark = pytest.mark.timeout(180)


def events_as_shown(window: Window) -> list[Json]:
    """What is beside the run, as JSON again."""
    unfold(window, ".raw-list details")
    return [json.loads(one) for one in read_all(window.page.locator(".raw-list .json"))]


def arguments() -> Json:
    """Every text as a name, and every one as a value."""
    return {name: name for name in SHORT} | {f"v{at}": value for at, value in enumerate(ALL)}


def parameters() -> Json:
    """A schema with every text in every place of it that has words."""
    words = {name: {"type": "string", "title": name, "description": name} for name in SHORT}
    values = {f"v{at}": {"type": "string", "default": one} for at, one in enumerate(SHORT)}
    choice = {"type": "string", "enum": list(SHORT), "description": ONE}
    return {
        "type": "object",
        "title": ONE,
        "description": ONE,
        "properties": {**words, **values, "choice": choice, "times": {"type": "integer"}},
        "required": list(SHORT),
    }


def check_card(card: Locator, approval: Json) -> None:
    rows = card.locator(".card-body > .stack > dl.rows")
    given = {name: str(value) or '""' for name, value in approval["arguments"].items()}
    assert read_all(rows.locator(":scope > dt")) == list(given)
    assert read_all(rows.locator(":scope > dd")) == list(given.values())
    assert read(card.locator(".story > div").first) == ONE
    assert read(card.locator("details.digest > code")) == approval["digest"]
    narrowest = "(all) => Math.min(...all.map((one) => one.clientWidth))"
    assert rows.locator(":scope > dd").evaluate_all(narrowest) > 250
    sizes = card.locator("details.fold > summary").all_text_contents()
    for value in LONG:
        digest = sha256(value.encode()).hexdigest()[:16]
        assert any(f"sha256 {digest}" in one and size(value) in one for one in sizes)


def check_form(form: Locator, asked: Json) -> None:
    labels = read_all(form.locator(".field-head > label > bdi"))
    assert sorted(labels) == sorted(asked)
    assert sorted(read_all(form.locator(".help"))) == sorted([*filter(None, SHORT), ONE])
    assert [unmarked(one) for one in read_all(form.locator("option"))] == list(SHORT)


def test_a_call_is_shown_changed_and_sent_to_the_letter(project: Project, opens: Opens) -> None:
    tool = project.tool(
        "pay",
        Behaviour("return", {"said": ONE, ONE: 1}),
        approval="always",
        parameters=parameters(),
        description=ONE,
        strict=False,
    )
    assert tool["parameters"] == parameters()
    asked = arguments() | {"choice": SHORT[3], "times": 1}
    model = project.script(calls(call(1, "pay", json.dumps(asked))), text("Paid."))
    metadata = {"a": ONE, ONE: 1}
    run = project.settle(project.start(model=model, tools=["pay"], input=ONE, metadata=metadata))
    [approval] = project.client.approvals()
    window = opens()
    card = window.page.get_by_role("article")
    card.get_by_role("button", name="Load the complete input").click()
    expect(card.locator(".story > div").first).to_contain_text("before and after")
    card.get_by_role("button", name="Load").first.click()
    expect(card.get_by_role("button", name="Load")).to_have_count(0)
    assert approval["arguments"] == asked
    check_card(card, approval)
    unharmed(window)
    card.get_by_role("button", name="Edit arguments").click()
    form = card.locator(".form")
    expect(form).to_be_visible()
    check_form(form, asked)
    unharmed(window)
    form.get_by_label("times").fill("2")
    expect(card.locator(".change")).to_have_count(1)
    assert card.locator(".change").inner_text().split() == ["times", "1", "→", "2"]
    card.get_by_role("button", name="Approve with changes").click()
    expect(card).to_have_count(0)
    project.end(run)
    [hit] = project.hits("pay")
    assert hit.arguments == asked | {"times": 2}
    window.go(f"#/runs/{run['id']}", project.model_name())
    expect(window.page.get_by_text("Paid.").first).to_be_visible()
    assert events_as_shown(window) == project.client.events(run["id"])
    entry = window.page.locator(".entry.call")
    unfold(window, ".entry.call details")
    result = entry.locator("dl.rows").last
    assert read_all(result.locator("dt")) == ["said", ONE]
    assert read_all(result.locator("dd")) == [ONE, "1"]
    unharmed(window)


def test_what_models_and_tools_say_is_shown_as_it_is(project: Project, opens: Opens) -> None:
    project.tool("failing", Behaviour("is_error", message=ONE[-2000:]))
    project.tool("broken", Behaviour("raise", message=ONE[:2000]))
    project.tool("telling", Behaviour("raw", FOLDED))
    asked = json.dumps({"x": ONE})
    hold = Hold()
    model = project.script(
        calls(*(call(name, name, asked) for name in ("failing", "broken", "telling"))),
        Answer(text=FOLDED, pieces=40, hold=hold, hold_after=30),
    )
    run = project.start(model=model, tools=["failing", "broken", "telling"], input=FOLDED)
    hold.arrived()
    try:
        window = opens(at=f"#/runs/{run['id']}")
        said = window.page.locator(".entry.message .words").first
        expect(said).to_contain_text("ran(1)")
        streamed = read(said)
        assert len(streamed) > 1000
        assert FOLDED.startswith(streamed)
        unharmed(window)
    finally:
        hold.release()
    project.end(run)
    expect(window.page.locator(".entry.message .markdown")).to_contain_text("ran(1)")
    assert read(window.page.locator(".run-input .words").first) == FOLDED
    unfold(window, ".entry.call details")
    results = read_all(window.page.locator(".entry.call details.io:last-of-type .words"))
    items = [one for one in project.client.items(run["id"]) if one.get("type") == "tool_result"]
    assert results == [one["output"] for one in items]
    for result, told in zip(results, (ONE[-2000:], ONE[:2000], FOLDED), strict=True):
        assert told.strip() in result
    assert events_as_shown(window) == project.client.events(run["id"])
    unharmed(window)


def test_thoughts_refusals_and_failures_are_shown_as_they_are(
    project: Project, opens: Opens
) -> None:
    providers = project.running.providers
    assert providers is not None
    name = project.model_name("thinking")
    providers.anthropic.script(name, says(Thought(FOLDED), Text(ONE)))
    thinking = project.run(model=f"anthropic:{name}")
    refusing = project.run(Answer(refusal=FOLDED))
    failing = project.run(model=project.script(HttpError(400, FOLDED), name="failing"))
    window = opens(at=f"#/runs/{thinking['id']}")
    unfold(window, "details.reasoning")
    assert read(window.page.locator("details.reasoning .words")) == FOLDED
    expect(window.page.locator(".entry.message .markdown")).to_contain_text("ran(1)")
    assert events_as_shown(window) == project.client.events(thinking["id"])
    unharmed(window)
    window.go(f"#/runs/{refusing['id']}", project.model_name())
    expect(window.page.locator(".entry.message .markdown")).to_contain_text("ran(1)")
    assert events_as_shown(window) == project.client.events(refusing["id"])
    unharmed(window)
    assert "ran(1)" in failing["error"]["message"]
    window.go(f"#/runs/{failing['id']}", project.model_name("failing"))
    assert failing["error"]["message"] in read(window.page.locator(".outcome"))
    unharmed(window)


def test_arguments_that_no_reader_can_hold_are_refused_and_shown(
    project: Project, opens: Opens
) -> None:
    project.tool("pay", approval="always")
    broken = r'{"x": "a\u0000b\ud800c"}'
    run = project.end(project.start(calls(call(1, "pay", broken)), text("No."), tools=["pay"]))
    [_, result] = [one for one in project.client.items(run["id"]) if "call_id" in one]
    assert result["is_error"]
    window = opens(at=f"#/runs/{run['id']}")
    unfold(window, ".entry.call details")
    assert result["output"] in read(window.page.locator(".entry.call"))
    assert events_as_shown(window) == project.client.events(run["id"])
    unharmed(window)


def test_what_people_say_is_shown_as_it_is(project: Project, opens: Opens) -> None:
    slow = {"type": "string", "pattern": "^(a+)+$"}
    schema = {"type": "object", "properties": {"x": {"type": "string"}, "slow": slow}}
    project.tool("pay", approval="always", parameters=schema, strict=False)
    asked = calls(*(call(at, "pay", json.dumps({"x": str(at)})) for at in range(3)))
    run = project.settle(project.start(asked, text("Done."), tools=["pay"]))
    client = project.key("approvals:decide", "runs:read", name=ONE[:200])
    approvals = client.approvals(run_id=run["id"])
    window = opens()
    cards = window.page.get_by_role("article")
    expect(cards).to_have_count(3)
    client.decide(approvals[0]["id"], "reject", message=ONE)
    expect(cards).to_have_count(2)
    note = window.page.locator("#notes p")
    expect(note).to_contain_text("was rejected by")
    assert ONE[:200] in read(note)
    unharmed(window)
    cards.first.get_by_role("button", name="Edit arguments").press("Enter")
    cards.first.get_by_label("slow").fill("a" * 60 + "!")
    expect(cards.first.locator(".change")).to_have_count(1)
    button(cards.first, "Back").press("Enter")
    for name, what in (("Reject", "Reject the call"), ("Respond", "Send this result")):
        button(cards.first, name).press("Enter")
        cards.first.locator(".panel textarea").fill(FOLDED)
        unharmed(window)
        cards.first.locator(".panel textarea").fill(ONE)
        cards.first.get_by_role("button", name=what).press("Enter")
        expect(cards).to_have_count(1 if name == "Reject" else 0)
    project.end(run)
    typed = ONE.replace("\r", "\n")  # as a text field has it
    outputs = [one["output"] for one in project.client.items(run["id"]) if "output" in one]
    assert sorted(outputs) == sorted([ONE, typed.strip(), typed])
    window.go(f"#/runs/{run['id']}", project.model_name())
    expect(window.page.get_by_text("Done.", exact=True).first).to_be_visible()
    entries = read_all(window.page.locator(".entry.call"))
    assert sum(ONE[:200] in one for one in entries) == 3  # each what the model was told
    assert [one for one in entries if "Rejected" in one and ONE in one]
    unharmed(window)


def size(value: str) -> str:
    count = len(value.encode())
    return f"{count / 1024:.1f} KiB" if count >= 1024 else f"{count} bytes"
