"""Fill a database with copies of real runs, so that the copies have real rows and sizes."""

# pyright: basic, reportMissingTypeStubs=false
# asyncpg has no types.

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import asyncpg

RARE: Final = 40
"""Number of the oldest runs that differ from all others: their agent, status, tool and error."""
NEEDLE: Final = "heron"
"""A word in the error message of these runs only."""
_TABLES: Final = ("runs", "run_items", "run_events", "tool_calls", "approvals")
_AGE: Final = "interval '30 days'"
_COPIES: Final = f"""
CREATE TEMP TABLE copies AS
SELECT n, r.project_id, r.id AS source, n <= {RARE} AND r.ended_at IS NOT NULL AS rare,
  t.at - r.created_at AS shift, CAST(lpad(to_hex(CAST(extract(epoch FROM t.at) * 1000 AS bigint)),
    12, '0') || '7' || substr(md5('a' || n), 1, 3) || '8' || substr(md5('b' || n), 1, 15)
    AS uuid) AS id
FROM generate_series($1::int, $2::int) n
JOIN unnest($3::uuid[]) WITH ORDINALITY AS s(id, place) ON place = 1 + n % cardinality($3)
JOIN runs r ON r.id = s.id,
LATERAL (SELECT now() - {_AGE} * (1 - n / $4::float8) AS at) t"""
_COLUMNS: Final = """
SELECT column_name, data_type FROM information_schema.columns
WHERE table_schema = 'public' AND table_name = $1 ORDER BY ordinal_position"""
_RARE: Final = {
    ("runs", "status"): "'failed'",
    ("runs", "agent"): "'rare'",
    ("runs", "active_agent"): "'rare'",
    ("runs", "output"): "NULL",
    ("runs", "error"): f"""'{{"code": "internal_error", "message": "The {NEEDLE} broke."}}'""",
    ("approvals", "status"): "'rejected'",
    ("approvals", "tool"): "'rare'",
}
_KEPT: Final = {"expires_at", "deadline_at", "lease_expires_at", "available_at"}
"""Times that are not shifted, so that nothing expires during the benchmark."""


@dataclass(frozen=True, slots=True)
class Filling:
    """Copies of `sources` in a database. `total`: the number of copies at the end, which determines
    their times."""

    connection: "asyncpg.Connection"
    sources: Sequence[UUID]
    total: int

    async def copy(self, first: int, last: int) -> None:
        """Insert the copies with these numbers. A higher number is a newer run."""
        await self.connection.execute("DROP TABLE IF EXISTS copies")
        await self.connection.execute(_COPIES, first, last, self.sources, self.total)
        await self.connection.execute("ANALYZE copies")
        for table in _TABLES:
            columns = await self.connection.fetch(_COLUMNS, table)
            names = ", ".join(f'"{column["column_name"]}"' for column in columns)
            values = ", ".join(_value(table, *column.values()) for column in columns)
            own = "s.id" if table == "runs" else "s.run_id"
            await self.connection.execute(
                f"INSERT INTO {table} ({names}) SELECT {values} FROM copies c JOIN {table} s"
                f" ON s.project_id = c.project_id AND {own} = c.source ORDER BY c.n",
                timeout=3600,
            )

    async def settle(self) -> None:
        """Do what autovacuum would do later."""
        await self.connection.execute("VACUUM (ANALYZE)", timeout=3600)
        await self.connection.execute("CHECKPOINT", timeout=3600)

    async def close(self) -> None:
        await self.connection.close()


def _value(table: str, name: str, type_: str) -> str:
    if name in ("run_id", "id"):
        return "c.id"
    if name == "approval_id":
        return "CASE WHEN s.approval_id IS NOT NULL THEN c.id END"
    if type_.startswith("timestamp") and name not in _KEPT:
        return f"s.{name} + c.shift"
    if (rare := _RARE.get((table, name))) is not None:
        return f"CASE WHEN c.rare THEN {rare} ELSE s.{name} END"
    return f"s.{name}"


async def open_filling(url: str, sources: Sequence[UUID], total: int) -> Filling:
    """Connect for filling. Where the role is a superuser, foreign keys and triggers are not
    checked, because the copied rows satisfy them."""
    connection = await asyncpg.connect(url)
    await connection.execute(
        "SELECT set_config('session_replication_role', 'replica', false)"
        " WHERE current_setting('is_superuser') = 'on'"
    )
    return Filling(connection, sources, total)
