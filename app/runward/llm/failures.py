"""The translation of a provider's failure into a ModelError. It has a stable code, a text that is
safe to show, and whether a retry may succeed."""

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from http.client import responses
from math import isfinite
from typing import Any, Final, cast

from pydantic_core import from_json

from runward.domain.events.values import RunErrorCode
from runward.domain.json import MAX_VALUES, clean_text, compact
from runward.llm.base import ModelError

MAX_CALLS: Final = 256
"""Maximum number of tool calls in one response. A run can make 200 tool calls in total."""
MAX_OUTPUT_ITEMS: Final = 1024
"""Maximum number of messages, reasoning items, calls and hosted calls in one response. pydantic-ai
reads all earlier items of a stream at the end of each item, so its work grows with the square of
this number: 20 ms for 1,024 items, 300 ms for 4,096."""
MAX_RESPONSE_BYTES: Final = 32 * 1024 * 1024
TOO_MANY_CALLS: Final = f"requests more than {MAX_CALLS} tool calls"
TOO_MANY_ITEMS: Final = f"has more than {MAX_OUTPUT_ITEMS:,} items"
TOO_MANY_VALUES: Final = f"contains more than {MAX_VALUES:,} values"
MAX_REASON: Final = 500  # Maximum number of characters of the provider's message.
TRANSIENT_STATUSES: Final = frozenset({408, 409, 425, 429, 498})
"""Statuses from 500 are also transient. Groq sends 498 if it has no capacity."""
CREDENTIAL_STATUSES: Final = frozenset({401, 403})
"""The provider's text for these statuses may quote a key, so it is not repeated."""

QUOTA_CODES: Final = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
"""Codes of a 429 for which a retry does not help."""

WRONG_CALL: Final = "tool_use_failed"
"""Groq's code if its model wrote a call that Groq cannot read. Another attempt may succeed."""

PERMANENT_TYPES: Final = frozenset(
    {
        "authentication_error",
        "bio_policy",
        "context_length_exceeded",
        "data_residency_mismatch",
        "insufficient_quota",
        "invalid_prompt",
        "invalid_request_error",
        "misalignment_policy_violation",
        "not_found_error",
        "permission_error",
    }
)
"""Types of errors for which a retry does not help. They arrive inside a stream, without an HTTP
status."""
_STATUS: Final = re.compile("[45][0-9]{2}")
_OF_IMAGES: Final = re.compile(r"(^|_)image(_|$)")
"""Matches codes of the Responses API for images that it cannot read or load, or that it rejects."""


def http_failure(
    status: int, headers: Mapping[str, str], body: bytes, *, secret: str
) -> ModelError:
    """Return the error for an HTTP status of 400 or more. `secret` is removed from the provider's
    text."""
    error = _error_object(body)
    reason = "" if status in CREDENTIAL_STATUSES else _reason(error, secret)
    transient = status in TRANSIENT_STATUSES or status >= 500
    if status == 429 and QUOTA_CODES.intersection((str(error.get("code")), str(error.get("type")))):
        transient = False
    if headers.get("x-should-retry") in ("true", "false"):
        transient = headers["x-should-retry"] == "true"
    phrase = responses.get(status, "unknown")
    text = f"The model server returned HTTP {status} ({phrase})" + (
        f": {reason}" if reason else "."
    )
    if error.get("code") == WRONG_CALL:
        return ModelError(RunErrorCode.MODEL_INVALID_RESPONSE, text, transient=True, status=status)
    return ModelError(
        _code(status),
        text,
        transient=transient,
        retry_after=retry_after(headers) if transient else None,
        status=status,
    )


def reported_failure(error: Any) -> ModelError:
    """Return the ModelError for an error that is reported inside a stream, or in a body with status
    200."""
    told = cast(Mapping[str, Any], error) if isinstance(error, dict) else {"message": error}
    code: Any = told.get("code")
    transient = not PERMANENT_TYPES.intersection((str(told.get("type")), str(code)))
    if isinstance(code, str) and _OF_IMAGES.search(code):
        transient = False
    status = _status(code)
    if status is not None:
        transient = status in TRANSIENT_STATUSES or status >= 500
    reason = "" if status in CREDENTIAL_STATUSES else _reason(told, "")
    text = "The model server reported an error" + (f": {reason}" if reason else ".")
    if code == WRONG_CALL:
        return ModelError(RunErrorCode.MODEL_INVALID_RESPONSE, text, transient=True)
    known = (
        RunErrorCode.MODEL_RATE_LIMITED
        if code == "rate_limit_exceeded"
        else RunErrorCode.MODEL_FAILED
    )
    return ModelError(_code(status) if status else known, text, transient=transient, status=status)


def unreachable() -> ModelError:
    text = "The model server could not be reached, or it closed the connection without a response."
    return ModelError(RunErrorCode.MODEL_UNREACHABLE, text, transient=True)


def misconfigured(variable: str = "OPENAI_BASE_URL") -> ModelError:
    text = f"The address of the model server is not valid. Check {variable}."
    return ModelError(RunErrorCode.MODEL_MISCONFIGURED, text, transient=False)


def broken_stream() -> ModelError:
    text = "The model's response ended before it was complete."
    return ModelError(RunErrorCode.MODEL_STREAM_BROKEN, text, transient=True)


def timed_out(seconds: float) -> ModelError:
    text = f"The model's response was not complete within {seconds:g} seconds."
    return ModelError(RunErrorCode.MODEL_TIMEOUT, text, transient=True)


def no_first_token(seconds: float) -> ModelError:
    text = f"The model sent no output for {seconds:g} seconds."
    return ModelError(RunErrorCode.MODEL_TIMEOUT, text, transient=True)


def too_large(excess: str = f"is larger than {MAX_RESPONSE_BYTES} bytes") -> ModelError:
    """Return the error for a response that exceeds a limit. `excess`: the description of the
    limit."""
    text = f"The model's response {excess}."
    return ModelError(RunErrorCode.MODEL_RESPONSE_TOO_LARGE, text, transient=False)


def invalid_response(why: str) -> ModelError:
    text = f"The response of the model server could not be read: {why}."
    return ModelError(RunErrorCode.MODEL_INVALID_RESPONSE, text, transient=True)


def unstorable(why: str) -> ModelError:
    text = f"The response of the model server cannot be stored: {why}."
    return ModelError(RunErrorCode.MODEL_INVALID_RESPONSE, text, transient=False)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the delay in seconds from `retry-after-ms` or `retry-after` (seconds or an HTTP date),
    or None if neither can be read. A date is compared with the response's own Date header, so the
    clock of this host does not matter."""
    milliseconds = _seconds(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _seconds(value)
    if seconds is not None or value is None:
        return seconds
    try:
        wait = parsedate_to_datetime(value) - parsedate_to_datetime(headers["date"])
    except (ValueError, KeyError, TypeError, OverflowError):
        return None
    return max(0.0, wait.total_seconds())


def _seconds(value: str | None) -> float | None:
    try:
        seconds = float(value or "")
    except ValueError:
        return None
    return seconds if isfinite(seconds) and seconds >= 0 else None


def _status(code: Any) -> int | None:
    """Return the HTTP status that is the code of an error, as a number or as text, or None."""
    number = int(code) if isinstance(code, str) and _STATUS.fullmatch(code) else code
    return number if isinstance(number, int) and 400 <= number <= 599 else None


def _code(status: int) -> RunErrorCode:
    match status:
        case 401 | 403:
            return RunErrorCode.MODEL_UNAUTHORIZED
        case 404:
            return RunErrorCode.MODEL_NOT_FOUND
        case 408:
            return RunErrorCode.MODEL_TIMEOUT
        case 429:
            return RunErrorCode.MODEL_RATE_LIMITED
        case _ if status in TRANSIENT_STATUSES or status >= 500:
            return RunErrorCode.MODEL_UNAVAILABLE
        case _:
            return RunErrorCode.MODEL_REFUSED_REQUEST


def _error_object(body: bytes) -> Mapping[str, Any]:
    """Return the error object of a body like `{"error": {"message", "type", "code"}}`, as far as
    the server uses this format."""
    try:
        told: Any = from_json(body)
    except ValueError:
        return {}
    if isinstance(told, list) and told:
        told = cast(list[Any], told)[0]
    if not isinstance(told, dict):
        return {}
    inner: Any = cast(dict[str, Any], told).get("error", told)
    return cast(dict[str, Any], inner) if isinstance(inner, dict) else {"message": inner}


def _reason(error: Mapping[str, Any], secret: str) -> str:
    """Return the message. A server that validates requests may send a list of problems as JSON."""
    message: Any = error.get("message") or error.get("detail")
    if not message:
        return ""
    return quote(message if isinstance(message, str) else compact(message), secret)


def quote(message: str, secret: str) -> str:
    """Return a short form of the provider's message, without the secret."""
    if secret:
        message = message.replace(secret, "***")
    return clean_text(message)[:MAX_REASON]
