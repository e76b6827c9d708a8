"""Settling from outside: a callback's result, and a person's word on an unknown outcome."""

from dataclasses import replace
from typing import Annotated, Final, Literal, TypeAlias, assert_never

from pydantic import Field, JsonValue, TypeAdapter

from app.domain import texts
from app.domain.calls import Call, CallOutcome, CallPhase, Reason, Result
from app.domain.json import JsonObject, same
from app.domain.outcomes import Done, Failed, Why
from app.domain.settle import Verdict, completed, conclude, judge, settle
from app.domain.state import Changes, RunState
from app.domain.toolbox import Tool
from app.domain.tools import Frozen


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


Callback: TypeAlias = Annotated[
    Progress | CallbackCompleted | CallbackFailed, Field(discriminator="status")
]


def resolve(state: RunState, changes: Changes, call: Call, tool: Tool, how: Resolution) -> RunState:
    match how:
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
            assert_never(how)


def call_back(
    state: RunState, changes: Changes, call: Call, tool: Tool, said: Callback
) -> RunState:
    if not isinstance(said, Progress):
        return conclude(state, changes, call, _verdict(call, tool, said))
    changes.add(
        "tool_call.progress",
        call_id=call.id,
        status="progress",
        progress=said.progress,
        message=said.message,
    )
    return state


def checks_results(state: RunState, tool: Tool) -> bool:
    """Whether the tool or the run's agent has guardrails or hooks that see results."""
    config = state.config
    guardrails = (*tool.spec.guardrails, *config.guardrails)
    return any(one.stage == "output" for one in guardrails) or any(
        one.on == "after_tool" for one in config.hooks
    )


def keep(changes: Changes, call: Call, said: CallbackCompleted | CallbackFailed) -> None:
    """The answer is here, and waits for the loop to show it to guardrails and hooks."""
    changes.put(replace(call, received=said.model_dump(mode="json")))
    changes.add("tool_call.progress", call_id=call.id, status="received")


def says_the_same(call: Call, tool: Tool, said: CallbackCompleted | CallbackFailed) -> bool:
    """Whether it would have given the settled call the very result that it has; where that was
    shown to guardrails and hooks first, whether it is what they were shown."""
    if call.received is not None:
        return same(call.received, said.model_dump(mode="json"))
    verdict, result = _verdict(call, tool, said), call.result
    return (
        result is not None
        and isinstance(verdict, Result)
        and (verdict.outcome, verdict.reason) == (result.outcome, result.reason)
        and same([verdict.output, verdict.full], [result.output, result.full])
    )


_SAID: Final = TypeAdapter[CallbackCompleted | CallbackFailed](
    Annotated[CallbackCompleted | CallbackFailed, Field(discriminator="status")]
)


def outcome_of_callback(received: JsonObject) -> Done | Failed:
    """Of an answer that was kept until the loop looks at it."""
    return _outcome(_SAID.validate_python(received))


def _outcome(said: CallbackCompleted | CallbackFailed) -> Done | Failed:
    match said:
        case CallbackCompleted(output=output):
            return Done(output)
        case CallbackFailed(message=message):
            return Failed(Why.ERROR, "The tool said so in its callback.", message)
        case _:
            assert_never(said)


def _verdict(call: Call, tool: Tool, said: CallbackCompleted | CallbackFailed) -> Verdict:
    """Never to try again: there is no time left for that."""
    return judge(tool, call, _outcome(said), seconds_left=0, jitter=0)
