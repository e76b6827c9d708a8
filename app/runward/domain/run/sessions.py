"""Sessions: conversations shared by several runs, of which one executes at a time."""

from enum import StrEnum
from typing import Final

from pydantic_core import to_json

from runward.domain.ids import SessionId
from runward.domain.immutable import immutable
from runward.domain.json import JsonObject

MAX_STATE_BYTES: Final = 65_536
"""Maximum size in bytes of a session's state as JSON."""


class ConflictMode(StrEnum):
    """What happens to a run that is started while another run of its session is open."""

    QUEUE = "queue"  # wait until the earlier runs have ended
    REJECT = "reject"  # reject the new run with 409
    CANCEL_PREVIOUS = "cancel_previous"  # cancel the earlier runs


def merge_delta(state: JsonObject, delta: JsonObject) -> JsonObject:
    """Return `state` with the top-level keys of `delta`. A value of null removes the key."""
    after = {**state, **delta}
    return {key: value for key, value in after.items() if key not in delta or value is not None}


def fits_limit(state: JsonObject) -> bool:
    """Return whether the state is small enough for a session."""
    return len(to_json(state)) <= MAX_STATE_BYTES


@immutable
class Place:
    """The place of a run in its session. `number` counts the session's runs. A child run has its
    parent's session, and its `number` is None."""

    session_id: SessionId
    number: int | None
