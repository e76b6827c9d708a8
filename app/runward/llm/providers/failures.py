"""The translation of errors into ModelErrors: errors of pydantic-ai, of the providers' libraries,
and of their transports."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

import aiohttp
import httpx2
import structlog
from pydantic_ai.exceptions import (
    AgentRunError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelHTTPError,
    ModelOverloadedError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    ModelServerError,
    ModelUnavailableError,
    UserError,
)
from pydantic_core import to_json

from runward.domain.events.values import RunErrorCode
from runward.llm import failures
from runward.llm.base import ModelError
from runward.llm.providers.access import ProviderName
from runward.llm.providers.aws import BotoCoreError

log = structlog.get_logger()

TRANSPORT: Final = httpx2.TransportError | aiohttp.ClientError | OSError
FAILED_MODEL: Final = 424
"""Bedrock's status for a failure of the model, also inside a stream."""
_AGAIN: Final = (
    ModelRateLimitError,
    ModelUnavailableError,
    ModelOverloadedError,
    ModelServerError,
)
_BAD_ADDRESS: Final = (
    aiohttp.InvalidURL,
    httpx2.InvalidURL,
    httpx2.UnsupportedProtocol,
    httpx2.LocalProtocolError,
)
_ABOUT_STRICT: Final = ("schema", "strict", "grammar")
_NO_ROOM: Final = re.compile(r"exceed context limit: (\d+) \+ \d+ > (\d+)")
_BASE_URLS: Final[dict[ProviderName, str]] = {
    "anthropic": "ANTHROPIC_BASE_URL",
    "gemini": "GEMINI_BASE_URL",
    "bedrock": "BEDROCK_BASE_URL",
}


def refuses_strict(error: Exception) -> bool:
    """Return whether the request may succeed without strict tools. The reason is that there are
    more strict tools than Anthropic's models accept (pydantic-ai counts them), or that the provider
    does not accept a schema as strict."""
    if isinstance(error, ModelHTTPError):
        told = _message(error.body).lower()
        return error.status_code == 400 and any(word in told for word in _ABOUT_STRICT)
    return isinstance(error, ModelRequestRejectedError)


def model_error(
    error: Exception, provider: ProviderName, secret: str, *, has_output: bool
) -> ModelError:
    """Return the ModelError for an exception. `has_output`: whether a part of the response had
    arrived. `secret` is removed from the message."""
    own = (one for one in _causes(error) if isinstance(one, ModelError))
    if (found := next(own, None)) is not None:
        return found
    lost = TRANSPORT | (ModelAPIError if has_output else ModelConnectionError)
    match error:
        case ModelHTTPError():
            return _http_failure(error, secret)
        case ModelRequestRejectedError() | UserError() | NotImplementedError() | BotoCoreError():
            text = f"The request cannot be sent to this model: {failures.quote(str(error), secret)}"
            return ModelError(RunErrorCode.MODEL_REFUSED_REQUEST, text, transient=False)
        case _ if any(isinstance(one, _BAD_ADDRESS) for one in _causes(error)):
            return failures.misconfigured(_BASE_URLS[provider])
        case _ if isinstance(error, _AGAIN):
            return failures.reported_failure({"message": failures.quote(error.message, secret)})
        case _ if isinstance(error, lost):
            return failures.broken_stream() if has_output else failures.unreachable()
        case _:  # The three libraries raise these errors for an unexpected response.
            log.warning("model_answer_unreadable", provider=provider, error=type(error).__name__)
            what = str(error) if isinstance(error, AgentRunError) else repr(error)
            return failures.invalid_response(failures.quote(what, secret))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the error and its causes."""
    while error is not None:
        yield error
        error = error.__cause__


def _http_failure(error: ModelHTTPError, secret: str) -> ModelError:
    """Return the ModelError for an HTTP status."""
    if error.in_stream and error.status_code == FAILED_MODEL:
        return failures.broken_stream()
    rejects_key = isinstance(error, ModelAuthenticationError)  # Google: status 400
    message = "" if rejects_key else _message(error.body)
    told = {"message": message, "code": error.provider_error_code}
    made = failures.http_failure(
        error.status_code,
        error.headers or {},
        to_json({"error": told}, fallback=str),
        secret=secret,
    )
    if rejects_key:
        made.code = RunErrorCode.MODEL_UNAUTHORIZED
    if error.status_code == FAILED_MODEL:
        made.code, made.transient = RunErrorCode.MODEL_UNAVAILABLE, True
    if isinstance(error, ModelQuotaExceededError):
        made.transient = False
    if made.transient and made.retry_after is None:
        made.retry_after = error.retry_after
    return made


def _message(body: object) -> str:
    """Return the message of `{"error": {"message"}}` (Anthropic, Google), `{"Error": {"Message"}}`
    (botocore) or `{"message"}`. An HTML or XML page has no message."""
    if isinstance(body, str):
        return "" if body.lstrip().startswith("<") else body
    if not isinstance(body, Mapping):
        return ""
    told = cast(Mapping[str, Any], body)
    inner = told.get("error") or told.get("Error")
    if inner is not None:
        return _message(inner)
    message = told.get("message") or told.get("Message")
    return _message(message) if isinstance(message, str) else ""


def remaining_tokens(message: str) -> int | None:
    """Return the number of output tokens for which there is space. It is read from Anthropic's
    error: "input length and `max_tokens` exceed context limit: 190000 + 64000 > 200000". Returns
    None for other errors, and if there is no space."""
    if (found := _NO_ROOM.search(message)) is None:
        return None
    room = int(found[2]) - int(found[1])
    return room if room > 0 else None
