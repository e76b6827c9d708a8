"""One call of a plugin function, from its arguments to its outcome, with a time limit."""

import asyncio
import inspect
import traceback
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeAlias

import structlog
from pydantic import ValidationError

from runward.domain.errors import UnavailableError
from runward.domain.json import JsonObject, clean_text
from runward.domain.registry.redaction import without_secret
from runward.domain.run.bounds import bounded_outcome
from runward.domain.run.items import TextPart
from runward.domain.run.outcomes import Done, Failed, FailureKind, Outcome, Waits
from runward.tools.base import DATABASE_UNAVAILABLE, LEASE_LOST
from runward.tools.plugin.context import ToolContext, jsonable, requests_of
from runward.tools.plugin.errors import ToolContextError, ToolError
from runward.tools.plugin.function import ArgumentsError
from runward.tools.plugin.parts import parts_of

log = structlog.get_logger()

GRACE_SECONDS: Final = 0.5
"""Seconds for a cancelled function to clean up before it is left behind."""
NOT_CANCELLED: Final = "The function raised CancelledError, although the call was not cancelled."

BindArguments: TypeAlias = Callable[[ToolContext, JsonObject], Callable[[], Any]]
FunctionRun: TypeAlias = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Makes the call on the loop or on a thread."""


ExplainError: TypeAlias = Callable[[Exception], Awaitable[Any]]
"""Calls the tool's `on_error` function."""


class LeaseGoneError(Exception):
    """Another worker holds the lease of the run."""


async def run_function(
    begin: BindArguments,
    run: FunctionRun,
    ctx: ToolContext,
    arguments: JsonObject,
    explain: ExplainError | None = None,
) -> Outcome:
    """Run the function and return its outcome. Every exception except a cancellation becomes an
    outcome, including `sys.exit()`. `explain`: None if the tool has no `on_error` function."""
    try:
        call = begin(ctx, arguments)
    except (ValidationError, ArgumentsError) as error:
        return wrong_arguments(error)
    except Exception as error:  # raised by an author's validator
        return failure_of(error, ctx)
    requests_of(ctx).agents.begin()
    try:
        value = await _await_value(run, call)
        return _find_agent_requests(ctx) or outcome_of(value, ctx)
    except (asyncio.CancelledError, GeneratorExit):
        if (waits := _find_agent_requests(ctx)) is None:
            raise
        return waits
    except LeaseGoneError:
        return LEASE_LOST
    except UnavailableError:
        return DATABASE_UNAVAILABLE
    except BaseException as error:  # a tool's failure never ends the worker
        return _find_agent_requests(ctx) or await _explain_failure(error, ctx, explain)


async def _await_value(run: FunctionRun, call: Callable[[], Any]) -> Any:
    value = await run(call)
    return await value if inspect.isawaitable(value) else value


def _find_agent_requests(ctx: ToolContext) -> Waits | None:
    """Return the outcome of a function that waits for child runs. This outcome also replaces the
    result of a function that caught `SuspendedError`."""
    requests = requests_of(ctx).agents.requested
    return Waits(on="child", agents=tuple(requests)) if requests else None


async def _explain_failure(
    error: BaseException, ctx: ToolContext, explain: ExplainError | None
) -> Failed:
    """Return the outcome of the function's exception, with the text of the tool's `on_error`
    function. If this function raises an exception, the run fails."""
    log.warning(
        "plugin_tool_failed",
        call=ctx.idempotency_key,
        error=type(error).__name__,
        at=raised_at(error),
    )
    failed = failure_of(error, ctx)
    if explain is None or not isinstance(error, Exception):
        return failed
    try:
        text = await explain(error)
        if not isinstance(text, str):
            raise TypeError(f"the function returned {type(text).__name__} instead of a string")
    except Exception as raised:
        detail = failed.detail
        if raised is not error:
            detail = f"on_error raised {describe_error(raised)} for {detail}"
        return replace(failed, detail=without_secrets(detail, ctx)[:MAX_DETAIL], fails_run=True)
    return replace(failed, message=without_secrets(clean_text(text), ctx)[:MAX_MESSAGE])


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
                return Failed(FailureKind.ERROR, f"The function raised {type(error).__name__}.")
            return task.result()
        return Failed(
            FailureKind.TIMEOUT, f"The plugin did not return within {seconds:.3f} seconds."
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


MAX_DETAIL: Final = 2000
MAX_MESSAGE: Final = 2048
"""Maximum number of characters of a detail for operators, and of a tool's message for the model."""
MAX_NAMED: Final = 10
"""Maximum number of invalid arguments that one message lists."""
_HIDDEN: Final = "…"


def outcome_of(value: Any, ctx: ToolContext) -> Outcome:
    """Return the outcome of the function's result."""
    wishes = requests_of(ctx)
    try:
        parts = parts_of(value)
        if parts is None:
            output = jsonable(value)
        else:
            output = "\n".join(part.text for part in parts if isinstance(part, TextPart))
        metadata = _metadata(ctx)
        state = ctx.state.changes() or None
    except (ValueError, ToolContextError) as error:
        detail = clean_text(f"The value that the tool returned is not a valid result: {error}")
        return Failed(FailureKind.INVALID_RESPONSE, without_secrets(detail, ctx)[:MAX_DETAIL])
    done = Done(output, parts or (), metadata, state, wishes.transfer_to, wishes.escalate)
    return bounded_outcome(done)


def failure_of(error: BaseException, ctx: ToolContext) -> Failed:
    """Return the outcome of the function's exception. The model reads only the text of a
    `ToolError`."""
    detail = without_secrets(describe_error(error), ctx)
    message = None
    if isinstance(error, ToolError):
        with suppress(Exception):  # an author's __str__
            message = without_secrets(clean_text(str(error)), ctx)[:MAX_MESSAGE]
    return Failed(FailureKind.ERROR, detail, message=message)


def wrong_arguments(error: ValidationError | ArgumentsError) -> Failed:
    """Return the outcome of arguments that match the schema but not the function's types."""
    if isinstance(error, ValidationError):
        found = error.errors(include_url=False, include_context=False, include_input=False)
        lines = [f"{_path(one['loc'])}: {one['msg']}" for one in found[:MAX_NAMED]]
    else:
        lines = [f"arguments.{error}"]
    message = clean_text("The arguments are not valid. " + "; ".join(lines))[:MAX_MESSAGE]
    return Failed(FailureKind.ERROR, message, message=message, permanent=True)


def describe_error(error: BaseException) -> str:
    """Return an exception as `ValueError: its text`, for an operator."""
    try:
        text = str(error)
    except Exception as other:  # an author's __str__
        text = f"(the text of the error cannot be shown: {type(other).__name__})"
    name = type(error).__name__
    return clean_text(f"{name}: {text}" if text else name)[:MAX_DETAIL]


def raised_at(error: BaseException) -> str | None:
    """Return `file:line` of an exception for the log, without its text."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else None


def without_secrets(text: str, ctx: ToolContext) -> str:
    """Return the text without the secrets that the tool read with `ctx.secret`."""
    for secret in requests_of(ctx).revealed:
        text = without_secret(text, secret, _HIDDEN)
    return text


def _metadata(ctx: ToolContext) -> JsonObject | None:
    try:
        metadata = jsonable(ctx.metadata)
    except ValueError as error:
        raise ValueError(f"the metadata: {error}") from None
    if not isinstance(metadata, dict):
        raise ValueError("the metadata is not a dict")  # not the tool's own error
    return metadata or None


def _path(where: tuple[int | str, ...]) -> str:
    return ".".join(("arguments", *map(str, where)))
