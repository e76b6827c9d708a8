"""What the reading of a run's log is made of: what goes in, what is known, and what comes out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from runward.api.responses.items import OutputItem, Tokens
from runward.domain.json import JsonObject, compact

CALL_ENDINGS: Final[Mapping[str, bool]] = {
    "tool_call.completed": True,
    "tool_call.failed": False,
    "tool_call.timed_out": False,
    "tool_call.rejected": False,
    "tool_call.cancelled": False,
    "tool_call.outcome_unknown": False,
}
"""What ends a call, and whether it ends well."""
RUN_ENDINGS: Final[Mapping[str, tuple[str, str]]] = {
    "run.completed": ("completed", "response.completed"),
    "run.failed": ("failed", "response.failed"),
    "run.incomplete": ("incomplete", "response.incomplete"),
    "run.cancelled": ("cancelled", "response.incomplete"),
    "run.expired": ("incomplete", "response.incomplete"),
}
"""How a run ends, and with it the response: its status, and its last event."""


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
        """As server-sent events have it."""
        whole = {"type": self.type, "sequence_number": self.number, **self.data}
        return f"event: {self.type}\ndata: {compact(whole)}\n\n"


@dataclass(slots=True)
class CallState:
    """`number`: of the event that made it. `index`: of its item, while that is open here."""

    number: int
    tool: str
    client: bool
    arguments: str
    approval_id: str | None = None
    index: int | None = None


@dataclass(slots=True)
class OpenMessage:
    """A message that is shown while the model writes it. `text`: what was shown, where this
    reader knows it; `shown`: how many characters; `part`: whether its content was opened."""

    index: int
    turn: int
    shown: int = 0
    text: str | None = ""
    part: bool = False


@dataclass(frozen=True, slots=True)
class ResponseSnapshot:
    """What of a response is known. `ended_at`: when its last event was written."""

    status: str
    output: list[OutputItem]
    usage: Tokens
    created_at: str | None
    ended_at: str | None
    error: JsonObject | None
    incomplete: JsonObject | None
    before: int
    """Where in the log the response before it begins."""
