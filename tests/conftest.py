"""Fixtures for all tests. Ask for `database_url` to get a migrated PostgreSQL database of your own.

`running` is a service that all tests of a process share, each in a project of its own.

Tests are plain functions or `async def`; those run on asyncio, without a marker.
"""

import gc
import signal
from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from tests.support.postgres import Databases, TestRun

if TYPE_CHECKING:
    from tests.api.project import Running

GARBAGE_THRESHOLDS = (50_000, 20, 50)
RUN = pytest.StashKey[TestRun]()
BROWSER = "tests/browser/"
UNIT = "tests/unit/"
PROVIDERS = "tests/unit/test_llm_"
SLOWEST_FIRST = (
    BROWSER,
    "tests/environments/",
    "tests/stateful/",
    "tests/crash/",
    "tests/e2e/",
    "tests/docs/",
    "tests/hostile/",
    "tests/contract/",
    "tests/budgets/",
    "tests/api/",
    "tests/db/",
)


def pytest_configure(config: pytest.Config) -> None:
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    # By default, a traceback is drawn with source code and variables, which takes half a second.
    plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*structlog.get_config()["processors"][:-1], plain])
    # In the background of a script, SIGINT is ignored, also by the processes of the tests. Under
    # nohup, SIGHUP is ignored.
    defaults = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    for number, handler in defaults.items():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)
    given: dict[str, Any] | None = getattr(config, "workerinput", None)
    config.stash[RUN] = TestRun(**given["runward"]) if given else TestRun.begin()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:  # an xdist worker, before it starts
    run: TestRun = node.config.stash[RUN]
    node.workerinput["runward"] = {"folder": str(run.folder), "template": run.template}


def pytest_unconfigure(config: pytest.Config) -> None:
    if RUN in config.stash and not hasattr(config, "workerinput"):
        config.stash[RUN].end()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep a file on one worker, so that what its tests share is made once. All files with the
    browser share a worker, and so do those that import the libraries of all providers."""
    # Without stubs, and imported only where it is used: `-p no:xdist` must work.
    from xdist.scheduler import (  # noqa: PLC0415 # pyright: ignore[reportMissingTypeStubs]
        LoadFileScheduling,
    )

    class FileScheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            shared = (one for one in (BROWSER, PROVIDERS) if file.startswith(one))
            return next(shared, file)

    config.option.loadscopereorder = False  # the order is that of SLOWEST_FIRST
    return FileScheduling(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The slowest folders come first, so that at the end no worker is busy alone."""
    items.sort(key=lambda item: _rank(item.nodeid))
    for item in items:
        if item.nodeid.startswith(UNIT) and item.get_closest_marker("processes") is None:
            item.add_marker("unit")


def pytest_collection_finish() -> None:
    """Exclude modules and tests, which stay until the end, from garbage collection. Examining them
    again would take an eighth of the CPU time."""
    gc.freeze()


def _rank(nodeid: str) -> int:
    return next((at for at, folder in enumerate(SLOWEST_FIRST) if nodeid.startswith(folder)), 99)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def databases(pytestconfig: pytest.Config) -> Iterator[Databases]:
    with Databases(pytestconfig.stash[RUN]) as databases:
        yield databases


@pytest.fixture(scope="session")
def migrated_databases(databases: Databases) -> Databases:
    databases.make_template()
    return databases


@pytest.fixture
def database_url(migrated_databases: Databases) -> Iterator[str]:
    """A fresh, migrated database, as an SQLAlchemy URL. Dropped after the test."""
    with migrated_databases.migrated() as url:
        yield url


@pytest.fixture
def empty_database_url(databases: Databases) -> Iterator[str]:
    """A fresh database without a schema."""
    with databases.empty() as url:
        yield url


@pytest.fixture(scope="session")
def running(migrated_databases: Databases) -> Iterator["Running"]:
    from tests.api.shared import shared_service  # noqa: PLC0415 - unit tests start without it

    with shared_service(migrated_databases.migrated) as running:
        yield running


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    running: Running | None = getattr(item, "funcargs", {}).get("running")
    if report.failed and running is not None:
        with suppress(ValueError):  # closed already: this was the last test's end
            report.sections.append((running.service.title, running.service.output()[-4000:]))
    return report
