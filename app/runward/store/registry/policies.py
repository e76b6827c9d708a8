"""The policy of a project: its hooks and guardrails, and the secret that signs their requests and
those of its agents. A project without a policy has no row."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pydantic import BaseModel, TypeAdapter
from sqlalchemy import Double, cast, exists, func, select
from sqlalchemy.dialects.postgresql import insert as upsert

from runward.domain.ids import ProjectId
from runward.domain.registry.guards import Guardrail, Guardrails, Hook, Hooks
from runward.store.postgres.db import Tx, notify_tools
from runward.store.postgres.tables import budgets, project_policies, projects
from runward.store.registry.tool_registry import ROTATION_OVERLAP

_HAS_BUDGETS: Final = (
    exists().where(budgets.c.project_id == projects.c.id).correlate(projects).label("has_budgets")
)
_HOOKS: Final = TypeAdapter[tuple[Hook, ...]](Hooks)
_GUARDRAILS: Final = TypeAdapter[tuple[Guardrail, ...]](Guardrails)


@dataclass(frozen=True, slots=True)
class StoredPolicy:
    """A policy. `generations`: the valid generations of the signing secret, newest first.
    `former_seconds`: how many seconds the second one remains valid. `version`: the number of
    updates, 0 if the policy was never set. `has_budgets`: whether the project has a budget."""

    hooks: tuple[Hook, ...] = ()
    guardrails: tuple[Guardrail, ...] = ()
    version: int = 0
    updated_at: datetime | None = None
    generations: tuple[int, ...] = (1,)
    former_seconds: float | None = None
    has_budgets: bool = False

    @property
    def checks_results(self) -> bool:
        """Return whether any guardrail or hook receives results of calls."""
        return any(one.stage == "output" for one in self.guardrails) or any(
            one.on == "after_tool" for one in self.hooks
        )


async def get_policy(tx: Tx, project_id: ProjectId, *, lock: bool = False) -> StoredPolicy:
    """`lock`: lock the policy until the transaction ends."""
    ends = project_policies.c.rotated_at + ROTATION_OVERLAP
    left = cast(func.extract("epoch", ends - func.clock_timestamp()), Double)
    query = (
        select(project_policies, left.label("former_seconds"), _HAS_BUDGETS)
        .select_from(projects.outerjoin(project_policies))
        .where(projects.c.id == project_id)
    )
    row = (
        await tx.execute(query.with_for_update(of=projects, key_share=True) if lock else query)
    ).one_or_none()
    if row is None or row.project_id is None:
        return StoredPolicy(has_budgets=row is not None and row.has_budgets)
    return _policy_from_row(row)


async def put_policy(
    tx: Tx, project_id: ProjectId, hooks: Sequence[Hook], guardrails: Sequence[Guardrail]
) -> StoredPolicy:
    made = upsert(project_policies).values(
        project_id=project_id,
        hooks=[_to_json(one) for one in hooks],
        guardrails=[_to_json(one) for one in guardrails],
        version=1,
    )
    await tx.execute(
        made.on_conflict_do_update(
            index_elements=[project_policies.c.project_id],
            set_={
                "hooks": made.excluded.hooks,
                "guardrails": made.excluded.guardrails,
                "version": project_policies.c.version + 1,
                "updated_at": func.clock_timestamp(),
            },
        )
    )
    await notify_tools(tx, project_id)
    return await get_policy(tx, project_id)


async def rotate_guard_secret(tx: Tx, project_id: ProjectId) -> int:
    """Rotate the secret and return the new generation. The previous secret still signs for
    ROTATION_OVERLAP."""
    made = upsert(project_policies).values(
        project_id=project_id, secret_generation=2, rotated_at=func.clock_timestamp()
    )
    generation = await tx.execute(
        made.on_conflict_do_update(
            index_elements=[project_policies.c.project_id],
            set_={
                "secret_generation": project_policies.c.secret_generation + 1,
                "rotated_at": func.clock_timestamp(),
            },
        ).returning(project_policies.c.secret_generation)
    )
    await notify_tools(tx, project_id)
    return generation.scalar_one()


def _to_json(model: BaseModel) -> Any:
    return model.model_dump(mode="json")


def _policy_from_row(row: Any) -> StoredPolicy:
    newest, left = row.secret_generation, row.former_seconds
    return StoredPolicy(
        hooks=_HOOKS.validate_python(row.hooks, strict=False),
        guardrails=_GUARDRAILS.validate_python(row.guardrails, strict=False),
        version=row.version,
        updated_at=row.updated_at if row.version else None,
        generations=(newest, newest - 1) if left is not None and left > 0 else (newest,),
        former_seconds=left,
        has_budgets=row.has_budgets,
    )
