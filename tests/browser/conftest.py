"""The console in a real Chromium, on the real service.

One browser for the tests that a process runs here in a row; it is left before other tests, because
Playwright's own event loop would stand in the way of theirs.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Protocol

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.api.project import SCOPES, Project, Running
from tests.browser.window import Scheme, Window, window
from tests.support.postgres import Databases
from tests.support.programs import chromium


@pytest.fixture(scope="package")
def browser(running: Running) -> Iterator[Browser]:
    """After the service that is shared: making its database runs an event loop, which can no longer
    be done once Playwright's runs."""
    assert running.service.alive
    path = chromium()
    with sync_playwright() as playwright:
        # Root may not use Chromium's sandbox; what it shows here is our own.
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def database_url(migrated_databases: Databases) -> Iterator[str]:
    """A fresh, migrated database of the test's own. It is made and dropped on another thread, since
    Playwright's event loop runs on this one."""
    with ThreadPoolExecutor(1) as aside:
        made = migrated_databases.migrated()
        yield aside.submit(made.__enter__).result()
        aside.submit(made.__exit__, None, None, None).result()


@pytest.fixture
def project(running: Running) -> Iterator[Project]:
    with running.project() as project:
        yield project


class Opens(Protocol):
    def __call__(
        self,
        *scopes: str,
        name: str = "Ada",
        at: str = "#/inbox",
        scheme: Scheme = "light",
        phone: bool = False,
    ) -> Window: ...


@pytest.fixture
def opens(browser: Browser, project: Project) -> Iterator[Opens]:
    """`opens("runs:read", at="#/runs")`: a window of somebody who has signed in to the test's
    project with a key of these scopes (all but `admin` if none is named)."""
    with ExitStack() as windows:

        def open_window(
            *scopes: str,
            name: str = "Ada",
            at: str = "#/inbox",
            scheme: Scheme = "light",
            phone: bool = False,
        ) -> Window:
            url = project.running.service.url
            opened = windows.enter_context(window(browser, url, scheme=scheme, phone=phone))
            opened.sign_in(project.new_key(*scopes or SCOPES, name=name)["key"])
            opened.go(at)
            return opened

        yield open_window
