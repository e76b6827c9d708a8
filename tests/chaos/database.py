"""The PostgreSQL server of one chaos run: restart it, end its backends, and dump it at the end."""

# pyright: basic, reportMissingTypeStubs=false
# asyncpg has no types.

import asyncio
import os
import random
import shutil
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

import asyncpg
from sqlalchemy import make_url

from runward.store import migrations
from tests.support.postgres import Cluster, scratch_folder

T = TypeVar("T")
DIRECT: Final = "-direct"
"""At the end of the `application_name` of connections for leases and LISTEN, where a process has a
RUNWARD_LISTEN_URL."""
KINDS: Final = ("listen", "lease", "step", "pool")
AIM_SECONDS: Final = 0.3
"""For how long to look for a backend that is in the middle of a statement."""
PATIENCE_SECONDS: Final = 30.0
_BACKENDS: Final = """
SELECT pid, application_name AS name, query, state FROM pg_stat_activity
WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"""
OPEN_RUNS: Final = """
SELECT count(*) FROM runs WHERE status IN ('queued', 'in_progress', 'requires_action')"""
_IN_FLIGHT: Final = "SELECT count(*) FROM tool_calls WHERE phase = 'started'"
_TABLES: Final = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"


@dataclass(frozen=True, slots=True)
class Backend:
    pid: int
    process: str
    kind: str
    active: bool


class Database:
    """A cluster of its own in memory, with the schema of this code."""

    def __init__(self) -> None:
        self._folder = scratch_folder()
        self._cluster = Cluster(self._folder)
        self._url = make_url(self._cluster.url)
        self._admin: asyncpg.Connection | None = None
        self._lock = asyncio.Lock()
        self._listening: set[int] = set()
        self._cpu_before = 0.0

    async def open(self) -> None:
        await migrations.upgrade(self._cluster.url)

    async def close(self) -> None:
        if self._admin is not None:
            self._admin.terminate()
        await asyncio.to_thread(self._cluster.close)
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def socket_path(self) -> str:
        return f"{self._url.query['host']}/.s.PGSQL.{self._url.query['port']}"

    def address(self, name: str, port: int | None = None) -> str:
        """The URL for a process. `port` is that of its relay."""
        where: dict[str, Any] = {"application_name": name}
        if port is None:
            where |= {"host": self._url.query["host"], "port": self._url.query["port"]}
        else:
            where |= {"host": "127.0.0.1", "port": str(port), "sslmode": "disable"}
        return f"postgresql://{self._url.username}@/{self._url.database}?{urlencode(where)}"

    async def restart(self, seconds: float) -> None:
        """End it as a crash would, and start it again after `seconds`. Accepts again afterwards."""
        self._cpu_before += self._cpu()
        await asyncio.to_thread(self._cluster.kill)
        await asyncio.sleep(seconds)
        await asyncio.to_thread(self._cluster.start_again)
        self._listening.clear()
        await self.open_runs()

    def cpu_seconds(self) -> float:
        """Of the server and all its backends."""
        return self._cpu_before + self._cpu()

    async def open_runs(self) -> int:
        return int(await self._ask(lambda admin: admin.fetchval(OPEN_RUNS)) or 0)

    async def calls_in_flight(self) -> int:
        return int(await self._ask(lambda admin: admin.fetchval(_IN_FLIGHT)) or 0)

    async def backends(self) -> list[Backend]:
        """Those of the service's processes."""
        rows = await self._ask(lambda admin: admin.fetch(_BACKENDS))
        return [self._backend(row) for row in rows if row["name"] != "stage"]

    async def connections(self) -> Counter[str]:
        return Counter(backend.process for backend in await self.backends())

    async def end_backend(self, kind: str, dice: random.Random, away: set[str]) -> Backend | None:
        """End one backend of this kind, if possible in the middle of a statement. Return which.
        None of the processes in `away`, which are down or frozen, is chosen."""
        deadline = asyncio.get_running_loop().time() + AIM_SECONDS
        while True:
            found = [one for one in await self.backends() if one.kind == kind]
            found = [one for one in found if one.process not in away]
            late = asyncio.get_running_loop().time() > deadline
            aimed = found if late else [one for one in found if one.active]
            if aimed:
                chosen = dice.choice(sorted(aimed, key=lambda one: one.pid))
                return chosen if await self._end(chosen.pid) else None
            if late:
                return None
            await asyncio.sleep(0.005)

    async def end_backends(self, process: str) -> None:
        """End all backends of one process."""
        for backend in await self.backends():
            if backend.process == process:
                await self._end(backend.pid)

    async def _end(self, pid: int) -> bool:
        end = "SELECT pg_terminate_backend($1)"
        return bool(await self._ask(lambda admin: admin.fetchval(end, pid)))

    async def dump(self, folder: Path) -> None:
        """Write every table of the schema, in one snapshot."""
        await dump_tables(await self._connected(), folder)

    async def _ask(self, ask: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
        """Again and again while the server is away."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                try:
                    async with self._lock:
                        return await ask(await self._connected())
                except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                    await asyncio.sleep(0.05)

    async def _connected(self) -> asyncpg.Connection:
        admin = self._admin
        if admin is None or admin.is_closed():
            admin = self._admin = await asyncpg.connect(self.address("stage"), timeout=5)
        return admin

    def _backend(self, row: Any) -> Backend:
        name, query = row["name"], row["query"]
        if query.startswith("LISTEN"):
            self._listening.add(row["pid"])
        if row["pid"] in self._listening:
            kind = "listen"
        elif name.endswith(DIRECT):
            kind = "lease"
        else:
            kind = "step" if "WITH s AS" in query[:20] else "pool"
        return Backend(row["pid"], name.removesuffix(DIRECT), kind, row["state"] == "active")

    def _cpu(self) -> float:
        """Of the postmaster, of its children that ended, and of those that live."""
        pid = self._cluster.pid
        with suppress(OSError):
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            return cpu_of(pid, ended=True) + sum(cpu_of(int(one)) for one in children)
        return 0.0


async def dump_tables(connection: asyncpg.Connection, folder: Path) -> None:
    """Write every table of the schema, in one snapshot."""
    folder.mkdir(parents=True, exist_ok=True)
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        for (table,) in await connection.fetch(_TABLES):
            # CSV with characters that JSON never has, so that nothing is quoted or escaped.
            await connection.copy_from_query(
                f'SELECT row_to_json(t) FROM "{table}" t',
                output=folder / f"{table}.jsonl",
                format="csv",
                delimiter="\x02",
                quote="\x01",
            )


def cpu_of(pid: int, *, ended: bool = False) -> float:
    """Seconds of a process, and of its `ended` children. See proc(5): utime to cstime."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11 : 15 if ended else 13])) / os.sysconf("SC_CLK_TCK")
    return 0.0
