"""Fixtures for all tests. Ask for `database_url` to get a migrated PostgreSQL database of your own.

Tests are plain functions or `async def`; those run on asyncio, without a marker.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.postgres import Databases, TestRun

RUN = pytest.StashKey[TestRun]()


def pytest_configure(config: pytest.Config) -> None:
    given: dict[str, Any] | None = getattr(config, "workerinput", None)
    config.stash[RUN] = TestRun(**given["runward"]) if given else TestRun.begin()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:  # an xdist worker, before it starts
    run: TestRun = node.config.stash[RUN]
    node.workerinput["runward"] = {"folder": str(run.folder), "template": run.template}


def pytest_unconfigure(config: pytest.Config) -> None:
    if RUN in config.stash and not hasattr(config, "workerinput"):
        config.stash[RUN].end()


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
