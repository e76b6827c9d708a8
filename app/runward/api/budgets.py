"""/v1/budgets."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self

from fastapi import Response
from pydantic import Field, model_validator

from runward.api.http.audit import AuditDep
from runward.api.http.auth import Admin
from runward.api.http.dependencies import RegistryDep, StorageDep
from runward.api.http.idempotency import RequestKey, respond_once
from runward.api.http.models import (
    EXAMPLE_TIME,
    RequestModel,
    ResponseModel,
    with_example,
)
from runward.api.http.paging import Page, Pagination
from runward.api.http.params import BudgetPath
from runward.api.http.routes import make_router
from runward.domain import errors as e
from runward.domain import not_found
from runward.domain.audit import AuditAction
from runward.domain.errors import FieldError
from runward.domain.ids import KeyId, Prefix, format_id, format_optional_id, parse_id
from runward.domain.registry.tools import ToolName
from runward.domain.run.budgets import BudgetAction, BudgetPeriod, BudgetUnit
from runward.store import budgets
from runward.store.access import keys
from runward.store.budgets import StoredBudget
from runward.store.postgres.db import Tx

MAX_BUDGETS: Final = 1_000
"""Maximum number of budgets of a project."""
_GIVEN: Final[dict[str, Any]] = {
    "agent": "clerk",
    "period": "day",
    "limit_usd": 20.0,
    "limit_tokens": None,
    "on_limit": "wait",
}

routes = make_router("Budgets")

Limit = Annotated[float, Field(gt=0, le=1_000_000)]
TokenLimit = Annotated[int, Field(ge=1, le=1_000_000_000_000)]
_ON_LIMIT: Final = (
    "What a run does if the budget has no room for its next model request. `wait`: it waits for "
    "the next period. `ask`: it waits for an approval to exceed the budget until the next period."
)


class CreateBudget(RequestModel):
    """A budget to create. It can have `agent` or `key_id`, but not both. Without them, it applies
    to all runs of the project."""

    model_config = with_example(**_GIVEN)

    agent: ToolName | None = None
    """Name of an agent, which does not have to be registered yet. The budget applies to the model
    requests of this agent, also in child runs and after handoffs. Null: the budget applies to all
    agents."""
    key_id: Annotated[str, Field(max_length=64)] | None = None
    """ID of an API key of the project. The budget applies to the runs that this key starts. Null:
    the budget applies to all API keys."""
    period: BudgetPeriod = BudgetPeriod.DAY
    """Period after which the budget starts again at zero: a `minute`, a `day` or a `month` in
    UTC."""
    limit_usd: Limit | None = None
    """Maximum cost of model requests in each period, in US dollars. A budget has either `limit_usd`
    or `limit_tokens`."""
    limit_tokens: TokenLimit | None = None
    """Maximum number of input and output tokens of model requests in each period."""
    on_limit: Annotated[BudgetAction, Field(description=_ON_LIMIT)] = BudgetAction.WAIT

    @model_validator(mode="after")
    def _check_subject(self) -> Self:
        if self.agent is not None and self.key_id is not None:
            raise ValueError("must have at most one of agent and key_id")
        if (self.limit_usd is None) == (self.limit_tokens is None):
            raise ValueError("must have either limit_usd or limit_tokens")
        if self.period is BudgetPeriod.MINUTE and self.on_limit is BudgetAction.ASK:
            raise ValueError(
                "must wait at the limit, because a minute is too short for an approval"
            )
        return self

    def to_fields(self) -> dict[str, Any]:
        """Return the values of the columns."""
        fields = self.model_dump(exclude={"limit_usd", "limit_tokens"})
        if self.limit_tokens is not None:
            return fields | {"unit": BudgetUnit.TOKENS, "limit_usd": self.limit_tokens}
        return fields | {"limit_usd": self.limit_usd}


class UpdateBudget(RequestModel):
    """The fields to update. To change the period or the runs to which a budget applies, create
    another budget."""

    model_config = with_example(limit_usd=50.0)

    limit_usd: Limit | None = None
    """Maximum cost of model requests in each period, in US dollars. Only for budgets of the
    cost."""
    limit_tokens: TokenLimit | None = None
    """Maximum number of tokens in each period. Only for budgets of tokens."""
    on_limit: Annotated[BudgetAction | None, Field(description=_ON_LIMIT)] = None


class Budget(ResponseModel):
    """A limit of the cost or the tokens of model requests in each minute, day or month."""

    model_config = with_example(
        id="bud_019a5f1e9c637f749e2f7d9dbd5f5f95",
        object="budget",
        key_id=None,
        **_GIVEN,
        spent_usd=7.25,
        spent_tokens=None,
        reserved_usd=0.16,
        reserved_tokens=None,
        period_start="2026-11-02T00:00:00Z",
        period_end="2026-11-03T00:00:00Z",
        created_at=EXAMPLE_TIME,
        updated_at=EXAMPLE_TIME,
    )

    id: str
    """ID of the budget."""
    object: Literal["budget"] = "budget"
    agent: str | None
    """Name of the agent to which the budget applies. Null: all agents."""
    key_id: str | None
    """ID of the API key to whose runs the budget applies. Null: all API keys."""
    period: BudgetPeriod
    """Period after which the budget starts again at zero: a `minute`, a `day` or a `month` in
    UTC."""
    limit_usd: float | None
    """Maximum cost of model requests in each period, in US dollars. Null for budgets of tokens, as
    are all amounts in US dollars."""
    limit_tokens: int | None
    """Maximum number of input and output tokens of model requests in each period. Null for budgets
    of the cost, as are all numbers of tokens."""
    on_limit: Annotated[BudgetAction, Field(description=_ON_LIMIT)]
    spent_usd: float | None
    """Cost of the model responses of this period, in US dollars."""
    spent_tokens: int | None
    """Tokens of the model requests and responses of this period."""
    reserved_usd: float | None
    """Estimated cost of the model requests that are in flight, in US dollars."""
    reserved_tokens: int | None
    """Estimated tokens of the model requests that are in flight."""
    period_start: datetime
    """Start of the current period."""
    period_end: datetime
    """End of the current period."""
    created_at: datetime
    """When the budget was created."""
    updated_at: datetime
    """When the budget was last updated."""

    @classmethod
    def from_row(cls, row: StoredBudget) -> Self:
        amounts: dict[str, float | None] = {}
        for name in ("limit", "spent", "reserved"):
            amount: float = getattr(row, name)
            in_tokens = row.unit is BudgetUnit.TOKENS
            amounts[f"{name}_usd"] = None if in_tokens else round(amount, 9)
            amounts[f"{name}_tokens"] = int(amount) if in_tokens else None
        return cls.from_attributes(
            row,
            id=format_id(Prefix.BUDGET, row.id),
            key_id=format_optional_id(Prefix.KEY, row.key_id),
            **amounts,
        )


@routes.post("/budgets", status_code=201, response_model=Budget)
async def create_budget(
    principal: Admin,
    storage: StorageDep,
    registry: RegistryDep,
    request_key: RequestKey,
    audit: AuditDep,
    budget: CreateBudget,
) -> Response:
    """Create a budget. It counts model requests that are sent after it was created. If it limits
    the cost, the models of its runs need known prices."""

    async def create(tx: Tx) -> Budget:
        if await budgets.count_budgets(tx, principal.project_id) >= MAX_BUDGETS:
            raise e.ConflictError(
                f"A project can have at most {MAX_BUDGETS} budgets. Delete one first."
            )
        fields = budget.to_fields()
        if budget.key_id is not None:
            key_id = parse_id(Prefix.KEY, budget.key_id)
            if key_id is None or not await keys.get_key(tx, principal.project_id, KeyId(key_id)):
                wrong = FieldError("key_id", "is not an API key of this project")
                raise e.InvalidRequestError(errors=[wrong])
            fields["key_id"] = key_id
        created = Budget.from_row(await budgets.add_budget(tx, principal.project_id, fields))
        await audit.record(tx, AuditAction.BUDGET_CREATED, created.id, after=created)
        return created

    made = await respond_once(
        storage, request_key, create, status=201, collection_path="/v1/budgets"
    )
    registry.forget_policy(principal.project_id)
    return made


@routes.get("/budgets")
async def list_budgets(
    principal: Admin, storage: StorageDep, pagination: Pagination
) -> Page[Budget]:
    """List budgets, with their costs in the current period."""
    window = pagination.by_id(Prefix.BUDGET)
    async with storage.connect() as tx:
        found = await budgets.list_budgets(tx, principal.project_id, **window)
    return pagination.page(found, Budget.from_row, lambda one: one.id)


@routes.get("/budgets/{budget_id}")
async def get_budget(principal: Admin, storage: StorageDep, budget_id: BudgetPath) -> Budget:
    """Get a budget, with its cost in the current period."""
    async with storage.connect() as tx:
        found = await budgets.get_budget(tx, principal.project_id, budget_id)
    if found is None:
        raise not_found.BudgetNotFoundError
    return Budget.from_row(found)


@routes.patch("/budgets/{budget_id}")
async def update_budget(
    principal: Admin,
    storage: StorageDep,
    audit: AuditDep,
    budget_id: BudgetPath,
    patch: UpdateBudget,
) -> Budget:
    """Update a budget. Runs that wait for the budget continue if it has room for their
    next requests."""
    async with storage.begin() as tx:
        former = await budgets.get_budget(tx, principal.project_id, budget_id, lock=True)
        if former is None:
            raise not_found.BudgetNotFoundError
        changes = _select_changes(patch, former)
        found = await budgets.update_budget(tx, principal.project_id, budget_id, changes)
        if found is None:
            raise not_found.BudgetNotFoundError
        before, after = Budget.from_row(former), Budget.from_row(found)
        await audit.record(tx, AuditAction.BUDGET_UPDATED, after.id, before=before, after=after)
    return after


def _select_changes(patch: UpdateBudget, budget: StoredBudget) -> dict[str, Any]:
    """Return the new values of the columns. Raises InvalidRequestError."""
    changes = patch.model_dump(exclude_none=True)
    in_tokens = budget.unit is BudgetUnit.TOKENS
    limit, other = "limit_usd", "limit_tokens"
    if in_tokens:
        limit, other = other, limit
    errors: list[FieldError] = []
    if other in changes:
        errors.append(FieldError(other, f"is the wrong limit for this budget. Set {limit}"))
    if patch.on_limit is BudgetAction.ASK and budget.period is BudgetPeriod.MINUTE:
        errors.append(FieldError("on_limit", "must be wait, because the period is a minute"))
    if errors:
        raise e.InvalidRequestError(errors=errors)
    if limit in changes:
        changes["limit_usd"] = changes.pop(limit)
    return changes


@routes.delete("/budgets/{budget_id}", status_code=204)
async def delete_budget(
    principal: Admin,
    storage: StorageDep,
    registry: RegistryDep,
    audit: AuditDep,
    budget_id: BudgetPath,
) -> None:
    """Delete a budget. Runs that wait for it continue."""
    async with storage.begin() as tx:
        former = await budgets.get_budget(tx, principal.project_id, budget_id, lock=True)
        if former is None:
            raise not_found.BudgetNotFoundError
        await budgets.delete_budget(tx, principal.project_id, budget_id)
        before = Budget.from_row(former)
        await audit.record(tx, AuditAction.BUDGET_DELETED, before.id, before=before)
    registry.forget_policy(principal.project_id)
