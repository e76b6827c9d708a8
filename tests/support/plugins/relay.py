"""A plugin for tests: a tool that asks a server of the test's, which answers when it is let."""

import json
import urllib.request

from runward.tools import tool


@tool(timeout_seconds=60)
def relay(url: str, x: str) -> str:
    """Ask the server at an address.

    Args:
        url: Where it is.
        x: What it is told.
    """
    body = json.dumps({"type": "relayed", "arguments": {"x": x}}).encode()
    request = urllib.request.Request(url, body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read().decode()
