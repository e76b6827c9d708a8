"""Markdown of models: what it becomes, what it never becomes, and how long that takes."""

from typing import Any

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import Opens
from tests.browser.hostile import ALL, RUN
from tests.browser.reading import unharmed

SETUP = """async () => {
  globalThis.md = await import("/console/markdown.js");
  const place = document.createElement("div");
  document.getElementById("main").replaceChildren(place);
  const strip = (one) => {
    for (const bdi of one.querySelectorAll("bdi")) bdi.replaceWith(...bdi.childNodes);
  };
  globalThis.html = (source) => {
    const made = md.markdown(source);
    place.replaceChildren(made);
    const copy = made.cloneNode(true);
    strip(copy);
    return copy.innerHTML;
  };
}"""
LINK = 'target="_blank" rel="noreferrer noopener"'
CASES = {
    "a *b* **c** ~~d~~ `e *f*`": "<p>a <em>b</em> <strong>c</strong> <del>d</del> "
    "<code>e *f*</code></p>",
    "**bold *both***": "<p><strong>bold <em>both</em></strong></p>",
    "2 * 3 * 4, snake_case_name, **open": "<p>2 * 3 * 4, snake_case_name, **open</p>",
    "# One\n### Two": "<h3>One</h3><h4>Two</h4>",
    "- a\n- b\n  1. c\n  2. d": "<ul><li><p>a</p></li><li><p>b</p><ol><li><p>c</p></li>"
    "<li><p>d</p></li></ol></li></ul>",
    "> q\n> r": "<blockquote><p>q\nr</p></blockquote>",
    "```py\na < b\n```": '<pre tabindex="0"><code>a &lt; b</code></pre>',
    "---": "<hr>",
    "\\*a\\*": "<p>*a*</p>",
    "<b>x</b>": "<p>&lt;b&gt;x&lt;/b&gt;</p>",
    "see https://a.example/x.": f'<p>see <a href="https://a.example/x" {LINK}>'
    "https://a.example/x</a>.</p>",
    "[text](https://b.example/y_(z))": f'<p><span><a href="https://b.example/y_(z)" {LINK}>'
    'text</a><span class="soft"> (b.example)</span></span></p>',
    f"[x](javascript:{RUN.replace('(1)', '')})": "<p><span>x (<code>javascript:ran</code>)"
    "</span></p>",
    "![p](https://c.example/p.png)": f'<p><span><a href="https://c.example/p.png" {LINK}>p</a>'
    '<span class="soft"> (c.example)</span></span></p>',
}
GROWING = (
    "a",
    "*a",
    "**a** ",
    "_a_b",
    "`",
    "`a``b",
    "[",
    "[a](",
    "](",
    "[a](b",
    "![",
    "> ",
    "- ",
    "- a\n",
    "  - a\n",
    "```\n",
    "~~~~\n```\n",
    "| a ",
    "|a|b|\n|-|-|\n",
    "# a #",
    "\\",
    "https://a",
    "((((",
    "*_~~`[",
    " \n",
    ">>>> a\n",
)
MOST_GROWTH = 6
"""Times as many steps for four times as much text."""


@pytest.fixture
def page(opens: Opens) -> Page:
    page = opens(at="#/about").page
    page.evaluate(SETUP)
    return page


def test_markdown_becomes_elements(page: Page) -> None:
    for source, expected in CASES.items():
        assert page.evaluate("(source) => html(source)", source) == expected, source


def test_hostile_texts_stay_texts(opens: Opens) -> None:
    window = opens(at="#/about")
    window.page.evaluate(SETUP)
    for source in (*ALL, *(f"[{one}]({one})" for one in ALL), *(f"![{one}]({one})" for one in ALL)):
        window.page.evaluate("(source) => html(source)", source)
        made = window.page.locator("#main :is(script, iframe, object, form, style, svg)")
        assert made.count() == 0, source
    window.page.evaluate("(source) => html(source)", "\n\n".join(ALL))
    unharmed(window)


def test_no_line_keeps_the_page_busy(page: Page) -> None:
    """Each of these took a minute or more when its pattern could be matched in two ways."""
    took = page.evaluate(
        """() => [
          "~".repeat(90000) + "`", "# " + " ".repeat(90000) + "\\u2028x",
          "|\\n---" + " ".repeat(90000) + "x",
        ].map((source) => {
          const began = performance.now();
          md.markdown(source);
          return performance.now() - began;
        })"""
    )
    assert max(took) < 10_000


def test_the_work_grows_like_the_text(page: Page) -> None:
    counted: Any = page.evaluate(
        """(pieces) => pieces.map((piece) => [1000, 4000].map((times) => {
          md.markdown(piece.repeat(times));
          return md.steps;
        }))""",
        list(GROWING),
    )
    for piece, (small, large) in zip(GROWING, counted, strict=True):
        assert small > 0 and large <= MOST_GROWTH * small, (piece, small, large)


def test_a_table_makes_as_many_elements_as_its_text_has_cells(opens: Opens) -> None:
    page = opens().page
    count = page.evaluate(
        """async () => {
          const { markdown } = await import("./console/markdown.js");
          const table = markdown("|a".repeat(30) + "\\n|-\\n" + "|\\n".repeat(1000));
          return table.querySelectorAll("*").length;
        }"""
    )
    assert 1000 < count < 5000


def test_texts_of_many_parts_are_shown(opens: Opens) -> None:
    """A call may not have as many arguments as such a text has parts, so these threw, and the page
    of a run that held one was not drawn. 40,000 marks in one element took nine seconds."""
    page = opens(at="#/about").page
    page.evaluate(SETUP)
    page.set_default_timeout(20_000)
    length, marks, said, problems = page.evaluate(
        """async () => {
          const { text } = await import("/console/dom.js");
          const { problems } = await import("/console/schema.js");
          const strong = md.markdown("**a" + "[".repeat(70000) + "b**").querySelector("strong");
          const many = text("a\u200b".repeat(150000));
          const list = { type: "array", items: { type: "string" } };
          return [
            strong.textContent.length,
            many.querySelectorAll(".mark").length,
            many.textContent.match(/U\\+200B/g).length,
            problems(Array(190000).fill(1), list).length,
          ];
        }"""
    )
    assert (length, marks, said, problems) == (70_002, 2500, 150_000, 1000)
