"""The registry of agents. A version never changes: each update creates a new version."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import bindparam, func, insert, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from runward.domain.ids import ProjectId
from runward.domain.json import JsonObject
from runward.domain.run.config import AgentConfig
from runward.domain.run.family import Member
from runward.store.codec import config_from_json, config_to_json
from runward.store.postgres.db import Tx, notify_tools, select_page
from runward.store.postgres.tables import agent_versions, agents

MAX_TEAM_SIZE: Final = 64
"""Maximum number of agents to which one run can be handed over, directly or indirectly."""


class TeamTooLargeError(Exception):
    pass


@dataclass(frozen=True, slots=True)
class RegisteredAgent:
    name: str
    description: str | None
    config: AgentConfig
    metadata: JsonObject
    version: int
    created_at: datetime
    updated_at: datetime


async def put_agent(
    tx: Tx,
    project_id: ProjectId,
    name: str,
    config: AgentConfig,
    *,
    description: str | None,
    metadata: JsonObject,
    replace: bool,
) -> RegisteredAgent | None:
    """Create an agent or, with `replace`, the next version of an existing agent. Returns None if
    the name is taken or, with `replace`, if the agent does not exist."""
    spec: JsonObject = {
        "config": config_to_json(config),
        "description": description,
        "metadata": metadata,
    }
    if replace:
        query = (
            update(agents)
            .where(agents.c.project_id == project_id, agents.c.name == name)
            .where(agents.c.deleted_at.is_(None))
            .values(spec=spec, version=agents.c.version + 1, updated_at=func.clock_timestamp())
            .returning(agents)
        )
    else:
        made = upsert(agents).values(project_id=project_id, name=name, version=1, spec=spec)
        query = made.on_conflict_do_update(
            index_elements=[agents.c.project_id, agents.c.name],
            set_={
                "spec": made.excluded.spec,
                "version": agents.c.version + 1,
                "created_at": func.clock_timestamp(),
                "updated_at": func.clock_timestamp(),
                "deleted_at": None,
            },
            where=agents.c.deleted_at.is_not(None),
        ).returning(agents)
    row = (await tx.execute(query)).one_or_none()
    if row is None:
        return None
    await tx.execute(
        insert(agent_versions).values(
            project_id=project_id,
            name=name,
            version=row.version,
            spec=spec,
            created_at=row.updated_at,
        )
    )
    await notify_tools(tx, project_id)
    return _agent_from_row(row)


_AGENT: Final = select(agents).where(
    agents.c.project_id == bindparam("project_id"),
    agents.c.name == bindparam("name"),
    agents.c.deleted_at.is_(None),
)
"""Built once, because it is executed whenever a run of an agent starts."""


async def get_agent(tx: Tx, project_id: ProjectId, name: str) -> RegisteredAgent | None:
    row = (await tx.execute(_AGENT, {"project_id": project_id, "name": name})).one_or_none()
    return None if row is None else _agent_from_row(row)


async def list_agents(
    tx: Tx, project_id: ProjectId, *, after: str | None, limit: int, descending: bool
) -> list[RegisteredAgent]:
    """Return a page of the agents, ordered by name."""
    query = select(agents).where(agents.c.project_id == project_id, agents.c.deleted_at.is_(None))
    return [
        _agent_from_row(row)
        for row in await tx.execute(
            select_page(query, agents.c.name, after=after, limit=limit, descending=descending)
        )
    ]


async def delete_agent(tx: Tx, project_id: ProjectId, name: str) -> bool:
    query = (
        update(agents)
        .where(agents.c.project_id == project_id, agents.c.name == name)
        .where(agents.c.deleted_at.is_(None))
        .values(deleted_at=func.clock_timestamp())
        .returning(agents.c.name)
    )
    gone = (await tx.execute(query)).one_or_none() is not None
    await notify_tools(tx, project_id)
    return gone


async def lock_agent(tx: Tx, project_id: ProjectId, name: str) -> RegisteredAgent | None:
    """Lock the agent until the transaction ends, and return it. Returns None if it does not
    exist."""
    row = await tx.execute(_AGENT.with_for_update(), {"project_id": project_id, "name": name})
    found = row.one_or_none()
    return None if found is None else _agent_from_row(found)


async def list_versions(
    tx: Tx,
    project_id: ProjectId,
    name: str,
    *,
    after: int | None,
    limit: int,
    descending: bool = True,
) -> list[RegisteredAgent]:
    """Return a page of versions. `created_at` and `updated_at` are the creation time of the
    version."""
    query = select(
        agent_versions,
        agent_versions.c.created_at.label("updated_at"),
    ).where(agent_versions.c.project_id == project_id, agent_versions.c.name == name)
    version = agent_versions.c.version
    query = select_page(query, version, after=after, limit=limit, descending=descending)
    return [_agent_from_row(row) for row in await tx.execute(query)]


_AGENTS: Final = select(agents).where(
    agents.c.project_id == bindparam("project_id"),
    agents.c.name.in_(bindparam("names", expanding=True)),
    agents.c.deleted_at.is_(None),
)


async def list_agent_names(tx: Tx, project_id: ProjectId) -> set[str]:
    query = select(agents.c.name).where(
        agents.c.project_id == project_id, agents.c.deleted_at.is_(None)
    )
    return {row.name for row in await tx.execute(query)}


async def find_agents(tx: Tx, project_id: ProjectId, names: Sequence[str]) -> list[RegisteredAgent]:
    """Return those of the agents that exist."""
    rows = await tx.execute(_AGENTS, {"project_id": project_id, "names": list(names)})
    return [_agent_from_row(row) for row in rows]


async def find_team(
    tx: Tx, project_id: ProjectId, handoffs: Sequence[str]
) -> tuple[dict[str, Member], list[str]]:
    """Return the agents to which `handoffs` lead, directly or through their own handoffs, and the
    names of missing agents. Raises TeamTooLargeError."""
    team: dict[str, Member] = {}
    missing: list[str] = []
    wanted = list(dict.fromkeys(handoffs))
    while wanted:
        rows = await tx.execute(_AGENTS, {"project_id": project_id, "names": wanted})
        found = {row.name: _agent_from_row(row) for row in rows}
        missing += [name for name in wanted if name not in found]
        for name, agent in found.items():
            team[name] = make_member(agent)
        if len(team) > MAX_TEAM_SIZE:
            raise TeamTooLargeError
        onwards = [name for agent in found.values() for name in agent.config.handoffs]
        wanted = [name for name in dict.fromkeys(onwards) if name not in (*team, *missing)]
    return team, missing


async def find_missing(tx: Tx, project_id: ProjectId, names: Sequence[str]) -> list[str]:
    """Return those of `names` under which no agent is registered."""
    if not names:
        return []
    rows = await tx.execute(_AGENTS, {"project_id": project_id, "names": list(names)})
    found = {row.name for row in rows}
    return [name for name in dict.fromkeys(names) if name not in found]


def make_member(agent: RegisteredAgent) -> Member:
    return Member(agent.config, agent.version, agent.description)


def _agent_from_row(row: Any) -> RegisteredAgent:
    return RegisteredAgent(
        name=row.name,
        description=row.spec["description"],
        config=config_from_json(row.spec["config"]),
        metadata=row.spec["metadata"],
        version=row.version,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
