"""/v1/policy: the hooks and guardrails that apply to every run of the project."""

from datetime import datetime
from typing import Any, Final, Literal

from fastapi import Response

from runward.api.http.audit import AuditDep
from runward.api.http.auth import ToolsReader, ToolsWriter
from runward.api.http.dependencies import RegistryDep, StorageDep
from runward.api.http.idempotency import RequestKey, respond_once
from runward.api.http.models import EXAMPLE_TIME, RequestModel, ResponseModel, with_example
from runward.api.http.routes import make_router
from runward.api.registry.guards import ensure_guards
from runward.domain.audit import AuditAction
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
    """The complete policy of the project. Fields that are left out become empty."""

    model_config = with_example(**_POLICY)

    hooks: Hooks = ()
    """Hooks around every model request and every tool call. Runward calls them after the agent's
    own hooks."""
    guardrails: Guardrails = ()
    """Guardrails for every tool call and every run. Runward calls them after the guardrails of the
    tool and the agent."""


class Policy(ResponseModel):
    """The hooks and guardrails that apply to every run of the project."""

    model_config = with_example(object="policy", **_POLICY, version=1, updated_at=EXAMPLE_TIME)

    object: Literal["policy"] = "policy"
    hooks: list[Hook]
    """Hooks around every model request and every tool call. Runward calls them after the agent's
    own hooks."""
    guardrails: list[Guardrail]
    """Guardrails for every tool call and every run. Runward calls them after the guardrails of the
    tool and the agent."""
    version: int
    """Version of the policy. It grows by 1 with each update. 0 if the policy was never set."""
    updated_at: datetime | None
    """When the policy was last set. Null if it was never set."""


class SigningSecret(ResponseModel):
    """The project's new signing secret for guardrails, hooks and inline tools. The previous secret
    stays valid for 24 hours."""

    model_config = with_example(secret="whsec_…")  # noqa: S106  # an example

    secret: str
    """The new signing secret (`whsec_…`). Runward returns it only once."""


routes = make_router("Policy")


@routes.get("/policy", summary="Get the policy")
async def get_policy(principal: ToolsReader, storage: StorageDep) -> Policy:
    """Get the current policy of the project."""
    async with storage.connect() as tx:
        return Policy.from_attributes(await policies.get_policy(tx, principal.project_id))


@routes.put("/policy", summary="Replace the policy")
async def put_policy(
    principal: ToolsWriter,
    storage: StorageDep,
    registry: RegistryDep,
    audit: AuditDep,
    policy: PutPolicy,
) -> Policy:
    """Replace the complete policy of the project. The new policy applies to every run from its next
    step, including runs that have already started."""
    await ensure_guards(registry, policy.guardrails, policy.hooks)
    async with storage.begin() as tx:
        former = await policies.get_policy(tx, principal.project_id, lock=True)
        stored = await policies.put_policy(
            tx, principal.project_id, policy.hooks, policy.guardrails
        )
        before, after = Policy.from_attributes(former), Policy.from_attributes(stored)
        await audit.record(
            tx, AuditAction.POLICY_UPDATED, audit.project, before=before, after=after
        )
    registry.forget_policy(principal.project_id)
    return after


@routes.post(
    "/signing_secret/rotate",
    response_model=SigningSecret,
    summary="Rotate the project's signing secret",
)
async def rotate_signing_secret(
    principal: ToolsWriter,
    storage: StorageDep,
    registry: RegistryDep,
    request_key: RequestKey,
    audit: AuditDep,
) -> Response:
    """Create a new signing secret for the guardrails and hooks of the project and its agents, and
    for inline tools. For 24 hours, Runward signs requests with the new secret and with the previous
    one."""

    vault = storage.vault

    async def rotate(tx: Tx) -> SigningSecret:
        generation = await policies.rotate_guard_secret(tx, principal.project_id)
        await audit.record(tx, AuditAction.SIGNING_SECRET_ROTATED, audit.project)
        secret, *_ = vault.derive_guard_secrets(principal.project_id, generation)
        return SigningSecret(secret=secret)

    shown = await respond_once(storage, request_key, rotate)
    registry.forget_policy(principal.project_id)
    return shown
