"""Start a run, follow its events, approve its calls, and print the answer.

    RUNWARD_KEY=rw_… python3 examples/runs/run.py ["text for the model"]

Python's standard library is all it needs. It names the tools `lookup_order` and `refund`, which
`make run` registers.
"""

import json
import os
import sys
import urllib.request
import uuid
from collections.abc import Iterator
from typing import Any

URL = os.environ.get("RUNWARD_URL", "http://127.0.0.1:8080")
KEY = os.environ["RUNWARD_KEY"]
ENDED = {"run.completed", "run.failed", "run.cancelled", "run.incomplete", "run.expired"}
INPUT = (
    'lookup_order(order="A-1017") refund(order="A-1017", amount=50) '
    'refund(order="A-1018", amount=500)'
)


def send(method: str, path: str, body: Any = None, **headers: str) -> Any:
    """Return the open response. Raises urllib.error.HTTPError for error statuses."""
    request = urllib.request.Request(URL + path, method=method)
    request.add_header("Authorization", f"Bearer {KEY}")
    if body is not None:
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    for name, value in headers.items():
        request.add_header(name.replace("_", "-"), value)
    return urllib.request.urlopen(request, timeout=60)


def events(run_id: str) -> Iterator[dict[str, Any]]:
    """Yield every stored event once, in order, until the last one. A broken connection is opened
    again after the last event. The log has no gaps, so no event is missed or repeated."""
    seen = 0
    while True:
        try:
            path = f"/v1/runs/{run_id}/events"
            headers = {"Accept": "text/event-stream", "Last-Event-ID": str(seen)}
            with send("GET", path, **headers) as stream:
                for line in stream:
                    # Every event is one line of JSON. Events without an ID are transient.
                    if not line.startswith(b"data: "):
                        continue
                    event = json.loads(line.removeprefix(b"data: "))
                    if "sequence" not in event:
                        continue
                    seen = event["sequence"]
                    yield event
                    if event["type"] in ENDED:
                        return
        except (ConnectionError, TimeoutError) as error:
            print(f"(reconnecting after event {seen}: {error})")


def approve(event: dict[str, Any]) -> None:
    """Approve a call. The digest identifies its arguments: a changed call would be refused."""
    asked = event["data"]
    decision = {"decision": "approve", "digest": asked["digest"]}
    with send("POST", f"/v1/approvals/{asked['approval_id']}/decision", decision) as answer:
        decided = json.load(answer)
    print(f"        approved {decided['tool']}({json.dumps(decided['arguments'])})")


def main() -> None:
    body = {
        "model": "offline:rules",
        "tools": ["lookup_order", "refund"],
        "input": sys.argv[1] if len(sys.argv) > 1 else INPUT,
    }
    # The same key and body create only one run, so this request is safe to retry.
    with send("POST", "/v1/runs", body, Idempotency_Key=str(uuid.uuid4())) as answer:
        run = json.load(answer)
    print(f"started {run['id']}")
    for event in events(run["id"]):
        about = event["data"].get("tool", "")
        print(f"{event['sequence']:>6}  {event['type']} {about}".rstrip())
        if event["type"] == "tool_call.approval_requested":
            approve(event)
    with send("GET", f"/v1/runs/{run['id']}") as answer:
        run = json.load(answer)
    print(f"{run['status']}: {run['output']}")


if __name__ == "__main__":
    main()
