"""A tool that returns envelopes. It reads and changes the state of a session, and hands off runs.

    CART_SECRET=whsec_… PORT=9000 python3 cart.py

It needs only Python's standard library. Register the tool with `"response": "envelope"`.
"""

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from server import is_signed

CASHIER = "cashier"
"""Agent that takes the order. The tool hands off the run to this agent when the cart is full."""
MAX_ITEMS = 3


def add_to_cart(arguments: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Return an envelope. Runward applies `state` in the same commit as the output."""
    cart = [*state.get("cart", []), arguments["item"]]
    envelope = {"output": f"The cart has {len(cart)} items.", "state": {"cart": cart}}
    return {**envelope, "transfer_to": CASHIER} if len(cart) == MAX_ITEMS else envelope


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        if not is_signed(headers, body, os.environ["CART_SECRET"].split()):
            self.answer(401, {"message": "The signature is not valid."})
            return
        call = json.loads(body)
        is_call = call["type"] == "tool_call"
        self.answer(200, add_to_cart(call["arguments"], call["state"]) if is_call else {})

    def answer(self, status: int, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Do not log requests."""


def main() -> None:
    port = int(os.environ.get("PORT", "9000"))
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    print(f"Listening on http://127.0.0.1:{port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
