"""/v1/secrets: encrypted values of a project, which other resources refer to by name."""

from datetime import datetime
from typing import Annotated, Literal

from fastapi import Response
from pydantic import Field

from runward.api.http.audit import AuditDep
from runward.api.http.auth import ToolsReader, ToolsWriter
from runward.api.http.dependencies import RegistryDep, StorageDep
from runward.api.http.models import EXAMPLE_TIME, RequestModel, ResponseModel, with_example
from runward.api.http.paging import NamePagination, Page
from runward.api.http.params import NewSecretPath, SecretPath
from runward.api.http.responses import json_response
from runward.api.http.routes import make_router
from runward.domain import errors as e
from runward.domain import not_found
from runward.domain.audit import AuditAction
from runward.domain.errors import FieldError
from runward.llm.catalog import INVALID_KEY, is_invalid_key
from runward.store.access import secrets


class PutSecret(RequestModel):
    """The value of a secret. Runward encrypts the value, stores it, and never shows it again."""

    model_config = with_example(value="sk-…")

    value: Annotated[str, Field(min_length=1, max_length=16_384)]
    """Value of the secret, from 1 to 16,384 characters."""


class Secret(ResponseModel):
    """A stored secret, without its value."""

    model_config = with_example(
        name="CRM_TOKEN",
        version=2,
        created_at=EXAMPLE_TIME,
        updated_at=EXAMPLE_TIME,
    )

    object: Literal["secret"] = "secret"
    name: str
    """Name of the secret. Unique in the project. Other resources refer to the secret by this
    name."""
    version: int
    """Version of the value. It starts at 1 and grows by 1 with each new value."""
    created_at: datetime
    """When the secret was created."""
    updated_at: datetime
    """When the current value of the secret was set."""


routes = make_router("Secrets")


@routes.put(
    "/secrets/{name}",
    status_code=201,
    response_model=Secret,
    responses={
        200: {"model": Secret, "description": "The secret already existed and has the new value."}
    },
    summary="Set a secret",
)
async def put_secret(
    principal: ToolsWriter,
    storage: StorageDep,
    registry: RegistryDep,
    audit: AuditDep,
    name: NewSecretPath,
    secret: PutSecret,
) -> Response:
    """Create a secret, or replace its value. All references to the secret use the new value from
    now on. Runward refuses a model provider's API key that contains characters other than
    printable ASCII."""
    if is_invalid_key(name, secret.value):
        text = f"{INVALID_KEY}. Copy the key again, without spaces or line breaks around it"
        raise e.InvalidRequestError(errors=[FieldError("value", text)])
    async with storage.begin() as tx:
        former = await secrets.get_secret(tx, principal.project_id, name, lock=True)
        stored = await secrets.put_secret(
            tx, storage.vault, principal.project_id, name, secret.value
        )
        action = AuditAction.SECRET_CREATED if stored.version == 1 else AuditAction.SECRET_UPDATED
        before, after = former and Secret.from_attributes(former), Secret.from_attributes(stored)
        await audit.record(tx, action, name, before=before, after=after)
    registry.forget_mcp_servers(principal.project_id)
    registry.forget_models(principal.project_id)
    if stored.version > 1:
        return json_response(after)
    return json_response(after, 201, {"Location": f"/v1/secrets/{name}"})


@routes.get("/secrets")
async def list_secrets(
    principal: ToolsReader, storage: StorageDep, pagination: NamePagination
) -> Page[Secret]:
    """List secrets, ordered by name, without their values."""
    async with storage.connect() as tx:
        found = await secrets.list_secrets(tx, principal.project_id, **pagination.by_name)
    return pagination.page(found, Secret.from_attributes, lambda secret: secret.name)


@routes.get("/secrets/{name}", summary="Get a secret")
async def get_secret(principal: ToolsReader, storage: StorageDep, name: SecretPath) -> Secret:
    """Get a secret, without its value."""
    async with storage.connect() as tx:
        found = await secrets.get_secret(tx, principal.project_id, name)
    if found is None:
        raise not_found.SecretNotFoundError
    return Secret.from_attributes(found)


@routes.delete("/secrets/{name}", status_code=204)
async def delete_secret(
    principal: ToolsWriter,
    storage: StorageDep,
    registry: RegistryDep,
    audit: AuditDep,
    name: SecretPath,
) -> None:
    """Delete a secret. Calls that refer to the secret then fail. Their error names the missing
    secret."""
    async with storage.begin() as tx:
        former = await secrets.get_secret(tx, principal.project_id, name, lock=True)
        if former is None:
            raise not_found.SecretNotFoundError
        await secrets.delete_secret(tx, principal.project_id, name)
        await audit.record(
            tx, AuditAction.SECRET_DELETED, name, before=Secret.from_attributes(former)
        )
    registry.forget_mcp_servers(principal.project_id)
    registry.forget_models(principal.project_id)
