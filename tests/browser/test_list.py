"""The list of long views: few rows in the page, the right ones, each with its own element."""

from typing import Any

from playwright.sync_api import Page, expect

from tests.browser.conftest import Opens

ROWS = 10_000
MAX_IN_PAGE = 200
SETUP = """async (count) => {
  const { List } = await import("/console/list.js");
  const main = document.getElementById("main");
  const place = document.createElement("div");
  main.replaceChildren(place);
  globalThis.made = new Map();
  globalThis.draws = 0;
  const draw = (key) => {
    draws += 1;
    if (!made.has(key)) {
      const row = document.createElement("p");
      row.dataset.key = key;
      row.tabIndex = 0;
      row.textContent = `Row ${key}`;
      row.style.height = `${20 + (Number(key) % 7) * 10}px`;
      made.set(key, row);
    }
    return made.get(key);
  };
  globalThis.list = new List(place, { draw, height: 30, signal: new AbortController().signal });
  globalThis.place = place;
  globalThis.keys = Array.from({ length: count }, (_, at) => String(at));
  list.show(keys);
}"""


def shown(page: Page) -> list[str]:
    return page.evaluate("[...place.querySelectorAll('p')].map((row) => row.dataset.key)")


def in_sight(page: Page) -> list[str]:
    return page.evaluate(
        """[...place.querySelectorAll('p')].filter((row) => {
          const { top, bottom } = row.getBoundingClientRect();
          return bottom > 60 && top < innerHeight;
        }).map((row) => row.dataset.key)"""
    )


def test_only_rows_near_the_window_are_in_the_page(opens: Opens) -> None:
    page = opens(at="#/about").page
    page.evaluate(SETUP, ROWS)
    assert len(shown(page)) < MAX_IN_PAGE
    assert page.evaluate("draws") < 3 * MAX_IN_PAGE
    page.evaluate("list.reveal('7000')")
    expect(page.get_by_text("Row 7000", exact=True)).to_be_in_viewport()
    seen = [int(key) for key in in_sight(page)]
    assert seen == list(range(seen[0], seen[-1] + 1))
    assert len(shown(page)) < MAX_IN_PAGE


def test_a_row_that_is_in_sight_stays_there_while_rows_come_above(opens: Opens) -> None:
    page = opens(at="#/about").page
    page.evaluate(SETUP, 500)
    page.evaluate("list.reveal('300')")
    row = page.get_by_text("Row 300", exact=True)
    expect(row).to_be_in_viewport()
    before: Any = row.bounding_box()
    page.evaluate("list.show(['-3', '-2', '-1', ...keys])")
    after: Any = row.bounding_box()
    assert abs(before["y"] - after["y"]) <= 1


def test_a_row_in_use_stays_in_the_page_and_keeps_its_element(opens: Opens) -> None:
    page = opens(at="#/about").page
    page.evaluate(SETUP, 2_000)
    page.evaluate("made.get('3').focus()")
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight / 2)")
    expect(page.get_by_text("Row 3", exact=True)).to_be_focused()
    expect(page.get_by_text("Row 4", exact=True)).to_have_count(0)
    page.evaluate("list.show(keys.slice(2))")
    expect(page.get_by_text("Row 3", exact=True)).to_be_focused()
    assert page.evaluate("made.get('3') === document.activeElement")
