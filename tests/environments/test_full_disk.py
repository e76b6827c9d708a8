"""The disk with PostgreSQL's tables is full, and is freed again. The write-ahead log is on another
disk. Without space for it, PostgreSQL itself would end, as in a crash.
"""

import asyncio
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runward.store import migrations
from tests.environments.processes import Measured, Process, environment
from tests.environments.servers import PostgresServer, give_to_account, postgres_18, scratch
from tests.support.models.chat_server import text
from tests.support.services.client import Client, Json

pytestmark = pytest.mark.timeout(180)

SIZE = "96m"
MAX_REQUESTS = 2000
PADDING = "x" * 20_000


def test_a_full_disk_is_a_503_and_no_run_is_lost(measured: Measured) -> None:
    with scratch() as folder, small_disk(folder / "disk") as disk:
        server = PostgresServer(postgres_18(), disk)
        log = folder / "log"
        log.mkdir()
        give_to_account(log)
        server.make("--no-sync", "--waldir", str(log / "wal"))
        server.start()
        try:
            measured("a full disk", fill_up_and_free(server))
        finally:
            server.stop()


def fill_up_and_free(server: PostgresServer) -> Json:
    asyncio.run(migrations.upgrade(server.url))
    process = Process(server.url)
    with environment() as here:
        victim = here.start("worker", process)
        api = here.start("api", process)
        workload = here.workload(api)
        workload.begin()
        ballast = server.folder / "ballast"
        fill(ballast)
        here.model.respond("filler", lambda _: text("done"))
        refuse(workload.client.clients[0])
        victim.kill()
        here.start("worker", process)
        ballast.unlink()
        workload.finish()
        workload.check(outage=True)
        return workload.figures()


def refuse(client: Client) -> None:
    """Start runs until one is refused."""
    body = {"model": "openai:filler", "input": PADDING}
    for _ in range(MAX_REQUESTS):
        response = client.request("POST", "/v1/runs", body)
        if response.status_code != 202:
            break
    else:
        pytest.fail("the disk does not fill up")
    assert response.status_code == 503, response.text
    assert response.headers["Retry-After"]


def fill(ballast: Path) -> None:
    """Take all the room that the disk has left."""
    with ballast.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(65_536)) == 65_536:
                pass
        except OSError:
            pass


@contextmanager
def small_disk(folder: Path) -> Generator[Path]:
    """A filesystem of its own in memory. Skip where this process may not mount one."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False, timeout=30)
    except FileNotFoundError:
        pytest.skip("there is no mount program")
    if done.returncode != 0:
        pytest.skip(f"this process may not mount a filesystem: {done.stderr.strip()}")
    try:
        give_to_account(folder)
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True, timeout=30)
