"""Deciding in the inbox: what the tool gets, what the model reads, what a form says while somebody
types."""

import json

import pytest
from playwright.sync_api import Locator, expect

from tests.api.project import Project, call, result_of
from tests.browser.conftest import Opens
from tests.browser.window import Scheme, Window, button
from tests.support.models.chat_server import calls, text
from tests.support.services.client import Json
from tests.support.tools.server import Behaviour

NUMBER = "12345678901234567890"
PARAMETERS: Json = {
    "type": "object",
    "properties": {
        "order": {"type": "string", "description": "The order's number.", "pattern": "^A-"},
        "amount": {"type": "number", "minimum": 0, "maximum": 500},
        "reason": {"type": "string", "enum": ["damaged", "late"]},
        "notify": {"type": "boolean"},
        "due": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
        "memo": {"type": ["string", "null"], "maxLength": 9},
        "ship": {"$ref": "#/$defs/address"},
        "lines": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"sku": {"type": "string"}, "count": {"type": "integer"}},
                "required": ["sku", "count"],
                "additionalProperties": False,
            },
        },
        "tags": {"type": "array", "uniqueItems": True, "items": {"enum": ["vip", "gift"]}},
        "pay": {
            "oneOf": [
                {
                    "type": "object",
                    "properties": {"kind": {"const": "card"}, "last4": {"type": "string"}},
                    "required": ["kind", "last4"],
                },
                {
                    "type": "object",
                    "properties": {
                        "kind": {"const": "iban"},
                        "iban": {"type": "string", "minLength": 5},
                        "bic": {"type": "string"},
                    },
                    "required": ["kind", "iban", "bic"],
                },
            ]
        },
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "id": {"type": "integer"},
        "anything": {},
    },
    "required": ["order", "amount"],
    "additionalProperties": False,
    "$defs": {
        "address": {
            "type": "object",
            "properties": {"city": {"type": "string", "minLength": 1}, "zip": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        }
    },
}
ARGUMENTS = (
    '{"order": "A-1", "amount": 89.0, "reason": "damaged", "due": null, "memo": "a\\nb",'
    ' "lines": [{"sku": "lamp", "count": 1}, {"sku": "bulb", "count": 2}], "tags": ["vip"],'
    ' "pay": {"kind": "card", "last4": "4242"}, "labels": {"shop": "Lisbon"},'
    f' "id": {NUMBER}, "anything": [1, {{"two": 2.50}}]}}'
)


def asks(project: Project, arguments: str = ARGUMENTS, **fields: object) -> Json:
    """A run that waits with one call of `refund`."""
    schema = {"approval": "always", "parameters": PARAMETERS, "strict": False, **fields}
    project.tool("refund", Behaviour("return", {"ok": True}), **schema)
    asked = calls(call(1, "refund", arguments))
    return project.settle(project.start(asked, text("Done."), tools=["refund"]))


def card_of(window: Window) -> Locator:
    return window.page.get_by_role("article")


def act(window: Window, name: str) -> Locator:
    card = card_of(window)
    button(card, name).click()
    return card


def editing(window: Window) -> Locator:
    card = act(window, "Edit arguments")
    expect(card.get_by_text("No changes yet.")).to_be_visible()
    return card


def send(window: Window) -> None:
    act(window, "Approve with changes")
    expect(card_of(window)).to_have_count(0)


def sent(project: Project, run: Json) -> Json:
    """The arguments that the tool got, once the run is over."""
    assert project.end(run)["output"] == "Done."
    [hit] = project.hits("refund")
    return hit.arguments


def letters(arguments: Json) -> str:
    """In which 89.0 is not 89."""
    return json.dumps(arguments, sort_keys=True)


def changes(card: Locator) -> list[str]:
    return [" ".join(one.split()) for one in card.locator(".change").all_inner_texts()]


# -- approve, reject, respond ---------------------------------------------------------------------


def test_approving_sends_exactly_what_was_shown(project: Project, opens: Opens) -> None:
    run = asks(project)
    window = opens()
    card = card_of(window)
    expect(card.get_by_text(NUMBER, exact=True)).to_be_visible()
    expect(card.get_by_text("89.0", exact=True)).to_be_visible()
    act(window, "Approve")
    expect(card).to_have_count(0)
    expect(window.page.get_by_text("refund was approved with your key.")).to_be_visible()
    assert letters(sent(project, run)) == letters(json.loads(ARGUMENTS))


def test_the_model_reads_why_its_call_was_rejected(project: Project, opens: Opens) -> None:
    run = asks(project)
    window = opens()
    card = act(window, "Reject")
    card.get_by_label("Reason").fill("Ask for a photograph first.")
    act(window, "Reject the call")
    expect(card).to_have_count(0)
    assert project.end(run)["output"] == "Done."
    assert result_of(project.asked(), "c1") == "Ask for a photograph first."
    assert project.hits("refund") == []


def test_a_text_is_given_in_the_tools_place(project: Project, opens: Opens) -> None:
    run = asks(project)
    window = opens()
    card = act(window, "Respond")
    card.get_by_label("Result for the model").fill('{"paid": 1}')
    act(window, "Send this result")
    expect(card).to_have_count(0)
    project.end(run)
    [ledger] = project.client.tool_calls(run["id"])
    assert (ledger["output"], ledger["reason"]) == ('{"paid": 1}', "responded")
    assert project.hits("refund") == []


def test_json_is_given_in_the_tools_place_once_it_is_json(project: Project, opens: Opens) -> None:
    run = asks(project)
    window = opens()
    card = act(window, "Respond")
    card.get_by_label("Result for the model").fill('{"paid":\n 1')
    card.get_by_label("JSON").check()
    expect(card.get_by_text("is not JSON yet")).to_be_visible()
    act(window, "Send this result")
    field = card.get_by_label("Result for the model")
    expect(field).to_have_attribute("aria-invalid", "true")
    field.fill(f'{{"paid": {NUMBER}}}')
    expect(card.get_by_text("is not JSON yet")).to_have_count(0)
    act(window, "Send this result")
    expect(card).to_have_count(0)
    project.end(run)
    [ledger] = project.client.tool_calls(run["id"])
    assert ledger["output"] == {"paid": int(NUMBER)}


def test_an_approval_that_is_remembered_lets_later_calls_of_the_run_through(
    project: Project, opens: Opens
) -> None:
    project.tool("pay", approval="always")
    first, second = call(1, "pay", '{"x":"1"}'), call(2, "pay", '{"x":"2"}')
    run = project.start(calls(first), calls(second), text("Done."), tools=["pay"])
    project.settle(run)
    window = opens()
    card = card_of(window)
    card.get_by_label("Scope of the decision").select_option("run")
    card.get_by_label("How long to remember the decision").select_option("3600")
    act(window, "Approve and remember")
    expect(card).to_have_count(0)
    assert project.end(run)["output"] == "Done."
    assert [hit.arguments["x"] for hit in project.hits("pay")] == ["1", "2"]


def test_only_the_same_arguments_may_be_remembered(project: Project, opens: Opens) -> None:
    project.tool("pay", approval="always")
    first, second = call(1, "pay", '{"x":"1"}'), call(2, "pay", '{"x":"2"}')
    run = project.start(calls(first), calls(second), text("Done."), tools=["pay"])
    project.settle(run)
    window = opens()
    card = card_of(window)
    card.get_by_label("Scope of the decision").select_option("run")
    card.get_by_label("only with these arguments").check()
    act(window, "Approve and remember")
    expect(card.get_by_text("2", exact=True)).to_be_visible()
    act(window, "Approve")
    expect(card).to_have_count(0)
    project.end(run)


def test_remembering_for_a_session_that_is_none_says_so(project: Project, opens: Opens) -> None:
    asks(project)
    window = opens()
    window.allow("422")
    card = card_of(window)
    card.get_by_label("Scope of the decision").select_option("session")
    act(window, "Approve and remember")
    expect(window.page.get_by_text("this run does not belong to a session")).to_be_visible()
    expect(card.get_by_role("button", name="Approve and remember")).to_be_enabled()


# -- editing --------------------------------------------------------------------------------------


def test_an_edit_says_what_is_wrong_shows_what_changes_and_sends_that(
    project: Project, opens: Opens
) -> None:
    run = asks(project)
    window = opens()
    card = editing(window)
    go = card.get_by_role("button", name="Approve with changes")
    expect(go).to_be_disabled()
    amount = card.get_by_role("textbox", name="amount")
    amount.fill("501")
    expect(card.get_by_text("must be 500 or less")).to_be_visible()
    expect(amount).to_have_attribute("aria-invalid", "true")
    expect(go).to_be_disabled()
    amount.fill("fifty")
    expect(card.get_by_text("must be a number, such as 12 or 0.5")).to_be_visible()
    amount.fill("50.10")
    expect(amount).to_have_attribute("aria-invalid", "false")
    card.get_by_role("textbox", name="order").fill("B-1")
    expect(card.get_by_text("must match ^A-")).to_be_visible()
    card.get_by_role("textbox", name="order").fill("A-2")
    expect(go).to_be_enabled()
    assert changes(card) == ["order A-1 → A-2", "amount 89.0 → 50.10"]
    card.get_by_label("Note").fill("Half of it.")
    send(window)
    changed = json.loads(ARGUMENTS) | {"order": "A-2", "amount": 50.1}
    assert letters(sent(project, run)) == letters(changed)
    assert "A person edited this call" in result_of(project.asked(), "c1")
    [approval] = project.client.call("GET", "/v1/approvals", run_id=run["id"])["data"]
    assert (approval["status"], approval["message"]) == ("edited", "Half of it.")


def test_while_a_panel_is_open_only_its_own_button_decides(project: Project, opens: Opens) -> None:
    run = asks(project)
    window = opens()
    card = card_of(window)
    card.get_by_label("Scope of the decision").select_option("run")
    buttons = card.locator(".actions button:visible")
    for way, decides in (("Reject", "Reject the call"), ("Respond", "Send this result")):
        act(window, way)
        expect(card.locator(".panel textarea")).to_be_visible()
        expect(buttons).to_have_text([decides, "Back"])
        act(window, "Back")
    expect(card.locator("button.primary:visible")).to_have_text(["Approve and remember"])
    editing(window)
    card.get_by_role("textbox", name="amount").fill("79")
    expect(card.locator("button.primary:visible")).to_have_text(["Approve with changes"])
    for name in ("Approve", "Approve and remember", "Reject", "Edit arguments", "Respond"):
        expect(button(card, name)).to_have_count(0)
    expect(card.get_by_label("Scope of the decision")).to_be_hidden()
    expect(card.get_by_text("An edit applies to this call only.")).to_be_visible()
    send(window)
    assert sent(project, run)["amount"] == 79


def test_an_edit_survives_a_reload_until_it_is_given_up(project: Project, opens: Opens) -> None:
    run = asks(project)
    window = opens()
    card = editing(window)
    card.get_by_role("textbox", name="amount").fill("79.10")
    card.get_by_label("Note").fill("Half of it.")
    window.page.reload()
    expect(card.get_by_label("Note")).to_have_value("Half of it.")
    assert changes(card) == ["amount 89.0 → 79.10"]
    act(window, "Back")
    window.page.reload()
    expect(button(card, "Approve")).to_be_visible()
    card = editing(window)
    card.get_by_role("textbox", name="amount").fill("79")
    send(window)
    assert sent(project, run)["amount"] == 79
    assert window.page.evaluate("sessionStorage.length") == 0


def test_the_note_of_an_edit_is_shown_in_the_run(project: Project, opens: Opens) -> None:
    run = asks(project)
    window = opens()
    card = editing(window)
    card.get_by_role("textbox", name="amount").fill("79")
    card.get_by_label("Note").fill("Half of it.")
    send(window)
    window.go(f"#/runs/{run['id']}")
    expect(window.page.locator(".decision")).to_contain_text("Half of it.")


def test_each_button_is_named_after_its_call(project: Project, opens: Opens) -> None:
    asks(project, '{"order": "A-1017", "amount": 89.0}')
    card = card_of(opens())
    expect(button(card, "Approve")).to_be_visible()
    names = [one.get_attribute("aria-label") for one in card.locator(".actions button").all()]
    ways = ("Approve", "Reject", "Edit arguments", "Respond")
    assert names == [f"{way}: refund A-1017, 89.0" for way in ways]


def test_every_shape_of_a_schema_has_its_field(project: Project, opens: Opens) -> None:
    run = asks(project)
    window = opens()
    card = editing(window)
    box = card.get_by_role
    box("combobox", name="reason").select_option("late")
    box("combobox", name="notify").select_option("true")
    due = card.locator(".field").filter(has_text="due")
    due.get_by_label("null").uncheck()
    box("textbox", name="due").fill("2026-02-30")
    expect(card.get_by_text("must be a date")).to_be_visible()
    box("textbox", name="due").fill("2026-02-28")
    ship = card.get_by_role("group", name="ship")
    ship.get_by_role("button", name="Add").click()
    expect(ship.get_by_text("is required")).to_be_visible()
    ship.get_by_role("textbox", name="city").fill("Lisbon")
    lines = card.get_by_role("group", name="lines")
    lines.get_by_role("button", name="Remove 1").click()
    lines.get_by_role("textbox", name="count").fill("3")
    lines.get_by_role("button", name="Add one").click()
    lines.get_by_role("textbox", name="sku").last.fill("wire")
    lines.get_by_role("textbox", name="count").last.fill("4")
    card.get_by_role("group", name="tags").get_by_label("gift").check()
    card.get_by_role("combobox", name="pay").select_option("iban")
    expect(card.locator(".wrong:visible")).to_have_text(["is required", "is required"])
    box("textbox", name="bic").fill("BIC1")
    box("textbox", name="iban").fill("PT5")
    expect(card.locator(".wrong:visible")).to_have_text(["must have at least 5 characters"])
    box("textbox", name="iban").fill("PT500")
    labels = card.get_by_role("group", name="labels")
    labels.get_by_role("button", name="Remove shop").click()
    labels.get_by_label("Name of a new entry").fill("region")
    labels.get_by_role("button", name="Add").click()
    labels.get_by_role("textbox", name="region").fill("south")
    card.get_by_role("textbox", name="id optional", exact=True).fill("7")
    card.get_by_role("button", name="Remove memo").click()
    assert window.serious_findings() == []
    send(window)
    assert sent(project, run) == {
        "order": "A-1",
        "amount": 89.0,
        "reason": "late",
        "notify": True,
        "due": "2026-02-28",
        "ship": {"city": "Lisbon"},
        "lines": [{"sku": "bulb", "count": 3}, {"sku": "wire", "count": 4}],
        "tags": ["vip", "gift"],
        "pay": {"kind": "iban", "iban": "PT500", "bic": "BIC1"},
        "labels": {"region": "south"},
        "id": 7,
        "anything": [1, {"two": 2.5}],
    }


def test_the_same_may_be_edited_as_json(project: Project, opens: Opens) -> None:
    run = asks(project)
    window = opens()
    card = editing(window)
    card.get_by_label("Edit as JSON").check()
    field = card.get_by_label("Arguments as JSON")
    assert json.loads(field.input_value()) == json.loads(ARGUMENTS)
    field.fill('{"order": "A-3", "amount": 1,\n "other": 1')
    expect(card.get_by_text("is not JSON yet: look at line 2")).to_be_visible()
    field.fill('{"order": "A-3", "amount": 1, "other": 1}')
    expect(card.get_by_text("other is unknown to the tool")).to_be_visible()
    field.fill('{"order": "A-3", "amount": 1}')
    card.get_by_label("Edit as JSON").uncheck()
    expect(card.get_by_role("textbox", name="order")).to_have_value("A-3")
    send(window)
    assert sent(project, run) == {"order": "A-3", "amount": 1}


def test_what_the_server_refuses_is_said_at_its_field(project: Project, opens: Opens) -> None:
    hard = {
        "type": "object",
        "properties": {"x": {"type": "string", "format": "hostname"}},
        "required": ["x"],
    }
    asks(project, '{"x": "a.example"}', parameters=hard)
    window = opens()
    window.allow("422")
    card = editing(window)
    field = card.get_by_role("textbox", name="x")
    field.fill("-")
    act(window, "Approve with changes")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(card.locator(".wrong:visible")).to_contain_text("hostname")


def test_a_tool_that_has_changed_since_is_edited_as_json(project: Project, opens: Opens) -> None:
    asks(project)
    project.client.call("PATCH", "/v1/tools/refund", {"description": "Another."})
    window = opens()
    card = editing(window)
    expect(card.get_by_text("the tool has changed since the call was requested")).to_be_visible()
    expect(card.get_by_label("Arguments as JSON")).to_be_visible()


def test_a_change_within_a_long_text_is_shown_in_its_place(project: Project, opens: Opens) -> None:
    before = "Dear Ada, " + "thank you for your patience. " * 4 + "Kind regards"
    one = {"type": "object", "properties": {"mail": {"type": "string"}}}
    asks(project, json.dumps({"mail": before}), parameters=one)
    card = editing(window := opens())
    card.get_by_role("textbox", name="mail").fill(before.replace("Kind", "Best"))
    expect(card.locator(".change del")).to_have_text("Kind")
    expect(card.locator(".change ins")).to_have_text("Best")
    assert window.serious_findings() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("way", ["Reject", "Edit arguments", "Respond"])
def test_open_panels_keep_nobody_out(
    project: Project, opens: Opens, scheme: Scheme, way: str
) -> None:
    asks(project, approval_expires_seconds=300)
    window = opens(scheme=scheme, phone=scheme == "dark")
    act(window, way)
    expect(card_of(window).get_by_role("button", name="Back")).to_be_visible()
    if way == "Reject":
        card_of(window).get_by_label("Scope of the decision").select_option("run")
    if way == "Edit arguments":
        card_of(window).get_by_role("textbox", name="amount").fill("-1")
        expect(card_of(window).get_by_text("must be 0 or more")).to_be_visible()
    assert window.serious_findings() == []
    assert window.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
