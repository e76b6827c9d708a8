"""/v1/secrets: what a project keeps encrypted and refers to by name."""

from fastapi import Response

from runward.api.http.answers import json_response, no_content
from runward.api.http.auth import ToolsReader, ToolsWriter
from runward.api.http.paging import Page, Pagination
from runward.api.http.params import NewSecretPath, SecretPath
from runward.api.http.routes import make_router
from runward.api.http.services import ServicesDep
from runward.api.registry.secret_models import PutSecret, Secret
from runward.domain import errors as e
from runward.store.access import secrets
from runward.store.access.secrets import StoredSecret

routes = make_router("Secrets")


@routes.put(
    "/secrets/{name}",
    status_code=201,
    response_model=Secret,
    responses={200: {"model": Secret, "description": "There was one: it has this value now."}},
)
async def put_secret(
    principal: ToolsWriter, services: ServicesDep, name: NewSecretPath, secret: PutSecret
) -> Response:
    """Make a secret, or give it another value. What refers to it uses the new value from now on."""
    async with services.database.pool.begin() as tx:
        stored = await secrets.put_secret(
            tx, services.vault, principal.project_id, name, secret.value
        )
    services.mcp.forget(principal.project_id)
    services.engine.models.forget(principal.project_id)
    if stored.version > 1:
        return json_response(_render_secret(stored))
    return json_response(_render_secret(stored), 201, {"Location": f"/v1/secrets/{name}"})


@routes.get("/secrets", response_model=Page[Secret])
async def list_secrets(
    principal: ToolsReader, services: ServicesDep, pagination: Pagination
) -> Response:
    """List secrets by name, without their values."""
    async with services.autocommit.connect() as tx:
        found = await secrets.list_secrets(
            tx,
            principal.project_id,
            after=pagination.after,
            limit=pagination.limit + 1,
            descending=pagination.descending,
        )
    return json_response(
        Page[Secret].from_rows(found, pagination.limit, _render_secret, lambda secret: secret.name)
    )


@routes.get("/secrets/{name}", response_model=Secret)
async def get_secret(principal: ToolsReader, services: ServicesDep, name: SecretPath) -> Response:
    """One secret, without its value."""
    async with services.autocommit.connect() as tx:
        found = await secrets.get_secret(tx, principal.project_id, name)
    if found is None:
        raise e.SecretNotFoundError
    return json_response(_render_secret(found))


@routes.delete("/secrets/{name}", status_code=204)
async def delete_secret(
    principal: ToolsWriter, services: ServicesDep, name: SecretPath
) -> Response:
    """Delete a secret. What refers to it fails from now on, and says which secret is missing."""
    async with services.database.pool.begin() as tx:
        if not await secrets.delete_secret(tx, principal.project_id, name):
            raise e.SecretNotFoundError
    services.mcp.forget(principal.project_id)
    services.engine.models.forget(principal.project_id)
    return no_content()


def _render_secret(secret: StoredSecret) -> Secret:
    return Secret(
        name=secret.name,
        version=secret.version,
        created_at=secret.created_at,
        updated_at=secret.updated_at,
    )
