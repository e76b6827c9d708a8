"""The parsed calls of a response, and the reasons why a call cannot run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from runward.domain.errors import FieldError
from runward.domain.events.values import CallReason
from runward.domain.ids import CallId
from runward.domain.immutable import immutable
from runward.domain.json import JsonObject
from runward.domain.registry.guards import GuardrailVerdict
from runward.domain.registry.tools import EXCEED_BUDGET
from runward.domain.run import texts
from runward.domain.run.items import Native
from runward.domain.run.repeated_calls import STOP_AT, count_identical_before
from runward.domain.run.response import ModelResponse
from runward.domain.run.state import Call, CallOutcome, Result, RunState
from runward.domain.run.tools import CompiledTool


@immutable
class Turn:
    """The tools and the conversation that the model saw in this turn."""

    tools: Mapping[str, CompiledTool]
    mint: Callable[[], UUID]
    segments_before: int | None = None
    """Number of segments of the conversation that the model read. None: all current segments."""
    hidden_tools: frozenset[str] = frozenset()
    """Tools that the model would see if it had searched for them."""


@immutable
class ParsedCall:
    """A call that the model requested. `raw` contains the text of its arguments if the text is not
    a JSON object. `problem`: the text is not a JSON object, or the response was truncated in the
    call. `misfit`: why the arguments do not match the tool's schema."""

    id: CallId
    name: str
    arguments: JsonObject
    raw: str | None
    number: int
    """Position of the call among the calls of the response."""
    native: Native | None
    tool: CompiledTool | None
    """None: the model saw no tool with this name."""
    problem: Result | None
    misfit: Result | None
    needs_approval: bool = False
    verdict: GuardrailVerdict | None = None
    """The verdict of guardrails that run before an approval is created."""


@immutable
class ParsedResponse:
    """A storable response, its size as JSON, and its calls. A call that the response repeats is
    included once."""

    response: ModelResponse
    size: int
    calls: tuple[ParsedCall, ...]


def _has_too_many_calls(state: RunState) -> bool:
    most = state.config.limits.max_tool_calls
    return len(state.calls) >= most and count_calls(state) >= most


def count_calls(state: RunState) -> int:
    """Return the number of calls that count for `max_tool_calls`."""
    return sum(call.tool != EXCEED_BUDGET for call in state.calls.values())


def find_refusal(state: RunState, call: Call, parsed: ParsedCall, turn: Turn) -> Result | None:
    """Return the result of a call that cannot run, or None if it can run. The reasons are checked
    in this order."""
    if _has_too_many_calls(state):
        return make_failed_result(CallReason.LIMIT, texts.TOO_MANY_CALLS)
    tool = parsed.tool
    if tool is None or not _is_callable(tool, parsed):
        fails = state.config.on_unknown_tool == "fail_run"
        hidden = call.tool in turn.hidden_tools
        text = (
            texts.search_first(call.tool) if hidden else texts.unknown_tool(call.tool, turn.tools)
        )
        return replace(make_failed_result(CallReason.UNKNOWN_TOOL, text), fails_run=fails)
    if (problem := parsed.problem or parsed.misfit) is not None:
        return replace(problem, fails_run=tool.spec.on_error == "fail_run")
    if state.config.kind == "llm" and count_identical_before(state, call) + 1 >= STOP_AT:
        return make_failed_result(CallReason.REPEATED, texts.REPEATED)
    return None


def _is_callable(tool: CompiledTool, parsed: ParsedCall) -> bool:
    """Return whether the model may call the tool. Hosted tools are not functions, so a model cannot
    call them. An exception is a provider's request to call a tool of a hosted MCP server."""
    hosted = tool.spec.hosted
    return hosted is None or (hosted.kind == "mcp" and parsed.native is not None)


def make_invalid_result(name: str, problems: Sequence[FieldError]) -> Result:
    text = texts.invalid_arguments(name, problems)
    return make_failed_result(CallReason.INVALID_ARGUMENTS, text)


def make_failed_result(reason: CallReason, text: str) -> Result:
    return Result(CallOutcome.FAILED, text, reason)
