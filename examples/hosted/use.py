"""Let a model's provider run tools: a web search, and an MCP server, whose calls a person approves.

    RUNWARD_KEY=rw_… python3 examples/hosted/use.py openai-responses:gpt-5.2 https://mcp.example.com/mcp

Python's standard library is all it needs. If the MCP server needs a token, set MCP_TOKEN in the
environment. The token is stored as a secret, and the registration does not contain it.
"""

import json
import os
import sys
import urllib.request
from typing import Any

URL = os.environ.get("RUNWARD_URL", "http://127.0.0.1:8080")
KEY = os.environ["RUNWARD_KEY"]
MODEL, SERVER = sys.argv[1:3]


def call(method: str, path: str, body: Any = None) -> Any:
    """Return the JSON of a response. Raises urllib.error.HTTPError for error statuses."""
    request = urllib.request.Request(URL + path, method=method)
    request.add_header("Authorization", f"Bearer {KEY}")
    if body is not None:
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


server: dict[str, Any] = {"kind": "mcp", "settings": {"server_url": SERVER}}
if token := os.environ.get("MCP_TOKEN"):
    call("PUT", "/v1/secrets/MCP_TOKEN", {"value": token})
    server["secrets"] = {"authorization": "MCP_TOKEN"}
call("POST", "/v1/tools", {"name": "search", "type": "hosted", "hosted": {"kind": "web_search"}})
call("POST", "/v1/tools", {"name": "crm", "type": "hosted", "hosted": server})

run = call(
    "POST",
    "/v1/runs?wait=30",
    {
        "model": MODEL,
        "input": "What do otters eat? Note it for our customer Ada.",
        "tools": ["search", "crm"],
    },
)
while run["status"] == "requires_action":
    for action in run["required_actions"]:
        print("approve", action["tool"], json.dumps(action["arguments"], sort_keys=True))
        path = f"/v1/approvals/{action['approval_id']}/decision"
        call("POST", path, {"decision": "approve"})
    run = call("GET", f"/v1/runs/{run['id']}?wait=30")
for item in call("GET", f"/v1/runs/{run['id']}/items")["data"]:
    if item.get("type") == "hosted_call":
        print(item["name"], json.dumps(item["arguments"]), json.dumps(item["output"]))
print(run["status"], run["output"])
