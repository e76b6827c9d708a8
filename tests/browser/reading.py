"""What a page says to the letter, and whether all of it is the console's own."""

import re

from playwright.sync_api import Locator, ViewportSize, expect

from tests.browser.window import DESKTOP, PHONE, Window

READ = """(element) => {
  const read = (node) => {
    if (node.nodeType === Node.TEXT_NODE) return node.data;
    if (node.matches(".fold > summary")) return "";
    if (!node.matches(".mark")) return [...node.childNodes].map(read).join("");
    const [code, times = "1"] = node.textContent.slice("U+".length).split(" \\u00d7");
    return String.fromCodePoint(parseInt(code, 16)).repeat(Number(times));
  };
  return read(element);
}"""
"""What an element says, with the characters that its marks stand for, and without the previews of
what is folded."""

PLANTED = """() => [...document.querySelectorAll("*")].filter((one) => (
  (one.closest("main, #top, #notes") && !one.matches(
    `a, main, header, section, article, footer, aside, nav, div, p, span, bdi, h1, h2, h3, dl, dt,
     dd, details, summary, form, fieldset, legend, label, input:not([type=image]), select, option,
     optgroup, datalist, textarea, button, output, table, caption, thead, tbody, tr, th, td, ul, ol,
     li, pre, code, strong, em, del, ins, time, noscript, svg.icon, svg.icon path, .markdown h4,
     .markdown blockquote, .markdown hr, img.picture[src^="data:image/"]`))
  || [...one.attributes].some(({name}) => /^on|^(srcdoc|action|formaction)$/.test(name))
  || !/^((left|width|height|flex-grow): [\\d.e-]+(%|px)?; ?)*$/
    .test(one.getAttribute("style") ?? "")
  || !(one.matches('.markdown a[rel="noreferrer noopener"]') ? /^https?:/
    : /^(#|console\\/|docs$|openapi.json$)/).test(one.getAttribute("href") ?? "#")
)).map((one) => one.outerHTML.slice(0, 200))"""
"""Elements and attributes that the console does not make itself."""


UNMARKED = """() => [...document.querySelectorAll("*")].flatMap((one) => [
  ...["title", "aria-label", "placeholder", "alt"].map((name) => one.getAttribute(name)),
  one.matches("option, title") ? one.textContent : null,
]).filter((said) => said && /[\\p{Cf}\\p{Co}\\p{DI}]|[^\\P{Cc}\\n\\t]/u.test(said))"""
"""What is said where no element can stand, and has in it what nobody can see."""


def read(place: Locator) -> str:
    return place.evaluate(READ)


def read_all(places: Locator) -> list[str]:
    return places.evaluate_all(f"(all) => all.map({READ})")


def unharmed(window: Window) -> None:
    """Of what the page shows now, on a desk and on a phone."""
    page = window.page
    planted = page.evaluate(PLANTED)
    assert planted == [], planted
    unseen = page.evaluate(UNMARKED)
    assert unseen == [], unseen
    for size in (PHONE, DESKTOP):
        page.set_viewport_size(ViewportSize(**size))
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= size["width"], f"{wide} on {size}"


def unfold(window: Window, places: str) -> None:
    expect(window.page.locator(places).first).to_be_visible()
    window.page.locator(places).evaluate_all("(all) => all.forEach((one) => { one.open = true; })")


def unmarked(option: str) -> str:
    """What an option stands for: it can hold no elements, so its marks are text."""
    if option == '""':
        return ""
    return re.sub(
        r"⟨U\+([0-9A-F]+)(?: \u00d7(\d+))?⟩",
        lambda it: chr(int(it[1], 16)) * int(it[2] or 1),
        option,
    )
