"""The responses of one run, of which each begins where the run waited for its client."""

from typing import Any

import pytest

from runward.api.responses import continuation, log_reader
from runward.api.responses.continuation import PreviousResponse
from runward.api.responses.parts import ResponseId
from runward.store.live import events
from runward.store.runs import views
from tests.db.store import PROJECT, Store

TURNS = 60
A_TURN = 20
"""Events."""
LOG = f"""
INSERT INTO run_events (project_id, run_id, seq, created_at, type, data)
SELECT :project, :id, 1 + (turn - 1) * {A_TURN} + n, now(),
  CASE n WHEN 1 THEN 'tool_call.created' WHEN {A_TURN} THEN 'run.waiting' ELSE 'model.retried' END,
  CASE n WHEN 1 THEN json_build_object('call_id', 'c' || turn, 'tool', 'look', 'tool_type',
    'client', 'turn', turn, 'agent', null, 'arguments', json_build_object())
  WHEN {A_TURN} THEN json_build_object('waiting_for', json_build_array(json_build_object('type',
    'tool_result', 'call_id', 'c' || turn, 'tool', 'look')))
  ELSE '{{}}' END
FROM generate_series(1, {TURNS}) turn, generate_series(1, {A_TURN}) n"""


async def test_where_a_run_waited_last_is_found_by_reading_its_log_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    [run_id] = await store.accept()
    await store.sql(LOG, project=PROJECT, id=run_id)
    read_after, read = events.read_after, 0

    async def counted(*asked: Any) -> list[events.StoredEvent]:
        nonlocal read
        found = await read_after(*asked)
        read += len(found)
        return found

    monkeypatch.setattr(events, "read_after", counted)
    last = 1 + TURNS * A_TURN
    async with store.autocommit.connect() as tx:
        view = await views.get_run(tx, PROJECT, run_id)
        assert view is not None
        first = log_reader.create_log(view, ResponseId(run_id))
        await log_reader.read_log(tx, PROJECT, first)
        read = 0
        former = PreviousResponse(
            view, ResponseId(run_id), first, continuation.list_requests(first)
        )
        assert await continuation.find_last_wait(tx, PROJECT, former) == last
    assert read == last
