"""A conversation of several runs: start three at once, read what was said, fork it.

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
    """The answer's JSON. Raises urllib.error.HTTPError from 400 on."""
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
    """What the session's next run goes on from."""
    for item in call("GET", f"/v1/sessions/{session['id']}/items")["data"]:
        print(f"  {item.get('role', item.get('type')):>9}: {item.get('content', '')}")


def main() -> None:
    session = call("POST", "/v1/sessions", {"name": "Example", "state": {"language": "en"}})
    print(f"session {session['id']}")

    # None waits for the answer of the one before it; the session sees to it that they take turns.
    runs = [start(session, said) for said in ("Good morning.", "My order is late.", "Thank you.")]
    for started in runs:
        run = call("GET", f"/v1/runs/{started['id']}?wait=30")
        print(f"{run['id']} {run['status']} from {run['started_at']} to {run['ended_at']}")
    show(session)

    # Two people work on the state; each changes the keys that it names, and no other.
    call("PATCH", f"/v1/sessions/{session['id']}", {"state": {"order": "A-1017"}})
    changed = call("PATCH", f"/v1/sessions/{session['id']}", {"state": {"language": None}})
    print(f"state {json.dumps(changed['state'])}")

    # What if the second thing had been said otherwise? The fork has the first run alone.
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
