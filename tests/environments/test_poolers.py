"""PgBouncer in transaction mode, whose clients share a few connections to PostgreSQL."""

import pytest

from tests.environments.processes import Measured, Process, environment, only_in_full
from tests.environments.servers import pgbouncer

pytestmark = pytest.mark.timeout(120)


@pytest.mark.parametrize(
    "listens",
    [pytest.param(True, marks=only_in_full), False],
    ids=["with LISTEN_URL", "without LISTEN_URL"],
)
def test_runs_through_pgbouncer_keep_every_promise(
    database_url: str, measured: Measured, *, listens: bool
) -> None:
    env = {"RUNWARD_PGBOUNCER": "true"}
    if listens:
        env["RUNWARD_LISTEN_URL"] = database_url
    with pgbouncer(database_url) as url, environment() as here:
        process = Process(url, env)
        victim = here.start("worker", process)
        api = here.start("api", process)
        workload = here.workload(api)
        here.run(workload, victim, process)
        workload.check()
        measured(f"PgBouncer {'with' if listens else 'without'} LISTEN_URL", workload.figures())
