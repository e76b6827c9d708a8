"""Enqueue the deliveries of events. The log of the project is the outbox: a cursor moves over it,
and each event behind the cursor has its deliveries.

The cursor stops before the horizon of the log, but the next BATCH events are enqueued at once, also
after the horizon. Until the cursor has passed them, they are read again, and a unique index rejects
their second delivery. Therefore, another long transaction on the same server delays no notification
before the project has BATCH more events.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import UUID

import structlog
from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json
from sqlalchemy import text

from runward.domain.events.kinds import ToolCallApprovalDecidedEvent, ToolCallRejectedEvent
from runward.domain.ids import Prefix, ProjectId, RunId, format_id
from runward.domain.json import JsonObject
from runward.domain.run.notifications import (
    ENDPOINT_DISABLED,
    EVENT_TYPES,
    RunWebhook,
    find_notification_type,
    selects,
)
from runward.store.live.project_log import HORIZON
from runward.store.postgres.columns import insert_select, list_values, recordset, take
from runward.store.postgres.db import Tx, mint
from runward.store.postgres.tables import webhook_deliveries

log = structlog.get_logger()

BATCH: Final = 1000
"""Number of events that one transaction reads. Events of the last transaction are read in full."""
MAX_TARGETS: Final = 1024
"""Number of targets that the webhooks of all runs of a project have."""
_TYPES: Final = list_values(EVENT_TYPES)
_RUN_WEBHOOK: Final = TypeAdapter(RunWebhook)

# With EXISTS or without ORDER BY, PostgreSQL may read the whole log.
DUE: Final = (
    "SELECT c.project_id FROM webhook_cursors c CROSS JOIN LATERAL (SELECT FROM run_events e"
    " WHERE e.project_id = c.project_id AND e.transaction_id > c.transaction_id"
    f" AND e.type IN ({_TYPES}) ORDER BY e.transaction_id LIMIT 1) e LIMIT :batch"
)
_LOCK: Final = text(
    "SELECT transaction_id FROM webhook_cursors WHERE project_id = :project_id"
    " FOR UPDATE SKIP LOCKED"
)
_COLUMNS: Final = f"""e.run_id, e.seq, e.type, e.transaction_id, e.created_at,
  CASE WHEN e.type = '{ToolCallRejectedEvent.type}' THEN e.data ->> 'reason' END AS reason,
  e.type <> '{ToolCallApprovalDecidedEvent.type}' OR e.data ->> 'approval_id' IS NOT NULL
    AS has_approval,
  r.parent_run_id IS NOT NULL AS is_child, root.config -> 'webhook' AS webhook"""
_EVENTS: Final = text(
    f"""
SELECT h.horizon, {_COLUMNS}
FROM (SELECT {HORIZON} AS horizon) h
LEFT JOIN (
  SELECT run_id, seq, type, transaction_id, created_at, data FROM run_events
  WHERE project_id = :project_id AND transaction_id > :after AND type IN ({_TYPES})
  ORDER BY transaction_id FETCH FIRST (CAST(:batch AS bigint)) ROWS WITH TIES
) e ON true
LEFT JOIN runs r ON r.project_id = :project_id AND r.id = e.run_id
LEFT JOIN runs root ON root.project_id = :project_id AND root.id = coalesce(r.ancestors[1], r.id)
ORDER BY e.transaction_id, e.run_id, e.seq"""
)
_EVENTS_OF_RUNS: Final = text(
    f"""
SELECT {_COLUMNS} FROM run_events e
JOIN runs r ON r.project_id = :project_id AND r.id = e.run_id
JOIN runs root ON root.project_id = :project_id AND root.id = coalesce(r.ancestors[1], r.id)
WHERE e.project_id = :project_id AND e.run_id = ANY(CAST(:ids AS uuid[])) AND e.type IN ({_TYPES})
  AND e.transaction_id > (SELECT c.transaction_id FROM webhook_cursors c
    WHERE c.project_id = :project_id)"""
)
# The lock keeps the endpoint until its deliveries are committed.
_ENDPOINTS: Final = text(
    "SELECT id, events, enabled_at FROM webhook_endpoints"
    " WHERE project_id = :project_id AND enabled ORDER BY id FOR KEY SHARE"
)
_MOVE: Final = text(
    "UPDATE webhook_cursors SET transaction_id = :position"
    " WHERE project_id = :project_id AND transaction_id < :position"
)
_GIVEN: Final = (
    *("project_id", "id", "endpoint_id", "url", "include", "target", "message_id", "type"),
    *("run_id", "seq", "data"),
)
_INSERT: Final = text(
    insert_select(webhook_deliveries, take("d", _GIVEN) | {"next_attempt_at": "clock_timestamp()"})
    + f" FROM {recordset(webhook_deliveries, 'rows', 'd', _GIVEN[:-1], 'data json')}"
    " ON CONFLICT (project_id, run_id, seq, target) DO NOTHING RETURNING id"
)


async def list_due(tx: Tx, limit: int) -> list[ProjectId]:
    """Return projects with events that may have to be enqueued."""
    rows = await tx.execute(text(DUE), {"batch": limit})
    return [ProjectId(row.project_id) for row in rows]


async def enqueue_events(tx: Tx, project_id: ProjectId) -> int:
    """Enqueue the deliveries of the next events, and return their number. If another process does
    the same, do nothing."""
    locked = (await tx.execute(_LOCK, {"project_id": project_id})).one_or_none()
    if locked is None:
        return 0
    values = {"project_id": project_id, "after": locked.transaction_id, "batch": BATCH}
    rows = (await tx.execute(_EVENTS, values)).all()
    events = [row for row in rows if row.seq is not None]
    # This query is later than the other one, so it returns every endpoint that existed before.
    endpoints = (await tx.execute(_ENDPOINTS, {"project_id": project_id})).all()
    made = [row for event in events for row in _make_deliveries(project_id, event, endpoints)]
    added = await _insert(tx, made)
    position = rows[0].horizon - 1
    if len(events) >= BATCH:
        position = min(position, events[-1].transaction_id)
    await tx.execute(_MOVE, {"project_id": project_id, "position": position})
    return added


async def enqueue_run_webhooks(tx: Tx, project_id: ProjectId, run_ids: Sequence[RunId]) -> None:
    """Enqueue the remaining deliveries for the `webhook` of these runs, before it is erased."""
    values = {"project_id": project_id, "ids": list(run_ids)}
    events = (await tx.execute(_EVENTS_OF_RUNS, values)).all()
    await _insert(tx, [row for one in events for row in _make_deliveries(project_id, one, ())])


async def enqueue_notification(
    tx: Tx, project_id: ProjectId, endpoint_ids: Sequence[UUID], type_: str, data: JsonObject
) -> list[UUID]:
    """Enqueue a notification that is about no run, and return the IDs of its deliveries."""
    message_id = f"{Prefix.EVENT}_{mint().hex}"
    rows: list[dict[str, Any]] = [
        _base(project_id, message_id, type_) | {"endpoint_id": one, "target": one, "data": data}
        for one in endpoint_ids
    ]
    await _insert(tx, rows)
    return [row["id"] for row in rows]


async def notify_disabled(
    tx: Tx, project_id: ProjectId, endpoint_id: UUID, reason: str, data: JsonObject
) -> None:
    """Notify the other endpoints of the project that this one was disabled."""
    endpoints = (await tx.execute(_ENDPOINTS, {"project_id": project_id})).all()
    others = [
        one.id
        for one in endpoints
        if one.id != endpoint_id and selects(one.events, ENDPOINT_DISABLED)
    ]
    data = {**data, "disabled_reason": reason}
    await enqueue_notification(tx, project_id, others, ENDPOINT_DISABLED, data)


def _make_deliveries(
    project_id: ProjectId, event: Any, endpoints: Sequence[Any]
) -> Iterator[dict[str, Any]]:
    type_ = find_notification_type(
        event.type,
        reason=event.reason,
        has_approval=event.has_approval,
        is_child=event.is_child,
    )
    if type_ is None:
        return
    message_id = f"{Prefix.EVENT}_{event.run_id.hex}_{event.seq}"
    about = {"run_id": event.run_id, "seq": event.seq}
    for endpoint in endpoints:
        if event.created_at >= endpoint.enabled_at and selects(endpoint.events, type_):
            base = _base(project_id, message_id, type_)
            yield {**base, **about, "endpoint_id": endpoint.id, "target": endpoint.id}
    webhook = _read_webhook(project_id, event)
    if webhook is not None and selects(webhook.events, type_):
        base = _base(project_id, message_id, type_)
        target = {"url": webhook.url, "target": _find_target(project_id, webhook.url)}
        yield {**base, **about, **target, "include": webhook.include}


def _find_target(project_id: ProjectId, url: str) -> UUID:
    """Return the target of a webhook. If its URL cannot be parsed, its deliveries fail, and do not
    block the other notifications."""
    try:
        return _make_target(project_id, url)
    except ValueError:
        return _make_target(project_id, "")


def _base(project_id: ProjectId, message_id: str, type_: str) -> dict[str, Any]:
    nothing: dict[str, Any] = dict.fromkeys(("endpoint_id", "url", "run_id", "seq", "data"))
    about = {"project_id": project_id, "id": mint(), "message_id": message_id, "type": type_}
    return {**nothing, **about, "include": ()}


def _read_webhook(project_id: ProjectId, event: Any) -> RunWebhook | None:
    """Return the webhook of the event's run. A webhook that this version cannot read must not block
    the other notifications of the project."""
    try:
        return event.webhook and _RUN_WEBHOOK.validate_python(event.webhook, strict=False)
    except ValidationError:
        log.exception(
            "run_webhook_unreadable",
            project=format_id(Prefix.PROJECT, project_id),
            run=format_id(Prefix.RUN, event.run_id),
        )
        return None


def _make_target(project_id: UUID, url: str) -> UUID:
    """Return the ID that the webhooks of runs share if they have the same project and host. Because
    a claim reads every target, a project has a limited number of them, which its hosts share."""
    host = hashlib.sha256((urlsplit(url).hostname or "").encode()).digest()
    number = int.from_bytes(host) % MAX_TARGETS
    return UUID(bytes=hashlib.sha256(project_id.bytes + number.to_bytes(4)).digest()[:16])


async def _insert(tx: Tx, rows: Sequence[dict[str, Any]]) -> int:
    if not rows:
        return 0
    return len((await tx.execute(_INSERT, {"rows": to_json(rows).decode()})).all())
