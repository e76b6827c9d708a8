"""/v1/limits: the share of the deployment's capacity that the project can use."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field

from runward.api.http.audit import AuditDep
from runward.api.http.auth import Admin
from runward.api.http.dependencies import StorageDep
from runward.api.http.models import EXAMPLE_TIME, RequestModel, ResponseModel, with_example
from runward.api.http.routes import make_router
from runward.domain import limits as domain
from runward.domain.audit import AuditAction
from runward.domain.registry.tools import ToolName
from runward.store.access import limits
from runward.store.access.limits import StoredLimits

routes = make_router("Limits")

MAX_AGENTS: Final = 100
Number = Annotated[int, Field(ge=1, le=1_000_000)]
_LIMITS: Final[dict[str, Any]] = {
    "running_runs": 20,
    "queued_runs": 1000,
    "requests_per_minute": 600,
    "concurrency": [{"agent": "clerk", "max": 2}],
}


class AgentConcurrency(RequestModel):
    """The maximum number of running runs of one agent."""

    agent: ToolName
    """Name of the agent. It does not have to be registered yet."""
    max: Number
    """Maximum number of its runs that run at the same time."""


def _check_concurrency(value: tuple[AgentConcurrency, ...]) -> tuple[AgentConcurrency, ...]:
    if len({one.agent for one in value}) < len(value):
        raise ValueError("must name each agent only once")
    return value


class PutProjectLimits(RequestModel):
    """The complete limits of the project. A limit that is left out, or null, does not exist."""

    model_config = with_example(**_LIMITS)

    running_runs: Number | None = None
    """Maximum number of runs that run at the same time, including child runs. Runs that wait for
    approvals, callbacks, clients or child runs do not count. Further runs wait in the queue."""
    queued_runs: Number | None = None
    """Maximum number of runs with the status `queued`, without child runs. Further runs are
    rejected with 429 `too_many_requests`."""
    requests_per_minute: Number | None = None
    """Maximum number of requests in a minute by all API keys of the project. Further requests are
    rejected with 429 `too_many_requests`. Requests to `/v1/limits` do not count."""
    concurrency: Annotated[
        tuple[AgentConcurrency, ...],
        Field(max_length=MAX_AGENTS),
        AfterValidator(_check_concurrency),
    ] = ()
    """Limits for single agents, up to 100. They apply together with `running_runs`."""

    def to_limits(self) -> domain.ProjectLimits:
        agents = {one.agent: one.max for one in self.concurrency}
        return domain.ProjectLimits(
            self.running_runs, self.queued_runs, self.requests_per_minute, agents
        )


class ProjectLimits(ResponseModel):
    """The limits of the project. Null: there is no such limit."""

    model_config = with_example(object="limits", **_LIMITS, updated_at=EXAMPLE_TIME)

    object: Literal["limits"] = "limits"
    running_runs: int | None
    """Maximum number of runs that run at the same time, including child runs."""
    queued_runs: int | None
    """Maximum number of runs with the status `queued`, without child runs."""
    requests_per_minute: int | None
    """Maximum number of requests in a minute by all API keys of the project."""
    concurrency: list[AgentConcurrency]
    """Limits for single agents, in the order of their names."""
    updated_at: datetime | None
    """When the limits were last set. Null if they were never set."""

    @classmethod
    def from_stored(cls, stored: StoredLimits) -> Self:
        chosen = stored.limits
        agents = sorted(chosen.agents.items())
        return cls.from_attributes(
            chosen,
            concurrency=[AgentConcurrency(agent=name, max=number) for name, number in agents],
            updated_at=stored.updated_at,
        )


@routes.get("/limits", summary="Get the limits")
async def get_limits(principal: Admin, storage: StorageDep) -> ProjectLimits:
    """Get the limits of the project."""
    async with storage.connect() as tx:
        return ProjectLimits.from_stored(await limits.get_limits(tx, principal.project_id))


@routes.put("/limits", summary="Replace the limits")
async def put_limits(
    principal: Admin, storage: StorageDep, audit: AuditDep, body: PutProjectLimits
) -> ProjectLimits:
    """Replace all limits of the project. They apply to all processes after two seconds. Runs that
    are already running or queued are not affected."""
    async with storage.begin() as tx:
        former = await limits.get_limits(tx, principal.project_id, lock=True)
        stored = await limits.put_limits(tx, principal.project_id, body.to_limits())
        before, after = ProjectLimits.from_stored(former), ProjectLimits.from_stored(stored)
        await audit.record(
            tx, AuditAction.LIMITS_UPDATED, audit.project, before=before, after=after
        )
    return after
