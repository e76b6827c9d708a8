"""Signing in and out in a real browser, and how little pages of others can do with the session."""

from collections.abc import Iterator

import pytest
from aiohttp import web
from playwright.sync_api import Browser, Error, Page, expect

from tests.api.project import ALL_SCOPES, Project
from tests.browser.conftest import Opens
from tests.browser.window import Window, window
from tests.support.serving import Server

pytestmark = pytest.mark.timeout(180)

REFUSED = "Failed to load resource"
"""What Chromium writes for each answer of 400 and above."""


class Elsewhere(Server):
    """A page of somebody else, on another port of this machine: to a browser the same site, so
    that even cookies marked `SameSite=Strict` are sent, but another origin."""

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/", self._page)
        return app

    async def _page(self, _: web.Request) -> web.Response:
        return web.Response(
            text="<!doctype html><title>Elsewhere</title>", content_type="text/html"
        )


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    with Elsewhere() as server:
        yield server


def asks_for_a_key(page: Page, why: str) -> None:
    expect(page.get_by_label("API key")).to_be_focused()
    expect(page.locator("#key-wrong")).to_have_text(why)
    expect(page.get_by_role("navigation")).to_have_count(0)


def test_a_wrong_key_is_refused_with_a_sentence_and_can_be_mended(
    browser: Browser, project: Project
) -> None:
    key = project.new_key("runs:read", name="Ada")["key"]
    with window(browser, project.running.service.url) as opened:
        opened.allow(REFUSED)
        page = opened.page
        page.goto(f"{opened.url}/#/runs")
        page.get_by_label("API key").fill("rw_of_nobody")
        page.keyboard.press("Enter")
        asks_for_a_key(page, "The API key is not valid.")
        page.get_by_label("API key").fill(f"  {key} ")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Runs", level=1)).to_be_visible()
        expect(page.get_by_role("alert")).to_have_count(0)


def test_a_key_without_any_use_here_still_says_so_in_every_view(
    project: Project, opens: Opens
) -> None:
    opened = opens("approvals:decide")
    opened.allow(REFUSED)
    for view, heading in {"#/inbox": "Inbox", "#/runs": "Runs", "#/tools": "Tools"}.items():
        opened.go(view, heading)
        expect(opened.page.get_by_text("Loading…")).to_have_count(0)


def test_a_key_that_is_revoked_meanwhile_sends_back_to_signing_in(
    browser: Browser, project: Project
) -> None:
    made = project.new_key("runs:read", name="Ada")
    with window(browser, project.running.service.url) as opened:
        opened.sign_in(made["key"])
        opened.allow(REFUSED)
        project.key("admin").call("DELETE", f"/v1/keys/{made['id']}")
        asks_for_a_key(opened.page, "The session has ended. Sign in again.")
        opened.sign_in(project.new_key("runs:read")["key"])


def test_no_script_can_read_the_session(opens: Opens) -> None:
    opened = opens()
    page = opened.page
    [cookie] = page.context.cookies()
    assert (
        dict(cookie).items() >= {"name": "runward", "httpOnly": True, "sameSite": "Strict"}.items()
    )
    assert page.evaluate("document.cookie") == ""
    stored = page.evaluate("[localStorage.length, sessionStorage.length]")
    assert stored == [0, 0]
    assert page.evaluate("indexedDB.databases().then((all) => all.length)") == 0


def test_signing_out_ends_it_in_every_window(opens: Opens) -> None:
    opened = opens()
    opened.allow(REFUSED)
    second = opened.page.context.new_page()
    second.goto(f"{opened.url}/#/runs")
    expect(second.get_by_role("heading", name="Runs", level=1)).to_be_visible()
    opened.page.get_by_role("button", name="Sign out").click()
    asks_for_a_key(opened.page, "")
    asks_for_a_key(second, "The session has ended. Sign in again.")
    assert opened.page.context.cookies() == []


def test_a_page_elsewhere_cannot_act_read_or_frame(
    project: Project, opens: Opens, elsewhere: Elsewhere
) -> None:
    opened = opens(*ALL_SCOPES)
    page = opened.page.context.new_page()
    page.goto(elsewhere.url)
    opened.foreign.clear()
    asked = """([url, init]) => fetch(url, {credentials: "include", ...init})
      .then(async (one) => [one.type, one.status, await one.text()], (error) => String(error))"""
    run = '{"model": "offline:rules", "input": "go"}'
    plain = {"method": "POST", "body": run, "headers": {"Content-Type": "text/plain"}}
    own = {**plain, "headers": {"Content-Type": "application/json", "X-Runward-CSRF": "1"}}
    opaque = ["opaque", 0, ""]
    for path in ("/v1/runs", "/console/session", "/"):
        assert "Failed to fetch" in page.evaluate(asked, [opened.url + path, {}])
        for init in (own, plain):
            assert "Failed to fetch" in page.evaluate(asked, [opened.url + path, init])
        seen = page.evaluate(asked, [opened.url + path, {**plain, "mode": "no-cors"}])
        assert seen == opaque
    sent = page.context.cookies(opened.url)
    assert [cookie.get("name") for cookie in sent] == ["runward"]
    _posts_a_form(page, f"{opened.url}/v1/runs")
    assert project.client.call("GET", "/v1/runs")["data"] == []
    page.goto(elsewhere.url)
    framed = page.evaluate(_FRAME, opened.url)
    assert framed == "nothing of it"
    opened.foreign.clear()
    page.close()


_FRAME = """(url) => new Promise((resolve) => {
  const frame = document.createElement("iframe");
  frame.src = url;
  frame.onload = () => {
    try {
      resolve(frame.contentDocument ? frame.contentDocument.title : "nothing of it");
    } catch (error) { resolve(String(error)); }
  };
  document.body.append(frame);
})"""


def _posts_a_form(page: Page, to: str) -> None:
    with page.expect_navigation() as navigation:
        page.evaluate(
            """(to) => {
              const form = document.createElement("form");
              Object.assign(form, {method: "POST", action: to, enctype: "text/plain"});
              const field = document.createElement("input");
              field.name = '{"model": "offline:rules", "input": "';
              field.value = '"}';
              form.append(field);
              document.body.append(form);
              form.submit();
            }""",
            to,
        )
    assert navigation.value is not None
    assert navigation.value.status in {403, 415, 401}


@pytest.mark.parametrize(
    "sink",
    [
        "document.body.innerHTML = '<b>a</b>'",
        "document.body.insertAdjacentHTML('beforeend', '<b>a</b>')",
        "document.createElement('iframe').srcdoc = '<b>a</b>'",
        "document.createElement('script').src = 'console/app.js'",
        "document.createElement('script').text = 'ran(1)'",
        "new DOMParser().parseFromString('<b>a</b>', 'text/html')",
        "document.createRange().createContextualFragment('<b>a</b>')",
        "setTimeout('ran(1)', 0)",
        "trustedTypes.createPolicy('mine', {createHTML: (one) => one})",
    ],
)
def test_the_page_can_make_no_markup_and_no_script_of_text(opens: Opens, sink: str) -> None:
    opened = opens()
    for part in ("TrustedHTML", "TrustedScript", "CSP: ", "Content Security Policy", "Trusted"):
        opened.allow(part)
    assert _evaluated(opened, sink) == "refused"


def _evaluated(opened: Window, expression: str) -> str:
    try:
        opened.page.evaluate(f"() => {{ {expression}; }}")
    except Error:
        return "refused"
    return "done"
