"""Stream a run's events, and resume the stream after a lost connection."""

import json
import time
from collections.abc import Iterable, Iterator
from typing import Final

import httpx2

from runward.cli.connection import (
    SERVER_ERROR,
    START_ADVICE,
    JsonBody,
    Runward,
    build_path,
    fail_with_problem,
)
from runward.cli.exits import Exit, fail

FINAL_EVENTS: Final = frozenset(
    {"run.completed", "run.failed", "run.cancelled", "run.incomplete", "run.expired"}
)
NO_CONTENT: Final = 204
"""The run has ended, and the client has received all events."""
TOO_MANY: Final = 429
SILENCE_SECONDS: Final = 45.0
"""Read timeout. The service sends a comment every 15 seconds."""
STEADY_SECONDS: Final = 15.0
"""A connection that was open for this long resets the retry delays, even without events."""
DELAYS: Final = (0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0, 8.0, 8.0)
"""Seconds before each reconnect. After the last one, the command fails."""


def follow_run(
    runward: Runward,
    run_id: str,
    *,
    after: str = "0",
    until_idle: bool = False,
    children: bool = False,
) -> Iterator[JsonBody]:
    """Yield the stored and transient events until the run ends. With `until_idle`, also stop when
    the run requires an action. After a lost connection, resume after the last received ID, so that
    each stored event is yielded once. Deltas of the current turn are repeated, with their `offset`.
    If the key has too many open streams, retry. The final error explains how to follow the run."""
    asked = {"until": "idle" if until_idle else None, "include": "children" if children else None}
    params = {name: value for name, value in asked.items() if value is not None}
    patience = _RetrySchedule(runward.url, run_id)
    while True:
        patience.begin()
        try:
            for cursor, event in _stream(runward, run_id, params, after, patience):
                patience.renew()
                after = cursor or after
                yield event
                if event["run_id"] == run_id and event["type"] in FINAL_EVENTS:
                    return
            if until_idle and _is_waiting(runward, run_id):
                return
        except _NoMoreEventsError:
            return
        except httpx2.TransportError:
            pass  # reconnect below
        patience.wait()


class _RetrySchedule:
    """Determines the delays between reconnects, and when to give up."""

    def __init__(self, url: str, run_id: str) -> None:
        self._url = url
        self._run_id = run_id
        self._refused: httpx2.Response | None = None
        self._delays = iter(DELAYS)
        self._begun = 0.0

    def begin(self) -> None:
        self._begun = time.monotonic()
        self._refused = None

    def refused(self, response: httpx2.Response) -> None:
        """Remember a response that rejected the stream because the key has too many open
        streams."""
        self._refused = response

    def renew(self) -> None:
        self._delays = iter(DELAYS)

    def wait(self) -> None:
        """Wait before the next attempt. End the command if no attempts are left."""
        if time.monotonic() - self._begun > STEADY_SECONDS:
            self.renew()
        delay = next(self._delays, None)
        if delay is None and self._refused is not None:
            advice = f"The run continues. To follow it, run: runward runs watch {self._run_id}"
            fail_with_problem(self._refused, advice)
        if delay is None:
            fail(f"{self._url} no longer answers. {START_ADVICE}", Exit.UNREACHABLE)
        time.sleep(delay)


class _NoMoreEventsError(Exception):
    """The run has ended, and no event follows the last received event."""


def _stream(
    runward: Runward, run_id: str, params: dict[str, str], after: str, schedule: _RetrySchedule
) -> Iterator[tuple[str | None, JsonBody]]:
    """Yield the events of one connection. Return if the connection ends or the service is
    temporarily unavailable."""
    with runward.http.stream(
        "GET",
        build_path("runs", run_id, "events"),
        params=params,
        headers={"Accept": "text/event-stream", "Last-Event-ID": after},
        timeout=httpx2.Timeout(SILENCE_SECONDS, connect=10),
    ) as response:
        if response.status_code == NO_CONTENT:
            raise _NoMoreEventsError
        if response.status_code >= SERVER_ERROR:
            return
        if response.is_error:
            response.read()
        if response.status_code == TOO_MANY:
            return schedule.refused(response)
        if response.is_error:
            fail_with_problem(response)
        yield from parse_frames(split_lines(response.iter_text()))


def split_lines(chunks: Iterable[str]) -> Iterator[str]:
    """Split a stream at line feeds only. `str.splitlines` and `iter_lines` also split at U+0085,
    U+2028 and U+2029, which JSON strings can contain unescaped."""
    begun: list[str] = []
    for chunk in chunks:
        first, *others = chunk.split("\n")
        begun.append(first)
        for other in others:
            yield "".join(begun).removesuffix("\r")
            begun = [other]


def parse_frames(lines: Iterable[str]) -> Iterator[tuple[str | None, JsonBody]]:
    """Yield the ID and the data of each event of a stream (HTML standard, 9.2.6). Ignore
    comments."""
    fields: dict[str, str] = {}
    for line in lines:
        if line.startswith(":"):
            continue
        if line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            fields[name] = f"{fields[name]}\n{value}" if name == "data" in fields else value
            continue
        if "data" in fields:
            yield fields.get("id"), json.loads(fields["data"])
        fields = {}


def _is_waiting(runward: Runward, run_id: str) -> bool:
    """Return whether the run requires an action. A stream also ends when its server stops."""
    response = runward.http.get(build_path("runs", run_id))
    return response.is_success and response.json()["status"] == "requires_action"
