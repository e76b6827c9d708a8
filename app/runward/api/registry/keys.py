"""/v1/keys and /v1/projects."""

from fastapi import Request, Response

from runward.api.http.answers import answer
from runward.api.http.auth import Admin, Operator
from runward.api.http.idempotency import IdempotentRequest, answer_once
from runward.api.http.paging import Page, Walking
from runward.api.http.params import IdempotencyKey, KeyPath, ProjectPath
from runward.api.http.routes import router
from runward.api.http.services import Using
from runward.api.registry import render
from runward.api.registry.key_models import CreateKey, CreateProject, Key, NewKey, Project
from runward.domain import errors as e
from runward.domain.ids import Prefix, ProjectId
from runward.domain.registry.scopes import Principal
from runward.store.access import keys
from runward.store.postgres.db import Tx
from runward.store.registry import plugin_sync
from runward.tools import signing
from runward.wiring import Services

routes = router("Keys")
projects = router("Projects")


@routes.post("/keys", status_code=201, response_model=NewKey)
async def create_key(
    principal: Admin,
    services: Using,
    request: Request,
    key: CreateKey,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Make a key of this project. The answer has the key itself, this once."""
    what = IdempotentRequest.of(request, principal.project_id, idempotency_key)
    return await _made(services, principal, what, principal.project_id, key, under="/v1/keys")


@routes.get("/keys", response_model=Page[Key])
async def list_keys(principal: Admin, services: Using, walk: Walking) -> Response:
    """List this project's keys, without their secrets."""
    async with services.autocommit.connect() as tx:
        found = await keys.list_keys(
            tx,
            principal.project_id,
            after=walk.after_id(Prefix.KEY),
            limit=walk.limit + 1,
            descending=walk.descending,
        )
    return answer(Page[Key].of(found, walk.limit, render.key, lambda key: key.id))


@routes.get("/keys/{key_id}", response_model=Key)
async def get_key(principal: Admin, services: Using, key_id: KeyPath) -> Response:
    """One key, without its secret."""
    async with services.autocommit.connect() as tx:
        found = await keys.get_key(tx, principal.project_id, key_id)
    if found is None:
        raise e.KeyNotFoundError
    return answer(render.key(found))


@routes.delete("/keys/{key_id}", response_model=Key)
async def revoke_key(principal: Admin, services: Using, key_id: KeyPath) -> Response:
    """Revoke a key. It stops working within five seconds, everywhere."""
    async with services.database.pool.begin() as tx:
        found = await keys.revoke_key(tx, principal.project_id, key_id)
    if found is None:
        raise e.KeyNotFoundError
    return answer(render.key(found))


@projects.post("/projects", status_code=201, response_model=Project)
async def create_project(
    principal: Operator,
    services: Using,
    request: Request,
    project: CreateProject,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Make a project: tools, runs and keys of its own."""

    async def create(tx: Tx) -> Project:
        made = await keys.add_project(tx, project.name)
        specs = services.plugins.specs
        await plugin_sync.sync_plugins(tx, services.vault, specs, signing.make_secret, made.id)
        return render.project(made)

    what = IdempotentRequest.of(request, principal.project_id, idempotency_key)
    return await answer_once(services, what, create, status=201)


@projects.get("/projects", response_model=Page[Project])
async def list_projects(principal: Operator, services: Using, walk: Walking) -> Response:
    """List all projects."""
    async with services.autocommit.connect() as tx:
        found = await keys.list_projects(
            tx,
            after=walk.after_id(Prefix.PROJECT),
            limit=walk.limit + 1,
            descending=walk.descending,
        )
    return answer(Page[Project].of(found, walk.limit, render.project, lambda one: one.id))


@projects.post("/projects/{project_id}/keys", status_code=201, response_model=NewKey)
async def create_project_key(
    principal: Operator,
    services: Using,
    request: Request,
    project_id: ProjectPath,
    key: CreateKey,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Make a key of any project, such as its first one."""
    what = IdempotentRequest.of(request, principal.project_id, idempotency_key)
    return await _made(services, principal, what, project_id, key)


async def _made(
    services: Services,
    principal: Principal,
    request_key: IdempotentRequest,
    project_id: ProjectId,
    body: CreateKey,
    *,
    under: str | None = None,
) -> Response:
    """Raises InsufficientScopeError for a scope that `who` does not have."""
    if missing := [scope for scope in body.scopes if scope not in principal.scopes]:
        raise e.InsufficientScopeError(missing, "This key cannot grant scopes that it lacks")
    secret = keys.new_secret()

    async def create(tx: Tx) -> NewKey:
        if await keys.get_project(tx, project_id) is None:
            raise e.ProjectNotFoundError
        made = await keys.add_key(
            tx,
            services.vault,
            project_id,
            name=body.name,
            scopes=tuple(str(scope) for scope in body.scopes),
            secret=secret,
            expires_at=body.expires_at,
        )
        return NewKey(**dict(render.key(made)), key=secret)

    return await answer_once(services, request_key, create, status=201, under=under)
