"""Workers are killed with SIGKILL while they start the runs of a schedule. Every slot has exactly
one run.

`RUNWARD_SCHEDULE_KILLS` sets the number of workers that are killed.
"""

import asyncio
import os
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

import pytest
from sqlalchemy import NullPool, Row, text
from sqlalchemy.ext.asyncio import create_async_engine

from runward.domain.schedules import MAX_MISSED, ScheduleMisfires
from tests.e2e.conftest import Processes

KILLS: Final = int(os.environ.get("RUNWARD_SCHEDULE_KILLS", "4"))
SCHEDULES: Final = 8
MINUTES: Final = 80
"""Number of missed slots of each schedule. All of them start runs."""
WAIT_SECONDS: Final = 60
"""More than the lease of a slot, after which another worker processes it."""

pytestmark = pytest.mark.timeout(180 + 10 * KILLS)


def test_killed_workers_lose_no_slot_and_repeat_none(start: Processes) -> None:
    assert MAX_MISSED[ScheduleMisfires.ALL] > MINUTES
    client = start.client(start("api"))
    body = {
        "name": "killed",
        "cron": "* * * * *",
        "run": {"model": "offline:rules", "input": "go"},
        "overlap": "queue",
        "misfires": "all",
    }
    ids = [client.call("POST", "/v1/schedules", body)["id"] for _ in range(SCHEDULES)]
    _query(
        start,
        "UPDATE schedules SET due_at = clock_timestamp(),"
        f" next_at = next_at - interval '{MINUTES} minutes'",
    )
    first = _query(start, "SELECT min(next_at) AS at FROM schedules")[0].at
    left: list[int] = []
    for number in range(1, KILLS + 1):
        worker = start("worker")
        _wait_for_slots(start, SCHEDULES * MINUTES * number // (KILLS + 2))
        worker.kill()
        left.append(_query(start, "SELECT count(*) AS n FROM schedule_slots")[0].n)
    assert left[-1] < SCHEDULES * MINUTES, "All slots were processed before the last worker died."
    worker = start("worker")
    _wait_for_slots(start, SCHEDULES * MINUTES)
    for schedule_id in ids:
        client.call("PATCH", f"/v1/schedules/{schedule_id}", {"enabled": False})
    worker.kill()
    found = _query(
        start,
        "SELECT s.schedule_id, s.slot_at, s.status, r.id AS run_id FROM schedule_slots s"
        " LEFT JOIN runs r ON r.project_id = s.project_id AND r.id = s.run_id"
        " AND r.schedule_id = s.schedule_id ORDER BY s.schedule_id, s.slot_at",
    )
    runs = _query(start, "SELECT count(*) AS n FROM runs WHERE schedule_id IS NOT NULL")[0].n
    print(f"\n{KILLS} workers killed after {left} slots; {len(found)} slots, {runs} runs")
    assert len({row.run_id for row in found}) == len(found) == runs
    assert {row.status for row in found} == {"started"}
    for schedule_id in {row.schedule_id for row in found}:
        times = [row.slot_at for row in found if row.schedule_id == schedule_id]
        assert times == [first + timedelta(minutes=n) for n in range(len(times))]
        assert len(times) >= MINUTES


def _wait_for_slots(start: Processes, count: int) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while _query(start, "SELECT count(*) AS n FROM schedule_slots")[0].n < count:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def _query(start: Processes, statement: str) -> Sequence[Row[Any]]:
    async def act() -> Sequence[Row[Any]]:
        engine = create_async_engine(start.database_url, poolclass=NullPool)
        async with engine.begin() as tx:
            found = await tx.execute(text(statement))
            rows: Sequence[Row[Any]] = found.all() if found.returns_rows else []
        await engine.dispose()
        return rows

    return asyncio.run(act())
