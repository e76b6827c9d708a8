"""examples/client_tools, examples/inline_tools and examples/long_running, executed."""

import os
import subprocess
import sys

import pytest

from tests.e2e.test_examples import CLIENT_SECONDS, EXAMPLES
from tests.support.services.client import Client
from tests.support.services.service import free_port

pytestmark = pytest.mark.timeout(180)

FLIGHT = {
    "type": "object",
    "properties": {"flight": {"type": "string"}},
    "required": ["flight"],
    "additionalProperties": False,
}


def output_of(program: str, client: Client) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / program)],
        env=os.environ | {"RUNWARD_URL": client.url, "RUNWARD_KEY": client.key},
        capture_output=True,
        text=True,
        check=False,
        timeout=CLIENT_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_client_runs_its_tool_and_the_run_goes_on(client: Client) -> None:
    for _ in range(2):
        first, second, ended = output_of("client_tools/client.py", client).split("\n", maxsplit=2)
        assert (first.split()[1], second.split()[1]) == ("completed", "failed")
        assert ended.startswith("completed: ")
        assert "There is no file nothing.txt." in ended


def test_a_run_defines_a_webhook_tool_and_a_client_tool(client: Client) -> None:
    *acted, output = output_of("inline_tools/run.py", client).split("\n", maxsplit=2)
    assert sorted(acted) == ["answered ask_user", "approved refund"]
    assert output.startswith("completed: ")
    assert '"refunded"' in output
    assert "The lamp is broken." in output
    assert client.call("GET", "/v1/tools")["data"] == []


def test_the_long_running_tool_asks_for_a_seat_and_books_it(client: Client) -> None:
    port = free_port()
    made = client.register_tool("book", f"http://127.0.0.1:{port}/", parameters=FLIGHT)
    server = subprocess.Popen(
        [sys.executable, str(EXAMPLES / "long_running" / "server.py")],
        env=os.environ | {"BOOK_SECRET": made["secret"], "PORT": str(port)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == f"Listening on http://127.0.0.1:{port}\n"
        run_id = client.start_run(
            model="offline:rules", tools=["book"], input='book(flight="R 7")'
        )["id"]
        for frame in client.stream(run_id):
            if frame.data["data"].get("status") == "input_required":
                break
        [action] = client.get_run(run_id)["required_actions"]
        assert action["requests"] == {"question": "Which seat?", "free": ["4A", "7C"]}
        path = f"/v1/runs/{run_id}/tool_calls/{action['call_id']}/result"
        client.call("POST", path, {"output": {"seat": "4A"}})
        assert client.settle(run_id, {"completed"})["status"] == "completed"
        [call] = client.tool_calls(run_id)
        assert call["output"] == {"flight": "R 7", "seat": "4A", "hold": "hold-R 7"}
        assert call["attempt"] == 2
    finally:
        server.kill()
        server.communicate()
