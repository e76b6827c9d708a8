"""Schedules, webhook endpoints and budgets in the console."""

from playwright.sync_api import expect

from tests.api.project import ALL_SCOPES, Project
from tests.browser.conftest import Opens
from tests.support.models.chat_server import text

URL = "http://127.0.0.1:9/hooks"


def test_a_schedule_is_paused_and_resumed(project: Project, opens: Opens) -> None:
    run = {"model": "offline:rules", "input": "Report."}
    body = {"name": "Report", "cron": "0 7 * * *", "run": run}
    schedule = project.client.call("POST", "/v1/schedules", body)
    page = opens(at="#/schedules").page
    page.get_by_role("link", name="Report").click()
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Resume")).to_be_focused()
    path = f"/v1/schedules/{schedule['id']}"
    assert project.client.call("GET", path)["enabled"] is False
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_text("Active", exact=True)).to_be_visible()
    assert project.client.call("GET", path)["enabled"] is True


def test_a_delivery_is_shown_and_sent_again(project: Project, opens: Opens) -> None:
    admin = project.key(*ALL_SCOPES)
    endpoint = admin.call("POST", "/v1/webhook_endpoints", {"url": URL})
    window = opens(*ALL_SCOPES, at="#/webhook-endpoints")
    page = window.page
    page.get_by_role("link", name=URL).click()
    page.get_by_role("button", name="Send a test").click()
    page.get_by_text("attempt").first.click()
    expect(page.get_by_text("webhook_endpoint.test").last).to_be_visible()
    page.get_by_role("button", name="Redeliver").click()
    expect(page.get_by_text("Runward sends the notification again.")).to_be_visible()
    page.get_by_label("Status").select_option("delivered")
    expect(page.get_by_text("There are no deliveries.")).to_be_visible()
    page.get_by_label("Status").select_option("")
    expect(page.get_by_role("button", name="Redeliver")).to_be_visible()
    assert window.serious_findings() == []
    page.get_by_role("button", name="Disable").click()
    expect(page.get_by_role("button", name="Enable")).to_be_focused()
    path = f"/v1/webhook_endpoints/{endpoint['id']}"
    assert admin.call("GET", path)["enabled"] is False


def test_budgets_show_their_amounts_and_a_person_approves_to_exceed_one(
    project: Project, opens: Opens
) -> None:
    admin = project.key("admin")
    admin.call("POST", "/v1/budgets", {"limit_tokens": 5_000, "agent": "clerk"})
    key = project.new_key("runs:write", name="nightly import")
    admin.call("POST", "/v1/budgets", {"limit_usd": 50, "key_id": key["id"]})
    admin.call("POST", "/v1/budgets", {"limit_usd": 0.01, "on_limit": "ask"})
    window = opens(*ALL_SCOPES, at="#/budgets")
    rows = window.page.get_by_role("row")
    expect(rows.nth(1)).to_contain_text("$0.01 per day")
    expect(rows.nth(2)).to_contain_text("API key nightly import")
    expect(rows.nth(3)).to_contain_text("clerk")
    expect(rows.nth(3)).to_contain_text("5,000 tokens per day")
    expect(rows.nth(3).get_by_role("meter")).to_have_accessible_name(
        "0 tokens of 5,000 tokens spent or reserved"
    )
    run = project.run(model=project.script(text("done"), name="priced"))
    assert run["status"] == "requires_action"
    page = opens(at=f"#/runs/{run['id']}").page
    expect(page.get_by_text("A budget of $0.01 has no room for the next")).to_be_visible()
    page.get_by_role("navigation").get_by_role("link", name="Inbox").click()
    card = page.get_by_role("article", name="Exceed a budget?")
    expect(card).to_contain_text("A budget of $0.01 has no room for it.")
    expect(card).to_contain_text("If you approve, this run can exceed the budget until")
    card.get_by_role("button", name="Approve").click()
    assert project.end(run)["output"] == "done"


def test_empty_lists_show_a_command_and_need_the_scope_of_the_api(opens: Opens) -> None:
    window = opens(*ALL_SCOPES, at="#/budgets")
    expect(window.page.get_by_text("runward budgets create 20")).to_be_visible()
    window.allow("404")
    window.go("#/schedules/sched_019a5f1e9c637f749e2f7d9dbd5f5f94", "Schedule")
    expect(window.page.get_by_text("This project has no schedule with this ID.")).to_have_count(1)
    menu = opens("runs:read").page.get_by_role("navigation")
    expect(menu.get_by_role("link", name="Schedules")).to_be_visible()
    expect(menu.get_by_role("link", name="Budgets")).to_have_count(0)
    expect(menu.get_by_role("link", name="Webhooks")).to_have_count(0)
