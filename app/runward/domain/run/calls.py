"""A tool call in the ledger: where it is, and how it ended."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from uuid import UUID

from pydantic import JsonValue

from runward.domain.events.base import NewEvent
from runward.domain.events.call_data import CallEndedData
from runward.domain.events.kinds import (
    ToolCallCancelledEvent,
    ToolCallCompletedEvent,
    ToolCallFailedEvent,
    ToolCallOutcomeUnknownEvent,
    ToolCallRejectedEvent,
    ToolCallTimedOutEvent,
)
from runward.domain.events.values import Reason
from runward.domain.ids import ApprovalId, CallId, RunId
from runward.domain.json import JsonObject, compute_digest
from runward.domain.run.items import Part


class CallPhase(StrEnum):
    AWAITING_APPROVAL = "awaiting_approval"
    READY = "ready"  # may start now
    STARTED = "started"  # sent, or about to be, under the fence that the call bears
    AWAITING_CALLBACK = "awaiting_callback"  # the tool said 202
    AWAITING_RESULT = "awaiting_result"  # the client runs it
    AWAITING_INPUT = "awaiting_input"  # the tool asks the caller, and is then sent it again
    AWAITING_CHILD = "awaiting_child"  # a child run works on it, or waits for someone itself
    AWAITING_RESOLUTION = "awaiting_resolution"  # outcome unknown; a person settles it
    SETTLED = "settled"  # has a result that the model can read


WAITING: Final = frozenset(
    {
        CallPhase.AWAITING_APPROVAL,
        CallPhase.AWAITING_CALLBACK,
        CallPhase.AWAITING_RESULT,
        CallPhase.AWAITING_INPUT,
        CallPhase.AWAITING_CHILD,
        CallPhase.AWAITING_RESOLUTION,
    }
)


CLIENT_PHASES: Final = frozenset({CallPhase.AWAITING_RESULT, CallPhase.AWAITING_INPUT})
"""The call waits for the client of the run."""
ACTION_PHASES: Final = CLIENT_PHASES | {CallPhase.AWAITING_RESOLUTION}
"""The call is a required action of its own, without an approval."""


class CallOutcome(StrEnum):
    """How a settled call ended. `tool_call.*` events and the ledger say the same word."""

    COMPLETED = "completed"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    REJECTED = "rejected"
    OUTCOME_UNKNOWN = "outcome_unknown"
    CANCELLED = "cancelled"


CALL_ENDINGS: Final[Mapping[CallOutcome, type[NewEvent[CallEndedData]]]] = {
    CallOutcome.COMPLETED: ToolCallCompletedEvent,
    CallOutcome.FAILED: ToolCallFailedEvent,
    CallOutcome.TIMED_OUT: ToolCallTimedOutEvent,
    CallOutcome.REJECTED: ToolCallRejectedEvent,
    CallOutcome.OUTCOME_UNKNOWN: ToolCallOutcomeUnknownEvent,
    CallOutcome.CANCELLED: ToolCallCancelledEvent,
}
"""The last event of a call, by its outcome."""


@dataclass(frozen=True, slots=True)
class Result:
    """What the model reads (`output`, cut to the tool's limit) and what it does not: the
    `full` output where it was cut, `detail` for operators, `metadata` for the caller."""

    outcome: CallOutcome
    output: JsonValue
    reason: Reason | None = None
    parts: tuple[Part, ...] = ()
    full: JsonValue = None
    detail: str | None = None
    metadata: JsonObject | None = None
    fails_run: bool = False
    transfer_to: str | None = None
    escalate: bool = False

    @property
    def is_error(self) -> bool:
        return self.outcome is not CallOutcome.COMPLETED

    @property
    def whole(self) -> JsonValue:
        """The output as it was before it was cut for a model."""
        return self.output if self.full is None else self.full


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


@dataclass(frozen=True, slots=True)
class Call:
    """One row of the ledger. `fence` is the claim's under which it was started last; `version`
    is None for a tool that does not exist. `original` keeps the model's arguments where a
    person changed them, `raw` its text where that was no JSON object."""

    id: CallId
    uuid: UUID
    turn: int
    position: int
    tool: str
    version: int | None
    arguments: JsonObject
    digest: str
    phase: CallPhase
    attempt: int = 0
    fence: int = 0
    approval_id: ApprovalId | None = None
    approved_digest: str | None = None
    original: JsonObject | None = None
    raw: str | None = None
    timeout_seconds: float | None = None
    result: Result | None = None
    child: RunId | None = None
    """The run that was started for it."""
    received: JsonObject | None = None
    """The answer of its callback or of the client, which guardrails or hooks may not have seen
    yet."""
    exchange: InputRequest | None = None
    """What its tool asked the caller last."""

    @property
    def requested_arguments(self) -> JsonObject:
        """The arguments as the model gave them."""
        return self.arguments if self.original is None else self.original

    @property
    def recent_attempts(self) -> int:
        """Attempts since the tool has last said anything."""
        return self.attempt - (self.exchange.attempt if self.exchange else 0)


def compute_call_digest(
    tool: str, version: int | None, url: str | None, arguments: JsonObject
) -> str:
    """What an approval binds to: the tool, its version, its target and the exact arguments."""
    return compute_digest({"tool": tool, "version": version, "url": url, "arguments": arguments})
