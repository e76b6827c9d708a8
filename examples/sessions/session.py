"""A conversation of several runs: start three at once, read the conversation, and fork it.

    RUNWARD_KEY=rw_… python3 examples/sessions/session.py

Python's standard library is all it needs, and no tools.
"""

import json
import os
import urllib.request
from typing import Any

URL = os.environ.get("RUNWARD_URL", "http://127.0.0.1:8080")
KEY = os.environ["RUNWARD_KEY"]


def call(method: str, path: str, body: Any = None) -> Any:
    """Return the response's JSON. Raises urllib.error.HTTPError for error statuses."""
    request = urllib.request.Request(URL + path, method=method)
    request.add_header("Authorization", f"Bearer {KEY}")
    if body is not None:
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=90) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def start(session: Any, said: str) -> Any:
    body = {"model": "offline:rules", "input": said, "session_id": session["id"]}
    return call("POST", "/v1/runs", body)


def show(session: Any) -> None:
    """Print the conversation that the session's next run continues."""
    for item in call("GET", f"/v1/sessions/{session['id']}/items")["data"]:
        print(f"  {item.get('role', item.get('type')):>9}: {item.get('content', '')}")


def main() -> None:
    session = call("POST", "/v1/sessions", {"name": "Example", "state": {"language": "en"}})
    print(f"session {session['id']}")

    # They are started without waiting for each other. The session runs them one after the other.
    runs = [start(session, said) for said in ("Good morning.", "My order is late.", "Thank you.")]
    for started in runs:
        run = call("GET", f"/v1/runs/{started['id']}?wait=30")
        print(f"{run['id']} {run['status']} from {run['started_at']} to {run['ended_at']}")
    show(session)

    # Two people update the state. Each update changes only the keys that it names.
    call("PATCH", f"/v1/sessions/{session['id']}", {"state": {"order": "A-1017"}})
    changed = call("PATCH", f"/v1/sessions/{session['id']}", {"state": {"language": None}})
    print(f"state {json.dumps(changed['state'])}")

    # Try a different second message: the fork contains only the first run.
    fork = {"run_id": runs[0]["id"], "name": "What if"}
    other = call("POST", f"/v1/sessions/{session['id']}/fork", fork)
    run = start(other, "My order is here.")
    call("GET", f"/v1/runs/{run['id']}?wait=30")
    print(f"fork {other['id']}")
    show(other)

    for one in (session, other):
        call("DELETE", f"/v1/sessions/{one['id']}")
    print("deleted")


if __name__ == "__main__":
    main()
