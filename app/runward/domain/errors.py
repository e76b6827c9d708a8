"""Everything that Runward refuses on purpose: one tree, each class with a stable `code`.

HTTP numbers are not here; `runward.api.http.problems` has them. `code` is part of the API: clients
compare it, so it never changes; texts may. No text ever quotes a secret.
"""

from collections.abc import Iterable, Mapping
from typing import ClassVar, NamedTuple

from pydantic import JsonValue

from runward.domain.ids import ProjectId, RunId


class FieldError(NamedTuple):
    """What is wrong with one value of a request. `path` is dotted, `tools.0.name`; a value that
    is not in the body has its place in front: `query.limit`, `header.Idempotency-Key`."""

    path: str
    message: str


class AppError(Exception):
    """`retry`: the very same request may succeed later; if not, answers tell clients not to try.
    `retry_after` is in seconds. `extra` stands beside the problem's own members, and cannot
    replace them."""

    code: ClassVar[str] = "error"
    retry: ClassVar[bool] = False
    text: ClassVar[str] = "The request was refused."

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


# Who asks.


class UnauthenticatedError(AppError):
    """`token_given`: there was a key, and it is not valid."""

    code = "unauthenticated"
    text = "An API key is needed: Authorization: Bearer rw_…"

    def __init__(self, detail: str | None = None, *, token_given: bool = False) -> None:
        super().__init__(detail)
        self.token_given = token_given


class ForbiddenError(AppError):
    code = "forbidden"
    text = "This key may not do that."


class InsufficientScopeError(ForbiddenError):
    """`needed`: any one of these scopes would do, unless `problem` says otherwise."""

    code = "insufficient_scope"

    def __init__(self, scopes: Iterable[str], problem: str | None = None) -> None:
        self.needed = tuple(scopes)
        lacking = f"This key lacks the scope for that: {' or '.join(self.needed)}."
        super().__init__(f"{problem}: {', '.join(self.needed)}." if problem else lacking)


# What is asked about. An id of another project is answered exactly like one that never was.


class NotFoundError(AppError):
    code = "not_found"
    text = "There is nothing at this path."


class RunNotFoundError(NotFoundError):
    code = "run_not_found"
    text = "There is no such run."


class CallNotFoundError(NotFoundError):
    code = "call_not_found"
    text = "This run has no such tool call."


class ApprovalNotFoundError(NotFoundError):
    code = "approval_not_found"
    text = "There is no such approval."


class ResponseNotFoundError(NotFoundError):
    code = "response_not_found"
    text = "There is no such response."


class ModelNotFoundError(NotFoundError):
    code = "model_not_found"
    text = "There is no such model."


class ToolNotFoundError(NotFoundError):
    code = "tool_not_found"
    text = "There is no such tool."


class AgentNotFoundError(NotFoundError):
    code = "agent_not_found"
    text = "There is no such agent."


class McpServerNotFoundError(NotFoundError):
    code = "mcp_server_not_found"
    text = "There is no such MCP server."


class SecretNotFoundError(NotFoundError):
    code = "secret_not_found"
    text = "There is no such secret."


class SessionNotFoundError(NotFoundError):
    code = "session_not_found"
    text = "There is no such session."


class KeyNotFoundError(NotFoundError):
    code = "key_not_found"
    text = "There is no such key."


class ProjectNotFoundError(NotFoundError):
    code = "project_not_found"
    text = "There is no such project."


class CallbackNotFoundError(NotFoundError):
    code = "callback_not_found"
    text = "There is no such callback."


# What the state of things does not allow.


class ConflictError(AppError):
    code = "conflict"
    text = "The state of the resource does not allow that."


class ApprovalAlreadyDecidedError(ConflictError):
    """`extra["approval"]` is what won: the approval's id and status, the decision and whose."""

    code = "approval_already_decided"
    text = "This approval has been decided already."


class DigestMismatchError(ConflictError):
    code = "digest_mismatch"
    text = "The digest is not that of the call that waits: look at the approval again."


class DecisionNotAllowedError(ConflictError):
    code = "decision_not_allowed"
    text = "This approval does not allow that decision; see its allowed_decisions."


class RunEndedError(ConflictError):
    code = "run_ended"
    text = "This run has ended."


class RunUnreadableError(ConflictError):
    """`runward.store.runs.quarantine` ends such a run."""

    code = "run_unreadable"
    text = "The stored data of this run cannot be read back, so the run cannot continue."

    def __init__(self, project_id: ProjectId, run_id: RunId) -> None:
        self.project_id = project_id
        self.run_id = run_id
        super().__init__()


class SessionBusyError(ConflictError):
    code = "session_busy"
    text = "A run of this session has not ended yet."


class CallNotWaitingError(ConflictError):
    code = "call_not_waiting"
    text = "This tool call does not wait for that."


class TooEarlyError(ConflictError):
    code = "too_early"
    retry = True
    text = "The tool's own answer to the call has not arrived yet. Try again in a moment."


class ResultAlreadyGivenError(ConflictError):
    code = "result_already_given"
    text = "This tool call has another result already."


class AlreadyExistsError(ConflictError):
    code = "already_exists"
    text = "There is one of this name already."


class IdempotencyInFlightError(ConflictError):
    code = "idempotency_in_flight"
    retry = True
    text = "A request with this Idempotency-Key is still being answered."


class GoneError(AppError):
    code = "gone"
    text = "That is no longer there."


class LateCallbackError(GoneError):
    code = "late_callback"
    text = "The call has ended without this answer. It was kept, and changes nothing."


# What is wrong with the request itself.


class BadRequestError(AppError):
    code = "bad_request"
    text = "The request cannot be read."


class InvalidJsonError(BadRequestError):
    code = "invalid_json"
    text = "The body is not the JSON that is accepted here."


class RequestTimeoutError(AppError):
    code = "request_timeout"
    retry = True
    text = "The body did not arrive in time."


class PayloadTooLargeError(AppError):
    code = "payload_too_large"

    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"The body is larger than {max_bytes} bytes.")


class UnsupportedMediaTypeError(AppError):
    code = "unsupported_media_type"
    text = "The body must be JSON in UTF-8, sent as Content-Type: application/json."


class InvalidRequestError(AppError):
    code = "invalid_request"
    text = "The request is not valid; errors says what is wrong where."


class UnknownModelError(InvalidRequestError):
    code = "unknown_model"
    text = "There is no such model."


class UnknownToolError(InvalidRequestError):
    code = "unknown_tool"
    text = "A tool that the run names is not registered, or not enabled."


class UnknownAgentError(InvalidRequestError):
    code = "unknown_agent"
    text = "The agent that the run names is not registered."


class UnsupportedParameterError(InvalidRequestError):
    """OpenAI's API has it, and Runward cannot do what it says."""

    code = "unsupported_parameter"
    text = "Runward cannot do what this parameter asks for."

    def __init__(self, param: str, reason: str) -> None:
        super().__init__(reason, errors=[FieldError(param, reason)])


class PreviousResponseNotFoundError(InvalidRequestError):
    code = "previous_response_not_found"
    text = "There is no such previous response."


class IdempotencyMismatchError(InvalidRequestError):
    code = "idempotency_key_reused"
    text = "This Idempotency-Key was used for another request."


# What depends on others.


class McpUnreachableError(AppError):
    """`permanent`: as it is registered, trying again cannot help."""

    code = "mcp_unreachable"
    retry = True
    text = "The MCP server cannot be reached. Nothing was stored."

    def __init__(self, detail: str | None = None, *, permanent: bool = False) -> None:
        super().__init__(detail)
        self.permanent = permanent


# What may pass.


class TooManyRequestsError(AppError):
    code = "too_many_requests"
    retry = True
    text = "That is more than this project may do now. Nothing was changed."


class UnavailableError(AppError):
    code = "unavailable"
    retry = True
    text = "Runward cannot answer right now. Try again, with the same Idempotency-Key."


# What only the operator can resolve. No client sees these.


class OperatorError(Exception):
    """Runward cannot start, or cannot go on. The message tells the operator what to do."""


class DatabaseUnreachableError(OperatorError):
    """The database does not answer, or does not let this process in."""
