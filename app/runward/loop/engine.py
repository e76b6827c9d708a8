"""The parts of a process that all executions share, divided by who uses them."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from runward.domain.ids import ProjectId
from runward.domain.run.budget_approvals import list_approved_budgets
from runward.domain.run.budgets import Estimate
from runward.domain.run.items import Item
from runward.domain.run.state import Call, RunState
from runward.domain.run.status import RunStatus
from runward.llm.prices import Prices
from runward.loop.breaker import Breakers
from runward.loop.checks import Checks
from runward.loop.children import Children
from runward.loop.inline_tools import InlineTools
from runward.loop.notices import Notices
from runward.loop.project_cache import PolicyCache, ProjectModels
from runward.loop.spans import Tracing
from runward.loop.toolbox import Toolbox
from runward.store import budgets
from runward.store.live.feed import Feed
from runward.store.postgres.db import retry_on_outage
from runward.store.postgres.engine import AsyncEngine
from runward.store.runs import queries, session_items, sweep
from runward.store.runs.gate import Step, StepOutcome
from runward.store.runs.queue import HeldLease
from runward.tools.base import ToolInvoker
from runward.tools.guards import GuardClient
from runward.tools.plugin.registry import PluginHost
from runward.tools.rules import RuleEvaluator


@dataclass(frozen=True, slots=True)
class RunStorage:
    """Reads and writes leased runs. `feed` passes events to their readers in this process.
    `notices` notify tools whose calls were abandoned."""

    pool: AsyncEngine
    commit: Callable[[Step], Awaitable[StepOutcome]]
    lease_length: timedelta
    feed: Feed
    notices: Notices

    async def load(self, lease: HeldLease) -> RunState | None:
        """Read the current state of a run. Return None if the run is no longer leased under this
        fence."""

        async def read() -> tuple[RunStatus, RunState] | None:
            async with self.pool.connect() as tx:
                return await queries.load(tx, lease.project_id, lease.run_id)

        found = await retry_on_outage(read)
        if found is None or found[0] is not RunStatus.IN_PROGRESS or found[1].fence != lease.fence:
            return None
        return found[1]

    async def load_history(self, state: RunState, place: int) -> tuple[tuple[Item, ...], ...]:
        """Read the runs before `place` in the run's session."""

        async def read() -> tuple[tuple[Item, ...], ...]:
            assert state.place is not None
            async with self.pool.connect() as tx:
                session_id = state.place.session_id
                return await session_items.load_history(tx, state.project_id, session_id, place)

        return await retry_on_outage(read)

    async def renew(self, lease: HeldLease) -> bool:
        """Return whether the lease is held. The lease is renewed unless another transaction locks
        the run."""

        async def write() -> bool:
            async with self.pool.begin() as tx:
                return not await sweep.renew_leases(tx, self.lease_length, [lease])

        return await retry_on_outage(write)

    async def reserve(self, state: RunState, estimate: Estimate) -> budgets.Reserved:
        """Reserve the estimated usage of a model request."""

        async def write() -> budgets.Reserved:
            async with self.pool.begin() as tx:
                return await budgets.reserve(
                    tx,
                    state.project_id,
                    state.id,
                    state.fence,
                    agent=state.agent,
                    key_id=state.created_by,
                    estimate=estimate,
                    approved=list_approved_budgets(state),
                )

        return await retry_on_outage(write)


@dataclass(frozen=True, slots=True)
class ModelAccess:
    """Sends requests to models. `secrets` reads the values of stored secrets by name, and omits
    secrets that do not exist. `feed` passes drafts to their readers."""

    models: ProjectModels
    prices: Prices
    secrets: Callable[[ProjectId, Collection[str]], Awaitable[Mapping[str, str]]]
    feed: Feed
    breakers: Breakers = field(default_factory=Breakers)


@dataclass(frozen=True, slots=True)
class ToolRules:
    """Evaluates the rules and the plugins' functions that enable tools and require approval."""

    plugins: PluginHost
    evaluator: RuleEvaluator


@dataclass(frozen=True, slots=True)
class ToolAccess:
    """Finds tools and calls them. `invokers` has an entry for each type of tool. `callback` creates
    the URL and token with which a tool submits its result later. `timeout` applies if the tool and
    the run set no timeout."""

    toolbox: Toolbox
    inline: InlineTools
    rules: ToolRules
    invokers: Mapping[str, ToolInvoker]
    callback: Callable[[RunState, Call], tuple[str, str]]
    timeout: timedelta


@dataclass(frozen=True, slots=True)
class Guards:
    """Calls guardrails and hooks, including those of projects."""

    client: GuardClient
    policies: PolicyCache

    async def of_run(self, state: RunState) -> Checks:
        policy = await retry_on_outage(lambda: self.policies.of(state.project_id))
        return Checks(self.client, policy)


@dataclass(frozen=True, slots=True)
class Engine:
    storage: RunStorage
    models: ModelAccess
    tools: ToolAccess
    guards: Guards
    children: Children
    tracing: Tracing = field(default_factory=Tracing)
