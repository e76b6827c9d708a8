"""A run that defines its own tools: a webhook tool, and a tool that this program runs itself.

    RUNWARD_KEY=rw_… python3 examples/inline_tools/run.py

The program needs only Python's standard library. It serves the webhook tool itself, verifies the
signature of each request, approves the call, and submits the result of the client tool. The key
needs the scope `tools:write`. The model is `offline:rules`, which calls what a text says as
`name(a=1)`.
"""

import base64
import hashlib
import hmac
import json
import os
import secrets
import threading
import time
import urllib.request
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

URL = os.environ.get("RUNWARD_URL", "http://127.0.0.1:8080")
KEY = os.environ["RUNWARD_KEY"]
SECRET_NAME = "REFUND_SIGNING"
SIGNING_KEY = secrets.token_bytes(32)
MAX_AGE_SECONDS = 300
ENDED = ("completed", "failed", "cancelled", "incomplete", "expired")


def call(method: str, path: str, body: Any = None) -> Any:
    """Return the JSON of a response. Raises urllib.error.HTTPError for error statuses."""
    request = urllib.request.Request(URL + path, method=method)
    request.add_header("Authorization", f"Bearer {KEY}")
    if body is not None:
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def is_signed(headers: Mapping[str, str], body: bytes) -> bool:
    """Return whether the request has a valid signature in the format of Standard Webhooks."""
    sent_at = headers.get("webhook-timestamp", "")
    if not sent_at.isdigit() or abs(time.time() - int(sent_at)) > MAX_AGE_SECONDS:
        return False
    signed = f"{headers.get('webhook-id')}.{sent_at}.".encode() + body
    digest = base64.b64encode(hmac.digest(SIGNING_KEY, signed, hashlib.sha256))
    given = headers.get("webhook-signature", "").split()
    return any(hmac.compare_digest(one.encode(), b"v1," + digest) for one in given)


class Refunds(BaseHTTPRequestHandler):
    """The webhook tool."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        signed = is_signed({name.lower(): value for name, value in self.headers.items()}, body)
        value = {"refunded": json.loads(body)["arguments"]} if signed else {"message": "Bad."}
        self.send_response(200 if signed else 401)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(value).encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Do not log requests."""


def define_tools(refund_url: str) -> list[dict[str, Any]]:
    """Return a webhook tool in Runward's format, and a client tool in OpenAI's format."""
    refund = {
        "name": "refund",
        "url": refund_url,
        "approval": "always",
        "signing_secret": {"secret": SECRET_NAME},
        "parameters": {
            "type": "object",
            "properties": {"order": {"type": "string"}, "amount": {"type": "number"}},
            "required": ["order", "amount"],
            "additionalProperties": False,
        },
    }
    ask_user = {
        "name": "ask_user",
        "description": "Asks the user of this program.",
        "parameters": {"type": "object", "properties": {"question": {"type": "string"}}},
    }
    return [refund, {"type": "function", "function": ask_user}]


def act(action: Any) -> None:
    """Approve the call of `refund`, or submit the result of `ask_user`."""
    if action["type"] == "approval":
        path = f"/v1/approvals/{action['approval_id']}/decision"
        call("POST", path, {"decision": "approve"})
        print(f"approved {action['tool']}")
    else:
        path = f"/v1/runs/{action['run_id']}/tool_calls/{action['call_id']}/result"
        call("POST", path, {"output": "The lamp is broken."})
        print(f"answered {action['tool']}")


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Refunds)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    signing_secret = "whsec_" + base64.b64encode(SIGNING_KEY).decode()
    call("PUT", f"/v1/secrets/{SECRET_NAME}", {"value": signing_secret})
    body = {
        "model": "offline:rules",
        "input": 'ask_user(question="Why?") refund(order="A-1017", amount=50)',
        "tools": define_tools(f"http://127.0.0.1:{server.server_port}/"),
    }
    run = call("POST", "/v1/runs?wait=30", body)
    while run["status"] not in ENDED:
        for action in run["required_actions"]:
            act(action)
        run = call("GET", f"/v1/runs/{run['id']}?wait=30")
    print(f"{run['status']}: {run['output']}")


if __name__ == "__main__":
    main()
