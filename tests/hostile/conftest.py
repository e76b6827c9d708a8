"""The real service over real HTTP, one process for all tests of a worker."""

from collections.abc import Iterator

import pytest

from tests.api.project import Project, Running
from tests.api.shared import shared_service
from tests.support.postgres import Databases


@pytest.fixture(scope="session")
def running(migrated_databases: Databases) -> Iterator[Running]:
    with shared_service(migrated_databases, RUNWARD_PLUGINS="tests.hostile.plugin") as running:
        yield running


@pytest.fixture
def project(running: Running) -> Iterator[Project]:
    """The attacker's project."""
    with running.project() as project:
        yield project


@pytest.fixture
def other(running: Running) -> Iterator[Project]:
    """The neighbor's project."""
    with running.project() as project:
        yield project
