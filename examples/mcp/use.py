"""Register an MCP server, let a run use its tools, and approve the calls that need it.

    RUNWARD_KEY=rw_… python3 examples/mcp/use.py http://127.0.0.1:9000/mcp

If TOKEN is set, it is stored as a secret, and the registration refers to it.
Python's standard library is all it needs.
"""

import json
import os
import sys
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


registration: dict[str, Any] = {"name": "stock", "url": sys.argv[1]}
if "TOKEN" in os.environ:
    secret = call("PUT", "/v1/secrets/STOCK_TOKEN", {"value": os.environ["TOKEN"]})
    header = {"secret": secret["name"], "prefix": "Bearer "}
    registration["headers"] = {"Authorization": header}
server = call("POST", "/v1/mcp_servers", registration)
print("registered", *server["tool_names"])

# `count` is marked as read-only and needs no approval. `take` is not.
run = call(
    "POST",
    "/v1/runs?wait=30",
    {
        "model": "offline:rules",
        "input": 'stock_count(article="desk") stock_take(article="desk", number=2)',
        "tools": server["tool_names"],
    },
)
for action in run["required_actions"]:
    print("approve", action["tool"], json.dumps(action["arguments"], sort_keys=True))
    path = f"/v1/approvals/{action['approval_id']}/decision"
    call("POST", path, {"decision": "approve"})

run = call("GET", f"/v1/runs/{run['id']}?wait=30")
print(run["status"])
for made in call("GET", f"/v1/runs/{run['id']}/tool_calls")["data"]:
    print(made["tool"], json.dumps(made["output"]))
