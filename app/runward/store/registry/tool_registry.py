"""The registry of tools. A version never changes: each update creates a new version."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar
from uuid import UUID

from sqlalchemy import func, insert, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert as upsert

from runward.domain.errors import OperatorError
from runward.domain.ids import ProjectId
from runward.domain.json import JsonObject
from runward.domain.registry.tools import HeaderValue, HostedToolKind, Sealed, ToolSpec
from runward.domain.run.config import (
    MAX_TOOLS,
    PATTERN_SUFFIX,
    AgentConfig,
    SelectionTooLargeError,
    expand_patterns,
    list_patterns,
)
from runward.domain.run.family import Member
from runward.store.access.vault import Vault
from runward.store.postgres.db import Tx, mint, notify_tools, select_page
from runward.store.postgres.tables import tool_versions, tools

MAX_NAMES: Final = 10 * MAX_TOOLS
"""Maximum number of tools that the patterns of an agent and its team may select together."""
ROTATION_OVERLAP: Final = timedelta(hours=24)
"""How long the previous signing secret also signs after a rotation."""
Spec = TypeVar("Spec", bound=ToolSpec)
SECRET_COLUMN: Final = "tools.secret"  # noqa: S105  # a column, no secret


HEADERS_COLUMN: Final = "tool_versions.headers"


@dataclass(frozen=True, slots=True)
class RegisteredTool:
    id: UUID
    spec: ToolSpec
    version: int
    created_at: datetime
    updated_at: datetime


_CURRENT: Final = (
    (tool_versions.c.project_id == tools.c.project_id)
    & (tool_versions.c.name == tools.c.name)
    & (tool_versions.c.version == tools.c.version)
)
_TOOL: Final = (
    select(
        tools.c.id,
        tools.c.version,
        tools.c.created_at,
        tools.c.updated_at,
        tool_versions.c.spec,
    )
    .join(tool_versions, _CURRENT)
    .where(tools.c.deleted_at.is_(None))
)


async def add_tool(
    tx: Tx, vault: Vault, project_id: ProjectId, spec: ToolSpec, secret: str
) -> RegisteredTool | None:
    """Register a tool, and return it. The name of a deleted tool can be used again, and its version
    numbers continue. Returns None if the name is taken."""
    sealed = vault.seal(secret, column=SECRET_COLUMN, project_id=project_id, row=spec.name)
    made = upsert(tools).values(
        project_id=project_id, name=spec.name, id=mint(), version=1, secret=sealed
    )
    row = (
        await tx.execute(
            made.on_conflict_do_update(
                index_elements=[tools.c.project_id, tools.c.name],
                set_={
                    "id": made.excluded.id,
                    "version": tools.c.version + 1,
                    "secret": made.excluded.secret,
                    "former_secret": None,
                    "former_secret_until": None,
                    "created_at": func.clock_timestamp(),
                    "updated_at": func.clock_timestamp(),
                    "deleted_at": None,
                },
                where=tools.c.deleted_at.is_not(None),
            ).returning(tools.c.version)
        )
    ).one_or_none()
    if row is None:
        return None
    await _add_version(tx, vault, project_id, spec, row.version)
    return await get_tool(tx, project_id, spec.name)


async def get_tool(tx: Tx, project_id: ProjectId, name: str) -> RegisteredTool | None:
    row = (
        await tx.execute(_TOOL.where(tools.c.project_id == project_id, tools.c.name == name))
    ).one_or_none()
    return None if row is None else _tool_from_row(row)


async def lock_tool(tx: Tx, project_id: ProjectId, name: str) -> RegisteredTool | None:
    """Lock the tool until the transaction ends, and return it. Returns None if it does not
    exist."""
    found = select(tools.c.name).where(tools.c.project_id == project_id, tools.c.name == name)
    await tx.execute(found.with_for_update())
    return await get_tool(tx, project_id, name)


async def list_tools(
    tx: Tx, project_id: ProjectId, *, after: str | None, limit: int, descending: bool
) -> list[RegisteredTool]:
    """Return a page of the tools, ordered by name."""
    query = _TOOL.where(tools.c.project_id == project_id)
    return [
        _tool_from_row(row)
        for row in await tx.execute(
            select_page(query, tools.c.name, after=after, limit=limit, descending=descending)
        )
    ]


async def list_names_by_type(tx: Tx, project_id: ProjectId, types: Sequence[str]) -> set[str]:
    """Return the names of all tools of these types that are not disabled."""
    type_, enabled = (tool_versions.c.spec[one].as_string() for one in ("type", "enabled"))
    query = (
        select(tools.c.name)
        .join_from(tools, tool_versions, _CURRENT)
        .where(tools.c.project_id == project_id, tools.c.deleted_at.is_(None))
        .where(func.coalesce(type_, ToolSpec.model_fields["type"].default).in_(types))
        .where(func.coalesce(enabled, "true") != "false")
    )
    return {row.name for row in await tx.execute(query)}


async def find_tools(tx: Tx, project_id: ProjectId, names: Sequence[str]) -> list[RegisteredTool]:
    """Return those of the tools that exist."""
    query = _TOOL.where(tools.c.project_id == project_id, tools.c.name.in_(names))
    return [_tool_from_row(row) for row in await tx.execute(query)]


async def list_mcp_tools(
    tx: Tx, project_id: ProjectId, server: str, tool: str | None
) -> list[ToolSpec]:
    """Return the registered tools of an MCP server, ordered by name. None: all its tools."""
    source = tool_versions.c.spec["mcp"]
    query = _TOOL.where(tools.c.project_id == project_id, source["server"].as_string() == server)
    if tool is not None:
        query = query.where(source["tool"].as_string() == tool)
    return [_tool_from_row(row).spec for row in await tx.execute(query.order_by(tools.c.name))]


async def update_tool(
    tx: Tx, vault: Vault, project_id: ProjectId, former: RegisteredTool, spec: ToolSpec
) -> RegisteredTool | None:
    """Store the tool's next version. The caller has locked the tool."""
    version = former.version + 1
    await _add_version(tx, vault, project_id, spec, version)
    await _update_row(tx, project_id, spec.name, version=version)
    return await get_tool(tx, project_id, spec.name)


async def delete_tool(tx: Tx, project_id: ProjectId, name: str) -> bool:
    """Delete the tool. Its versions are kept for the runs that used them. Returns False if the tool
    does not exist."""
    return await _update_row(tx, project_id, name, deleted_at=func.clock_timestamp())


async def rotate_secret(
    tx: Tx, vault: Vault, project_id: ProjectId, name: str, secret: str
) -> bool:
    """Rotate the signing secret. The previous secret also signs for ROTATION_OVERLAP. Returns False
    if the tool does not exist."""
    return await _update_row(
        tx,
        project_id,
        name,
        former_secret=tools.c.secret,
        former_secret_until=func.clock_timestamp() + ROTATION_OVERLAP,
        secret=vault.seal(secret, column=SECRET_COLUMN, project_id=project_id, row=name),
    )


async def _update_row(tx: Tx, project_id: ProjectId, name: str, **values: Any) -> bool:
    changed = await tx.execute(
        update(tools)
        .where(tools.c.project_id == project_id, tools.c.name == name)
        .where(tools.c.deleted_at.is_(None))
        .values(updated_at=func.clock_timestamp(), **values)
        .returning(tools.c.name)
    )
    await notify_tools(tx, project_id)
    return changed.one_or_none() is not None


async def _add_version(
    tx: Tx, vault: Vault, project_id: ProjectId, spec: ToolSpec, version: int
) -> None:
    sealed = seal_headers(vault, project_id, spec)
    shown = sealed.model_dump(mode="json", exclude_defaults=True)
    await tx.execute(
        insert(tool_versions).values(
            project_id=project_id, name=spec.name, version=version, spec=shown
        )
    )
    await notify_tools(tx, project_id)


def _tool_from_row(row: Any) -> RegisteredTool:
    spec = ToolSpec.model_validate(row.spec, strict=False)
    return RegisteredTool(row.id, spec, row.version, row.created_at, row.updated_at)


@dataclass(frozen=True, slots=True)
class ToolVersion:
    """A version of a tool. `secrets`: the secrets that now sign its requests, newest first.
    `former_seconds`: how many seconds the second one remains valid."""

    spec: ToolSpec
    version: int
    secrets: tuple[str, ...]
    former_seconds: float | None


_VERSIONS: Final = text(
    "SELECT v.name, v.version, v.spec, t.secret,"
    " CASE WHEN t.former_secret_until > clock_timestamp() THEN t.former_secret END AS former,"
    " CAST(extract(epoch FROM t.former_secret_until - clock_timestamp()) AS float8)"
    "   AS former_seconds"
    " FROM unnest(CAST(:names AS text[]), CAST(:versions AS int[])) AS w(name, version)"
    " JOIN tool_versions v ON v.project_id = :project_id"
    "   AND v.name = w.name AND v.version = w.version"
    " JOIN tools t ON t.project_id = v.project_id AND t.name = v.name"
)


async def read_versions(
    tx: Tx, vault: Vault, project_id: ProjectId, wanted: Sequence[tuple[str, int]]
) -> list[ToolVersion]:
    """Return those of the versions that exist, with the secrets that now sign their requests,
    newest first."""
    names, versions = [name for name, _ in wanted], [version for _, version in wanted]
    rows = await tx.execute(
        _VERSIONS, {"project_id": project_id, "names": names, "versions": versions}
    )
    found: list[ToolVersion] = []
    for row in rows:
        spec = open_headers(vault, project_id, ToolSpec.model_validate(row.spec, strict=False))
        sealed = [box for box in (row.secret, row.former) if box is not None]
        secrets = tuple(
            vault.open(box, column=SECRET_COLUMN, project_id=project_id, row=row.name)
            for box in sealed
        )
        found.append(ToolVersion(spec, row.version, secrets, row.former_seconds))
    return found


async def read_hosted_kinds(
    tx: Tx, project_id: ProjectId, names: Sequence[str]
) -> dict[str, HostedToolKind | None]:
    """Return the kind by which a provider knows each existing tool. The kind is None if no provider
    runs the tool."""
    rows = await tx.execute(
        select(tools.c.name, tool_versions.c.spec["hosted"]["kind"].as_string().label("kind"))
        .join_from(tools, tool_versions, _CURRENT)
        .where(tools.c.project_id == project_id, tools.c.name.in_(names))
        .where(tools.c.deleted_at.is_(None))
    )
    return {row.name: row.kind for row in rows}


async def find_names_by_prefix(tx: Tx, project_id: ProjectId, prefixes: Sequence[str]) -> list[str]:
    """Return the names of the tools that begin with one of `prefixes`, in the order of their
    characters. The list ends after MAX_NAMES names."""
    name = tools.c.name.collate("C")
    rows = await tx.execute(
        select(tools.c.name)
        .where(tools.c.project_id == project_id, tools.c.deleted_at.is_(None))
        .where(or_(*(tools.c.name.startswith(one, autoescape=True) for one in prefixes)))
        .order_by(name)
        .limit(MAX_NAMES)
    )
    return [row.name for row in rows]


async def expand_team(
    tx: Tx, project_id: ProjectId, config: AgentConfig, team: Mapping[str, Member]
) -> tuple[AgentConfig, dict[str, Member], list[str]]:
    """Return the configurations with the tools that their patterns select, and the names of these
    tools. Raises SelectionTooLargeError."""
    configs = (config, *(one.config for one in team.values()))
    patterns = {pattern for one in configs for pattern in list_patterns(one)}
    if not patterns:
        return config, dict(team), []
    prefixes = sorted(pattern.removesuffix(PATTERN_SUFFIX) for pattern in patterns)
    names = await find_names_by_prefix(tx, project_id, prefixes)
    if len(names) == MAX_NAMES:
        raise SelectionTooLargeError
    expanded = {
        name: replace(one, config=expand_patterns(one.config, names)) for name, one in team.items()
    }
    return expand_patterns(config, names), expanded, names


async def read_current_versions(
    tx: Tx, project_id: ProjectId, names: Sequence[str]
) -> dict[str, int]:
    rows = await tx.execute(
        select(tools.c.name, tools.c.version)
        .where(tools.c.project_id == project_id, tools.c.name.in_(names))
        .where(tools.c.deleted_at.is_(None))
    )
    return {row.name: row.version for row in rows}


@dataclass(frozen=True, slots=True)
class WebhookToolAddress:
    """The name of a webhook tool, its address, and its metadata."""

    name: str
    url: str
    metadata: JsonObject


async def list_webhook_tools(tx: Tx, limit: int) -> list[WebhookToolAddress]:
    """Return the tools of all projects that have a URL."""
    spec = tool_versions.c.spec
    found = await tx.execute(
        select(tools.c.name, spec["url"].as_string().label("url"), spec["metadata"].label("about"))
        .join_from(
            tools,
            tool_versions,
            (tool_versions.c.project_id == tools.c.project_id)
            & (tool_versions.c.name == tools.c.name)
            & (tool_versions.c.version == tools.c.version),
        )
        .where(tools.c.deleted_at.is_(None), spec["url"].as_string().is_not(None))
        .order_by(tools.c.name, tools.c.project_id)
        .limit(limit)
    )
    return [WebhookToolAddress(row.name, row.url, row.about or {}) for row in found]


# Values of headers are encrypted separately in the stored specification of a tool.


class SecretKeyNeededError(OperatorError):
    """Raised if a migration must encrypt values and has no key."""

    def __init__(self) -> None:
        super().__init__(
            "The database holds header values that must be encrypted. Set RUNWARD_SECRET_KEY to "
            "the key that its processes use, and run `runward migrate` again."
        )


def seal_headers(vault: Vault, project_id: UUID, spec: Spec) -> Spec:
    """Return `spec` in its stored form. References and encrypted values do not change."""

    def seal(name: str, value: HeaderValue) -> HeaderValue:
        if not isinstance(value, str):
            return value
        box = vault.seal(
            value, column=HEADERS_COLUMN, project_id=project_id, row=f"{spec.name}/{name}"
        )
        return Sealed(sealed=base64.b64encode(box).decode())

    return _replace_headers(spec, {name: seal(name, value) for name, value in spec.headers.items()})


def open_headers(vault: Vault, project_id: UUID, spec: Spec) -> Spec:
    """Return `spec` with decrypted values, for a call. Raises SecretUnreadableError."""

    def read(name: str, value: HeaderValue) -> HeaderValue:
        if not isinstance(value, Sealed):
            return value
        row = f"{spec.name}/{name}"
        box = base64.b64decode(value.sealed)
        return vault.open(box, column=HEADERS_COLUMN, project_id=project_id, row=row)

    return _replace_headers(spec, {name: read(name, value) for name, value in spec.headers.items()})


def _replace_headers(spec: Spec, headers: Mapping[str, HeaderValue]) -> Spec:
    return spec.model_copy(update={"headers": headers}) if headers else spec
