"""How often a run's log is read for a response."""

from sqlalchemy import event

from runward.api.responses import log_reader
from runward.api.responses.parts import ResponseId
from runward.store.runs import views
from tests.db.store import PROJECT, Store, pay

WAITS = 20


async def test_the_response_before_another_one_is_found_without_reading_all_before_it(
    store: Store,
) -> None:
    state = await store.waiting(pay("c1"))
    await store.sql("DELETE FROM run_events WHERE type = 'run.waiting'")
    last = (await store.head(state.id)).last_seq
    await store.sql(
        "INSERT INTO run_events (project_id, run_id, seq, type, data, created_at)"
        " SELECT :project, :id, n, CASE n % 2 WHEN 0 THEN 'run.waiting' ELSE 'run.resumed' END,"
        """ '{"waiting_for": [{"type": "approval", "call_id": "c1", "approval_id": "apr_1"}]}',"""
        " now() FROM generate_series(CAST(:first AS int), CAST(:last AS int)) n",
        project=PROJECT,
        id=state.id,
        first=last,
        last=last + 2 * WAITS,
    )
    rows = await store.sql(
        "SELECT seq FROM run_events WHERE run_id = :id AND type = 'run.waiting' ORDER BY seq",
        id=state.id,
    )
    *_, before, after = [row.seq for row in rows]
    reads: list[str] = []
    async with store.pool.connect() as tx:
        view = await views.get_run(tx, PROJECT, state.id)
        assert view is not None
        log = log_reader.create_log(view, ResponseId(state.id, after))
        await log_reader.read_log(tx, PROJECT, log)
        event.listen(tx.sync_connection, "before_cursor_execute", lambda *a: reads.append(a[2]))
        found = await log_reader.read_previous_response(tx, PROJECT, view, log)
    assert (found.after, found.seen) == (before, after)
    assert len(reads) <= 2


async def test_all_messages_to_a_run_that_waits_are_counted(store: Store) -> None:
    state = await store.waiting(pay("c1"))
    last, messages = (await store.head(state.id)).last_seq, log_reader.PAGE + 1
    await store.sql(
        "INSERT INTO run_events (project_id, run_id, seq, type, data, created_at) SELECT :project,"
        """ :id, CAST(:last AS int) + n, 'input.received', '{"messages": 1}', now()"""
        " FROM generate_series(1, CAST(:count AS int)) n",
        project=PROJECT,
        id=state.id,
        last=last,
        count=messages,
    )
    async with store.pool.connect() as tx:
        assert await log_reader.count_messages(tx, PROJECT, ResponseId(state.id, last)) == messages
