"""Sessions: conversations across runs, one run at a time."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pydantic_core import to_json

from runward.domain.ids import SessionId
from runward.domain.json import JsonObject

MAX_STATE_BYTES: Final = 65_536
"""Of a session's state, as JSON."""


class ConflictMode(StrEnum):
    """What happens to a run that is started while another run of its session is open."""

    QUEUE = "queue"  # waits for its turn
    REJECT = "reject"  # is refused with 409
    CANCEL_PREVIOUS = "cancel_previous"  # ends those before it


def merge_delta(state: JsonObject, delta: JsonObject) -> JsonObject:
    """`state` with the top-level keys of `delta` in place of its own; null removes one."""
    after = {**state, **delta}
    return {key: value for key, value in after.items() if key not in delta or value is not None}


def fits_limit(state: JsonObject) -> bool:
    """Whether a session may keep so much."""
    return len(to_json(state)) <= MAX_STATE_BYTES


@dataclass(frozen=True, slots=True)
class Place:
    """Of a run in its session, which carries one run at a time. `number` counts the session's
    runs; a child run has the session of its parent and no place of its own."""

    session_id: SessionId
    number: int | None
