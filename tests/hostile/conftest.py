"""The real service over real HTTP, one process for all tests of a worker."""

from collections.abc import Iterator

import pytest

from tests.api import conftest
from tests.api.project import Running
from tests.api.shared import shared_service
from tests.support.postgres import Databases


@pytest.fixture(scope="session")
def running(migrated_databases: Databases) -> Iterator[Running]:
    with shared_service(
        migrated_databases.migrated, RUNWARD_PLUGINS="tests.hostile.plugin"
    ) as running:
        yield running


project = conftest.project
"""The attacker's project."""
other = conftest.other
"""The neighbor's project."""
