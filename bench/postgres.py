"""The PostgreSQL that both sides of a comparison write to, and what it says of itself."""

# pyright: basic, reportMissingTypeStubs=false
# asyncpg has no types.

import math
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

import asyncpg
from sqlalchemy.engine import URL, make_url

from bench import machine
from runward.store.postgres import embedded

_SETTINGS: Final = ("server_version", "fsync", "synchronous_commit", "shared_buffers")
_BYTES: Final = """
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND n.nspname = 'public'"""
_HOT: Final = """
SELECT 100.0 * n_tup_hot_upd / nullif(n_tup_upd, 0) FROM pg_stat_user_tables WHERE relname = $1"""
_OPEN: Final = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = $1 AND backend_type = 'client backend'"""
_BUSY: Final = f"{_OPEN} AND state <> 'idle'"


class Postgres:
    """One cluster, with a database for each side."""

    def __init__(self, url: URL, admin: "asyncpg.Connection", about: str, pid: int | None) -> None:
        self._url = url
        self._admin = admin
        self._pid = pid
        self._names: list[str] = []
        self.about = about

    async def make_database(self, purpose: str) -> str:
        """Its URL, for asyncpg and SQLAlchemy. It is dropped at the end."""
        name = f"runward_bench_{purpose}_{token_hex(3)}"
        await self._admin.execute(f'CREATE DATABASE "{name}"')
        self._names.append(name)
        return _dsn(self._url.set(database=name))

    def cpu_seconds(self) -> float:
        """Of the server and all its backends; NaN where it runs on another machine."""
        return math.nan if self._pid is None else machine.cpu_seconds(self._pid)

    async def write_transactions(self) -> int:
        """Since the cluster was made, aborted ones too."""
        return await self._number("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")

    async def settle(self) -> None:
        """Write out what the load before has left behind, so that it burdens nobody else."""
        await self._admin.execute("CHECKPOINT")

    async def table_bytes(self, url: str) -> int:
        """Return the size of all tables and indexes."""
        return int(await self._value(url, _BYTES) or 0)

    async def hot_updates(self, url: str, table: str) -> float | None:
        """Return the percentage of a table's updates that were HOT, as its backends reported it.

        A backend reports about a second after its last transaction.
        """
        found = await self._value(url, _HOT, table)
        return None if found is None else float(found)

    async def _value(self, url: str, query: str, *values: object) -> Any:
        connection = await asyncpg.connect(url)
        try:
            return await connection.fetchval(query, *values)
        finally:
            await connection.close()

    async def connections(self, url: str) -> int:
        """Return the number of connections to the database."""
        return await self._number(_OPEN, make_url(url).database)

    async def busy_connections(self, url: str) -> int:
        return await self._number(_BUSY, make_url(url).database)

    async def _number(self, query: str, *values: object) -> int:
        return int(await self._admin.fetchval(query, *values) or 0)

    async def drop_databases(self) -> None:
        for name in self._names:
            await self._admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


@asynccontextmanager
async def running(folder: Path) -> AsyncGenerator[Postgres]:
    """BENCH_PG or DATABASE_URL, if one is set; else the embedded one, new, in `folder`."""
    given = os.environ.get("BENCH_PG") or os.environ.get("DATABASE_URL")
    if given:
        async with _connected(make_url(given)) as postgres:
            yield postgres
        return
    server = await embedded.start(folder, report=lambda _: None)
    try:
        async with _connected(make_url(server.url)) as postgres:
            yield postgres
    finally:
        await server.stop()


@asynccontextmanager
async def _connected(url: URL) -> AsyncGenerator[Postgres]:
    admin = await asyncpg.connect(_dsn(url))
    try:
        said = {
            name: await admin.fetchval("SELECT current_setting($1)", name) for name in _SETTINGS
        }
        if said["fsync"] != "on" or said["synchronous_commit"] == "off":
            raise SystemExit("This PostgreSQL has fsync or synchronous_commit off: no benchmark.")
        version = said.pop("server_version").split()[0]
        about = f"PostgreSQL {version}, " + ", ".join(f"{k} {v}" for k, v in said.items())
        backend = admin.get_server_pid()
        pid = machine.parent_of(backend) if machine.is_postgres(backend) else None
        postgres = Postgres(url, admin, about, pid)
        try:
            yield postgres
        finally:
            await postgres.drop_databases()
    finally:
        await admin.close()


def _dsn(url: URL) -> str:
    return url.set(drivername="postgresql").render_as_string(hide_password=False)
