"""The deliveries of notifications: claims, results, lists and redeliveries.

A worker claims a delivery for LEASE. If it does not record a result within this time, the delivery
is due again. `claims` is the number of the claim, so that only the last claim is recorded.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import MAXYEAR, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import structlog
from pydantic_core import from_json
from sqlalchemy import text

from runward.domain.ids import Prefix, ProjectId, RunId, format_id
from runward.domain.json import JsonObject, compact
from runward.domain.run.notifications import (
    ENDPOINT_TEST,
    DeliveryStatus,
    DisabledReason,
    build_payload,
    compute_retry_delay,
    find_disabled_reason,
    select_data,
)
from runward.store.access.vault import Vault
from runward.store.postgres.db import Tx
from runward.store.webhooks import endpoints, outbox
from runward.tracing import TracedClaim

log = structlog.get_logger()

LEASE: Final = timedelta(seconds=30)
"""How long one attempt may take, with its claim and its record."""
MAX_RECORDED: Final = 20
"""Number of attempts that are kept of each delivery, which is more than one schedule has."""

DUE: Final = (
    "SELECT 1 FROM webhook_deliveries WHERE status = 'pending'"
    " AND next_attempt_at <= statement_timestamp() AND next_attempt_at < 'infinity'"
)
_JOINS: Final = """
  LEFT JOIN run_events e ON e.project_id = d.project_id AND e.run_id = d.run_id AND e.seq = d.seq
  LEFT JOIN webhook_endpoints w ON w.project_id = d.project_id AND w.id = d.endpoint_id"""
_COLUMNS: Final = """
  d.project_id, d.id, d.endpoint_id, d.target, d.message_id, d.type, d.run_id, d.seq, d.status,
  d.attempt, d.claims, CAST(d.attempts AS text) AS attempts, d.next_attempt_at, d.created_at,
  d.ended_at, CAST(d.data AS text) AS own_data, coalesce(w.url, d.url) AS url,
  coalesce(w.include, d.include) AS include, e.type AS event_type,
  CAST(e.data AS text) AS event_data, e.created_at AS event_at"""
# `targets` reads one row of the index for each target, so that the number of deliveries that wait
# for a target does not matter. `due` prefers projects with few requests in flight. `targets` and
# `found` have no condition that another partial index requires. With old statistics, PostgreSQL
# would use that index and read all pending deliveries for each target.
_CLAIM: Final = text(
    f"""
WITH RECURSIVE targets AS (
  (SELECT target, project_id FROM webhook_deliveries WHERE status = 'pending'
   ORDER BY target LIMIT 1)
  UNION ALL
  SELECT d.target, d.project_id FROM targets t CROSS JOIN LATERAL (
    SELECT d.target, d.project_id FROM webhook_deliveries d
    WHERE d.status = 'pending' AND d.target > t.target ORDER BY d.target LIMIT 1) AS d
), found AS MATERIALIZED (
  SELECT d.*, p.free,
    row_number() OVER (PARTITION BY d.project_id ORDER BY d.next_attempt_at) AS number
  FROM targets t
  LEFT JOIN unnest(CAST(:targets AS uuid[]), CAST(:free_of_targets AS int[])) AS f(target, free)
    ON f.target = t.target
  LEFT JOIN unnest(CAST(:projects AS uuid[]), CAST(:free_of_projects AS int[])) AS g(id, free)
    ON g.id = t.project_id
  CROSS JOIN LATERAL (SELECT coalesce(g.free, CAST(:per_project AS int)) AS free) AS p
  CROSS JOIN LATERAL (
    SELECT d.project_id, d.id, d.next_attempt_at FROM webhook_deliveries d
    WHERE d.target = t.target AND d.status = 'pending'
    ORDER BY d.next_attempt_at LIMIT least(coalesce(f.free, CAST(:per_target AS int)), p.free)
  ) AS d
  WHERE d.next_attempt_at <= statement_timestamp()
), due AS MATERIALIZED (
  SELECT w.* FROM (
    SELECT project_id, id FROM found WHERE number <= free
    ORDER BY number - free, next_attempt_at LIMIT CAST(:count AS int)
  ) AS f CROSS JOIN LATERAL (
    SELECT w.project_id, w.id FROM webhook_deliveries w
    WHERE w.project_id = f.project_id AND w.id = f.id AND w.status = 'pending'
      AND w.next_attempt_at <= statement_timestamp()
    FOR UPDATE SKIP LOCKED
  ) AS w
), d AS (
  UPDATE webhook_deliveries d SET claims = d.claims + 1,
    next_attempt_at = clock_timestamp() + CAST(:lease AS interval)
  FROM due WHERE d.project_id = due.project_id AND d.id = due.id RETURNING d.*
)
SELECT {_COLUMNS}, w.secret, coalesce(w.enabled, true) AS enabled,
  CASE WHEN w.former_secret_until > clock_timestamp() THEN w.former_secret END AS former_secret,
  coalesce(r.ancestors[1], r.id) AS root_run_id, r.fence, r.config -> 'trace' AS trace
FROM d {_JOINS}
  LEFT JOIN runs r ON r.project_id = d.project_id AND r.id = d.run_id"""
)
_RECORD: Final = text(
    """
UPDATE webhook_deliveries SET status = :status, attempt = attempt + 1,
  attempts = CAST(:attempts AS json),
  next_attempt_at = CASE WHEN :status = 'pending' THEN
    CASE WHEN :held THEN 'infinity' ELSE clock_timestamp() + CAST(:delay AS interval) END END,
  ended_at = CASE WHEN :status <> 'pending' THEN clock_timestamp() END
WHERE project_id = :project_id AND id = :id AND claims = :claims AND status = 'pending'
RETURNING id"""
)
# The endpoint may have been enabled since the claim.
_HOLD: Final = text(
    "UPDATE webhook_deliveries d SET next_attempt_at = 'infinity'"
    " FROM (SELECT id FROM webhook_endpoints WHERE project_id = :project_id AND id = :endpoint_id"
    " AND NOT enabled FOR SHARE) w WHERE d.project_id = :project_id AND d.id = :id"
    " AND d.claims = :claims AND d.status = 'pending'"
)
_SUCCEED: Final = text(
    "UPDATE webhook_endpoints SET failing_since = NULL"
    " WHERE project_id = :project_id AND id = :id AND failing_since IS NOT NULL"
)
_FAIL: Final = text(
    "UPDATE webhook_endpoints SET failing_since = coalesce(failing_since, clock_timestamp())"
    " WHERE project_id = :project_id AND id = :id"
    " RETURNING enabled, clock_timestamp() - failing_since AS failing_for"
)
_GET: Final = (
    f"SELECT {_COLUMNS} FROM webhook_deliveries d {_JOINS} WHERE d.project_id = :project_id"
)
_HAS_STATUS: Final[Mapping[DeliveryStatus, str]] = {
    DeliveryStatus.PENDING: "d.ended_at IS NULL",
    DeliveryStatus.DELIVERED: "d.status = 'delivered'",
    DeliveryStatus.FAILED: "d.status = 'failed'",
}
"""The conditions of the partial index of deliveries that were not successful."""
_REDELIVER: Final = text(
    # The result of a request in flight is not recorded, because it belongs to the former schedule.
    "UPDATE webhook_deliveries SET status = 'pending', attempt = 0, claims = claims + 1,"
    " ended_at = NULL, next_attempt_at = clock_timestamp()"
    " WHERE project_id = :project_id AND id = :id"
)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of a delivery. `status_code` and `response_body` are None without a response."""

    sent_at: datetime
    duration_ms: float
    status_code: int | None
    response_body: str | None
    error: str | None


@dataclass(frozen=True, slots=True)
class Delivery:
    """A delivery. `attempt`: the number of attempts since it was created or redelivered. `include`:
    see `RunWebhook`. `attempts`: the newest attempts, oldest first, as JSON."""

    project_id: ProjectId
    id: UUID
    endpoint_id: UUID | None
    target: UUID
    message_id: str
    type: str
    run_id: RunId | None
    status: DeliveryStatus
    attempt: int
    claims: int
    attempts: tuple[JsonObject, ...]
    next_attempt_at: datetime | None
    created_at: datetime
    ended_at: datetime | None
    url: str
    payload: JsonObject

    @property
    def is_held(self) -> bool:
        """Return whether the delivery waits until its endpoint is enabled. The driver returns the
        largest time for `infinity`."""
        return self.next_attempt_at is not None and self.next_attempt_at.year == MAXYEAR


@dataclass(frozen=True, slots=True)
class ClaimLimit:
    """The maximum number of deliveries of each target or project. `free` replaces it for single
    targets or projects."""

    default: int
    free: Mapping[UUID, int]


@dataclass(frozen=True, slots=True)
class ClaimedDelivery:
    """A delivery to send. `sealed_secrets`: the secrets of its endpoint, newest first. None: the
    project's signing secret signs it. `claim`: the last claim of its run, if it has one."""

    delivery: Delivery
    enabled: bool
    sealed_secrets: tuple[bytes, ...] | None
    claim: TracedClaim | None

    def open_secrets(self, vault: Vault) -> tuple[str, ...]:
        """Return the endpoint's secrets. Raises SecretUnreadableError."""
        one = self.delivery
        assert self.sealed_secrets is not None
        assert one.endpoint_id is not None
        return tuple(
            endpoints.open_secret(vault, one.project_id, one.endpoint_id, sealed)
            for sealed in self.sealed_secrets
        )


async def claim_deliveries(
    tx: Tx, count: int, per_target: ClaimLimit, per_project: ClaimLimit, lease: timedelta = LEASE
) -> list[ClaimedDelivery]:
    """Claim up to `count` deliveries that are due. Each target and each project gives the ones that
    are due longest."""
    values = {
        "count": count,
        "per_target": per_target.default,
        "targets": list(per_target.free),
        "free_of_targets": list(per_target.free.values()),
        "per_project": per_project.default,
        "projects": list(per_project.free),
        "free_of_projects": list(per_project.free.values()),
        "lease": lease,
    }
    return [
        ClaimedDelivery(
            _read_delivery(row),
            row.enabled,
            None
            if row.endpoint_id is None
            else tuple(one for one in (row.secret, row.former_secret) if one is not None),
            None
            if row.root_run_id is None
            else TracedClaim(row.run_id, row.root_run_id, row.fence, row.trace),
        )
        for row in await tx.execute(_CLAIM, values)
    ]


async def hold_delivery(tx: Tx, delivery: Delivery) -> None:
    """Let a claimed delivery wait until its endpoint is enabled, if it is still disabled."""
    await tx.execute(_HOLD, _identify_claim(delivery) | {"endpoint_id": delivery.endpoint_id})


async def record_success(tx: Tx, delivery: Delivery, attempt: Attempt) -> bool:
    """Return whether the claim was still valid."""
    if delivery.endpoint_id is not None:  # Every transaction locks the endpoint first.
        await tx.execute(_SUCCEED, {"project_id": delivery.project_id, "id": delivery.endpoint_id})
    return await _record(tx, delivery, attempt, DeliveryStatus.DELIVERED)


async def record_failure(
    tx: Tx, delivery: Delivery, attempt: Attempt, jitter: float, retry_after: float | None
) -> DisabledReason | None:
    """Record a failed attempt, and schedule the next one. If the endpoint is disabled, return the
    reason. `jitter` and `retry_after`: see `compute_retry_delay`."""
    project_id, endpoint_id = delivery.project_id, delivery.endpoint_id
    delay = compute_retry_delay(delivery.type, delivery.attempt + 1, jitter, retry_after)
    reason, held, is_gone = None, False, attempt.status_code == 410
    if endpoint_id is not None and delivery.type != ENDPOINT_TEST:
        row = (await tx.execute(_FAIL, {"project_id": project_id, "id": endpoint_id})).one_or_none()
        if row is None:  # The endpoint and its deliveries were deleted.
            return None
        if row.enabled:
            reason = find_disabled_reason(attempt.status_code, row.failing_for)
        held = not row.enabled or reason is not None
    status = DeliveryStatus.FAILED if delay is None or is_gone else DeliveryStatus.PENDING
    recorded = await _record(tx, delivery, attempt, status, delay, held=held)
    if not recorded or reason is None or endpoint_id is None:
        return None
    await endpoints.disable_endpoint(tx, project_id, endpoint_id, reason)
    about: JsonObject = {"webhook_endpoint_id": format_id(Prefix.WEBHOOK_ENDPOINT, endpoint_id)}
    await outbox.notify_disabled(tx, project_id, endpoint_id, reason, about)
    return reason


async def get_delivery(tx: Tx, project_id: ProjectId, delivery_id: UUID) -> Delivery | None:
    values = {"project_id": project_id, "id": delivery_id}
    row = (await tx.execute(text(f"{_GET} AND d.id = :id"), values)).one_or_none()
    return None if row is None else _read_delivery(row)


async def list_deliveries(
    tx: Tx,
    project_id: ProjectId,
    *,
    endpoint_id: UUID | None,
    run_id: UUID | None,
    status: DeliveryStatus | None,
    after: UUID | None,
    limit: int,
    descending: bool,
) -> list[Delivery]:
    """Return a page of the deliveries, in the order in which they were created."""
    given = {"endpoint_id": endpoint_id, "run_id": run_id}
    filters = {name: value for name, value in given.items() if value is not None}
    values: dict[str, Any] = {"project_id": project_id, "limit": limit, **filters}
    query = _GET + "".join(f" AND d.{name} = :{name}" for name in filters)
    if status is not None:
        query += f" AND {_HAS_STATUS[status]}"
    if after is not None:
        query += f" AND d.id {'<' if descending else '>'} :after"
        values["after"] = after
    query += f" ORDER BY d.id {'DESC' if descending else 'ASC'} LIMIT :limit"
    return [_read_delivery(row) for row in await tx.execute(text(query), values)]


async def redeliver(tx: Tx, project_id: ProjectId, delivery_id: UUID) -> None:
    """Start the schedule of the delivery again. Its message ID stays the same."""
    await tx.execute(_REDELIVER, {"project_id": project_id, "id": delivery_id})


async def _record(
    tx: Tx,
    delivery: Delivery,
    attempt: Attempt,
    status: DeliveryStatus,
    delay: timedelta | None = None,
    *,
    held: bool = False,
) -> bool:
    entry: JsonObject = {
        "sent_at": attempt.sent_at.isoformat(),
        "duration_ms": attempt.duration_ms,
        "status_code": attempt.status_code,
        "response_body": attempt.response_body,
        "error": attempt.error,
    }
    values = {
        **_identify_claim(delivery),
        "status": status.value,
        "attempts": compact([*delivery.attempts, entry][-MAX_RECORDED:]),
        "delay": delay or timedelta(),
        "held": held,
    }
    return (await tx.execute(_RECORD, values)).one_or_none() is not None


def _identify_claim(delivery: Delivery) -> dict[str, Any]:
    return {"project_id": delivery.project_id, "id": delivery.id, "claims": delivery.claims}


def _read_delivery(row: Any) -> Delivery:
    return Delivery(
        project_id=ProjectId(row.project_id),
        id=row.id,
        endpoint_id=row.endpoint_id,
        target=row.target,
        message_id=row.message_id,
        type=row.type,
        run_id=row.run_id,
        status=DeliveryStatus(row.status),
        attempt=row.attempt,
        claims=row.claims,
        attempts=_read_attempts(row.attempts),
        next_attempt_at=row.next_attempt_at,
        created_at=row.created_at,
        ended_at=row.ended_at,
        url=row.url,
        payload=_build_payload(row),
    )


def _read_attempts(stored: str) -> tuple[JsonObject, ...]:
    try:
        return tuple(from_json(stored))
    except (ValueError, TypeError):
        return ()


def _build_payload(row: Any) -> JsonObject:
    """Build the payload from the event in the log, so that deliveries contain no copy of it."""
    if row.event_type is None:
        data: JsonObject = {} if row.own_data is None else from_json(row.own_data)
        return build_payload(row.type, row.message_id, row.created_at, {}, data)
    subject: JsonObject = {"run_id": format_id(Prefix.RUN, row.run_id), "sequence": row.seq}
    data = _select_event_data(row)
    return build_payload(row.type, row.message_id, row.event_at, subject, data)


def _select_event_data(row: Any) -> JsonObject:
    """Return the data of the event. If it cannot be read, the notification has none, because one
    event must not stop the deliveries of all others."""
    try:
        return select_data(row.event_type, from_json(row.event_data), row.include)
    except (ValueError, AttributeError):
        log.warning("event_unreadable", run=format_id(Prefix.RUN, row.run_id), sequence=row.seq)
        return {}
