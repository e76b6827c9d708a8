"""What a notification would have said, had it not been lost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy import text

from app.domain.ids import ProjectId, RunId
from app.store.db import Tx

_CHANGED_RUNS: Final = text(
    """
SELECT h.id FROM unnest(
  CAST(:projects AS uuid[]), CAST(:ids AS uuid[]), CAST(:fences AS bigint[]),
  CAST(:versions AS bigint[])) AS h(project_id, id, fence, version)
LEFT JOIN runs r ON r.project_id = h.project_id AND r.id = h.id
WHERE (r.fence, r.version) IS DISTINCT FROM (h.fence, h.version)"""
)
# xmin is the transaction that wrote the row as it is now: a change of any kind makes another sum.
_MARK: Final = (
    "(SELECT concat(count(*), ' ', sum(CAST(CAST(t.xmin AS text) AS bigint)))"
    " FROM {table} t WHERE t.project_id = p.id)"
)
_TABLES: Final = ("tools", "agents", "secrets", "project_policies", "mcp_servers")
_MARKS: Final = text(
    "SELECT p.id, concat_ws(', ', "
    + ", ".join(_MARK.format(table=table) for table in _TABLES)
    + ") AS mark FROM unnest(CAST(:projects AS uuid[])) AS p(id)"
)


@dataclass(frozen=True, slots=True)
class Known:
    """A run as its worker knows it."""

    project_id: ProjectId
    run_id: RunId
    fence: int
    version: int


async def changed_runs(tx: Tx, known: Sequence[Known]) -> list[UUID]:
    """Return the IDs of the runs that somebody has changed since."""
    values = {
        "projects": [one.project_id for one in known],
        "ids": [one.run_id for one in known],
        "fences": [one.fence for one in known],
        "versions": [one.version for one in known],
    }
    return list((await tx.execute(_CHANGED_RUNS, values)).scalars())


async def marks(tx: Tx, projects: Sequence[UUID]) -> Mapping[UUID, str]:
    """Return a text for each project that is another one after a change of its tools, agents,
    secrets, policy or MCP servers."""
    rows = await tx.execute(_MARKS, {"projects": list(projects)})
    return {row.id: row.mark for row in rows}
