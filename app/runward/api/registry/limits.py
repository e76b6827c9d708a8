"""/v1/limits: the share of the deployment's capacity that the project can use."""

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from runward.api.http.audit import AuditDep
from runward.api.http.auth import Admin
from runward.api.http.dependencies import RegistryDep, StorageDep
from runward.api.http.models import (
    EXAMPLE_TIME,
    KEY_ID,
    RequestModel,
    ResponseModel,
    with_example,
)
from runward.api.http.routes import make_router
from runward.domain import limits as domain
from runward.domain.audit import AuditAction
from runward.domain.errors import FieldError, InvalidRequestError
from runward.domain.ids import KeyId, Prefix, ProjectId, format_id, parse_id
from runward.domain.registry.rules import MAX_RULE
from runward.domain.registry.tools import ToolName
from runward.services import Registry
from runward.store.access import keys, limits
from runward.store.access.limits import StoredLimits
from runward.store.postgres.db import Tx

routes = make_router("Limits")

MAX_CONCURRENCY: Final = 100
MAX_CONCURRENCY_KEYS: Final = 10
MAX_KEYS: Final = 1_000
Number = Annotated[int, Field(ge=1, le=1_000_000)]
_TOTALS: Final = {"running_runs": 20, "queued_runs": 1000, "requests_per_minute": 600}
_LIMITS: Final[dict[str, Any]] = {
    **_TOTALS,
    "event_streams": 100,
    "concurrency": [
        {"agent": "clerk", "tool": None, "key": None, "max": 2},
        {"agent": None, "tool": None, "key": "context.customer", "max": 1},
    ],
    "keys": [
        {
            "key_id": KEY_ID,
            "running_runs": 5,
            "queued_runs": None,
            "requests_per_minute": 60,
            "event_streams": 10,
        }
    ],
}


class ConcurrencyLimit(RequestModel):
    """The maximum number of running runs of one agent, that can call one tool, or with the same
    value of a key. Exactly one of `agent`, `tool` and `key` must be set."""

    agent: ToolName | None = None
    """Name of the agent. It does not have to be registered yet."""
    tool: ToolName | None = None
    """Name of a tool. The limit applies to runs whose agents have this tool, whether or not they
    call it."""
    key: Annotated[str, Field(min_length=1, max_length=MAX_RULE)] | None = None
    """CEL expression that returns a string, a number, true or false, such as
    `run.metadata.customer`. Runs with the same value are limited together. The expression can use
    `context` and `run` with `agent`, `key_id`, `metadata` and `session_id`. Runward evaluates it
    when a run is accepted. Runs for which it has no result are also limited together."""
    max: Number
    """Maximum number of these runs that run at the same time."""

    @model_validator(mode="after")
    def _check_subject(self) -> Self:
        if [self.agent, self.tool, self.key].count(None) != 2:
            raise ValueError("must have exactly one of agent, tool and key")
        return self


class KeyLimits(RequestModel):
    """The limits of one API key. They apply together with the limits of the project."""

    key_id: Annotated[str, Field(max_length=64)]
    """ID of an API key of the project."""
    running_runs: Number | None = None
    """Maximum number of runs of this key that run at the same time, including child runs. Further
    runs wait in the queue. Null: no limit."""
    queued_runs: Number | None = None
    """Maximum number of runs of this key with the status `queued`, without child runs. Null: no
    limit."""
    requests_per_minute: Number | None = None
    """Maximum number of requests with this key in a minute. Null: no limit."""
    event_streams: Number | None = None
    """Maximum number of event streams of this key in one process. Null: the deployment's
    maximum."""


def _check_concurrency(value: tuple[ConcurrencyLimit, ...]) -> tuple[ConcurrencyLimit, ...]:
    if len({(one.agent, one.tool, one.key) for one in value}) < len(value):
        raise ValueError("must name each agent, tool and key only once")
    if sum(one.key is not None for one in value) > MAX_CONCURRENCY_KEYS:
        raise ValueError(f"must have at most {MAX_CONCURRENCY_KEYS} keys")
    return value


def _check_keys(value: tuple[KeyLimits, ...]) -> tuple[KeyLimits, ...]:
    if len({one.key_id for one in value}) < len(value):
        raise ValueError("must name each API key only once")
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
    event_streams: Number | None = None
    """Maximum number of event streams that the project can have open in one process. Further
    streams are rejected with 429 `too_many_requests`."""
    concurrency: Annotated[
        tuple[ConcurrencyLimit, ...],
        Field(max_length=MAX_CONCURRENCY),
        AfterValidator(_check_concurrency),
    ] = ()
    """Limits for single agents, for single tools, and for runs with the same value of a key: up to
    100, of which up to 10 can have keys. They apply together with `running_runs`."""
    keys: Annotated[
        tuple[KeyLimits, ...], Field(max_length=MAX_KEYS), AfterValidator(_check_keys)
    ] = ()
    """Limits of single API keys, up to 1,000. They apply together with the limits of the
    project."""

    def to_limits(self) -> domain.ProjectLimits:
        return domain.ProjectLimits(
            self.running_runs,
            self.queued_runs,
            self.requests_per_minute,
            self.event_streams,
            {one.agent: one.max for one in self.concurrency if one.agent is not None},
            {one.tool: one.max for one in self.concurrency if one.tool is not None},
            {one.key: one.max for one in self.concurrency if one.key is not None},
        )

    def to_key_limits(self) -> dict[KeyId, domain.KeyLimits]:
        """Return the limits of API keys. IDs that do not parse are omitted."""
        found = ((parse_id(Prefix.KEY, one.key_id), one) for one in self.keys)
        return {
            KeyId(id_): domain.KeyLimits(**one.model_dump(exclude={"key_id"}))
            for id_, one in found
            if id_ is not None
        }


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
    event_streams: int | None
    """Maximum number of event streams that the project can have open in one process."""
    concurrency: list[ConcurrencyLimit]
    """Limits for single agents and single tools in the order of their names, and then for runs with
    the same value of a key."""
    keys: list[KeyLimits]
    """Limits of single API keys, in the order of their IDs."""
    updated_at: datetime | None
    """When the limits were last set. Null if they were never set."""

    @classmethod
    def from_stored(cls, stored: StoredLimits) -> Self:
        chosen = stored.limits
        return cls.from_attributes(
            chosen,
            concurrency=[
                *(ConcurrencyLimit(agent=a, max=n) for a, n in sorted(chosen.agents.items())),
                *(ConcurrencyLimit(tool=t, max=n) for t, n in sorted(chosen.tools.items())),
                *(
                    ConcurrencyLimit(key=k, max=n)
                    for k, n in sorted(chosen.concurrency_keys.items())
                ),
            ],
            keys=[
                KeyLimits(key_id=format_id(Prefix.KEY, id_), **asdict(stored.keys[id_]))
                for id_ in sorted(stored.keys)
            ],
            updated_at=stored.updated_at,
        )


@routes.get("/limits", summary="Get the limits")
async def get_limits(principal: Admin, storage: StorageDep) -> ProjectLimits:
    """Get the limits of the project."""
    async with storage.connect() as tx:
        return ProjectLimits.from_stored(await limits.get_limits(tx, principal.project_id))


@routes.put("/limits", summary="Replace the limits")
async def put_limits(
    principal: Admin,
    storage: StorageDep,
    registry: RegistryDep,
    audit: AuditDep,
    body: PutProjectLimits,
) -> ProjectLimits:
    """Replace all limits of the project. They apply to all processes after at most two seconds.
    Runs that are already running continue, and accepted runs stay in the queue."""
    await _check_expressions(registry, principal.project_id, body)
    async with storage.begin() as tx:
        await _check_key_ids(tx, principal.project_id, body)
        former = await limits.get_limits(tx, principal.project_id, lock=True)
        stored = await limits.put_limits(
            tx, principal.project_id, body.to_limits(), body.to_key_limits()
        )
        before, after = ProjectLimits.from_stored(former), ProjectLimits.from_stored(stored)
        await audit.record(
            tx, AuditAction.LIMITS_UPDATED, audit.project, before=before, after=after
        )
    return after


async def _check_expressions(
    registry: Registry, project_id: ProjectId, body: PutProjectLimits
) -> None:
    """Raises InvalidRequestError."""
    errors: list[FieldError] = []
    for number, one in enumerate(body.concurrency):
        if one.key is not None:
            problem = await registry.find_rule_problem(project_id, one.key, is_key=True)
            if problem is not None:
                errors.append(FieldError(f"concurrency.{number}.key", problem))
    if errors:
        raise InvalidRequestError(errors=errors)


async def _check_key_ids(tx: Tx, project_id: ProjectId, body: PutProjectLimits) -> None:
    """Raises InvalidRequestError."""
    existing = await keys.find_keys(tx, project_id, body.to_key_limits())
    errors = [
        FieldError(f"keys.{number}.key_id", "is not an API key of this project")
        for number, one in enumerate(body.keys)
        if parse_id(Prefix.KEY, one.key_id) not in existing
    ]
    if errors:
        raise InvalidRequestError(errors=errors)
