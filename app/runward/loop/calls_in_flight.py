"""The tools that one run can use, and its calls in flight. Each call has one task, and one deadline
for all its attempts."""

import asyncio
import math
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Final, Literal, TypeAlias, assert_never

import structlog
from structlog.contextvars import bind_contextvars

from runward.domain.ids import CallId, Prefix, format_id
from runward.domain.json import JsonObject
from runward.domain.registry.tools import Concurrency, ToolSpec
from runward.domain.run import team
from runward.domain.run.bounds import bounded_outcome, bounded_progress
from runward.domain.run.builtins import BUILTINS, visible_tools
from runward.domain.run.child_runs import read_agent_results
from runward.domain.run.config import get_inline_tools
from runward.domain.run.envelopes import check_handoff
from runward.domain.run.failures import AwaitResolution
from runward.domain.run.outcomes import Done, Failed, FailureKind, NeedsInput, Outcome, Waits
from runward.domain.run.parsed_calls import ParsedCall
from runward.domain.run.response import ReportedUsage
from runward.domain.run.settle import (
    AwaitCallback,
    AwaitInput,
    AwaitResult,
    Disposition,
    StartChild,
    TryAgain,
    classify_outcome,
    limit_input_requests,
)
from runward.domain.run.state import Call, CallPhase, Result, RunState
from runward.domain.run.tools import CompiledTool
from runward.loop.checks import Checks
from runward.loop.engine import ToolAccess
from runward.loop.project_cache import ProjectPolicy
from runward.loop.spans import NO_TRACE, RunTrace
from runward.loop.tool_rules import add_approvals, find_enabled_tools
from runward.loop.toolbox import SMALLEST_SECONDS, SignedTool, ToolSet
from runward.metrics.definitions import RETRIES, TOOL_ERRORS, TOOL_SECONDS
from runward.store.postgres.db import retry_on_outage
from runward.tools.base import FixedInvoker, Invocation, ToolInvoker

log = structlog.get_logger()

MAX_PROGRESS: Final = 100
"""Progress reports of one call in one claim. Later ones are dropped."""


@dataclass(frozen=True, slots=True)
class CallEnd:
    """The end of a call's last attempt. The outcome is never `TryAgain`."""

    disposition: Disposition
    state_delta: JsonObject | None = None
    """The tool's changes to the shared state."""


AttemptEnd: TypeAlias = CallEnd | Literal["retry"]
"""`retry`: the pause before the call's next attempt is over, so the call is ready again."""
ReportProgress: TypeAlias = Callable[[Call, float | None, str | None], None]
"""Take the progress of a call, from 0 to 1, and a message."""


class AvailableTools:
    """The tools that the run can show, shows now, or has open calls of."""

    def __init__(self, tools: ToolAccess) -> None:
        self._toolbox = tools.toolbox
        self._inline = tools.inline
        self._rules = tools.rules
        self._defined = ToolSet({})
        self.caps: dict[str, Concurrency] = {}
        """The limits of concurrent calls, by the name of the tool."""
        self._unregistered: dict[str, CompiledTool] = {}
        self.enabled: dict[str, CompiledTool] = {}
        """The registered and inline tools that `evaluate` found enabled."""

    async def load(self, state: RunState) -> None:
        """Read the tools of a run that was read again."""
        wanted = {
            *state.tool_versions.items(),
            *((t.name, t.version) for t in self.enabled.values()),
        }
        wanted |= {(call.tool, call.version) for call in state.open_calls if call.version}
        fetch = self._toolbox.fetch
        registered = await retry_on_outage(lambda: fetch(state.project_id, wanted))
        inline_tools = get_inline_tools(state.config)
        signed = await self._inline.sign(state.project_id, inline_tools, self._defined)
        self._defined = registered.combine(signed)
        self._unregistered = team.build_unregistered_tools(state.config, state.team)
        current = self._defined.current(state)
        self.caps = {name: tool.spec.concurrency for name, tool in current.items()}

    async def evaluate(self, state: RunState) -> None:
        """Find the enabled tools. `state`: the run at the time of the model request. Rules see the
        same turn number when the tools are shown and when their calls start."""
        self.enabled = await find_enabled_tools(self._defined, state, self._rules)

    async def add_approvals(self, calls: Sequence[ParsedCall], state: RunState) -> list[ParsedCall]:
        """Return the calls, each with whether it requires approval."""
        return await add_approvals(calls, state, self._rules)

    def visible(self, state: RunState) -> dict[str, CompiledTool]:
        """Return the tools that the model sees in this turn."""
        return visible_tools(state, self.enabled, self._unregistered)

    @property
    def of_workflow(self) -> dict[str, CompiledTool]:
        return {**self.enabled, **self._unregistered}

    @property
    def callable(self) -> dict[str, CompiledTool]:
        """Return the tools whose calls can start now."""
        return {**BUILTINS, **self.enabled, **self._unregistered}

    def find(self, call: Call) -> CompiledTool | None:
        """Return the version of the tool that the call uses, or None if the tool does not exist."""
        signed = self._defined.find(call)
        return signed.tool if signed else {**BUILTINS, **self._unregistered}.get(call.tool)

    def sign(self, call: Call) -> SignedTool:
        """Return the version of the tool that the call uses, and its signing secrets."""
        signed = self._defined.find(call)
        return signed or SignedTool({**BUILTINS, **self._unregistered}[call.tool], ())

    def sign_tool(self, tool: CompiledTool) -> SignedTool:
        """Return a tool that the model sees, with its signing secrets."""
        return self._defined.find_version(tool.name, tool.version) or SignedTool(tool, ())

    def specs(self) -> dict[str, ToolSpec]:
        """Return the tools that `search_tools` searches."""
        return {name: tool.spec for name, tool in self.enabled.items()}


class CallsInFlight:
    """The calls of a run that are in flight. `invokers` has an entry for each type of tool.
    `callback` creates the URL and token with which a tool submits its result later. `checks` can be
    replaced while calls are in flight. `may_send` returns whether this worker still has the lease
    of the run."""

    def __init__(
        self,
        invokers: Mapping[str, ToolInvoker],
        callback: Callable[[RunState, Call], tuple[str, str]],
        checks: Checks,
        report: ReportProgress,
        may_send: Callable[[], Awaitable[bool]],
        trace: RunTrace = NO_TRACE,
    ) -> None:
        self.checks = checks
        self._trace = trace
        self._loop = asyncio.get_running_loop()
        self._invokers = invokers
        self._callback = callback
        self._report = report
        self._may_send = may_send
        self._tasks: dict[CallId, asyncio.Task[AttemptEnd]] = {}
        self._deadlines: dict[CallId, float] = {}
        self._allowed: dict[CallId, tuple[str, ProjectPolicy]] = {}
        """For each call, the digest that guardrails and hooks allowed, and the policy at that
        time."""
        self._reports: dict[CallId, int] = {}
        self._usage: dict[CallId, dict[tuple[str, bool], ReportedUsage]] = {}
        """The usage that the tool of each call reported in the current attempt, by model and by
        whether the tool reported the cost."""
        self._stopping = asyncio.Event()

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def __contains__(self, call_id: CallId) -> bool:
        return call_id in self._tasks

    def checks_answers(self, state: RunState) -> bool:
        """Return whether a result that arrived outside of a call, such as a callback, is being
        checked."""
        return any(state.calls[id_].phase is not CallPhase.STARTED for id_ in self._tasks)

    @property
    def tasks(self) -> set[asyncio.Task[AttemptEnd]]:
        return set(self._tasks.values())

    def launch(self, state: RunState, call: Call, signed_tool: SignedTool) -> None:
        """Begin an attempt after its start was committed. The first attempt sets the deadline."""
        seconds = math.inf if call.timeout_seconds is None else call.timeout_seconds
        self._deadlines.setdefault(call.id, self._loop.time() + seconds)
        self._start_task(call, signed_tool, self._attempt(state, call, signed_tool))

    def launch_late(
        self, state: RunState, call: Call, signed_tool: SignedTool, outcome: Outcome
    ) -> None:
        """Check the outcome of a call that waited for a callback or a child run. The call is not
        retried."""
        self._deadlines.setdefault(call.id, self._loop.time())
        self._start_task(call, signed_tool, self._checked(state, call, signed_tool, outcome))

    def seconds_left(self, call: Call) -> float:
        return self._deadlines[call.id] - self._loop.time()

    def was_tried(self, call: Call) -> bool:
        """Return whether this claim already attempted the call. Then the next attempt has only the
        remaining time."""
        return call.id in self._deadlines

    def take_done(self) -> list[tuple[CallId, AttemptEnd]]:
        done = [(call_id, task) for call_id, task in self._tasks.items() if task.done()]
        for call_id, task in done:
            del self._tasks[call_id]
            if task.result() != "retry":  # if the call is sent again, it has its full time
                del self._deadlines[call_id]
        return [(call_id, task.result()) for call_id, task in done]

    def take_usage(self, call_id: CallId) -> tuple[ReportedUsage, ...]:
        """Return the usage that the tool of an ended attempt reported."""
        return tuple(self._usage.pop(call_id, {}).values())

    def end_backoffs(self) -> None:
        """End the pauses before next attempts, and allow no new pauses."""
        self._stopping.set()

    def forget(self, call_id: CallId) -> None:
        """Forget a call that changed before its next attempt. It gets its full time again, and
        guardrails and hooks check it again."""
        self._deadlines.pop(call_id, None)
        self._allowed.pop(call_id, None)

    async def close(self) -> None:
        """Cancel the calls that are still in flight. The ledger shows them as started."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _start_task(
        self, call: Call, signed_tool: SignedTool, work: Coroutine[None, None, AttemptEnd]
    ) -> None:
        self._tasks[call.id] = self._loop.create_task(_unfailing(call, signed_tool, work))

    async def _attempt(self, state: RunState, call: Call, signed_tool: SignedTool) -> AttemptEnd:
        """Make one attempt, with the checks before and after it and the pause before the next."""
        early = None
        seen = call.digest, self.checks.policy
        if self._allowed.get(call.id) != seen:
            left = partial(self.seconds_left, call)
            early = await self.checks.before_call(state, call, signed_tool, left)
            if isinstance(early, Failed):
                return _end(signed_tool, call, early)
            self._allowed[call.id] = seen
        outcome = early or await self._invoke(state, call, signed_tool)
        return await self._checked(state, call, signed_tool, outcome)

    async def _checked(
        self, state: RunState, call: Call, signed_tool: SignedTool, outcome: Outcome
    ) -> AttemptEnd:
        """Classify the outcome, and check a result with guardrails and hooks. The decision to retry
        is made only here, so that the model never reads an unchecked result."""
        outcome, left = check_handoff(state, bounded_outcome(outcome)), self.seconds_left(call)
        outcome = limit_input_requests(call, outcome)
        disposition = classify_outcome(
            signed_tool.tool, call, outcome, seconds_left=left, jitter=jitter()
        )
        match disposition:
            case TryAgain(after=after):
                RETRIES.count("tool")
                await self._back_off(after)
                return "retry"
            case Result():
                assert not isinstance(outcome, Waits | NeedsInput)
                if self.checks.checks_results(state, signed_tool):
                    checked = await self.checks.after_call(
                        state, call, signed_tool, outcome, disposition
                    )
                    if checked is not outcome:
                        return _end(signed_tool, call, checked)
            case AwaitCallback() | AwaitResult() | AwaitInput() | StartChild() | AwaitResolution():
                pass
            case _:
                assert_never(disposition)
        return CallEnd(disposition, outcome.state if isinstance(outcome, Done) else None)

    async def _back_off(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    async def _invoke(self, state: RunState, call: Call, signed_tool: SignedTool) -> Outcome:
        invoker = self._invokers.get(signed_tool.tool.spec.type)
        if invoker is None:
            detail = f"This worker cannot execute tools of type {signed_tool.tool.spec.type}."
            return Failed(FailureKind.NOT_SENT, detail, permanent=True)
        began = perf_counter()
        with self._trace.call_tool(call, signed_tool.tool.spec) as span:
            outcome = await invoker.invoke(self._invocation(state, call, signed_tool))
            span.set_outcome(outcome)
        if not isinstance(invoker, FixedInvoker):
            TOOL_SECONDS.observe(perf_counter() - began, call.tool)
        if isinstance(outcome, Failed):
            TOOL_ERRORS.count(call.tool, outcome.reason)
        return outcome

    def _invocation(self, state: RunState, call: Call, signed_tool: SignedTool) -> Invocation:
        url, token = self._callback(state, call)
        return Invocation(
            project_id=state.project_id,
            run_id=state.id,
            call_id=call.id,
            call_uuid=call.uuid,
            tool=signed_tool.tool.spec,
            tool_version=signed_tool.tool.version,
            agent=state.agent,
            arguments=call.arguments,
            context=state.context,
            attempt=call.attempt,
            fence=call.fence,
            seconds=max(SMALLEST_SECONDS, self.seconds_left(call)),
            callback_url=url,
            callback_token=token,
            secrets=signed_tool.secrets,
            session_id=format_id(Prefix.SESSION, state.place.session_id) if state.place else None,
            state=state.shared_state,
            handoffs=state.config.handoffs,
            report=partial(self._report_progress, call),
            add_usage=partial(self._add_usage, call.id),
            may_send=self._may_send,
            input=call.exchange.input if call.exchange else None,
            agent_results=read_agent_results(call),
        )

    def _add_usage(self, call_id: CallId, added: ReportedUsage) -> None:
        reported = self._usage.setdefault(call_id, {})
        key = added.model, added.priced
        before = reported.get(key)
        reported[key] = replace(added, usage=before.usage + added.usage) if before else added

    def _report_progress(self, call: Call, progress: float | None, message: str | None) -> None:
        count = self._reports[call.id] = self._reports.get(call.id, 0) + 1
        if count <= MAX_PROGRESS:
            self._report(call, *bounded_progress(progress, message))


async def _unfailing(
    call: Call, signed_tool: SignedTool, work: Coroutine[None, None, AttemptEnd]
) -> AttemptEnd:
    """Run an invoker and turn any exception into a failure of this call."""
    bind_contextvars(call=format_id(Prefix.CALL, call.uuid))
    try:
        return await work
    except Exception as error:
        log.exception("tool_executor_failed", tool=call.tool)
        detail = (
            "Runward failed to execute the tool because of an internal error: "
            f"{type(error).__name__}."
        )
        return _end(signed_tool, call, Failed(FailureKind.UNKNOWN, detail))


def _end(signed_tool: SignedTool, call: Call, outcome: Done | Failed) -> CallEnd:
    """Classify an outcome after which the call is not retried."""
    bounded = bounded_outcome(outcome)
    disposition = classify_outcome(signed_tool.tool, call, bounded, seconds_left=0, jitter=0)
    return CallEnd(disposition, bounded.state if isinstance(bounded, Done) else None)


def jitter() -> float:
    """Return a number from 0 up to 1."""
    return random.random()  # noqa: S311  # spreads retries, guards nothing
