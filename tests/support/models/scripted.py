"""What every server of scripted models does, whatever protocol it speaks.

`script("main", first, second, …)` says what the n-th request of model `main` gets; `by_turn` goes
by the number of answers already in the conversation instead, so that many runs can share a model
and a request that is repeated after a crash gets the same answer again; `respond` takes a function.
Every request is recorded, and what the provider would refuse is refused and kept in `violations`.
"""

import threading
from collections import Counter
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from aiohttp import web

from tests.support.serving import HOLD_SECONDS, MAX_BODY_BYTES, Server


class Request(Protocol):
    """`number` counts from 0 per model; `turn` is how many answers of the model the conversation
    already holds."""

    @property
    def model(self) -> str: ...
    @property
    def number(self) -> int: ...
    @property
    def turn(self) -> int: ...


R = TypeVar("R", bound=Request)
A = TypeVar("A")


class UnscriptedError(Exception):
    """There is no reply to a request; the text is for the server's error answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class ScriptedServer(Server, Generic[R, A]):
    def __init__(self, port: int = 0) -> None:
        super().__init__(port)
        self._changed = threading.Condition()
        self._requests: list[R] = []
        self._seen: Counter[str] = Counter()
        self._responders: dict[str, Callable[[R], A]] = {}
        self.violations: list[str] = []

    def script(self, model: str, *replies: A) -> None:
        self.respond(model, lambda request: replies[request.number])

    def by_turn(self, model: str, *replies: A) -> None:
        self.respond(model, lambda request: replies[request.turn])

    def respond(self, model: str, responder: Callable[[R], A]) -> None:
        self._responders[model] = responder

    def requests(self, model: str | None = None) -> list[R]:
        with self._changed:
            return [seen for seen in self._requests if model in (None, seen.model)]

    def wait_for(self, model: str, count: int, timeout: float = HOLD_SECONDS) -> list[R]:
        """The requests of `model` as soon as there are `count`. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._seen[model] >= count, timeout):
                raise TimeoutError(f"{self._seen[model]} of {count} requests for {model}")
        return self.requests(model)

    def app(self) -> web.Application:
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        self.route(app.router)
        return app

    def route(self, router: web.UrlDispatcher) -> None:
        """Adds the paths of the protocol. No two of ours share one."""
        raise NotImplementedError

    def _record(self, model: str, make: Callable[[int], R]) -> R:
        """`make` gets the request's number."""
        with self._changed:
            request = make(self._seen[model])
            self._seen[model] += 1
            self._requests.append(request)
            self._changed.notify_all()
        return request

    def _reply_to(self, request: R) -> A:
        """Raises UnscriptedError."""
        responder = self._responders.get(request.model)
        if responder is None:
            raise UnscriptedError(404, f"The model {request.model!r} does not exist")
        try:
            return responder(request)
        except IndexError:
            message = f"request {request.number} of {request.model!r} has no answer"
            raise UnscriptedError(400, message) from None


def break_off(http: web.Request) -> None:
    """What was written still arrives; then the connection ends without its last chunk."""
    if http.transport is not None:
        http.transport.close()
