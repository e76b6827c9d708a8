"""An endpoint for notifications that answers as a test tells it, and keeps each request as it
arrived."""

import json
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from standardwebhooks import Webhook

from tests.support.serving import HOLD_SECONDS, MAX_BODY_BYTES, Hold, Server


@dataclass(frozen=True, slots=True)
class Reply:
    """`hold`: wait for it before the answer."""

    status: int = 204
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    hold: Hold | None = None


@dataclass(frozen=True, slots=True)
class Received:
    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def body(self) -> dict[str, Any]:
        return json.loads(self.raw)

    @property
    def type(self) -> str:
        return self.body["type"]

    def verify(self, secret: str) -> None:
        """Raises WebhookVerificationError."""
        assert Webhook(secret).verify(self.raw, self.headers) == self.body


class Receiver(Server):
    """The n-th request for a path gets its n-th reply, all later ones the last."""

    def __init__(self, port: int = 0) -> None:
        super().__init__(port)
        self._changed = threading.Condition(threading.RLock())
        self._received: list[Received] = []
        self._replies: dict[str, tuple[Reply, ...]] = {}
        self._counts: dict[str, int] = defaultdict(int)

    def answer(self, path: str, *replies: Reply) -> str:
        """Return the URL of the path. Its requests are counted from now on."""
        self._replies[path] = replies or (Reply(),)
        self._counts[path] = 0
        return f"{self.url}/{path}"

    def received(self, path: str) -> list[Received]:
        with self._changed:
            return [one for one in self._received if one.path == path]

    def until(
        self, path: str, holds: Callable[[list[Received]], bool], seconds: float = HOLD_SECONDS
    ) -> list[Received]:
        """The requests for the path as soon as `holds` is true of them. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: holds(self.received(path)), seconds):
                raise TimeoutError([(one.type, one.id) for one in self.received(path)])
            return self.received(path)

    def wait_for(self, path: str, count: int = 1) -> list[Received]:
        return self.until(path, lambda received: len(received) >= count)

    def wait_for_type(self, path: str, type_: str) -> Received:
        found = self.until(path, lambda received: any(one.type == type_ for one in received))
        return next(one for one in found if one.type == type_)

    def app(self) -> web.Application:
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_post("/{path:.+}", self._receive)
        return app

    async def _receive(self, http: web.Request) -> web.Response:
        path, raw = http.match_info["path"], await http.read()
        headers = {name.lower(): value for name, value in http.headers.items()}
        with self._changed:
            self._received.append(Received(path, headers, raw))
            number, self._counts[path] = self._counts[path], self._counts[path] + 1
            self._changed.notify_all()
        replies = self._replies.get(path, (Reply(),))
        reply = replies[min(number, len(replies) - 1)]
        if reply.hold is not None:
            await reply.hold.reach()
        return web.Response(status=reply.status, text=reply.body, headers=reply.headers)
