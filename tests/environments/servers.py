"""PostgreSQL servers that a test may stop, fill up and promote, and a PgBouncer. PostgreSQL and
PgBouncer refuse to run as root. If the tests run as root, the account of the embedded database runs
them.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import URL, make_url

from runward.store.postgres.embedded_home import ensure_service_account, find_programs
from tests.support.postgres import scratch_folder
from tests.support.programs import missing
from tests.support.services.service import free_port

DEBIAN_15 = Path("/usr/lib/postgresql/15/bin")
SECONDS = 30.0
POLL_SECONDS = 0.02
DRIVER = "postgresql+asyncpg"
ACCOUNT = "runward"


def postgres_15() -> Path:
    if not (DEBIAN_15 / "postgres").exists():
        missing("PostgreSQL 15 is not installed: apt-get install postgresql-15")
    return DEBIAN_15


def postgres_18() -> Path:
    """The embedded one's programs."""
    return find_programs(ensure_service_account(), lambda _: None)


def run_as_account(*command: str | Path, cwd: Path = Path("/")) -> None:
    user, group = _owner()
    done = subprocess.run(
        [str(part) for part in command],
        user=user,
        group=group,
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"


def _owner() -> tuple[int | None, int | None]:
    """Of the servers' processes: user and group; None: this process's own."""
    account = ensure_service_account()
    return (None, None) if account is None else (account.pw_uid, account.pw_gid)


def give_to_account(folder: Path) -> None:
    user, group = _owner()
    if user is not None and group is not None:
        os.chown(folder, user, group)


class PostgresServer:
    """One cluster, on a port of the loopback interface."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self.folder = folder
        self.data = folder / "data"
        self.port = free_port()

    @property
    def url(self) -> str:
        address = URL.create(DRIVER, ACCOUNT, host="127.0.0.1", port=self.port, database="postgres")
        return address.render_as_string(hide_password=False)

    def make(self, *options: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        give_to_account(self.folder)
        common = ["--username", ACCOUNT, "--auth", "trust", "--encoding", "UTF8"]
        self._run("initdb", "--pgdata", self.data, *common, "--locale", "C.UTF-8", *options)

    def copy_from(self, primary: "PostgresServer") -> None:
        """Become its standby."""
        self.folder.mkdir(parents=True, exist_ok=True)
        give_to_account(self.folder)
        source = ["--host", "127.0.0.1", "--port", str(primary.port), "--username", ACCOUNT]
        copied = ["--wal-method", "stream", "--checkpoint", "fast", "--write-recovery-conf"]
        self._run("pg_basebackup", *source, *copied, "--pgdata", self.data)

    def start(self, **settings: str) -> None:
        common = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "max_connections": "200",
            "timezone": "UTC",
        }
        options = " ".join(f"-c {name}='{value}'" for name, value in (common | settings).items())
        self._run("pg_ctl", "start", "--wait", "--silent", "--pgdata", self.data,
                  "--log", self.folder / "log", "--options", options)  # fmt: skip

    def promote(self) -> None:
        self._run("pg_ctl", "promote", "--wait", "--silent", "--pgdata", self.data)

    def stop(self) -> None:
        """As a crash would: without a clean shutdown. Does nothing where no server runs."""
        pid_file = self.data / "postmaster.pid"
        if not pid_file.exists():
            return
        os.kill(int(pid_file.read_text().split()[0]), signal.SIGQUIT)
        end = time.monotonic() + SECONDS
        while pid_file.exists() and time.monotonic() < end:
            time.sleep(POLL_SECONDS)  # PostgreSQL tells nobody else when it has ended

    def execute(self, statement: str) -> str:
        """Its rows as psql prints them."""
        where = ["--host", "127.0.0.1", "--port", str(self.port), "--username", ACCOUNT]
        done = subprocess.run(
            [self._programs / "psql", *where, "-X", "-A", "-t", "-c", statement, "postgres"],
            capture_output=True,
            text=True,
            check=True,
            timeout=SECONDS,
        )
        return done.stdout.strip()

    def until(self, statement: str, wanted: str) -> None:
        end = time.monotonic() + SECONDS
        while (found := self.execute(statement)) != wanted:
            assert time.monotonic() < end, f"{statement}: {found}"
            time.sleep(POLL_SECONDS)

    def _run(self, program: str, *arguments: str | Path) -> None:
        run_as_account(self._programs / program, *arguments)


@contextmanager
def scratch() -> Generator[Path]:
    """A folder in memory where there is room, and through which PostgreSQL's account may pass."""
    folder = scratch_folder()
    give_to_account(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def postgres(programs: Path) -> Generator[PostgresServer]:
    """A running server of a test's own."""
    with scratch() as folder:
        server = PostgresServer(programs, folder / "server")
        server.make("--no-sync")
        server.start()
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def pgbouncer(database_url: str, *, connections: int = 8) -> Generator[str]:
    """Yield the URL of a PgBouncer in transaction mode in front of the database. All its clients
    share so many connections to the server."""
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        missing("PgBouncer is not installed: apt-get install pgbouncer")
    url = make_url(database_url)
    host = str(url.query.get("host") or url.host)
    port = str(url.query.get("port") or url.port or 5432)
    with scratch() as folder:
        own = free_port()
        (folder / "users").write_text(f'"{url.username}" "{url.password or ""}"\n')
        (folder / "pgbouncer.ini").write_text(
            f"[databases]\n{url.database} = host={host} port={port}\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {own}\nunix_socket_dir =\n"
            f"auth_type = trust\nauth_file = {folder}/users\npool_mode = transaction\n"
            f"default_pool_size = {connections}\nmax_client_conn = 300\n"
        )
        log = (folder / "log").open("wb")
        user, group = _owner()
        process = subprocess.Popen(
            [program, str(folder / "pgbouncer.ini")],
            user=user,
            group=group,
            cwd="/",
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            _until_listening(own, process, folder / "log")
            yield url.set(host="127.0.0.1", port=own, query={}).render_as_string(
                hide_password=False
            )
        finally:
            process.kill()
            process.wait()
            log.close()


def _until_listening(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(POLL_SECONDS)
    pytest.fail(f"it does not listen: {log.read_text()}")
