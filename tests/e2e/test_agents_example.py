"""examples/agents, executed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.test_examples import CLIENT_SECONDS, EXAMPLES, register, serving
from tests.support.services.client import Client
from tests.support.services.service import free_port

pytestmark = pytest.mark.timeout(180)


def test_the_example_s_clerk_pays_once_a_person_has_approved(
    client: Client, tmp_path: Path
) -> None:
    port = free_port()
    with serving("python", port, register(client, f"http://127.0.0.1:{port}"), tmp_path):
        outputs = [executed(client.url, client.key) for _ in range(2)]
    for number, output in enumerate(outputs, start=1):
        version, asked, *log, ended = output.splitlines()
        assert version == f"desk is version {number} of {number}"
        assert asked.startswith("desk > clerk asks: refund ")
        for who in ("desk", "clerk"):
            numbers = [int(n) for n in re.findall(rf"^{who} +(\d+)  ", "\n".join(log), re.M)]
            assert numbers == list(range(1, len(numbers) + 1))
        assert log[-1].split() == ["desk", log[-1].split()[1], "run.completed"]
        assert ended.startswith("completed: ")
    calls = client.call("GET", "/v1/approvals", status="approved")["data"]
    assert [one["path"] for one in calls] == [["clerk"], ["clerk"]]


def executed(url: str, key: str) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "agents" / "team.py")],
        env=os.environ | {"RUNWARD_URL": url, "RUNWARD_KEY": key},
        capture_output=True,
        text=True,
        check=False,
        timeout=CLIENT_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
