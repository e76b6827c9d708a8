"""/v1/policy: the hooks and guardrails that stand around every run of the project."""

from fastapi import Request, Response

from runward.api.http.answers import json_response
from runward.api.http.auth import ToolsReader, ToolsWriter
from runward.api.http.idempotency import IdempotentRequest, respond_once
from runward.api.http.params import IdempotencyKey
from runward.api.http.routes import make_router
from runward.api.http.services import ServicesDep
from runward.api.registry.guards import ensure_guards
from runward.api.registry.policy_models import Policy, PolicySecret, PutPolicy
from runward.store.postgres.db import Tx
from runward.store.registry import policies

routes = make_router("Policy")


@routes.get("/policy", response_model=Policy)
async def get_policy(principal: ToolsReader, services: ServicesDep) -> Response:
    """The project's policy as it is now."""
    async with services.autocommit.connect() as tx:
        return json_response(_render_policy(await policies.get_policy(tx, principal.project_id)))


@routes.put("/policy", response_model=Policy)
async def put_policy(principal: ToolsWriter, services: ServicesDep, policy: PutPolicy) -> Response:
    """Replace the policy whole. It holds for every run of the project from its next step on,
    those that are under way too."""
    await ensure_guards(services, policy.guardrails, policy.hooks)
    async with services.database.pool.begin() as tx:
        stored = await policies.put_policy(
            tx, principal.project_id, policy.hooks, policy.guardrails
        )
    services.policies.forget(principal.project_id)
    return json_response(_render_policy(stored))


@routes.post("/policy/rotate_secret", response_model=PolicySecret)
async def rotate_policy_secret(
    principal: ToolsWriter,
    services: ServicesDep,
    request: Request,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Make a new signing secret for the guardrails and hooks of the project and of its agents.
    For 24 hours they are signed with the former one too."""

    async def rotate(tx: Tx) -> PolicySecret:
        generation = await policies.rotate_guard_secret(tx, principal.project_id)
        return PolicySecret(
            secret=services.vault.derive_guard_secret(principal.project_id, generation)
        )

    what = IdempotentRequest.from_request(request, principal.project_id, idempotency_key)
    shown = await respond_once(services, what, rotate)
    services.policies.forget(principal.project_id)
    return shown


def _render_policy(stored: policies.StoredPolicy) -> Policy:
    return Policy(
        hooks=list(stored.hooks),
        guardrails=list(stored.guardrails),
        version=stored.version,
        updated_at=stored.updated_at,
    )
