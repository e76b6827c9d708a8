"""examples/mcp, executed."""

import os
import subprocess
import sys

import pytest

from tests.e2e.conftest import Processes
from tests.e2e.test_examples import CLIENT_SECONDS, EXAMPLES
from tests.support.service import free_port

pytestmark = pytest.mark.timeout(180)


def test_the_example_registers_a_server_uses_and_approves_its_tools(start: Processes) -> None:
    client = start.client(start("serve"))
    port = free_port()
    server = subprocess.Popen(
        [sys.executable, str(EXAMPLES / "mcp" / "server.py")],
        env=os.environ | {"PORT": str(port)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{port}/mcp"
        assert server.stdout.readline() == f"Listening on {url}\n"
        done = subprocess.run(
            [sys.executable, str(EXAMPLES / "mcp" / "use.py"), url],
            env=os.environ | {"RUNWARD_URL": client.url, "RUNWARD_KEY": client.key},
            capture_output=True,
            text=True,
            check=False,
            timeout=CLIENT_SECONDS,
        )
    finally:
        server.kill()
        server.communicate()
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [
        "registered stock_count stock_take",
        'approve stock_take {"article": "desk", "number": 2}',
        "completed",
        'stock_count {"count": 3}',
        'stock_take {"left": 1}',
    ]
