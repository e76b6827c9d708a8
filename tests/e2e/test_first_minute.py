"""The first minute: an empty folder, one command, and a run that waits for a person."""

import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.e2e.own_machine import NOTHING_SET, OwnMachine, needs
from tests.support.services.client import Json
from tests.support.services.forks import inherited_environment
from tests.support.services.service import ROOT, free_port

pytestmark = pytest.mark.timeout(180)

CALLS = 'refund(order="A-1017", amount=50) refund(order="A-1018", amount=500)'


@pytest.fixture
def machine() -> Iterator[OwnMachine]:
    with OwnMachine() as machine:
        yield machine


@pytest.fixture(scope="module")
def started_machine() -> Iterator[OwnMachine]:
    """Shared by tests that only look at it."""
    with OwnMachine() as machine:
        machine.start()
        yield machine


def waiting_run(machine: OwnMachine) -> Json:
    with machine.client() as client:
        run = client.start_run(wait=20, model="offline:rules", tools=["refund"], input=CALLS)
    assert run["status"] == "requires_action"
    return run


def approve(machine: OwnMachine, run: Json) -> Json:
    with machine.client() as client:
        client.decide(run["required_actions"][0]["approval_id"], "approve")
        return client.settle(run["id"])


def test_an_empty_folder_becomes_a_service_whose_banner_tells_the_truth(
    machine: OwnMachine,
) -> None:
    service = machine.start()
    shown = service.output()
    for step in ("Starting PostgreSQL", "Migrating the database", "Registering the example tools"):
        assert re.search(rf"^{step} … \d+\.\d s$", shown, re.MULTILINE), step
    for line in (
        f"API       {service.url}",
        f"Console   {service.url}/#key={machine.key}",
        f"Key       {machine.key}",
        f"Data      {machine.data_dir}",
        "Targets   public addresses and addresses of this machine",
    ):
        assert line in shown
    assert httpx2.get(f"{service.url}/docs", trust_env=False, timeout=30).status_code == 200

    [command] = [line for line in shown.splitlines() if line.startswith("curl -sS ")]
    done = subprocess.run(
        [needs("bash", "bash"), "-c", command], capture_output=True, text=True, check=True
    )
    assert '"status":"requires_action"' in done.stdout
    run_id = re.findall(r"run_[0-9a-f]{32}", done.stdout)[0]
    with machine.client() as client:
        run = approve(machine, client.get_run(run_id))
        assert "500" in run["output"]
        assert [call["outcome"] for call in client.tool_calls(run_id)] == ["completed"] * 3

    [events] = [line for line in shown.splitlines() if line.startswith("curl -N ")]
    followed = subprocess.run(
        [needs("bash", "bash"), "-c", events.replace("RUN_ID", run_id)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "event: run.completed\n" in followed.stdout

    assert machine.stop() == 0
    assert machine.postgres_is_gone()


def test_a_second_start_keeps_the_keys_the_tools_and_what_waits(machine: OwnMachine) -> None:
    machine.start()
    key = machine.key
    run = waiting_run(machine)
    own = "http://127.0.0.1:9/mine"
    with machine.client() as client:
        client.call("DELETE", "/v1/tools/lookup_order")
        client.register_tool("lookup_order", own)
    assert machine.hang_up() == 0
    assert machine.postgres_is_gone()
    machine.start()
    assert machine.key == key
    ended = approve(machine, run)
    assert ended["status"] == "completed"
    assert '"amount":500' in ended["output"]
    with machine.client() as client:
        [approval] = client.approvals(status=None, run_id=run["id"])
        assert approval["status"] == "approved"
        assert client.call("GET", "/v1/tools/lookup_order")["url"] == own
        found = client.call("GET", "/v1/tools/refund")
    assert (found["version"], found["metadata"]) == (1, {"runward_example": True})
    assert machine.stop_impatiently() == 0
    assert machine.postgres_is_gone()


def test_its_secrets_are_for_their_owner_alone(started_machine: OwnMachine) -> None:
    for name in ("api-key", "secret-key"):
        found = (started_machine.data_dir / name).stat()
        assert stat.S_IMODE(found.st_mode) == 0o600
    left = {path.name for path in started_machine.data_dir.iterdir()}
    locks = {"in-use.lock", "setup.lock", "examples.lock"}
    assert left == {"api-key", "secret-key", "postgres", *locks}


def test_the_page_at_the_root_needs_nothing_from_elsewhere(started_machine: OwnMachine) -> None:
    service = started_machine.service
    assert service is not None
    page = httpx2.get(f"{service.url}/", trust_env=False, timeout=30)
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "://" not in page.text
    for link in re.findall(r'href="([^"]+)"', page.text):
        answer = httpx2.get(f"{service.url}/{link}", trust_env=False, timeout=30)
        assert answer.status_code == 200, link


def environment(data_dir: Path, port: int) -> dict[str, str]:
    kept = inherited_environment()
    return (
        kept
        | dict.fromkeys(NOTHING_SET, "")
        | {"RUNWARD_DATA_DIR": str(data_dir), "RUNWARD_PORT": str(port)}
    )


def test_a_taken_port_is_said_before_anything_is_made(machine: OwnMachine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-m", "runward", "serve"],
            cwd=ROOT,
            env=environment(machine.data_dir, port),
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert f"port {port}: Address already in use" in done.stderr
    assert "RUNWARD_PORT" in done.stderr
    assert not machine.data_dir.exists()


def test_sigterm_while_it_starts_leaves_no_server_behind(machine: OwnMachine) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "runward", "serve"],
        cwd=ROOT,
        env=environment(machine.data_dir, free_port()),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        shown = ""
        while "Starting PostgreSQL" not in shown:
            piece = process.stdout.read(1)
            assert piece, shown
            shown += piece
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=60)
        assert process.returncode == 128 + signal.SIGTERM, rest
        assert "Traceback" not in rest
    finally:
        process.kill()
        process.wait()
    assert machine.postgres_is_gone()
