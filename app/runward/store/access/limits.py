"""Limits of projects and API keys, and the counts of requests and of queued runs."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final, cast
from uuid import UUID

from sqlalchemy import Select, TextClause, and_, select, text

from runward.domain.errors import TooManyRequestsError
from runward.domain.ids import KeyId, ProjectId
from runward.domain.json import JsonObject, compact
from runward.domain.limits import KeyLimits, ProjectLimits, digest_expression
from runward.store.postgres.columns import RowMapping
from runward.store.postgres.db import Tx
from runward.store.postgres.tables import api_keys, key_limits, project_limits

_OF_PROJECT: Final = tuple(
    project_limits.c[name]
    for name in (
        *("running_runs", "queued_runs", "requests_per_minute", "event_streams"),
        *("agents", "tools", "concurrency_keys"),
    )
)
_KEY_LIMITS: Final = RowMapping(KeyLimits, key_limits)
_OF_KEY: Final = tuple(key_limits.c[name].label(f"key_{name}") for name in _KEY_LIMITS.columns)
_PUT: Final = text(
    """
INSERT INTO project_limits (project_id, running_runs, queued_runs, requests_per_minute,
  event_streams, agents, tools, concurrency_keys)
VALUES (:project_id, :running_runs, :queued_runs, :requests_per_minute, :event_streams,
  CAST(:agents AS jsonb), CAST(:tools AS jsonb), CAST(:concurrency_keys AS jsonb))
ON CONFLICT (project_id) DO UPDATE SET running_runs = excluded.running_runs,
  queued_runs = excluded.queued_runs, requests_per_minute = excluded.requests_per_minute,
  event_streams = excluded.event_streams, agents = excluded.agents, tools = excluded.tools,
  concurrency_keys = excluded.concurrency_keys, updated_at = clock_timestamp()
RETURNING updated_at"""
)
_PUT_KEYS: Final = text(
    """
WITH given AS (
  SELECT * FROM json_to_recordset(CAST(:keys AS json)) AS g(key_id uuid, running_runs int,
    queued_runs int, requests_per_minute int, event_streams int)
), gone AS (
  DELETE FROM key_limits
  WHERE project_id = :project_id AND key_id NOT IN (SELECT key_id FROM given)
)
INSERT INTO key_limits (project_id, key_id, running_runs, queued_runs, requests_per_minute,
  event_streams)
SELECT :project_id, g.* FROM given g
ON CONFLICT (project_id, key_id) DO UPDATE SET running_runs = excluded.running_runs,
  queued_runs = excluded.queued_runs, requests_per_minute = excluded.requests_per_minute,
  event_streams = excluded.event_streams"""
)


# A clock that was set back must not extend a minute.
_SAME_MINUTE: Final = "abs(extract(epoch FROM statement_timestamp() - l.minute_at)) < 60"


def _count_request(table: str, owner: str) -> TextClause:
    """Return the statement that counts a request of an owner of limits. The count may be lost if
    the database crashes, so the request does not wait for the disk."""
    return text(
        f"""
WITH fast AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))
UPDATE {table} l SET
  requests = CASE WHEN {_SAME_MINUTE} THEN least(l.requests, l.requests_per_minute) + 1 ELSE 1 END,
  minute_at = CASE WHEN {_SAME_MINUTE} THEN l.minute_at ELSE statement_timestamp() END
FROM fast WHERE {owner} AND l.requests_per_minute IS NOT NULL
RETURNING l.requests_per_minute AS limit, l.requests, CAST(60 - abs(extract(
  epoch FROM statement_timestamp() - l.minute_at)) AS float8) AS seconds_left"""
    )


_COUNT_OF_PROJECT: Final = _count_request("project_limits", "l.project_id = :project_id")
_COUNT_OF_KEY: Final = _count_request(
    "key_limits", "l.project_id = :project_id AND l.key_id = :key_id"
)
# A run that has started and waits for its child runs or for callbacks is not in the queue.
_COUNT_QUEUED: Final = text(
    "SELECT count(*) FROM (SELECT FROM runs WHERE project_id = :project_id AND status = 'queued'"
    " AND parent_run_id IS NULL AND NOT (available_at = 'infinity' AND started_at IS NOT NULL)"
    " AND created_by = coalesce(CAST(:key_id AS uuid), created_by) LIMIT :most) q"
)


@dataclass(frozen=True, slots=True)
class RequestCount:
    """The requests of a project or a key in the current minute, which ends in `seconds_left`."""

    limit: int
    requests: int
    seconds_left: float


@dataclass(frozen=True, slots=True)
class StoredLimits:
    """`keys`: the limits of single keys. `updated_at`: None if the limits were never set."""

    limits: ProjectLimits
    keys: Mapping[KeyId, KeyLimits]
    updated_at: datetime | None


def add_limits(query: Any) -> Select[*tuple[Any, ...]]:
    """Return the query of API keys with the columns that `read_limits` and `read_key_limits`
    read."""
    of_key = and_(
        key_limits.c.project_id == api_keys.c.project_id, key_limits.c.key_id == api_keys.c.id
    )
    return (
        query.add_columns(*_OF_PROJECT, *_OF_KEY)
        .outerjoin(project_limits, project_limits.c.project_id == api_keys.c.project_id)
        .outerjoin(key_limits, of_key)
    )


def read_limits(row: Any) -> ProjectLimits:
    """Return the limits of the project of a row. All are NULL if they were never set."""
    rules: dict[str, JsonObject] = row.concurrency_keys or {}
    return ProjectLimits(
        row.running_runs,
        row.queued_runs,
        row.requests_per_minute,
        row.event_streams,
        row.agents or {},
        row.tools or {},
        {str(rule["key"]): cast("int", rule["max"]) for rule in rules.values()},
    )


def read_key_limits(row: Any) -> KeyLimits:
    """Return the limits of the key of a row. All are NULL if they were never set."""
    return KeyLimits(*(getattr(row, column.name) for column in _OF_KEY))


async def get_limits(tx: Tx, project_id: ProjectId, *, lock: bool = False) -> StoredLimits:
    """`lock`: no other transaction changes them until this one ends."""
    query = select(*_OF_PROJECT, project_limits.c.updated_at).where(
        project_limits.c.project_id == project_id
    )
    row = (await tx.execute(query.with_for_update() if lock else query)).one_or_none()
    if row is None:
        return StoredLimits(ProjectLimits(), {}, None)
    keys = await tx.execute(select(key_limits).where(key_limits.c.project_id == project_id))
    limits_of_keys = {KeyId(key.key_id): _KEY_LIMITS.read(key) for key in keys}
    return StoredLimits(read_limits(row), limits_of_keys, row.updated_at)


async def put_limits(
    tx: Tx,
    project_id: ProjectId,
    limits: ProjectLimits,
    keys: Mapping[KeyId, KeyLimits] | None = None,
) -> StoredLimits:
    """Replace all limits of the project and its keys."""
    rules = {
        digest_expression(key): {"key": key, "max": most}
        for key, most in limits.concurrency_keys.items()
    }
    values = {
        "project_id": project_id,
        "running_runs": limits.running_runs,
        "queued_runs": limits.queued_runs,
        "requests_per_minute": limits.requests_per_minute,
        "event_streams": limits.event_streams,
        "agents": compact({**limits.agents}) if limits.agents else None,
        "tools": compact({**limits.tools}) if limits.tools else None,
        "concurrency_keys": compact(rules) if rules else None,
    }
    updated_at = (await tx.execute(_PUT, values)).scalar_one()
    keys = keys or {}
    rows = [{"key_id": key_id, **asdict(one)} for key_id, one in keys.items()]
    await tx.execute(_PUT_KEYS, {"project_id": project_id, "keys": compact(rows)})
    return StoredLimits(limits, keys, updated_at)


async def count_request(
    tx: Tx, project_id: ProjectId, key_id: KeyId | None = None
) -> RequestCount | None:
    """Count a request of the key, or of the project if `key_id` is None. Returns None if there is
    no such limit."""
    values: dict[str, UUID] = {"project_id": project_id}
    if key_id is None:
        rows = await tx.execute(_COUNT_OF_PROJECT, values)
    else:
        rows = await tx.execute(_COUNT_OF_KEY, values | {"key_id": key_id})
    row = rows.one_or_none()
    return None if row is None else RequestCount(row.limit, row.requests, row.seconds_left)


async def ensure_queue_room(
    tx: Tx, project_id: ProjectId, most: int, key_id: KeyId | None = None
) -> None:
    """`key_id`: count the runs that this key started. Raises TooManyRequestsError."""
    values = {"project_id": project_id, "most": most, "key_id": key_id}
    if (await tx.execute(_COUNT_QUEUED, values)).scalar_one() >= most:
        owner = "project" if key_id is None else "API key"
        raise TooManyRequestsError(f"The {owner} has {most} queued runs, its maximum.")
