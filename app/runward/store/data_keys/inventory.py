"""The state of the data keys, for operators: what they encrypt, and what depends on them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from sqlalchemy import delete, text

from runward.store.data_keys import reencryption
from runward.store.data_keys.key_ring import ACTIVATION, find_current, list_keys, list_outdated
from runward.store.postgres.db import Tx
from runward.store.postgres.registry_tables import data_keys
from runward.store.postgres.tables import OPEN_STATUSES

Status = Literal["previous", "current", "next"]

_DEPENDENTS: Final = text(
    f"""
SELECT
  (SELECT count(*) FROM api_keys WHERE revoked_at IS NULL
     AND (expires_at IS NULL OR expires_at > clock_timestamp())
     AND created_at < :since AND (last_used_at IS NULL OR last_used_at < :since)) AS api_keys,
  (SELECT count(*) FROM tool_calls
     WHERE phase = 'awaiting_callback' AND started_at < :since) AS callbacks,
  (SELECT count(*) FROM projects p CROSS JOIN LATERAL (
     SELECT created_at, config, team FROM runs WHERE project_id = p.id
       AND parent_run_id IS NULL AND status IN ({OPEN_STATUSES})
     UNION ALL SELECT created_at, config, team FROM runs WHERE project_id = p.id
       AND parent_run_id IS NOT NULL AND status IN ({OPEN_STATUSES})) r
   WHERE r.created_at < :since
     AND (CAST(config AS text) LIKE '%"sealed"%' OR CAST(team AS text) LIKE '%"sealed"%'))
    AS open_runs"""
)


@dataclass(frozen=True, slots=True)
class KeyState:
    """A data key. `values`: the number of ciphertexts in the database. `secret_keys`: the IDs of
    the keys that have wrapped it."""

    id: bytes
    status: Status
    values: int
    created_at: datetime
    secret_keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Dependents:
    """What may depend on a data key older than the current one. `since`: when all processes used
    the current key."""

    since: datetime
    api_keys: int
    callbacks: int
    open_runs: int


async def list_states(tx: Tx) -> list[KeyState]:
    """Return the data keys, oldest first. Reads all encrypted values."""
    stored = await list_keys(tx)
    if not stored:  # no process of this version has used the database yet
        return []
    current = stored.index(find_current(stored))
    values = await reencryption.count_by_key(tx, [one.id for one in stored])
    return [
        KeyState(
            one.id,
            "previous" if at < current else "current" if at == current else "next",
            values[one.id],
            one.created_at,
            tuple(sorted(one.wrapped)),
        )
        for at, one in enumerate(stored)
    ]


async def count_outdated_values(tx: Tx) -> int:
    """Return the number of values that a previous data key encrypts. Returns 0 without reading the
    values if a pass of a worker has found none left."""
    stored = await list_keys(tx)
    if not (outdated := list_outdated(stored)):
        return 0
    values = await reencryption.count_by_key(tx, [one.id for one in stored])
    return sum(values[one.id] for one in outdated)


async def count_dependents(tx: Tx) -> Dependents:
    since = find_current(await list_keys(tx)).created_at + 2 * ACTIVATION
    row = (await tx.execute(_DEPENDENTS, {"since": since})).one()
    return Dependents(since, row.api_keys, row.callbacks, row.open_runs)


async def delete_key(tx: Tx, key_id: bytes) -> None:
    await tx.execute(delete(data_keys).where(data_keys.c.id == key_id))
