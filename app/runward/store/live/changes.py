"""Queries that find changes whose notifications were lost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy import text

from runward.domain.ids import ProjectId, RunId
from runward.store.postgres.db import Tx

_CHANGED_RUNS: Final = text(
    """
SELECT h.id FROM unnest(
  CAST(:projects AS uuid[]), CAST(:ids AS uuid[]), CAST(:fences AS bigint[]),
  CAST(:versions AS bigint[])) AS h(project_id, id, fence, version)
LEFT JOIN runs r ON r.project_id = h.project_id AND r.id = h.id
WHERE (r.fence, r.version) IS DISTINCT FROM (h.fence, h.version)"""
)
# xmin is the transaction that wrote the current version of the row, so each change of a row changes
# the sum.
_MARK: Final = (
    "(SELECT concat(count(*), ' ', sum(CAST(CAST(t.xmin AS text) AS bigint)))"
    " FROM {table} t WHERE t.project_id = p.id)"
)
_TABLES: Final = ("tools", "agents", "secrets", "project_policies")
# Processes also update the row of an MCP server when they list its tools again, or claim its
# refresh token. Such updates do not concern other processes. Changed tools have their own rows.
_SERVERS: Final = (
    "(SELECT string_agg(concat(t.id, ' ', t.version), ' ' ORDER BY t.name)"
    " FROM mcp_servers t WHERE t.project_id = p.id)"
)
_MARKS: Final = text(
    "SELECT p.id, concat_ws(', ', "
    + ", ".join([*(_MARK.format(table=table) for table in _TABLES), _SERVERS])
    + ") AS mark FROM unnest(CAST(:projects AS uuid[])) AS p(id)"
)


@dataclass(frozen=True, slots=True)
class SeenVersion:
    """The fence and version of a run that its worker has seen."""

    project_id: ProjectId
    run_id: RunId
    fence: int
    version: int


async def find_changed_runs(tx: Tx, versions: Sequence[SeenVersion]) -> list[UUID]:
    """Return the IDs of the runs whose fence or version has changed."""
    values = {
        "projects": [one.project_id for one in versions],
        "ids": [one.run_id for one in versions],
        "fences": [one.fence for one in versions],
        "versions": [one.version for one in versions],
    }
    return list((await tx.execute(_CHANGED_RUNS, values)).scalars())


async def read_project_marks(tx: Tx, projects: Sequence[UUID]) -> Mapping[UUID, str]:
    """Return a mark for each project. The mark changes when the project's tools, agents, secrets,
    policy or MCP servers change."""
    rows = await tx.execute(_MARKS, {"projects": list(projects)})
    return {row.id: row.mark for row in rows}
