"""Give a run a small budget, read why it stopped, and continue it.

    RUNWARD_KEY=rw_… python3 examples/limits/go_on.py

Python's standard library is all it needs. It names the tool `lookup_order`, which `make run`
registers.
"""

import json
import os
import urllib.request
from typing import Any

URL = os.environ.get("RUNWARD_URL", "http://127.0.0.1:8080")
KEY = os.environ["RUNWARD_KEY"]


def call(method: str, path: str, body: Any = None) -> Any:
    """Return the JSON of a response. Raises urllib.error.HTTPError for error statuses."""
    request = urllib.request.Request(URL + path, method=method)
    request.add_header("Authorization", f"Bearer {KEY}")
    if body is not None:
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


# One turn is enough to call the tool, but not to answer with its result.
run = call(
    "POST",
    "/v1/runs?wait=30",
    {
        "model": "offline:rules",
        "instructions": "Answer questions about orders.",
        "input": 'lookup_order(order="A-1017")',
        "tools": ["lookup_order"],
        "limits": {"max_turns": 1, "max_tokens": 10_000, "max_cost_usd": 0.5},
    },
)
print(f"{run['id']}  {run['status']}: {run['incomplete_details']['reason']}")
print(f"        {run['incomplete_details']['message']}")

# The new run begins with the old run's conversation, so the tool is not called again.
more = call("POST", f"/v1/runs/{run['id']}/continue", {"max_turns": 1})
more = call("GET", f"/v1/runs/{more['id']}?wait=30")
print(f"{more['id']}  {more['status']}, continued from {more['continued_from']}")
print(f"        {more['output']}")
