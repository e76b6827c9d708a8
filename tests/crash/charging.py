"""A plugin for tests: a tool that must not be called twice, and that reports each call to a server
of the test.
"""

import json
import urllib.request

from runward.tools import ToolContext, tool


@tool(timeout_seconds=30)
def charge(ctx: ToolContext, url: str, x: str) -> str:
    """Charge once.

    Args:
        url: Where it is.
        x: What it is told.
    """
    body = {
        "type": "tool_call",
        "run_id": ctx.run_id,
        "call_id": ctx.call_id,
        "tool": "charge",
        "arguments": {"url": url, "x": x},
        "attempt": ctx.attempt,
    }
    headers = {
        "content-type": "application/json",
        "webhook-id": ctx.idempotency_key,
        "idempotency-key": ctx.idempotency_key,
    }
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read().decode()
