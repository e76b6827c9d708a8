"""The embedded database: a PostgreSQL from a wheel, for use on one person's machine.

In the data folder, `postgres/` contains everything that belongs to PostgreSQL: the cluster
(`data/`), its log and its socket. Other users cannot access the folder, and there is no TCP port.
Therefore every process that can access the folder is trusted.

Any number of processes may use one data folder at once. Each holds a shared lock on `in-use.lock`,
and the last one stops the server when it exits. If a process was killed, the next process uses the
server that still runs. `setup.lock` allows only one process at a time to start or stop the server.
"""

import asyncio
import errno
import fcntl
import os
import pwd
import shlex
import shutil
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL

from runward.store.postgres.embedded_home import (
    ACCOUNT,
    MAJOR,
    PORT,
    ROOT_FOLDER,
    EmbeddedError,
    ReportProgress,
    choose_socket_folder,
    ensure_service_account,
    find_programs,
    make_home,
    socket_path,
)

SETUP_SECONDS = 120.0
"""Maximum number of seconds to wait for another process that starts or stops the same server."""
PROGRAM_SECONDS = 60
UNREACHABLE_SECONDS = 2.0
"""Number of seconds without a socket after which a process with the pid is another program, which
got the pid of a dead server. Used only where the system does not show the command of a process."""
_COMMANDS = Path("/proc/self/cmdline")
ORPHAN_SECONDS = 20.0
POLL_SECONDS = 0.02
MAX_LOG_BYTES = 10 * 1024 * 1024
"""Maximum size of the log in bytes. At a start, a longer log is renamed to `log.old`."""

SETTINGS = {
    "listen_addresses": "",
    "port": PORT,
    "unix_socket_permissions": "0700",
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "max_connections": "300",
    "shared_buffers": "128MB",
    "max_wal_size": "512MB",
    "max_parallel_workers_per_gather": "0",
    "io_method": "sync",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    # The log contains errors, but never statements or rows, which may contain personal data.
    "log_error_verbosity": "terse",
    "log_min_error_statement": "panic",
}


def default_data_dir() -> Path:
    return ROOT_FOLDER if os.geteuid() == 0 else Path(".runward").absolute()


def resolve_data_dir(given: Path | None) -> Path:
    """Return RUNWARD_DATA_DIR, where `~` is the user's home, or the default. Raises
    EmbeddedError."""
    try:
        return default_data_dir() if given is None else given.expanduser().absolute()
    except RuntimeError as error:
        raise EmbeddedError(f"RUNWARD_DATA_DIR: {error}") from error


async def start(data_dir: Path, *, report: ReportProgress) -> "EmbeddedServer":
    """Start the server of this data folder, or use the one that is running. `report` receives a
    line for each slow step. Raises EmbeddedError."""
    opening = asyncio.ensure_future(asyncio.to_thread(open_server, data_dir, report=report))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        # The thread continues after a cancellation. Without this, it would start a server that no
        # process stops.
        with suppress(EmbeddedError):
            await (await opening).stop()
        raise


def open_server(data_dir: Path, *, report: ReportProgress) -> "EmbeddedServer":
    """Start the server like `start`, without an event loop."""
    data_dir = data_dir.expanduser().resolve()
    account = ensure_service_account()
    # Checked first, because the folder does not matter without the wheel.
    programs = find_programs(account, report)
    home = make_home(data_dir, account)
    cluster = Cluster(home, choose_socket_folder(home, account), programs, account)
    with _setup_lock(data_dir):
        in_use = os.open(data_dir / "in-use.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(in_use, fcntl.LOCK_SH | fcntl.LOCK_NB)
            cluster.ensure_running(report)
        except BaseException:
            os.close(in_use)
            raise
    return EmbeddedServer(cluster, data_dir, in_use)


class EmbeddedServer:
    """One process's use of the running server."""

    def __init__(self, cluster: "Cluster", data_dir: Path, in_use: int) -> None:
        self._cluster = cluster
        self._data_dir = data_dir
        self._in_use: int | None = in_use
        self.url = cluster.url()
        """The URL for SQLAlchemy, with the asyncpg driver."""

    async def stop(self) -> None:
        """End this process's use of the server. The last process stops the server. A second call
        has no effect."""
        await asyncio.shield(asyncio.to_thread(self.close))

    def close(self) -> None:
        """Stop like `stop`, without an event loop."""
        if self._in_use is None:
            return
        in_use, self._in_use = self._in_use, None
        try:
            with _setup_lock(self._data_dir):
                if _try_lock(in_use):
                    self._cluster.stop()
        finally:
            os.close(in_use)


@dataclass(frozen=True, slots=True)
class Cluster:
    """The server's files and its process. The caller must hold the setup lock."""

    home: Path
    socket_folder: Path
    programs: Path
    account: pwd.struct_passwd | None

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def log(self) -> Path:
        return self.home / "log"

    def url(self) -> str:
        where = {"host": str(self.socket_folder), "port": PORT}
        url = URL.create("postgresql+asyncpg", ACCOUNT, database="postgres", query=where)
        return url.render_as_string(hide_password=False)

    def ensure_running(self, report: ReportProgress) -> None:
        version = self.data / "PG_VERSION"
        if not version.exists():
            report(f"Creating a PostgreSQL {MAJOR} database in {self.home}")
            self._create()
        if (found := version.read_text().strip()) != MAJOR:
            raise EmbeddedError(
                f"{self.data} was created by PostgreSQL {found}, but this is "
                f"PostgreSQL {MAJOR}. Set RUNWARD_DATA_DIR to another folder, or "
                "set DATABASE_URL to your own server."
            )
        if self._wait_until_ready():
            report("Connecting to the PostgreSQL that is already running")
        else:
            report("Starting PostgreSQL")
            self._start()

    def stop(self) -> None:
        for mode in ("fast", "immediate"):
            if self._pg_ctl("stop", "--mode", mode).returncode == 0 or self._read_pid() is None:
                return
        raise EmbeddedError(f"PostgreSQL did not stop. See the log {self.log}.")

    # PostgreSQL's programs pass paths to a shell, so paths in the data folder are relative to it.

    def _create(self) -> None:
        unfinished = self.home / "data.new"
        shutil.rmtree(unfinished, ignore_errors=True)
        options = ["--username", ACCOUNT, "--auth", "trust", "--no-instructions"]
        options += ["--encoding", "UTF8", "--locale", "C"]
        options += ["--locale-provider", "builtin", "--builtin-locale", "C.UTF-8"]
        done = self._run("initdb", "--pgdata", unfinished.name, *options)
        if done.returncode != 0:
            raise EmbeddedError(explain_initdb_failure(self.home, done.stderr))
        unfinished.rename(self.data)

    def _start(self) -> None:
        if self.log.exists() and self.log.stat().st_size > MAX_LOG_BYTES:
            self.log.replace(self.log.with_name("log.old"))
        settings = SETTINGS | {"unix_socket_directories": str(self.socket_folder)}
        flags = [f"--{name}={value}" for name, value in settings.items()]
        options = shlex.join(["-D", str(self.data), *flags])
        begun = time.monotonic()
        while (
            done := self._pg_ctl("start", "--log", self.log.name, "--options", options)
        ).returncode:
            # The child processes of a killed postmaster need a moment to notice its end.
            orphans = "is still in use" in self._read_log_end(lines=3)
            if not orphans or time.monotonic() - begun > ORPHAN_SECONDS:
                raise EmbeddedError(
                    f"PostgreSQL did not start: {done.stderr.strip()}\n"
                    f"The end of {self.log}:\n{self._read_log_end(lines=15)}"
                )
            time.sleep(POLL_SECONDS)

    def _wait_until_ready(self) -> bool:
        """Wait for a server that is starting or stopping, and return whether it is ready. Returns
        False if no server uses this data."""
        begun = heard = time.monotonic()
        while (now := time.monotonic()) - begun < PROGRAM_SECONDS:
            if self._accepts_connections():
                if self._reports_ready():
                    return True
                heard = now
            elif self._read_pid() is None:
                break
            elif now - heard > UNREACHABLE_SECONDS and not _COMMANDS.exists():
                break  # The pid may belong to another program.
            time.sleep(POLL_SECONDS)
        else:
            raise EmbeddedError(
                f"PostgreSQL (pid {self._read_pid()}) does not start and does not stop. "
                "Stop this process, then try again."
            )
        # PostgreSQL would treat any process with that pid as the owner, even a zombie.
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        Path(f"{socket_path(self.socket_folder)}.lock").unlink(missing_ok=True)
        return False

    def _read_pid_file(self) -> list[str]:
        """Return the lines of the pid file. The first line is the pid. The eighth line is the
        state: starting, ready or stopping."""
        try:
            return (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return []

    def _read_pid(self) -> int | None:
        """Return the process ID in the pid file. Returns None if that process is not alive or,
        where this can be checked, is not this server."""
        lines = self._read_pid_file()
        if not lines or not lines[0].isdigit():
            return None
        pid = int(lines[0])
        try:
            with suppress(PermissionError):
                os.kill(pid, 0)
            if not _COMMANDS.exists():
                return pid
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (ProcessLookupError, FileNotFoundError, PermissionError):
            return None
        return pid if os.fsencode(self.data) in command else None

    def _reports_ready(self) -> bool:
        lines = self._read_pid_file()
        return len(lines) >= 8 and lines[7].strip() == "ready"

    def _accepts_connections(self) -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(UNREACHABLE_SECONDS)
            try:
                probe.connect(socket_path(self.socket_folder))
            except OSError:
                return False
            return True

    def _read_log_end(self, lines: int) -> str:
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def _pg_ctl(self, action: str, *options: str) -> subprocess.CompletedProcess[str]:
        wait = ["--wait", "--timeout", str(PROGRAM_SECONDS), "--silent"]
        return self._run("pg_ctl", action, "--pgdata", self.data.name, *wait, *options)

    def _run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a program of PostgreSQL without this process's environment, in a session that does
        not receive Ctrl-C of the terminal."""
        uid, gid = (self.account.pw_uid, self.account.pw_gid) if self.account else (None, None)
        try:
            return subprocess.run(
                [str(self.programs / program), *arguments],
                cwd=self.home,
                env={"PATH": os.defpath, "LC_ALL": "C"},
                user=uid,
                group=gid,
                extra_groups=None if uid is None else [],
                umask=0o077,
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=2 * PROGRAM_SECONDS,
            )
        except subprocess.TimeoutExpired as error:
            raise EmbeddedError(
                f"{program} did not finish within {error.timeout:g} seconds."
            ) from error


@contextmanager
def _setup_lock(data_dir: Path) -> Generator[None]:
    lock = os.open(data_dir / "setup.lock", os.O_RDWR | os.O_CREAT, 0o600)
    begun = time.monotonic()
    try:
        while not _try_lock(lock):
            if time.monotonic() - begun > SETUP_SECONDS:
                raise EmbeddedError(
                    f"Another process holds the lock {data_dir / 'setup.lock'}. Wait "
                    "until it has finished, then try again."
                )
            time.sleep(POLL_SECONDS)
        yield
    finally:
        os.close(lock)


def _try_lock(lock: int) -> bool:
    """Return whether the exclusive lock was acquired. Returns False if another process holds the
    lock, shared or exclusive."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def explain_initdb_failure(home: Path, output: str) -> str:
    """Return why PostgreSQL could not create its data folder in `home`. `output`: its standard
    error."""
    if os.strerror(errno.ENOSPC) in output:
        return (
            f"The disk that holds {home} is full. "
            "Free some space, or set RUNWARD_DATA_DIR to a folder on another disk."
        )
    return f"PostgreSQL's initdb failed:\n{output.strip()}"
