"""The MCP SDK is imported where it does not hold up the event loop."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.processes

PROGRAM = """
import asyncio, json, sys, threading
from ipaddress import ip_network
from uuid import uuid4
from runward.domain.errors import McpUnreachableError
from runward.domain.registry.mcp_servers import McpServerSpec
from runward.egress.client import Egress
from runward.tools.mcp.invoker import McpInvoker
from runward.tools.mcp.session import ConnectableServer

held_up = []

class Watch:
    def find_spec(self, name, path=None, target=None):
        if threading.current_thread() is threading.main_thread():
            held_up.append(name)

async def main():
    spec = McpServerSpec(name="box", url="http://127.0.0.1:9/mcp")
    egress = Egress(allow_private=[ip_network("127.0.0.0/8")])
    mcp = McpInvoker(egress, commands=(), load_server=None, store_tools=None, find_open_calls=None)
    sys.meta_path.insert(0, Watch())
    try:
        await mcp.list_tools(ConnectableServer(uuid4(), uuid4(), 1, spec, {}))
    except McpUnreachableError:
        pass  # nobody listens there

asyncio.run(main())
slow = ("mcp", "jsonschema")
print(json.dumps([n for n in held_up if n.partition(".")[0] in slow]))
print("mcp.client.session" in sys.modules)
"""


def test_the_event_loop_moves_while_the_sdk_is_imported() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=50
    )
    held_up, loaded = map(json.loads, ran.stdout.lower().splitlines())
    assert loaded
    assert held_up == []
