"""Translation of a plugin function's result, or its exception, into an outcome. Pure."""

import traceback
from contextlib import suppress
from typing import Any, Final

from pydantic import ValidationError

from runward.domain.json import JsonObject, clean_text
from runward.domain.registry.redaction import without_secret
from runward.domain.run.bounds import bounded_outcome
from runward.domain.run.items import TextPart
from runward.domain.run.outcomes import Done, Failed, FailureKind, Outcome
from runward.tools.plugin.context import (
    ToolContext,
    ToolContextError,
    ToolError,
    jsonable,
    requests_of,
)
from runward.tools.plugin.function import ArgumentsError
from runward.tools.plugin.parts import parts_of

MAX_DETAIL: Final = 2000
MAX_MESSAGE: Final = 2048
"""Characters of a detail for operators, and of a tool's own message for the model."""
MAX_NAMED: Final = 10
"""Arguments whose problems one message lists."""
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
        detail = clean_text(f"The tool returned what cannot be a result: {error}")
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
        text = f"(its text cannot be shown: {type(other).__name__})"
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
        raise ValueError(f"its metadata: {error}") from None
    if not isinstance(metadata, dict):
        raise ValueError("its metadata is not a dict")  # not the tool's own error
    return metadata or None


def _path(where: tuple[int | str, ...]) -> str:
    return ".".join(("arguments", *map(str, where)))
