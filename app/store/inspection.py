"""What an operator's check reads, over all projects."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from cryptography.exceptions import InvalidTag
from sqlalchemy import func, select

from app.domain.json import JsonObject
from app.store.db import Tx
from app.store.registry import SECRET_COLUMN
from app.store.secrets import VALUE_COLUMN
from app.store.tables import secrets, tool_versions, tools
from app.store.vault import Vault

MAX_SEALED: Final = 20
"""Of each table: all are sealed with one key."""


@dataclass(frozen=True, slots=True)
class KnownTool:
    """Its name, where its calls go, and its metadata."""

    name: str
    url: str
    metadata: JsonObject


async def clock(tx: Tx) -> datetime:
    return (await tx.execute(select(func.clock_timestamp()))).scalar_one()


async def webhooks(tx: Tx, limit: int) -> list[KnownTool]:
    """The tools of all projects that have a URL."""
    spec = tool_versions.c.spec
    found = await tx.execute(
        select(tools.c.name, spec["url"].as_string().label("url"), spec["metadata"].label("about"))
        .join_from(
            tools,
            tool_versions,
            (tool_versions.c.project_id == tools.c.project_id)
            & (tool_versions.c.name == tools.c.name)
            & (tool_versions.c.version == tools.c.version),
        )
        .where(tools.c.deleted_at.is_(None), spec["url"].as_string().is_not(None))
        .order_by(tools.c.name, tools.c.project_id)
        .limit(limit)
    )
    return [KnownTool(row.name, row.url, row.about or {}) for row in found]


async def opens(tx: Tx, vault: Vault) -> bool:
    """Whether the vault's key is the one that the stored secrets were sealed with. True also
    where there are none."""
    for table, box, column in (
        (tools, tools.c.secret, SECRET_COLUMN),
        (secrets, secrets.c.value, VALUE_COLUMN),
    ):
        rows = await tx.execute(
            select(table.c.project_id, table.c.name, box.label("box")).limit(MAX_SEALED)
        )
        for row in rows:
            try:
                vault.open(row.box, column=column, project_id=row.project_id, row=row.name)
            except InvalidTag:
                return False
    return True
