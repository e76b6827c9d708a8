"""A PostgreSQL for the tests: one server for a run, one migrated template, a clone for each test.

The server is the one at DATABASE_URL, else an embedded one in a folder that is thrown away. The
first worker that needs it starts it; the process that the person started stops it.
"""

import asyncio
import os
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from sqlalchemy import URL, NullPool, make_url, text
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from runward.store import migrations
from runward.store.postgres import embedded

TEMPLATE_LOCK = 0x74656D706C617465
MIN_MEMORY_BYTES = 4 * 1024**3
"""Free room in /dev/shm from which the cluster goes there, so that no test waits for a disk."""
STOP_SECONDS = 20.0


def sqlalchemy_url(url: str) -> str:
    """For tests that connect by themselves. The driver's SQLAlchemy dialect calls sslmode ssl."""
    parsed = make_url("postgresql" + url[8:] if url.startswith("postgres:") else url)
    query = {"ssl" if key == "sslmode" else key: value for key, value in parsed.query.items()}
    parsed = parsed.set(drivername="postgresql+asyncpg", query=query)
    return parsed.render_as_string(hide_password=False)


def scratch_folder() -> Path:
    """Through which PostgreSQL's own account may pass, as it may not through pytest's as root."""
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > MIN_MEMORY_BYTES
    folder = Path(tempfile.mkdtemp(prefix="runward-test-", dir=memory if roomy else None))
    folder.chmod(0o711)
    return folder


class TestRun:
    """Where one pytest run, with all its workers, keeps its databases."""

    __test__ = False

    def __init__(self, folder: str, template: str) -> None:
        self.folder = Path(folder)
        self.template = template
        self.template_made = self.folder / "template-made"

    @classmethod
    def begin(cls) -> "TestRun":
        return cls(str(scratch_folder()), f"runward_template_{uuid4().hex}")

    def end(self) -> None:
        if "DATABASE_URL" not in os.environ:
            self._stop_server()
        elif self.template_made.exists():
            with Databases(self) as databases:
                databases.drop(self.template)
        shutil.rmtree(self.folder, ignore_errors=True)

    def server_url(self) -> URL:
        if given := os.environ.get("DATABASE_URL"):
            return make_url(sqlalchemy_url(given))
        # The share is never given up: `end` stops the server, after the last worker.
        return make_url(embedded.open_server(self.folder, report=lambda _: None).url)

    def _stop_server(self) -> None:
        pid_file = self.folder / "postgres" / "data" / "postmaster.pid"
        if not pid_file.exists():
            return
        pid = int(pid_file.read_text().split("\n", 1)[0])
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGQUIT)
        deadline = time.monotonic() + STOP_SECONDS
        while pid_file.exists() and time.monotonic() < deadline:
            time.sleep(0.01)


class Databases:
    """Makes and drops databases, over one connection to the server."""

    def __init__(self, run: TestRun) -> None:
        self._run = run
        self._url = run.server_url()
        self._runner = asyncio.Runner()
        self._connection = self._runner.run(self._connect())

    def close(self) -> None:
        self._runner.run(self._disconnect())
        self._runner.close()

    def __enter__(self) -> "Databases":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def empty(self) -> Generator[str]:
        """The URL of a database without a schema."""
        yield from self._lend("")

    @contextmanager
    def migrated(self) -> Generator[str]:
        """The URL of a database with this code's schema."""
        yield from self._lend(f"TEMPLATE {self._run.template} STRATEGY FILE_COPY")

    @contextmanager
    def secured(self) -> Generator[str]:
        """The URL of a migrated database with row-level security, of a role that owns nothing."""
        role = f"app_{uuid4().hex}"
        self.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{role}'")
        try:
            with self.migrated() as url:
                self._runner.run(_protect_rows(url, role))
                yield make_url(url).set(username=role, password=role).render_as_string(False)
        finally:
            self.execute(f"DROP ROLE {role}")

    def make_template(self) -> None:
        """Once in a run, whoever of its workers is first."""
        name = self._run.template
        self.execute(f"SELECT pg_advisory_lock({TEMPLATE_LOCK})")
        try:
            if self.execute(f"SELECT 1 FROM pg_database WHERE datname = '{name}'"):
                return
            self.execute(f"CREATE DATABASE {name}")
            try:
                self._runner.run(migrations.upgrade(self._url_of(name)))
            except BaseException:
                self.drop(name)
                raise
            self.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
            self._run.template_made.touch()
        finally:
            self.execute(f"SELECT pg_advisory_unlock({TEMPLATE_LOCK})")

    def drop(self, name: str) -> None:
        self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def execute(self, statement: str) -> list[object]:
        return self._runner.run(self._execute(statement))

    def _lend(self, how: str) -> Iterator[str]:
        name = f"test_{uuid4().hex}"
        self.execute(f"CREATE DATABASE {name} {how}")
        try:
            yield self._url_of(name)
        finally:
            self.drop(name)

    def _url_of(self, name: str) -> str:
        return self._url.set(database=name).render_as_string(hide_password=False)

    async def _connect(self) -> AsyncConnection:
        self._engine = create_async_engine(
            self._url, poolclass=NullPool, isolation_level="AUTOCOMMIT"
        )
        return await self._engine.connect()

    async def _disconnect(self) -> None:
        await self._connection.close()
        await self._engine.dispose()

    async def _execute(self, statement: str) -> list[object]:
        result = await self._connection.execute(text(statement))
        return list(result.scalars()) if result.returns_rows else []


async def _protect_rows(url: str, role: str) -> None:
    await migrations.set_row_security(url, enabled=True)
    engine = create_async_engine(url, poolclass=NullPool)
    async with engine.begin() as connection:
        for objects, rights in (
            ("TABLES", "SELECT, INSERT, UPDATE, DELETE"),
            ("SEQUENCES", "USAGE"),
        ):
            grant = f"GRANT {rights} ON ALL {objects} IN SCHEMA public TO {role}"
            await connection.execute(text(grant))
    await engine.dispose()


class Cluster:
    """A PostgreSQL of its own for one test, which may kill it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._server = embedded.open_server(folder, report=_silent)
        self.url = self._server.url

    @property
    def pid(self) -> int:
        pid_file = self._folder / "postgres" / "data" / "postmaster.pid"
        return int(pid_file.read_text().split()[0])

    def kill(self) -> None:
        """As a crash would: no clean shutdown, and it must recover from its log."""
        process = os.pidfd_open(self.pid)
        signal.pidfd_send_signal(process, signal.SIGQUIT)
        gone, _, _ = select.select([process], [], [], STOP_SECONDS)
        os.close(process)
        assert gone

    def start_again(self) -> None:
        embedded.open_server(self._folder, report=_silent).close()

    def close(self) -> None:
        self._server.close()


def _silent(_: str) -> None:
    pass
