"""The calls of one run that are in flight: one task each, one deadline over all its attempts."""

import asyncio
import math
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Final, Literal, TypeAlias, assert_never

import structlog

from runward.domain.ids import CallId, Prefix, format_id
from runward.domain.registry.tools import ToolSpec
from runward.domain.run.bounds import bounded_outcome
from runward.domain.run.calls import Call, CallPhase, Result
from runward.domain.run.config import Limits
from runward.domain.run.outcomes import Failed, FailureKind, Outcome, Waits
from runward.domain.run.settle import (
    AwaitCallback,
    AwaitResolution,
    AwaitResult,
    StartChild,
    TryAgain,
    classify_outcome,
)
from runward.domain.run.state import RunState
from runward.loop.checks import Checks
from runward.loop.policies import ProjectPolicy
from runward.loop.toolbox import SignedTool
from runward.tools.base import Invocation, ToolInvoker

log = structlog.get_logger()

ScheduledRetry: TypeAlias = Literal["retry"]
"""The pause before a call's next attempt is over: the call is ready again."""
ReportOf: TypeAlias = Callable[[Call, float | None, str | None], None]
"""Progress of a call, from 0 to 1, and a message."""
_SMALLEST: Final = 0.01


class CallsInFlight:
    """`executors` by type of tool; `callback` makes the URL and token with which a tool answers
    later. `guarding` may be replaced while calls are in flight: it holds for those that start.
    `may_send` tells whether this worker still has the run."""

    def __init__(
        self,
        executors: Mapping[str, ToolInvoker],
        callback: Callable[[RunState, Call], tuple[str, str]],
        guarding: Checks,
        report: ReportOf,
        may_send: Callable[[], Awaitable[bool]],
    ) -> None:
        self.guarding = guarding
        self._executors = executors
        self._callback = callback
        self._report = report
        self._may_send = may_send
        self._tasks: dict[CallId, asyncio.Task[Outcome | ScheduledRetry]] = {}
        self._deadlines: dict[CallId, float] = {}
        self._allowed: dict[CallId, tuple[str, ProjectPolicy]] = {}
        self._stopping = asyncio.Event()

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def __contains__(self, call_id: CallId) -> bool:
        return call_id in self._tasks

    def busy_with(self, state: RunState) -> bool:
        """Whether something that came back from elsewhere is being looked at."""
        return any(state.calls[one].phase is not CallPhase.STARTED for one in self._tasks)

    @property
    def tasks(self) -> set[asyncio.Task[Outcome | ScheduledRetry]]:
        return set(self._tasks.values())

    def launch(self, state: RunState, call: Call, armed: SignedTool) -> None:
        """Its start is committed. The first attempt sets the deadline."""
        seconds = math.inf if call.timeout_seconds is None else call.timeout_seconds
        self._deadlines.setdefault(call.id, _now() + seconds)
        self._carry(call, self._attempt(state, call, armed))

    def launch_late(self, state: RunState, call: Call, armed: SignedTool, outcome: Outcome) -> None:
        """The result of a call that waited came from elsewhere: a callback, a child run. It is
        checked like any other, and never tried again."""
        self._deadlines.setdefault(call.id, _now())
        self._carry(call, self._checked(state, call, armed, outcome))

    def seconds_left(self, call: Call) -> float:
        return self._deadlines[call.id] - _now()

    def was_tried(self, call: Call) -> bool:
        """In this claim, and the next attempt has what the first one left."""
        return call.id in self._deadlines

    def take_done(self) -> list[tuple[CallId, Outcome | ScheduledRetry]]:
        """The outcomes are final: to judge one says how the call ends, never to try again."""
        done = [(call_id, task) for call_id, task in self._tasks.items() if task.done()]
        for call_id, task in done:
            del self._tasks[call_id]
            if task.result() != "retry":  # should it be sent again, it has its time again
                del self._deadlines[call_id]
        return [(call_id, task.result()) for call_id, task in done]

    def end_backoffs(self) -> None:
        """No call is retried any more: the calls that wait for their next attempt end their wait,
        now and from now on."""
        self._stopping.set()

    def forget(self, call_id: CallId) -> None:
        """The call has changed before its next attempt: it has all of its time again, and is
        shown to guardrails and hooks again."""
        self._deadlines.pop(call_id, None)
        self._allowed.pop(call_id, None)

    async def close(self) -> None:
        """Whatever is still in flight is cut off; the ledger says that it had started."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _carry(self, call: Call, work: Coroutine[None, None, Outcome | ScheduledRetry]) -> None:
        self._tasks[call.id] = asyncio.create_task(_unfailing(call, work))

    async def _attempt(
        self, state: RunState, call: Call, armed: SignedTool
    ) -> Outcome | ScheduledRetry:
        """One attempt, what stands before and after it, and the pause before the next one."""
        early = None
        seen = call.digest, self.guarding.policy
        if self._allowed.get(call.id) != seen:
            left = partial(self.seconds_left, call)
            early = await self.guarding.before_call(state, call, armed, left)
            if isinstance(early, Failed):
                return early
            self._allowed[call.id] = seen
        outcome = early or await self._invoke(state, call, armed)
        return await self._checked(state, call, armed, outcome)

    async def _checked(
        self, state: RunState, call: Call, armed: SignedTool, outcome: Outcome
    ) -> Outcome | ScheduledRetry:
        """What is left of an outcome when everyone has seen it. The decision to try again is made
        here and once, so that nothing reaches the model unseen."""
        outcome, left = bounded_outcome(outcome), self.seconds_left(call)
        verdict = classify_outcome(armed.tool, call, outcome, seconds_left=left, jitter=jitter())
        match verdict:
            case TryAgain(after=after):
                await self._back_off(after)
                return "retry"
            case Result():
                assert not isinstance(outcome, Waits)
                if self.guarding.checks_results(state, armed):
                    outcome = await self.guarding.after_call(state, call, armed, outcome, verdict)
            case AwaitCallback() | AwaitResult() | StartChild() | AwaitResolution():
                pass
            case _:
                assert_never(verdict)
        return replace(outcome, permanent=True) if isinstance(outcome, Failed) else outcome

    async def _back_off(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    async def _invoke(self, state: RunState, call: Call, armed: SignedTool) -> Outcome:
        executor = self._executors.get(armed.tool.spec.type)
        if executor is None:
            detail = f"Nothing here executes tools of type {armed.tool.spec.type}."
            return Failed(FailureKind.NOT_SENT, detail, permanent=True)
        return await executor.invoke(self._invocation(state, call, armed))

    def _invocation(self, state: RunState, call: Call, armed: SignedTool) -> Invocation:
        url, token = self._callback(state, call)
        return Invocation(
            project_id=state.project_id,
            run_id=state.id,
            call_id=call.id,
            call_uuid=call.uuid,
            tool=armed.tool.spec,
            tool_version=armed.tool.version,
            agent=state.agent,
            arguments=call.arguments,
            context=state.context,
            attempt=call.attempt,
            fence=call.fence,
            seconds=max(_SMALLEST, self.seconds_left(call)),
            callback_url=url,
            callback_token=token,
            secrets=armed.secrets,
            session_id=format_id(Prefix.SESSION, state.place.session_id) if state.place else None,
            state=state.shared,
            handoffs=state.config.handoffs,
            report=partial(self._report, call),
            may_send=self._may_send,
            input=call.exchange.input if call.exchange else None,
        )


def seconds_for(
    spec: ToolSpec, limits: Limits, default: timedelta, left: float | None
) -> float | None:
    """The tool's own timeout, the run's, or the service's; never more than the run has `left`. The
    run's and the service's are none for a client, which may be a person."""
    general = limits.tool_timeout_seconds or default.total_seconds()
    seconds = spec.timeout_seconds or (None if spec.type == "client" else general)
    return seconds if left is None or seconds is None else max(_SMALLEST, min(seconds, left))


async def _unfailing(
    call: Call, work: Coroutine[None, None, Outcome | ScheduledRetry]
) -> Outcome | ScheduledRetry:
    """Never raises, so that a defect in whatever executes a tool is that call's failure."""
    try:
        return await work
    except Exception as error:
        log.exception(
            "tool_executor_failed", tool=call.tool, call=format_id(Prefix.CALL, call.uuid)
        )
        detail = f"Runward's own executor failed: {type(error).__name__}."
        return Failed(FailureKind.UNKNOWN, detail, permanent=True)


def jitter() -> float:
    """From 0 up to 1."""
    return random.random()  # noqa: S311  # spreads retries, guards nothing


def _now() -> float:
    return asyncio.get_running_loop().time()
