"""Start a run after a delay, wait until it ends, and delete the schedule.

    RUNWARD_KEY=rw_… python3 examples/schedules/later.py

Python's standard library is all it needs.
"""

import json
import os
import time
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
        return json.loads(answer.read() or "null")


schedule = call(
    "POST",
    "/v1/schedules",
    {
        "name": "One run later",
        "after_seconds": 2,
        "run": {"model": "offline:rules", "input": "Good morning"},
    },
)
path = f"/v1/schedules/{schedule['id']}"
print(f"{schedule['id']} starts a run at {schedule['next_at']}")

while not (slots := call("GET", f"{path}/slots")["data"]):
    time.sleep(0.5)
run = call("GET", f"/v1/runs/{slots[0]['run_id']}?wait=30")
print(f"{run['id']} {run['status']}: {run['output']}")

call("DELETE", path)
