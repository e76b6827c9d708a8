"""How one attempt at a call can end, as seen by whoever executed it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TypeAlias

from pydantic import JsonValue

from runward.domain.json import JsonObject
from runward.domain.run.items import Part


class FailureKind(StrEnum):
    NOT_SENT = "not_sent"  # surely: DNS, connect, TLS, a refused address
    UNKNOWN = "unknown"  # sent, and no complete answer
    TIMEOUT = "timeout"  # sent or not, our clock ran out
    UNAVAILABLE = "unavailable"  # answered 408, 425, 429, 502, 503 or 504
    ERROR = "error"  # answered with another error status, or is_error
    INVALID_RESPONSE = "invalid_response"  # answered 2xx with what cannot be a result
    GUARDRAIL = "guardrail"  # a guardrail rejected it; `message` says so to the model
    WITHHELD = "withheld"  # it was sent, and a guardrail rejected its result


@dataclass(frozen=True, slots=True)
class Done:
    """`parts` are the text, image and file parts of a result that had a `content` array.
    `state` is what the tool changed of the session's state, null for what it removed;
    `transfer_to` an agent that takes the run over; `escalate` ends the agent after this turn."""

    output: JsonValue
    parts: tuple[Part, ...] = ()
    metadata: JsonObject | None = None
    state: JsonObject | None = None
    transfer_to: str | None = None
    escalate: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """`message`, where the tool itself sent one meant for the model; `detail` is for operators
    (no secrets); `status` the HTTP status; `retry_after` in seconds."""

    why: FailureKind
    detail: str
    message: str | None = None
    status: int | None = None
    retry_after: float | None = None
    permanent: bool = False
    """Trying again cannot help, e.g. an address that may not be reached."""
    fails_run: bool = False
    """A guardrail said that the run must fail."""


@dataclass(frozen=True, slots=True)
class Waits:
    """The tool answers later: through its callback, when the child run that is to be started has
    ended, or when the client has run it."""

    on: Literal["callback", "child", "client"] = "callback"


Outcome: TypeAlias = Done | Failed | Waits


@dataclass(frozen=True, slots=True)
class InputRequest:
    """What a tool asked the caller, for the `number`th time, and what it wants to be given back
    beside the answer. `responses`: the answer, once it is there. `attempt`: the one that asked."""

    number: int
    attempt: int
    requests: JsonValue
    state: JsonValue
    answered: bool = False
    responses: JsonValue = None

    @property
    def input(self) -> JsonObject:
        """What the tool is sent."""
        return {"responses": self.responses, "state": self.state}
