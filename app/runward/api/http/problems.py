"""Errors as HTTP responses in the format of RFC 9457, or in OpenAI's format for its clients. Only
this module and `openai_errors` know status codes."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from math import ceil
from typing import Final

import structlog
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import ConfigDict, JsonValue
from pydantic_core import to_json
from starlette.exceptions import HTTPException

from runward.api.http.models import ResponseModel, with_example
from runward.api.http.openai_errors import is_openai_request, make_openai_response
from runward.api.http.validation import convert_validation_error
from runward.domain import errors as e
from runward.domain import not_found
from runward.domain.json import JsonObject
from runward.store.access.vault import SecretUnreadableError
from runward.store.postgres.db import is_outage, log_fields


class ProblemError(ResponseModel):
    """One invalid value of a request."""

    path: str
    """Path of the invalid value. For a value in the body, this is a dotted path such as
    `tools.0.name`, or an empty string for the body itself. Other paths have a prefix, such as
    `query.limit` or `header.Idempotency-Key`."""
    message: str
    """Requirement that the value does not meet. The message never contains the value."""


class Problem(ResponseModel):
    """An error in the format of RFC 9457. Programs should compare `code`, because texts may change.
    Some errors contain additional fields. For example, `approval` contains the approval if another
    decision came first."""

    model_config = ConfigDict(extra="allow") | with_example(
        type="urn:runward:problem:invalid_request",
        title="Unprocessable Entity",
        status=422,
        detail="The request is not valid. `errors` lists each problem and its path.",
        code="invalid_request",
        request_id="req_5c0e3f6a7b9d4e1f8a2b3c4d5e6f7a8b",
        errors=[{"path": "tools.0", "message": "must be a string"}],
    )

    type: str
    """URN of the error type. It ends with the value of `code`."""
    title: str
    """Name of the HTTP status."""
    status: int
    """HTTP status code."""
    detail: str
    """Description of the error, for people."""
    code: str
    """Stable error code, for programs."""
    request_id: str
    """ID of the request, as in the `X-Request-Id` header and in Runward's log."""
    errors: list[ProblemError]
    """Invalid values of the request. Each entry describes one value. Empty if the error has another
    cause."""


log = structlog.get_logger()

MEDIA_TYPE: Final = "application/problem+json"
DEFAULT_RETRY_SECONDS: Final = 2.0
"""The value of Retry-After if no better value is known."""

STATUSES: Final[Mapping[type[e.AppError], int]] = {
    e.BadRequestError: 400,
    e.UnauthenticatedError: 401,
    e.ForbiddenError: 403,
    not_found.NotFoundError: 404,
    e.RequestTimeoutError: 408,
    e.ConflictError: 409,
    e.GoneError: 410,
    e.PayloadTooLargeError: 413,
    e.UnsupportedMediaTypeError: 415,
    e.InvalidRequestError: 422,
    e.McpUnreachableError: 424,
    e.TooManyRequestsError: 429,
    e.UnavailableError: 503,
}
"""The status of each error class. A class that is not listed has the status of its nearest
ancestor."""

DECRYPTION_FAILED: Final = (
    "A stored secret cannot be decrypted. It was encrypted with a different "
    "RUNWARD_SECRET_KEY, or it was altered. Search Runward's log for the request "
    "ID to find the secret's name."
)

FRAMEWORK_ERRORS: Final[Mapping[int, tuple[str, str]]] = {
    400: (e.BadRequestError.code, e.BadRequestError.text),
    404: (not_found.NotFoundError.code, not_found.NotFoundError.text),
    405: (
        "method_not_allowed",
        "This path does not support this HTTP method. The `Allow` header lists the "
        "methods that it supports.",
    ),
    431: ("headers_too_large", "The request line, the headers or the trailers are too large."),
    500: (
        "internal_error",
        "Runward failed because of an internal error. Search Runward's log for the request ID.",
    ),
}
"""Errors of the framework, and unexpected errors: status -> code, detail."""


def get_status(kind: type[e.AppError]) -> int:
    """Return the status of an error class. Raises KeyError if it has none."""
    return next((STATUSES[c] for c in kind.__mro__ if c in STATUSES), 0) or STATUSES[kind]


def get_request_id(request: Request) -> str:
    return request.state.request_id


def make_problem(
    request: Request,
    status: int,
    code: str,
    detail: str,
    *,
    errors: Sequence[JsonValue] = (),
    extra: Mapping[str, JsonValue] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    if is_openai_request(request):
        return make_openai_response(status, code, detail, errors, headers)
    body = build_problem(
        status, code, detail, request_id=get_request_id(request), errors=errors, extra=extra
    )
    return Response(to_json(body), status, headers, MEDIA_TYPE)


def build_problem(
    status: int,
    code: str,
    detail: str,
    *,
    request_id: str,
    errors: Sequence[JsonValue] = (),
    extra: Mapping[str, JsonValue] | None = None,
) -> JsonObject:
    return {
        **(extra or {}),
        "type": f"urn:runward:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
        "request_id": request_id,
        "errors": list(errors),
    }


def make_app_problem(request: Request, error: e.AppError) -> Response:
    status = get_status(type(error))
    return make_problem(
        request,
        status,
        error.code,
        error.detail,
        errors=[{"path": path, "message": text} for path, text in error.errors],
        extra=error.extra,
        headers=_make_headers(error, status),
    )


def make_framework_problem(
    request: Request, status: int, headers: Mapping[str, str] | None = None
) -> Response:
    """Return the problem for an error that is not an AppError. It contains only fixed texts, never
    the text of an exception."""
    code, detail = FRAMEWORK_ERRORS.get(status, (f"http_{status}", HTTPStatus(status).phrase))
    return make_problem(request, status, code, detail, headers=headers)


def make_error_response(request: Request, error: Exception) -> Response | None:
    """Return the response for an error. None: the error is unexpected. The caller must log it and
    respond with 500."""
    match error:
        case e.AppError():
            return make_app_problem(request, error)
        case RequestValidationError():
            return make_app_problem(request, convert_validation_error(error))
        case HTTPException():
            return make_framework_problem(request, error.status_code, error.headers)
        case SecretUnreadableError():
            return make_app_problem(request, e.UnavailableError(DECRYPTION_FAILED))
        case _ if is_outage(error):
            return make_app_problem(request, e.UnavailableError())
        case _:
            return None


def describe_request(request: Request) -> dict[str, str | None]:
    """Return the fields of a request for log events."""
    return {
        "request_id": get_request_id(request),
        "method": request.method,
        "route": getattr(request.scope.get("route"), "path_format", None),
    }


def log_unavailable(request: Request, response: Response, error: Exception) -> None:
    """Log the cause of a 503. The response does not contain it."""
    if response.status_code == HTTPStatus.SERVICE_UNAVAILABLE:
        about = describe_request(request) | log_fields(error.__cause__ or error)
        log.warning("request.unavailable", **about)


def _make_headers(error: e.AppError, status: int) -> dict[str, str]:
    headers: dict[str, str] = {}
    if isinstance(error, e.UnauthenticatedError):
        reason = ', error="invalid_token"' if error.token_given else ""
        if error.resource_metadata is not None:
            reason += f', resource_metadata="{error.resource_metadata}"'
        headers["WWW-Authenticate"] = f'Bearer realm="runward"{reason}'
    if isinstance(error, e.InsufficientScopeError):
        needed = " ".join(error.needed)
        headers["WWW-Authenticate"] = f'Bearer error="insufficient_scope", scope="{needed}"'
    if error.retry and status != 408:
        headers["Retry-After"] = str(max(1, ceil(error.retry_after or DEFAULT_RETRY_SECONDS)))
    if status in {409, 422} and not error.retry:
        headers["x-should-retry"] = "false"
    return headers
