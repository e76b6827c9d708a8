"""examples/mcp, executed; and what several processes make of one project's MCP server."""

import os
import subprocess
import sys

import pytest

from tests.e2e.conftest import Processes
from tests.e2e.test_examples import CLIENT_SECONDS, EXAMPLES
from tests.support.mcp.server import McpServer
from tests.support.models.chat_server import Call, ModelServer, calls, text
from tests.support.services.client import Client, Json
from tests.support.services.service import free_port

pytestmark = pytest.mark.timeout(180)


@pytest.mark.parametrize("token", [{}, {"TOKEN": "of the stock"}])
def test_the_example_registers_a_server_uses_and_approves_its_tools(
    client: Client, token: dict[str, str]
) -> None:
    port = free_port()
    server = subprocess.Popen(
        [sys.executable, str(EXAMPLES / "mcp" / "server.py")],
        env=os.environ | {"PORT": str(port)} | token,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{port}/mcp"
        assert server.stdout.readline() == f"Listening on {url}\n"
        done = subprocess.run(
            [sys.executable, str(EXAMPLES / "mcp" / "use.py"), url],
            env=os.environ | {"RUNWARD_URL": client.url, "RUNWARD_KEY": client.key} | token,
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
    stored = [one["name"] for one in client.call("GET", "/v1/secrets")["data"]]
    assert stored == ["STOCK_TOKEN"] * len(token)


def test_a_changed_secret_is_used_by_every_process(start: Processes, model: ModelServer) -> None:
    client = start.client(start("api"))
    start("worker")
    client.call("PUT", "/v1/secrets/token", {"value": "first"})
    with McpServer() as server:
        header = {"secret": "token", "prefix": "Bearer "}
        body: Json = {"name": "box", "url": server.url, "approval": "never"}
        body["headers"] = {"Authorization": header}
        client.call("POST", "/v1/mcp_servers", body)

        def sent(number: int) -> str:
            """What a call of a new run has sent."""
            name = f"main-{number}"
            one = Call("c1", "box_echo", '{"text":"hi"}')
            model.script(name, calls(one), text("fine"))
            run = client.start_run(model=f"openai:{name}", tools=["box_echo"])
            assert client.settle(run["id"])["status"] == "completed"
            return server.seen()[-1]["headers"]["authorization"]

        assert sent(0) == "Bearer first"
        client.call("PUT", "/v1/secrets/token", {"value": "second"})
        # The worker hears of it in its own time.
        assert "Bearer second" in (sent(number) for number in range(1, 500))
