"""The registry of MCP servers, and their tools among the project's tools.

A server's tool is a row like any other tool: the server's definition with the project's settings
for it. A tool that the server no longer lists is disabled. It is deleted only together with its
server.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from pydantic import TypeAdapter
from sqlalchemy import delete, func, select, text, update
from sqlalchemy.dialects.postgresql import insert as upsert

from runward.domain.errors import AlreadyExistsError
from runward.domain.ids import ProjectId
from runward.domain.json import JsonObject, is_same_json
from runward.domain.registry.mcp_auth import Credentials
from runward.domain.registry.mcp_servers import ListedTool, McpServerSpec, offered_tools
from runward.domain.registry.tools import ToolSpec
from runward.store.access.vault import Vault
from runward.store.postgres.db import Tx, mint, notify_tools, select_page
from runward.store.postgres.tables import mcp_servers
from runward.store.registry import tool_registry
from runward.store.registry.mcp_credentials import SealedCredentials
from runward.store.registry.plugin_sync import ToolRow, put_tool_rows, spec_to_json

_LISTED: Final = TypeAdapter[tuple[ListedTool, ...]](tuple[ListedTool, ...])

_LOCK_SERVER_TOOLS: Final = text(
    "SELECT t.name, t.version, t.deleted_at IS NOT NULL AS deleted, t.overrides, v.spec"
    " FROM tools t JOIN tool_versions v ON v.project_id = t.project_id"
    "   AND v.name = t.name AND v.version = t.version"
    " WHERE t.project_id = :project_id AND (t.name = ANY(CAST(:names AS text[]))"
    "   OR v.spec -> 'mcp' ->> 'server' = :server)"
    " ORDER BY t.name FOR UPDATE OF t"
)


@dataclass(frozen=True, slots=True)
class RegisteredServer:
    """A registered server. `version` counts the updates of the registration, from 1. `id`
    distinguishes it from an earlier server with the same name."""

    id: UUID
    project_id: ProjectId
    spec: McpServerSpec
    sealed: SealedCredentials
    listed: tuple[ListedTool, ...]
    version: int
    listed_at: datetime
    created_at: datetime
    updated_at: datetime

    def credentials(self, vault: Vault) -> Credentials:
        return self.sealed.open(vault, self.project_id, self.spec.name)


async def add_server(
    tx: Tx,
    project_id: ProjectId,
    spec: McpServerSpec,
    sealed: SealedCredentials,
    listed: Sequence[ListedTool],
    refresh_token: bytes | None = None,
) -> RegisteredServer:
    """Store a server. `refresh_token`: the encrypted token that replaced the configured one while
    the tools were listed. None: there was no replacement. Raises AlreadyExistsError."""
    made = upsert(mcp_servers).values(
        project_id=project_id,
        name=spec.name,
        id=mint(),
        version=1,
        spec=_spec_to_json(spec),
        secret_headers=sealed.headers,
        oauth=sealed.oauth,
        refresh_token=refresh_token,
        listed=_list_to_json(listed),
    )
    row = await tx.execute(made.on_conflict_do_nothing().returning(mcp_servers))
    found = row.one_or_none()
    if found is None:
        raise AlreadyExistsError(
            f"An MCP server named '{spec.name}' already exists. Use PATCH to update it."
        )
    return _server_from_row(found)


async def get_server(
    tx: Tx, project_id: ProjectId, name: str, *, lock: bool = False
) -> RegisteredServer | None:
    """Return the server, or None if it does not exist. `lock`: lock the server until the
    transaction ends."""
    query = select(mcp_servers).where(
        mcp_servers.c.project_id == project_id, mcp_servers.c.name == name
    )
    row = (await tx.execute(query.with_for_update() if lock else query)).one_or_none()
    return None if row is None else _server_from_row(row)


async def list_servers(
    tx: Tx, project_id: ProjectId, *, after: str | None, limit: int, descending: bool
) -> list[RegisteredServer]:
    """Return a page of the servers, ordered by name."""
    name = mcp_servers.c.name
    query = select(mcp_servers).where(mcp_servers.c.project_id == project_id)
    query = select_page(query, name, after=after, limit=limit, descending=descending)
    return [_server_from_row(row) for row in await tx.execute(query)]


async def update_server(
    tx: Tx,
    former: RegisteredServer,
    spec: McpServerSpec,
    sealed: SealedCredentials,
    listed: Sequence[ListedTool],
    refresh_token: bytes | None = None,
) -> RegisteredServer:
    """Update a server that the caller has locked. `refresh_token`: encrypted, if listing the tools
    replaced the configured token. If it is None, the stored token is kept, and is valid if it
    replaced the same configured token."""
    replaced: dict[str, Any] = {}
    if refresh_token is not None:
        replaced = {"refresh_token": refresh_token, "refreshes": mcp_servers.c.refreshes + 1}
    return await _update(
        tx,
        former,
        **replaced,
        version=former.version + 1,
        spec=_spec_to_json(spec),
        secret_headers=sealed.headers,
        oauth=sealed.oauth,
        listed=_list_to_json(listed),
        listed_at=func.clock_timestamp(),
        updated_at=func.clock_timestamp(),
    )


async def store_oauth(tx: Tx, former: RegisteredServer, sealed: SealedCredentials) -> None:
    """Store the state of a login. The caller has locked the server. Its version stays, because the
    registration does not change."""
    await _update(tx, former, oauth=sealed.oauth)
    await notify_tools(tx, former.project_id)


async def store_list(
    tx: Tx, former: RegisteredServer, listed: Sequence[ListedTool]
) -> RegisteredServer:
    """Store the tools that the server lists now. The caller has locked the server."""
    return await _update(tx, former, listed=_list_to_json(listed), listed_at=func.clock_timestamp())


async def store_session_list(
    tx: Tx,
    vault: Vault,
    key: tuple[ProjectId, str, UUID, int],
    listed: Sequence[ListedTool],
    make_secret: Callable[[], str],
) -> int:
    """Store the tools that a session with the server has listed, and return the number of new and
    changed tools. `key`: the project, name, ID and version of the session's registration. If the
    registration has changed since, nothing is stored. Raises AlreadyExistsError."""
    project_id, name, id_, version = key
    former = await get_server(tx, project_id, name, lock=True)
    if former is None or (former.id, former.version) != (id_, version):
        return 0
    server = await store_list(tx, former, listed)
    if server.listed == former.listed:
        return 0
    return await sync_tools(tx, vault, server, make_secret)


async def delete_server(tx: Tx, project_id: ProjectId, name: str) -> bool:
    """Delete the server and its tools. Versions of its tools are kept for the runs that used them.
    Returns False if the server does not exist."""
    gone = await tx.execute(
        delete(mcp_servers)
        .where(mcp_servers.c.project_id == project_id, mcp_servers.c.name == name)
        .returning(mcp_servers.c.name)
    )
    if gone.one_or_none() is None:
        return False
    for row in await _lock_server_tools(tx, project_id, name, ()):
        await tool_registry.delete_tool(tx, project_id, row.name)
    await notify_tools(tx, project_id)
    return True


async def sync_tools(
    tx: Tx, vault: Vault, server: RegisteredServer, make_secret: Callable[[], str]
) -> int:
    """Update the project's tools to the server's list, and return the number of new and changed
    tools. Each changed tool gets a new version. The caller has locked the server. Raises
    AlreadyExistsError if a name belongs to another tool."""
    specs = {spec.name: spec for spec in offered_tools(server.spec, server.listed).specs}
    found = await _lock_server_tools(tx, server.project_id, server.spec.name, list(specs))
    rows = {row.name: row for row in found}
    changed = [
        one
        for one in (
            *(_changed_row(server, spec, rows.get(name)) for name, spec in specs.items()),
            *(_disabled_row(server, row) for name, row in rows.items() if name not in specs),
        )
        if one is not None
    ]
    if changed:
        await put_tool_rows(tx, vault, changed, make_secret)
    await notify_tools(tx, server.project_id)
    return len(changed)


def find_listed_spec(server: RegisteredServer | None, spec: ToolSpec) -> ToolSpec:
    """Return the tool as the server lists it. If the server no longer lists it, return the stored
    tool."""
    if server is None:
        return spec
    listed = offered_tools(server.spec, server.listed).specs
    return next((one for one in listed if one.name == spec.name), spec)


def _changed_row(server: RegisteredServer, spec: ToolSpec, row: Any) -> ToolRow | None:
    if row is None or row.deleted:
        return ToolRow(
            server.project_id, spec.name, spec_to_json(spec), None if row is None else row.version
        )
    theirs: JsonObject = row.spec
    from_server = theirs.get("mcp")
    owner = from_server.get("server") if isinstance(from_server, dict) else None
    if owner != server.spec.name:
        assert spec.mcp is not None
        whose = f"MCP server '{owner}'" if owner else f"{theirs.get('type', 'webhook')} tool"
        raise AlreadyExistsError(
            f"The server's tool '{spec.mcp.tool}' would get the name '{spec.name}', "
            f"which is already the name of a {whose} of this project. Choose "
            "another prefix, or exclude the tool with `tools.deny`."
        )
    wanted: JsonObject = {**spec_to_json(spec), **(row.overrides or {})}
    if is_same_json(wanted, theirs):
        return None
    return ToolRow(server.project_id, spec.name, wanted, row.version)


def _disabled_row(server: RegisteredServer, row: Any) -> ToolRow | None:
    if row.deleted or row.spec.get("enabled") is False:
        return None
    return ToolRow(server.project_id, row.name, {**row.spec, "enabled": False}, row.version)


async def _lock_server_tools(
    tx: Tx, project_id: ProjectId, server: str, names: Sequence[str]
) -> Sequence[Any]:
    found = await tx.execute(
        _LOCK_SERVER_TOOLS, {"project_id": project_id, "names": list(names), "server": server}
    )
    return found.all()


async def _update(tx: Tx, former: RegisteredServer, **values: Any) -> RegisteredServer:
    changed = await tx.execute(
        update(mcp_servers)
        .where(
            mcp_servers.c.project_id == former.project_id, mcp_servers.c.name == former.spec.name
        )
        .values(**values)
        .returning(mcp_servers)
    )
    return _server_from_row(changed.one())


def _spec_to_json(spec: McpServerSpec) -> JsonObject:
    return spec.model_dump(mode="json", exclude_defaults=True)


def _list_to_json(listed: Sequence[ListedTool]) -> list[JsonObject]:
    return [one.model_dump(mode="json", exclude_defaults=True) for one in listed]


def _server_from_row(row: Any) -> RegisteredServer:
    return RegisteredServer(
        id=row.id,
        project_id=row.project_id,
        spec=McpServerSpec.model_validate(row.spec, strict=False),
        sealed=SealedCredentials(row.secret_headers, row.oauth),
        listed=_LISTED.validate_python(row.listed, strict=False),
        version=row.version,
        listed_at=row.listed_at,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
