"""Two tools for Runward as plain webhooks, with Python's standard library alone.

    LOOKUP_ORDER_SECRET=whsec_… REFUND_SECRET=whsec_… PORT=9000 python3 server.py

`POST /lookup_order` may be called freely. `POST /refund` moves money, so it is registered with an
approval rule; a person is asked by Runward, never here. Requests without a valid signature are
answered with 401. Each secret may be several, separated by spaces, while one is being rotated.
"""

import base64
import hashlib
import hmac
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MAX_AGE_SECONDS = 300
MAX_BODY_BYTES = 1_048_576

ORDERS = {
    "A-1017": {"item": "Desk lamp", "paid": 89.0, "delivered": True},
    "A-1018": {"item": "Standing desk", "paid": 640.0, "delivered": True},
    "A-1019": {"item": "Office chair", "paid": 310.0, "delivered": False},
}


class Shop:
    """The data of the two tools: the orders, and the calls that have already been refunded."""

    def __init__(self) -> None:
        self._refunds: dict[str, dict[str, Any]] = {}
        self._one_at_a_time = threading.Lock()

    def lookup_order(self, arguments: dict[str, Any], call_id: str) -> dict[str, Any]:
        order = ORDERS.get(arguments["order"])
        if order is None:
            return {"is_error": True, "error": f"There is no order {arguments['order']}."}
        return {"order": arguments["order"], **order}

    def refund(self, arguments: dict[str, Any], call_id: str) -> dict[str, Any]:
        """Refund an order. The call's ID makes retries safe: a repeated call gets the first answer.
        A real shop would store the answer in its database, together with the refund."""
        with self._one_at_a_time:
            if call_id not in self._refunds:
                number = f"R-{len(self._refunds) + 1}"
                self._refunds[call_id] = {"refund": number, **arguments, "currency": "EUR"}
            return self._refunds[call_id]


def is_signed(headers: Mapping[str, str], body: bytes, secrets: Iterable[str]) -> bool:
    """Return whether the request has a valid signature (Standard Webhooks). `webhook-signature`
    has `v1,` and the base64 of an HMAC-SHA-256 over ID, timestamp and body, once per secret."""
    call_id, sent_at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not sent_at.isdigit() or abs(time.time() - int(sent_at)) > MAX_AGE_SECONDS:
        return False
    signed = f"{call_id}.{sent_at}.".encode() + body
    given = [one[3:] for one in headers.get("webhook-signature", "").split() if one[:3] == "v1,"]
    for secret in secrets:
        key = base64.b64decode(secret.removeprefix("whsec_"))
        right = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
        if any(hmac.compare_digest(one.encode(), right.encode()) for one in given):
            return True
    return False


def make_server(
    port: int,
    secrets: Mapping[str, Iterable[str]],
    log: Callable[[str], None] = lambda line: None,
) -> ThreadingHTTPServer:
    """Return a server that listens on 127.0.0.1. `secrets` are the signing secrets by tool name."""
    shop = Shop()
    tools = {"/lookup_order": shop.lookup_order, "/refund": shop.refund}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(min(int(self.headers.get("Content-Length", 0)), MAX_BODY_BYTES))
            tool = tools.get(self.path)
            if tool is None:
                return self.answer(404, {"error": "no such tool"})
            headers = {name.lower(): value for name, value in self.headers.items()}
            if not is_signed(headers, body, secrets[self.path.removeprefix("/")]):
                log(f"{self.path} refused: the signature is not valid")
                return self.answer(401, {"error": "the signature is not valid"})
            call = json.loads(body)
            if call["type"] != "tool_call":  # a notice, such as a cancelled call
                log(f"{self.path} {call['type']} {call.get('call_id', '')}")
                return self.answer(200, {})
            result = tool(call["arguments"], headers["webhook-id"])
            log(f"{self.path} {json.dumps(call['arguments'])} -> {json.dumps(result)}")
            return self.answer(200, result)

        def answer(self, status: int, value: dict[str, Any]) -> None:
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Do not log requests. `log` already does."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, request: Any, client_address: Any) -> None:
            log(f"a request failed: {sys.exc_info()[1]!r}")

    return Server(("127.0.0.1", port), Handler)


def main() -> None:
    secrets = {
        "lookup_order": os.environ.get("LOOKUP_ORDER_SECRET", "").split(),
        "refund": os.environ.get("REFUND_SECRET", "").split(),
    }
    server = make_server(
        int(os.environ.get("PORT", "9000")), secrets, log=lambda line: print(line, flush=True)
    )
    print(f"Listening on http://127.0.0.1:{server.server_port}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


if __name__ == "__main__":
    main()
