"""Runs of cached agents: a run never starts with an outdated version of its agent."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import pytest

from runward.api.http.idempotency import IdempotentRequest
from runward.api.runs.acceptance import AcceptResult
from runward.api.runs.request_models import StartRun
from runward.api.runs.start import accept
from runward.domain import errors as e
from runward.domain.ids import KeyId, Prefix, ProjectId, SessionId, format_id
from runward.domain.registry.scopes import Principal, Scope
from runward.domain.run.config import AgentConfig
from runward.domain.run.sessions import ConflictMode
from runward.loop.project_cache import AgentCache
from runward.services import Services
from runward.settings import Settings
from runward.store.registry import agents
from runward.store.registry.agents import RegisteredAgent
from runward.store.runs import sessions
from runward.store.runs.queue import AcceptedRun, AgentChangedError
from runward.wiring import open_services
from tests.db.store import MODEL, PROJECT, Store, new_run
from tests.db.test_plans import Sent


@dataclass
class Api:
    """An API process that receives no notifications."""

    store: Store
    services: Services

    async def start(self, agent: str = "clerk", key: str | None = None, **fields: Any) -> str:
        """Start a run, and return the instructions that it was stored with."""
        body = StartRun.model_validate({"agent": agent, "input": "go", **fields})
        principal = Principal(PROJECT, KeyId(uuid4()), "key", frozenset({Scope.RUNS_WRITE}))
        request_key = IdempotentRequest(PROJECT, "POST /v1/runs", "digest", key)
        accepted: AcceptResult = await accept(
            self.services.storage,
            self.services.registry,
            self.services.queue,
            principal,
            body,
            request_key,
        )
        row = await self.store.head(accepted.run.id)
        version = await self.store.value("SELECT version FROM agents WHERE name = :n", n=agent)
        assert row.agent_version == version
        return row.config["instructions"]


@asynccontextmanager
async def api(store: Store) -> AsyncGenerator[Api]:
    settings = Settings.model_validate({"secret_key": "k" * 32})
    async with open_services(settings, store.url) as services:
        yield Api(store, services)


async def put(store: Store, instructions: str, *, update: bool = False) -> None:
    """As another process does."""
    config = AgentConfig(model=MODEL, instructions=instructions)
    async with store.pool.begin() as tx:
        made = await agents.put_agent(
            tx, PROJECT, "clerk", config, description=None, metadata={}, replace=update
        )
    assert made is not None


async def delete(store: Store) -> None:
    async with store.pool.begin() as tx:
        assert await agents.delete_agent(tx, PROJECT, "clerk")


async def test_a_run_starts_with_the_current_agent_before_a_notification_arrives(
    store: Store,
) -> None:
    await put(store, "first")
    async with api(store) as one:
        assert await one.start() == "first"
        await put(store, "second", update=True)
        assert [await one.start(), await one.start()] == ["second", "second"]
        await delete(store)
        with pytest.raises(e.UnknownAgentError):
            await one.start()
        await put(store, "third")
        assert await one.start() == "third"
    assert await store.value("SELECT count(*) FROM runs") == 4


async def test_a_run_in_a_session_starts_with_the_current_agent(store: Store) -> None:
    await put(store, "first")
    async with store.pool.begin() as tx:
        session = await sessions.create(
            tx, PROJECT, name=None, metadata={}, state={}, on_conflict=ConflictMode.QUEUE
        )
    session_id = format_id(Prefix.SESSION, SessionId(session.id))
    async with api(store) as one:
        assert await one.start(session_id=session_id) == "first"
        await put(store, "second", update=True)
        assert await one.start(session_id=session_id) == "second"
    assert await store.value("SELECT array_agg(session_seq ORDER BY id) FROM runs") == [1, 2]


async def test_a_key_belongs_to_the_run_that_was_accepted(store: Store) -> None:
    await put(store, "first")
    async with api(store) as one:
        await one.start()
        await put(store, "second", update=True)
        assert await one.start(key="k") == "second"
        assert await one.start(key="k") == "second"
    assert await store.value("SELECT count(*) FROM runs") == 2


class ChangingAgents(AgentCache):
    """Another process changes each agent right after it was read."""

    def __init__(self, store: Store) -> None:
        super().__init__(store.pool)
        self._store = store

    async def find(self, project_id: ProjectId, name: str) -> RegisteredAgent | None:
        found = await super().find(project_id, name)
        await put(self._store, "another", update=True)
        return found


async def test_an_agent_that_changes_after_each_read_is_a_conflict(store: Store) -> None:
    await put(store, "first")
    async with api(store) as one:
        registry = replace(one.services.registry, agents=ChangingAgents(store))
        one.services.registry = registry
        with pytest.raises(e.ConflictError):
            await one.start()
    assert await store.value("SELECT count(*) FROM runs") == 0


async def test_the_other_runs_of_a_batch_are_accepted(store: Store) -> None:
    await put(store, "first")
    config = AgentConfig(model=MODEL)
    batch = [
        replace(
            new_run(config, agent="clerk", idempotency=(key, "POST /v1/runs", "digest")),
            agent_version=version,
            needs_current_agent=needed,
        )
        for key, version, needed in (("a", 1, True), ("b", 2, True), ("c", 2, False))
    ]
    results = await store.acceptor.write(batch)
    assert [type(result) for result in results] == [AcceptedRun, AgentChangedError, AcceptedRun]
    stored = await store.sql("SELECT resource_id FROM idempotency_keys ORDER BY key")
    assert [row.resource_id for row in stored] == [batch[0].id, batch[2].id]


async def test_the_second_run_of_an_agent_is_one_statement(store: Store) -> None:
    await put(store, "first")
    async with api(store) as one:
        await one.start()
        sent = Sent()
        with sent.of(one.services.storage.database.pool):
            await one.start()
    assert len(sent.statements) == 1
