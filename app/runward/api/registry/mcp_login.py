"""/v1/mcp_servers/{name}/login, and the pages of this deployment that authorization servers use:
the callback of a login, and the client ID metadata document."""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from fastapi import APIRouter, Request, Response
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route

from runward.api.http.auth import ToolsWriter
from runward.api.http.dependencies import AccessDep, RegistryDep, StorageDep, get_services
from runward.api.http.idempotency import RequestKey, has_stored_response, respond_once
from runward.api.http.params import McpServerPath
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
from runward.domain.errors import FieldError
from runward.domain.ids import ProjectId
from runward.domain.json import clean_text
from runward.domain.registry.mcp_auth import PendingLogin, StoredOAuth
from runward.domain.registry.tools import NAME_PATTERN
from runward.services import Registry, Storage
from runward.store.postgres.db import Tx
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

routes = make_router("MCP servers")

MAX_STATE: Final = 256
MAX_CODE: Final = 4096
MAX_SAID: Final = 200
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
        await _store_oauth(tx, storage, former, pending=started.pending)
        until = datetime.fromtimestamp(started.pending.expires_at, UTC)
        return McpLogin(server=name, url=started.url, expires_at=until)

    return await respond_once(storage, request_key, store, status=201)


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


class _LoginFailedError(Exception):
    """A login that cannot be completed. The message is for the person."""


async def complete_login(request: Request) -> Response:
    """Answer the redirect of an authorization server."""
    services = get_services(request)
    given = request.query_params
    try:
        name = await _complete(services.storage, services.registry, given)
    except _LoginFailedError as error:
        return PlainTextResponse(str(error), 400)
    except e.McpUnreachableError as error:
        return PlainTextResponse(error.detail, 424)
    except (e.AlreadyExistsError, e.ConflictError, e.NotFoundError) as error:
        return PlainTextResponse(error.detail, 409)
    text = f"Runward is logged in to the MCP server '{name}'. You can close this page."
    return PlainTextResponse(text)


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


async def _complete(storage: Storage, registry: Registry, given: Mapping[str, str]) -> str:
    """Exchange the code, store the tokens, and list the server's tools. Return the server's name.
    A login can be completed only once, also if it then fails."""
    project_id, name, nonce = _decode_state(given.get("state", ""))
    async with storage.begin() as tx:
        server = await mcp_servers.get_server(tx, project_id, name, lock=True)
        pending = None if server is None else _read_pending(storage, server)
        if server is None or pending is None or not is_same_nonce(pending, nonce):
            raise _LoginFailedError(_NOT_VALID)
        await _store_oauth(tx, storage, server, pending=None)
    code = given.get("code", "")
    if not 0 < len(code) <= MAX_CODE:
        said = clean_text(given.get("error", "it returned no code"))[:MAX_SAID]
        raise _LoginFailedError(f"The authorization server rejected the login: {said}.")
    filled = await read_credentials(storage, server)
    private_key = filled.oauth.private_key if filled.oauth else None
    returned = LoginReturn(code, given.get("iss"))
    login = await registry.finish_mcp_login(pending, returned, private_key)
    async with storage.begin() as tx:
        former = await lock_unchanged(tx, server)
        sealed = _seal(storage, former, {"pending": None, "login": login})
        logged_in = await mcp_servers.update_server(tx, former, former.spec, sealed, former.listed)
    forget_caches(registry, project_id)
    await _list_again(storage, registry, logged_in)
    return name


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
    tx: Tx, storage: Storage, server: RegisteredServer, *, pending: PendingLogin | None
) -> None:
    await mcp_servers.store_oauth(tx, server, _seal(storage, server, {"pending": pending}))


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
    """Return the project, the server's name, and the nonce. Raises _LoginFailedError."""
    try:
        raw = urlsafe_b64decode(state[:MAX_STATE].encode() + b"==").decode()
        project, nonce, name = raw.split(".")
        if not re.fullmatch(NAME_PATTERN, name):
            raise ValueError
        return ProjectId(UUID(hex=project)), name, nonce
    except ValueError:
        raise _LoginFailedError(_NOT_VALID) from None
