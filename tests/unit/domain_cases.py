"""What the tests of the domain build runs, tools and calls with."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Final
from uuid import UUID

from runward.domain.events.values import CallReason
from runward.domain.ids import ApprovalId, CallId, ProjectId, RunId
from runward.domain.json import JsonObject
from runward.domain.registry.guards import GuardrailVerdict
from runward.domain.registry.tools import ToolSpec
from runward.domain.run import plan
from runward.domain.run.config import AgentConfig
from runward.domain.run.decisions import RememberedDecision
from runward.domain.run.family import Child, Member
from runward.domain.run.items import Message
from runward.domain.run.parsed_calls import ParsedCall, Turn
from runward.domain.run.plan import parse_response
from runward.domain.run.response import ModelResponse, RequestedCall, Usage
from runward.domain.run.state import (
    Call,
    CallOutcome,
    CallPhase,
    Changes,
    Result,
    RunState,
    Segment,
    SegmentKind,
    compute_call_digest,
)
from runward.domain.run.status import RunStatus
from runward.domain.run.tools import (
    CompiledTool,
    RequestKey,
    compile_tool,
    make_request_key,
    needs_approval,
)

AGENT: Final = "clerk"
URL: Final = "https://tools.example/x"
SENT: Final = (CallPhase.STARTED, CallPhase.AWAITING_CALLBACK, CallPhase.AWAITING_RESOLUTION)
DONE: Final = Result(CallOutcome.COMPLETED, "done")


class Mint:
    """UUIDs in the order in which they are asked for."""

    def __init__(self) -> None:
        self.last = 0

    def __call__(self) -> UUID:
        self.last += 1
        return UUID(int=self.last)


@cache
def _compiled(spec: str, version: int) -> CompiledTool:
    return compile_tool(ToolSpec.model_validate_json(spec), version)


def tool(name: str = "lookup", version: int = 1, **fields: Any) -> CompiledTool:
    """Takes any arguments, unless `parameters` says which."""
    values: dict[str, Any] = {"name": name, "url": URL, "strict": False}
    values |= {"parameters": {"type": "object"}} | fields
    spec = ToolSpec.model_validate(values, strict=False)
    return _compiled(spec.model_dump_json(), version)


def state(
    calls: Iterable[Call] = (),
    *,
    turn: int | None = None,
    segments: tuple[Segment, ...] = (),
    usage: Usage | None = None,
    config: Mapping[str, Any] | None = None,
    **fields: Any,
) -> RunState:
    """A run under fence 1, in the turn of its last call; `config` over `offline:rules`."""
    ledger = {call.id: call for call in calls}
    latest = max((call.turn for call in ledger.values()), default=0)
    values: dict[str, Any] = {"project_id": ProjectId(UUID(int=1)), "id": RunId(UUID(int=2))}
    values |= {
        "fence": 1,
        "version": 1,
        "agent": AGENT,
        "tool_versions": {},
        "context": None,
    } | fields
    asked = AgentConfig.model_validate({"model": "offline:rules", **(config or {})}, strict=False)
    return RunState(
        config=asked,
        turn=latest if turn is None else turn,
        usage=usage or Usage(),
        segments=segments,
        calls=ledger,
        **values,
    )


def call(id_: str = "c1", phase: CallPhase = CallPhase.READY, **fields: Any) -> Call:
    """A call of turn 1. One that is settled is done; one that waits for a person has an
    approval, one that was sent was sent once."""
    values: dict[str, Any] = {"tool": "lookup", "version": 1, "arguments": {}, "turn": 1}
    values |= {"uuid": UUID(int=1000), "position": 0} | fields
    digest = compute_call_digest(values["tool"], values["version"], URL, values["arguments"])
    values.setdefault("digest", digest)
    if phase is CallPhase.SETTLED:
        values.setdefault("result", DONE)
    if phase is CallPhase.AWAITING_APPROVAL:
        values.setdefault("approval_id", ApprovalId(UUID(int=77)))
    elif phase in SENT:
        values = {"attempt": 1, "fence": 1, "timeout_seconds": 30.0, **values}
    return Call(id=CallId(id_), phase=phase, **values)


def row_of(*phases: CallPhase, **fields: Any) -> list[Call]:
    """Calls `c0`, `c1` … of one response, in these phases."""
    return [call(f"c{i}", phase, position=i, **fields) for i, phase in enumerate(phases)]


def failed(reason: CallReason | None = CallReason.TOOL_ERROR, **fields: Any) -> Result:
    values: dict[str, Any] = {"outcome": CallOutcome.FAILED, "output": "no"} | fields
    return Result(reason=reason, **values)


def memory(decision: str = "approve", **fields: Any) -> RememberedDecision:
    """Of the tool `pay`, with any arguments."""
    values: dict[str, Any] = {"tool": "pay", "version": 1, "agent": AGENT, "message": None}
    values |= {"arguments_digest": None} | fields
    return RememberedDecision(decision=decision, **values)


def member(description: str | None = None, **config: Any) -> Member:
    asked = AgentConfig.model_validate({"model": "offline:rules", **config}, strict=False)
    return Member(asked, 1, description)


def child(status: RunStatus = RunStatus.COMPLETED, **fields: Any) -> Child:
    return Child(RunId(UUID(int=500)), status, **fields)


def said(text: str, *, turn: int = 1, refusal: bool = False) -> Segment:
    message = Message("assistant", text, refusal=refusal)
    return Segment(SegmentKind.RESPONSE, turn, AGENT, (message,))


def wants(name: str, arguments: str = "{}", id_: str = "c1", **fields: Any) -> RequestedCall:
    return RequestedCall(id_, name, arguments, **fields)


def response(*calls: RequestedCall, text: str = "", **fields: Any) -> ModelResponse:
    return ModelResponse.of(text, calls, **fields)


def turn_with(*tools: CompiledTool, mint: Mint | None = None) -> Turn:
    shown = {one.name: one for one in tools}
    return Turn(shown, mint or Mint())


def take_response(
    state: RunState,
    response: ModelResponse,
    turn: Turn,
    answers: Mapping[RequestKey, bool] | None = None,
    verdicts: Mapping[RequestKey, GuardrailVerdict] | None = None,
) -> tuple[RunState, Changes]:
    """Parse a response and take it, with these answers of rules and guardrails about its calls."""
    parsed = parse_response(state, response, turn)
    calls: list[ParsedCall] = []
    for call in parsed.calls:
        key = make_request_key(call.name, call.arguments)
        asks = call.tool is not None and needs_approval(call.tool, answer=(answers or {}).get(key))
        calls.append(replace(call, needs_approval=asks, verdict=(verdicts or {}).get(key)))
    return plan.take_response(state, replace(parsed, calls=tuple(calls)), turn)


def taken(
    *calls: RequestedCall, tools: Iterable[CompiledTool] = (), before: RunState | None = None
) -> tuple[RunState, Changes]:
    """A run that has just got a response with these calls."""
    return take_response(before or state(), response(*calls), turn_with(*tools))


def types(changes: Changes) -> list[str]:
    return [event.type for event in changes.events]


def event(changes: Changes, type_: str) -> JsonObject:
    """The data of the only event of this type."""
    [found] = [event.data for event in changes.events if event.type == type_]
    return dict(found)


def only(run: RunState) -> Call:
    [one] = run.calls.values()
    return one


def phase_of(run: RunState, id_: str = "c1") -> CallPhase:
    return run.calls[CallId(id_)].phase


def reason_of(run: RunState, id_: str = "c1") -> CallReason | None:
    result = run.calls[CallId(id_)].result
    assert result is not None
    return result.reason


def output_of(run: RunState, id_: str = "c1") -> Any:
    result = run.calls[CallId(id_)].result
    assert result is not None
    return result.output


def settled(before: RunState, id_: str, result: Result = DONE) -> RunState:
    one = before.calls[CallId(id_)]
    return before.with_call(replace(one, phase=CallPhase.SETTLED, result=result))
