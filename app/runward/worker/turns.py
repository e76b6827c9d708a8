"""Select one worker for each notification of a queued run, so that the others send no query.

Workers that share a database announce themselves to each other while runs are queued. For each
notification, all of them select the same worker by its rank. If they select none, or one that has
ended, the next poll claims the run."""

import asyncio
import secrets
from collections.abc import Callable
from typing import Final
from zlib import crc32

ANNOUNCE_SECONDS: Final = 2.0
VALID_SECONDS: Final = 3.0
"""Seconds for which an announcement is valid. All workers announce themselves again at the next
notification after `ANNOUNCE_SECONDS`."""


class Turns:
    """The turns of this worker. `notify`: sends a payload to a channel."""

    def __init__(self, notify: Callable[[str, str], None]) -> None:
        self._notify = notify
        self._name = secrets.token_hex(4)
        self._announced_at = -ANNOUNCE_SECONDS
        self._others: dict[str, float] = {}

    def receive(self, name: str) -> None:
        """Store the announcement of a worker."""
        if name != self._name:
            self._others[name] = _now()

    def is_selected(self, payload: str) -> bool:
        """Return whether this worker claims the run in `payload`. If the payload is empty, all
        workers claim. They also do so when they announce themselves."""
        if not payload:
            return True
        now = _now()
        if now - self._announced_at >= ANNOUNCE_SECONDS:
            self._announced_at = now
            self._notify("runward_workers", self._name)
            return True
        self._drop_expired(now)
        return max([self._name, *self._others], key=lambda name: _rank(name, payload)) == self._name

    def pass_on(self) -> None:
        """Wake all other workers, because this one has no capacity."""
        self._drop_expired(_now())
        if self._others:
            self._notify("runward_work", "")

    def _drop_expired(self, now: float) -> None:
        valid = {name: at for name, at in self._others.items() if now - at < VALID_SECONDS}
        self._others = valid


def _rank(name: str, payload: str) -> int:
    return crc32(f"{name}{payload}".encode())


def _now() -> float:
    return asyncio.get_running_loop().time()
