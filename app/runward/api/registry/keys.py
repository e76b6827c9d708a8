"""/v1/keys and /v1/projects."""

from fastapi import Response

from runward.api.http.audit import Audit, AuditDep
from runward.api.http.auth import Admin, Operator
from runward.api.http.dependencies import RegistryDep, StorageDep
from runward.api.http.idempotency import IdempotentRequest, RequestKey, respond_once
from runward.api.http.paging import Page, Pagination
from runward.api.http.params import KeyPath, ProjectPath
from runward.api.http.routes import make_router
from runward.api.registry.key_models import (
    CreateKey,
    CreateProject,
    Key,
    NewKey,
    Project,
)
from runward.domain import errors as e
from runward.domain import not_found
from runward.domain.audit import AuditAction
from runward.domain.ids import Prefix, ProjectId
from runward.domain.registry.scopes import Principal
from runward.services import Storage
from runward.store.access import keys
from runward.store.postgres.db import Tx
from runward.store.registry import plugin_sync
from runward.tools import signing

routes = make_router("Keys")
projects = make_router("Projects")


@routes.post("/keys", status_code=201, response_model=NewKey)
async def create_key(
    principal: Admin,
    storage: StorageDep,
    request_key: RequestKey,
    audit: AuditDep,
    key: CreateKey,
) -> Response:
    """Create an API key for this project. The response contains the key itself, which Runward
    returns only once."""
    return await _create_key(
        storage,
        principal,
        request_key,
        audit,
        principal.project_id,
        key,
        collection_path="/v1/keys",
    )


@routes.get("/keys")
async def list_keys(principal: Admin, storage: StorageDep, pagination: Pagination) -> Page[Key]:
    """List the API keys of this project, without their secrets."""
    async with storage.connect() as tx:
        found = await keys.list_keys(tx, principal.project_id, **pagination.by_id(Prefix.KEY))
    return pagination.page(found, Key.from_row, lambda key: key.id)


@routes.get("/keys/{key_id}")
async def get_key(principal: Admin, storage: StorageDep, key_id: KeyPath) -> Key:
    """Get an API key, without its secret."""
    async with storage.connect() as tx:
        found = await keys.get_key(tx, principal.project_id, key_id)
    if found is None:
        raise not_found.KeyNotFoundError
    return Key.from_row(found)


@routes.delete("/keys/{key_id}")
async def revoke_key(
    principal: Admin, storage: StorageDep, audit: AuditDep, key_id: KeyPath
) -> Key:
    """Revoke an API key. The key stops working within five seconds in all processes."""
    async with storage.begin() as tx:
        former = await keys.get_key(tx, principal.project_id, key_id, lock=True)
        found = await keys.revoke_key(tx, principal.project_id, key_id)
        if former is None or found is None:
            raise not_found.KeyNotFoundError
        before, after = Key.from_row(former), Key.from_row(found)
        if before.revoked_at is None:
            await audit.record(tx, AuditAction.KEY_REVOKED, after.id, before=before, after=after)
    return after


@projects.post("/projects", status_code=201, response_model=Project)
async def create_project(
    principal: Operator,
    storage: StorageDep,
    registry: RegistryDep,
    request_key: RequestKey,
    audit: AuditDep,
    project: CreateProject,
) -> Response:
    """Create a project. The project has its own tools, runs, and API keys."""

    async def create(tx: Tx) -> Project:
        made = await keys.add_project(tx, project.name)
        plugins = registry.plugins
        specs = plugins.specs
        await plugin_sync.sync_plugins(tx, storage.vault, specs, signing.make_secret, made.id)
        created = Project.from_row(made)
        await audit.record(tx, AuditAction.PROJECT_CREATED, created.id, after=created)
        return created

    return await respond_once(storage, request_key, create, status=201)


@projects.get("/projects")
async def list_projects(
    principal: Operator, storage: StorageDep, pagination: Pagination
) -> Page[Project]:
    """List all projects of the deployment."""
    async with storage.connect() as tx:
        found = await keys.list_projects(tx, **pagination.by_id(Prefix.PROJECT))
    return pagination.page(found, Project.from_row, lambda one: one.id)


@projects.post(
    "/projects/{project_id}/keys",
    status_code=201,
    response_model=NewKey,
    summary="Create an API key for a project",
)
async def create_project_key(
    principal: Operator,
    storage: StorageDep,
    request_key: RequestKey,
    audit: AuditDep,
    project_id: ProjectPath,
    key: CreateKey,
) -> Response:
    """Create an API key for any project. For example, create the first key of a new project."""
    return await _create_key(storage, principal, request_key, audit, project_id, key)


async def _create_key(
    storage: Storage,
    principal: Principal,
    request_key: IdempotentRequest,
    audit: Audit,
    project_id: ProjectId,
    body: CreateKey,
    *,
    collection_path: str | None = None,
) -> Response:
    """Create a key. Raises InsufficientScopeError if the principal lacks one of the scopes."""
    if missing := [scope for scope in body.scopes if scope not in principal.scopes]:
        raise e.InsufficientScopeError(
            missing, "This API key cannot grant scopes that it does not have"
        )
    secret = keys.make_secret()

    async def create(tx: Tx) -> NewKey:
        if await keys.get_project(tx, project_id) is None:
            raise not_found.ProjectNotFoundError
        made = await keys.add_key(
            tx,
            storage.vault,
            project_id,
            name=body.name,
            scopes=tuple(str(scope) for scope in body.scopes),
            secret=secret,
            expires_at=body.expires_at,
        )
        shown = Key.from_row(made)
        await audit.record(
            tx, AuditAction.KEY_CREATED, shown.id, after=shown, project_id=project_id
        )
        return NewKey.from_row(made, key=secret)

    return await respond_once(
        storage, request_key, create, status=201, collection_path=collection_path
    )
