"""An MCP server over standard input and output without the SDK, which takes a second of CPU time to
import: `python plain.py [WITHOUT]`. Its tools are some of `tests.support.mcp.process`."""

import json
import os
import signal
import sys
from typing import Any

NAMES = ("add", "environment", "die")
ABOUT: dict[str, Any] = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "plain", "version": "1"},
}


def call(name: str, arguments: dict[str, int]) -> dict[str, Any]:
    match name:
        case "add":
            return {"sum": arguments["a"] + arguments["b"]}
        case "environment":
            return {"result": sorted(os.environ)}
        case _:
            os.kill(os.getpid(), signal.SIGKILL)
            return {}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return the members of the answer that are not the same for all."""
    result: dict[str, Any]
    match method:
        case "initialize":
            result = ABOUT
        case "tools/list":
            names = [name for name in NAMES if name not in sys.argv[1:]]
            result = {
                "tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]
            }
        case "tools/call":
            content = call(params["name"], params["arguments"])
            result = {"content": [], "structuredContent": content}
        case _:
            return {"error": {"code": -32601, "message": "Method not found"}}
    return {"result": result}


if __name__ == "__main__":
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            members = answer(request["method"], request.get("params", {}))
            print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **members}), flush=True)
