"""The webhook endpoints of a project."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import case, delete, func, insert, select, text, update

from runward.domain.ids import ProjectId
from runward.domain.run.notifications import DisabledReason
from runward.store.access.vault import Vault
from runward.store.live.project_log import HORIZON
from runward.store.postgres.columns import RowMapping
from runward.store.postgres.db import Tx, mint, select_page
from runward.store.postgres.tables import webhook_endpoints
from runward.store.registry.tool_registry import ROTATION_OVERLAP

SECRET_COLUMN: Final = "webhook_endpoints.secret"  # noqa: S105  # a column, no secret


@dataclass(frozen=True, slots=True)
class StoredEndpoint:
    """An endpoint without its secret."""

    id: UUID
    url: str
    description: str
    events: tuple[str, ...]
    include: tuple[str, ...]
    enabled: bool
    disabled_reason: DisabledReason | None
    failing_since: datetime | None
    created_at: datetime
    updated_at: datetime


_ENDPOINT: Final = RowMapping(StoredEndpoint, webhook_endpoints)
_COLUMNS: Final = tuple(webhook_endpoints.c[name] for name in _ENDPOINT.columns)
_ENABLED_AT: Final = case(
    (webhook_endpoints.c.enabled, webhook_endpoints.c.enabled_at), else_=func.clock_timestamp()
)
_ADD_CURSOR: Final = text(
    "INSERT INTO webhook_cursors (project_id, transaction_id)"
    f" SELECT :project_id, {HORIZON} - 1 ON CONFLICT DO NOTHING"
)
_LOCK: Final = text("SELECT FROM webhook_cursors WHERE project_id = :project_id FOR UPDATE")
_COUNT: Final = select(func.count()).select_from(webhook_endpoints)
# The pending deliveries of a disabled endpoint wait until it is enabled.
_HOLD: Final = text(
    "UPDATE webhook_deliveries SET next_attempt_at ="
    " CASE WHEN :enabled THEN clock_timestamp() ELSE CAST('infinity' AS timestamptz) END"
    " WHERE project_id = :project_id AND endpoint_id = :id AND status = 'pending'"
)


async def add_cursor(tx: Tx, project_id: ProjectId) -> None:
    """Let workers enqueue the notifications of the project from now on. The transaction must be
    committed before the first event that causes one."""
    await tx.execute(_ADD_CURSOR, {"project_id": project_id})


async def count_endpoints(tx: Tx, project_id: ProjectId) -> int:
    return (
        await tx.execute(_COUNT.where(webhook_endpoints.c.project_id == project_id))
    ).scalar_one()


async def add_endpoint(
    tx: Tx, vault: Vault, project_id: ProjectId, fields: Mapping[str, Any], secret: str
) -> StoredEndpoint:
    """Add an endpoint. Until the transaction ends, no other one can add an endpoint of the
    project."""
    await add_cursor(tx, project_id)
    await tx.execute(_LOCK, {"project_id": project_id})
    endpoint_id = mint()
    made = insert(webhook_endpoints).values(
        project_id=project_id,
        id=endpoint_id,
        secret=_seal(vault, project_id, endpoint_id, secret),
        **fields,
    )
    return _ENDPOINT.read((await tx.execute(made.returning(*_COLUMNS))).one())


async def get_endpoint(
    tx: Tx, project_id: ProjectId, endpoint_id: UUID, *, lock: bool = False
) -> StoredEndpoint | None:
    """Return the endpoint, or None if it does not exist. `lock`: until the transaction ends."""
    query = select(*_COLUMNS).where(*_identify(project_id, endpoint_id))
    found = (await tx.execute(query.with_for_update() if lock else query)).one_or_none()
    return None if found is None else _ENDPOINT.read(found)


async def list_endpoints(
    tx: Tx, project_id: ProjectId, *, after: UUID | None, limit: int, descending: bool
) -> list[StoredEndpoint]:
    query = select_page(
        select(*_COLUMNS).where(webhook_endpoints.c.project_id == project_id),
        webhook_endpoints.c.id,
        after=after,
        limit=limit,
        descending=descending,
    )
    return [_ENDPOINT.read(row) for row in await tx.execute(query)]


async def update_endpoint(
    tx: Tx, project_id: ProjectId, endpoint_id: UUID, fields: Mapping[str, Any]
) -> StoredEndpoint | None:
    """Update the fields. An endpoint that is enabled starts without failures, and its pending
    deliveries are due. Returns None if the endpoint does not exist."""
    values: dict[str, Any] = {**fields, "updated_at": func.clock_timestamp()}
    if fields.get("enabled"):
        values |= {"disabled_reason": None, "failing_since": None, "enabled_at": _ENABLED_AT}
    row = await tx.execute(
        update(webhook_endpoints)
        .where(*_identify(project_id, endpoint_id))
        .values(values)
        .returning(*_COLUMNS)
    )
    found = row.one_or_none()
    if found is None:
        return None
    if "enabled" in fields:
        await _hold_deliveries(tx, project_id, endpoint_id, enabled=found.enabled)
    return _ENDPOINT.read(found)


async def disable_endpoint(
    tx: Tx, project_id: ProjectId, endpoint_id: UUID, reason: DisabledReason
) -> None:
    await tx.execute(
        update(webhook_endpoints)
        .where(*_identify(project_id, endpoint_id))
        .values(enabled=False, disabled_reason=reason, updated_at=func.clock_timestamp())
    )
    await _hold_deliveries(tx, project_id, endpoint_id, enabled=False)


async def rotate_secret(
    tx: Tx, vault: Vault, project_id: ProjectId, endpoint_id: UUID, secret: str
) -> bool:
    """Replace the signing secret. The previous secret also signs for ROTATION_OVERLAP. Returns
    False if the endpoint does not exist."""
    changed = await tx.execute(
        update(webhook_endpoints)
        .where(*_identify(project_id, endpoint_id))
        .values(
            former_secret=webhook_endpoints.c.secret,
            former_secret_until=func.clock_timestamp() + ROTATION_OVERLAP,
            secret=_seal(vault, project_id, endpoint_id, secret),
            updated_at=func.clock_timestamp(),
        )
        .returning(webhook_endpoints.c.id)
    )
    return changed.one_or_none() is not None


async def delete_endpoint(tx: Tx, project_id: ProjectId, endpoint_id: UUID) -> bool:
    """Delete the endpoint and its deliveries. Returns False if it does not exist."""
    gone = await tx.execute(
        delete(webhook_endpoints)
        .where(*_identify(project_id, endpoint_id))
        .returning(webhook_endpoints.c.id)
    )
    return gone.one_or_none() is not None


def open_secret(vault: Vault, project_id: UUID, endpoint_id: UUID, sealed: bytes) -> str:
    """Return the decrypted secret. Raises SecretUnreadableError."""
    return vault.open(sealed, column=SECRET_COLUMN, project_id=project_id, row=endpoint_id.hex)


def _seal(vault: Vault, project_id: UUID, endpoint_id: UUID, secret: str) -> bytes:
    return vault.seal(secret, column=SECRET_COLUMN, project_id=project_id, row=endpoint_id.hex)


def _identify(project_id: ProjectId, endpoint_id: UUID) -> tuple[Any, ...]:
    return (webhook_endpoints.c.project_id == project_id, webhook_endpoints.c.id == endpoint_id)


async def _hold_deliveries(
    tx: Tx, project_id: ProjectId, endpoint_id: UUID, *, enabled: bool
) -> None:
    values = {"project_id": project_id, "id": endpoint_id, "enabled": enabled}
    await tx.execute(_HOLD, values)
