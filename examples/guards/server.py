"""A guardrail and a hook for Runward as plain webhooks.

    pip install standardwebhooks
    GUARDS_SECRET=whsec_… PORT=9100 python3 server.py

`POST /no_large_refunds` is a guardrail on the arguments of tool calls: refunds above 1000 are
rejected, and one to a closed account fails the run. `POST /mask_cards` is a hook after every tool:
card numbers in its output are masked. Requests without a valid signature are answered with 401;
the secret may be several, separated by spaces, while one is being rotated.
"""

import json
import os
import re
from collections.abc import Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from standardwebhooks import Webhook, WebhookVerificationError

MAX_BODY_BYTES = 16_777_216
LARGE = 1000
CLOSED = {"A-0666"}
CARD = re.compile(r"\b(?:\d[ -]?){12,15}(\d{4})\b")


def no_large_refunds(question: dict[str, Any]) -> dict[str, Any]:
    """Return `allow`, `reject` (the model reads the message instead of a result) or `fail` (the run
    ends)."""
    arguments = question["arguments"]
    if question["tool"] != "refund":
        return {"action": "allow"}
    if arguments["order"] in CLOSED:
        return {"action": "fail", "message": f"Order {arguments['order']} is closed."}
    if arguments["amount"] > LARGE:
        return {"action": "reject", "message": f"Refunds above {LARGE} go through the bank."}
    return {"action": "allow"}


def mask_cards(question: dict[str, Any]) -> dict[str, Any]:
    """Return `{}` to keep the tool's output, or `{"output": …}` to replace it."""
    masked = _masked(question["output"])
    return {} if masked == question["output"] else {"output": masked}


def _masked(value: Any) -> Any:
    if isinstance(value, str):
        return CARD.sub(r"… \1", value)
    if isinstance(value, list):
        return [_masked(item) for item in value]
    if isinstance(value, dict):
        return {key: _masked(item) for key, item in value.items()}
    return value


GUARDS = {"/no_large_refunds": no_large_refunds, "/mask_cards": mask_cards}


def is_signed(headers: Mapping[str, str], body: bytes, secrets: Iterable[str]) -> bool:
    for secret in secrets:
        try:
            Webhook(secret).verify(body, dict(headers), json_parse=False)
        except WebhookVerificationError:
            continue
        return True
    return False


def make_server(port: int, secrets: Iterable[str]) -> ThreadingHTTPServer:
    """Return a server that listens on 127.0.0.1. Call `serve_forever`."""
    valid = tuple(secrets)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(min(int(self.headers.get("Content-Length", 0)), MAX_BODY_BYTES))
            guard = GUARDS.get(self.path)
            headers = {name.lower(): value for name, value in self.headers.items()}
            if guard is None:
                return self.answer(404, {"error": "no such guard"})
            if not is_signed(headers, body, valid):
                return self.answer(401, {"error": "the signature is not valid"})
            return self.answer(200, guard(json.loads(body)))

        def answer(self, status: int, value: dict[str, Any]) -> None:
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Do not log requests, because they may be confidential."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

    return Server(("127.0.0.1", port), Handler)


def main() -> None:
    port = int(os.environ.get("PORT", "9100"))
    server = make_server(port, os.environ.get("GUARDS_SECRET", "").split())
    print(f"Listening on http://127.0.0.1:{server.server_port}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


if __name__ == "__main__":
    main()
