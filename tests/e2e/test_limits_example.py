"""examples/limits, executed."""

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


def test_the_example_stops_at_its_limit_and_goes_on(client: Client, tmp_path: Path) -> None:
    port = free_port()
    with serving("python", port, register(client, f"http://127.0.0.1:{port}"), tmp_path):
        done = subprocess.run(
            [sys.executable, str(EXAMPLES / "limits" / "go_on.py")],
            env=os.environ | {"RUNWARD_URL": client.url, "RUNWARD_KEY": client.key},
            capture_output=True,
            text=True,
            check=False,
            timeout=CLIENT_SECONDS,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    stopped, _, went_on, output = done.stdout.splitlines()
    old, reason = re.findall(r"^(run_[0-9a-f]{32})  incomplete: (\w+)$", stopped)[0]
    assert reason == "max_turns"
    new = re.findall(rf"^(run_[0-9a-f]{{32}})  completed, continued from {old}$", went_on)[0]
    assert "A-1017" in output
    calls = [
        [event["type"] for event in client.events(run)].count("tool_call.started")
        for run in (old, new)
    ]
    assert calls == [1, 0]
