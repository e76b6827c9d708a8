"""A run of 10,000 events: its page has some hundred rows, and is drawn while they come in."""

import json

from playwright.sync_api import Route, expect

from tests.api.project import Project
from tests.browser.conftest import Opens
from tests.support.models.chat_server import text
from tests.support.services.client import Json

CALLS = 2_500
AT = "2026-11-02T09:30:00.125000Z"
MAX_ROWS = 300


def event(run: Json, number: int, kind: str, data: Json) -> str:
    shown = {"id": f"evt_{number}", "run_id": run["id"], "sequence": number, "type": kind}
    whole = json.dumps(shown | {"data": data, "created_at": AT})
    return f"id: {number}\nevent: {kind}\ndata: {whole}\n\n"


def log(run: Json) -> str:
    """What the service streams of a run with CALLS turns of one call each."""
    frames = [event(run, 1, "run.created", {"agent": None, "tools": []})]
    frames.append(event(run, 2, "run.started", {}))
    for turn in range(1, CALLS + 1):
        about = {"call_id": f"c{turn}", "tool": "step", "turn": turn, "agent": None}
        for kind, data in (
            ("usage.updated", {"turn": turn, "total_tokens": turn}),
            ("tool_call.created", {**about, "tool_version": 1, "arguments": {"x": turn}}),
            ("tool_call.started", {**about, "attempt": 1}),
            ("tool_call.completed", {**about, "output": f"result {turn}", "is_error": False}),
        ):
            frames.append(event(run, len(frames) + 1, kind, data))
    frames.append(event(run, len(frames) + 1, "run.completed", {"output": "All done."}))
    return "".join(frames)


def test_a_run_of_10_000_events_keeps_few_rows_in_the_page(project: Project, opens: Opens) -> None:
    run = project.run(text("All done."))
    stream = log(run)

    def answer(route: Route) -> None:
        route.fulfill(body=stream, content_type="text/event-stream")

    window = opens(at="#/about")
    page = window.page
    page.route(f"**/v1/runs/{run['id']}/events?*", answer)
    window.go(f"#/runs/{run['id']}")
    expect(page.get_by_label("Outcome", exact=True)).to_contain_text("All done.")
    expect(page.get_by_role("heading", name="Events · 10003")).to_be_visible()
    assert page.locator(".timeline > *, .raw-list > *").count() < MAX_ROWS
    page.locator(".raw-scroll").evaluate("(one) => { one.scrollTop = one.scrollHeight; }")
    expect(page.locator(".raw-list summary").filter(has_text="run.completed")).to_be_visible()
    page.locator(".raw-list summary").filter(has_text="tool_call.completed").last.click()
    chosen = page.locator(".timeline .entry.chosen")
    expect(chosen).to_contain_text(f"result {CALLS}")
    expect(chosen).to_be_in_viewport()
    assert page.locator(".timeline > *, .raw-list > *").count() < MAX_ROWS
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight / 2)")
    expect(page.get_by_role("heading", name="Turn 12", exact=False).first).to_be_visible()
    assert page.locator(".timeline > *, .raw-list > *").count() < MAX_ROWS
