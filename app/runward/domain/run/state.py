"""A leased run in memory: its calls, its conversation, and the changes of a step."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final
from uuid import UUID

from pydantic import JsonValue

from runward.domain.events.base import AnyEvent
from runward.domain.events.values import CallReason
from runward.domain.ids import ApprovalId, CallId, ProjectId, RunId
from runward.domain.immutable import immutable
from runward.domain.json import JsonObject, compute_digest
from runward.domain.run.budgets import BudgetChange
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
    STARTED = "started"  # sent, or about to be sent, under the call's `fence`
    AWAITING_CALLBACK = "awaiting_callback"  # the tool returned 202
    AWAITING_RESULT = "awaiting_result"  # the client runs the tool
    # the tool requests input from the client; the call is then sent again
    AWAITING_INPUT = "awaiting_input"
    AWAITING_CHILD = "awaiting_child"  # a child run executes the call
    AWAITING_RESOLUTION = "awaiting_resolution"  # the outcome is unknown; a person must record it
    SETTLED = "settled"  # the call has a result that the model can read


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
"""Phases in which the call waits for the client of the run."""
ACTION_PHASES: Final = CLIENT_PHASES | {CallPhase.AWAITING_RESOLUTION}
"""Phases in which the call is a required action without an approval."""


class CallOutcome(StrEnum):
    """How a tool call ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    REJECTED = "rejected"
    OUTCOME_UNKNOWN = "outcome_unknown"
    CANCELLED = "cancelled"


@immutable
class Result:
    """The result of a call. The model reads `output`, truncated to the tool's limit. `full`: the
    complete output if it was truncated. `detail` is for operators, and `metadata` is for the
    client."""

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
        """Return the output before it was truncated for a model."""
        return self.output if self.full is None else self.full


@immutable
class Call:
    """One row of the tool-call log. `fence`: the fence of the claim under which it was last
    started. `version`: None for a tool that does not exist. `original`: the model's arguments if an
    approver edited them. `raw`: the model's text if it is not a JSON object."""

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
    child_run_id: RunId | None = None
    """The child run that executes the call. If the call's function requested several at once, the
    first of them."""
    received: JsonObject | None = None
    """The result from a callback or the client. Guardrails or hooks may not have checked it yet."""
    exchange: InputRequest | None = None
    """The last input request of the tool."""

    @property
    def requested_arguments(self) -> JsonObject:
        """Return the arguments that the model requested, before an approver edited them."""
        return self.arguments if self.original is None else self.original

    @property
    def recent_attempts(self) -> int:
        """Return the number of attempts since the tool's last request for input."""
        return self.attempt - (self.exchange.attempt if self.exchange else 0)


def compute_call_digest(
    tool: str,
    version: int | None,
    url: str | None,
    arguments: JsonObject,
    definition: str | None = None,
) -> str:
    """Return the digest to which an approval is bound. It covers the tool, its version, its target
    and the exact arguments. `definition`: the digest of an inline tool, which the digest covers
    too."""
    covered: JsonObject = {"tool": tool, "version": version, "url": url, "arguments": arguments}
    return compute_digest(covered if definition is None else covered | {"definition": definition})


class SegmentKind(StrEnum):
    INPUT = "input"  # from the client
    REPAIR = "repair"  # from the loop: the problem of the model's output
    RESPONSE = "response"  # from the model


@immutable
class Segment:
    """Items that were added to the conversation together. The results of a response's calls are not
    included. They are inserted from the tool-call log, directly after the response."""

    kind: SegmentKind
    turn: int
    agent: str | None
    items: tuple[Item, ...]
    segments_before: int | None = None
    """For a response: how many segments the model had read. Input that arrived during the request
    follows the response, because the model had not read it."""


@immutable
class RunState:
    project_id: ProjectId
    id: RunId
    agent: str | None
    config: AgentConfig
    context: JsonObject | None = None
    fence: int = 0
    version: int = 0
    tool_versions: Mapping[str, int] = field(default_factory=dict[str, int])
    """Tool name -> the lowest version that this run may use: the version when the run was
    accepted."""
    last_seq: int = 0
    """The number of the run's last event when it was loaded."""
    turn: int = 0
    usage: Usage = field(default_factory=Usage)
    segments: tuple[Segment, ...] = ()
    calls: Mapping[CallId, Call] = field(default_factory=dict[CallId, Call])
    remembered: tuple[RememberedDecision, ...] = ()
    team: Mapping[str, Member] = field(default_factory=dict[str, Member])
    """All agents to which the run can be handed over, by name."""
    created_by: UUID | None = None
    lineage: Lineage | None = None
    children: Mapping[RunId, Child] = field(default_factory=dict[RunId, Child])
    """The child runs of the calls that wait for child runs."""
    place: Place | None = None
    history: tuple[tuple[Item, ...], ...] = ()
    """The items of the session's earlier runs, oldest run first."""
    shared_state: JsonObject = field(default_factory=dict[str, JsonValue])
    """The state of the session. If the run has no session, its own state."""
    cancel_after_turn: bool = False
    seconds_left: float | None = None
    """Number of seconds until the run's deadline, when the run was loaded."""
    stored_bytes: int = 0
    """Size in bytes of the run's items and calls as JSON, for
    `runward.domain.run.bounds.MAX_RUN_BYTES`."""

    @property
    def last_response(self) -> Segment | None:
        responses = (one for one in reversed(self.segments) if one.kind is SegmentKind.RESPONSE)
        return next(responses, None)

    @property
    def open_children(self) -> tuple[Call, ...]:
        return tuple(c for c in self.calls.values() if c.phase is CallPhase.AWAITING_CHILD)

    @property
    def turn_calls(self) -> tuple[Call, ...]:
        """Return the calls of the current turn, in the model's order."""
        return tuple(call for call in self.calls.values() if call.turn == self.turn)

    @property
    def last_text(self) -> str:
        """Return the text of the last response, or an empty string without a response."""
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
"""For calls that a provider runs: a person can approve or reject them, but not edit them."""


@immutable
class ApprovalRequest:
    """A request for an approval of one call. Seconds count from the commit."""

    id: ApprovalId
    call: Call
    agent: str | None
    url: str | None
    expires_seconds: float
    allowed_decisions: tuple[str, ...] = ALL_DECISIONS


@dataclass(slots=True)
class Changes:
    """The changes of a run that the next commit writes. Calls are complete rows: rows in `inserted`
    are new, and rows in `updated` exist. Only the last state of each call is written."""

    events: list[AnyEvent] = field(default_factory=list[AnyEvent])
    segments: list[Segment] = field(default_factory=list[Segment])
    inserted: dict[CallId, Call] = field(default_factory=dict[CallId, Call])
    updated: dict[CallId, Call] = field(default_factory=dict[CallId, Call])
    approvals: list[ApprovalRequest] = field(default_factory=list[ApprovalRequest])
    closed_approvals: dict[ApprovalId, str] = field(default_factory=dict[ApprovalId, str])
    children: list[ChildRun] = field(default_factory=list[ChildRun])
    shared_state: JsonObject = field(default_factory=dict[str, JsonValue])
    """The changes that calls made to the shared state. Null for removed keys."""
    budget: BudgetChange | None = None
    """The cost of a model request whose estimate was reserved, or the budget that the run waits
    for."""
    progress: bool = False
    """Whether the changes include a response or a result, which proves that the run is not in a
    crash loop."""

    def put_call(self, call: Call) -> None:
        """Store a new state of a call. Its row either exists or is inserted in this step."""
        rows = self.inserted if call.id in self.inserted else self.updated
        rows[call.id] = call

    def add(self, event: AnyEvent) -> None:
        self.events.append(event)

    def copy(self) -> "Changes":
        """Return a copy for a step that may be rejected. Changes of the copy do not affect the
        original."""
        return Changes(
            list(self.events),
            list(self.segments),
            dict(self.inserted),
            dict(self.updated),
            list(self.approvals),
            dict(self.closed_approvals),
            list(self.children),
            dict(self.shared_state),
            self.budget,
            self.progress,
        )

    @property
    def only_events(self) -> bool:
        """Return whether there are no changes other than events."""
        rows = self.segments or self.inserted or self.updated or self.children
        return not (rows or self.approvals or self.closed_approvals or self.shared_state)

    @property
    def is_empty(self) -> bool:
        return not self.events and self.only_events and self.budget is None


def list_requested_calls(segment: Segment) -> tuple[ToolCall, ...]:
    """Return the calls that the run's own model requested. Calls in the run's input are excluded:
    they were executed elsewhere, have results, and are not in the tool-call log."""
    if segment.kind is SegmentKind.INPUT:
        return ()
    return tuple(item for item in segment.items if isinstance(item, ToolCall))
