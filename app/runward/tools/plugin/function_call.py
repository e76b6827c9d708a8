"""One call of a plugin function, from its arguments to its outcome, with a time limit."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

import structlog
from pydantic import ValidationError

from runward.domain.errors import UnavailableError
from runward.domain.json import JsonObject
from runward.domain.run.outcomes import Failed, FailureKind, Outcome
from runward.tools.base import DATABASE_UNAVAILABLE, LEASE_LOST
from runward.tools.plugin.context import ToolContext, requests_of
from runward.tools.plugin.function import ArgumentsError
from runward.tools.plugin.results import failure_of, outcome_of, raised_at, wrong_arguments

log = structlog.get_logger()

GRACE_SECONDS: Final = 0.5
"""Seconds for a cancelled function to clean up before it is left behind."""
NOT_CANCELLED: Final = "CancelledError: nobody had cancelled the call."

BindArguments: TypeAlias = Callable[[ToolContext, JsonObject], Callable[[], Any]]
FunctionRun: TypeAlias = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Makes the call on the loop or on a thread."""


class LeaseGoneError(Exception):
    """Another worker holds the lease of the run."""


async def run_function(
    begin: BindArguments, run: FunctionRun, ctx: ToolContext, arguments: JsonObject
) -> Outcome:
    """Run the function and return its outcome. Every exception becomes an outcome, also
    `sys.exit()`, except a cancellation."""
    try:
        call = begin(ctx, arguments)
    except (ValidationError, ArgumentsError) as error:
        return wrong_arguments(error)
    except Exception as error:  # raised by an author's validator
        return failure_of(error, ctx)
    try:
        value = await run(call)
        if inspect.isawaitable(value):
            value = await value
        return outcome_of(value, ctx)
    except (asyncio.CancelledError, GeneratorExit):
        raise
    except LeaseGoneError:
        return LEASE_LOST
    except UnavailableError:
        return DATABASE_UNAVAILABLE
    except BaseException as error:  # a tool's failure never ends the worker
        log.warning(
            "plugin_tool_failed",
            call=ctx.idempotency_key,
            error=type(error).__name__,
            at=raised_at(error),
        )
        return failure_of(error, ctx)


async def call_directly(call: Callable[[], Any]) -> Any:
    return call()


async def limit_time(
    work: Awaitable[Outcome], ctx: ToolContext, *, seconds: float, tool_name: str
) -> Outcome:
    """Return the outcome of `work`, or TIMEOUT after `seconds`. A CancelledError without a
    cancellation is a failure."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=seconds)
        if task.done():
            if task.cancelled():
                return Failed(FailureKind.ERROR, NOT_CANCELLED)
            error = task.exception()
            if isinstance(error, UnavailableError):
                return DATABASE_UNAVAILABLE
            if error is not None and not isinstance(error, Exception):  # it would end the worker
                return Failed(FailureKind.ERROR, f"{type(error).__name__} was raised.")
            return task.result()
        return Failed(
            FailureKind.TIMEOUT, f"The plugin did not answer within {seconds:.3f} seconds."
        )
    finally:
        requests_of(ctx).finished = True
        if not task.done():
            await _end(task, tool_name)


async def _end(task: asyncio.Future[Outcome], what: str) -> None:
    task.cancel()
    await asyncio.wait({task}, timeout=GRACE_SECONDS)
    if not task.done():
        log.warning("plugin_task_left_behind", tool=what)
        task.add_done_callback(lambda _: log.info("plugin_task_ended", tool=what))
    elif not task.cancelled():
        task.exception()  # retrieved, so that asyncio does not log it
