"""Execute the plugins of this process: their tools, guardrails and hooks, and the callables that
decide about approval and availability of tools."""

import asyncio
import copy
import inspect
import threading
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, ParamSpec, cast

import structlog

from runward.domain.ids import Prefix, format_id
from runward.domain.json import JsonObject, clean_json, clean_text
from runward.domain.registry.guards import (
    Allow,
    Fail,
    GuardrailVerdict,
    HookAnswer,
    HookFailure,
    Instead,
    NoChange,
    Reject,
)
from runward.domain.registry.tools import ToolSpec
from runward.domain.run.outcomes import Failed, FailureKind, Outcome
from runward.tools.base import Invocation
from runward.tools.plugin.context import (
    CallFacts,
    GuardContext,
    RuleContext,
    ToolContext,
    jsonable,
)
from runward.tools.plugin.declarations import NamedCheck
from runward.tools.plugin.function_call import (
    FunctionRun,
    LeaseGoneError,
    call_directly,
    describe_error,
    limit_time,
    raised_at,
    run_function,
)
from runward.tools.plugin.loader import Plugins
from runward.tools.plugin.processes import Processes
from runward.tools.plugin.threads import ThreadSlots
from runward.tools.plugin.tool import PluginTool
from runward.tracing import write_trace

log = structlog.get_logger()
P = ParamSpec("P")

RULE_SECONDS: Final = 5.0
"""Time limit in seconds for a callable that decides whether a call requires approval, whether a
tool is shown, or what the model reads about an error."""
RULE_THREADS: Final = 32
"""Threads for deciding callables, guardrails and hooks, so that busy tools do not delay them."""


class PluginHost:
    """Calls plugins' functions. `threads` is the number of synchronous functions, and of processes,
    that run at once. `secrets` are the values that `ctx.secret(name)` returns, by name."""

    def __init__(
        self, plugins: Plugins, *, threads: int = 32, secrets: Mapping[str, str] | None = None
    ) -> None:
        self._plugins = plugins
        self._secrets: Final = dict(secrets or {})
        self._threads = ThreadSlots(threads)
        self._deciding = ThreadSlots(RULE_THREADS)
        self._processes = Processes(threads)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The specs of all loaded tools, as declared in code."""
        return tuple(tool.spec for tool in self._plugins.tools.values())

    def __contains__(self, name: str) -> bool:
        """Return whether a tool of that name is loaded."""
        return name in self._plugins.tools

    def spec_of(self, name: str) -> ToolSpec | None:
        """Return the tool's spec as declared in code."""
        tool = self._plugins.tools.get(name)
        return None if tool is None else tool.spec

    async def invoke(self, call: Invocation) -> Outcome:
        tool = self._plugins.tools.get(call.tool.name)
        if tool is None:
            detail = f"No plugin in this process has a tool named '{call.tool.name}'."
            return Failed(FailureKind.NOT_SENT, detail, permanent=True)
        facts = _facts(call)
        report, add_usage = _on_this_loop(call.report), _on_this_loop(call.add_usage)
        ctx = ToolContext(facts, secrets=self._secrets, report=report, add_usage=add_usage)
        explains = tool.on_error is not None and call.tool.on_error == tool.spec.on_error
        busy = [tool.isolation == "thread" and not tool.on_loop]
        if tool.isolation == "process":
            work = self._processes.run(
                tool.reference,
                facts,
                call.arguments,
                explains=explains,
                secrets=self._secrets,
                report=report,
                add_usage=add_usage,
                may_send=call.may_send,
            )
        else:
            run = self._runner(tool, call, busy)
            explain = partial(self._explain, tool.on_error) if explains else None
            work = run_function(tool.bind, run, ctx, call.arguments, explain)
        outcome = await limit_time(work, ctx, seconds=call.seconds, tool_name=tool.spec.name)
        if busy[0] and isinstance(outcome, Failed) and outcome.reason is FailureKind.TIMEOUT:
            detail = (
                f"No thread was free for the plugin. {self._threads.abandoned} threads "
                "still run functions that timed out."
            )
            return Failed(FailureKind.NOT_SENT, detail)
        return outcome

    async def needs_approval(self, spec: ToolSpec, arguments: JsonObject, ctx: RuleContext) -> bool:
        """Return the result of the callable of `spec.approval`. True if it fails, takes too long,
        or is not loaded."""
        tool = self._plugins.tools.get(spec.name)
        if tool is None or tool.approval is None or tool.spec.approval != spec.approval:
            return True
        decided = await self._decide(tool.approval, "approval", spec, ctx, copy.deepcopy(arguments))
        return decided is not False

    async def is_enabled(self, spec: ToolSpec, ctx: RuleContext) -> bool:
        """Return the result of the callable of `spec.enabled`. False if it fails, takes too long,
        or is not loaded."""
        tool = self._plugins.tools.get(spec.name)
        if tool is None or tool.enabled is None or tool.spec.enabled != spec.enabled:
            return False
        return await self._decide(tool.enabled, "enabled", spec, ctx) is True

    @property
    def guardrail_names(self) -> frozenset[str]:
        return frozenset(self._plugins.guardrails)

    @property
    def hook_names(self) -> frozenset[str]:
        return frozenset(self._plugins.hooks)

    async def run_guardrail(self, name: str, payload: JsonObject) -> GuardrailVerdict:
        """Return the guardrail's verdict. A value that is not a verdict rejects. Never raises. The
        caller limits the time."""
        guardrail = self._plugins.guardrails.get(name)
        if guardrail is None:
            return Reject("", detail="No plugin in this process has this guardrail.")
        try:
            return _verdict(await self._check(guardrail, payload))
        except Exception as error:
            _log_failure("plugin_guardrail_failed", name, error)
            return Reject("", detail=describe_error(error))

    async def run_hook(self, name: str, payload: JsonObject) -> HookAnswer:
        """Return the hook's answer. Never raises. The caller limits the time."""
        hook = self._plugins.hooks.get(name)
        if hook is None:
            return HookFailure("No plugin in this process has this hook.")
        try:
            return _hook_answer(await self._check(hook, payload))
        except Exception as error:
            _log_failure("plugin_hook_failed", name, error)
            return HookFailure(describe_error(error))

    def close(self) -> None:
        """End the processes. Threads are daemons and are not waited for."""
        self._processes.close()

    async def _explain(self, on_error: Callable[..., Any] | None, error: Exception) -> Any:
        assert on_error is not None
        async with asyncio.timeout(RULE_SECONDS):
            return await self._call(on_error, error)

    def _runner(self, tool: PluginTool, call: Invocation, busy: list[bool]) -> FunctionRun:
        """Return a runner for the tool. `busy[0]` becomes False when a thread is free."""
        if tool.on_loop:
            return call_directly

        def started() -> None:
            busy[0] = False

        async def waited() -> None:
            if not await call.may_send():
                raise LeaseGoneError

        def on_thread(made: Callable[[], Any]) -> Awaitable[Any]:
            return self._threads.run(
                made, tool_name=tool.spec.name, on_start=started, after_wait=waited
            )

        return on_thread

    async def _check(self, check: NamedCheck, payload: JsonObject) -> Any:
        return await self._call(check.function, _guard_context(payload), copy.deepcopy(payload))

    async def _decide(
        self, function: Callable[..., Any], what: str, spec: ToolSpec, *args: Any
    ) -> Any:
        """Return the callable's decision, or None if it did not decide."""
        try:
            async with asyncio.timeout(RULE_SECONDS):
                decided = await self._call(function, *args)
            if isinstance(decided, bool):
                return decided
            raise TypeError(
                f"the function returned {type(decided).__name__} instead of True or False"
            )
        except Exception as error:
            _log_failure(f"plugin_{what}_failed", spec.name, error)
            return None

    async def _call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call the function on the loop or on a thread. An exception that would end the process or
        the task becomes an error."""
        asking = asyncio.ensure_future(self._run_function(function, *args))
        try:
            await asyncio.wait({asking})
        finally:
            asking.cancel()
        if asking.cancelled():
            raise RuntimeError("the function raised CancelledError, although it was not cancelled")
        error = asking.exception()
        if error is not None and not isinstance(error, Exception):  # it would end the worker
            raise RuntimeError(type(error).__name__) from error
        return asking.result()

    async def _run_function(self, function: Callable[..., Any], *args: Any) -> Any:
        try:
            if inspect.iscoroutinefunction(function):
                return await function(*args)
            name = getattr(function, "__name__", "callable")
            value = await self._deciding.run(lambda: function(*args), tool_name=name)
            return await value if inspect.isawaitable(value) else value
        except (SystemExit, KeyboardInterrupt) as error:
            raise RuntimeError(type(error).__name__) from error


def _facts(call: Invocation) -> CallFacts:
    return CallFacts(
        run_id=format_id(Prefix.RUN, call.run_id),
        call_id=call.call_id,
        idempotency_key=format_id(Prefix.CALL, call.call_uuid),
        attempt=call.attempt,
        agent=call.agent,
        session_id=call.session_id,
        context=dict(call.context or {}),
        state=dict(call.state),
        handoffs=call.handoffs,
        seconds=call.seconds,
        agent_results=call.agent_results,
        trace=write_trace(),
    )


def _on_this_loop(report: Callable[P, None]) -> Callable[P, None]:
    """Return a `report` that can be called from any thread."""
    loop, here = asyncio.get_running_loop(), threading.get_ident()

    def tell(*args: P.args, **kwargs: P.kwargs) -> None:
        if threading.get_ident() == here:
            report(*args, **kwargs)
        elif not loop.is_closed():
            loop.call_soon_threadsafe(partial(report, *args, **kwargs))

    return tell


def _guard_context(payload: JsonObject) -> GuardContext:
    context = payload.get("context")
    return GuardContext(
        stage=_text(payload, "stage") or _text(payload, "on") or "",
        run_id=_text(payload, "run_id") or "",
        agent=_text(payload, "agent"),
        tool=_text(payload, "tool"),
        call_id=_text(payload, "call_id"),
        context=copy.deepcopy(context) if isinstance(context, dict) else {},
    )


def _text(payload: JsonObject, key: str) -> str | None:
    value = payload.get(key)
    return value if isinstance(value, str) else None


def _verdict(answer: Any) -> GuardrailVerdict:
    match answer:
        case None | True:
            return Allow()
        case False:
            return Reject("")
        case str(text):
            return Reject(clean_text(text))
        case Allow() | Reject() | Fail():
            return answer
        case _:
            kind = type(answer).__name__
            return Reject("", detail=f"The guardrail returned {kind}, which is not a verdict.")


def _hook_answer(answer: Any) -> HookAnswer:
    if answer is None:
        return NoChange()
    if not isinstance(answer, Instead):
        return HookFailure(
            f"The hook returned {type(answer).__name__}. It must return None or Instead(value)."
        )
    value, _ = clean_json(jsonable(answer.value))
    calls, _ = clean_json(jsonable(answer.calls))
    if answer.metadata is None:
        return Instead(value, calls=calls)
    metadata, _ = clean_json(jsonable(cast(object, answer.metadata)))
    if not isinstance(metadata, dict):
        return HookFailure("The metadata of the returned Instead must be a dict.")
    return Instead(value, metadata, calls)


def _log_failure(event: str, name: str, error: Exception) -> None:
    log.warning(event, name=name, error=type(error).__name__, at=raised_at(error))
