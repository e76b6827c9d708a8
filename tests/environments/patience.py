"""A client that repeats requests during an outage, as the documentation tells clients to do. It
repeats a request that was answered with 503 or not at all, with the same idempotency key.
"""

import time
from collections.abc import Callable
from itertools import cycle
from typing import Any, TypeVar

import httpx2

from tests.checker.history import TERMINAL
from tests.support.services.client import ApiError, Client, Json

GIVE_UP_SECONDS = 45.0
PAUSE_SECONDS = 0.2
T = TypeVar("T")


class PatientClient:
    """Spreads its requests over several API processes. `refused` counts the answers of 503 and the
    connections that failed."""

    def __init__(self, clients: list[Client]) -> None:
        self.clients = clients
        self._turn = cycle(clients)
        self.refused = 0
        self._patience = GIVE_UP_SECONDS

    def give_up(self) -> None:
        self._patience = 0.0

    @property
    def statuses(self) -> list[tuple[str, int]]:
        return [status for client in self.clients for status in client.statuses]

    def repeat(self, act: Callable[[Client], T]) -> T:
        """Return the result of `act` with one client after another, until one is answered."""
        began = time.monotonic()
        while True:
            try:
                return act(next(self._turn))
            except (ApiError, httpx2.TransportError) as error:
                in_flight = (
                    isinstance(error, ApiError)
                    and error.problem.get("code") == "idempotency_in_flight"
                )
                away = not isinstance(error, ApiError) or error.status == 503
                if not (in_flight or away) or time.monotonic() - began > self._patience:
                    raise
                self.refused += 1
            time.sleep(PAUSE_SECONDS)  # the client's pause between two tries

    def call(self, method: str, path: str, body: Any = None, **params: Any) -> Json:
        return self.repeat(lambda client: client.call(method, path, body, **params))

    def start_run(self, key: str, **fields: Any) -> str:
        """Return the ID of the run. `key` is its idempotency key."""
        body = {"instructions": "", "input": "go", **fields}

        def post(client: Client) -> Json:
            response = client.request("POST", "/v1/runs", body, headers={"Idempotency-Key": key})
            if response.status_code >= 400:
                raise ApiError(response)
            return response.json()

        return self.repeat(post)["id"]

    def settle(self, run_id: str) -> Json:
        return self.repeat(lambda client: client.settle(run_id))

    def follow(self, run_id: str) -> list[Json]:
        """Return all events of the run from its stream, to the last one. A stream that breaks is
        resumed after the last event that came."""
        events: list[Json] = []

        def read(client: Client) -> None:
            last = events[-1]["sequence"] if events else None
            for frame in client.stream(run_id, last_event_id=last):
                if frame.id is not None:
                    events.append(frame.data)  # noqa: PERF401  # kept if the stream breaks

        while not events or events[-1]["type"] not in TERMINAL:
            self.repeat(read)
        return events
