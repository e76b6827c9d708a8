"""All errors that Runward reports on purpose, in one tree. Each class has a stable `code`.

Clients compare `code`, so it never changes. Texts may change. No text contains a secret. HTTP
statuses are in `runward.api.http.problems`.
"""

from collections.abc import Iterable, Mapping
from typing import ClassVar, NamedTuple

from pydantic import JsonValue

from runward.domain.ids import ProjectId, RunId


class FieldError(NamedTuple):
    """The error of one value in a request. `path` is dotted, such as `tools.0.name`. If the value
    is not in the body, the path begins with its place, such as `query.limit` or
    `header.Idempotency-Key`."""

    path: str
    message: str


class AppError(Exception):
    """An error of the API. `retry`: the same request may succeed later. If False, responses tell
    clients not to retry. `retry_after` is in seconds. `extra`: additional fields of the problem.
    They cannot replace the standard fields."""

    code: ClassVar[str] = "error"
    retry: ClassVar[bool] = False
    text: ClassVar[str] = "Runward rejected the request."

    def __init__(
        self,
        detail: str | None = None,
        *,
        errors: Iterable[FieldError] = (),
        extra: Mapping[str, JsonValue] | None = None,
        retry_after: float | None = None,
    ) -> None:
        self.detail = detail or self.text
        self.errors = tuple(errors)
        self.extra = extra or {}
        self.retry_after = retry_after
        super().__init__(self.detail)


# Authentication.


class UnauthenticatedError(AppError):
    """The request has no valid key. `token_given`: the request has a key, and it is invalid."""

    code = "unauthenticated"
    text = "The request has no API key. Send one in a header: `Authorization: Bearer rw_…`."

    def __init__(self, detail: str | None = None, *, token_given: bool = False) -> None:
        super().__init__(detail)
        self.token_given = token_given
        self.resource_metadata: str | None = None
        """URL of the metadata of the protected resource (RFC 9728)."""


class ForbiddenError(AppError):
    code = "forbidden"
    text = "This API key does not have permission for this request."


class InsufficientScopeError(ForbiddenError):
    """The key lacks a scope. `needed`: the scopes of which one is sufficient, unless `problem` says
    otherwise."""

    code = "insufficient_scope"

    def __init__(self, scopes: Iterable[str], problem: str | None = None) -> None:
        self.needed = tuple(scopes)
        lacking = f"This API key does not have the required scope: {' or '.join(self.needed)}."
        super().__init__(f"{problem}: {', '.join(self.needed)}." if problem else lacking)


# Conflicts with the state of a resource.


class ConflictError(AppError):
    code = "conflict"
    text = "The current state of the resource does not allow this request."


class ApprovalAlreadyDecidedError(ConflictError):
    """Another decision came first. `extra["approval"]` has the approval's ID and status, the
    decision and its approver."""

    code = "approval_already_decided"
    text = "This approval was already decided."


class DigestMismatchError(ConflictError):
    code = "digest_mismatch"
    text = (
        "The digest does not match the pending tool call. Read the approval again "
        "before you decide."
    )


class DecisionNotAllowedError(ConflictError):
    code = "decision_not_allowed"
    text = (
        "This approval does not allow this decision. Its `allowed_decisions` field "
        "lists the decisions that you can make."
    )


class RunEndedError(ConflictError):
    code = "run_ended"
    text = "This run has already ended, so it does not accept this request."


class RunUnreadableError(ConflictError):
    """The stored run cannot be read. `runward.store.runs.quarantine` ends such a run."""

    code = "run_unreadable"
    text = "The stored data of this run cannot be read, so the run cannot continue."

    def __init__(self, project_id: ProjectId, run_id: RunId) -> None:
        self.project_id = project_id
        self.run_id = run_id
        super().__init__()


class SessionBusyError(ConflictError):
    code = "session_busy"
    text = "Another run of this session has not ended. Wait until it ends, or cancel it."


class CallNotWaitingError(ConflictError):
    code = "call_not_waiting"
    text = (
        "The current phase of this tool call does not allow this request. Read the call to see "
        "its phase."
    )


class TooEarlyError(ConflictError):
    code = "too_early"
    retry = True
    text = (
        "Runward has not yet received the tool's own response to this call. Retry after one second."
    )


class ResultAlreadyGivenError(ConflictError):
    code = "result_already_given"
    text = "This tool call already has a different result. The new result was not stored."


class LegalHoldError(ConflictError):
    code = "legal_hold"
    text = "This data is under a legal hold. To erase it, first delete the hold at /v1/legal_holds."


class AlreadyExistsError(ConflictError):
    code = "already_exists"
    text = "A resource with this name already exists."


class IdempotencyInFlightError(ConflictError):
    code = "idempotency_in_flight"
    retry = True
    text = (
        "Another request with this Idempotency-Key is still in progress. Retry when it "
        "has finished."
    )


class GoneError(AppError):
    code = "gone"
    text = "This resource no longer exists."


class EventsRemovedError(GoneError):
    code = "events_removed"
    text = "The retention of this project has removed the events of this run."


class LateCallbackError(GoneError):
    code = "late_callback"
    text = (
        "The tool call ended before this callback arrived. Runward stored the "
        "callback, but the result of the call does not change."
    )


# Invalid requests.


class BadRequestError(AppError):
    code = "bad_request"
    text = "The request is malformed."


class InvalidJsonError(BadRequestError):
    code = "invalid_json"
    text = "The request body is not valid JSON."


class RequestTimeoutError(AppError):
    code = "request_timeout"
    retry = True
    text = "The request body did not arrive in time. Send the request again."


class PayloadTooLargeError(AppError):
    code = "payload_too_large"

    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"The request body is larger than {max_bytes} bytes.")


class UnsupportedMediaTypeError(AppError):
    code = "unsupported_media_type"
    text = (
        "The request body must be JSON in UTF-8 with the header `Content-Type: application/json`."
    )


class InvalidRequestError(AppError):
    code = "invalid_request"
    text = "The request is not valid. `errors` lists each problem and its path."


class UnknownModelError(InvalidRequestError):
    code = "unknown_model"
    text = "This model does not exist or is not configured."


class UnknownToolError(InvalidRequestError):
    code = "unknown_tool"
    text = "The request names a tool that is not registered or not enabled."


class UnknownAgentError(InvalidRequestError):
    code = "unknown_agent"
    text = "The request names an agent that is not registered."


class UnsupportedParameterError(InvalidRequestError):
    """A parameter of OpenAI's API that Runward does not support."""

    code = "unsupported_parameter"
    text = "Runward does not support this parameter."

    def __init__(self, param: str, reason: str) -> None:
        super().__init__(reason, errors=[FieldError(param, reason)])


class PreviousResponseNotFoundError(InvalidRequestError):
    code = "previous_response_not_found"
    text = "This project has no response with the ID in `previous_response_id`."


class IdempotencyMismatchError(InvalidRequestError):
    code = "idempotency_key_reused"
    text = "This Idempotency-Key was already used for a different request. Send a new key."


# Other services.


class McpUnreachableError(AppError):
    """An MCP server cannot be reached. `permanent`: a retry cannot succeed until the registration
    changes."""

    code = "mcp_unreachable"
    retry = True
    text = "Runward could not reach the MCP server. Nothing was stored."

    def __init__(self, detail: str | None = None, *, permanent: bool = False) -> None:
        super().__init__(detail)
        self.permanent = permanent


# Temporary errors.


class TooManyRequestsError(AppError):
    code = "too_many_requests"
    retry = True
    text = "Rate limit exceeded. Retry after the number of seconds in `Retry-After`."


class UnavailableError(AppError):
    code = "unavailable"
    retry = True
    text = "Runward is temporarily unavailable. Retry with the same Idempotency-Key."


# Errors for the operator. No client receives them.


class OperatorError(Exception):
    """Runward cannot start or continue. The message tells the operator what to do."""
