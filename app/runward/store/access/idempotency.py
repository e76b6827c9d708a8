"""Idempotency keys. Each key is stored for 24 hours, together with the response.

The record is written in the transaction of the operation that it protects, so that either both or
none are committed. A second request with the key waits for the first one's commit. Responses are
encrypted, because some of them contain a secret that is shown only once.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

from sqlalchemy import delete, func, select, update
from sqlalchemy.dialects.postgresql import insert

from runward.domain.ids import ProjectId
from runward.store.access.vault import Vault
from runward.store.postgres.columns import RowMapping
from runward.store.postgres.db import Tx
from runward.store.postgres.tables import idempotency_keys

RETENTION: Final = timedelta(hours=24)
ANSWER_COLUMN: Final = "idempotency_keys.answer"


@dataclass(frozen=True, slots=True)
class IdempotencyRecord:
    """A key with its response. For a request that started a run, `resource_id` is the run. For all
    other requests, `answer` is the encrypted response, and `resource_id` is the resource that it
    describes."""

    route: str
    body_digest: str
    resource_id: UUID | None
    status: int | None
    answer: bytes | None


_RECORD: Final = RowMapping(IdempotencyRecord, idempotency_keys)


async def read(tx: Tx, project_id: ProjectId, key: str) -> IdempotencyRecord | None:
    query = select(idempotency_keys).where(
        idempotency_keys.c.project_id == project_id,
        idempotency_keys.c.key == key,
        idempotency_keys.c.expires_at > func.clock_timestamp(),
    )
    row = (await tx.execute(query)).one_or_none()
    return None if row is None else _RECORD.read(row)


async def delete_expired(tx: Tx, project_id: ProjectId, key: str) -> None:
    """Delete the key if it has expired, so that clients can use it again."""
    await tx.execute(
        delete(idempotency_keys).where(
            idempotency_keys.c.project_id == project_id,
            idempotency_keys.c.key == key,
            idempotency_keys.c.expires_at <= func.clock_timestamp(),
        )
    )


async def reserve(tx: Tx, project_id: ProjectId, key: str, route: str, body_digest: str) -> bool:
    """Reserve the key. Waits for other transactions that reserve it. An expired key can be used
    again. Returns False if the key is taken."""
    made = insert(idempotency_keys).values(
        project_id=project_id,
        key=key,
        route=route,
        body_digest=body_digest,
        expires_at=func.clock_timestamp() + RETENTION,
    )
    taken = made.on_conflict_do_update(
        index_elements=[idempotency_keys.c.project_id, idempotency_keys.c.key],
        set_={
            "route": made.excluded.route,
            "body_digest": made.excluded.body_digest,
            "resource_id": None,
            "status": None,
            "answer": None,
            "expires_at": made.excluded.expires_at,
        },
        where=idempotency_keys.c.expires_at <= func.clock_timestamp(),
    )
    row = await tx.execute(taken.returning(idempotency_keys.c.key))
    return row.one_or_none() is not None


async def store_answer(
    tx: Tx,
    vault: Vault,
    project_id: ProjectId,
    key: str,
    status: int,
    answer: str,
    *,
    resource_id: UUID | None,
) -> None:
    sealed = vault.seal(answer, column=ANSWER_COLUMN, project_id=project_id, row=key)
    await tx.execute(
        update(idempotency_keys)
        .where(idempotency_keys.c.project_id == project_id, idempotency_keys.c.key == key)
        .values(status=status, answer=sealed, resource_id=resource_id)
    )


async def delete_answer(tx: Tx, project_id: ProjectId, route: str, resource_id: UUID) -> None:
    """Delete the key of the request that created a resource, with its response."""
    await tx.execute(
        delete(idempotency_keys).where(
            idempotency_keys.c.project_id == project_id,
            idempotency_keys.c.route == route,
            idempotency_keys.c.resource_id == resource_id,
            idempotency_keys.c.answer.is_not(None),
        )
    )


def open_answer(vault: Vault, project_id: ProjectId, key: str, sealed: bytes) -> str:
    return vault.open(sealed, column=ANSWER_COLUMN, project_id=project_id, row=key)
