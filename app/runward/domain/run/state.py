"""A run as the loop holds it while it is leased: its calls, its conversation, and the changes that
a step makes to it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final
from uuid import UUID

from pydantic import JsonValue

from runward.domain.events.base import AnyEvent
from runward.domain.events.values import CallReason
from runward.domain.ids import ApprovalId, CallId, ProjectId, RunId
from runward.domain.json import JsonObject, compute_digest
from runward.domain.run.config import AgentConfig
from runward.domain.run.decisions import RememberedDecision
from runward.domain.run.family import Child, ChildRun, Lineage, Member
from runward.domain.run.items import Item, Message, Part, ToolCall
from runward.domain.run.outcomes import InputRequest
from runward.domain.run.response import Usage
from runward.domain.run.sessions import Place


class CallPhase(StrEnum):
    """Phase of a tool call. `awaiting_approval`: a person must decide. `ready`: the call can start.
    `started`: the call is being sent. `awaiting_callback`: the tool returned 202 and will submit
    the result. `awaiting_result`: the client must submit the result. `awaiting_input`: the client
    must submit input that the tool requests. `awaiting_child`: a child run executes the call.
    `awaiting_resolution`: the outcome is unknown, and a person must record it. `settled`: the call
    has a result."""

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
    """How a tool call ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    REJECTED = "rejected"
    OUTCOME_UNKNOWN = "outcome_unknown"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Result:
    """What the model reads (`output`, cut to the tool's limit) and what it does not: the
    `full` output where it was cut, `detail` for operators, `metadata` for the caller."""

    outcome: CallOutcome
    output: JsonValue
    reason: CallReason | None = None
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


class SegmentKind(StrEnum):
    INPUT = "input"  # from the caller
    REPAIR = "repair"  # from the loop: what was wrong with the model's answer
    RESPONSE = "response"  # from the model


@dataclass(frozen=True, slots=True)
class Segment:
    """Items that entered the conversation together. The results of a response's calls are not
    among them: they are joined in from the ledger, directly after it."""

    kind: SegmentKind
    turn: int
    agent: str | None
    items: tuple[Item, ...]
    segments_before: int | None = None
    """Of a response: how many segments the model had been shown. What came in meanwhile stands
    after it, since it did not know of it."""


@dataclass(frozen=True, slots=True)
class RunState:
    project_id: ProjectId
    id: RunId
    agent: str | None
    config: AgentConfig
    context: JsonObject | None = None
    fence: int = 0
    version: int = 0
    pinned: Mapping[str, int] = field(default_factory=dict[str, int])
    """Tool name -> the lowest version this run may use: the current one when it was accepted."""
    last_seq: int = 0
    """The number of the last event, when it was loaded."""
    turn: int = 0
    usage: Usage = field(default_factory=Usage)
    segments: tuple[Segment, ...] = ()
    calls: Mapping[CallId, Call] = field(default_factory=dict[CallId, Call])
    remembered: tuple[RememberedDecision, ...] = ()
    team: Mapping[str, Member] = field(default_factory=dict[str, Member])
    """Everyone that the run may be handed over to, by name."""
    created_by: UUID | None = None
    lineage: Lineage | None = None
    children: Mapping[CallId, Child] = field(default_factory=dict[CallId, Child])
    place: Place | None = None
    history: tuple[tuple[Item, ...], ...] = ()
    """What the session's earlier runs left, the oldest first."""
    shared: JsonObject = field(default_factory=dict[str, JsonValue])
    """The state of the session, or of the run where it has none."""
    cancel_after_turn: bool = False
    seconds_left: float | None = None
    """Until the run's deadline, when it was loaded."""
    stored_bytes: int = 0
    """Of the run's items and calls as JSON, for `runward.domain.run.bounds.MAX_RUN_BYTES`."""

    @property
    def last_response(self) -> Segment | None:
        responses = (one for one in reversed(self.segments) if one.kind is SegmentKind.RESPONSE)
        return next(responses, None)

    @property
    def open_children(self) -> tuple[Call, ...]:
        return tuple(c for c in self.calls.values() if c.phase is CallPhase.AWAITING_CHILD)

    @property
    def turn_calls(self) -> tuple[Call, ...]:
        """The calls of the last response, in the model's order."""
        return tuple(call for call in self.calls.values() if call.turn == self.turn)

    @property
    def last_text(self) -> str:
        """The text of the last response, empty if it had none."""
        texts = [
            item.content
            for item in (self.last_response.items if self.last_response else ())
            if isinstance(item, Message) and isinstance(item.content, str)
        ]
        return "".join(texts)

    def with_call(self, call: Call) -> "RunState":
        return replace(self, calls={**self.calls, call.id: call})

    @property
    def open_calls(self) -> tuple[Call, ...]:
        return tuple(c for c in self.calls.values() if c.phase is not CallPhase.SETTLED)


ALL_DECISIONS: Final = ("approve", "reject", "edit", "respond")
APPROVE_OR_REJECT: Final = ("approve", "reject")
"""Where a provider carries the call out: it can be allowed or not, but not be changed."""


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A person is asked about one call. Seconds count from the commit."""

    id: ApprovalId
    call: Call
    agent: str | None
    url: str | None
    expires_seconds: float
    allowed_decisions: tuple[str, ...] = ALL_DECISIONS


@dataclass(slots=True)
class Changes:
    """What is to be written about a run, collected until the next commit. The calls are whole
    rows: `inserted` are new, `updated` were there; the last state of each counts."""

    events: list[AnyEvent] = field(default_factory=list[AnyEvent])
    segments: list[Segment] = field(default_factory=list[Segment])
    inserted: dict[CallId, Call] = field(default_factory=dict[CallId, Call])
    updated: dict[CallId, Call] = field(default_factory=dict[CallId, Call])
    approvals: list[ApprovalRequest] = field(default_factory=list[ApprovalRequest])
    closed_approvals: dict[ApprovalId, str] = field(default_factory=dict[ApprovalId, str])
    children: list[ChildRun] = field(default_factory=list[ChildRun])
    shared_state: JsonObject = field(default_factory=dict[str, JsonValue])
    """What calls changed of the shared state; null for what they removed."""
    progress: bool = False
    """A response or a result: the run is not stuck in a crash loop."""

    def put_call(self, call: Call) -> None:
        """A new state of a call, whether its row exists already or is inserted with this step."""
        rows = self.inserted if call.id in self.inserted else self.updated
        rows[call.id] = call

    def add(self, event: AnyEvent) -> None:
        self.events.append(event)

    def copy(self) -> "Changes":
        """For a step that may be refused: what it adds is not in the original."""
        return Changes(
            list(self.events),
            list(self.segments),
            dict(self.inserted),
            dict(self.updated),
            list(self.approvals),
            dict(self.closed_approvals),
            list(self.children),
            dict(self.shared_state),
            self.progress,
        )

    @property
    def only_events(self) -> bool:
        """Nothing, or nothing but what the log is to say."""
        rows = self.segments or self.inserted or self.updated or self.children
        return not (rows or self.approvals or self.closed_approvals or self.shared_state)

    @property
    def is_empty(self) -> bool:
        return not self.events and self.only_events


def list_requested_calls(segment: Segment) -> tuple[ToolCall, ...]:
    """Those that the run's own model asked for. Calls among the input are somebody else's, have
    their results beside them, and are in no ledger."""
    if segment.kind is SegmentKind.INPUT:
        return ()
    return tuple(item for item in segment.items if isinstance(item, ToolCall))
