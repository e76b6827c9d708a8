"""Starting a run in the form, and running one again with changes."""

import pytest
from playwright.sync_api import Page, expect

from tests.api.project import Project, call
from tests.browser.conftest import Opens
from tests.browser.window import Window
from tests.support.models.chat_server import calls, text
from tests.support.services.client import Json

pytestmark = pytest.mark.timeout(240)


def field(page: Page, label: str) -> str:
    return page.get_by_label(label, exact=True).input_value()


def started(window: Window, project: Project, heading: str) -> Json:
    """The run that the window has gone to."""
    expect(window.page.get_by_role("heading", name=heading, level=1)).to_be_visible()
    return project.client.get_run(window.page.url.rpartition("/")[2])


def test_an_agent_is_chosen_and_told_something(project: Project, opens: Opens) -> None:
    project.tool("look")
    model = project.script(text("Good morning."), name="clerk")
    agent = {"name": "clerk", "model": model, "tools": ["look"], "description": "Greets people."}
    project.client.call("POST", "/v1/agents", agent)
    window = opens(at="#/start")
    page = window.page
    page.get_by_label("Agent", exact=True).select_option("clerk")
    expect(page.get_by_text("Greets people.")).to_be_visible()
    expect(page.get_by_label("Model", exact=True)).to_be_hidden()
    page.get_by_label("Input", exact=True).fill("Good morning!")
    page.get_by_role("button", name="Start", exact=True).click()
    run = started(window, project, "clerk")
    assert run["agent"] == "clerk"
    expect(page.get_by_label("Outcome", exact=True)).to_contain_text("Completed")
    assert project.asked("clerk")[0].messages[-1]["content"] == "Good morning!"


def test_many_tools_are_searched_and_what_is_chosen_stays_in_sight(
    project: Project, opens: Opens
) -> None:
    for number in range(12):
        project.tool(f"tool_{number}", description=f"Does the thing {number}.")
    project.tool("pay_back", approval="always")
    window = opens(at="#/start")
    page = window.page
    boxes = page.locator(".pick:visible")
    expect(boxes).to_have_count(13)
    page.get_by_role("checkbox", name="tool_3").check()
    page.get_by_role("searchbox", name="Find tools").fill("pay")
    expect(boxes).to_have_count(2)
    expect(boxes.filter(has_text="pay_back")).to_contain_text("asks first")
    page.get_by_role("checkbox", name="pay_back").check()
    expect(page.get_by_text("2 chosen:")).to_contain_text("tool_3")
    model = project.script(text("Nothing to do."))
    page.get_by_label("Model", exact=True).fill(model)
    page.get_by_label("Input", exact=True).fill("go")
    page.keyboard.press("Control+Enter")
    started(window, project, model)
    expect(page.get_by_label("Outcome", exact=True)).to_contain_text("Completed")
    assert set(project.asked()[0].tool_names) == {"tool_3", "pay_back"}


def test_what_the_api_refuses_is_said_beside_its_field(project: Project, opens: Opens) -> None:
    window = opens(at="#/start")
    window.allow("422")
    page = window.page
    start = page.get_by_role("button", name="Start", exact=True)
    start.click()
    assert wrong(page, "Input") == "is required"
    expect(page.get_by_label("Input", exact=True)).to_be_focused()
    page.get_by_label("Input", exact=True).fill("go")
    page.get_by_label("Model", exact=True).fill("nobody:knows")
    start.click()
    expect(page.get_by_label("Model", exact=True)).to_have_attribute("aria-invalid", "true")
    assert "nobody" in wrong(page, "Model")
    assert wrong(page, "Input") == ""
    page.get_by_label("Model", exact=True).fill("offline:rules")
    page.get_by_text("Limits and context").click()
    page.get_by_label("Maximum turns").fill("5000")
    start.click()
    expect(page.get_by_label("Maximum turns")).to_be_focused()
    assert "50" in wrong(page, "Maximum turns")
    page.get_by_label("Maximum turns").fill("3")
    page.get_by_label("Other limits").fill('{"max_tokens": 0}')
    start.click()
    expect(page.get_by_label("Other limits")).to_be_focused()
    assert "max_tokens" in wrong(page, "Other limits")
    page.get_by_label("Other limits").fill("")
    page.get_by_label("Context", exact=True).fill('{"tier": ')
    start.click()
    expect(page.get_by_label("Context", exact=True)).to_be_focused()
    assert wrong(page, "Context") == "is not JSON yet"
    page.get_by_label("Context", exact=True).fill('{"tier": "gold", "limit": 10.50}')
    start.click()
    run = started(window, project, "offline:rules")
    assert run["context"] == {"tier": "gold", "limit": 10.5}


def wrong(page: Page, label: str) -> str:
    """What is said to be wrong with a field, where a screen reader looks for it."""
    return page.get_by_label(label, exact=True).evaluate(
        "one => one.getAttribute('aria-describedby').split(' ')"
        ".map((id) => document.getElementById(id)).find((p) => p.matches('.wrong')).textContent"
    )


def test_a_run_goes_on_from_what_its_session_has(project: Project, opens: Opens) -> None:
    model = project.script(text("Noted."), text("Seven."))
    window = opens(at="#/start")
    page = window.page
    page.get_by_label("Session", exact=True).select_option("A new session")
    page.get_by_label("Model", exact=True).fill(model)
    page.get_by_label("Input", exact=True).fill("My number is seven.")
    page.keyboard.press("Control+Enter")
    first = started(window, project, model)
    expect(page.get_by_label("Outcome", exact=True)).to_contain_text("Completed")
    page.get_by_role("link", name="Start another run").click()
    expect(page.get_by_label("Session", exact=True)).to_have_value(first["session_id"])
    page.get_by_label("Model", exact=True).fill(model)
    page.get_by_label("Input", exact=True).fill("What is my number?")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".entry").filter(has_text="Seven.")).to_be_visible()
    said = [message["content"] for message in project.asked()[-1].messages if message["content"]]
    assert said[-3:] == ["My number is seven.", "Noted.", "What is my number?"]


def test_a_run_is_run_again_with_changes(project: Project, opens: Opens) -> None:
    project.tool("look")
    model = project.script(calls(call(1, "look")), text("Seen."), text("Seen again."))
    about = {"instructions": "Look.", "limits": {"max_turns": 7, "max_tokens": 5000}}
    first = project.run(
        model=model, tools=["look"], input="Look here.", context={"tier": "gold"}, **about
    )
    window = opens(at=f"#/runs/{first['id']}")
    page = window.page
    page.get_by_role("link", name="Run again with changes").click()
    expect(page.get_by_role("textbox", name="Input", exact=True)).to_have_value("Look here.")
    assert field(page, "Model") == model
    expect(page.get_by_role("checkbox", name="look")).to_be_checked()
    assert '"gold"' in field(page, "Context")
    assert field(page, "Instructions") == "Look."
    assert field(page, "Maximum turns") == "7"
    page.get_by_label("Input", exact=True).fill("Look there.")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator(".entry").filter(has_text="Seen again.")).to_be_visible()
    again = project.client.get_run(page.url.rpartition("/")[2])
    assert again["id"] != first["id"]
    assert again["context"] == {"tier": "gold"}
    configs = [
        project.client.call("GET", f"/v1/runs/{one['id']}", include="config")["config"]
        for one in (first, again)
    ]
    assert configs[0] | {"input": None} == configs[1] | {"input": None}
    assert project.asked()[-1].messages[-1]["content"] == "Look there."


def test_a_conversation_is_run_again_as_the_messages_that_it_was(
    project: Project, opens: Opens
) -> None:
    said = [
        {"role": "user", "content": "My number is 7."},
        {
            "role": "assistant",
            "content": "I note it.",
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "note", "arguments": '{"number":7}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "noted"},
        {"role": "user", "content": "What is it?"},
    ]
    model = project.script(text("7."), text("Seven."))
    first = project.run(model=model, input=said)
    window = opens(at=f"#/start?from={first['id']}")
    page = window.page
    expect(page.get_by_role("checkbox", name="The input is JSON")).to_be_checked()
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator(".entry").filter(has_text="Seven.")).to_be_visible()
    one, two = project.asked()
    assert one.messages == two.messages


def test_a_key_that_may_only_read_is_told_so(opens: Opens) -> None:
    window = opens("runs:read", at="#/start")
    expect(window.page.get_by_text("requires the scope")).to_contain_text("runs:write")
    expect(window.page.get_by_role("button", name="Start", exact=True)).to_have_count(0)
