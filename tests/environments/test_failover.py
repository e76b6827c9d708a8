"""The primary is lost while work is in flight. A standby that has every acknowledged commit takes
over. DATABASE_URL names both hosts.
"""

import asyncio

import pytest
from sqlalchemy import URL

from runward.store import migrations
from tests.environments.processes import Measured, Process, environment, only_in_full
from tests.environments.servers import ACCOUNT, DRIVER, PostgresServer, postgres, postgres_18
from tests.support.services.client import Json

pytestmark = [pytest.mark.timeout(180), only_in_full]

IN_SYNC = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"


def test_runs_survive_the_promotion_of_a_standby(measured: Measured) -> None:
    programs = postgres_18()
    with postgres(programs) as primary:
        standby = PostgresServer(programs, primary.folder.with_name("standby"))
        standby.copy_from(primary)
        standby.start()
        try:
            primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            primary.execute("SELECT pg_reload_conf()")
            primary.until(IN_SYNC, "1")
            measured("a standby promoted", fail_over(primary, standby))
        finally:
            standby.stop()


def fail_over(primary: PostgresServer, standby: PostgresServer) -> Json:
    asyncio.run(migrations.upgrade(primary.url))
    url = address_of(primary, standby)
    process = Process(url)
    with environment() as here:
        victim = here.start("worker", process)
        api = here.start("api", process)
        workload = here.workload(api)
        workload.begin()
        known = {name: workload.events(run_id) for name, run_id in workload.runs.items()}
        primary.stop()
        victim.kill()
        refused = workload.client.clients[0].request("GET", "/v1/runs")
        assert refused.status_code == 503, refused.text
        standby.promote()
        here.start("worker", process)
        for name, events in known.items():
            assert workload.events(workload.runs[name])[: len(events)] == events, name
        workload.finish()
        workload.check(outage=True)
        return workload.figures()


def address_of(*servers: PostgresServer) -> str:
    """Of whichever of them takes writes."""
    query = {
        "host": ",".join("127.0.0.1" for _ in servers),
        "port": ",".join(str(server.port) for server in servers),
        "target_session_attrs": "read-write",
    }
    return URL.create(DRIVER, ACCOUNT, database="postgres", query=query).render_as_string()
