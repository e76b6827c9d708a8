"""The tools of plugins in the registry. Every project has all of them.

The definition of each tool comes from the code of the process that started last, and from the
project's settings for it. If a project has registered a tool with the same name, the project's tool
is not changed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import structlog
from pydantic import JsonValue
from sqlalchemy import func, insert, select, text, update

from runward.domain.ids import ProjectId
from runward.domain.json import JsonObject, compact, is_same_json
from runward.domain.registry.tools import ToolSpec
from runward.store.access.keys import ensure_default_project
from runward.store.access.vault import Vault
from runward.store.postgres.db import Tx, mint, notify_tools
from runward.store.postgres.tables import tool_versions, tools
from runward.store.registry import tool_registry
from runward.store.registry.tool_registry import RegisteredTool

log = structlog.get_logger()

LOCK_KEY: Final = 0x52756E77506C7567
"""Key of the transaction's advisory lock: "RunwPlug" in ASCII."""
ROWS_AT_ONCE: Final = 5_000

_DIFFERENT: Final = text(
    "SELECT p.id AS project_id, c.name, t.version, t.deleted_at IS NOT NULL AS deleted,"
    " t.overrides, v.spec"
    " FROM projects p"
    " CROSS JOIN unnest(CAST(:names AS text[]), CAST(:specs AS text[])) AS c(name, spec)"
    " LEFT JOIN tools t ON t.project_id = p.id AND t.name = c.name"
    " LEFT JOIN tool_versions v ON v.project_id = t.project_id"
    "   AND v.name = t.name AND v.version = t.version"
    " WHERE (CAST(:project_id AS uuid) IS NULL OR p.id = CAST(:project_id AS uuid))"
    "   AND (t.name IS NULL OR t.deleted_at IS NOT NULL OR t.overrides IS NOT NULL"
    "     OR CAST(v.spec AS jsonb) <> CAST(c.spec AS jsonb))"
    " ORDER BY p.id, c.name"
)
_PUT: Final = text(
    "WITH w AS (SELECT * FROM unnest(CAST(:projects AS uuid[]), CAST(:names AS text[]),"
    "   CAST(:ids AS uuid[]), CAST(:secrets AS bytea[]), CAST(:specs AS text[]),"
    "   CAST(:seen AS int[])) AS w(project_id, name, id, secret, spec, seen)),"
    " put AS ("
    "   INSERT INTO tools AS t (project_id, name, id, version, secret)"
    "   SELECT project_id, name, id, 1, secret FROM w"
    "   ON CONFLICT (project_id, name) DO UPDATE SET"
    "     version = t.version + 1, updated_at = clock_timestamp(), deleted_at = NULL,"
    "     id = CASE WHEN t.deleted_at IS NULL THEN t.id ELSE excluded.id END,"
    "     secret = CASE WHEN t.deleted_at IS NULL THEN t.secret ELSE excluded.secret END,"
    "     created_at = CASE WHEN t.deleted_at IS NULL THEN t.created_at"
    "       ELSE clock_timestamp() END,"
    "     overrides = CASE WHEN t.deleted_at IS NULL THEN t.overrides END"
    "   WHERE t.version = (SELECT w.seen FROM w"
    "     WHERE w.project_id = t.project_id AND w.name = t.name)"
    "   RETURNING project_id, name, version)"
    " INSERT INTO tool_versions (project_id, name, version, spec)"
    " SELECT put.project_id, put.name, put.version, CAST(w.spec AS json)"
    " FROM put JOIN w ON w.project_id = put.project_id AND w.name = put.name"
)


@dataclass(frozen=True, slots=True)
class ToolRow:
    """A tool to write. `replaced_version`: the version that it replaces. None: the tool does not
    exist yet."""

    project_id: UUID
    name: str
    spec: JsonObject
    replaced_version: int | None


async def sync_plugins(
    tx: Tx,
    vault: Vault,
    specs: Sequence[ToolSpec],
    make_secret: Callable[[], str],
    project_id: UUID | None = None,
) -> int:
    """Write the tools of plugins, and return the number of new and changed tools. If `project_id`
    is None, write them in every project, in one process at a time. Each changed tool gets a new
    version."""
    if not specs:
        return 0
    if project_id is None:
        await ensure_default_project(tx)
        await tx.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK_KEY})
    code = {spec.name: spec_to_json(spec) for spec in specs}
    wanted = {
        "names": list(code),
        "specs": [compact(spec) for spec in code.values()],
        "project_id": project_id,
    }
    rows = list(_find_changes(code, (await tx.execute(_DIFFERENT, wanted)).all()))
    for start in range(0, len(rows), ROWS_AT_ONCE):
        await put_tool_rows(tx, vault, rows[start : start + ROWS_AT_ONCE], make_secret)
    if rows:
        await tx.execute(text("SELECT pg_notify('runward_tools', '*')"))
        log.info("plugins_synced", changed=len(rows))
    return len(rows)


async def override_settings(
    tx: Tx,
    project_id: ProjectId,
    code: ToolSpec,
    settings: Mapping[str, JsonValue],
) -> RegisteredTool | None:
    """Change a project's settings for a plugin's tool, and create the tool's next version. Null
    restores the value in the code. The caller has locked the tool. Returns None if the tool does
    not exist."""
    found = select(tools.c.version, tools.c.overrides).where(
        tools.c.project_id == project_id,
        tools.c.name == code.name,
        tools.c.deleted_at.is_(None),
    )
    row = (await tx.execute(found)).one_or_none()
    if row is None:
        return None
    overrides: JsonObject = {**(row.overrides or {}), **settings}
    overrides = {key: value for key, value in overrides.items() if value is not None}
    version = row.version + 1
    await tx.execute(
        insert(tool_versions).values(
            project_id=project_id,
            name=code.name,
            version=version,
            spec={**spec_to_json(code), **overrides},
        )
    )
    await tx.execute(
        update(tools)
        .where(tools.c.project_id == project_id, tools.c.name == code.name)
        .values(
            version=version,
            overrides=overrides or None,
            updated_at=func.clock_timestamp(),
        )
    )
    await notify_tools(tx, project_id)
    return await tool_registry.get_tool(tx, project_id, code.name)


def spec_to_json(spec: ToolSpec) -> JsonObject:
    """Return the specification in its stored form."""
    return spec.model_dump(mode="json", exclude_defaults=True)


def _find_changes(code: Mapping[str, JsonObject], rows: Sequence[Any]) -> Iterable[ToolRow]:
    hidden: dict[str, int] = {}
    for row in rows:
        if row.version is None or row.deleted:
            yield ToolRow(row.project_id, row.name, code[row.name], row.version)
        elif row.spec.get("type") != "plugin":
            hidden[row.name] = hidden.get(row.name, 0) + 1
        else:
            spec: JsonObject = {**code[row.name], **(row.overrides or {})}
            if not is_same_json(spec, row.spec):
                yield ToolRow(row.project_id, row.name, spec, row.version)
    for name, projects in hidden.items():
        log.warning("plugin_hidden_by_projects_own_tool", tool=name, projects=projects)


async def put_tool_rows(
    tx: Tx, vault: Vault, rows: Sequence[ToolRow], make_secret: Callable[[], str]
) -> None:
    secrets = [
        vault.seal(
            make_secret(),
            column=tool_registry.SECRET_COLUMN,
            project_id=row.project_id,
            row=row.name,
        )
        for row in rows
    ]
    values = {
        "projects": [row.project_id for row in rows],
        "names": [row.name for row in rows],
        "ids": [mint() for _ in rows],
        "secrets": secrets,
        "specs": [compact(row.spec) for row in rows],
        "seen": [row.replaced_version for row in rows],
    }
    await tx.execute(_PUT, values)
