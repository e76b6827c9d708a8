"""The calls of one run that are in flight: one task each, one deadline over all its attempts."""

import asyncio
import random
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import structlog

from app.domain.calls import Call
from app.domain.ids import CallId, Prefix, show
from app.domain.outcomes import Failed, Outcome, Why
from app.domain.state import RunState
from app.loop.toolbox import Armed
from app.tools.base import Invocation, Tool

log = structlog.get_logger()

Retry: TypeAlias = Literal["retry"]
"""A call's backoff is over: it may start again."""
_SMALLEST: Final = 0.01


class CallsInFlight:
    """`callback` makes the URL and token with which a tool answers later."""

    def __init__(
        self, executor: Tool, callback: Callable[[RunState, Call], tuple[str, str]]
    ) -> None:
        self._executor = executor
        self._callback = callback
        self._tasks: dict[CallId, asyncio.Task[Outcome | Retry]] = {}
        self._deadlines: dict[CallId, float] = {}

    def __bool__(self) -> bool:
        return bool(self._tasks)

    @property
    def tasks(self) -> set[asyncio.Task[Outcome | Retry]]:
        return set(self._tasks.values())

    def launch(self, state: RunState, call: Call, armed: Armed) -> None:
        """Its start is committed. The first attempt sets the deadline."""
        assert call.timeout_seconds is not None
        self._deadlines.setdefault(call.id, _now() + call.timeout_seconds)
        self._tasks[call.id] = asyncio.create_task(self._invoke(state, call, armed))

    def retry_after(self, call: Call, seconds: float) -> None:
        self._tasks[call.id] = asyncio.create_task(_after(seconds))

    def seconds_left(self, call: Call) -> float:
        return self._deadlines[call.id] - _now()

    def was_tried(self, call: Call) -> bool:
        """In this claim."""
        return call.id in self._deadlines

    def take_done(self) -> list[tuple[CallId, Outcome | Retry]]:
        done = [(call_id, task) for call_id, task in self._tasks.items() if task.done()]
        for call_id, _ in done:
            del self._tasks[call_id]
        return [(call_id, task.result()) for call_id, task in done]

    async def close(self) -> None:
        """Whatever is still in flight is cut off; the ledger says that it had started."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _invoke(self, state: RunState, call: Call, armed: Armed) -> Outcome:
        """Never raises, so that a defect in a tool's executor is that call's failure."""
        url, token = self._callback(state, call)
        invocation = Invocation(
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
        )
        try:
            return await self._executor.invoke(invocation)
        except Exception as error:
            log.exception("tool_executor_failed", tool=call.tool, call=show(Prefix.CALL, call.uuid))
            return Failed(Why.UNKNOWN, f"Runward's own executor failed: {type(error).__name__}.")


def jitter() -> float:
    """From 0 up to 1."""
    return random.random()  # noqa: S311  # spreads retries, guards nothing


async def _after(seconds: float) -> Retry:
    await asyncio.sleep(seconds)
    return "retry"


def _now() -> float:
    return asyncio.get_running_loop().time()
