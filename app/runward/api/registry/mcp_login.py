"""/v1/mcp_servers/{name}/login, and the pages of this deployment that authorization servers use:
the callback of a login, and the client ID metadata document."""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from fastapi import APIRouter, Request, Response
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse
from starlette.routing import Route

from runward.api.http.audit import AuditDep
from runward.api.http.auth import ToolsWriter
from runward.api.http.dependencies import AccessDep, RegistryDep, StorageDep
from runward.api.http.idempotency import RequestKey, has_stored_response, respond_once
from runward.api.http.params import McpServerPath
from runward.api.http.requests import get_services
from runward.api.http.routes import make_router
from runward.api.registry.mcp_checks import (
    fill_credentials,
    list_tools,
    make_token_store,
    read_credentials,
)
from runward.api.registry.mcp_server_models import McpLogin, StartMcpLogin
from runward.api.registry.mcp_servers import find_server, forget_caches, lock_unchanged
from runward.domain import errors as e
from runward.domain import not_found
from runward.domain.audit import ActorType, AuditAction
from runward.domain.errors import FieldError
from runward.domain.ids import ProjectId
from runward.domain.json import clean_text
from runward.domain.registry.mcp_auth import PendingLogin, StoredOAuth
from runward.domain.registry.tools import NAME_PATTERN
from runward.services import Registry, Storage
from runward.store.access.audit import AuditActor, AuditChange, append, parse_address
from runward.store.postgres.db import Tx
from runward.store.postgres.project_scope import restrict_to
from runward.store.registry import mcp_servers
from runward.store.registry.mcp_credentials import SealedCredentials, seal_credentials
from runward.store.registry.mcp_servers import RegisteredServer
from runward.tools import signing
from runward.tools.mcp.login import (
    CALLBACK_PATH,
    CLIENT_PATH,
    LoginReturn,
    LoginStart,
    describe_client,
    is_same_nonce,
)

_STATUSES: Final = (
    (e.InvalidRequestError, 400),
    (e.McpUnreachableError, 424),
    ((e.AlreadyExistsError, e.ConflictError, not_found.NotFoundError), 409),
)
"""The HTTP statuses of the page that shows an error."""

routes = make_router("MCP servers")

MAX_STATE: Final = 256
MAX_CODE: Final = 4096
MAX_SAID: Final = 200
MAX_ERROR: Final = 1000
_NOT_VALID: Final = (
    "This login is not valid or has expired. Start a new one with POST "
    "/v1/mcp_servers/{name}/login."
)


@routes.post(
    "/mcp_servers/{name}/login",
    status_code=201,
    response_model=McpLogin,
    responses={424: {}},
    summary="Start a login to an MCP server",
)
async def start_mcp_login(
    principal: ToolsWriter,
    storage: StorageDep,
    registry: RegistryDep,
    access: AccessDep,
    request_key: RequestKey,
    audit: AuditDep,
    name: McpServerPath,
    login: StartMcpLogin | None = None,
) -> Response:
    """Start a login to an MCP server whose `oauth.grant_type` is `authorization_code`. A person
    opens the returned `url` and logs in. Runward then adds the server's tools to the project."""
    before = await find_server(storage, principal.project_id, name)
    oauth = before.credentials(storage.vault).oauth
    if before.spec.url is None or oauth is None or oauth.grant_type != "authorization_code":
        raise e.InvalidRequestError(
            errors=[FieldError("name", "must have `oauth.grant_type` set to authorization_code")]
        )
    started: LoginStart | None = None
    if not await has_stored_response(storage, request_key):
        started = await _begin(storage, registry, access.public_url, before, login)

    async def store(tx: Tx) -> McpLogin:
        assert started is not None
        former = await lock_unchanged(tx, before)
        back = login is not None and login.return_to_console
        starter = {
            "started_by": audit.actor.type,
            "key_id": audit.actor.key_id,
            "key_name": audit.actor.key_name,
        }
        pending = started.pending.model_copy(update={"return_to_console": back, **starter})
        await _store_oauth(tx, storage, former, {"pending": pending, "login_error": None})
        await audit.record(tx, AuditAction.MCP_SERVER_LOGIN_STARTED, name)
        until = datetime.fromtimestamp(started.pending.expires_at, UTC)
        return McpLogin(server=name, url=started.url, expires_at=until)

    return await respond_once(storage, request_key, store, status=201)


@routes.delete("/mcp_servers/{name}/login", status_code=204, summary="Log out from an MCP server")
async def delete_mcp_login(
    principal: ToolsWriter,
    storage: StorageDep,
    registry: RegistryDep,
    audit: AuditDep,
    name: McpServerPath,
) -> None:
    """Delete the tokens of a login. Calls of the server's tools fail until a person logs in again.
    The tools stay registered."""
    async with storage.begin() as tx:
        server = await mcp_servers.get_server(tx, principal.project_id, name, lock=True)
        if server is None:
            raise not_found.McpServerNotFoundError
        if isinstance(server.credentials(storage.vault).oauth, StoredOAuth):
            none = {"pending": None, "login": None, "login_error": None}
            await _store_oauth(tx, storage, server, none)
        await audit.record(tx, AuditAction.MCP_SERVER_LOGGED_OUT, name)
    forget_caches(registry, principal.project_id)


async def _begin(
    storage: Storage,
    registry: Registry,
    public_url: str,
    server: RegisteredServer,
    options: StartMcpLogin | None,
) -> LoginStart:
    """Begin a login with the client of the registration. Request the scopes of the last login too,
    so that a new scope does not replace them."""
    assert server.spec.url is not None
    given = server.credentials(storage.vault)
    assert isinstance(given.oauth, StoredOAuth)
    former = given.oauth.login
    oauth = given.oauth.model_copy(update={"login": None})
    filled = await fill_credentials(storage, server, replace(given, oauth=oauth))
    assert filled.oauth is not None
    scopes = f"{(former and former.scope) or ''} {(options and options.scope) or ''}".split()
    return await registry.begin_mcp_login(
        server.spec.url,
        filled.oauth,
        public_url=public_url,
        scope=" ".join(dict.fromkeys(scopes)) or None,
        make_state=lambda nonce: _encode_state(server, nonce),
    )


@dataclass(frozen=True, slots=True)
class _LoginResult:
    """The result of a redirect. `status`: the HTTP status of a page with `text`. `server`: the
    server whose page in the console the browser shows instead."""

    status: int
    text: str
    server: str | None = None


async def complete_login(request: Request) -> Response:
    """Answer the redirect of an authorization server."""
    services = get_services(request)
    address = None if request.client is None else request.client.host
    origin = AuditActor(
        ActorType.KEY,
        ip_address=parse_address(address),
        request_id=request.state.request_id,
    )
    result = await _complete(services.storage, services.registry, request.query_params, origin)
    if result.server is not None:
        access = services.access
        url = f"{access.public_url}/#/mcp-servers/{result.server}"
        return RedirectResponse(url, 303)
    return PlainTextResponse(result.text, result.status)


async def show_client(request: Request) -> Response:
    """Return the client ID metadata document of this deployment
    (draft-ietf-oauth-client-id-metadata-document)."""
    public_url = get_services(request).access.public_url
    about = {"client_id": public_url + CLIENT_PATH, **describe_client(public_url)}
    return JSONResponse(about)


pages = APIRouter(
    redirect_slashes=False,
    routes=[Route(CALLBACK_PATH, complete_login), Route(CLIENT_PATH, show_client)],
)


async def _complete(
    storage: Storage, registry: Registry, given: Mapping[str, str], origin: AuditActor
) -> _LoginResult:
    """Complete the login that the parameters belong to. It can be completed only once, also if it
    then fails. An error is stored for the clients that wait for the login. `origin`: the request of
    the browser."""
    try:
        project_id, name, nonce = _decode_state(given.get("state", ""))
    except ValueError:
        return _LoginResult(400, _NOT_VALID)
    restrict_to(project_id)
    async with storage.begin() as tx:
        server = await mcp_servers.get_server(tx, project_id, name, lock=True)
        pending = None if server is None else _read_pending(storage, server)
        if server is None or pending is None or not is_same_nonce(pending, nonce):
            return _LoginResult(400, _NOT_VALID)
        await _store_oauth(tx, storage, server, {"pending": None})
    shown = name if pending.return_to_console else None
    try:
        await _log_in(storage, registry, server, pending, given, origin)
    except e.AppError as error:
        await _store_error(storage, server, error.detail)
        status = next((one for kind, one in _STATUSES if isinstance(error, kind)), None)
        if status is None:
            raise
        return _LoginResult(status, error.detail, shown)
    text = f"Runward is logged in to the MCP server '{name}'. You can close this page."
    return _LoginResult(200, text, shown)


async def _log_in(
    storage: Storage,
    registry: Registry,
    server: RegisteredServer,
    pending: PendingLogin,
    given: Mapping[str, str],
    origin: AuditActor,
) -> None:
    """Exchange the code, store the tokens, and list the server's tools. Raises AppError."""
    code = given.get("code", "")
    if not 0 < len(code) <= MAX_CODE:
        said = clean_text(given.get("error", "it returned no code"))[:MAX_SAID]
        raise e.InvalidRequestError(f"The authorization server rejected the login: {said}.")
    filled = await read_credentials(storage, server)
    private_key = filled.oauth.private_key if filled.oauth else None
    returned = LoginReturn(code, given.get("iss"))
    login = await registry.finish_mcp_login(pending, returned, private_key)
    async with storage.begin() as tx:
        former = await lock_unchanged(tx, server)
        sealed = _seal(storage, former, {"pending": None, "login": login, "login_error": None})
        logged_in = await mcp_servers.update_server(tx, former, former.spec, sealed, former.listed)
        actor = replace(
            origin,
            type=pending.started_by or ActorType.KEY,
            key_id=pending.key_id,
            key_name=pending.key_name,
        )
        change = AuditChange(AuditAction.MCP_SERVER_LOGGED_IN, server.spec.name)
        await append(tx, server.project_id, actor, change)
    forget_caches(registry, server.project_id)
    await _list_again(storage, registry, logged_in)


async def _store_error(storage: Storage, server: RegisteredServer, detail: str) -> None:
    """Store the error of a login, unless another registration has replaced the server."""
    async with storage.begin() as tx:
        former = await mcp_servers.get_server(tx, server.project_id, server.spec.name, lock=True)
        if former is None or former.id != server.id:
            return
        if isinstance(former.credentials(storage.vault).oauth, StoredOAuth):
            await _store_oauth(tx, storage, former, {"login_error": detail[:MAX_ERROR]})


async def _list_again(storage: Storage, registry: Registry, server: RegisteredServer) -> None:
    filled = await read_credentials(storage, server)
    tokens = make_token_store(storage, server)
    listed = await list_tools(registry, server.project_id, server.spec, filled, tokens)
    async with storage.begin() as tx:
        former = await lock_unchanged(tx, server)
        made = await mcp_servers.store_list(tx, former, listed)
        await mcp_servers.sync_tools(tx, storage.vault, made, signing.make_secret)
    forget_caches(registry, server.project_id)


def _read_pending(storage: Storage, server: RegisteredServer) -> PendingLogin | None:
    oauth = server.credentials(storage.vault).oauth
    return oauth.pending if isinstance(oauth, StoredOAuth) else None


async def _store_oauth(
    tx: Tx, storage: Storage, server: RegisteredServer, changes: Mapping[str, Any]
) -> None:
    await mcp_servers.store_oauth(tx, server, _seal(storage, server, changes))


def _seal(
    storage: Storage, server: RegisteredServer, changes: Mapping[str, Any]
) -> SealedCredentials:
    """Return the sealed credentials of the server with changes to the state of its login."""
    given = server.credentials(storage.vault)
    assert given.oauth is not None
    changed = replace(given, oauth=given.oauth.model_copy(update=dict(changes)))
    return seal_credentials(storage.vault, server.project_id, server.spec.name, changed)


def _encode_state(server: RegisteredServer, nonce: str) -> str:
    """Return a `state` that names the server, so that a callback can find the login."""
    text = f"{server.project_id.hex}.{nonce}.{server.spec.name}"
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decode_state(state: str) -> tuple[ProjectId, str, str]:
    """Return the project, the server's name, and the nonce. Raises ValueError."""
    raw = urlsafe_b64decode(state[:MAX_STATE].encode() + b"==").decode()
    project, nonce, name = raw.split(".")
    if not re.fullmatch(NAME_PATTERN, name):
        raise ValueError(name)
    return ProjectId(UUID(hex=project)), name, nonce
