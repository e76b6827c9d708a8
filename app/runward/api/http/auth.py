"""Authentication. API keys are accepted only in the Authorization header. Under /v1, requests from
the console's own page can use its session cookie."""

from dataclasses import dataclass, replace
from math import ceil
from typing import Annotated, Any, Final

from fastapi import Depends, Request
from structlog.contextvars import bind_contextvars

from runward.api.http.requests import ApiRequest, get_services
from runward.domain.errors import (
    ForbiddenError,
    InsufficientScopeError,
    TooManyRequestsError,
    UnauthenticatedError,
)
from runward.domain.ids import KeyId, Prefix, ProjectId, format_id
from runward.domain.registry import console_access
from runward.domain.registry.scopes import READ_APPROVALS, READ_RUNS, READ_TOOLS, Principal, Scope
from runward.store.access import limits
from runward.store.postgres.project_scope import allow_all_projects, restrict_to

MAX_TOKEN_BYTES: Final = 1024
LIMITS_PATH: Final = "/v1/limits"
"""Requests to this path do not count, so that an admin can always raise the limit."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """Marks a parameter as the principal. The scopes of which a key must have at least one. If
    there are none, any valid key is accepted. Checked before the body is read."""

    any_of: tuple[Scope, ...]
    operator: bool = False

    def __call__(self) -> None:
        """FastAPI requires that a dependency can be called. The route calls `authenticate`."""
        raise NotImplementedError

    async def authenticate(self, request: ApiRequest) -> Principal:
        """Return the principal of the request. Raises AppErrors."""
        principal = add_origin(request, await _authenticate(request))
        if not principal.may(self.any_of):
            raise InsufficientScopeError(self.any_of)
        if self.operator and not principal.operator:
            raise ForbiddenError(
                "Only an API key of the project `default` with the scope `admin` can "
                "send this request."
            )
        if self.operator:
            allow_all_projects()
        return principal


def require(*any_of: Scope, operator: bool = False) -> Any:
    """Return the dependency for `Annotated[Principal, require(Scope.RUNS_WRITE)]`."""
    return Depends(Requirement(any_of, operator))


AnyKey = Annotated[Principal, require()]
RunsReader = Annotated[Principal, require(*READ_RUNS)]
RunsWriter = Annotated[Principal, require(Scope.RUNS_WRITE)]
ToolsReader = Annotated[Principal, require(*READ_TOOLS)]
ToolsWriter = Annotated[Principal, require(Scope.TOOLS_WRITE)]
ApprovalsReader = Annotated[Principal, require(*READ_APPROVALS)]
ApprovalsDecider = Annotated[Principal, require(Scope.APPROVALS_DECIDE)]
Admin = Annotated[Principal, require(Scope.ADMIN)]
Operator = Annotated[Principal, require(Scope.ADMIN, operator=True)]


async def _authenticate(request: ApiRequest) -> Principal:
    """Return the principal of the request. A key in the header has precedence over the cookie.
    Raises UnauthenticatedError and ForbiddenError."""
    if request.get_header(b"authorization") is not None or request.get_header(b"cookie") is None:
        return await authenticate_key(request)
    services = get_services(request)
    access, queue = services.access, services.queue
    token = console_access.session_token(request.headers, access.public_url)
    if token is None:
        raise UnauthenticatedError
    console_access.ensure_same_origin(request.method, request.headers)
    principal = await access.authenticate_session(token)
    if principal is None:
        raise UnauthenticatedError("The console session has ended. Sign in again.")
    queue.watch_project(principal.project_id)
    restrict_to(principal.project_id)
    return principal


def add_origin(request: Request, principal: Principal) -> Principal:
    """Return the principal with the origin of its request, for the audit log. All further log lines
    of the request contain the ID of the project."""
    bind_contextvars(project=format_id(Prefix.PROJECT, principal.project_id))
    address = None if request.client is None else request.client.host
    return replace(principal, address=address, request_id=request.state.request_id)


async def authenticate_key(request: Request) -> Principal:
    """Return the principal of the key in the header. Raises UnauthenticatedError and
    TooManyRequestsError."""
    token = read_bearer_token(request)
    services = get_services(request)
    access, queue = services.access, services.queue
    principal = await access.authenticate(token)
    if principal is None:
        raise UnauthenticatedError("The API key is not valid.", token_given=True)
    queue.watch_project(principal.project_id)
    restrict_to(principal.project_id)
    if request.scope["path"] != LIMITS_PATH:
        if principal.key_limits.requests_per_minute is not None:
            await _count_request(request, principal.project_id, principal.key_id)
        if principal.limits.requests_per_minute is not None:
            await _count_request(request, principal.project_id)
    return principal


async def _count_request(
    request: Request, project_id: ProjectId, key_id: KeyId | None = None
) -> None:
    """Count a request of the key, or of the project if `key_id` is None. Add the headers of the
    limit to the response (draft-ietf-httpapi-ratelimit-headers-10). Raises
    TooManyRequestsError."""
    async with get_services(request).storage.connect() as tx:
        count = await limits.count_request(tx, project_id, key_id)
    if count is None:  # the limit was removed
        return
    policy, owner = (b"project", "project") if key_id is None else (b"key", "API key")
    remaining, seconds = max(0, count.limit - count.requests), ceil(count.seconds_left)
    request.state.response_headers += [
        (b"ratelimit-policy", b'"%b";q=%d;w=60' % (policy, count.limit)),
        (b"ratelimit", b'"%b";r=%d;t=%d' % (policy, remaining, seconds)),
    ]
    if count.requests > count.limit:
        raise TooManyRequestsError(
            f"The {owner} has sent {count.limit} requests in this minute, its maximum.",
            retry_after=count.seconds_left,
        )


def read_bearer_token(request: Request) -> str:
    """Return the token of the Authorization header. Two such headers are rejected, because a proxy
    may have checked the other one. Raises UnauthenticatedError."""
    values = [value for name, value in request.scope["headers"] if name == b"authorization"]
    if len(values) != 1:
        raise UnauthenticatedError
    scheme, _, token = values[0].partition(b" ")
    token = token.strip()
    if scheme.lower() != b"bearer" or not token:
        raise UnauthenticatedError
    try:
        if len(token) > MAX_TOKEN_BYTES:
            raise ValueError
        return token.decode()
    except ValueError:
        raise UnauthenticatedError("The API key is not valid.", token_given=True) from None
