"""Settling from outside: what a callback says, what the client does, and a person's word on an
unknown outcome."""

from dataclasses import replace
from typing import Annotated, Final, Literal, TypeAlias, assert_never

from pydantic import AfterValidator, Field, JsonValue, TypeAdapter

from runward.domain.events.event_types import bounded_field
from runward.domain.json import JsonObject, compact, same
from runward.domain.registry.tools import Frozen
from runward.domain.run import texts
from runward.domain.run.calls import Call, CallOutcome, CallPhase, Exchange, Reason, Result
from runward.domain.run.outcomes import Done, Failed, Why
from runward.domain.run.settle import Disposition, classify_outcome, completed, conclude, settle
from runward.domain.run.state import Changes, RunState
from runward.domain.run.tools import CompiledTool

MAX_ROUNDS: Final = 20
"""Times that one call may ask the caller."""
MAX_INPUT_BYTES: Final = 65_536
"""Of what a tool asks, and of what it wants to be given back, each."""
ANSWERABLE: Final = frozenset(
    {CallPhase.AWAITING_CALLBACK, CallPhase.AWAITING_RESULT, CallPhase.AWAITING_INPUT}
)
"""What somebody outside may say the result in."""


def _small(value: JsonValue) -> JsonValue:
    if len(compact(value).encode()) > MAX_INPUT_BYTES:
        raise ValueError(f"must have at most {MAX_INPUT_BYTES} bytes as JSON")
    return value


class ResolvedCompleted(Frozen):
    resolution: Literal["completed"]
    output: JsonValue


class ResolvedFailed(Frozen):
    resolution: Literal["failed"]
    message: Annotated[str, Field(max_length=4096)]


class ResolvedRetry(Frozen):
    """Send the call again: the person knows that it did not take effect."""

    resolution: Literal["retry"]


Resolution: TypeAlias = Annotated[
    ResolvedCompleted | ResolvedFailed | ResolvedRetry, Field(discriminator="resolution")
]


class Progress(Frozen):
    status: Literal["progress"]
    progress: Annotated[float, Field(ge=0, le=1)] | None = None
    message: Annotated[str, Field(max_length=4096)] | None = None


class CallbackCompleted(Frozen):
    status: Literal["completed"]
    output: JsonValue


class CallbackFailed(Frozen):
    status: Literal["failed"]
    message: Annotated[str, Field(max_length=4096)]


class InputRequired(Frozen):
    """The tool needs to know more, from whoever started the run."""

    status: Literal["input_required"]
    requests: Annotated[JsonValue, AfterValidator(_small)]
    state: Annotated[JsonValue, AfterValidator(_small)] = None


Answer: TypeAlias = CallbackCompleted | CallbackFailed
Callback: TypeAlias = Annotated[
    Progress | CallbackCompleted | CallbackFailed | InputRequired, Field(discriminator="status")
]


def resolve(
    state: RunState, changes: Changes, call: Call, tool: CompiledTool, resolution: Resolution
) -> RunState:
    match resolution:
        case ResolvedCompleted(output=output):
            result = replace(completed(output, tool.spec.max_output_bytes), reason=Reason.RESOLVED)
            return settle(state, changes, call, result)
        case ResolvedFailed(message=message):
            failed = Result(CallOutcome.FAILED, message or texts.TOOL_ERROR, Reason.RESOLVED)
            return settle(state, changes, call, failed)
        case ResolvedRetry():
            ready = replace(call, phase=CallPhase.READY)
            changes.put(ready)
            return state.with_call(ready)
        case _:
            assert_never(resolution)


def call_back(
    state: RunState, changes: Changes, call: Call, tool: CompiledTool, callback: Callback
) -> RunState:
    match callback:
        case CallbackCompleted() | CallbackFailed():
            return conclude(state, changes, call, _verdict(call, tool, callback))
        case InputRequired():
            return _ask_caller(state, changes, call, callback)
        case Progress():
            changes.add(
                "tool_call.progress",
                call_id=call.id,
                status="progress",
                progress=callback.progress,
                message=callback.message,
            )
            return state
        case _:
            assert_never(callback)


def _ask_caller(state: RunState, changes: Changes, call: Call, said: InputRequired) -> RunState:
    number = rounds(call) + 1
    exchange = Exchange(number, call.attempt, said.requests, said.state)
    asking = replace(call, phase=CallPhase.AWAITING_INPUT, exchange=exchange)
    changes.put(asking)
    changes.progress = True
    about = bounded_field("requests", said.requests)
    changes.add("tool_call.progress", call_id=call.id, status="input_required", **about)
    return state.with_call(asking)


def rounds(call: Call) -> int:
    """How often its tool has asked the caller."""
    return call.exchange.number if call.exchange else 0


def was_asked(call: Call, callback: Callback, attempt: int) -> bool:
    """Whether the call has asked just that already: it waits for the answer, or `attempt`, which
    says so, is the one that has asked."""
    asked = call.exchange
    return (
        isinstance(callback, InputRequired)
        and asked is not None
        and (call.phase is CallPhase.AWAITING_INPUT or attempt <= asked.attempt)
        and same([asked.requests, asked.state], [callback.requests, callback.state])
    )


def give_result(
    state: RunState, changes: Changes, call: Call, tool: CompiledTool, answer: Answer
) -> RunState:
    """The client has run its tool, or will not answer what a tool asks."""
    kept = replace(call, received=answer.model_dump(mode="json"))
    return conclude(state, changes, kept, _verdict(call, tool, answer))


def give_input(state: RunState, changes: Changes, call: Call, said: CallbackCompleted) -> RunState:
    """The answer to what the tool asked: it is sent again, with that."""
    assert call.exchange is not None
    exchange = replace(call.exchange, answered=True, responses=said.output)
    ready = replace(call, phase=CallPhase.READY, exchange=exchange)
    changes.put(ready)
    changes.progress = True
    changes.add("tool_call.progress", call_id=call.id, status="input_given")
    return state.with_call(ready)


def given_before(call: Call, answer: Answer) -> bool | None:
    """Whether the client has said just that, or something else (False), or nothing yet (None)."""
    if call.received is not None:
        return same(call.received, answer.model_dump(mode="json"))
    if call.exchange is None or not call.exchange.answered:
        return None
    return isinstance(answer, CallbackCompleted) and same(call.exchange.responses, answer.output)


def checks_results(state: RunState, tool: CompiledTool) -> bool:
    """Whether the tool or the run's agent has guardrails or hooks that see results."""
    config = state.config
    guardrails = (*tool.spec.guardrails, *config.guardrails)
    return any(one.stage == "output" for one in guardrails) or any(
        one.on == "after_tool" for one in config.hooks
    )


def keep(changes: Changes, call: Call, answer: Answer) -> None:
    """The answer is here, and waits for the loop to show it to guardrails and hooks."""
    changes.put(replace(call, received=answer.model_dump(mode="json")))
    changes.add("tool_call.progress", call_id=call.id, status="received")


def says_the_same(call: Call, tool: CompiledTool, answer: Answer) -> bool:
    """Whether it would have given the settled call the very result that it has; where that was
    shown to guardrails and hooks first, whether it is what they were shown."""
    if call.received is not None:
        return same(call.received, answer.model_dump(mode="json"))
    verdict, result = _verdict(call, tool, answer), call.result
    return (
        result is not None
        and isinstance(verdict, Result)
        and (verdict.outcome, verdict.reason) == (result.outcome, result.reason)
        and same([verdict.output, verdict.full], [result.output, result.full])
    )


_SAID: Final = TypeAdapter[Answer](Annotated[Answer, Field(discriminator="status")])


def outcome_of_callback(received: JsonObject) -> Done | Failed:
    """Of an answer that was kept until the loop looks at it."""
    return _outcome(_SAID.validate_python(received))


def _outcome(answer: Answer) -> Done | Failed:
    match answer:
        case CallbackCompleted(output=output):
            return Done(output)
        case CallbackFailed(message=message):
            return Failed(Why.ERROR, "Whoever ran the tool said so.", message)
        case _:
            assert_never(answer)


def _verdict(call: Call, tool: CompiledTool, answer: Answer) -> Disposition:
    """Never to try again: there is no time left for that."""
    return classify_outcome(tool, call, _outcome(answer), seconds_left=0, jitter=0)
