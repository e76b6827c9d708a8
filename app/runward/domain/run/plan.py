"""The conversion of a model's response to calls. The complete response is checked before any call
may start."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from runward.domain.events.base import bounded_field
from runward.domain.events.call_data import ToolCallCreatedData
from runward.domain.events.kinds import ToolCallCreatedEvent
from runward.domain.events.values import CallReason, RunErrorCode
from runward.domain.ids import CallId, Prefix, format_id
from runward.domain.json import (
    JsonObject,
    UnstorableError,
    canonical,
    clean_text,
    compact,
    is_same_json,
)
from runward.domain.registry.guards import Fail, Reject
from runward.domain.run import texts
from runward.domain.run.approvals import require_approval
from runward.domain.run.bounds import (
    MAX_CALL_ID,
    MAX_RUN_BYTES,
    bounded_name,
    bounded_response,
)
from runward.domain.run.failures import make_guardrail_failure, make_guardrail_result
from runward.domain.run.items import Item, Message, ToolCall
from runward.domain.run.parsed_calls import (
    ParsedCall,
    ParsedResponse,
    Turn,
    find_refusal,
    make_failed_result,
    make_invalid_result,
)
from runward.domain.run.response import ModelResponse, RequestedCall
from runward.domain.run.run_events import add_response_events, add_usage
from runward.domain.run.settle import settle
from runward.domain.run.state import (
    Call,
    CallPhase,
    Changes,
    RunState,
    Segment,
    SegmentKind,
    compute_call_digest,
)
from runward.domain.run.team import accept_handoff
from runward.domain.schema.validator import parse_arguments


class UnusableResponseError(Exception):
    """Raised if a response cannot be used. The run fails, and none of the response's calls
    start."""

    def __init__(self, code: RunErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def parse_response(state: RunState, response: ModelResponse, turn: Turn) -> ParsedResponse:
    """Return the response with the checked arguments of all calls. Raises UnusableResponseError."""
    try:
        response, size = bounded_response(response)
    except UnstorableError as error:
        raise _unstorable(str(error)) from None
    calls = tuple(_parse_calls(state, response, turn))
    return ParsedResponse(response, size, calls)


def take_response(state: RunState, parsed: ParsedResponse, turn: Turn) -> tuple[RunState, Changes]:
    """Add the response to the conversation, and its calls to the tool-call log. Raises
    UnusableResponseError if the run has no space for it."""
    if state.stored_bytes + parsed.size > MAX_RUN_BYTES:
        raise _unstorable(f"the run would exceed its limit of {MAX_RUN_BYTES} bytes")
    response, number = parsed.response, state.turn + 1
    changes = Changes(progress=True)
    shown = len(state.segments) if turn.segments_before is None else turn.segments_before
    items = _build_items(response, parsed.calls)
    segment = Segment(SegmentKind.RESPONSE, number, state.agent, items, segments_before=shown)
    changes.segments.append(segment)
    add_response_events(changes, state, response, number)
    after = replace(
        state,
        turn=number,
        segments=(*state.segments[:shown], segment, *state.segments[shown:]),
        stored_bytes=state.stored_bytes + parsed.size,
    )
    for position, call in enumerate(parsed.calls):
        if call.id not in state.calls:
            after = _enter_call(after, changes, call, position, turn)
    return add_usage(after, changes, response.usage), changes


def _unstorable(reason: str) -> UnusableResponseError:
    message = f"The model's response cannot be stored: {reason}."
    return UnusableResponseError(RunErrorCode.MODEL_INVALID_RESPONSE, message)


def _build_items(response: ModelResponse, parsed: Sequence[ParsedCall]) -> tuple[Item, ...]:
    """Return the items in the model's order. Without calls, there is always a message, even if it
    is empty. A refusal replaces the other text."""
    calls = {call.number: call for call in parsed}
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


def _parse_calls(state: RunState, response: ModelResponse, turn: Turn) -> Iterator[ParsedCall]:
    """Yield the calls with IDs and parsed arguments. A call that the response repeats is yielded
    once. Raises UnusableResponseError if an ID belongs to two different calls."""
    seen: dict[CallId, str] = {}
    for nth, requested in enumerate(response.calls):
        one = _parse_call(requested, turn, nth)
        what = canonical([one.name, one.arguments, one.raw])
        if one.id in seen:
            if seen[one.id] != what:
                raise UnusableResponseError(
                    RunErrorCode.CALL_ID_REUSED,
                    f"The model used the call ID '{one.id}' for two different calls.",
                )
            continue
        seen[one.id] = what
        known = state.calls.get(one.id)
        if known is not None and not (
            (known.tool, known.raw) == (one.name, one.raw)
            and is_same_json(known.requested_arguments, one.arguments)
        ):
            raise UnusableResponseError(
                RunErrorCode.CALL_ID_REUSED,
                f"The model used the ID of the finished call '{one.id}' for a different call.",
            )
        yield one


def _parse_call(requested: RequestedCall, turn: Turn, number: int) -> ParsedCall:
    call_id = clean_text(requested.call_id)
    if not call_id or len(call_id) > MAX_CALL_ID:
        call_id = format_id(Prefix.CALL, turn.mint())
    name = bounded_name(requested.name)
    tool = turn.tools.get(name)
    arguments: JsonObject = {}
    raw = problem = misfit = None
    parsed = parse_arguments(requested.arguments)
    if isinstance(parsed, dict):
        arguments = parsed if tool is None else tool.arguments.without_nulls(parsed)
        if tool is not None and (problems := tool.arguments.problems(arguments)):
            misfit = make_invalid_result(name, problems)
    else:
        raw, problem = clean_text(requested.arguments), make_invalid_result(name, parsed)
    if requested.truncated:
        problem = make_failed_result(CallReason.TRUNCATED, texts.TRUNCATED)
    return ParsedCall(
        CallId(call_id), name, arguments, raw, number, requested.native, tool, problem, misfit
    )


def _enter_call(
    state: RunState, changes: Changes, parsed: ParsedCall, position: int, turn: Turn
) -> RunState:
    """Add the call to the tool-call log. Its phase is ready or waiting for an approval, or the call
    is settled without an attempt."""
    tool = parsed.tool
    version = tool.version if tool else None
    url = tool.spec.url if tool else None
    call = Call(
        id=parsed.id,
        uuid=turn.mint(),
        turn=state.turn,
        position=position,
        tool=parsed.name,
        version=version,
        arguments=parsed.arguments,
        digest=compute_call_digest(
            parsed.name, version, url, parsed.arguments, tool.definition if tool else None
        ),
        phase=CallPhase.READY,
        raw=parsed.raw,
    )
    changes.inserted[call.id] = call
    created: ToolCallCreatedData = {
        "call_id": call.id,
        "tool": call.tool,
        "tool_version": call.version,
        "tool_type": tool.spec.type if tool else None,
        "turn": call.turn,
        "agent": state.agent,
        **bounded_field("arguments", call.arguments),
    }
    if parsed.raw is not None:
        created = {**created, **bounded_field("arguments_text", parsed.raw)}
    changes.add(ToolCallCreatedEvent(created))
    refused = find_refusal(state, call, parsed, turn)
    if refused is not None:
        return settle(state, changes, call, refused)
    assert tool is not None
    if tool.spec.type == "handoff":
        assert tool.spec.agent is not None
        return settle(state, changes, call, accept_handoff(state, tool.spec.agent))
    if not parsed.needs_approval:
        return state.with_call(call)
    if isinstance(parsed.verdict, Reject | Fail):
        return settle(
            state, changes, call, make_guardrail_result(make_guardrail_failure(parsed.verdict))
        )
    return require_approval(state, changes, call, tool, turn.mint)
