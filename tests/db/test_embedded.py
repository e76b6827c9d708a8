"""The embedded PostgreSQL, with real processes that are stopped and killed."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import NullPool, make_url, text
from sqlalchemy.ext.asyncio import create_async_engine

from runward.store.postgres import embedded
from runward.store.postgres.embedded import EmbeddedError, EmbeddedServer
from tests.support.postgres import scratch_folder

HOLDER = """
import sys
from pathlib import Path
from runward.store.postgres import embedded
server = embedded.open_server(Path(sys.argv[1]), report=lambda line: None)
print("open", flush=True)
sys.stdin.read()
server.close()
print("closed", flush=True)
"""


class Machine:
    """A data folder, and other processes that use it. Afterwards nothing of it runs."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.said: list[str] = []
        self._holders: list[subprocess.Popen[str]] = []

    async def start(self) -> EmbeddedServer:
        return await embedded.start(self.data_dir, report=self.said.append)

    def postmaster(self) -> int | None:
        """The pid in the cluster's pid file: there while the server runs, or was killed."""
        with suppress(FileNotFoundError):
            text = (self.data_dir / "postgres" / "data" / "postmaster.pid").read_text()
            return int(text.split("\n", 1)[0])
        return None

    def hold(self) -> subprocess.Popen[str]:
        """Another process that has the server open until its input ends."""
        command = [sys.executable, "-c", HOLDER, str(self.data_dir)]
        holder = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self._holders.append(holder)
        assert holder.stdout
        assert holder.stdout.readline() == "open\n"
        return holder

    def clean_up(self) -> None:
        for holder in self._holders:
            holder.kill()
            holder.communicate()
        if (pid := self.postmaster()) is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGQUIT)


@pytest.fixture
def machine() -> Iterator[Machine]:
    folder = scratch_folder()
    machine = Machine(folder / "made" / "by" / "us")
    yield machine
    machine.clean_up()
    shutil.rmtree(folder, ignore_errors=True)


async def ask(server: EmbeddedServer, statement: str) -> str:
    engine = create_async_engine(server.url, poolclass=NullPool)
    async with engine.begin() as connection:
        result = await connection.execute(text(statement))
        answer = str(result.scalar_one()) if result.returns_rows else ""
    await engine.dispose()
    return answer


async def test_it_starts_in_a_folder_that_is_not_there_yet_and_keeps_its_data(
    machine: Machine,
) -> None:
    server = await machine.start()
    await ask(server, "CREATE TABLE kept AS SELECT 7 AS it")
    await server.stop()
    await server.stop()
    assert machine.postmaster() is None

    server = await machine.start()
    assert await ask(server, "SELECT it FROM kept") == "7"
    assert await ask(server, "SHOW fsync") == "on"
    assert await ask(server, "SHOW synchronous_commit") == "on"
    assert await ask(server, "SHOW listen_addresses") == ""
    await server.stop()


async def test_the_name_of_its_folder_means_nothing_to_a_shell(machine: Machine) -> None:
    """PostgreSQL's own programs put it into command lines and lists."""
    stranger = machine.data_dir.parent / "stranger"
    machine.data_dir = machine.data_dir / "~ \"$(touch stranger)\" $HOME, `x` 'y'"
    server = await machine.start()
    assert await ask(server, "SELECT 1") == "1"
    await server.stop()
    assert machine.postmaster() is None
    assert not list(machine.data_dir.parent.rglob("stranger"))
    assert not stranger.exists()


def test_a_tilde_is_the_home_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert embedded.resolve_data_dir(Path("~/data")) == tmp_path / "data"
    with pytest.raises(EmbeddedError, match="RUNWARD_DATA_DIR"):
        embedded.resolve_data_dir(Path("~no-such-user/data"))


@pytest.mark.skipif(not Path("/sys/kernel").exists(), reason="/sys is a folder that nobody writes")
def test_a_folder_that_cannot_be_written_is_named() -> None:
    with pytest.raises(EmbeddedError, match=r"Cannot use /sys/runward: .*RUNWARD_DATA_DIR"):
        embedded.open_server(Path("/sys/runward"), report=lambda _: None)


async def test_no_other_user_may_reach_the_socket_or_the_data(machine: Machine) -> None:
    server = await machine.start()
    folder = Path(str(make_url(server.url).query["host"]))
    assert folder.stat().st_mode & 0o077 == 0
    assert (machine.data_dir / "postgres").stat().st_mode & 0o077 == 0
    await server.stop()


async def test_two_processes_share_a_server_and_the_last_one_stops_it(machine: Machine) -> None:
    holder = machine.hold()
    server = await machine.start()
    holder.communicate("")
    assert await ask(server, "SELECT 1") == "1"

    await server.stop()
    assert machine.postmaster() is None


async def test_a_server_whose_owner_was_killed_is_adopted(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = machine.hold()
    pid = machine.postmaster()
    holder.kill()
    holder.wait()

    [socket] = machine.data_dir.rglob(".s.PGSQL.*[0-9]")
    aside = socket.rename(socket.with_name("aside"))
    with monkeypatch.context() as patch, pytest.raises(EmbeddedError, match=f"pid {pid}"):
        patch.setattr(embedded, "UNREACHABLE_SECONDS", 0.1)
        patch.setattr(embedded, "PROGRAM_SECONDS", 0.5)
        await machine.start()
    assert machine.postmaster() == pid, "without its file, PostgreSQL would end itself"
    aside.rename(socket)

    server = await machine.start()
    assert machine.postmaster() == pid
    assert "Connecting to the PostgreSQL that is already running" in machine.said
    assert await ask(server, "SELECT 1") == "1"

    await server.stop()
    assert machine.postmaster() is None


async def test_a_server_that_was_killed_with_its_owner_is_started_again(machine: Machine) -> None:
    holder = machine.hold()
    pid = machine.postmaster()
    assert pid is not None
    holder.kill()
    os.kill(pid, signal.SIGKILL)

    server = await machine.start()
    assert machine.postmaster() not in {None, pid}
    assert await ask(server, "SELECT 1") == "1"
    await server.stop()


async def test_a_pid_file_whose_pid_is_now_another_program_s_stops_nothing(
    machine: Machine,
) -> None:
    await (await machine.start()).stop()
    pid_file = machine.data_dir / "postgres" / "data" / "postmaster.pid"
    pid_file.write_text(f"{os.getpid()}\n")

    server = await machine.start()
    assert await ask(server, "SELECT 1") == "1"
    await server.stop()


async def test_an_unfinished_database_is_made_again(machine: Machine) -> None:
    (machine.data_dir / "postgres" / "data.new" / "base").mkdir(parents=True)

    server = await machine.start()
    assert await ask(server, "SELECT 1") == "1"
    await server.stop()


async def test_the_terminal_s_ctrl_c_does_not_reach_the_server(machine: Machine) -> None:
    server = await machine.start()
    pid = machine.postmaster()
    assert pid is not None
    assert os.getsid(pid) != os.getsid(0)
    await server.stop()


async def test_a_start_that_is_cancelled_leaves_no_server(machine: Machine) -> None:
    loop, starting = asyncio.get_running_loop(), asyncio.Event()

    def say(line: str) -> None:
        if line == "Starting PostgreSQL":
            loop.call_soon_threadsafe(starting.set)

    start = asyncio.create_task(embedded.start(machine.data_dir, report=say))
    await starting.wait()
    start.cancel()

    with pytest.raises(asyncio.CancelledError):
        await start
    assert machine.postmaster() is None


async def test_the_data_of_another_major_version_is_refused(machine: Machine) -> None:
    data = machine.data_dir / "postgres" / "data"
    data.mkdir(parents=True)
    (data / "PG_VERSION").write_text("17\n")

    with pytest.raises(EmbeddedError, match="was created by PostgreSQL 17"):
        await machine.start()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs PostgreSQL as another user")
async def test_as_root_a_closed_parent_is_named_and_stays_closed(machine: Machine) -> None:
    closed = machine.data_dir.parent
    closed.mkdir(parents=True)
    closed.chmod(0o700)

    with pytest.raises(EmbeddedError, match=f"chmod o\\+x {closed}"):
        await machine.start()
    assert closed.stat().st_mode & 0o777 == 0o700
    assert not machine.data_dir.exists()


async def test_a_path_too_long_for_a_socket_gets_another_folder(machine: Machine) -> None:
    machine.data_dir = machine.data_dir / ("long" * 20)

    server = await machine.start()
    folder = Path(str(make_url(server.url).query["host"]))
    assert folder.stat().st_mode & 0o077 == 0
    assert await ask(server, "SELECT 1") == "1"
    await server.stop()
    folder.rmdir()
