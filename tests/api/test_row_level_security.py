"""Row-level security separates the projects under a role that owns nothing: the tests of
authorization pass with it, and also if the queries have no conditions on the project."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.project import Running
from tests.api.shared import shared_service
from tests.api.test_tenancy_api import *  # noqa: F403
from tests.support.postgres import Databases

UNSCOPED = Path(__file__).parents[1] / "support" / "unscoped"


@pytest.fixture(scope="module", params=["with conditions", "without conditions"])
def running(migrated_databases: Databases, request: pytest.FixtureRequest) -> Iterator[Running]:
    """A service whose role owns nothing, on a database with row-level security."""
    env = {} if request.param == "with conditions" else {"PYTHONPATH": str(UNSCOPED)}
    with shared_service(migrated_databases.secured, **env) as running:
        yield running
