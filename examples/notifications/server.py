"""An endpoint for Runward's notifications.

    pip install standardwebhooks
    WEBHOOK_SECRET=whsec_… PORT=9200 python3 server.py

Requests without a valid signature are answered with 401. A notification that arrives again is
answered with 204, but printed only once.
"""

import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from standardwebhooks import Webhook, WebhookVerificationError

MAX_BODY_BYTES = 1_048_576


def make_server(port: int, secret: str) -> ThreadingHTTPServer:
    """Return a server that listens on 127.0.0.1. Call `serve_forever`."""
    webhook = Webhook(secret)
    seen: set[str] = set()  # A real server stores the IDs in its database.

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(min(int(self.headers.get("Content-Length", 0)), MAX_BODY_BYTES))
            headers = {name.lower(): value for name, value in self.headers.items()}
            try:
                notification = webhook.verify(body, headers)
            except WebhookVerificationError:
                self.respond(401)
                return
            if notification["id"] not in seen:
                seen.add(notification["id"])
                print(notification["type"], notification["data"].get("run_id", ""), flush=True)
            self.respond(204)

        def respond(self, status: int) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Print only notifications."""

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


if __name__ == "__main__":
    chosen = int(os.environ.get("PORT", "9200"))
    server = make_server(chosen, os.environ["WEBHOOK_SECRET"])
    print(f"Listening on http://127.0.0.1:{chosen}", flush=True)
    server.serve_forever()
