"""A tool that this program runs itself. The run requests the call and continues with the result.

    RUNWARD_KEY=rw_… python3 examples/client_tools/client.py

Python's standard library is all it needs. The model is `offline:rules`, which calls what a text
says as `name(a=1)`.
"""

import json
import os
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

URL = os.environ.get("RUNWARD_URL", "http://127.0.0.1:8080")
KEY = os.environ["RUNWARD_KEY"]
FOLDER = Path(__file__).parent


def call(method: str, path: str, body: Any = None) -> Any:
    """Return the JSON of a response. Raises urllib.error.HTTPError for error statuses."""
    request = urllib.request.Request(URL + path, method=method)
    request.add_header("Authorization", f"Bearer {KEY}")
    if body is not None:
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def register(tool: Any) -> None:
    """Register the tool. It needs to be registered only once."""
    try:
        call("POST", "/v1/tools", tool)
    except urllib.error.HTTPError as error:
        if error.code != 409:
            raise


def count_lines(name: str) -> Any:
    """Return the tool's result. It reads a file on this machine."""
    file = FOLDER / Path(name).name
    if not file.is_file():
        return {"error": f"There is no file {name}."}
    return {"output": {"file": name, "lines": len(file.read_text("utf-8").splitlines())}}


register(
    {
        "name": "count_lines",
        "type": "client",
        "description": "Counts the lines of a file of the user's.",
        "parameters": {
            "type": "object",
            "properties": {"name": {"type": "string"}},
            "required": ["name"],
            "additionalProperties": False,
        },
    }
)
asked = 'count_lines(name="client.py") count_lines(name="nothing.txt")'
run = call(
    "POST",
    "/v1/runs?wait=30",
    {"model": "offline:rules", "tools": ["count_lines"], "input": asked},
)

while run["status"] not in ("completed", "failed", "cancelled", "incomplete", "expired"):
    for action in run["required_actions"]:
        if action["type"] == "tool_result" and action["tool"] == "count_lines":
            result = count_lines(action["arguments"]["name"])
            path = f"/v1/runs/{action['run_id']}/tool_calls/{action['call_id']}/result"
            settled = call("POST", path, result)
            print(f"{action['call_id']}: {settled['outcome']}")
    run = call("GET", f"/v1/runs/{run['id']}?wait=30")

print(f"{run['status']}: {run['output']}")
