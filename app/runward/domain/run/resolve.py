"""Results from outside the loop: from callbacks, from the client, and from people who record
unknown outcomes."""

from dataclasses import replace
from typing import Annotated, Final, Literal, TypeAlias, assert_never

from pydantic import AfterValidator, Field, JsonValue, TypeAdapter

from runward.domain.events.kinds import ToolCallProgressEvent
from runward.domain.events.values import CallReason
from runward.domain.json import JsonObject, compact, is_same_json
from runward.domain.registry.tools import Frozen
from runward.domain.run import texts
from runward.domain.run.envelopes import EnvelopeFields, make_done
from runward.domain.run.outcomes import Done, Failed, FailureKind, NeedsInput
from runward.domain.run.settle import (
    Disposition,
    classify_outcome,
    conclude,
    make_completed_result,
    request_input,
    settle,
)
from runward.domain.run.state import Call, CallOutcome, CallPhase, Changes, Result, RunState
from runward.domain.run.tools import CompiledTool

MAX_INPUT_BYTES: Final = 65_536
"""Maximum size in bytes of a tool's input request, and of the state that it stores with the
request."""
ANSWERABLE_PHASES: Final = frozenset(
    {CallPhase.AWAITING_CALLBACK, CallPhase.AWAITING_RESULT, CallPhase.AWAITING_INPUT}
)
"""Phases in which a result from outside is accepted."""


def dump_answer(answer: Frozen) -> JsonObject:
    """Return a result from outside as Runward stores and compares it."""
    return answer.model_dump(mode="json", exclude_defaults=True)


def _check_size(value: JsonValue) -> JsonValue:
    if len(compact(value).encode()) > MAX_INPUT_BYTES:
        raise ValueError(f"must have at most {MAX_INPUT_BYTES} bytes as JSON")
    return value


class CompletedResolution(Frozen):
    """Record that the call took effect, together with its output."""

    resolution: Literal["completed"]
    """`completed`: the call took effect."""
    output: JsonValue
    """Output of the call. The model reads it."""


class FailedResolution(Frozen):
    """Record that the call did not take effect."""

    resolution: Literal["failed"]
    """`failed`: the call did not take effect."""
    message: Annotated[str, Field(max_length=4096)]
    """Error message that the model reads."""


class RetryResolution(Frozen):
    """Record that the call did not take effect, so that Runward sends it again."""

    resolution: Literal["retry"]
    """`retry`: the call did not take effect, and Runward sends it again."""


Resolution: TypeAlias = Annotated[
    CompletedResolution | FailedResolution | RetryResolution, Field(discriminator="resolution")
]


class CallbackProgress(Frozen):
    """Progress of a call that the tool is still working on."""

    status: Literal["progress"]
    """`progress`: the tool is still working."""
    progress: Annotated[float, Field(ge=0, le=1)] | None = None
    """Progress from 0 to 1. Null if the progress is unknown."""
    message: Annotated[str, Field(max_length=4096)] | None = None
    """Progress message for the event log. The model does not see it."""


class _CompletedOutput(Frozen):
    status: Literal["completed"]
    """`completed`: the tool has finished and returns the result."""
    output: JsonValue
    """Result of the call: any JSON value."""


class CallbackCompleted(EnvelopeFields, _CompletedOutput):
    """The result of a call. Only tools with `"response": "envelope"` can set other fields than
    `output`."""


class CallbackFailed(Frozen):
    """The failure of a call."""

    status: Literal["failed"]
    """`failed`: the tool failed and has no result."""
    message: Annotated[str, Field(max_length=4096)]
    """Error message that the model reads."""


class CallbackInputRequired(Frozen):
    """The tool needs more input from the client that started the run."""

    status: Literal["input_required"]
    """`input_required`: the tool needs input from the client."""
    requests: Annotated[JsonValue, AfterValidator(_check_size)]
    """Description of the input that the tool needs, as text or as JSON that the client understands.
    At most 64 KiB as JSON."""
    state: Annotated[JsonValue, AfterValidator(_check_size)] = None
    """State that Runward returns to the tool unchanged together with the input. At most 64 KiB as
    JSON."""


Answer: TypeAlias = CallbackCompleted | CallbackFailed
Callback: TypeAlias = Annotated[
    CallbackProgress | CallbackCompleted | CallbackFailed | CallbackInputRequired,
    Field(discriminator="status"),
]


def apply_resolution(
    state: RunState, changes: Changes, call: Call, tool: CompiledTool, resolution: Resolution
) -> RunState:
    match resolution:
        case CompletedResolution(output=output):
            result = replace(
                make_completed_result(output, tool.spec.max_output_bytes),
                reason=CallReason.RESOLVED,
            )
            return settle(state, changes, call, result)
        case FailedResolution(message=message):
            failed = Result(CallOutcome.FAILED, message or texts.TOOL_ERROR, CallReason.RESOLVED)
            return settle(state, changes, call, failed)
        case RetryResolution():
            ready = replace(call, phase=CallPhase.READY)
            changes.put_call(ready)
            return state.with_call(ready)
        case _:
            assert_never(resolution)


def apply_callback(
    state: RunState, changes: Changes, call: Call, tool: CompiledTool, callback: Callback
) -> RunState:
    match callback:
        case CallbackCompleted() | CallbackFailed():
            return conclude(state, changes, call, _classify_answer(call, tool, callback))
        case CallbackInputRequired():
            request = NeedsInput(callback.requests, callback.state)
            return request_input(state, changes, call, request)
        case CallbackProgress():
            changes.add(
                ToolCallProgressEvent(
                    {
                        "call_id": call.id,
                        "status": "progress",
                        "progress": callback.progress,
                        "message": callback.message,
                    }
                )
            )
            return state
        case _:
            assert_never(callback)


def is_repeated_request(call: Call, callback: Callback, attempt: int) -> bool:
    """Return whether the request repeats the current one: the call already waits for the same
    input, or it was sent by the same `attempt`."""
    asked = call.exchange
    return (
        isinstance(callback, CallbackInputRequired)
        and asked is not None
        and (call.phase is CallPhase.AWAITING_INPUT or attempt <= asked.attempt)
        and is_same_json([asked.requests, asked.state], [callback.requests, callback.state])
    )


def apply_client_result(
    state: RunState, changes: Changes, call: Call, tool: CompiledTool, answer: Answer
) -> RunState:
    """Apply the result of a client tool, or the client's refusal to provide input."""
    kept = replace(call, received=dump_answer(answer))
    return conclude(state, changes, kept, _classify_answer(call, tool, answer))


def apply_client_input(
    state: RunState, changes: Changes, call: Call, answer: CallbackCompleted
) -> RunState:
    """Apply the client's input. The call is sent again, together with the input."""
    assert call.exchange is not None
    exchange = replace(call.exchange, answered=True, responses=answer.output)
    ready = replace(call, phase=CallPhase.READY, exchange=exchange)
    changes.put_call(ready)
    changes.progress = True
    changes.add(ToolCallProgressEvent({"call_id": call.id, "status": "input_given"}))
    return state.with_call(ready)


def compare_with_earlier_answer(call: Call, answer: Answer) -> bool | None:
    """Compare `answer` with the client's earlier result. Returns True if they are the same, False
    if they differ, and None if there is no earlier result."""
    if call.received is not None:
        return is_same_json(call.received, dump_answer(answer))
    if call.exchange is None or not call.exchange.answered:
        return None
    return isinstance(answer, CallbackCompleted) and is_same_json(
        call.exchange.responses, answer.output
    )


def checks_results(state: RunState, tool: CompiledTool) -> bool:
    """Return whether the tool or the run's agent has guardrails or hooks that check results."""
    config = state.config
    guardrails = (*tool.spec.guardrails, *config.guardrails)
    return any(one.stage == "output" for one in guardrails) or any(
        one.on == "after_tool" for one in config.hooks
    )


def needs_loop(state: RunState, tool: CompiledTool) -> bool:
    """Return whether only the loop can apply a result of the tool: it checks the result, or applies
    the state and the handoff of an envelope."""
    return tool.spec.response == "envelope" or checks_results(state, tool)


def keep_answer(changes: Changes, call: Call, answer: Answer) -> None:
    """Store a result until the loop passes it to guardrails and hooks."""
    changes.put_call(replace(call, received=dump_answer(answer)))
    changes.add(ToolCallProgressEvent({"call_id": call.id, "status": "received"}))


def matches_result(call: Call, tool: CompiledTool, answer: Answer) -> bool:
    """Return whether `answer` equals the result of the settled call. If guardrails or hooks checked
    the result, `answer` is compared with the result before the check."""
    if call.received is not None:
        return is_same_json(call.received, dump_answer(answer))
    verdict, result = _classify_answer(call, tool, answer), call.result
    return (
        result is not None
        and isinstance(verdict, Result)
        and (verdict.outcome, verdict.reason) == (result.outcome, result.reason)
        and is_same_json([verdict.output, verdict.full], [result.output, result.full])
    )


_ANSWER_ADAPTER: Final = TypeAdapter[Answer](Annotated[Answer, Field(discriminator="status")])


def parse_kept_answer(answer: JsonObject) -> Done | Failed:
    """Parse a result that was stored until the loop checks it."""
    return _read_answer(_ANSWER_ADAPTER.validate_python(answer))


def _read_answer(answer: Answer) -> Done | Failed:
    match answer:
        case CallbackCompleted(output=output):
            return make_done(output, answer)
        case CallbackFailed(message=message):
            return Failed(
                FailureKind.ERROR,
                "The client or the tool's callback reported that the call failed.",
                message,
            )
        case _:
            assert_never(answer)


def _classify_answer(call: Call, tool: CompiledTool, answer: Answer) -> Disposition:
    """Return the disposition that follows from the answer. `seconds_left` is 0, so a failed call is
    never retried."""
    return classify_outcome(tool, call, _read_answer(answer), seconds_left=0, jitter=0)
