"""A browser's window on the console: signed in, and judged when the test is over.

In every window of every test: no script fails, nothing is written to the console as an error, the
Content-Security-Policy is not broken, no request goes anywhere but to the service, no dialog
opens, and nobody calls `ran`, as planted scripts would (tests/browser/hostile.py).
"""

import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Locator,
    Page,
    Request,
    expect,
)

from tests.support.programs import node_package
from tests.support.services.client import Json

PATIENCE_MS = 20_000
DESKTOP = {"width": 1280, "height": 860}
PHONE = {"width": 390, "height": 844}
SERIOUS = ("serious", "critical")

Scheme: TypeAlias = Literal["light", "dark"]

_REPORT_VIOLATIONS = """
addEventListener("securitypolicyviolation", (event) =>
  console.error(`CSP: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""

expect.set_options(timeout=PATIENCE_MS)


def button(place: Locator, label: str) -> Locator:
    """The button with exactly this label. Its accessible name may go on with what it acts on."""
    return place.get_by_role("button", name=re.compile(rf"^{re.escape(label)}(:|$)"))


@dataclass
class Window:
    """`page` is Playwright's. `expected`: parts of the errors that a test provokes on purpose,
    such as the one that Chromium writes for each answer of 400 and above."""

    page: Page
    url: str
    expected: list[str] = field(default_factory=list[str])
    errors: list[str] = field(default_factory=list[str])
    foreign: list[str] = field(default_factory=list[str])
    ran: list[str] = field(default_factory=list[str])

    def sign_in(self, key: str) -> None:
        self.page.goto(self.url)
        self.page.get_by_label("API key").fill(key)
        self.page.get_by_role("button", name="Sign in").click()
        expect(self.page.get_by_role("button", name="Sign out")).to_be_visible()

    def go(self, to: str, heading: str | None = None) -> None:
        """To a view, such as `#/runs`; returns when its heading is there, if one is named."""
        self.page.goto(f"{self.url}/{to}")
        if heading is not None:
            expect(self.page.get_by_role("heading", name=heading, level=1)).to_be_visible()

    def allow(self, part: str) -> None:
        self.expected.append(part)

    def serious_findings(self) -> list[str]:
        """What axe finds that keeps people out. The policy of the page allows no script of others,
        so it comes in through the debugger's door, which the policy does not guard."""
        session = self.page.context.new_cdp_session(self.page)
        _evaluate(session, node_package("axe-core/axe.min.js").read_text() + "; 0")
        result: Json = _evaluate(
            session, "axe.run(document, {resultTypes: ['violations']})", awaits=True
        )
        session.detach()
        return [
            f"{one['id']}: {one['help']}: {node['html']}"
            for one in result["violations"]
            if one["impact"] in SERIOUS
            for node in one["nodes"]
        ]

    def judge(self) -> None:
        wrong = [one for one in self.errors if not any(part in one for part in self.expected)]
        assert wrong == [], wrong
        assert self.foreign == []
        assert self.ran == []

    def heard(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.errors.append(f"{message.text} ({message.location['url']})")

    def planted(self, _: object, what: object = None) -> None:
        self.ran.append(f"a script: {what}")

    def opened(self, dialog: Dialog) -> None:
        self.ran.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def asked(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if f"{parts.scheme}://{parts.netloc}" != self.url and parts.scheme not in {"data", "blob"}:
            self.foreign.append(request.url)


def _evaluate(session: Any, expression: str, *, awaits: bool = False) -> Any:
    answer = session.send(
        "Runtime.evaluate",
        {"expression": expression, "awaitPromise": awaits, "returnByValue": True},
    )
    assert "exceptionDetails" not in answer, answer
    return answer["result"].get("value")


@contextmanager
def window(
    browser: Browser, url: str, *, scheme: Scheme = "light", phone: bool = False
) -> Generator[Window]:
    """Of a person of its own: nothing is shared with other windows. `context` of its page opens
    more of the same person's."""
    context: BrowserContext = browser.new_context(
        color_scheme=scheme,
        viewport=PHONE if phone else DESKTOP,  # pyright: ignore[reportArgumentType]
        has_touch=phone,
        is_mobile=phone,
        reduced_motion="reduce",
        locale="en-GB",
        timezone_id="UTC",
    )
    context.set_default_timeout(PATIENCE_MS)
    context.add_init_script(_REPORT_VIOLATIONS)
    try:
        made = Window(context.new_page(), url)
        context.expose_binding("ran", made.planted)  # pyright: ignore[reportUnknownMemberType]
        made.page.on("console", made.heard)
        made.page.on("dialog", made.opened)
        made.page.on("pageerror", lambda error: made.errors.append(f"page error: {error}"))
        context.on("request", made.asked)
        yield made
        made.judge()
    finally:
        context.close()
