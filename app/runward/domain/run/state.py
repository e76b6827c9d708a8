"""A run as the loop holds it while it is leased, and the changes that a step makes to it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final
from uuid import UUID

from pydantic import JsonValue

from runward.domain.events.base import AnyEvent
from runward.domain.events.kinds import RunCreatedEvent, UsageUpdatedEvent
from runward.domain.events.run_data import RunOrigin, UsageOrigin, UsageUpdatedData
from runward.domain.ids import ApprovalId, CallId, ProjectId, RunId
from runward.domain.json import JsonObject
from runward.domain.run.calls import Call, CallPhase
from runward.domain.run.config import AgentConfig, get_functions
from runward.domain.run.family import Child, ChildRun, Lineage, Member
from runward.domain.run.items import Item, Message, ToolCall
from runward.domain.run.remembered_decisions import RememberedDecision
from runward.domain.run.response import Usage
from runward.domain.run.sessions import Place

ALL_DECISIONS: Final = ("approve", "reject", "edit", "respond")
APPROVE_OR_REJECT: Final = ("approve", "reject")
"""Where a provider carries the call out: it can be allowed or not, but not be changed."""


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

    def with_agent(self, name: str) -> "RunState":
        """The run goes on as another agent, within the limits that it was started with."""
        config = self.team[name].config
        limits = {"limits": self.config.limits}
        return replace(self, agent=name, config=config.model_copy(update=limits))

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

    def put(self, call: Call) -> None:
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
    def empty(self) -> bool:
        return not self.events and self.only_events


def add_run_created(
    changes: Changes, agent: str | None, config: AgentConfig, origin: RunOrigin
) -> None:
    """Add the first event of a run."""
    models = list(config.models)
    model = models[0] if len(models) == 1 else models or None
    tools = [*config.tools, *(one.name for one in get_functions(config))]
    changes.add(RunCreatedEvent({"agent": agent, "model": model, "tools": tools, **origin}))


def add_usage(
    state: RunState, changes: Changes, usage: Usage, call_id: CallId | None = None
) -> RunState:
    """Count what a model request or, under `call_id`, a child run has used."""
    total = state.usage + usage
    origin: UsageOrigin = {} if call_id is None else {"call_id": call_id}
    data: UsageUpdatedData = {
        "turn": state.turn,
        **origin,
        "input_tokens": total.input,
        "output_tokens": total.output,
        "cached_tokens": total.cached_input,
        "reasoning_tokens": total.reasoning,
        "total_tokens": total.total,
        "cost_usd": round(total.cost, 9),
    }
    changes.add(UsageUpdatedEvent(data))
    return replace(state, usage=total)


def list_requested_calls(segment: Segment) -> tuple[ToolCall, ...]:
    """Those that the run's own model asked for. Calls among the input are somebody else's, have
    their results beside them, and are in no ledger."""
    if segment.kind is SegmentKind.INPUT:
        return ()
    return tuple(item for item in segment.items if isinstance(item, ToolCall))
