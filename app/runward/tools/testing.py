"""For authors of plugins: run a tool in the same way as Runward, without a server.

result = await run_tool(convert, {"amount": 3}, state={"rate": 2})
assert result.output == 6
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any
from uuid import uuid4

from pydantic import JsonValue

from runward.domain.ids import CallId, ProjectId, RunId
from runward.domain.json import JsonObject
from runward.domain.run.items import part_to_json
from runward.domain.run.outcomes import Done, Failed, FailureKind, Outcome, Waits
from runward.domain.run.response import ReportedUsage
from runward.domain.schema.strict import strict_form
from runward.domain.schema.validator import Validator
from runward.tools.base import Invocation
from runward.tools.plugin.context import RuleContext
from runward.tools.plugin.errors import PluginError
from runward.tools.plugin.loader import Plugins
from runward.tools.plugin.registry import PluginHost
from runward.tools.plugin.tool import make_tool

__all__ = ["ToolResult", "approval_of", "run_tool", "run_tool_sync", "schema_of"]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of one call. `error` is for an operator and None after a success. `message` is the
    text for the model, or None if that is a fixed text. `state` contains the changed keys, and null
    for removed keys. `parts` have the shape of the API. `progress` holds fractions and messages.
    `usage` holds the reported usage of all attempts."""

    output: JsonValue = None
    error: str | None = None
    message: str | None = None
    timed_out: bool = False
    parts: tuple[JsonObject, ...] = ()
    state: JsonObject | None = None
    metadata: JsonObject | None = None
    transfer_to: str | None = None
    escalated: bool = False
    progress: tuple[tuple[float | None, str | None], ...] = ()
    usage: tuple[ReportedUsage, ...] = ()


async def run_tool(  # noqa: PLR0913
    tool: Any,
    arguments: JsonObject,
    *,
    context: Mapping[str, JsonValue] | None = None,
    state: Mapping[str, JsonValue] | None = None,
    secrets: Mapping[str, str] | None = None,
    handoffs: Sequence[str] = (),
    agent: str | None = "assistant",
    session_id: str | None = None,
    timeout_seconds: float | None = None,
    agents: Mapping[str, JsonValue] | None = None,
) -> ToolResult:
    """Call a function, decorated or not, or a BaseTool. `handoffs`: the agents that it can transfer
    to. `agents`: the agents that `ctx.run_agent` can run, each with its output. As in Runward, the
    function runs again after each of them. Raises PluginError for an object that cannot be loaded
    as a plugin."""
    made = make_tool(tool)
    spec = made.spec
    arguments_check = Validator(spec.parameters, strict=spec.strict)
    if problems := arguments_check.problems(arguments):
        message = "; ".join(f"{problem.path}: {problem.message}" for problem in problems)
        return ToolResult(error=message, message=message)
    told: list[tuple[float | None, str | None]] = []
    usage: list[ReportedUsage] = []

    def report(fraction: float | None, message: str | None) -> None:
        told.append((fraction, message))

    host = PluginHost(Plugins({spec.name: made}), secrets=secrets)
    invocation = Invocation(
        project_id=ProjectId(uuid4()),
        run_id=RunId(uuid4()),
        call_id=CallId("call_1"),
        call_uuid=uuid4(),
        tool=spec,
        tool_version=1,
        agent=agent,
        arguments=arguments_check.without_nulls(arguments),
        context=context,
        attempt=1,
        fence=1,
        seconds=timeout_seconds or spec.timeout_seconds or 30.0,
        callback_url="",
        callback_token="",
        secrets=(),
        session_id=session_id,
        state=state or {},
        handoffs=tuple(handoffs),
        report=report,
        add_usage=usage.append,
    )
    try:
        outcome = await _invoke(host, invocation, agents or {})
    finally:
        host.close()
    await asyncio.sleep(0)  # the last report of a thread
    return replace(_result(outcome, tuple(told)), usage=tuple(usage))


async def _invoke(host: PluginHost, call: Invocation, agents: Mapping[str, JsonValue]) -> Outcome:
    """Call the tool until it no longer requests agents. Each requested agent has run at once."""
    results: tuple[JsonObject, ...] = ()
    for attempt in count(1):
        again = replace(call, attempt=attempt, agent_results=results)
        outcome = await host.invoke(again)
        if not isinstance(outcome, Waits) or not outcome.agents:
            return outcome
        for request in outcome.agents:
            if request.agent not in agents:
                told = f"This project has no agent named '{request.agent}'."
                return Failed(FailureKind.ERROR, told, message=told)
            results += ({"digest": request.digest, "output": agents[request.agent]},)
    raise AssertionError("a call runs a limited number of agents")


def run_tool_sync(tool: Any, arguments: JsonObject, **options: Any) -> ToolResult:
    """Call `run_tool` in a test without an event loop. The options are the same."""
    return asyncio.run(run_tool(tool, arguments, **options))


def schema_of(tool: Any) -> JsonObject:
    """Return the arguments' schema as the model reads it. Raises PluginError."""
    spec = make_tool(tool).spec
    return strict_form(spec.parameters) if spec.strict else spec.parameters


async def approval_of(
    tool: Any,
    arguments: JsonObject,
    *,
    context: JsonObject | None = None,
    state: Mapping[str, JsonValue] | None = None,
    agent: str | None = "assistant",
    turn: int = 1,
) -> bool:
    """Return whether the tool's own callable requires approval, also if it fails. Raises
    PluginError for a tool whose approval is no callable."""
    made = make_tool(tool)
    if made.approval is None:
        raise PluginError(f"{made.reference}: the option `approval` is not a function")
    host = PluginHost(Plugins({made.spec.name: made}))
    about = RuleContext(
        run_id="run_test", agent=agent, turn=turn, context=context or {}, state=state or {}
    )
    return await host.needs_approval(made.spec, arguments, about)


def _result(outcome: Outcome, told: tuple[tuple[float | None, str | None], ...]) -> ToolResult:
    match outcome:
        case Failed():
            timed_out = outcome.reason is FailureKind.TIMEOUT
            return ToolResult(
                error=outcome.detail,
                message=outcome.message,
                timed_out=timed_out,
                progress=told,
            )
        case Done():
            return ToolResult(
                output=outcome.output,
                parts=tuple(part_to_json(part) for part in outcome.parts),
                state=outcome.state,
                metadata=outcome.metadata,
                transfer_to=outcome.transfer_to,
                escalated=outcome.escalate,
                progress=told,
            )
        case _:
            raise AssertionError("a plugin tool must return a result, not wait for a callback")
