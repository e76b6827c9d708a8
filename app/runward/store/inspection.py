"""What an operator's check reads, over all projects."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select

from runward.domain.json import JsonObject
from runward.store.postgres.db import Tx
from runward.store.postgres.tables import tool_versions, tools


@dataclass(frozen=True, slots=True)
class WebhookToolAddress:
    """Its name, where its calls go, and its metadata."""

    name: str
    url: str
    metadata: JsonObject


async def read_clock(tx: Tx) -> datetime:
    return (await tx.execute(select(func.clock_timestamp()))).scalar_one()


async def list_webhook_tools(tx: Tx, limit: int) -> list[WebhookToolAddress]:
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
    return [WebhookToolAddress(row.name, row.url, row.about or {}) for row in found]
