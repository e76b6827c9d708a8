"""The real service over real HTTP: one process for all tests of a worker, one project for each."""

from collections.abc import Generator, Iterator
from contextlib import suppress

import pytest

from tests.api.project import Project, Running
from tests.api.protocols import Speaker
from tests.api.shared import shared_service
from tests.support.postgres import Databases


@pytest.fixture(scope="session")
def running(migrated_databases: Databases) -> Iterator[Running]:
    with shared_service(migrated_databases) as running:
        yield running


@pytest.fixture
def project(running: Running) -> Iterator[Project]:
    with running.project() as project:
        yield project


@pytest.fixture
def other(running: Running) -> Iterator[Project]:
    """A second project."""
    with running.project() as project:
        yield project


@pytest.fixture
def speaker(request: pytest.FixtureRequest, project: Project) -> Speaker:
    """Of the protocol that is the test's parameter."""
    return Speaker(request.param, project)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    running = getattr(item, "funcargs", {}).get("running")
    if report.failed and isinstance(running, Running):
        with suppress(ValueError):  # closed already: this was the last test's end
            report.sections.append((running.service.title, running.service.output()[-4000:]))
    return report
