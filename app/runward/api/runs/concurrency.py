"""The values of concurrency keys, which are computed when a run is accepted."""

from dataclasses import replace

from runward.domain.ids import Prefix, format_optional_id
from runward.domain.json import JsonObject
from runward.domain.limits import ProjectLimits, name_concurrency_group
from runward.domain.registry.rules import RuleFailure
from runward.services import Registry
from runward.store.runs.queue import NewRun


async def add_concurrency_groups(
    registry: Registry, limits: ProjectLimits, new: NewRun, session_id: str | None = None
) -> NewRun:
    """Return the run with its groups of runs whose concurrency keys have the same values. Runs
    without a value share one group, so that a client cannot avoid a limit by omitting a field."""
    keys = list(limits.concurrency_keys)
    if not keys:
        return new
    state = new.state
    run: JsonObject = {
        "agent": state.agent,
        "key_id": format_optional_id(Prefix.KEY, state.created_by),
        "metadata": new.metadata,
        "session_id": session_id,
    }
    shared: JsonObject = {"context": state.context, "run": run}
    values = await registry.compute_concurrency_keys(state.project_id, keys, shared)
    groups = (
        name_concurrency_group(key, None if isinstance(value, RuleFailure) else value)
        for key, value in zip(keys, values, strict=True)
    )
    return replace(new, concurrency_groups=tuple(groups))
