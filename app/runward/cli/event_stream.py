"""A run's events as they happen, taken up again where the connection broke."""

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
"""The run is over, and all of it was told."""
TOO_MANY: Final = 429
SILENCE_SECONDS: Final = 45.0
"""The service sends a comment every 15 seconds."""
STEADY_SECONDS: Final = 15.0
"""A connection that held for so long was a good one, also if nothing happened to the run."""
DELAYS: Final = (0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0, 8.0, 8.0)
"""Seconds before each try to come back; then it is given up."""


def follow_run(
    runward: Runward,
    run_id: str,
    *,
    after: str = "0",
    until_idle: bool = False,
    children: bool = False,
) -> Iterator[JsonBody]:
    """Stored and transient events, to the run's last; `until_idle`: or until it waits for someone.
    Comes back after a break with the last id it got, so that no stored event is missed or
    doubled; of transient ones the pieces of the turn come again (`offset` says which). While the
    key has too many streams open it tries again; then the error says how to follow the run."""
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
            pass  # it comes back below
        patience.wait()


class _RetrySchedule:
    """How long to come back to a service that does not answer."""

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
        """The key has too many streams open; one may end in a moment."""
        self._refused = response

    def renew(self) -> None:
        self._delays = iter(DELAYS)

    def wait(self) -> None:
        """Wait before the next try, and end the command if there is none."""
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
    """The run is over, and there is nothing behind the last event."""


def _stream(
    runward: Runward, run_id: str, params: dict[str, str], after: str, schedule: _RetrySchedule
) -> Iterator[tuple[str | None, JsonBody]]:
    """One connection. Ends where it ends, also where the service cannot serve just now."""
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
    """Split a stream where its frames do. `str.splitlines`, and with it `iter_lines`, also splits
    at U+0085, U+2028 and U+2029, which stand unescaped in JSON texts."""
    begun: list[str] = []
    for chunk in chunks:
        first, *others = chunk.split("\n")
        begun.append(first)
        for other in others:
            yield "".join(begun).removesuffix("\r")
            begun = [other]


def parse_frames(lines: Iterable[str]) -> Iterator[tuple[str | None, JsonBody]]:
    """The events of a stream (HTML standard, 9.2.6), with their ids; comments are left out."""
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
    """A stream ends when the run waits, and also when its server is stopped."""
    response = runward.http.get(build_path("runs", run_id))
    return response.is_success and response.json()["status"] == "requires_action"
