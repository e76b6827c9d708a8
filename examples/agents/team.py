"""A desk that asks a clerk, whose refund a person must approve: one run, one inbox, one log.

    RUNWARD_KEY=rw_… python3 examples/agents/team.py

Python's standard library is all it needs. It names the tool `refund`, which `make run` registers.
The models are `offline:rules`, which calls what a text says as `name(a=1)`.
"""

import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
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


def put(path: str, body: Any) -> Any:
    """Register a resource, or update the one with the same name."""
    try:
        return call("POST", path, body)
    except urllib.error.HTTPError as error:
        if error.code != 409:
            raise
        rest = {key: value for key, value in body.items() if key not in ("name", "type")}
        return call("PATCH", f"{path}/{body['name']}", rest)


def log_of(run: Any) -> Iterator[Any]:
    """Return all events of the run and of its descendants, page by page, until it has ended."""
    cursor = "0"
    while True:
        page = call(
            "GET", f"/v1/runs/{run['id']}/events?include=children&wait=30&limit=5&after={cursor}"
        )
        yield from page["data"]
        last = page["data"][-1] if page["data"] else None
        if last and last["run_id"] == run["id"] and last["type"] == "run.completed":
            return
        cursor = page["last_id"] or cursor


put("/v1/agents", {"name": "clerk", "model": "offline:rules", "tools": ["refund"]})
put("/v1/tools", {"name": "ask_clerk", "type": "agent", "agent": "clerk", "output": "final"})
desk = put(
    "/v1/agents",
    {"name": "desk", "description": "Answers.", "model": "offline:rules", "tools": ["ask_clerk"]},
)
versions = call("GET", "/v1/agents/desk/versions")["data"]
print(f"{desk['name']} is version {desk['version']} of {len(versions)}")

ask = 'ask_clerk(input="refund(order=\\"A-1017\\", amount=500)")'
run = call("POST", "/v1/runs?wait=30", {"agent": "desk", "input": ask})

# The clerk's run waits for an approval. The desk's run waits with it and lists the approval too.
for action in run["required_actions"]:
    asked_by = " > ".join([run["agent"], *action["path"]])
    print(f"{asked_by} asks: {action['tool']} {json.dumps(action['arguments'])}")
    decision = {"decision": "approve", "digest": action["digest"]}
    call("POST", f"/v1/approvals/{action['approval_id']}/decision", decision)

for event in log_of(run):
    who = "desk " if event["run_id"] == run["id"] else "clerk"
    print(f"{who} {event['sequence']:>2}  {event['type']}")

ended = call("GET", f"/v1/runs/{run['id']}")
print(f"{ended['status']}: {ended['output']}")
