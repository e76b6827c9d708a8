"""Headless Chromium, through Playwright: one browser per process, and one page for each
conversation. It can reach only the hosts that the operator names."""

import asyncio
import os
import tempfile
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from runward_commands import clean_environment

from runward.tools import ToolError

MAX_PAGES = 8
"""The one that was not used for longest is closed for a new one."""
SIZE: Any = {"width": 1024, "height": 768}
PICTURE_SECONDS = 30.0
PICTURE_ATTEMPT_SECONDS = 5.0
PICTURE_RETRY_SECONDS = 0.1
NOT_SET_UP = "The computer is not set up here, and trying again will not help: {}."


@dataclass(frozen=True, slots=True)
class Where:
    """The operator's settings. README.md lists them."""

    start_url: str
    hosts: tuple[str, ...]
    program: str

    @classmethod
    def read(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Return the operator's settings. Raises ToolError if one is invalid."""
        start_url = environment.get("EXECUTORS_START_URL", "")
        parts = urlsplit(start_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ToolError(NOT_SET_UP.format("EXECUTORS_START_URL must be an http(s) address"))
        others = environment.get("EXECUTORS_HOSTS", "").replace(",", " ").split()
        program = environment.get("EXECUTORS_BROWSER", "/usr/bin/chromium")
        return cls(start_url, (parts.hostname, *others), program)


class Screens:
    """The browser of this process, and its pages by conversation."""

    def __init__(self) -> None:
        self._opening = asyncio.Lock()
        self._driver: Any = None
        self._browser: Any = None
        self._contexts: OrderedDict[str, Any] = OrderedDict()

    async def page(self, key: str) -> Any:
        """Return the newest page of the conversation, which may have been opened by a click. Raises
        ToolError."""
        async with self._opening:
            if self._browser is None or not self._browser.is_connected():
                await self.close()
                self._driver, self._browser = await _launch(Where.read())
            if key not in self._contexts or not self._contexts[key].pages:
                await self._open(key, Where.read().start_url)
            self._contexts.move_to_end(key)
            while len(self._contexts) > MAX_PAGES:
                await self._contexts.popitem(last=False)[1].close()
            return self._contexts[key].pages[-1]

    async def picture(self, key: str) -> bytes:
        """Return a PNG of the conversation's newest page. Chromium refuses to take one while it
        replaces a page, for example after a click on a link, or never answers. Refusals and
        attempts without an answer are retried for `PICTURE_SECONDS`. Raises ToolError."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PICTURE_SECONDS
        while True:
            page = await self.page(key)
            try:
                return await page.screenshot(timeout=PICTURE_ATTEMPT_SECONDS * 1000)
            except Exception as error:  # Playwright's
                if loop.time() >= deadline:
                    reason = str(error).splitlines()[0]
                    raise ToolError(f"Chromium cannot take a picture: {reason}") from error
            await asyncio.sleep(PICTURE_RETRY_SECONDS)

    async def close(self) -> None:
        """Close the browser. The next page starts a new one."""
        driver, self._driver, self._browser = self._driver, None, None
        self._contexts.clear()
        if driver is not None:
            await driver.stop()

    async def _open(self, key: str, url: str) -> None:
        if key in self._contexts:
            await self._contexts.pop(key).close()
        context = await self._browser.new_context(viewport=SIZE, accept_downloads=False)
        page = await context.new_page()
        try:
            await page.goto(url, wait_until="load")
        except Exception as error:  # Playwright's
            await context.close()
            reason = str(error).splitlines()[0]
            raise ToolError(f"The page to start from cannot be opened: {reason}") from error
        self._contexts[key] = context


async def _launch(where: Where) -> tuple[Any, Any]:
    """Start and return Playwright and the browser."""
    try:
        from playwright.async_api import Error, async_playwright  # noqa: PLC0415  # optional
    except ImportError:
        raise ToolError(NOT_SET_UP.format("the package playwright is not installed")) from None
    allowed = "".join(f", EXCLUDE {host}" for host in where.hosts)
    driver = await async_playwright().start()
    try:
        browser = await driver.chromium.launch(
            executable_path=where.program,
            chromium_sandbox=os.getuid() != 0,  # Chromium's cannot run as root
            env=clean_environment(Path(tempfile.gettempdir())),
            args=[f"--host-resolver-rules=MAP * ~NOTFOUND{allowed}"],  # redirects and sockets too
        )
    except Error as error:
        await driver.stop()
        reason = str(error).splitlines()[0]
        raise ToolError(NOT_SET_UP.format(f"the browser does not start: {reason}")) from error
    return driver, browser
