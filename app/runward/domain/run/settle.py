"""From how an attempt ended to what the model is told, and whether it is tried again."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, assert_never

from pydantic import JsonValue

from runward.domain.events.base import MAX_VALUE_BYTES, bounded_field
from runward.domain.events.call_data import CallEndedData
from runward.domain.events.kinds import (
    StateUpdatedEvent,
    ToolCallOutcomeUnknownEvent,
    ToolCallProgressEvent,
    ToolCallStartedEvent,
)
from runward.domain.events.values import Reason
from runward.domain.ids import Prefix, format_id
from runward.domain.json import JsonObject, compact
from runward.domain.registry.tools import RETRYABLE_STATUSES, OnFailure, Text, ToolSpec
from runward.domain.run import texts
from runward.domain.run.bounds import (
    MAX_RUN_BYTES,
    bounded_outcome,
    bounded_result,
    count_json_bytes,
)
from runward.domain.run.calls import CALL_ENDINGS, Call, CallOutcome, CallPhase, Result
from runward.domain.run.outcomes import Done, Failed, FailureKind, Outcome, Waits
from runward.domain.run.sessions import merge_delta
from runward.domain.run.state import Changes, RunState
from runward.domain.run.tools import CompiledTool

_REPEATABLE_TYPES: Final = frozenset({"agent", "builtin", "client", "hosted"})
"""Types of tools that have done nothing before their result, their child run, or that they wait
for their client, is committed; a provider's call is made after that."""


@dataclass(frozen=True, slots=True)
class TryAgain:
    """`after` seconds, with the next attempt's number."""

    after: float


@dataclass(frozen=True, slots=True)
class AwaitCallback:
    pass


@dataclass(frozen=True, slots=True)
class AwaitResult:
    """The client runs the tool and gives its result."""


@dataclass(frozen=True, slots=True)
class StartChild:
    """The call's result is that of a child run, which the loop starts with its next step."""


@dataclass(frozen=True, slots=True)
class AwaitResolution:
    """Nobody knows whether the call took effect: a person settles it."""

    detail: str


Disposition: TypeAlias = (
    Result | TryAgain | AwaitCallback | AwaitResult | StartChild | AwaitResolution
)


def classify_outcome(
    tool: CompiledTool, call: Call, outcome: Outcome, *, seconds_left: float, jitter: float
) -> Disposition:
    """What an attempt's outcome means for the call. `jitter`: from 0 up to 1."""
    outcome = bounded_outcome(outcome)
    match outcome:
        case Done():
            return _classify_output(tool, outcome)
        case Waits(on="child"):
            return StartChild()
        case Waits(on="client"):
            return AwaitResult()
        case Waits():
            return AwaitCallback()
        case Failed():
            delay = _retry_delay(tool.spec, call, outcome, jitter)
            if delay is not None and delay < seconds_left:
                return TryAgain(delay)
            return _classify_failure(tool.spec, call, outcome)
        case _:
            assert_never(outcome)


def _classify_output(tool: CompiledTool, done: Done) -> Result:
    output = done.output
    if tool.output is not None and (problems := tool.output.problems(output)):
        first = problems[0]
        detail = f"The output does not match output_schema: {first.path} {first.message}"
        return _apply_failure_policy(
            tool.spec.on_error,
            Result(
                CallOutcome.FAILED, texts.INVALID_RESPONSE, Reason.INVALID_OUTPUT, detail=detail
            ),
        )
    return make_completed_result(output, tool.spec.max_output_bytes, done)


def make_completed_result(output: JsonValue, max_bytes: int, done: Done | None = None) -> Result:
    """A good result, cut to `max_bytes` of UTF-8 for the model."""
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


def _retry_delay(spec: ToolSpec, call: Call, failed: Failed, jitter: float) -> float | None:
    """Seconds until the next attempt; None: there must be none."""
    if failed.permanent or call.recent_attempts >= spec.retry.max_attempts:
        return None
    match failed.why:
        case FailureKind.NOT_SENT:
            allowed = True
        case FailureKind.UNKNOWN:
            allowed = spec.idempotent
        case FailureKind.UNAVAILABLE | FailureKind.ERROR:
            temporary = failed.status in RETRYABLE_STATUSES
            allowed = (spec.idempotent and temporary) or failed.status in spec.retry.on
        case (
            FailureKind.TIMEOUT
            | FailureKind.INVALID_RESPONSE
            | FailureKind.GUARDRAIL
            | FailureKind.WITHHELD
        ):
            allowed = False
        case _:
            assert_never(failed.why)
    if not allowed:
        return None
    ceiling = min(
        spec.retry.max_seconds, spec.retry.initial_seconds * 2 ** (call.recent_attempts - 1)
    )
    return max(ceiling * jitter, failed.retry_after or 0.0)


def _classify_failure(spec: ToolSpec, call: Call, failed: Failed) -> Disposition:
    match failed.why:
        case FailureKind.TIMEOUT:
            return classify_timeout(spec, call, failed.detail)
        case FailureKind.UNKNOWN:
            return classify_unknown_outcome(spec, failed.detail)
        case FailureKind.GUARDRAIL | FailureKind.WITHHELD:
            return make_guardrail_result(failed)
        case FailureKind.NOT_SENT:
            before = call.exchange is not None  # it was sent, and asked for more
            before |= call.attempt > 1 and bool(spec.idempotent or spec.retry.on)  # it may have
            text = texts.NOT_REACHED if before else texts.NOT_SENT
            result = Result(CallOutcome.FAILED, text, Reason.NOT_SENT)
        case FailureKind.INVALID_RESPONSE:
            result = Result(CallOutcome.FAILED, texts.INVALID_RESPONSE, Reason.INVALID_RESPONSE)
        case FailureKind.UNAVAILABLE | FailureKind.ERROR:
            text = failed.message or texts.TOOL_ERROR
            result = Result(CallOutcome.FAILED, truncate(text, 4096)[0], Reason.TOOL_ERROR)
        case _:
            assert_never(failed.why)
    return _apply_failure_policy(spec.on_error, replace(result, detail=failed.detail))


def make_guardrail_result(failed: Failed) -> Result:
    """A guardrail's word, which no policy of the tool changes. Only a call that was never sent is
    called rejected."""
    text = truncate(failed.message or texts.GUARDED, 4096)[0]
    return Result(
        CallOutcome.FAILED if failed.why is FailureKind.WITHHELD else CallOutcome.REJECTED,
        text,
        Reason.GUARDRAIL,
        detail=failed.detail,
        fails_run=failed.fails_run,
    )


def classify_timeout(spec: ToolSpec, call: Call, detail: str) -> Result | AwaitResolution:
    if spec.on_unknown == "ask" and not spec.idempotent:
        return AwaitResolution(detail)
    text = texts.timed_out(call.tool, call.timeout_seconds or 0, idempotent=spec.idempotent)
    return _apply_failure_policy(
        spec.on_timeout, Result(CallOutcome.TIMED_OUT, text, detail=detail)
    )


def classify_unknown_outcome(spec: ToolSpec, detail: str) -> Result | AwaitResolution:
    """The call was sent and no complete answer came: it may have taken effect."""
    result = Result(CallOutcome.OUTCOME_UNKNOWN, texts.INTERRUPTED, detail=detail)
    match spec.on_unknown:
        case "ask":
            return AwaitResolution(detail)
        case "fail_run":
            return replace(result, fails_run=True)
        case "return_error":
            return result
        case _:
            assert_never(spec.on_unknown)


def _apply_failure_policy(policy: OnFailure, result: Result) -> Result:
    match policy:
        case "return_error":
            return result
        case "fail_run":
            return replace(result, fails_run=True)
        case Text(message=message):
            return replace(result, output=message)
        case _:
            assert_never(policy)


def conclude(state: RunState, changes: Changes, call: Call, disposition: Disposition) -> RunState:
    """Write a verdict down. `TryAgain` writes nothing: the next attempt's start will; neither does
    `StartChild`, which `runward.domain.run.team.start_child` writes."""
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
    changes.put(waiting)
    changes.progress = True
    return state.with_call(waiting)


def merge_state(state: RunState, changes: Changes, call: Call, delta: JsonObject) -> RunState:
    """A call changed the shared state: written with the call's result, or not at all."""
    changes.shared_state |= delta
    changes.add(StateUpdatedEvent({"call_id": call.id, **bounded_field("changes", delta)}))
    return replace(state, shared=merge_delta(state.shared, delta))


def settle(state: RunState, changes: Changes, call: Call, result: Result) -> RunState:
    """The call has its result: the ledger and the log say so. A result for which the run has no
    room left is replaced by an error."""
    result, size = bounded_result(result)
    if state.stored_bytes + size > MAX_RUN_BYTES:
        detail = f"The result has {size} bytes; the run may hold {MAX_RUN_BYTES} altogether."
        reason = Reason.INVALID_RESPONSE
        result = Result(CallOutcome.FAILED, texts.INVALID_RESPONSE, reason, detail=detail)
        size = count_json_bytes(result)
    settled = replace(call, phase=CallPhase.SETTLED, result=result)
    changes.put(settled)
    changes.progress = True
    shown, full = truncate(result.output, MAX_VALUE_BYTES)
    data: CallEndedData = {
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
    return replace(state.with_call(settled), stored_bytes=state.stored_bytes + size)


def start(
    state: RunState, changes: Changes, call: Call, *, seconds: float | None
) -> tuple[RunState, Call]:
    """The call is about to be sent: this must be committed before its first byte is. `seconds`
    is None for a call that has as long as its run."""
    started = replace(
        call,
        phase=CallPhase.STARTED,
        attempt=call.attempt + 1,
        fence=state.fence,
        timeout_seconds=seconds,
    )
    changes.put(started)
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
    changes.put(again)
    return state.with_call(again)


def recover(
    state: RunState, changes: Changes, find_tool: Callable[[Call], CompiledTool | None]
) -> RunState:
    """Calls that were in flight when their worker was lost: an idempotent one is ready again,
    any other may have taken effect and is not repeated."""
    for call in state.open_calls:
        if call.phase is not CallPhase.STARTED or call.fence == state.fence:
            continue
        tool = find_tool(call)
        if tool is not None and (tool.spec.idempotent or tool.spec.type in _REPEATABLE_TYPES):
            state = put_back(state, changes, call)
        else:
            detail = "The worker was lost while the call was in flight."
            verdict = (
                classify_unknown_outcome(tool.spec, detail) if tool else AwaitResolution(detail)
            )
            state = conclude(state, changes, call, verdict)
    return state


def close_open_calls(state: RunState, changes: Changes, reason: Reason) -> RunState:
    """The run ends: every open call gets a truthful result, every open request is withdrawn."""
    text = texts.CANCELLED if reason is Reason.RUN_CANCELLED else texts.RUN_ENDED
    for call in state.open_calls:
        sent = call.attempt > 0
        if call.approval_id is not None and call.phase is CallPhase.AWAITING_APPROVAL:
            changes.closed_approvals[call.approval_id] = "withdrawn"
        result = Result(
            CallOutcome.CANCELLED,
            f"{text} {texts.UNKNOWN_OUTCOME}" if sent else text,
            reason,
            detail="The call may have been sent." if sent else None,
        )
        state = settle(state, changes, call, result)
    return state


def truncate(output: JsonValue, max_bytes: int) -> tuple[JsonValue, JsonValue]:
    """`(shown, full)`: head and tail of what is longer than `max_bytes`; `full` is None where
    nothing was cut."""
    text = output if isinstance(output, str) else compact(output)
    raw = text.encode()
    if len(raw) <= max_bytes:
        return output, None
    marker = f"\n… {len(raw) - max_bytes} bytes left out …\n"
    half = max_bytes // 2
    head, tail = raw[:half].decode(errors="ignore"), raw[len(raw) - half :].decode(errors="ignore")
    return head + marker + tail, output
