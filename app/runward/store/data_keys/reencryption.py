"""Encrypt stored values again with the current data key, in small batches.

A row is locked while it is encrypted again, so no concurrent change of it is lost. Rows that other
transactions have locked are skipped until the next pass. The configurations of runs are not
changed, because they are part of their history, and digests of calls depend on them.
"""

import base64
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import structlog
from pydantic_core import from_json
from sqlalchemy import text

from runward.domain.ids import Prefix, format_id
from runward.domain.json import compact
from runward.store.access import idempotency, secrets
from runward.store.access.keys import DEFAULT_PROJECT
from runward.store.access.vault import ID_BYTES, SecretUnreadableError, Vault
from runward.store.data_keys.key_ring import ACTIVATION
from runward.store.postgres.db import Tx
from runward.store.readiness import CANARY_COLUMN
from runward.store.registry import mcp_credentials, tool_registry
from runward.store.schedules import schedules
from runward.store.webhooks import endpoints

log = structlog.get_logger()

BATCH: Final = 50
"""Maximum number of rows that one transaction encrypts again."""
_KEY_ID: Final = f"substring(c.value FROM 1 FOR {ID_BYTES})"
_HEX_ID: Final = "replace(CAST(t.id AS text), '-', '')"


@dataclass(frozen=True, slots=True)
class SealedTable:
    """A table with encrypted values. `columns`: the name of each encrypted column, with the name
    that its ciphertexts are bound to. `row`: an expression for the row that they are bound to."""

    name: str
    key: tuple[str, ...]
    columns: Mapping[str, str]
    row: str
    project: str = "t.project_id"

    @property
    def ciphertexts(self) -> str:
        """A table expression with the ciphertexts of the row `t`."""
        values = ", ".join(f"(t.{column})" for column in self.columns)
        return f"(VALUES {values}) AS c (value)"

    @property
    def selected(self) -> str:
        return ", ".join(f"t.{column}" for column in self.columns)

    @property
    def changes(self) -> str:
        return ", ".join(f"{column} = :{column}" for column in self.columns)

    def reseal(self, row: Any, resealer: "Resealer") -> dict[str, Any]:
        """Return the columns with the current data key."""
        return {
            column: sealed and resealer.reseal(sealed, bound, row.bound_project, row.bound_row)
            for column, bound in self.columns.items()
            for sealed in [getattr(row, column)]
        }


@dataclass(frozen=True, slots=True)
class SealedHeaders:
    """A table whose column `spec` contains encrypted header values: of a tool, or of the inline
    tools of an agent."""

    name: str
    key: tuple[str, ...]
    of_agents: bool = False
    row: str = "t.name"
    project: str = "t.project_id"
    selected: str = "CAST(t.spec AS text) AS spec"
    changes: str = "spec = CAST(:spec AS json)"

    @property
    def ciphertexts(self) -> str:
        tools = "(VALUES (t.spec))"
        if self.of_agents:
            tools = "json_array_elements(t.spec -> 'config' -> 'inline_tools')"
        return (
            "(SELECT decode(h.value ->> 'sealed', 'base64') AS value"
            f" FROM {tools} AS s (value) CROSS JOIN json_each(s.value -> 'headers') AS h"
            " WHERE json_typeof(h.value) = 'object') AS c"
        )

    def reseal(self, row: Any, resealer: "Resealer") -> dict[str, Any]:
        """Return the specification with the current data key."""
        spec: dict[str, Any] = from_json(row.spec)
        for tool in spec["config"].get("inline_tools", ()) if self.of_agents else [spec]:
            for name, value in tool.get("headers", {}).items():
                if "sealed" in value:
                    box = base64.b64decode(value["sealed"])
                    bound = (tool_registry.HEADERS_COLUMN, row.bound_project)
                    box = resealer.reseal(box, *bound, f"{tool['name']}/{name}")
                    value["sealed"] = base64.b64encode(box).decode()
        return {"spec": compact(spec)}


class Resealer:
    """Encrypts the ciphertexts of a row again. `readable`: whether all could be decrypted."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self.readable = True

    def reseal(self, sealed: bytes, column: str, project_id: UUID, row: str) -> bytes:
        """Return the ciphertext with the current data key. Return it unchanged if it has this key
        already or cannot be decrypted."""
        if sealed[:ID_BYTES] == self._vault.current_id:
            return sealed
        try:
            return self._vault.reseal(sealed, column=column, project_id=project_id, row=row)
        except SecretUnreadableError as error:
            project = format_id(Prefix.PROJECT, project_id)
            log.warning("value_unreadable", project=project, reason=str(error))
            self.readable = False
            return sealed


_NAMED: Final = ("project_id", "name")
TABLES: Final[Sequence[SealedTable | SealedHeaders]] = (
    SealedTable("secrets", _NAMED, {"value": secrets.VALUE_COLUMN}, "t.name"),
    SealedTable(
        "tools",
        _NAMED,
        dict.fromkeys(("secret", "former_secret"), tool_registry.SECRET_COLUMN),
        "t.name",
    ),
    SealedTable(
        "mcp_servers",
        _NAMED,
        {
            "secret_headers": mcp_credentials.HEADERS_COLUMN,
            "oauth": mcp_credentials.OAUTH_COLUMN,
            "refresh_token": mcp_credentials.REFRESH_COLUMN,
        },
        "t.name",
    ),
    SealedTable(
        "webhook_endpoints",
        ("project_id", "id"),
        dict.fromkeys(("secret", "former_secret"), endpoints.SECRET_COLUMN),
        _HEX_ID,
    ),
    SealedTable("schedules", ("project_id", "id"), {"sealed_run": schedules.RUN_COLUMN}, _HEX_ID),
    SealedTable(
        "idempotency_keys", ("project_id", "key"), {"answer": idempotency.ANSWER_COLUMN}, "t.key"
    ),
    SealedHeaders("tool_versions", (*_NAMED, "version")),
    SealedHeaders("agents", _NAMED, of_agents=True),
    SealedHeaders("agent_versions", (*_NAMED, "version"), of_agents=True),
    SealedTable(
        "deployment", ("id",), {"canary": CANARY_COLUMN}, "''", f"CAST('{DEFAULT_PROJECT}' AS uuid)"
    ),
)
"""Everything that the database contains encrypted, except the configurations of runs."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Numbers of rows. An unreadable row has a ciphertext that no data key of the deployment can
    decrypt. `last`: the key of the last row that was read. None: the table has no more rows."""

    encrypted: int
    unreadable: int
    last: tuple[Any, ...] | None


async def reencrypt_batch(
    tx: Tx, vault: Vault, table: SealedTable | SealedHeaders, after: tuple[Any, ...] | None
) -> Batch:
    """Encrypt the next rows again that are not encrypted with the current data key. `after`: the
    key of the last row of the previous batch."""
    key = ", ".join(f"t.{column}" for column in table.key)
    position = {f"after_{column}": one for column, one in zip(table.key, after or (), strict=False)}
    beyond = f" AND ({key}) > ({', '.join(f':{name}' for name in position)})" if position else ""
    rows = await tx.execute(
        text(
            f"SELECT {key}, {table.selected}, {table.project} AS bound_project,"
            f" {table.row} AS bound_row FROM {table.name} AS t"
            f" WHERE EXISTS (SELECT FROM {table.ciphertexts} WHERE {_KEY_ID} <> :current){beyond}"
            f" ORDER BY {key} LIMIT :limit FOR NO KEY UPDATE OF t SKIP LOCKED"
        ),
        {"current": vault.current_id, "limit": BATCH, **position},
    )
    found = rows.all()
    changed: list[dict[str, Any]] = []
    unreadable = 0
    for row in found:
        resealer = Resealer(vault)
        try:
            values = table.reseal(row, resealer)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            log.warning("value_unreadable", project=row.bound_project.hex, reason=repr(error)[:200])
            unreadable += 1
            continue
        changed.append(values | {f"key_{name}": getattr(row, name) for name in table.key})
        unreadable += not resealer.readable
    if changed:
        same = " AND ".join(f"{column} = :key_{column}" for column in table.key)
        await tx.execute(text(f"UPDATE {table.name} SET {table.changes} WHERE {same}"), changed)
    last = tuple(getattr(found[-1], name) for name in table.key) if len(found) == BATCH else None
    return Batch(len(found) - unreadable, unreadable, last)


async def count_by_key(tx: Tx, key_ids: Sequence[bytes]) -> Counter[bytes]:
    """Return the number of ciphertexts of each data key. Ciphertexts of unknown keys belong to the
    key without an ID."""
    counts = Counter[bytes]()
    for table in TABLES:
        rows = await tx.execute(
            text(
                f"SELECT CASE WHEN {_KEY_ID} = ANY(:ids) THEN {_KEY_ID} ELSE '' END AS key_id,"
                f" count(*) AS number FROM {table.name} AS t CROSS JOIN LATERAL {table.ciphertexts}"
                " WHERE c.value IS NOT NULL GROUP BY 1"
            ),
            {"ids": [one for one in key_ids if one]},
        )
        for row in rows:
            counts[row.key_id] += row.number
    return counts


async def count_outdated_rows(tx: Tx, current_id: bytes) -> int:
    """Return the number of rows with a value that the current data key has not encrypted."""
    total = 0
    for table in TABLES:
        total += (
            await tx.execute(
                text(
                    f"SELECT count(*) FROM {table.name} AS t WHERE EXISTS"
                    f" (SELECT FROM {table.ciphertexts} WHERE {_KEY_ID} <> :current)"
                ),
                {"current": current_id},
            )
        ).scalar_one()
    return total


_IS_SETTLED: Final = text(
    "SELECT created_at <= CAST(:settled AS timestamptz) FROM data_keys WHERE id = :current"
)
_MARK_DRAINED: Final = text(
    "UPDATE data_keys k SET drained_at = clock_timestamp() FROM data_keys c"
    " WHERE c.id = :current AND k.created_at < c.created_at AND k.drained_at IS NULL"
)


async def mark_drained(tx: Tx, vault: Vault, began: datetime, unreadable: int) -> bool:
    """Record that the older data keys encrypt no values any more, if a pass that began at `began`
    has found nothing but unreadable rows. Return False before every process has used the current
    key for as long as ACTIVATION, because a process may still have encrypted with an older one."""
    current = {"current": vault.current_id}
    settled = {**current, "settled": began - 2 * ACTIVATION}
    if not (await tx.execute(_IS_SETTLED, settled)).scalar_one_or_none():
        return False
    if await count_outdated_rows(tx, vault.current_id) != unreadable:
        return False
    await tx.execute(_MARK_DRAINED, current)
    return True
