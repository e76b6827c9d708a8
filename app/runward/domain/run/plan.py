"""A model's response becomes calls: checked as a whole before any of them may start."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from uuid import UUID

from runward.domain.events.base import bounded_field
from runward.domain.events.call_data import CallCreatedData
from runward.domain.events.kinds import (
    ToolCallApprovalDecidedEvent,
    ToolCallApprovalRequestedEvent,
    ToolCallCreatedEvent,
)
from runward.domain.events.values import Reason
from runward.domain.ids import ApprovalId, CallId, Prefix, format_id
from runward.domain.json import (
    JsonObject,
    UnstorableError,
    canonical,
    clean_text,
    compact,
    compute_digest,
    is_same_json,
)
from runward.domain.registry.guards import Fail, GuardrailVerdict, Reject
from runward.domain.run import texts
from runward.domain.run.bounds import MAX_CALL_ID, bounded_name, bounded_response, count_json_bytes
from runward.domain.run.calls import Call, CallOutcome, CallPhase, Result, compute_call_digest
from runward.domain.run.items import Item, Message, Native, ToolCall
from runward.domain.run.outcomes import Failed, FailureKind
from runward.domain.run.response import ModelResponse, RequestedCall
from runward.domain.run.response_events import add_response_events
from runward.domain.run.settle import make_guardrail_result, settle
from runward.domain.run.state import (
    ALL_DECISIONS,
    APPROVE_OR_REJECT,
    ApprovalRequest,
    Changes,
    RememberedDecision,
    RunState,
    Segment,
    SegmentKind,
    add_usage,
)
from runward.domain.run.team import accept_handoff
from runward.domain.run.tools import CompiledTool, RequestKey, make_request_key, needs_approval
from runward.domain.schema.validator import parse_arguments

WARN_AT, STOP_AT = 3, 5
"""The loop guard: how many identical calls of one run are warned about, and refused."""


class UnusableResponseError(Exception):
    """The run fails and nothing of the response starts."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class Turn:
    """What the model was shown in this turn, and the answers about its calls."""

    tools: Mapping[str, CompiledTool]
    mint: Callable[[], UUID]
    shown: int | None = None
    """How many segments of the conversation; None: all that there are."""
    answered: Mapping[RequestKey, bool] = field(default_factory=dict[RequestKey, bool])
    """The answers of rules and of plugins' functions about calls."""
    verdicts: Mapping[RequestKey, GuardrailVerdict] = field(
        default_factory=dict[RequestKey, GuardrailVerdict]
    )
    """Of guardrails that are asked before a person is."""
    hidden: frozenset[str] = frozenset()
    """Tools that the model would be shown if it had searched for them."""


@dataclass(frozen=True, slots=True)
class _ParsedCall:
    id: CallId
    name: str
    arguments: JsonObject
    raw: str | None
    problem: Result | None
    nth: int
    """Which of the response's calls."""
    native: Native | None


def take_response(state: RunState, response: ModelResponse, turn: Turn) -> tuple[RunState, Changes]:
    """Raises UnusableResponseError."""
    try:
        response = bounded_response(response, stored=state.stored_bytes)
    except UnstorableError as error:
        message = f"The model's response cannot be stored: {error}."
        raise UnusableResponseError("model_invalid_response", message) from None
    number = state.turn + 1
    asked = list(_parse_calls(state, response, turn))
    changes = Changes(progress=True)
    shown = len(state.segments) if turn.shown is None else turn.shown
    items = _build_items(response, asked)
    segment = Segment(SegmentKind.RESPONSE, number, state.agent, items, segments_before=shown)
    changes.segments.append(segment)
    add_response_events(changes, state, response, number)
    after = replace(
        state,
        turn=number,
        segments=(*state.segments[:shown], segment, *state.segments[shown:]),
        stored_bytes=state.stored_bytes + count_json_bytes(response.output),
    )
    for position, one in enumerate(asked):
        if one.id not in state.calls:
            after = _enter_call(after, changes, one, position, turn)
    return add_usage(after, changes, response.usage), changes


def _build_items(response: ModelResponse, asked: list[_ParsedCall]) -> tuple[Item, ...]:
    """In the model's order. It always says something, if only nothing, or asks for calls; a
    refusal stands instead of what else it said."""
    calls = {one.nth: one for one in asked}
    refused = response.refusal is not None
    items: list[Item] = []
    nth = 0
    for one in response.output:
        match one:
            case RequestedCall():
                if (call := calls.get(nth)) is not None:
                    items.append(
                        ToolCall(call.id, call.name, compact(call.arguments), call.raw, call.native)
                    )
                nth += 1
            case Message():
                if one.refusal is refused:
                    items.append(one)
            case _:
                items.append(one)
    if not any(isinstance(item, Message | ToolCall) for item in items):
        items.append(Message("assistant", ""))
    return tuple(items)


def _parse_calls(state: RunState, response: ModelResponse, turn: Turn) -> Iterator[_ParsedCall]:
    """The calls with ids and parsed arguments; the same call asked for twice comes once."""
    seen: dict[CallId, str] = {}
    for nth, requested in enumerate(response.calls):
        one = _parse_call(requested, turn, nth)
        what = canonical([one.name, one.arguments, one.raw])
        if one.id in seen:
            if seen[one.id] != what:
                raise UnusableResponseError(
                    "call_id_reused", f"The model used the call id '{one.id}' for two calls."
                )
            continue
        seen[one.id] = what
        known = state.calls.get(one.id)
        if known is not None and not (
            (known.tool, known.raw) == (one.name, one.raw)
            and is_same_json(known.requested_arguments, one.arguments)
        ):
            raise UnusableResponseError(
                "call_id_reused",
                f"The model used the id of the finished call '{one.id}' for another call.",
            )
        yield one


def _parse_call(requested: RequestedCall, turn: Turn, nth: int) -> _ParsedCall:
    shown = clean_text(requested.call_id)
    if not shown or len(shown) > MAX_CALL_ID:
        shown = format_id(Prefix.CALL, turn.mint())
    name = bounded_name(requested.name)
    parsed = parse_arguments(requested.arguments)
    if isinstance(parsed, dict) and name in turn.tools:
        parsed = turn.tools[name].arguments.without_nulls(parsed)
    cut_off = (
        _make_failed_result(Reason.TRUNCATED, texts.TRUNCATED) if requested.truncated else None
    )
    if isinstance(parsed, dict):
        return _ParsedCall(CallId(shown), name, parsed, None, cut_off, nth, requested.native)
    text = texts.invalid_arguments(name, [(p.path, p.message) for p in parsed])
    invalid = _make_failed_result(Reason.INVALID_ARGUMENTS, text)
    raw = clean_text(requested.arguments)
    return _ParsedCall(CallId(shown), name, {}, raw, cut_off or invalid, nth, requested.native)


def _enter_call(
    state: RunState, changes: Changes, one: _ParsedCall, position: int, turn: Turn
) -> RunState:
    """The call enters the ledger: ready, waiting for a person, or settled without having run."""
    tool = turn.tools.get(one.name)
    version = tool.version if tool else None
    url = tool.spec.url if tool else None
    call = Call(
        id=one.id,
        uuid=turn.mint(),
        turn=state.turn,
        position=position,
        tool=one.name,
        version=version,
        arguments=one.arguments,
        digest=compute_call_digest(one.name, version, url, one.arguments),
        phase=CallPhase.READY,
        raw=one.raw,
    )
    changes.inserted[call.id] = call
    created: CallCreatedData = {
        "call_id": call.id,
        "tool": call.tool,
        "tool_version": call.version,
        "tool_type": tool.spec.type if tool else None,
        "turn": call.turn,
        "agent": state.agent,
        **bounded_field("arguments", call.arguments),
    }
    if one.raw is not None:
        created = {**created, **bounded_field("arguments_text", one.raw)}
    changes.add(ToolCallCreatedEvent(created))
    refused = _find_refusal(state, call, tool, one, turn)
    if refused is not None:
        return settle(state, changes, call, refused)
    assert tool is not None
    if tool.spec.type == "handoff":
        assert tool.spec.agent is not None
        return settle(state, changes, call, accept_handoff(state, tool.spec.agent))
    if not needs_approval(tool, call.arguments, turn.answered):
        return state.with_call(call)
    verdict = turn.verdicts.get(make_request_key(call.tool, call.arguments))
    if isinstance(verdict, Reject | Fail):
        return settle(state, changes, call, _make_rejected_result(verdict))
    return require_approval(state, changes, call, tool, turn.mint)


def _find_refusal(
    state: RunState, call: Call, tool: CompiledTool | None, one: _ParsedCall, turn: Turn
) -> Result | None:
    """Why the call cannot run, in the order in which it is checked."""
    if len(state.calls) >= state.config.limits.max_tool_calls:
        return _make_failed_result(Reason.LIMIT, texts.TOO_MANY_CALLS)
    if tool is None or not _is_callable(tool, one):
        fails = state.config.on_unknown_tool == "fail_run"
        hidden = call.tool in turn.hidden
        text = (
            texts.search_first(call.tool) if hidden else texts.unknown_tool(call.tool, turn.tools)
        )
        return replace(_make_failed_result(Reason.UNKNOWN_TOOL, text), fails_run=fails)
    problem = one.problem
    if problem is None and (problems := tool.arguments.problems(call.arguments)):
        text = texts.invalid_arguments(call.tool, [(p.path, p.message) for p in problems])
        problem = _make_failed_result(Reason.INVALID_ARGUMENTS, text)
    if problem is not None:
        return replace(problem, fails_run=tool.spec.on_error == "fail_run")
    if state.config.kind == "llm" and count_identical_before(state, call) + 1 >= STOP_AT:
        return _make_failed_result(Reason.REPEATED, texts.REPEATED)
    return None


def _is_callable(tool: CompiledTool, one: _ParsedCall) -> bool:
    """What a provider runs by itself is no function, even if the model thinks so; but a provider
    may ask whether it may call a server's tool."""
    hosted = tool.spec.hosted
    return hosted is None or (hosted.kind == "mcp" and one.native is not None)


def require_approval(
    state: RunState, changes: Changes, call: Call, tool: CompiledTool, mint: Callable[[], UUID]
) -> RunState:
    """Ask a person, unless a decision was made that covers this call too."""
    if _was_declined_before(state, call):
        text = texts.DECLINED_BEFORE
        declined = Result(CallOutcome.REJECTED, text, Reason.DECLINED_BEFORE)
        return settle(state, changes, call, declined)
    remembered = find_remembered_decision(state.remembered, call, state.agent)
    if remembered is not None and remembered.decision == "reject":
        text = remembered.message or tool.spec.reject_message or texts.NOT_APPROVED
        return settle(state, changes, call, Result(CallOutcome.REJECTED, text, Reason.DECLINED))
    if remembered is not None:
        changes.add(
            ToolCallApprovalDecidedEvent(
                {"call_id": call.id, "decision": "approve", "remembered": True}
            )
        )
        call = replace(call, phase=CallPhase.READY, approved_digest=call.digest)
        changes.put(call)
        return state.with_call(call)
    approval_id = ApprovalId(mint())
    call = replace(call, phase=CallPhase.AWAITING_APPROVAL, approval_id=approval_id)
    changes.put(call)
    changes.approvals.append(
        ApprovalRequest(
            approval_id,
            call,
            state.agent,
            tool.spec.url,
            tool.spec.approval_expires_seconds,
            allowed_decisions=ALL_DECISIONS if tool.spec.hosted is None else APPROVE_OR_REJECT,
        )
    )
    changes.add(
        ToolCallApprovalRequestedEvent(
            {
                "approval_id": format_id(Prefix.APPROVAL, approval_id),
                "call_id": call.id,
                "tool": call.tool,
                "tool_version": tool.version,
                **bounded_field("arguments", call.arguments),
                "digest": call.digest,
                "expires_in_seconds": tool.spec.approval_expires_seconds,
            }
        )
    )
    return state.with_call(call)


def find_remembered_decision(
    remembered: tuple[RememberedDecision, ...], call: Call, agent: str | None
) -> RememberedDecision | None:
    """The latest remembered decision that covers `call`, if one does."""
    for one in reversed(remembered):
        same = (one.tool, one.version, one.agent) == (call.tool, call.version, agent)
        if same and one.arguments_digest in (None, compute_digest(call.arguments)):
            return one
    return None


def count_identical_before(state: RunState, call: Call) -> int:
    """How many calls of the run before this one had the same name and arguments."""
    return sum(
        (other.turn, other.position) < (call.turn, call.position)
        and (other.tool, other.raw) == (call.tool, call.raw)
        and _same_arguments(other, call)
        for other in state.calls.values()
    )


def _same_arguments(one: Call, other: Call) -> bool:
    """Compare what the model asked for. Two calls of one version that nobody edited have the same
    digest if and only if their arguments are the same; that costs nothing for large ones."""
    edited = one.original is not None or other.original is not None
    if one.version == other.version and not edited:
        return one.digest == other.digest
    return is_same_json(one.requested_arguments, other.requested_arguments)


def _was_declined_before(state: RunState, call: Call) -> bool:
    return any(
        other.digest == call.digest
        and other.result is not None
        and other.result.reason in (Reason.DECLINED, Reason.DECLINED_BEFORE)
        for other in state.calls.values()
    )


def _make_rejected_result(verdict: Reject | Fail) -> Result:
    return make_guardrail_result(
        Failed(
            FailureKind.GUARDRAIL,
            verdict.detail or "",
            message=verdict.message,
            fails_run=isinstance(verdict, Fail),
        )
    )


def parse_requests(
    response: ModelResponse, tools: Mapping[str, CompiledTool]
) -> list[tuple[str, JsonObject]]:
    """The names and arguments of the calls in a response that can be read at all."""
    found: list[tuple[str, JsonObject]] = []
    for requested in response.calls:
        name = bounded_name(requested.name)
        parsed = parse_arguments(requested.arguments)
        if name in tools and isinstance(parsed, dict):
            found.append((name, tools[name].arguments.without_nulls(parsed)))
    return found


def _make_failed_result(reason: Reason, text: str) -> Result:
    return Result(CallOutcome.FAILED, text, reason)
