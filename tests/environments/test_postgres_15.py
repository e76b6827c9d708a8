"""The oldest PostgreSQL that is supported."""

import asyncio

import pytest

from runward.store import migrations
from tests.environments.processes import Measured, Process, environment, only_in_full
from tests.environments.servers import postgres, postgres_15

pytestmark = [pytest.mark.timeout(180), only_in_full]


def test_runs_on_postgresql_15_keep_every_promise(measured: Measured) -> None:
    with postgres(postgres_15()) as server, environment() as here:
        asyncio.run(migrations.upgrade(server.url))
        process = Process(server.url)
        victim = here.start("worker", process)
        api = here.start("api", process)
        workload = here.workload(api)
        here.run(workload, victim, process)
        workload.check()
        measured("PostgreSQL 15", workload.figures())
