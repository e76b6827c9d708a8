"""Erase the content of runs that have ended.

The row of each run stays: its ID, agent, model, status, times, usage, cost and error code. Its
events, tool calls and approvals stay without the texts and values of clients, models, tools and
approvers. Digests stay. Everything else that belongs to the run is deleted.

A run is erased together with its child runs at all levels. All functions lock the project before
they lock runs, so that nobody can set a legal hold meanwhile.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from pydantic_core import from_json
from sqlalchemy import text

from runward.domain.errors import LegalHoldError
from runward.domain.events.erasure import (
    TOOL_CALL_EVENTS,
    erase_error,
    erase_event_data,
    erase_incomplete_details,
    erase_tool_content,
)
from runward.domain.ids import Prefix, ProjectId, RunId, SessionId, format_id
from runward.domain.json import JsonObject, compact
from runward.store.access import holds
from runward.store.postgres.columns import list_values
from runward.store.postgres.db import Tx
from runward.store.postgres.tables import OPEN_STATUSES
from runward.store.runs import queries
from runward.store.webhooks import outbox

GRACE: Final = timedelta(seconds=60)
"""How long after the end of a run the sweep erases it, so that clients can read a stream to its
end."""
_EVENTS_PAGE: Final = 500

DUE: Final = (
    "SELECT project_id, id FROM runs r WHERE erase_at_end AND erased_at IS NULL"
    " AND ended_at <= statement_timestamp() - CAST(:grace AS interval)"
    f" AND NOT {holds.RUN_HELD.format(run='r')} ORDER BY ended_at LIMIT :batch"
)
# Newest first, so that no run starts because the one before it is cancelled.
_OF_SESSION: Final = text(
    f"SELECT r.id, {holds.RUN_HELD.format(run='r')} AS is_held FROM runs r"
    " WHERE r.project_id = :project_id AND r.session_id = :session_id"
    " AND r.session_seq IS NOT NULL AND r.erased_at IS NULL AND NOT r.erase_at_end"
    " ORDER BY is_held DESC, r.session_seq DESC LIMIT :limit"
)
_DESCENDANTS: Final = text(
    "SELECT id FROM runs WHERE project_id = :project_id AND parent_run_id IS NOT NULL"
    " AND ancestors @> ARRAY[CAST(:id AS uuid)] ORDER BY id"
)
_FAMILIES: Final = text(
    f"""
SELECT id, id AS root, last_seq, status IN ({OPEN_STATUSES}) AS is_open FROM runs
WHERE project_id = :project_id AND id = ANY(CAST(:ids AS uuid[]))
UNION ALL
SELECT id, ancestors[1], last_seq, status IN ({OPEN_STATUSES}) FROM runs
WHERE project_id = :project_id AND parent_run_id IS NOT NULL
  AND ancestors && CAST(:ids AS uuid[])"""
)
_LOCK: Final = text(
    "SELECT id FROM runs WHERE project_id = :project_id AND id = ANY(CAST(:ids AS uuid[]))"
    " ORDER BY id FOR UPDATE SKIP LOCKED"
)
_PERMIT: Final = text("SET LOCAL runward.erasing = 'on'")
"""Lets this transaction change runs that have ended. A trigger rejects all other changes."""
_MARK: Final = text(
    "UPDATE runs SET erase_at_end = true"
    " WHERE project_id = :project_id AND id = :id AND NOT erase_at_end"
)
_OF_RUNS: Final = " WHERE project_id = :project_id AND run_id = ANY(CAST(:ids AS uuid[]))"
_RUNS: Final = text(
    "SELECT id, CAST(config AS text) AS config, CAST(error AS text) AS error,"
    " CAST(incomplete_details AS text) AS incomplete FROM runs WHERE project_id = :project_id"
    " AND id = ANY(CAST(:ids AS uuid[])) AND erased_at IS NULL ORDER BY id"
)
_ERASE_RUNS: Final = text(
    "UPDATE runs r SET config = CAST(n.config AS json), error = CAST(n.error AS json),"
    " incomplete_details = CAST(n.incomplete AS json), team = '{}', tool_versions = '{}',"
    " tool_names = NULL, concurrency_groups = NULL, context = NULL, metadata = '{}',"
    " shared = NULL, output = NULL, output_parsed = NULL, erased_at = clock_timestamp()"
    " FROM unnest(CAST(:ids AS uuid[]), CAST(:configs AS text[]), CAST(:errors AS text[]),"
    " CAST(:incompletes AS text[])) AS n(id, config, error, incomplete)"
    " WHERE r.project_id = :project_id AND r.id = n.id"
)
_EVENTS: Final = (
    "SELECT run_id, seq, type, CAST(data AS text) AS data FROM run_events"
    + _OF_RUNS
    + " AND (run_id, seq) > (CAST(:after_run AS uuid), CAST(:after AS int)){only}"
    " ORDER BY run_id, seq LIMIT :count"
)
_ALL_EVENTS: Final = text(_EVENTS.format(only=""))
_CALL_EVENTS: Final = text(_EVENTS.format(only=f" AND type IN ({list_values(TOOL_CALL_EVENTS)})"))
_ERASE_EVENTS: Final = text(
    "UPDATE run_events e SET data = CAST(n.data AS json) FROM unnest(CAST(:runs AS uuid[]),"
    " CAST(:seqs AS int[]), CAST(:data AS text[])) AS n(run_id, seq, data)"
    " WHERE e.project_id = :project_id AND e.run_id = n.run_id AND e.seq = n.seq"
)
_RESULTS: Final = text(
    "SELECT run_id, call_id AS key, CAST(result AS text) AS value FROM tool_calls"
    + _OF_RUNS
    + " AND result IS NOT NULL"
)
_DECISIONS: Final = text(
    "SELECT run_id, CAST(id AS text) AS key, CAST(decision AS text) AS value FROM approvals"
    + _OF_RUNS
    + " AND decision IS NOT NULL"
)
_RUN_ITEMS: Final = text(
    "SELECT run_id, CAST(seq AS text) AS key, CAST(items AS text) AS value FROM run_items"
    + _OF_RUNS
)
_SESSION_ITEMS: Final = text(
    "SELECT run_id, session_id || ' ' || seq AS key, CAST(items AS text) AS value"
    " FROM session_items" + _OF_RUNS
)
_VALUES: Final = (
    " FROM unnest(CAST(:runs AS uuid[]), CAST(:keys AS text[]), CAST(:values AS text[]))"
    " AS n(run_id, key, value) WHERE t.project_id = :project_id AND t.run_id = n.run_id AND "
)
_SET_RESULTS: Final = text(
    "UPDATE tool_calls t SET result = CAST(n.value AS json)" + _VALUES + "t.call_id = n.key"
)
_SET_DECISIONS: Final = text(
    "UPDATE approvals t SET decision = CAST(n.value AS json)"
    + _VALUES
    + "t.id = CAST(n.key AS uuid)"
)
_SET_RUN_ITEMS: Final = text(
    "UPDATE run_items t SET items = CAST(n.value AS json)" + _VALUES + "t.seq = CAST(n.key AS int)"
)
_SET_SESSION_ITEMS: Final = text(
    "UPDATE session_items t SET items = CAST(n.value AS json)"
    + _VALUES
    + "t.session_id = CAST(split_part(n.key, ' ', 1) AS uuid)"
    " AND t.seq = CAST(split_part(n.key, ' ', 2) AS bigint)"
)
_ERASE_CALLS: Final = tuple(
    text(statement + _OF_RUNS)
    for statement in (
        "UPDATE tool_calls SET arguments = '{}', original_arguments = NULL, raw_arguments = NULL,"
        " received = NULL, exchange = NULL",
        "DELETE FROM late_callbacks",
        "UPDATE audit_entries SET before = NULL, after = NULL, salt = NULL",
    )
)
_ERASE_ROWS: Final = tuple(
    text(statement + _OF_RUNS)
    for statement in (
        "UPDATE approvals SET arguments = '{}', url = NULL, decision = NULL",
        "DELETE FROM run_items",
        "DELETE FROM remembered_decisions",
        # The answers of endpoints may repeat the notification. The answer to a request in flight is
        # not recorded, because it belongs to the previous claim.
        "UPDATE webhook_deliveries SET claims = claims + 1, attempts = coalesce((SELECT"
        " json_agg(CAST(a AS jsonb) || '{\"response_body\": null}')"
        " FROM json_array_elements(attempts) AS a), '[]')",
    )
)
_ERASE_ARGUMENTS: Final = text("UPDATE approvals SET arguments = '{}'" + _OF_RUNS)
_DELETE_SESSION_ITEMS: Final = text("DELETE FROM session_items" + _OF_RUNS)
# A step that ends a run of the session does not wait for this lock, but a fork does.
_LOCK_SESSIONS: Final = text(
    "SELECT id FROM sessions WHERE project_id = :project_id AND id IN (SELECT session_id"
    " FROM session_items" + _OF_RUNS + ") ORDER BY id FOR KEY SHARE"
)
_APPROVALS: Final = text("SELECT id FROM approvals" + _OF_RUNS)
# The routes of all requests about these runs and approvals.
_DELETE_ANSWERS: Final = text(
    "DELETE FROM idempotency_keys k USING unnest(CAST(:routes AS text[])) AS r(prefix)"
    " WHERE k.project_id = :project_id AND k.answer IS NOT NULL"
    " AND k.route ~>=~ r.prefix AND k.route ~<~ (r.prefix || chr(1114111))"
)
# The payloads of deliveries are built from these events.
_DELETE_EVENTS: Final = tuple(
    text(f"DELETE FROM {table}" + _OF_RUNS) for table in ("run_events", "webhook_deliveries")
)


@dataclass(frozen=True, slots=True)
class Family:
    """A run without a parent and its child runs at all levels. `events`: the number of their
    events."""

    root: RunId
    ids: tuple[RunId, ...]
    events: int
    is_open: bool


async def list_due(tx: Tx, limit: int, grace: timedelta = GRACE) -> list[tuple[ProjectId, RunId]]:
    """Return runs that have ended at least `grace` ago and must be erased."""
    rows = await tx.execute(text(DUE), {"batch": limit, "grace": grace})
    return [(ProjectId(row.project_id), RunId(row.id)) for row in rows]


async def list_of_session(
    tx: Tx, project_id: ProjectId, session_id: SessionId, limit: int
) -> list[RunId]:
    """Return runs of the session that are not erased and will not be. Raises LegalHoldError if one
    of all its runs is under a hold."""
    values = {"project_id": project_id, "session_id": session_id, "limit": limit}
    rows = (await tx.execute(_OF_SESSION, values)).all()
    if rows and rows[0].is_held:
        raise LegalHoldError
    return [RunId(row.id) for row in rows]


async def erase(tx: Tx, project_id: ProjectId, run_id: RunId) -> bool:
    """Erase the content of the run and of its child runs at all levels. If one of them is open,
    only mark the run, so that the sweep erases it later. Returns False if nothing was erased or
    marked. The run must have no parent. An interrupted or repeated erasure has no effect. Raises
    LegalHoldError."""
    run = {"project_id": project_id, "id": run_id}
    await holds.lock_for_erasure(tx, project_id)
    below = [RunId(row.id) for row in await tx.execute(_DESCENDANTS, run)]
    await queries.lock_runs(tx, project_id, run_id, *below)
    await holds.ensure_run_is_free(tx, project_id, run_id)
    await tx.execute(_PERMIT)
    is_marked = (await tx.execute(_MARK, run)).rowcount > 0
    [family] = await list_families(tx, project_id, [run_id])
    is_erased = not family.is_open and await erase_content(tx, project_id, family.ids)
    return is_marked or is_erased


async def list_families(tx: Tx, project_id: ProjectId, roots: Sequence[RunId]) -> list[Family]:
    """Return the families of these runs, in the order of `roots`."""
    rows = (await tx.execute(_FAMILIES, {"project_id": project_id, "ids": list(roots)})).all()
    members: dict[UUID, list[Any]] = {root: [] for root in roots}
    for row in rows:
        members[row.root].append(row)
    return [
        Family(
            root,
            tuple(RunId(row.id) for row in members[root]),
            sum(row.last_seq for row in members[root]),
            any(row.is_open for row in members[root]),
        )
        for root in roots
    ]


async def lock_ended(tx: Tx, project_id: ProjectId, families: Sequence[Family]) -> list[Family]:
    """Lock the first of these families for erasure, and return them, up to a run that is open or
    that another transaction has locked. No statement waits for the lock of a run."""
    ids = [one for family in families for one in family.ids]
    locked = set((await tx.execute(_LOCK, {"project_id": project_id, "ids": ids})).scalars())
    await tx.execute(_PERMIT)
    ready: list[Family] = []
    for family in await list_families(tx, project_id, [one.root for one in families]):
        if family.is_open or not locked.issuperset(family.ids):
            break
        ready.append(family)
    return ready


async def erase_content(tx: Tx, project_id: ProjectId, ids: Sequence[RunId]) -> bool:
    """Erase the content of these runs, which have ended and are locked. Returns False if it was
    already erased."""
    runs = {"project_id": project_id, "ids": list(ids)}
    rows = (await tx.execute(_RUNS, runs)).all()
    if not rows:
        return False
    await outbox.enqueue_run_webhooks(tx, project_id, ids)
    values = {
        "ids": [row.id for row in rows],
        "configs": [_convert(row.config, _erase_config) for row in rows],
        "errors": [_convert(row.error, erase_error) for row in rows],
        "incompletes": [_convert(row.incomplete, erase_incomplete_details) for row in rows],
    }
    await tx.execute(_ERASE_RUNS, runs | values)
    await _erase_events(tx, runs, _ALL_EVENTS)
    approvals = (await tx.execute(_APPROVALS, runs)).scalars().all()
    await _erase_calls(tx, runs)
    for statement in _ERASE_ROWS:
        await tx.execute(statement, runs)
    routes = [f"POST /v1/runs/{format_id(Prefix.RUN, one)}/" for one in ids]
    routes += [f"POST /v1/approvals/{format_id(Prefix.APPROVAL, one)}/" for one in approvals]
    await tx.execute(_DELETE_ANSWERS, {"project_id": project_id, "routes": routes})
    await _lock_sessions(tx, runs)
    await tx.execute(_DELETE_SESSION_ITEMS, runs)
    return True


async def erase_call_content(tx: Tx, project_id: ProjectId, ids: Sequence[RunId]) -> int:
    """Erase the arguments and results of the tool calls of these runs, with all copies, and the
    reasoning of the models, which may repeat them. The runs have ended and are locked. Returns the
    number of calls in the tool-call log."""
    runs = {"project_id": project_id, "ids": list(ids)}
    await _erase_events(tx, runs, _CALL_EVENTS)
    calls = await _erase_calls(tx, runs)
    await tx.execute(_ERASE_ARGUMENTS, runs)
    await _convert_rows(tx, runs, _DECISIONS, _SET_DECISIONS, _erase_decision)
    await _convert_rows(tx, runs, _RUN_ITEMS, _SET_RUN_ITEMS, _erase_run_items, unreadable="[]")
    await _lock_sessions(tx, runs)
    await _convert_rows(
        tx, runs, _SESSION_ITEMS, _SET_SESSION_ITEMS, _erase_session_items, unreadable="[]"
    )
    return calls


async def delete_events(tx: Tx, project_id: ProjectId, ids: Sequence[RunId]) -> int:
    """Delete the events of these runs, which have ended and are locked, and return their number."""
    runs = {"project_id": project_id, "ids": list(ids)}
    deleted, _ = [(await tx.execute(one, runs)).rowcount for one in _DELETE_EVENTS]
    return deleted


async def _erase_calls(tx: Tx, runs: dict[str, Any]) -> int:
    await _convert_rows(tx, runs, _RESULTS, _SET_RESULTS, _erase_result)
    calls, *_ = [(await tx.execute(one, runs)).rowcount for one in _ERASE_CALLS]
    return calls


async def _erase_events(tx: Tx, runs: dict[str, Any], select: Any) -> None:
    position = {"after_run": UUID(int=0), "after": 0, "count": _EVENTS_PAGE}
    while rows := (await tx.execute(select, runs | position)).all():
        values = {
            "project_id": runs["project_id"],
            "runs": [row.run_id for row in rows],
            "seqs": [row.seq for row in rows],
            "data": [_convert(row.data, _make_eraser(row.type)) for row in rows],
        }
        await tx.execute(_ERASE_EVENTS, values)
        position |= {"after_run": rows[-1].run_id, "after": rows[-1].seq}


async def _convert_rows(
    tx: Tx,
    runs: dict[str, Any],
    select: Any,
    update: Any,
    convert: Callable[[Any], Any],
    *,
    unreadable: str = "{}",
) -> None:
    rows = (await tx.execute(select, runs)).all()
    if rows:
        values = {
            "project_id": runs["project_id"],
            "runs": [row.run_id for row in rows],
            "keys": [row.key for row in rows],
            "values": [_convert(row.value, convert, unreadable) for row in rows],
        }
        await tx.execute(update, values)


def _make_eraser(type_: str) -> Callable[[JsonObject], JsonObject]:
    return lambda data: erase_event_data(type_, data)


def _erase_config(config: JsonObject) -> JsonObject:
    return {name: config[name] for name in ("model",) if name in config}


def _erase_result(result: JsonObject) -> JsonObject:
    kept = {name: result[name] for name in ("outcome", "reason") if name in result}
    return {**kept, "output": ""}


def _erase_decision(decision: JsonObject) -> JsonObject:
    return {"decision": decision["decision"]}


def _erase_run_items(items: list[JsonObject]) -> list[JsonObject]:
    return [one for item in items if (one := erase_tool_content(item)) is not None]


def _erase_session_items(items: list[JsonObject | None]) -> list[JsonObject | None]:
    """Replace deleted items by null, because the position of an item is part of its ID."""
    return [item and erase_tool_content(item) for item in items]


def _convert(
    value: str | None, convert: Callable[[Any], Any], unreadable: str = "{}"
) -> str | None:
    """Convert stored JSON. `unreadable` replaces a value that this version cannot read."""
    if value is None:
        return None
    try:
        return compact(convert(from_json(value)))
    except (ValueError, LookupError, TypeError, AttributeError):
        return unreadable


async def _lock_sessions(tx: Tx, runs: dict[str, Any]) -> None:
    """Lock all sessions that contain items of these runs. A fork copies items under the lock of
    its source, so after this function no further session gets a copy."""
    locked: set[UUID] = set()
    while True:
        found = {row.id for row in await tx.execute(_LOCK_SESSIONS, runs)}
        if found <= locked:
            return
        locked |= found
