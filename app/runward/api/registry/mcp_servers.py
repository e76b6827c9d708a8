"""/v1/mcp_servers: register, list, update, refresh and delete MCP servers."""

from typing import Any, Final

from fastapi import Response

from runward.api.http.audit import AuditDep
from runward.api.http.auth import ToolsReader, ToolsWriter
from runward.api.http.dependencies import RegistryDep, StorageDep
from runward.api.http.idempotency import RequestKey, has_stored_response, respond_once
from runward.api.http.paging import NamePagination, Page
from runward.api.http.params import McpServerPath
from runward.api.http.routes import make_router
from runward.api.registry.mcp_checks import (
    apply_patch,
    check_server,
    choose_token_store,
    list_first_tools,
    list_tools,
    make_token_store,
    read_credentials,
    seal_newest_token,
)
from runward.api.registry.mcp_server_models import (
    McpServer,
    RegisterMcpServer,
    UpdateMcpServer,
)
from runward.domain import errors as e
from runward.domain import not_found
from runward.domain.audit import AuditAction
from runward.domain.ids import ProjectId
from runward.domain.registry.mcp_auth import UnstoredRefreshTokens
from runward.domain.registry.mcp_servers import ListedTool
from runward.services import Registry, Storage
from runward.store.postgres.db import Tx
from runward.store.registry import mcp_credentials, mcp_servers
from runward.store.registry.mcp_servers import RegisteredServer
from runward.tools import signing

routes = make_router("MCP servers")

_UNREACHABLE_RESPONSE: Final[dict[int | str, dict[str, Any]]] = {424: {}}


@routes.post(
    "/mcp_servers", status_code=201, response_model=McpServer, responses=_UNREACHABLE_RESPONSE
)
async def register_mcp_server(
    principal: ToolsWriter,
    storage: StorageDep,
    registry: RegistryDep,
    request_key: RequestKey,
    audit: AuditDep,
    server: RegisterMcpServer,
) -> Response:
    """Register an MCP server. Runward connects to the server and adds its tools to the project. If
    the server cannot be reached, nothing is stored. If a person must log in (`oauth.grant_type` is
    `authorization_code`), Runward connects when the login is complete."""
    spec, given = server.to_spec(), server.to_credentials()
    filled = await check_server(storage, registry, principal.project_id, spec, given)
    listed: tuple[ListedTool, ...] = ()
    tokens = UnstoredRefreshTokens()
    if not await has_stored_response(storage, request_key):
        listed = await list_first_tools(registry, principal.project_id, spec, filled, tokens)

    async def register(tx: Tx) -> McpServer:
        sealed = mcp_credentials.seal_credentials(
            storage.vault, principal.project_id, spec.name, given
        )
        newest = seal_newest_token(storage, principal.project_id, spec, filled, tokens)
        made = await mcp_servers.add_server(tx, principal.project_id, spec, sealed, listed, newest)
        await mcp_servers.sync_tools(tx, storage.vault, made, signing.make_secret)
        created = render_server(storage, made)
        await audit.record(tx, AuditAction.MCP_SERVER_CREATED, spec.name, after=created)
        return created

    headers = {"Location": f"/v1/mcp_servers/{spec.name}"}
    shown = await respond_once(storage, request_key, register, status=201, headers=headers)
    forget_caches(registry, principal.project_id)
    return shown


@routes.get("/mcp_servers")
async def list_mcp_servers(
    principal: ToolsReader, storage: StorageDep, pagination: NamePagination
) -> Page[McpServer]:
    """List MCP servers, ordered by name."""
    async with storage.connect() as tx:
        found = await mcp_servers.list_servers(tx, principal.project_id, **pagination.by_name)
    return pagination.page(
        found, lambda one: render_server(storage, one), lambda server: server.name
    )


@routes.get("/mcp_servers/{name}")
async def get_mcp_server(
    principal: ToolsReader, storage: StorageDep, name: McpServerPath
) -> McpServer:
    """Get an MCP server and the names of its tools."""
    return render_server(storage, await find_server(storage, principal.project_id, name))


@routes.patch("/mcp_servers/{name}", responses=_UNREACHABLE_RESPONSE)
async def update_mcp_server(
    principal: ToolsWriter,
    storage: StorageDep,
    registry: RegistryDep,
    audit: AuditDep,
    name: McpServerPath,
    patch: UpdateMcpServer,
) -> McpServer:
    """Update an MCP server. Runward connects to the server with the new configuration. If the
    server cannot be reached, nothing changes. Tools that change get a new version."""
    before = await find_server(storage, principal.project_id, name)
    spec, given = apply_patch(storage, before, patch)
    filled = await check_server(storage, registry, principal.project_id, spec, given)
    tokens = await choose_token_store(storage, before, filled)
    listed = await list_first_tools(registry, principal.project_id, spec, filled, tokens)
    async with storage.begin() as tx:
        former = await lock_unchanged(tx, before)
        sealed = mcp_credentials.seal_credentials(storage.vault, principal.project_id, name, given)
        newest = seal_newest_token(storage, principal.project_id, spec, filled, tokens)
        changed = await mcp_servers.update_server(tx, former, spec, sealed, listed, newest)
        await mcp_servers.sync_tools(tx, storage.vault, changed, signing.make_secret)
        shown = render_server(storage, former), render_server(storage, changed)
        await audit.record(
            tx, AuditAction.MCP_SERVER_UPDATED, name, before=shown[0], after=shown[1]
        )
    forget_caches(registry, principal.project_id)
    return shown[1]


@routes.post(
    "/mcp_servers/{name}/refresh",
    response_model=McpServer,
    responses=_UNREACHABLE_RESPONSE,
    summary="Refresh an MCP server",
)
async def refresh_mcp_server(
    principal: ToolsWriter,
    storage: StorageDep,
    registry: RegistryDep,
    request_key: RequestKey,
    audit: AuditDep,
    name: McpServerPath,
) -> Response:
    """List the tools of an MCP server again. Tools that have changed get a new version, and tools
    that no longer exist are disabled."""
    before = await find_server(storage, principal.project_id, name)
    listed: tuple[ListedTool, ...] = ()
    if not await has_stored_response(storage, request_key):
        filled = await read_credentials(storage, before)
        tokens = make_token_store(storage, before)
        listed = await list_tools(registry, principal.project_id, before.spec, filled, tokens)

    async def refresh(tx: Tx) -> McpServer:
        former = await lock_unchanged(tx, before)
        made = await mcp_servers.store_list(tx, former, listed)
        await mcp_servers.sync_tools(tx, storage.vault, made, signing.make_secret)
        listed_before, after = render_server(storage, former), render_server(storage, made)
        await audit.record(
            tx, AuditAction.MCP_SERVER_REFRESHED, name, before=listed_before, after=after
        )
        return after

    shown = await respond_once(storage, request_key, refresh)
    forget_caches(registry, principal.project_id)
    return shown


@routes.delete("/mcp_servers/{name}", status_code=204)
async def delete_mcp_server(
    principal: ToolsWriter,
    storage: StorageDep,
    registry: RegistryDep,
    audit: AuditDep,
    name: McpServerPath,
) -> None:
    """Delete an MCP server and its tools. Runs that use the tools no longer see them."""
    async with storage.begin() as tx:
        former = await mcp_servers.get_server(tx, principal.project_id, name, lock=True)
        if former is None:
            raise not_found.McpServerNotFoundError
        before = render_server(storage, former)
        await mcp_servers.delete_server(tx, principal.project_id, name)
        await audit.record(tx, AuditAction.MCP_SERVER_DELETED, name, before=before)
    forget_caches(registry, principal.project_id)


async def find_server(storage: Storage, project_id: ProjectId, name: str) -> RegisteredServer:
    async with storage.connect() as tx:
        found = await mcp_servers.get_server(tx, project_id, name)
    if found is None:
        raise not_found.McpServerNotFoundError
    return found


async def lock_unchanged(tx: Tx, before: RegisteredServer) -> RegisteredServer:
    """Lock the server. Raises ConflictError if its registration differs from `before`."""
    name = before.spec.name
    former = await mcp_servers.get_server(tx, before.project_id, name, lock=True)
    if former is None:
        raise not_found.McpServerNotFoundError
    if (former.id, former.version) != (before.id, before.version):
        raise e.ConflictError(
            f"Another request updated MCP server '{name}' at the same time. Read the "
            "server again, then retry."
        )
    return former


def render_server(storage: Storage, server: RegisteredServer) -> McpServer:
    return McpServer.from_row(server, server.credentials(storage.vault))


def forget_caches(registry: Registry, project_id: ProjectId) -> None:
    registry.forget_tools(project_id)
    registry.forget_mcp_servers(project_id)
