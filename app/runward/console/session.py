"""Sign in and out. The console exchanges an API key for a session in a cookie that scripts cannot
read. These three endpoints are for the console and not part of the API."""

import asyncio
from dataclasses import replace
from typing import Annotated, Any, Final, cast

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.routing import Route

from runward.domain import errors as e
from runward.domain.audit import AuditAction
from runward.domain.ids import Prefix, format_id
from runward.domain.registry import console_access
from runward.domain.registry.console_access import COOKIE, HTTPS_COOKIE
from runward.domain.registry.scopes import Principal
from runward.services import Services, Storage
from runward.store.access import audit, console_sessions, keys
from runward.store.access.audit import AuditActor, AuditChange
from runward.store.postgres.db import Tx
from runward.store.postgres.project_scope import allow_all_projects, restrict_to

PATH: Final = "/console/session"
MAX_BODY_BYTES: Final = 4096
READ_SECONDS: Final = 30.0


class SignIn(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    key: Annotated[str, Field(min_length=1, max_length=1024)]


def router() -> APIRouter:
    handlers = {"POST": sign_in, "GET": read_session, "DELETE": sign_out}
    return APIRouter(
        routes=[Route(PATH, handler, methods=[name]) for name, handler in handlers.items()]
    )


async def sign_in(request: Request) -> Response:
    """Create a session from the body `{"key": "rw_…"}`. The response is that of `read_session`.
    Raises UnauthenticatedError."""
    console_access.ensure_same_origin(request.method, request.headers)
    services = _services(request)
    storage, access = services.storage, services.access
    vault = storage.vault
    key = await read_key(request)
    principal = await access.authenticate(key)
    if principal is None:
        allow_all_projects()
        await _record_refusal(request, storage, key)
        raise e.UnauthenticatedError("The API key is not valid.", token_given=True)
    restrict_to(principal.project_id)
    token = console_sessions.make_token()
    async with storage.begin() as tx:
        await console_sessions.open_session(tx, principal, vault.session_digests(token)[0])
        await _record(tx, request, principal, AuditAction.CONSOLE_SESSION_CREATED)
    answer = await _describe_session(storage, token)
    if answer is None:
        raise e.UnauthenticatedError("The API key is not valid.", token_given=True)
    https = request.headers.get("origin", "").startswith("https:")
    answer.set_cookie(
        HTTPS_COOKIE if https else COOKIE,
        token,
        max_age=int(console_sessions.LIFETIME.total_seconds()),
        secure=https,
        httponly=True,
        samesite="strict",
    )
    return answer


async def read_session(request: Request) -> Response:
    """Return `{key: {id, name}, project: {id, name}, scopes, expires_at}`, or 204 without a
    session."""
    allow_all_projects()  # the session contains the project
    console_access.ensure_same_origin(request.method, request.headers)
    services = _services(request)
    access = services.access
    token = console_access.session_token(request.headers, access.public_url)
    shown = None if token is None else await _describe_session(services.storage, token)
    return Response(status_code=204) if shown is None else shown


async def sign_out(request: Request) -> Response:
    """End the session on the server, so that copies of the cookie are also invalid."""
    allow_all_projects()  # the session contains the project
    console_access.ensure_same_origin(request.method, request.headers)
    services = _services(request)
    storage, access = services.storage, services.access
    vault = storage.vault
    token = console_access.session_token(request.headers, access.public_url)
    if token is not None:
        async with storage.begin() as tx:
            digests = vault.session_digests(token)
            session = await console_sessions.get_session(tx, digests)
            await console_sessions.close_session(tx, digests)
            if session is not None:
                await _record(tx, request, session.principal, AuditAction.CONSOLE_SESSION_DELETED)
        access.forget_session(token)
    answer = Response(status_code=204)
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
    answer.delete_cookie(HTTPS_COOKIE, secure=True, httponly=True, samesite="strict")
    return answer


async def _record(tx: Tx, request: Request, principal: Principal, action: AuditAction) -> None:
    """Record a change of a session in the audit log. Sessions have no ID, so the resource is the
    API key."""
    address = None if request.client is None else request.client.host
    origin = replace(principal, address=address, request_id=request.state.request_id)
    change = AuditChange(action, format_id(Prefix.KEY, principal.key_id))
    await audit.append(tx, principal.project_id, AuditActor.from_principal(origin), change)


async def _record_refusal(request: Request, storage: Storage, key: str) -> None:
    """Record that somebody tried to sign in with a revoked or expired key, at most once a minute
    for each key. An unknown key belongs to no project."""
    vault = storage.vault
    async with storage.begin() as tx:
        principal = await keys.find_invalid_key(tx, vault.key_digests(key))
        if principal is not None and not await audit.is_refusal_recorded(tx, principal):
            await _record(tx, request, principal, AuditAction.CONSOLE_SESSION_REFUSED)


async def _describe_session(storage: Storage, token: str) -> JSONResponse | None:
    vault = storage.vault
    async with storage.connect() as tx:
        session = await console_sessions.get_session(tx, vault.session_digests(token))
    if session is None:
        return None
    principal = session.principal
    shown: dict[str, Any] = {
        "object": "console_session",
        "key": {"id": format_id(Prefix.KEY, principal.key_id), "name": session.key_name},
        "project": {
            "id": format_id(Prefix.PROJECT, principal.project_id),
            "name": session.project_name,
        },
        "scopes": sorted(principal.scopes),
        "expires_at": session.expires_at.isoformat(),
    }
    return JSONResponse(shown)


async def read_key(request: Request) -> str:
    """Return the key in the body. Raises PayloadTooLargeError, RequestTimeoutError and
    InvalidRequestError."""
    body = bytearray()
    try:
        async with asyncio.timeout(READ_SECONDS):
            async for piece in request.stream():
                body += piece
                if len(body) > MAX_BODY_BYTES:
                    raise e.PayloadTooLargeError(MAX_BODY_BYTES)
    except TimeoutError:
        raise e.RequestTimeoutError from None
    try:
        return SignIn.model_validate_json(bytes(body)).key
    except ValidationError:
        raise e.InvalidRequestError('The request body must be {"key": "rw_…"}.') from None


def _services(request: Request) -> Services:
    return cast(Services, request.app.services)
