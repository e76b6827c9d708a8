"""Values that the response log uses: the ID of a response, and the log's input, state and
output."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from runward.api.responses.items import JsonItem, Tokens
from runward.domain.ids import RunId
from runward.domain.json import JsonObject, compact

_SHOWN: Final = re.compile(r"resp_([0-9a-f]{32})(?:_([1-9][0-9]{0,8}))?")


@dataclass(frozen=True, slots=True)
class ResponseId:
    """The ID of a response. `after`: the number of the event with which the run waited for the
    client. 0: the response begins with the run."""

    run_id: RunId
    after: int = 0

    def __str__(self) -> str:
        return f"resp_{self.run_id.hex}{f'_{self.after}' if self.after else ''}"

    @classmethod
    def parse(cls, shown: str) -> "ResponseId | None":
        """Parse an ID. None: the text is not an ID of a response. Callers treat it like an unknown
        ID."""
        found = _SHOWN.fullmatch(shown)
        return None if found is None else cls(RunId(UUID(hex=found[1])), int(found[2] or 0))


CALL_ENDINGS: Final[Mapping[str, bool]] = {
    "tool_call.completed": True,
    "tool_call.failed": False,
    "tool_call.timed_out": False,
    "tool_call.rejected": False,
    "tool_call.cancelled": False,
    "tool_call.outcome_unknown": False,
}
"""The events that end a call, and whether the call succeeded."""
RUN_ENDINGS: Final[Mapping[str, tuple[str, str]]] = {
    "run.completed": ("completed", "response.completed"),
    "run.failed": ("failed", "response.failed"),
    "run.incomplete": ("incomplete", "response.incomplete"),
    "run.cancelled": ("cancelled", "response.incomplete"),
    "run.expired": ("incomplete", "response.incomplete"),
}
"""The events that end a run, with the status and the last event of the response."""


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """One stored event of the run."""

    sequence: int
    type: str
    created_at: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ResponseEvent:
    """One event for the client."""

    number: int
    type: str
    data: JsonObject

    @property
    def frame(self) -> str:
        """The event as a server-sent event."""
        whole = {"type": self.type, "sequence_number": self.number, **self.data}
        return f"event: {self.type}\ndata: {compact(whole)}\n\n"


@dataclass(slots=True)
class CallState:
    """The state of a call. `number`: the number of the event that created it. `index`: the index of
    its open item."""

    number: int
    tool: str
    client: bool
    arguments: str
    approval_id: str | None = None
    index: int | None = None


@dataclass(slots=True)
class OpenMessage:
    """A message that is shown while the model generates it. `text`: the shown text, if this reader
    has it. `shown`: the number of shown characters. `part`: whether its content part was added."""

    index: int
    turn: int
    shown: int = 0
    text: str | None = ""
    part: bool = False


@dataclass(frozen=True, slots=True)
class ResponseSnapshot:
    """The known state of a response. `ended_at`: when its last event was stored."""

    status: str
    output: list[JsonItem]
    usage: Tokens
    created_at: str | None
    ended_at: str | None
    error: JsonObject | None
    incomplete: JsonObject | None
    before: int
    """The position in the log where the previous response begins."""
