"""examples/mcp/connect.py, executed."""

import os
import subprocess
import sys

import pytest

from tests.e2e.test_examples import CLIENT_SECONDS, EXAMPLES
from tests.support.services.client import Client
from tests.support.tools.server import Behaviour, ToolServer

pytestmark = pytest.mark.timeout(180)


def test_the_example_calls_a_tool_and_approves_it_while_it_waits(
    client: Client, tools: ToolServer
) -> None:
    url = tools.tool("refund", Behaviour("return", value={"refunded": 500}))
    client.register_tool("refund", url, approval="always")
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "mcp" / "connect.py"), "refund", '{"x": "A-1017"}'],
        env=os.environ | {"RUNWARD_URL": client.url, "RUNWARD_KEY": client.key},
        capture_output=True,
        text=True,
        check=False,
        timeout=CLIENT_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [
        "tools refund runward_result",
        "approved refund",
        "result",
        '{"refunded":500}',
        "run completed",
    ]
