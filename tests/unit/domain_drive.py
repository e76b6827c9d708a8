"""Drives a whole run without any IO, as the loop and the API would, by what a source of choices
says; and keeps what happened, so that a test can say what must hold of it."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from runward.domain.events.base import AnyEvent
from runward.domain.events.values import CallReason
from runward.domain.ids import CallId, RunId
from runward.domain.run.approvals import decide, expire
from runward.domain.run.child_runs import start_children
from runward.domain.run.conversation import build_conversation
from runward.domain.run.decide import (
    Action,
    AskModel,
    Finish,
    HandOver,
    Park,
    RunTools,
    Wait,
    next_action,
)
from runward.domain.run.decisions import (
    ApproveDecision,
    Decision,
    EditDecision,
    RejectDecision,
    RememberOptions,
    RespondDecision,
)
from runward.domain.run.failures import classify_timeout
from runward.domain.run.family import Child, ChildRun
from runward.domain.run.items import Message
from runward.domain.run.open_calls import close_open_calls, recover
from runward.domain.run.outcomes import Done, Failed, FailureKind, Outcome, Waits
from runward.domain.run.parsed_calls import Turn
from runward.domain.run.plan import UnusableResponseError
from runward.domain.run.recheck import recheck
from runward.domain.run.remembered_decisions import remember_decision
from runward.domain.run.resolve import (
    CallbackCompleted,
    CallbackFailed,
    CompletedResolution,
    FailedResolution,
    RetryResolution,
    apply_callback,
    apply_resolution,
)
from runward.domain.run.response import ModelResponse, RequestedCall, Usage
from runward.domain.run.settle import (
    StartChild,
    TryAgain,
    classify_outcome,
    conclude,
    put_back,
    start,
)
from runward.domain.run.state import Call, CallPhase, Changes, RunState, Segment, SegmentKind
from runward.domain.run.status import RUN_ENDINGS, RunStatus
from runward.domain.run.team import (
    add_child_usage,
    build_child_input,
    build_handoff_tools,
    hand_over,
    merge_state,
    read_child_outcome,
)
from runward.domain.run.tools import CompiledTool, make_request_key
from runward.domain.schema.validator import Validator
from tests.unit.domain_cases import AGENT, Mint, child, member, take_response, tool

Choose: TypeAlias = Callable[[Sequence[Any]], Any]

MAX_MISHAPS: Final = 12
"""Of lost workers, changed tools and the like in one run: each may repeat work."""
HELPER: Final = member("Helps.", handoffs=[AGENT])
SCHEMA: Final = Validator({"type": "object"}, at="output")

OUTCOMES: Final[Sequence[Outcome]] = (
    *[Done("ok"), Done({"a": 1})] * 3,
    Done("ok", state={"a": 1, "b": None}),
    Done("ok", state={"a": None, "b": 2}, transfer_to="helper"),
    Done("ok", escalate=True),
    *[Waits()] * 2,
    *(
        Failed(why, "detail", status=503 if why is FailureKind.UNAVAILABLE else None)
        for why in FailureKind
    ),
)
DECISIONS: Final[Sequence[Decision | None]] = (
    ApproveDecision(decision="approve"),
    ApproveDecision(decision="approve", remember=RememberOptions(scope="run")),
    ApproveDecision(
        decision="approve", remember=RememberOptions(scope="run", exact_arguments=True)
    ),
    RejectDecision(decision="reject"),
    RejectDecision(decision="reject", message="No.", remember=RememberOptions(scope="run")),
    EditDecision(decision="edit", arguments={"n": 9}),
    RespondDecision(decision="respond", output="By hand."),
    None,
)
"""None: nobody answers."""
FROM_CHILDREN: Final[Sequence[Outcome]] = (
    *[Waits(on="child")] * 6,
    Failed(FailureKind.ERROR, "Too deep.", message="Too deep.", permanent=True),
)
CHILDREN: Final[Sequence[Child]] = (
    *[child(output="Helped.", usage=Usage(20, 2))] * 3,
    child(output="Enough.", escalated=True),
    child(RunStatus.INCOMPLETE, usage=Usage(20, 2)),
    child(RunStatus.FAILED, error={"message": "No."}),
    child(RunStatus.CANCELLED),
)


def registered() -> dict[str, CompiledTool]:
    gated: dict[str, Any] = {"approval": "always"}
    return {
        "read": tool("read", idempotent=True),
        "write": tool("write", concurrency={"serial": True}),
        "pay": tool("pay", **gated),
        "ask": tool("ask", on_unknown="ask", approval={"when": "args.n > 1"}),
        "consult": tool("consult", type="agent", agent="helper", url=None),
        "fragile": tool("fragile", on_timeout="fail_run", concurrency={"limit": 1}),
    }


@dataclass
class Drive:
    """`choose` picks one of the given."""

    run: RunState
    choose: Choose
    tools: dict[str, CompiledTool] = field(default_factory=registered)
    schema: Validator | None = None
    mint: Mint = field(default_factory=Mint)
    log: list[AnyEvent] = field(default_factory=list[AnyEvent])
    asked: int = 0
    deliveries: Counter[CallId] = field(default_factory=Counter[CallId])
    """Attempts that may have reached the tool, since somebody said that they had not."""
    mishaps: int = 0
    overdue: bool = False
    shown: list[tuple[Segment, ...]] = field(default_factory=list[tuple[Segment, ...]])
    """What the model had been shown of the conversation, for each response."""
    used: Usage = field(default_factory=Usage)
    children: int = 0
    finish: Finish | None = None

    def step(self) -> None:
        self._perhaps(self._disturb)
        action = next_action(self.run, overdue=self.overdue, caps=self._caps(), schema=self.schema)
        self._do(action)

    def _do(self, action: Action) -> None:
        match action:
            case AskModel() as ask:
                self._ask(ask)
            case HandOver(agent=agent):
                assert not self.run.open_calls
                changes = Changes()
                self._commit(hand_over(self.run, changes, agent), changes)
            case RunTools(start=ids):
                assert ids, "nothing starts"
                self._run_tools(ids)
            case Wait():
                self._return(self.choose(self._flying()))
            case Park(waiting=waiting):
                self._act_outside(self.run.calls[self.choose(waiting)])
            case Finish() as finish:
                self._end(finish)
            case other:
                raise AssertionError(other)

    def _caps(self) -> Mapping[str, Any]:
        return {name: one.spec.concurrency for name, one in self.tools.items()}

    def _perhaps(self, happen: Callable[[], None]) -> None:
        if self.mishaps < MAX_MISHAPS and self.choose([False, False, False, True]):
            self.mishaps += 1
            happen()

    def _disturb(self) -> None:
        match self.choose([*["lost", "changed", "said"] * 4, "late", "cancel"]):
            case "lost":
                changes = Changes()
                run = replace(self.run, fence=self.run.fence + 1)
                self._commit(recover(run, changes, lambda one: self.tools[one.tool]), changes)
            case "changed":
                name = self.choose(list(self.tools))
                old = self.tools[name]
                fields = old.spec.model_dump(exclude={"name"})
                self.tools[name] = tool(name, old.version + 1, **fields)
            case "said":
                self._hear("By the way.")
            case "late":
                self.overdue = True
            case _:
                self.run = replace(self.run, cancel_after_turn=True)

    def _commit(self, after: RunState, changes: Changes) -> None:
        """What is written is what is held; a row is new once, and settled once."""
        for call_id, one in (changes.inserted | changes.updated).items():
            before = self.run.calls.get(call_id)
            assert (call_id in changes.inserted) == (before is None)
            assert before is None or before.phase is not CallPhase.SETTLED
            assert after.calls[call_id] == one
        untouched = self.run.calls.keys() - changes.updated.keys()
        assert all(after.calls[one] == self.run.calls[one] for one in untouched)
        assert list(after.calls)[: len(self.run.calls)] == list(self.run.calls)
        self.log += changes.events
        self.run = after

    def _hear(self, text: str) -> None:
        """Somebody sends another message."""
        more = Segment(SegmentKind.INPUT, self.run.turn, None, (Message("user", text),))
        self.run = replace(self.run, segments=(*self.run.segments, more))

    # The model.

    def _ask(self, ask: AskModel) -> None:
        assert not self.run.open_calls
        build_conversation(self.run)
        self.asked += 1
        if ask.repair:
            repair = Segment(SegmentKind.REPAIR, self.run.turn, None, (Message("user", "Again."),))
            self.run = replace(self.run, segments=(*self.run.segments, repair))
        shown = self.run.segments
        if self.choose([False, False, False, True]):
            self._hear("Wait!")
        made = {**self.tools, **build_handoff_tools(self.run.config, self.run.team)}
        answered = {make_request_key("ask", {"n": n}): n > 1 for n in range(10)}
        usable = {} if ask.tools_off else made
        turn = Turn(usable, self.mint, segments_before=len(shown))
        try:
            after, changes = take_response(self.run, self._response(list(made)), turn, answered)
        except UnusableResponseError as error:
            self._end(Finish(RunStatus.FAILED, code=error.code, message=error.message))
            return
        self.shown.append(shown)
        self.used += Usage(10, 1)
        self._commit(after, changes)

    def _response(self, names: list[str]) -> ModelResponse:
        calls = [self._wanted(i, names) for i in range(self.choose([0, 1, 2, 2, 3, 3, 5]))]
        text = self.choose(["", "Done.", "{}"])
        return ModelResponse.of(text, tuple(calls), usage=Usage(10, 1))

    def _wanted(self, position: int, names: list[str]) -> RequestedCall:
        fresh = f"t{self.run.turn}p{position}"
        known = list(self.run.calls) or [fresh]
        id_ = self.choose([*[fresh] * 20, "", known[0]])
        name = self.choose([*names * 3, "nope"])
        numbers = () if name.startswith("transfer_to_") else range(8)
        arguments = self.choose(["{}", *(f'{{"n": {n}}}' for n in numbers), "{"])
        return RequestedCall(id_, name, arguments, self.choose([False] * 30 + [True]))

    # The tools.

    def _run_tools(self, ids: tuple[CallId, ...]) -> None:
        for call_id in ids:
            changes = Changes()
            one = self.run.calls[call_id]
            self._commit(recheck(self.run, changes, one, self.tools, self.mint), changes)
        for call_id in ids:
            if self.run.calls[call_id].phase is CallPhase.READY:
                self._start(self.run.calls[call_id])

    def _flying(self) -> list[Call]:
        flying = [one for one in self.run.turn_calls if one.phase is CallPhase.STARTED]
        assert flying, "nothing is in flight"
        return flying

    def _start(self, one: Call) -> None:
        changes = Changes()
        after, _ = start(self.run, changes, one, seconds=30)
        self._commit(after, changes)
        self.deliveries[one.id] += one.tool != "consult"

    def _return(self, one: Call) -> None:
        outcome: Outcome = self.choose(FROM_CHILDREN if one.tool == "consult" else OUTCOMES)
        if isinstance(outcome, Failed) and outcome.reason is FailureKind.NOT_SENT:
            self.deliveries[one.id] -= 1
        changes, run = Changes(), self.run
        verdict = classify_outcome(self.tools[one.tool], one, outcome, seconds_left=9, jitter=0.5)
        if isinstance(verdict, StartChild):
            self._start_child(one)
            return
        if isinstance(outcome, Done) and outcome.state:
            run = merge_state(run, changes, one, outcome.state)
        if isinstance(verdict, TryAgain):
            self._commit(put_back(run, changes, one), changes)
            return
        self._commit(conclude(run, changes, one, verdict), changes)

    # Child runs.

    def _start_child(self, one: Call) -> None:
        changes = Changes()
        asked = build_child_input(one.arguments)
        new = ChildRun(RunId(self.mint()), one.id, "helper", HELPER, {}, asked, None, None)
        self._commit(start_children(self.run, changes, one, [new]), changes)
        self.deliveries[one.id] += 1

    def _end_child(self, one: Call) -> None:
        changes = Changes()
        ended: Child = self.choose(CHILDREN)
        self.children += 1
        self.used += ended.usage
        spec = self.tools[one.tool]
        verdict = classify_outcome(
            spec, one, read_child_outcome(spec, ended), seconds_left=0, jitter=0
        )
        run = add_child_usage(self.run, changes, one, ended)
        self._commit(conclude(run, changes, one, verdict), changes)

    # People and callbacks.

    def _act_outside(self, one: Call) -> None:
        match one.phase:
            case CallPhase.AWAITING_APPROVAL:
                self._decide(one)
            case CallPhase.AWAITING_CALLBACK:
                self._call_back(one)
            case CallPhase.AWAITING_CHILD:
                self._end_child(one)
            case _:
                self._resolve(one)

    def _decide(self, one: Call) -> None:
        changes = Changes()
        decision: Decision | None = self.choose(DECISIONS)
        if decision is None:
            self._commit(expire(self.run, changes, one), changes)
            return
        after, _ = decide(self.run, changes, one, self.tools[one.tool], decision, "key_1")
        if isinstance(decision, ApproveDecision | RejectDecision) and decision.remember is not None:
            memory = remember_decision(decision, one, self.run.agent)
            after = replace(after, remembered=(*after.remembered, memory))
        self._commit(after, changes)

    def _call_back(self, one: Call) -> None:
        changes = Changes()
        spec = self.tools[one.tool]
        said = self.choose(
            [
                CallbackCompleted(status="completed", output=1),
                CallbackFailed(status="failed", message=""),
                None,
            ]
        )
        if said is not None:
            after = apply_callback(self.run, changes, one, spec, said)
        else:
            verdict = classify_timeout(
                spec.spec, one, "The callback did not arrive before the timeout."
            )
            after = conclude(self.run, changes, one, verdict)
        self._commit(after, changes)

    def _resolve(self, one: Call) -> None:
        changes = Changes()
        how = self.choose(
            [
                CompletedResolution(resolution="completed", output=1),
                FailedResolution(resolution="failed", message="No."),
                *([RetryResolution(resolution="retry")] if self.mishaps < MAX_MISHAPS else []),
            ]
        )
        if isinstance(how, RetryResolution):
            self.mishaps += 1
            self.deliveries[one.id] = 0
        after = apply_resolution(self.run, changes, one, self.tools[one.tool], how)
        self._commit(after, changes)

    def _end(self, finish: Finish) -> None:
        changes = Changes()
        cancelled = finish.status is RunStatus.CANCELLED
        assert not (cancelled and self.run.open_children)
        reason = CallReason.RUN_CANCELLED if cancelled else CallReason.RUN_ENDED
        self._commit(close_open_calls(self.run, changes, reason), changes)
        self.log.append(RUN_ENDINGS[finish.status]({}))
        self.finish = finish
