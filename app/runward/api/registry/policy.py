"""/v1/policy: the hooks and guardrails that stand around every run of the project."""

from datetime import datetime
from typing import Any, Final, Literal

from fastapi import Response

from runward.api.http.auth import ToolsReader, ToolsWriter
from runward.api.http.dependencies import RegistryDep, StorageDep
from runward.api.http.idempotency import RequestKey, respond_once
from runward.api.http.models import EXAMPLE_TIME, RequestModel, ResponseModel, with_example
from runward.api.http.routes import make_router
from runward.api.registry.guards import ensure_guards
from runward.domain.registry.guards import Guardrail, Guardrails, Hook, Hooks
from runward.store.postgres.db import Tx
from runward.store.registry import policies

_POLICY: Final[dict[str, Any]] = {
    "hooks": [
        {"on": "before_model", "type": "webhook", "url": "https://guards.example.com/context"}
    ],
    "guardrails": [
        {"stage": "output", "type": "webhook", "url": "https://guards.example.com/secrets"}
    ],
}


class PutPolicy(RequestModel):
    """The whole policy; what is left out is emptied."""

    model_config = with_example(**_POLICY)

    hooks: Hooks = ()
    """Asked around every model's answer and every tool call, after the agent's own."""
    guardrails: Guardrails = ()
    """Asked around every tool call and every run, after the tool's and the agent's own."""


class Policy(ResponseModel):
    """What is asked around every run of the project."""

    model_config = with_example(object="policy", **_POLICY, version=1, updated_at=EXAMPLE_TIME)

    object: Literal["policy"] = "policy"
    hooks: list[Hook]
    """Asked around every model's answer and every tool call, after the agent's own."""
    guardrails: list[Guardrail]
    """Asked around every tool call and every run, after the tool's and the agent's own."""
    version: int
    """Counts the changes; 0: it was never set."""
    updated_at: datetime | None
    """When it was set last."""


class PolicySecret(ResponseModel):
    """The project's new signing secret for guardrails and hooks; the one before stays valid for a
    while."""

    model_config = with_example(secret="whsec_…")  # noqa: S106  # an example

    secret: str
    """`whsec_…`. Shown this once."""


routes = make_router("Policy")


@routes.get("/policy", summary="Show the policy")
async def get_policy(principal: ToolsReader, storage: StorageDep) -> Policy:
    """The project's policy as it is now."""
    async with storage.read() as tx:
        return Policy.from_attributes(await policies.get_policy(tx, principal.project_id))


@routes.put("/policy", summary="Set the policy")
async def put_policy(
    principal: ToolsWriter, storage: StorageDep, registry: RegistryDep, policy: PutPolicy
) -> Policy:
    """Replace the policy whole. It holds for every run of the project from its next step on,
    those that are under way too."""
    await ensure_guards(registry, policy.guardrails, policy.hooks)
    async with storage.write() as tx:
        stored = await policies.put_policy(
            tx, principal.project_id, policy.hooks, policy.guardrails
        )
    registry.forget_policy(principal.project_id)
    return Policy.from_attributes(stored)


@routes.post(
    "/policy/rotate_secret",
    response_model=PolicySecret,
    summary="Replace the project's signing secret",
)
async def rotate_policy_secret(
    principal: ToolsWriter,
    storage: StorageDep,
    registry: RegistryDep,
    request_key: RequestKey,
) -> Response:
    """Make a new signing secret for the guardrails and hooks of the project and of its agents.
    For 24 hours they are signed with the former one too."""

    vault = storage.vault

    async def rotate(tx: Tx) -> PolicySecret:
        generation = await policies.rotate_guard_secret(tx, principal.project_id)
        return PolicySecret(secret=vault.derive_guard_secret(principal.project_id, generation))

    shown = await respond_once(storage, request_key, rotate)
    registry.forget_policy(principal.project_id)
    return shown
