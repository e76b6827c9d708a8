"""The frame around the views: nothing moves, nothing is cut off, nothing covers the page."""

from typing import Any

from playwright.sync_api import Page, expect

from tests.api.project import ALL_SCOPES, Project, call
from tests.browser.conftest import Opens
from tests.browser.window import PHONE, button
from tests.support.models.chat_server import calls, text

LEAST_ROW_PX = 28


def places(page: Page) -> list[Any]:
    """Where the entries of the menu stand."""
    return page.locator(".top nav a").evaluate_all(
        "(all) => all.map((one) => [one.getBoundingClientRect().x, one.offsetWidth])"
    )


def asks(project: Project, count: int) -> None:
    project.tool("pay", approval="always")
    asked = calls(*(call(at, "pay", f'{{"x":"{at}"}}') for at in range(count)))
    project.settle(project.start(asked, text("Done."), tools=["pay"]))


def test_the_menu_stands_still(project: Project, opens: Opens) -> None:
    window = opens(*ALL_SCOPES)
    before = places(window.page)
    asks(project, 12)
    expect(window.page).to_have_title("(12) Inbox · Runward")
    for view, heading in (("#/inbox", "Inbox"), ("#/runs", "Runs"), ("#/keys", "Keys")):
        window.go(view, heading)
        assert places(window.page) == before, view


def test_the_whole_menu_is_in_sight_on_a_phone(opens: Opens) -> None:
    page = opens(*ALL_SCOPES, phone=True).page
    for x, width in places(page):
        assert x >= 0 and x + width <= PHONE["width"]
    inside = "(one) => one.scrollWidth <= one.clientWidth"
    assert page.locator(".top nav").evaluate(inside)


def test_one_message_at_a_time_covers_a_phone(project: Project, opens: Opens) -> None:
    asks(project, 3)
    page = opens(phone=True).page
    cards = page.get_by_role("article")
    for left in (2, 1, 0):
        button(cards.first, "Approve").press("Enter")
        expect(cards).to_have_count(left)
    expect(page.locator(".note:visible")).to_have_count(1)


def test_few_calls_get_no_percentiles_and_events_are_tall_enough_to_touch(
    project: Project, opens: Opens
) -> None:
    project.tool("look")
    run = project.run(calls(call(1, "look")), text("Done."), tools=["look"])
    window = opens(at="#/tools/look", phone=True)
    expect(window.page.get_by_text("The only call did not fail. It took")).to_be_visible()
    window.go(f"#/runs/{run['id']}")
    row = window.page.locator(".raw-list summary").first
    expect(row).to_be_visible()
    assert row.evaluate("(one) => one.offsetHeight") >= LEAST_ROW_PX
