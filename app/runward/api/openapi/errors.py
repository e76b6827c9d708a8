"""An example of every error code, grouped by status and rendered as the API renders it."""

from collections.abc import Iterator
from typing import Any, Final
from uuid import UUID

from runward.api.http.openai_errors import STATUSES, build_openai_error
from runward.api.http.problems import FRAMEWORK_ERRORS, build_problem, get_status
from runward.api.openapi.tidy import Json
from runward.domain import errors as e
from runward.domain import not_found
from runward.domain.ids import ProjectId, RunId

REQUEST_ID: Final = "req_5c0e3f6a7b9d4e1f8a2b3c4d5e6f7a8b"
_SAMPLE_ERRORS: Final[tuple[e.AppError, ...]] = (
    e.InsufficientScopeError(["runs:write"]),
    e.RunUnreadableError(ProjectId(UUID(int=0)), RunId(UUID(int=0))),
    e.PayloadTooLargeError(1_048_576),
    e.UnsupportedParameterError("prompt", "Runward does not store prompts."),
    e.InvalidRequestError(errors=[e.FieldError("tools.0", "must be a string")]),
    e.UnknownToolError(errors=[e.FieldError("tools.0", "is not registered")]),
    e.ApprovalAlreadyDecidedError(
        extra={
            "approval": {
                "id": "apr_019a5f1e8a417d528c1e5b7a9f3d2c60",
                "status": "approved",
                "decision": "approve",
                "decided_by": "key_019a5f1e5c1b7f3a8d2e4c6b8a0f1e3d",
            }
        }
    ),
)
"""Errors that need arguments, or that are clearer with them."""


def build_examples() -> dict[int, Json]:
    """Return examples as problem+json: status -> code -> example."""
    found: dict[int, Json] = {}
    for error in _iterate_errors():
        status = get_status(type(error))
        body = build_problem(
            status,
            error.code,
            error.detail,
            request_id=REQUEST_ID,
            errors=_encode_fields(error),
            extra=error.extra,
        )
        found.setdefault(status, {})[error.code] = {"value": body}
    code, detail = FRAMEWORK_ERRORS[500]
    found[500] = {code: {"value": build_problem(500, code, detail, request_id=REQUEST_ID)}}
    return found


def build_openai_examples() -> dict[int, Json]:
    """Return the examples for clients of OpenAI's API."""
    found: dict[int, Json] = {}
    for error in _iterate_errors():
        status = get_status(type(error))
        body = build_openai_error(status, error.code, error.detail, _encode_fields(error))
        code: str = body["error"]["code"]
        found.setdefault(STATUSES.get(status, status), {})[code] = {"value": body}
    code, detail = FRAMEWORK_ERRORS[500]
    found[500] = {code: {"value": build_openai_error(500, code, detail, ())}}
    return found


def list_codes() -> list[str]:
    """Return the codes of all errors that an operation can answer with."""
    codes = [error.code for error in _iterate_errors()]
    return list(dict.fromkeys((*codes, *(code for code, _ in FRAMEWORK_ERRORS.values()))))


def _iterate_errors() -> Iterator[e.AppError]:
    given: dict[type[e.AppError], e.AppError] = {type(error): error for error in _SAMPLE_ERRORS}
    for kind in _iterate_error_types(e.AppError):
        yield given[kind] if kind in given else kind()


def _iterate_error_types(parent: type[e.AppError]) -> Iterator[type[e.AppError]]:
    """Yield the error classes of the API in the order of the tree."""
    for kind in parent.__subclasses__():
        if kind.__module__ in (e.__name__, not_found.__name__):
            yield kind
            yield from _iterate_error_types(kind)


def _encode_fields(error: e.AppError) -> list[Any]:
    return [{"path": path, "message": text} for path, text in error.errors]
