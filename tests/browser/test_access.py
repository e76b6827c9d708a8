"""The console without a mouse, without eyes, with large letters and on a narrow screen."""

from itertools import pairwise

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.api.project import ALL_SCOPES, Project, call
from tests.browser.conftest import Opens
from tests.browser.test_views import fits
from tests.browser.window import Scheme, Window, button, window
from tests.support.models.chat_server import Answer, calls, text
from tests.support.services.client import Json
from tests.support.serving import Hold

pytestmark = pytest.mark.timeout(180)

MOST_TABS = 80
FOCUSED = """() => {
  const one = document.activeElement;
  const style = getComputedStyle(one);
  const label = one.labels?.[0] ?? one;
  return {
    name: (one.getAttribute("aria-label") ?? label.textContent ?? "").trim(),
    seen: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0
      && one.getBoundingClientRect().left >= 0,
    where: one.id || one.tagName,
  };
}"""


def focused(page: Page) -> Json:
    return page.evaluate(FOCUSED)


def tab_to(page: Page, name: str) -> None:
    """With the key that everybody has; at each stop on the way the focus must be seen."""
    passed: list[Json] = []
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        now = focused(page)
        if now["where"] == "BODY":  # round the end of the page
            continue
        assert now["seen"], now
        if now["name"].startswith(name):
            return
        passed.append(now)
    raise AssertionError(f"no {name} among {passed}")


def waiting_run(project: Project) -> Json:
    project.tool("pay", approval="always")
    model = project.script(calls(call(1, "pay")), text("Paid."))
    return project.settle(project.start(model=model, tools=["pay"], input="Pay a little."))


def test_signing_in_deciding_starting_and_signing_out_by_keyboard_alone(
    browser: Browser, project: Project
) -> None:
    run = waiting_run(project)
    key = project.new_key(*ALL_SCOPES, name="Ada")["key"]
    with window(browser, project.running.service.url) as opened:
        page = opened.page
        page.goto(opened.url)
        expect(page.get_by_label("API key")).to_be_focused()
        page.keyboard.type(key)
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Inbox", level=1)).to_be_visible()
        expect(page.locator("main")).to_be_focused()
        expect(page.get_by_role("article")).to_have_count(1)
        tab_to(page, "Approve: pay 1")
        page.keyboard.press("Enter")
        expect(page.get_by_role("article")).to_have_count(0)
        assert project.end(run)["output"] == "Paid."
        tab_to(page, "Start")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Start a run", level=1)).to_be_visible()
        expect(page.locator("main")).to_be_focused()
        tab_to(page, "Input")
        page.keyboard.type("Is anybody there?")
        page.keyboard.press("Shift+Tab")
        assert focused(page)["seen"]
        tab_to(page, "Start")
        page.keyboard.press("Space")
        expect(page.get_by_role("heading", name="offline:rules", level=1)).to_be_visible()
        tab_to(page, "Sign out")
        page.keyboard.press("Space")
        expect(page.get_by_label("API key")).to_be_focused()


def test_a_person_can_skip_the_menu(opens: Opens) -> None:
    page = opens().page
    page.reload()
    expect(page.get_by_role("heading", name="Inbox", level=1)).to_be_visible()
    page.keyboard.press("Tab")
    assert focused(page)["name"] == "Skip to the content"
    assert focused(page)["seen"]
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    expect(page.get_by_role("heading", name="Inbox", level=1)).to_be_visible()


def test_an_arguments_choice_is_made_with_arrows(project: Project, opens: Opens) -> None:
    schema = {
        "type": "object",
        "properties": {"x": {"type": "string", "enum": ["little", "much"]}},
        "required": ["x"],
    }
    project.tool("pay", approval="always", parameters=schema)
    asked = call(1, "pay", '{"x": "much"}')
    run = project.start(calls(asked), text("Paid."), tools=["pay"])
    project.settle(run)
    page = opens().page
    expect(page.get_by_role("article")).to_have_count(1)
    tab_to(page, "Edit arguments: pay much")
    page.keyboard.press("Enter")
    expect(page.get_by_label("x", exact=True)).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(page.locator(".change")).to_have_count(1)
    tab_to(page, "Approve with changes")
    page.keyboard.press("Enter")
    project.end(run)
    [hit] = project.hits("pay")
    assert hit.arguments == {"x": "little"}


def test_what_a_screen_reader_is_told_of_the_inbox(project: Project, opens: Opens) -> None:
    waiting_run(project)
    page = opens().page
    expect(page.locator("body")).to_match_aria_snapshot(
        """
        - banner:
          - navigation "Console":
            - link "Inbox 1 waiting"
            - link "Runs"
        - main:
          - heading "Inbox" [level=1]
          - article "pay version 1":
            - heading "pay version 1" [level=2]
            - term: x
            - definition: /1/
            - 'button "Approve: pay 1"'
            - 'button "Reject: pay 1"'
            - 'button "Edit arguments: pay 1"'
            - 'button "Respond: pay 1"'
            - combobox
        """
    )
    [approval] = project.client.approvals()
    project.client.decide(approval["id"], "approve")
    expect(page.get_by_role("status").filter(has_text="pay was approved")).to_be_visible()
    live = page.locator("#notes").evaluate("(one) => one.getAttribute('aria-live')")
    assert live == "polite"


def test_what_a_screen_reader_is_told_of_a_run(project: Project, opens: Opens) -> None:
    run = waiting_run(project)
    [approval] = project.client.approvals()
    project.client.decide(approval["id"], "approve")
    project.end(run)
    page = opens(at=f"#/runs/{run['id']}").page
    expect(page.locator("main")).to_match_aria_snapshot(
        f"""
        - heading "openai:{project.model_name()}" [level=1]
        - region "Outcome":
          - heading /Completed/ [level=2]
          - paragraph: Paid.
        - region "Input":
          - heading /Input/ [level=2]
        - heading /Turn 1/ [level=2]
        - heading "pay v1" [level=3]
        - heading /Turn 2/ [level=2]
        - paragraph: Paid.
        - complementary "Raw events":
          - heading /Events/ [level=2]
        """
    )


def test_nothing_moves_for_who_does_not_want_that(project: Project, opens: Opens) -> None:
    hold = Hold()
    run = project.start(Answer(text="Word by word by word.", pieces=9, hold=hold, hold_after=5))
    hold.arrived()
    try:
        page = opens(at=f"#/runs/{run['id']}").page
        expect(page.locator(".caret")).to_be_visible()
        moving = "document.getAnimations().length"
        assert page.evaluate(moving) == 0
        page.emulate_media(reduced_motion="no-preference")
        assert page.evaluate(moving) > 0
    finally:
        hold.release()
    project.end(run)


@pytest.mark.parametrize("how", ["a narrow screen", "letters twice as large"])
def test_nothing_is_lost_on(project: Project, opens: Opens, how: str) -> None:
    run = waiting_run(project)
    opened = opens(*ALL_SCOPES)
    page = opened.page
    if how == "a narrow screen":
        page.set_viewport_size({"width": 320, "height": 640})
    for view in ("#/inbox", f"#/runs/{run['id']}", "#/start", "#/tools/pay", "#/runs", "#/keys"):
        opened.go(view)
        if how != "a narrow screen":
            page.evaluate("document.documentElement.style.fontSize = '200%'")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.get_by_text("Loading…")).to_have_count(0)
        assert fits(opened), view
        width = page.viewport_size["width"] if page.viewport_size else 0
        for one in page.locator("main button:visible").all():
            box = one.bounding_box()
            if box is None or one.evaluate("(one) => one.closest('.wide') !== null"):
                continue  # a wide table is moved sideways, within its frame
            assert box["x"] >= 0, one
            assert box["x"] + box["width"] <= width, one


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_open_forms_keep_nobody_out(project: Project, opens: Opens, scheme: Scheme) -> None:
    run = waiting_run(project)
    opened = opens(*ALL_SCOPES, scheme=scheme)
    page = opened.page
    card = page.get_by_role("article")
    for name in ("Reject", "Edit arguments", "Respond"):
        button(card, name).click()
        expect(card.locator(".panel :is(input, textarea)").first).to_be_visible()
        _finds_nothing(opened, name)
        button(card, "Back").click()
    button(card, "Edit arguments").click()
    card.get_by_label("Edit as JSON").check()
    card.get_by_label("Arguments as JSON").fill("{")
    expect(card.get_by_text("is not JSON yet")).to_be_visible()
    _finds_nothing(opened, "JSON")
    opened.go(f"#/runs/{run['id']}")
    page.get_by_role("button", name="Cancel…").click()
    _finds_nothing(opened, "cancel")
    opened.go("#/new-tool", "Register a tool")
    page.get_by_role("button", name="Register a tool").click()
    _finds_nothing(opened, "register")


def _finds_nothing(opened: Window, what: str) -> None:
    assert opened.serious_findings() == [], what
    levels: list[int] = opened.page.locator("main :is(h1, h2, h3, h4):visible").evaluate_all(
        "(all) => all.map((one) => Number(one.tagName[1]))"
    )
    assert levels[0] == 1, what
    assert levels.count(1) == 1, what
    assert all(below <= above + 1 for above, below in pairwise(levels)), what
