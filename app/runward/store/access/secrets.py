"""The secrets of a project. They are stored encrypted and are never shown. Other resources refer to
them by name."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert as upsert

from runward.domain.ids import ProjectId
from runward.store.access.vault import Vault
from runward.store.postgres.columns import RowMapping
from runward.store.postgres.db import Tx, notify_tools, select_page
from runward.store.postgres.tables import secrets

VALUE_COLUMN: Final = "secrets.value"


@dataclass(frozen=True, slots=True)
class StoredSecret:
    """A secret without its value. `version` counts the values that it has had, from 1."""

    name: str
    version: int
    created_at: datetime
    updated_at: datetime


_SECRET: Final = RowMapping(StoredSecret, secrets)
_PUBLIC_COLUMNS: Final = tuple(secrets.c[name] for name in _SECRET.columns)


async def put_secret(
    tx: Tx, vault: Vault, project_id: ProjectId, name: str, value: str
) -> StoredSecret:
    """Create the secret, or its next version, and notify all processes."""
    made = upsert(secrets).values(
        project_id=project_id,
        name=name,
        value=vault.seal(value, column=VALUE_COLUMN, project_id=project_id, row=name),
        version=1,
    )
    row = await tx.execute(
        made.on_conflict_do_update(
            index_elements=[secrets.c.project_id, secrets.c.name],
            set_={
                "value": made.excluded.value,
                "version": secrets.c.version + 1,
                "updated_at": func.clock_timestamp(),
            },
        ).returning(*_PUBLIC_COLUMNS)
    )
    await notify_tools(tx, project_id)
    return _SECRET.read(row.one())


async def get_secret(
    tx: Tx, project_id: ProjectId, name: str, *, lock: bool = False
) -> StoredSecret | None:
    """Return the secret, or None if it does not exist. `lock`: until the transaction ends."""
    query = select(*_PUBLIC_COLUMNS).where(
        secrets.c.project_id == project_id, secrets.c.name == name
    )
    found = (await tx.execute(query.with_for_update() if lock else query)).one_or_none()
    return None if found is None else _SECRET.read(found)


async def list_secrets(
    tx: Tx, project_id: ProjectId, *, after: str | None, limit: int, descending: bool
) -> list[StoredSecret]:
    """Return a page of the secrets, ordered by name."""
    name = secrets.c.name
    query = select(*_PUBLIC_COLUMNS).where(secrets.c.project_id == project_id)
    query = select_page(query, name, after=after, limit=limit, descending=descending)
    return [_SECRET.read(row) for row in await tx.execute(query)]


async def read_secrets(
    tx: Tx, vault: Vault, project_id: ProjectId, names: Collection[str]
) -> dict[str, str]:
    """Return the values of the secrets that exist, by name."""
    if not names:
        return {}
    rows = await tx.execute(
        select(secrets.c.name, secrets.c.value).where(
            secrets.c.project_id == project_id, secrets.c.name.in_(names)
        )
    )
    return {
        row.name: vault.open(row.value, column=VALUE_COLUMN, project_id=project_id, row=row.name)
        for row in rows
    }


async def delete_secret(tx: Tx, project_id: ProjectId, name: str) -> bool:
    """Delete the secret and notify all processes. Returns False if the secret does not exist."""
    gone = await tx.execute(
        delete(secrets)
        .where(secrets.c.project_id == project_id, secrets.c.name == name)
        .returning(secrets.c.name)
    )
    await notify_tools(tx, project_id)
    return gone.one_or_none() is not None
