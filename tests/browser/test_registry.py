"""Tools, agents and keys in the console: registered, tried, looked at, revoked."""

import json
import re

from playwright.sync_api import expect

from tests.api.project import ALL_SCOPES, Project, call
from tests.browser.conftest import Opens
from tests.support.models.chat_server import calls, text
from tests.support.tools.server import Behaviour

REFUSED = "Failed to load resource"
"""What Chromium writes for each answer of 400 and above."""
PARAMETERS = {
    "type": "object",
    "properties": {"x": {"type": "string"}},
    "required": ["x"],
    "additionalProperties": False,
}


def test_a_tool_is_registered_with_a_form_that_says_what_is_wrong(
    project: Project, opens: Opens
) -> None:
    window = opens(at="#/tools")
    page = window.page
    page.get_by_role("link", name="Register a tool").click()
    register = page.get_by_role("button", name="Register a tool")
    register.click()
    expect(page.get_by_text("is required", exact=True)).to_be_visible()
    expect(page.get_by_label("Name")).to_be_focused()
    page.get_by_label("Name").fill("pay")
    expect(page.get_by_text("is required", exact=True)).not_to_be_visible()
    parameters = page.get_by_label("Parameters")
    for written, wrong in (
        ('{"type": ', "is not JSON yet"),
        ("[]", "must be a JSON object"),
        ('{"type": "number"}', "must be the schema of an object"),
    ):
        parameters.fill(written)
        expect(page.get_by_text(wrong)).to_be_visible()
    parameters.fill(json.dumps(PARAMETERS))
    page.get_by_label("Approval is required").select_option("If a rule requires it")
    page.get_by_label("The rule, in CEL").fill("args.x ==")
    page.get_by_label("All other fields, as JSON").fill('{"retry": {"max_attempts": 99}}')
    window.allow(REFUSED)
    register.click()
    expect(page.get_by_text("Fix the highlighted fields")).to_contain_text("retry.max_attempts")
    page.get_by_label("All other fields, as JSON").fill('{"retry": {"max_attempts": 2}}')
    register.click()
    expect(page.locator("#f-rule-wrong")).not_to_be_empty()
    expect(page.locator("#f-url-wrong")).to_contain_text("is required")
    page.get_by_label("URL").fill(project.tools.tool(project.tool_key("pay")))
    page.get_by_label("The rule, in CEL").fill("args.x == 'much'")
    register.click()
    expect(page.locator("code.secret")).to_have_text(re.compile(r"^whsec_.{44}$"))
    assert window.serious_findings() == []
    page.get_by_role("link", name="Open the tool").click()
    expect(page.get_by_role("heading", name="pay", level=1)).to_be_visible()
    registered = project.client.call("GET", "/v1/tools/pay")
    assert registered["approval"] == {"when": "args.x == 'much'"}
    assert registered["parameters"] == PARAMETERS
    assert (registered["retry"]["max_attempts"], registered["idempotent"]) == (2, False)


def test_a_tool_is_tried_and_its_calls_appear_as_they_are_made(
    project: Project, opens: Opens
) -> None:
    project.tool("pay")
    page = opens(at="#/tools/pay").page
    recent = page.get_by_role("region", name="Recent calls")
    expect(recent.get_by_text("Runs have not called this tool yet.")).to_be_visible()
    trial = page.get_by_role("region", name="Test the tool")
    trial.get_by_label("x", exact=True).fill("little")
    trial.get_by_role("button", name="Call the tool").click()
    expect(trial.get_by_text("pay(little)")).to_be_visible()
    [hit] = project.hits("pay")
    assert hit.arguments == {"x": "little"}

    run = project.run(calls(call(1, "pay")), text("Paid."), tools=["pay"])
    link = recent.get_by_role("link", name=run["id"][-8:])
    expect(link).to_be_visible()
    expect(recent.get_by_text("The only call did not fail.")).to_be_visible()
    row = recent.get_by_role("row").filter(has_text=run["id"][-8:])
    expect(row).to_contain_text(re.compile(r"Completed.*\d m?s"))
    link.click()
    expect(page).to_have_url(re.compile(run["id"]))


def test_failed_calls_say_why_and_older_ones_are_loaded(project: Project, opens: Opens) -> None:
    project.tool("pay", Behaviour("raise", status=503), Behaviour())
    asked = [
        calls(*(call(f"{turn}-{n}", "pay", f'{{"x":"{turn}-{n}"}}') for n in range(7)))
        for turn in range(3)
    ]
    project.run(*asked, text("done"), tools=["pay"])
    recent = opens(at="#/tools/pay").page.get_by_role("region", name="Recent calls")
    expect(recent.get_by_text("1 of the last 21 calls failed.")).to_be_visible()
    expect(recent.locator("tbody tr")).to_have_count(20)
    recent.get_by_role("button", name="Show older entries").click()
    expect(recent.locator("tbody tr")).to_have_count(21)
    failed = recent.get_by_role("row").filter(has_text="Failed")
    expect(failed).to_contain_text("tool_error")
    expect(failed).to_contain_text("503")


def test_a_key_that_may_not_see_runs_sees_the_tool_alone(project: Project, opens: Opens) -> None:
    project.tool("pay")
    window = opens("tools:write", at="#/tools/pay")
    window.allow(REFUSED)
    expect(window.page.get_by_text("This API key cannot list calls")).to_be_visible()
    expect(window.page.get_by_role("region", name="Test the tool")).to_be_visible()


def test_a_list_is_narrowed_down_while_typing_and_its_address_can_be_shared(
    project: Project, opens: Opens
) -> None:
    for name, description in (("pay", "Pays."), ("refund", "Pays back."), ("ship", "Ships.")):
        project.tool(name, description=description)
    window = opens(at="#/tools")
    page = window.page
    expect(page.get_by_role("listitem")).to_have_count(3)
    page.get_by_label("Find").fill("PAYS")
    expect(page.get_by_role("listitem")).to_have_count(2)
    expect(page.get_by_text("2 of 3")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Find")).to_have_value("PAYS")
    expect(page.get_by_role("listitem")).to_have_count(2)


def test_an_agent_is_registered_and_its_versions_say_what_changed(
    project: Project, opens: Opens
) -> None:
    project.tool("pay")
    window = opens(at="#/agents")
    page = window.page
    page.get_by_role("link", name="Register an agent").click()
    page.get_by_label("Name").fill("clerk")
    page.get_by_label("Instructions").fill("Be kind.")
    page.get_by_label("pay").check()
    page.get_by_role("button", name="Register an agent").click()
    page.get_by_role("link", name="Open the agent").click()
    expect(page.get_by_role("heading", name="clerk", level=1)).to_be_visible()
    made = project.client.call("GET", "/v1/agents/clerk")
    assert (made["model"], made["tools"], made["instructions"]) == (
        "offline:rules",
        ["pay"],
        "Be kind.",
    )
    project.client.call("PATCH", "/v1/agents/clerk", {"instructions": "Be brief."})
    page.reload()
    versions = page.get_by_role("region", name="Versions")
    versions.get_by_text("v2").click()
    expect(versions.locator("del")).to_have_text("Be kind.")
    expect(versions.locator("ins")).to_have_text("Be brief.")
    expect(versions.get_by_text("registered")).to_be_visible()
    assert window.serious_findings() == []


def test_what_has_no_field_is_registered_as_json(project: Project, opens: Opens) -> None:
    page = opens(at="#/new-agent").page
    page.get_by_label("Name").fill("team")
    page.get_by_label("All other fields, as JSON").fill('{"limits": {"max_turns": 3}}')
    page.get_by_role("button", name="Register an agent").click()
    expect(page.get_by_role("link", name="Open the agent")).to_be_visible()
    assert project.client.call("GET", "/v1/agents/team")["limits"]["max_turns"] == 3


def test_a_form_that_is_sent_twice_makes_one_key(project: Project, opens: Opens) -> None:
    page = opens(*ALL_SCOPES, at="#/keys").page
    page.get_by_label("Name of the key").fill("twice")
    page.get_by_role("checkbox", name="Read runs, tools and approvals").check()
    page.get_by_role("button", name="Create the key").evaluate(
        "(button) => { button.form.requestSubmit(); button.form.requestSubmit(); }"
    )
    expect(page.locator("code.secret")).to_be_visible()
    expect(page.get_by_role("button", name="Create the key")).to_be_enabled()
    shown = project.key("admin").call("GET", "/v1/keys")["data"]
    assert [one["name"] for one in shown].count("twice") == 1


def test_a_key_is_made_shown_once_and_revoked(project: Project, opens: Opens) -> None:
    window = opens(*ALL_SCOPES, at="#/keys")
    page = window.page
    page.get_by_label("Name of the key").fill("night shift")
    page.get_by_role("checkbox", name="Read runs, tools and approvals").check()
    page.get_by_role("button", name="Create the key").click()
    secret = page.locator("code.secret")
    expect(secret).to_have_text(re.compile("^rw_"))
    key = secret.inner_text()
    with project.client_of(key) as other:
        assert other.call("GET", "/v1/runs")["data"] == []
    row = page.get_by_role("row").filter(has_text="night shift")
    expect(row).to_contain_text("runs:read")

    row.get_by_role("button", name="Revoke night shift").click()
    row.get_by_role("button", name="Keep the key").click()
    row.get_by_role("button", name="Revoke night shift").click()
    row.get_by_role("button", name="Revoke the key").click()
    expect(row).to_contain_text("revoked")
    expect(row.get_by_role("button")).to_have_count(0)
    shown = project.key("admin").call("GET", "/v1/keys")["data"]
    [revoked] = [one for one in shown if one["name"] == "night shift"]
    assert revoked["revoked_at"] is not None
    page.reload()
    expect(row).to_be_visible()
    expect(page.get_by_text(key)).to_have_count(0)
