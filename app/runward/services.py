"""The parts that the API, the console and the worker are made of. A function takes the parts that
it uses; `runward.wiring` opens them."""

import asyncio
from collections import Counter
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Hashable,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol, TypeVar
from uuid import UUID

from runward.domain.ids import ProjectId, RunId
from runward.domain.json import JsonObject
from runward.domain.registry.mcp_auth import Login, OAuthClient, PendingLogin
from runward.domain.registry.mcp_servers import ListedTool, McpServerSpec
from runward.domain.registry.rules import RuleFailure, RuleValue
from runward.domain.registry.scopes import Principal
from runward.domain.registry.tools import HostedToolKind, ToolSpec
from runward.domain.retention import RetentionLimits
from runward.domain.run.abandoned import AbandonedCall
from runward.domain.run.state import RunState
from runward.domain.run.status import Move
from runward.egress.client import Egress
from runward.llm.catalog import ModelCatalog, Models
from runward.llm.prices import Prices
from runward.loop.engine import Engine
from runward.loop.notices import Notices
from runward.loop.project_cache import AgentCache, PolicyCache, ProjectModels
from runward.loop.toolbox import Toolbox, ToolSet
from runward.store.access.key_checks import KeyCheck, KeyChecks
from runward.store.access.vault import Vault
from runward.store.data_keys.key_ring import KeyRing
from runward.store.live.carried import CommittedEvents
from runward.store.live.feed import Feed
from runward.store.live.followers import Follower
from runward.store.postgres.db import Database, Tx, open_database
from runward.store.postgres.replica import ReplicaReader
from runward.store.postgres.shared_queries import SharedQueries
from runward.store.registry.agents import RegisteredAgent
from runward.store.runs.backlog import Backlog, BacklogReader
from runward.store.runs.quarantine import Quarantine
from runward.store.runs.queue import AcceptedRun, NewRun
from runward.tools.base import ToolInvoker
from runward.tools.mcp import login
from runward.tools.mcp.invoker import McpInvoker
from runward.tools.mcp.login import LoginReturn, LoginStart
from runward.tools.mcp.session import ConnectableServer
from runward.tools.plugin.registry import PluginHost
from runward.tools.rules import RuleEvaluator

T = TypeVar("T")


class Storage:
    """The database, and the keys of values that are stored encrypted in it."""

    def __init__(self, database: Database, vault: Vault, replica: Database | None = None) -> None:
        self.database = database
        self.vault = vault
        self.autocommit = database.autocommit
        self._backlog = BacklogReader(database.autocommit)
        self._reader = ReplicaReader(database.autocommit, replica and replica.autocommit)

    async def read_backlog(self) -> Backlog | None:
        """Return the unfinished work of the deployment, or None if the database is unavailable."""
        return await self._backlog.read()

    def connect(self) -> AbstractAsyncContextManager[Tx]:
        """Open a connection on which each statement is a transaction of its own: for reads, and
        for a write of one statement."""
        return self.autocommit.connect()

    async def read_lagging(self, query: Callable[[Tx], Awaitable[T]]) -> T:
        """Return the result of a query that may be long, and whose data may be some seconds
        old."""
        return await self._reader.read(query)

    def begin(self) -> AbstractAsyncContextManager[Tx]:
        """Open a transaction. It is committed at the end, and rolled back after an error."""
        return self.database.pool.begin()


@dataclass(frozen=True, slots=True)
class Access:
    """Authenticate callers. `public_url` is the address of this API."""

    authenticate: Callable[[str], Awaitable[Principal | None]]
    """By the secret of an API key."""
    authenticate_session: Callable[[str], Awaitable[Principal | None]]
    """By the token of a console session."""
    forget_session: Callable[[str], None]
    public_url: str


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Limits of requests that an operator sets."""

    max_body_bytes: int
    mcp_seconds: float
    """How long a tool call over /mcp waits for its run."""


@dataclass(frozen=True, slots=True)
class Registry:
    """The tools, agents, models, policies and MCP servers of projects, cached, and what runs
    them."""

    toolbox: Toolbox
    agents: AgentCache
    policies: PolicyCache
    models: ProjectModels
    prices: Prices
    plugins: PluginHost
    mcp: McpInvoker
    executors: Mapping[str, ToolInvoker]
    """By type of tool."""
    rules: RuleEvaluator
    egress: Egress
    read_secrets: Callable[[ProjectId, Collection[str]], Awaitable[Mapping[str, str]]]
    """Read the values of a project's secrets by name, without those that do not exist."""
    tool_seconds: float
    """The timeout of tools that set none."""

    async def get_models(self, project_id: ProjectId) -> Models:
        return await self.models.of(project_id)

    async def find_agent(self, project_id: ProjectId, name: str) -> RegisteredAgent | None:
        return await self.agents.find(project_id, name)

    async def fetch_tools(
        self, project_id: ProjectId, versions: Iterable[tuple[str, int]]
    ) -> ToolSet:
        return await self.toolbox.fetch(project_id, versions)

    async def find_tool_kinds(
        self, project_id: ProjectId, names: Sequence[str]
    ) -> Mapping[str, HostedToolKind | None]:
        return await self.toolbox.find_kinds(project_id, names)

    async def list_unregistered(self, project_id: ProjectId, names: Sequence[str]) -> list[str]:
        return await self.toolbox.list_unregistered(project_id, names)

    def watch_tools(self, project_id: ProjectId) -> AbstractContextManager[asyncio.Event]:
        return self.toolbox.watch(project_id)

    def get_plugin_spec(self, name: str) -> ToolSpec | None:
        return self.plugins.spec_of(name)

    async def list_mcp_tools(self, server: ConnectableServer) -> tuple[ListedTool, ...]:
        return await self.mcp.list_tools(server)

    async def begin_mcp_login(
        self,
        url: str,
        client: OAuthClient,
        *,
        public_url: str,
        scope: str | None,
        make_state: Callable[[str], str],
    ) -> LoginStart:
        return await login.begin(
            url, client, self.egress, public_url=public_url, scope=scope, make_state=make_state
        )

    async def finish_mcp_login(
        self, pending: PendingLogin, returned: LoginReturn, private_key: str | None
    ) -> Login:
        return await login.finish(pending, returned, private_key, self.egress)

    def find_command_problem(self, spec: McpServerSpec) -> str | None:
        return self.mcp.refusal(spec)

    async def check_target(self, url: str) -> None:
        """Raises TargetError."""
        await self.egress.check_target(url)

    async def find_price_problem(self, model: str) -> str | None:
        """Return why `max_cost_usd` cannot limit a run of this model, or None if it can."""
        await self.prices.open()
        return self.prices.find_problem(model)

    async def has_budgets(self, project_id: ProjectId) -> bool:
        return (await self.policies.of(project_id)).has_budgets

    def list_priced_models(self) -> list[str]:
        """Return the models for which the operator has set a price."""
        return self.prices.names

    async def find_rule_problem(
        self, project_id: ProjectId, rule: str, *, is_key: bool = False
    ) -> str | None:
        return await self.rules.problem(project_id, rule, is_key=is_key)

    async def compute_concurrency_keys(
        self, project_id: ProjectId, keys: Sequence[str], variables: JsonObject
    ) -> list[RuleValue | RuleFailure]:
        return await self.rules.compute_keys(project_id, keys, variables)

    def forget_tools(self, project_id: ProjectId) -> None:
        """Read the project's tools and agents again, since one of them has changed."""
        self.toolbox.forget(project_id)
        self.agents.forget(project_id)

    def forget_agents(self, project_id: ProjectId) -> None:
        self.agents.forget(project_id)

    def forget_policy(self, project_id: ProjectId) -> None:
        self.policies.forget(project_id)

    def forget_models(self, project_id: ProjectId) -> None:
        self.models.forget(project_id)

    def forget_mcp_servers(self, project_id: ProjectId) -> None:
        self.mcp.forget(project_id)

    def forget(self, project_id: UUID | None, *, tell: bool = True) -> None:
        """Read everything of the project again; None: of all projects. `tell`: those who watch its
        tools."""
        self.toolbox.forget(project_id, tell=tell)
        self.agents.forget(project_id)
        self.policies.forget(project_id)
        self.models.forget(project_id)
        self.mcp.forget(project_id)


class LocalWorker(Protocol):
    """The worker of this process."""

    def reserve_place(self) -> bool: ...
    def release_place(self) -> None: ...
    def start_accepted(self, state: RunState, events: CommittedEvents) -> None: ...
    def wake(self, run_id: UUID | None = None) -> None: ...
    def watch_project(self, project_id: UUID) -> None: ...
    def has_failed(self) -> bool: ...


class NoWorker:
    """Stands for the worker in a process that has none."""

    def __init__(self, on_project: Callable[[UUID], None] = lambda _: None) -> None:
        """`on_project` is called with each project that a caller of the API belongs to."""
        self._on_project = on_project

    def watch_project(self, project_id: UUID) -> None:
        self._on_project(project_id)

    def reserve_place(self) -> bool:
        return False

    def release_place(self) -> None:
        pass

    def start_accepted(self, state: RunState, events: CommittedEvents) -> None:
        raise AssertionError(f"run {state.id} was leased to a process that is not a worker")

    def wake(self, run_id: UUID | None = None) -> None:
        pass

    def has_failed(self) -> bool:
        return False


@dataclass(slots=True)
class RunQueue:
    """Where runs are accepted and changed, and the worker that may be in this process."""

    accept: Callable[[NewRun], Awaitable[AcceptedRun]]
    lease: timedelta
    quarantine: Quarantine
    notices: Notices
    worker: LocalWorker = field(default_factory=NoWorker)

    def reserve_place(self) -> bool:
        return self.worker.reserve_place()

    def release_place(self) -> None:
        self.worker.release_place()

    def start_accepted(self, state: RunState, events: CommittedEvents) -> None:
        self.worker.start_accepted(state, events)

    def has_failed(self) -> bool:
        """Return whether a task of this process's worker has ended, so that the process stops."""
        return self.worker.has_failed()

    def wake_worker(self, run_id: RunId | None = None) -> None:
        self.worker.wake(run_id)

    def watch_project(self, project_id: ProjectId) -> None:
        self.worker.watch_project(project_id)

    async def end_unreadable(self, project_id: ProjectId, run_id: RunId, move: Move) -> None:
        await self.quarantine.end(project_id, run_id, move)

    def notify_tools(self, abandoned: Iterable[AbandonedCall]) -> None:
        """Tell tools that nobody waits for their calls."""
        self.notices.enqueue(abandoned)


@dataclass(frozen=True, slots=True)
class Live:
    """The events of runs as they happen, and the streams that are open."""

    feed: Feed
    keys: KeyChecks
    streams_per_key: int
    open_streams: Counter[UUID] = field(default_factory=Counter[UUID])
    """By API key and by project. Long requests to /mcp also count."""
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    reads: SharedQueries = field(default_factory=SharedQueries)
    """The queries of readers that were woken together."""

    def is_stopping(self) -> bool:
        return self.stopping.is_set()

    def has_events_after(self, project_id: ProjectId, run_id: RunId, seen: int) -> bool:
        """Return whether this process executes the run and has its events after the number
        `seen`."""
        return self.feed.has_events_after(project_id, run_id, seen)

    def catch_up(self, follower: Follower) -> None:
        self.feed.catch_up(follower)

    async def share_query(self, key: Hashable, query: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of a query that readers with the same key share."""
        return await self.reads.run(key, query)

    def get_key_check(self, principal: Principal) -> KeyCheck:
        """Return the check of the key with which a stream was opened."""
        return self.keys.of(principal)


@dataclass(slots=True)
class Services:
    """All parts. Functions of the API take single ones."""

    storage: Storage
    key_ring: KeyRing
    access: Access
    limits: RequestLimits
    retention: RetentionLimits
    registry: Registry
    queue: RunQueue
    live: Live
    engine: Engine
    models: ModelCatalog
    direct_url: str
    """The database's own address where `storage` goes through PgBouncer: for LISTEN and leases."""
    own_backends: set[int]

    def open_direct(self) -> Database:
        """Open a pool of one connection to `direct_url`, which PgBouncer answers too if no other
        address is set."""
        database = self.storage.database
        behind = database.through_pgbouncer and self.direct_url == database.url
        return open_database(self.direct_url, pool_size=1, through_pgbouncer=behind)
