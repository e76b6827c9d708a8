"""Erase the content of runs that have ended.

The row of each run stays: its ID, agent, model, status, times, usage, cost and error code. Its
events, tool calls and approvals stay without the texts and values of clients, models, tools and
approvers. Digests stay. Everything else that belongs to the run is deleted.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from pydantic_core import from_json
from sqlalchemy import text

from runward.domain.events.erasure import (
    erase_error,
    erase_event_data,
    erase_incomplete_details,
)
from runward.domain.ids import Prefix, ProjectId, RunId, format_id
from runward.domain.json import JsonObject, compact
from runward.store.postgres.db import Tx
from runward.store.postgres.tables import OPEN_STATUSES
from runward.store.runs import queries

GRACE: Final = timedelta(seconds=60)
"""How long after the end of a run the sweep erases it, so that clients can read a stream to its
end."""
_EVENTS_PAGE: Final = 500

DUE: Final = (
    "SELECT project_id, id FROM runs WHERE erase_at_end AND erased_at IS NULL"
    " AND ended_at <= statement_timestamp() - CAST(:grace AS interval)"
    " ORDER BY ended_at LIMIT :batch"
)
_DESCENDANTS: Final = text(
    "SELECT id FROM runs WHERE project_id = :project_id AND parent_run_id IS NOT NULL"
    " AND ancestors @> ARRAY[CAST(:id AS uuid)] ORDER BY id"
)
_ANY_OPEN: Final = text(
    "SELECT 1 FROM runs WHERE project_id = :project_id AND (id = :id OR parent_run_id IS NOT NULL"
    f" AND ancestors @> ARRAY[CAST(:id AS uuid)]) AND status IN ({OPEN_STATUSES}) LIMIT 1"
)
_PERMIT: Final = text("SET LOCAL runward.erasing = 'on'")
"""Lets this transaction change runs that have ended. A trigger rejects all other changes."""
_MARK: Final = text(
    "UPDATE runs SET erase_at_end = true"
    " WHERE project_id = :project_id AND id = :id AND NOT erase_at_end"
)
_RUN: Final = text(
    "SELECT CAST(config AS text) AS config, CAST(error AS text) AS error,"
    " CAST(incomplete_details AS text) AS incomplete FROM runs"
    " WHERE project_id = :project_id AND id = :id AND erased_at IS NULL"
)
_ERASE_RUN: Final = text(
    "UPDATE runs SET config = CAST(:config AS json), error = CAST(:error AS json),"
    " incomplete_details = CAST(:incomplete AS json), team = '{}', tool_versions = '{}',"
    " tool_names = NULL, context = NULL, metadata = '{}', shared = NULL, output = NULL,"
    " output_parsed = NULL, erased_at = clock_timestamp()"
    " WHERE project_id = :project_id AND id = :id"
)
_EVENTS: Final = text(
    "SELECT seq, type, CAST(data AS text) AS data FROM run_events"
    " WHERE project_id = :project_id AND run_id = :id AND seq > :after ORDER BY seq LIMIT :count"
)
_ERASE_EVENTS: Final = text(
    "UPDATE run_events e SET data = CAST(n.data AS json)"
    " FROM unnest(CAST(:seqs AS int[]), CAST(:data AS text[])) AS n(seq, data)"
    " WHERE e.project_id = :project_id AND e.run_id = :id AND e.seq = n.seq"
)
_RESULTS: Final = text(
    "SELECT call_id, CAST(result AS text) AS result FROM tool_calls"
    " WHERE project_id = :project_id AND run_id = :id AND result IS NOT NULL"
)
_ERASE_RESULTS: Final = text(
    "UPDATE tool_calls c SET result = CAST(n.result AS json)"
    " FROM unnest(CAST(:calls AS text[]), CAST(:results AS text[])) AS n(call_id, result)"
    " WHERE c.project_id = :project_id AND c.run_id = :id AND c.call_id = n.call_id"
)
_ERASE_ROWS: Final = tuple(
    text(statement + " WHERE project_id = :project_id AND run_id = ANY(CAST(:ids AS uuid[]))")
    for statement in (
        "UPDATE tool_calls SET arguments = '{}', original_arguments = NULL, raw_arguments = NULL,"
        " received = NULL, exchange = NULL",
        "UPDATE approvals SET arguments = '{}', url = NULL, decision = NULL",
        "DELETE FROM run_items",
        "DELETE FROM late_callbacks",
        "DELETE FROM remembered_decisions",
        "DELETE FROM session_items",
        # The answers of endpoints may repeat the notification. The answer to a request in flight is
        # not recorded, because it belongs to the previous claim.
        "UPDATE webhook_deliveries SET claims = claims + 1, attempts = coalesce((SELECT"
        " json_agg(CAST(a AS jsonb) || '{\"response_body\": null}')"
        " FROM json_array_elements(attempts) AS a), '[]')",
    )
)
_LOCK_SESSIONS: Final = text(
    "SELECT id FROM sessions WHERE project_id = :project_id AND id IN (SELECT session_id"
    " FROM session_items WHERE project_id = :project_id AND run_id = ANY(CAST(:ids AS uuid[])))"
    " ORDER BY id FOR UPDATE"
)
_APPROVALS: Final = text(
    "SELECT id FROM approvals WHERE project_id = :project_id AND run_id = ANY(CAST(:ids AS uuid[]))"
)
# The routes of all requests about these runs and approvals.
_DELETE_ANSWERS: Final = text(
    "DELETE FROM idempotency_keys k USING unnest(CAST(:routes AS text[])) AS r(prefix)"
    " WHERE k.project_id = :project_id AND k.answer IS NOT NULL"
    " AND k.route ~>=~ r.prefix AND k.route ~<~ (r.prefix || chr(1114111))"
)


async def list_due(tx: Tx, limit: int, grace: timedelta = GRACE) -> list[tuple[ProjectId, RunId]]:
    """Return runs that have ended at least `grace` ago and must be erased."""
    rows = await tx.execute(text(DUE), {"batch": limit, "grace": grace})
    return [(ProjectId(row.project_id), RunId(row.id)) for row in rows]


async def erase(tx: Tx, project_id: ProjectId, run_id: RunId) -> bool:
    """Erase the content of the run and of its child runs at all levels. If one of them is open,
    only mark the run, so that the sweep erases it later. Returns False if nothing was erased. The
    run must have no parent. An interrupted or repeated erasure has no effect."""
    run = {"project_id": project_id, "id": run_id}
    below = [RunId(row.id) for row in await tx.execute(_DESCENDANTS, run)]
    await queries.lock_runs(tx, project_id, run_id, *below)
    await tx.execute(_PERMIT)
    await tx.execute(_MARK, run)
    if (await tx.execute(_ANY_OPEN, run)).one_or_none() is not None:
        return False
    ids = [run_id, *(RunId(row.id) for row in await tx.execute(_DESCENDANTS, run))]
    erased = [await _erase_run(tx, project_id, one) for one in ids]
    if not any(erased):
        return False
    await _erase_rows(tx, project_id, ids)
    return True


async def _erase_run(tx: Tx, project_id: ProjectId, run_id: RunId) -> bool:
    """Erase the content of the run's row, its events, and the results of its calls. Returns False
    if the run is already erased."""
    run = {"project_id": project_id, "id": run_id}
    row = (await tx.execute(_RUN, run)).one_or_none()
    if row is None:
        return False
    config = _convert(row.config, _erase_config)
    error = _convert(row.error, erase_error)
    incomplete = _convert(row.incomplete, erase_incomplete_details)
    values = {"config": config, "error": error, "incomplete": incomplete}
    await tx.execute(_ERASE_RUN, run | values)
    await _erase_events(tx, run)
    calls = (await tx.execute(_RESULTS, run)).all()
    results = [_convert(call.result, _erase_result) for call in calls]
    await tx.execute(
        _ERASE_RESULTS, run | {"calls": [call.call_id for call in calls], "results": results}
    )
    return True


async def _erase_events(tx: Tx, run: dict[str, Any]) -> None:
    after = 0
    while rows := (await tx.execute(_EVENTS, run | {"after": after, "count": _EVENTS_PAGE})).all():
        data = [_convert(row.data, _make_eraser(row.type)) for row in rows]
        seqs = [row.seq for row in rows]
        await tx.execute(_ERASE_EVENTS, run | {"seqs": seqs, "data": data})
        after = seqs[-1]


def _make_eraser(type_: str) -> Callable[[JsonObject], JsonObject]:
    return lambda data: erase_event_data(type_, data)


def _erase_config(config: JsonObject) -> JsonObject:
    """Keep the webhook, because the notification of the run's end may not be enqueued yet."""
    return {name: config.get(name) for name in ("model", "webhook") if name in config}


def _erase_result(result: JsonObject) -> JsonObject:
    kept = {name: result[name] for name in ("outcome", "reason") if name in result}
    return {**kept, "output": ""}


def _convert(value: str | None, convert: Callable[[JsonObject], JsonObject]) -> str | None:
    """Convert stored JSON. A value that cannot be read becomes an empty object."""
    if value is None:
        return None
    try:
        return compact(convert(from_json(value)))
    except ValueError:
        return "{}"


async def _erase_rows(tx: Tx, project_id: ProjectId, ids: Sequence[UUID]) -> None:
    """Erase the content of all other rows that belong to these runs."""
    runs = {"project_id": project_id, "ids": list(ids)}
    await _lock_sessions(tx, runs)
    approvals = (await tx.execute(_APPROVALS, runs)).scalars().all()
    for statement in _ERASE_ROWS:
        await tx.execute(statement, runs)
    routes = [f"POST /v1/runs/{format_id(Prefix.RUN, one)}/" for one in ids]
    routes += [f"POST /v1/approvals/{format_id(Prefix.APPROVAL, one)}/" for one in approvals]
    await tx.execute(_DELETE_ANSWERS, {"project_id": project_id, "routes": routes})


async def _lock_sessions(tx: Tx, runs: dict[str, Any]) -> None:
    """Lock all sessions that contain items of these runs. A fork copies items under the lock of
    its source, so after this function no further session gets a copy."""
    locked: set[UUID] = set()
    while True:
        found = {row.id for row in await tx.execute(_LOCK_SESSIONS, runs)}
        if found <= locked:
            return
        locked |= found
