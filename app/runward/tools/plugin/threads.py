"""Threads for synchronous plugin functions: one for each call, up to a limit.

A thread cannot be killed. If a call is abandoned, its thread continues but does not count towards
the limit, so that other calls can start. At most as many threads as the limit can be abandoned.
Further abandoned threads count towards the limit."""

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

import structlog

log = structlog.get_logger()


def _nothing() -> None:
    pass


async def _at_once() -> None:
    pass


class ThreadSlots:
    def __init__(self, limit: int) -> None:
        self._limit: Final = limit
        self._slots = asyncio.Semaphore(limit)
        self._abandoned = 0

    @property
    def abandoned(self) -> int:
        """The number of threads that still run for abandoned calls."""
        return self._abandoned

    async def run(
        self,
        function: Callable[[], Any],
        *,
        tool_name: str,
        on_start: Callable[[], None] = _nothing,
        after_wait: Callable[[], Awaitable[None]] = _at_once,
    ) -> Any:
        """Return the result of `function`, or raise its error. `on_start` is called when a thread
        is free. If the call had to wait for a thread, `after_wait` is called first. If `after_wait`
        raises, the function does not start. `tool_name` is for the log."""
        has_to_wait = self._slots.locked()
        await self._slots.acquire()
        try:
            if has_to_wait:
                await after_wait()
            on_start()
            job = _Job(function, asyncio.get_running_loop())
        except BaseException:
            self._slots.release()
            raise
        try:
            return await asyncio.shield(job.answer)
        except asyncio.CancelledError:
            if not job.answer.done():
                self._abandon(job, tool_name)
            raise
        finally:
            if job.answer.done():
                self._slots.release()

    def _abandon(self, job: "_Job", what: str) -> None:
        self._abandoned += 1
        counts = self._abandoned > self._limit
        log.warning("plugin_thread_abandoned", tool=what, abandoned=self._abandoned)
        if not counts:
            self._slots.release()

        def returned(_: "asyncio.Future[Any]") -> None:
            self._abandoned -= 1
            if counts:
                self._slots.release()
            log.info("plugin_thread_returned", tool=what, abandoned=self._abandoned)

        job.answer.add_done_callback(returned)


class _Job:
    """A started daemon thread, which never keeps the process from ending."""

    def __init__(self, function: Callable[[], Any], loop: asyncio.AbstractEventLoop) -> None:
        self.answer: asyncio.Future[Any] = loop.create_future()
        self.answer.add_done_callback(lambda answer: answer.cancelled() or answer.exception())
        self._loop = loop
        self._function = function
        run = contextvars.copy_context().run
        threading.Thread(target=run, args=(self._run,), name="plugin", daemon=True).start()

    def _run(self) -> None:
        try:
            value = self._function()
        except BaseException as error:  # passed on to the caller
            self._deliver(self._set_error, error)
        else:
            self._deliver(self._set_result, value)

    def _deliver(self, how: Callable[[Any], None], what: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed: the process is ending
            self._loop.call_soon_threadsafe(how, what)

    def _set_result(self, value: Any) -> None:
        self.answer.set_result(value)

    def _set_error(self, error: BaseException) -> None:
        if isinstance(error, StopIteration):  # a future cannot contain a StopIteration
            error = RuntimeError("StopIteration")
        self.answer.set_exception(error)
