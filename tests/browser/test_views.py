"""Every view of the console: it opens, in light and dark, on a desk and on a phone; axe finds
nothing that keeps people out."""

import pytest
from playwright.sync_api import expect

from tests.api.project import ALL_SCOPES, Project, call
from tests.browser.conftest import Opens
from tests.browser.window import Scheme, Window
from tests.support.models.chat_server import calls, text

pytestmark = pytest.mark.timeout(240)

LOOKS: list[tuple[Scheme, bool]] = [("light", False), ("dark", False), ("light", True)]


def fits(window: Window) -> bool:
    """Nothing sticks out at the side."""
    return window.page.evaluate(
        "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    )


@pytest.mark.parametrize(("scheme", "phone"), LOOKS, ids=["light", "dark", "phone"])
def test_every_view_opens_fits_and_keeps_nobody_out(
    project: Project, opens: Opens, scheme: Scheme, *, phone: bool
) -> None:
    project.tool("pay", approval="always")
    project.tool("look")
    looking = project.script(calls(call(1, "look")), text("Looked."), name="looking")
    project.settle(project.start(model=looking, tools=["look"]))
    paying = project.script(calls(call(1, "pay")), text("Paid."), name="paying")
    waiting = project.settle(project.start(model=paying, tools=["pay"]))
    project.client.call("POST", "/v1/agents", {"name": "clerk", "model": "offline:rules"})
    admin = project.key(*ALL_SCOPES)
    every_day = {"cron": "0 7 * * *", "run": {"agent": "clerk", "input": "Report."}}
    schedule = admin.call("POST", "/v1/schedules", {"name": "Report", **every_day})
    url = "http://127.0.0.1:9/hooks"
    endpoint = admin.call("POST", "/v1/webhook_endpoints", {"url": url, "events": ["run.failed"]})
    admin.call("POST", f"/v1/webhook_endpoints/{endpoint['id']}/test")
    admin.call("POST", "/v1/budgets", {"limit_usd": 20})
    window = opens(*ALL_SCOPES, scheme=scheme, phone=phone)
    views = {
        "#/inbox": "Inbox",
        "#/runs": "Runs",
        f"#/runs/{waiting['id']}": paying,
        "#/start": "Start a run",
        "#/tools": "Tools",
        "#/tools/pay": "pay",
        "#/new-tool": "Register a tool",
        "#/agents": "Agents",
        "#/agents/clerk": "clerk",
        "#/new-agent": "Register an agent",
        "#/schedules": "Schedules",
        f"#/schedules/{schedule['id']}": "Report",
        "#/webhook-endpoints": "Webhook endpoints",
        f"#/webhook-endpoints/{endpoint['id']}": url,
        "#/budgets": "Budgets",
        "#/keys": "Keys",
    }
    for view, heading in views.items():
        window.go(view, heading)
        expect(window.page.get_by_text("…", exact=True)).to_have_count(0)
        assert window.serious_findings() == [], view
        assert fits(window), view
