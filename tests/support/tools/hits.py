"""What a tool server wrote down about the requests that reached it.

The log is JSON lines, appended before anything else happens: `{"line": "hit", …}` on arrival,
`{"line": "seen", "number", "started_seen"}` if a witness was asked, `{"line": "end", "number",
"at", "outcome"}` when the answer is out (`answered`) or the client is gone (`abandoned`).
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any


@dataclass(slots=True)
class Hit:
    """One request. `at` and `ended_at` are wall clocks; `active` counts the calls in flight,
    this one included; `verified` is None where the server knew no secret. `started_seen`: an API
    reader already saw this attempt's `tool_call.started` at the moment of the hit."""

    number: int
    at: float
    key: str
    headers: dict[str, str]
    body: dict[str, Any]
    active: int
    verified: bool | None = None
    started_seen: bool | None = None
    ended_at: float | None = None
    outcome: str | None = None
    transport: str = "webhook"

    @property
    def type(self) -> str:
        return str(self.body.get("type", "tool_call"))

    @property
    def webhook_id(self) -> str:
        return self.headers.get("webhook-id", "")

    @property
    def run_id(self) -> str:
        return str(self.body.get("run_id"))

    @property
    def call_id(self) -> str:
        return str(self.body.get("call_id"))

    @property
    def tool(self) -> str:
        return str(self.body.get("tool"))

    @property
    def arguments(self) -> dict[str, Any]:
        return self.body.get("arguments") or {}

    @property
    def attempt(self) -> int:
        return int(self.body.get("attempt", 0))

    @property
    def fence(self) -> int:
        return int(self.body.get("fence", 0))


_FIELDS = {field.name for field in fields(Hit)}


def fold(lines: Iterable[str]) -> list[Hit]:
    """The hits of a log, in order of arrival. A last line that was cut off is left out."""
    hits: dict[int, Hit] = {}
    for text in lines:
        try:
            line: dict[str, Any] = json.loads(text)
        except ValueError:
            continue
        known = {key: value for key, value in line.items() if key in _FIELDS}
        match line["line"]:
            case "hit":
                hits[line["number"]] = Hit(**known)
            case "seen":
                hits[line["number"]].started_seen = line["started_seen"]
            case _:
                hits[line["number"]].ended_at = line["at"]
                hits[line["number"]].outcome = line["outcome"]
    return list(hits.values())


def read(log: Path) -> list[Hit]:
    return fold(log.read_text().splitlines()) if log.exists() else []
