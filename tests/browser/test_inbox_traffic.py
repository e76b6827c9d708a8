"""Traffic of an open inbox: small while nothing changes, and large values only on demand."""

import json
from typing import Any

from playwright.sync_api import expect

from tests.api.project import Project, call
from tests.browser.conftest import Opens
from tests.browser.window import Window, button
from tests.support.models.chat_server import calls, text
from tests.support.services.client import Json
from tests.support.tools.server import Behaviour

LOOKS = 3
IDLE_BYTES = 2_000
"""For one look, of which there is at most one a second."""
SLOW_BYTES_PER_SECOND = 80_000


def asks(project: Project, tool: str, value: str, count: int = 1) -> None:
    """Each in a run of its own."""
    project.tool(tool, approval="always")
    for at in range(count):
        asked = calls(call(1, tool, json.dumps({"x": value})))
        model = project.script(asked, text("Done."), name=f"{tool}{at}")
        project.settle(project.start(model=model, tools=[tool]))


def slow_line(window: Window) -> None:
    session: Any = window.page.context.new_cdp_session(window.page)
    limits = {"offline": False, "latency": 20, "uploadThroughput": -1}
    limits["downloadThroughput"] = SLOW_BYTES_PER_SECOND
    session.send("Network.emulateNetworkConditions", limits)


def test_an_idle_inbox_with_much_to_decide_moves_little(project: Project, opens: Opens) -> None:
    asks(project, "mail", "x" * 100_000, count=6)
    window = opens()
    page = window.page
    expect(page).to_have_title("(6) Inbox · Runward")
    expect(page.get_by_role("button", name="Load 97.7 KiB").first).to_be_visible()
    session: Any = page.context.new_cdp_session(page)
    session.send("Network.enable")
    looks: set[str] = set()
    moved: list[float] = []

    def asked(event: Json) -> None:
        if "/v1/required_actions" in event["request"]["url"]:
            looks.add(event["requestId"])
            moved.append(len(json.dumps(event["request"]["headers"])))

    def answered(event: Json) -> None:
        if event["requestId"] in looks:
            moved.append(event["encodedDataLength"])

    session.on("Network.requestWillBeSent", asked)
    session.on("Network.loadingFinished", answered)
    for _ in range(LOOKS):
        with page.expect_response("**/v1/required_actions?*") as look:
            pass
        assert look.value.status == 304
    assert 0 < sum(moved) < LOOKS * IDLE_BYTES, moved
    assert len(moved) >= LOOKS


def test_a_large_argument_on_a_slow_line_holds_nothing_up(project: Project, opens: Opens) -> None:
    asks(project, "mail", "x" * 1_000_000)
    asks(project, "pay", "12 EUR")
    window = opens(at="#/about")
    slow_line(window)
    window.go("#/inbox")
    page = window.page
    large = page.get_by_role("article").filter(has=page.get_by_role("heading", name="mail"))
    small = page.get_by_role("article").filter(has=page.get_by_role("heading", name="pay"))
    large.get_by_role("button", name="Load 976.6 KiB").click()
    expect(small.get_by_text("12 EUR")).to_be_visible()
    button(small, "Approve").click()
    expect(small).to_have_count(0)
    expect(page.get_by_text("The data shown may be out of date")).to_have_count(0)
    button(large, "Approve").click()
    expect(large).to_have_count(0)


def test_an_unknown_outcome_stands_first(project: Project, opens: Opens) -> None:
    asks(project, "mail", "one")
    project.tool("pay", Behaviour("reset"), on_unknown="ask")
    model = project.script(calls(call(1, "pay")), text("Done."), name="pay")
    project.run(model=model, tools=["pay"])
    cards = opens().page.get_by_role("article")
    expect(cards).to_have_count(2)
    expect(cards.get_by_role("heading", level=2)).to_contain_text(["pay", "mail"])
