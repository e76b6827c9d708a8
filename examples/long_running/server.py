"""A long-running tool that requests input: `book` answers 202, asks for a seat, and books it.

    BOOK_SECRET=whsec_… PORT=9100 python3 examples/long_running/server.py

Python's standard library is all it needs. It keeps its progress in `state`, which Runward stores,
so it can be restarted between the question and the answer.
"""

import base64
import hashlib
import hmac
import json
import os
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SECRET = os.environ["BOOK_SECRET"]
PORT = int(os.environ.get("PORT", "9100"))


def is_signed(headers: Any, body: bytes) -> bool:
    sent_at = headers["webhook-timestamp"] or "0"
    if not abs(time.time() - int(sent_at)) <= 300:
        return False
    signed = f"{headers['webhook-id']}.{sent_at}.".encode() + body
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    right = "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    given = (headers["webhook-signature"] or "").split()
    return any(hmac.compare_digest(one, right) for one in given)


def say(call: Any, **what: Any) -> None:
    """Send a message to the call's callback. The token in its URL is the only credential."""
    request = urllib.request.Request(call["callback"]["url"], json.dumps(what).encode())
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=60):
        pass


def work(call: Any) -> None:
    flight, given = call["arguments"]["flight"], call.get("input")
    if given is None:
        hold = f"hold-{flight}"
        question = {"question": "Which seat?", "free": ["4A", "7C"]}
        say(call, status="input_required", requests=question, state={"hold": hold})
        return
    say(call, status="progress", progress=0.5, message="The seat is free.")
    booked = {"flight": flight, "seat": given["responses"]["seat"], **given["state"]}
    say(call, status="completed", output=booked)


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"] or 0))
        if not is_signed(self.headers, body):
            self.answer(401)
            return
        call = json.loads(body)
        if call["type"] == "tool_call.cancelled":
            print(f"nobody waits for {call['call_id']}: {call['reason']}", flush=True)
            self.answer(200)
            return
        self.answer(202)  # if the callback arrives before this response, Runward holds it
        threading.Thread(target=work, args=[call]).start()

    def answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Do not log requests."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", PORT), Handler)
    print(f"Listening on http://127.0.0.1:{PORT}", flush=True)
    server.serve_forever()
