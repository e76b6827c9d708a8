"""What the reading of a run's log is made of: the id of a response, what goes in, what is known,
and what comes out."""

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
    """`after`: the number of the event with which the run waited for the client; 0: the response
    begins with the run."""

    run_id: RunId
    after: int = 0

    def __str__(self) -> str:
        return f"resp_{self.run_id.hex}{f'_{self.after}' if self.after else ''}"

    @classmethod
    def parse(cls, shown: str) -> "ResponseId | None":
        """None: that is no response's id, which is answered like an unknown one."""
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
    output: list[JsonItem]
    usage: Tokens
    created_at: str | None
    ended_at: str | None
    error: JsonObject | None
    incomplete: JsonObject | None
    before: int
    """Where in the log the response before it begins."""
