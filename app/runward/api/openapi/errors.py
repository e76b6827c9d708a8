"""An example of every error that has a code of its own, under the status that it is answered
with: rendered as the API renders them."""

from collections.abc import Iterator
from typing import Any, Final
from uuid import UUID

from runward.api.http.openai_errors import STATUSES, openai_body
from runward.api.http.problems import FRAMEWORK, problem_body, status_of
from runward.api.openapi.tidy import Json
from runward.domain import errors as e
from runward.domain.ids import ProjectId, RunId

REQUEST_ID: Final = "req_5c0e3f6a7b9d4e1f8a2b3c4d5e6f7a8b"
_GIVEN: Final[tuple[e.AppError, ...]] = (
    e.InsufficientScopeError(["runs:write"]),
    e.RunUnreadableError(ProjectId(UUID(int=0)), RunId(UUID(int=0))),
    e.PayloadTooLargeError(1_048_576),
    e.UnsupportedParameterError("prompt", "Runward stores no prompts"),
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
"""Those that must be told something, or that are clearer so."""


def examples() -> dict[int, Json]:
    """Status -> code -> example, as problem+json."""
    found: dict[int, Json] = {}
    for error in _errors():
        status = status_of(type(error))
        body = problem_body(
            status,
            error.code,
            error.detail,
            request_id=REQUEST_ID,
            errors=_fields(error),
            extra=error.extra,
        )
        found.setdefault(status, {})[error.code] = {"value": body}
    code, detail = FRAMEWORK[500]
    found[500] = {code: {"value": problem_body(500, code, detail, request_id=REQUEST_ID)}}
    return found


def openai_examples() -> dict[int, Json]:
    """The same for clients of OpenAI's API."""
    found: dict[int, Json] = {}
    for error in _errors():
        status = status_of(type(error))
        body = openai_body(status, error.code, error.detail, _fields(error))
        code: str = body["error"]["code"]
        found.setdefault(STATUSES.get(status, status), {})[code] = {"value": body}
    code, detail = FRAMEWORK[500]
    found[500] = {code: {"value": openai_body(500, code, detail, ())}}
    return found


def _errors() -> Iterator[e.AppError]:
    given: dict[type[e.AppError], e.AppError] = {type(error): error for error in _GIVEN}
    for kind in _kinds(e.AppError):
        yield given[kind] if kind in given else kind()


def _kinds(parent: type[e.AppError]) -> Iterator[type[e.AppError]]:
    """Those of the API itself, in the order of the tree."""
    for kind in parent.__subclasses__():
        if kind.__module__ == e.__name__:
            yield kind
            yield from _kinds(kind)


def _fields(error: e.AppError) -> list[Any]:
    return [{"path": path, "message": text} for path, text in error.errors]
