"""What the clients raise."""

from collections.abc import Mapping
from typing import Any


class RunwardError(Exception):
    """The base class of all errors of this package."""


class APIConnectionError(RunwardError):
    """No complete response arrived: the connection failed or broke."""


class APITimeoutError(APIConnectionError):
    """No complete response arrived within the timeout."""


class APIError(RunwardError):
    """The service answered with an error. The list of codes is in docs/reference/errors.md."""

    status: int
    """The HTTP status."""
    code: str | None
    """The code of the error, which never changes, such as `run_not_found`. None if a proxy
    answered."""
    param: str | None
    """The path of the first wrong value in the request, such as `tools.0`."""
    request_id: str | None
    """The ID of the request, which the log of the service has too."""
    problem: dict[str, Any]
    """The body of the response. Empty if it is not JSON."""
    headers: Mapping[str, str]

    def __init__(self, status: int, headers: Mapping[str, str], problem: dict[str, Any]) -> None:
        errors: list[dict[str, Any]] = problem.get("errors") or []
        detail = problem.get("detail", f"The service answered with status {status}.")
        wrong = [f"{error.get('path')} {error.get('message')}" for error in errors]
        super().__init__(" ".join([f"{status} {problem.get('code', 'error')}: {detail}", *wrong]))
        self.status = status
        self.headers = headers
        self.problem = problem
        self.code = problem.get("code")
        self.param = errors[0].get("path") if errors else None
        self.request_id = problem.get("request_id") or headers.get("x-request-id")


class BadRequestError(APIError): ...


class AuthenticationError(APIError): ...


class PermissionDeniedError(APIError): ...


class NotFoundError(APIError): ...


class ConflictError(APIError): ...


class UnprocessableEntityError(APIError): ...


class RateLimitError(APIError): ...


class InternalServerError(APIError): ...


BY_STATUS: dict[int, type[APIError]] = {
    400: BadRequestError,
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    409: ConflictError,
    422: UnprocessableEntityError,
    429: RateLimitError,
}


def make_error(status: int, headers: Mapping[str, str], body: object) -> APIError:
    """Return the error that a response of status 400 or above means."""
    kind = BY_STATUS.get(status, InternalServerError if status >= 500 else APIError)
    return kind(status, headers, body if isinstance(body, dict) else {})  # pyright: ignore[reportUnknownArgumentType]
