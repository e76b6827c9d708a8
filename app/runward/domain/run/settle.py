"""The conversion of an attempt's outcome to a retry or to the call's result."""

from dataclasses import replace
from typing import Final, TypeAlias, assert_never

from pydantic import JsonValue

from runward.domain.events.base import MAX_VALUE_BYTES, bounded_field
from runward.domain.events.call_data import ToolCallEndedData
from runward.domain.events.kinds import (
    ToolCallOutcomeUnknownEvent,
    ToolCallProgressEvent,
    ToolCallStartedEvent,
)
from runward.domain.events.values import CallReason
from runward.domain.ids import Prefix, format_id
from runward.domain.immutable import immutable
from runward.domain.run import texts
from runward.domain.run.bounds import (
    MAX_RUN_BYTES,
    bounded_outcome,
    bounded_result,
    count_json_bytes,
    truncate,
)
from runward.domain.run.failures import (
    AwaitResolution,
    apply_failure_mode,
    classify_failure,
    find_retry_delay,
)
from runward.domain.run.outcomes import (
    AgentRequest,
    Done,
    Failed,
    FailureKind,
    InputRequest,
    NeedsInput,
    Outcome,
    Waits,
)
from runward.domain.run.run_events import CALL_ENDINGS
from runward.domain.run.state import (
    Call,
    CallOutcome,
    CallPhase,
    Changes,
    Result,
    RunState,
)
from runward.domain.run.tools import CompiledTool

MAX_INPUT_REQUESTS: Final = 20
"""Maximum number of times that one call may request input."""


@immutable
class TryAgain:
    """A disposition that starts the next attempt after `after` seconds."""

    after: float


@immutable
class AwaitCallback:
    pass


@immutable
class AwaitResult:
    """A disposition for client tools. The client runs the tool and submits its result."""


@immutable
class StartChild:
    """A disposition for agents as tools. The loop starts a child run in its next step, and the
    child run provides the call's result. `requests`: the requests of a plugin function, which reads
    the results of the child runs in its next attempt."""

    requests: tuple[AgentRequest, ...] = ()


@immutable
class AwaitInput:
    """The tool's request for input. The call is sent again together with the input."""

    request: NeedsInput


Disposition: TypeAlias = (
    Result | TryAgain | AwaitCallback | AwaitResult | AwaitInput | StartChild | AwaitResolution
)


def classify_outcome(
    tool: CompiledTool, call: Call, outcome: Outcome, *, seconds_left: float, jitter: float
) -> Disposition:
    """Return the disposition that follows from an attempt's outcome. `jitter`: a factor from 0 to
    below 1 for the delay of a retry."""
    outcome = bounded_outcome(outcome)
    match outcome:
        case Done():
            return _classify_output(tool, outcome)
        case Waits(on="child", agents=requests):
            return StartChild(requests)
        case Waits(on="client"):
            return AwaitResult()
        case Waits():
            return AwaitCallback()
        case NeedsInput():
            return AwaitInput(outcome)
        case Failed():
            delay = find_retry_delay(tool.spec, call, outcome, jitter)
            if delay is not None and delay < seconds_left:
                return TryAgain(delay)
            return classify_failure(tool.spec, call, outcome)
        case _:
            assert_never(outcome)


def _classify_output(tool: CompiledTool, done: Done) -> Result:
    output = done.output
    if tool.output is not None and (problems := tool.output.problems(output)):
        first = problems[0]
        detail = f"The output does not match output_schema: {first.path} {first.message}"
        return apply_failure_mode(
            tool.spec.on_error,
            Result(
                CallOutcome.FAILED, texts.INVALID_RESPONSE, CallReason.INVALID_OUTPUT, detail=detail
            ),
        )
    return make_completed_result(output, tool.spec.max_output_bytes, done)


def make_completed_result(output: JsonValue, max_bytes: int, done: Done | None = None) -> Result:
    """Return the result of a successful call. The model reads at most `max_bytes` of UTF-8."""
    shown, full = truncate(output, max_bytes)
    return Result(
        CallOutcome.COMPLETED,
        shown,
        parts=done.parts if done else (),
        full=full,
        metadata=done.metadata if done else None,
        transfer_to=done.transfer_to if done else None,
        escalate=done.escalate if done else False,
    )


def conclude(state: RunState, changes: Changes, call: Call, disposition: Disposition) -> RunState:
    """Apply a disposition to the run. `TryAgain` and `StartChild` change nothing here. The start of
    the next attempt and `runward.domain.run.child_runs.start_children` make those changes."""
    match disposition:
        case Result():
            return settle(state, changes, call, disposition)
        case TryAgain() | StartChild():
            return state
        case AwaitCallback():
            waiting = replace(call, phase=CallPhase.AWAITING_CALLBACK)
            changes.add(ToolCallProgressEvent({"call_id": call.id, "status": "accepted"}))
        case AwaitResult():
            waiting = replace(call, phase=CallPhase.AWAITING_RESULT)
            changes.add(ToolCallProgressEvent({"call_id": call.id, "status": "awaiting_result"}))
        case AwaitInput(request=request):
            return request_input(state, changes, call, request)
        case AwaitResolution(detail=detail):
            waiting = replace(call, phase=CallPhase.AWAITING_RESOLUTION)
            changes.add(
                ToolCallOutcomeUnknownEvent(
                    {
                        "call_id": call.id,
                        "tool": call.tool,
                        "attempt": call.attempt,
                        "awaiting_resolution": True,
                        "detail": detail,
                    }
                )
            )
        case _:
            assert_never(disposition)
    changes.put_call(waiting)
    changes.progress = True
    return state.with_call(waiting)


def request_input(state: RunState, changes: Changes, call: Call, request: NeedsInput) -> RunState:
    """Record the tool's request for input."""
    number = count_input_requests(call) + 1
    exchange = InputRequest(number, call.attempt, request.requests, request.state)
    asking = replace(call, phase=CallPhase.AWAITING_INPUT, exchange=exchange)
    changes.put_call(asking)
    changes.progress = True
    requests = bounded_field("requests", request.requests)
    changes.add(ToolCallProgressEvent({"call_id": call.id, "status": "input_required", **requests}))
    return state.with_call(asking)


def count_input_requests(call: Call) -> int:
    """Return how often the tool has requested input in this call."""
    return call.exchange.number if call.exchange else 0


def limit_input_requests(call: Call, outcome: Outcome) -> Outcome:
    """Return a failure instead of a request for input that the call must not send any more."""
    if isinstance(outcome, NeedsInput) and count_input_requests(call) >= MAX_INPUT_REQUESTS:
        return Failed(
            FailureKind.INVALID_RESPONSE,
            f"The tool requested input more than {MAX_INPUT_REQUESTS} times.",
        )
    return outcome


def settle(state: RunState, changes: Changes, call: Call, result: Result) -> RunState:
    """Give the call its result, in the tool-call log and the event log. If the run has no space for
    the result, an error replaces it."""
    result, size = bounded_result(result)
    if state.stored_bytes + size > MAX_RUN_BYTES:
        detail = (
            f"The result has {size} bytes, so the run would exceed its limit of "
            f"{MAX_RUN_BYTES} bytes."
        )
        reason = CallReason.INVALID_RESPONSE
        result = Result(CallOutcome.FAILED, texts.INVALID_RESPONSE, reason, detail=detail)
        size = count_json_bytes(result)
    settled = replace(call, phase=CallPhase.SETTLED, result=result)
    changes.put_call(settled)
    changes.progress = True
    shown, full = truncate(result.output, MAX_VALUE_BYTES)
    data: ToolCallEndedData = {
        "call_id": call.id,
        "tool": call.tool,
        "attempt": call.attempt,
        "output": shown,
        "is_error": result.is_error,
    }
    if full is not None or result.full is not None:
        data["truncated"] = True
    if result.reason is not None:
        data["reason"] = result.reason
    if result.detail is not None:
        data["detail"] = result.detail
    if result.metadata is not None:
        data["metadata"] = result.metadata
    changes.add(CALL_ENDINGS[result.outcome](data))
    calls = {**state.calls, call.id: settled}
    return replace(state, calls=calls, stored_bytes=state.stored_bytes + size)


def start(
    state: RunState, changes: Changes, call: Call, *, seconds: float | None
) -> tuple[RunState, Call]:
    """Record that the call is about to be sent. Commit this before the first byte is sent.
    `seconds`: None if the call has no timeout."""
    started = replace(
        call,
        phase=CallPhase.STARTED,
        attempt=call.attempt + 1,
        fence=state.fence,
        timeout_seconds=seconds,
    )
    changes.put_call(started)
    changes.add(
        ToolCallStartedEvent(
            {
                "call_id": call.id,
                "tool": call.tool,
                "attempt": started.attempt,
                "digest": call.digest,
                "webhook_id": format_id(Prefix.CALL, call.uuid),
                "timeout_seconds": seconds,
            }
        )
    )
    return state.with_call(started), started


def put_back(state: RunState, changes: Changes, call: Call) -> RunState:
    """Make a started call ready again: its last attempt has ended, and another one may follow."""
    again = replace(call, phase=CallPhase.READY)
    changes.put_call(again)
    return state.with_call(again)
