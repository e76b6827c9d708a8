"""/v1/mcp_servers: register, list, change, refresh, delete."""

from typing import Any, Final
from urllib.parse import urlsplit

from fastapi import Request, Response

from app.api import shapes
from app.api.answers import answer, nothing
from app.api.auth import ToolsReader, ToolsWriter
from app.api.idempotency import Once, once, was_answered
from app.api.models.mcp_servers import McpServer, PatchMcpServer, RegisterMcpServer
from app.api.paging import Page, Walking
from app.api.params import IdempotencyKey, McpServerPath
from app.api.routes import router
from app.api.services import Using
from app.domain import errors as e
from app.domain.errors import FieldError
from app.domain.ids import ProjectId
from app.domain.mcp_servers import ListedTool, McpServerSpec
from app.domain.rules import RuleError, compile_rule
from app.domain.tools import When
from app.egress.targets import TargetError
from app.store import mcp_servers
from app.store.db import Tx
from app.store.ids import mint
from app.store.mcp_servers import RegisteredServer
from app.tools import signing
from app.tools.mcp_link import Server
from app.tools.webhook_headers import check_headers
from app.wiring import Services

routes = router("MCP servers")

_UNREACHABLE: Final[dict[int | str, dict[str, Any]]] = {424: {}}
_RESERVED_PREFIX: Final = "mcp-"
_RESERVED: Final = frozenset({"accept", "last-event-id"})


@routes.post("/mcp_servers", status_code=201, response_model=McpServer, responses=_UNREACHABLE)
async def register_mcp_server(
    who: ToolsWriter,
    services: Using,
    request: Request,
    server: RegisterMcpServer,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Register an MCP server. It is connected to at once, and its tools become tools of the
    project; if it cannot be reached, nothing is stored."""
    spec, secret_headers = server.spec(), dict(server.secret_headers)
    await _check(services, spec, secret_headers)
    what = Once.of(request, who.project_id, idempotency_key)
    listed: tuple[ListedTool, ...] = ()
    if not await was_answered(services, what):
        listed = await _list(services, who.project_id, spec, secret_headers)

    async def register(tx: Tx) -> McpServer:
        sealed = mcp_servers.seal(services.vault, who.project_id, spec.name, secret_headers)
        made = await mcp_servers.add_server(tx, who.project_id, spec, sealed, listed)
        await mcp_servers.sync_tools(tx, services.vault, made, signing.make_secret)
        return _shown(services, made)

    headers = {"Location": f"/v1/mcp_servers/{spec.name}"}
    shown = await once(services, what, register, status=201, headers=headers)
    _forget(services, who.project_id)
    return shown


@routes.get("/mcp_servers", response_model=Page[McpServer])
async def list_mcp_servers(who: ToolsReader, services: Using, walk: Walking) -> Response:
    """List MCP servers by name."""
    async with services.autocommit.connect() as tx:
        found = await mcp_servers.list_servers(
            tx, who.project_id, after=walk.after, limit=walk.limit + 1, descending=walk.descending
        )
    page = Page[McpServer].of(
        found, walk.limit, lambda one: _shown(services, one), lambda server: server.name
    )
    return answer(page)


@routes.get("/mcp_servers/{name}", response_model=McpServer)
async def get_mcp_server(who: ToolsReader, services: Using, name: McpServerPath) -> Response:
    """One MCP server, and the names of its tools."""
    return answer(_shown(services, await _found(services, who.project_id, name)))


@routes.patch("/mcp_servers/{name}", response_model=McpServer, responses=_UNREACHABLE)
async def change_mcp_server(
    who: ToolsWriter, services: Using, name: McpServerPath, patch: PatchMcpServer
) -> Response:
    """Change an MCP server. It is connected to at once, as it would be then; if it cannot be
    reached, nothing is changed. Tools that this changes get their next version."""
    before = await _found(services, who.project_id, name)
    spec, secret_headers = _patched(services, before, patch)
    await _check(services, spec, secret_headers)
    listed = await _list(services, who.project_id, spec, secret_headers)
    async with services.database.pool.begin() as tx:
        former = await mcp_servers.get_server(tx, who.project_id, name, lock=True)
        if former is None:
            raise e.McpServerNotFoundError
        if (former.id, former.version) != (before.id, before.version):
            raise e.ConflictError(f"MCP server '{name}' was changed meanwhile; look at it again.")
        sealed = mcp_servers.seal(services.vault, who.project_id, name, secret_headers)
        changed = await mcp_servers.change_server(tx, former, spec, sealed, listed)
        await mcp_servers.sync_tools(tx, services.vault, changed, signing.make_secret)
    _forget(services, who.project_id)
    return answer(_shown(services, changed))


@routes.post("/mcp_servers/{name}/refresh", response_model=McpServer, responses=_UNREACHABLE)
async def refresh_mcp_server(
    who: ToolsWriter,
    services: Using,
    request: Request,
    name: McpServerPath,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """List the server's tools now. Those that changed get their next version, those that are gone
    are disabled."""
    before = await _found(services, who.project_id, name)
    what = Once.of(request, who.project_id, idempotency_key)
    listed: tuple[ListedTool, ...] = ()
    if not await was_answered(services, what):
        known = before.secret_headers(services.vault)
        listed = await _list(services, who.project_id, before.spec, known)

    async def refresh(tx: Tx) -> McpServer:
        former = await mcp_servers.get_server(tx, who.project_id, name, lock=True)
        if former is None:
            raise e.McpServerNotFoundError
        made = await mcp_servers.put_list(tx, former, listed)
        await mcp_servers.sync_tools(tx, services.vault, made, signing.make_secret)
        return _shown(services, made)

    shown = await once(services, what, refresh)
    _forget(services, who.project_id)
    return shown


@routes.delete("/mcp_servers/{name}", status_code=204)
async def delete_mcp_server(who: ToolsWriter, services: Using, name: McpServerPath) -> Response:
    """Delete an MCP server and its tools. Runs that name them no longer see them."""
    async with services.database.pool.begin() as tx:
        if not await mcp_servers.delete_server(tx, who.project_id, name):
            raise e.McpServerNotFoundError
    _forget(services, who.project_id)
    return nothing()


async def _found(services: Services, project_id: ProjectId, name: str) -> RegisteredServer:
    async with services.autocommit.connect() as tx:
        found = await mcp_servers.get_server(tx, project_id, name)
    if found is None:
        raise e.McpServerNotFoundError
    return found


def _patched(
    services: Services, before: RegisteredServer, patch: PatchMcpServer
) -> tuple[McpServerSpec, dict[str, str]]:
    """Secrets are for whom they were given for: another origin does not get them. Raises
    InvalidRequestError."""
    nullable = {"url", "command", "prefix", "approval", "timeout_seconds"}
    nulls = {name for name in patch.model_fields_set if getattr(patch, name) is None} - nullable
    if nulls:
        raise e.InvalidRequestError(
            errors=[FieldError(name, "must not be null") for name in sorted(nulls)]
        )
    spec = patch.applied_to(before.spec)
    given: Any = getattr(patch, "secret_headers", None)
    if given is not None:
        return spec, dict(given)
    known = before.secret_headers(services.vault)
    if known and _origin(spec.url) != _origin(before.spec.url):
        message = "must be given again (or as {}) together with another url"
        raise e.InvalidRequestError(errors=[FieldError("secret_headers", message)])
    return spec, known


def _origin(url: str | None) -> tuple[str, str] | None:
    parts = urlsplit(url or "")
    return (parts.scheme, parts.netloc) if url else None


async def _check(services: Services, spec: McpServerSpec, secret_headers: dict[str, str]) -> None:
    """Raises InvalidRequestError that names every path."""
    errors: list[FieldError] = []
    if "mcp" not in services.engine.executors:
        raise e.InvalidRequestError(
            errors=[FieldError("name", "MCP is not installed with this service: the extra `mcp`")]
        )
    if (spec.url is None) == (spec.command is None):
        errors.append(FieldError("url", "is needed, or a command; never both"))
    elif spec.url is not None:
        errors += await _http_problems(services, spec, secret_headers)
    else:
        errors += _command_problems(services, spec, secret_headers)
    if isinstance(spec.approval, When):
        try:
            compile_rule(spec.approval.when)
        except RuleError as error:
            errors.append(FieldError("approval.when", str(error)))
    if errors:
        raise e.InvalidRequestError(errors=errors)


async def _http_problems(
    services: Services, spec: McpServerSpec, secret_headers: dict[str, str]
) -> list[FieldError]:
    assert spec.url is not None
    errors: list[FieldError] = []
    try:
        await services.egress.check_target(spec.url)
    except TargetError as error:
        errors.append(FieldError("url", str(error)))
    if spec.args:
        errors.append(FieldError("args", "are for a command"))
    for at, headers in (("headers", spec.headers), ("secret_headers", secret_headers)):
        errors += check_headers(headers, at=at)
        for name in headers:
            if name.lower() in _RESERVED or name.lower().startswith(_RESERVED_PREFIX):
                errors.append(FieldError(f"{at}.{name[:128]}", "belongs to the protocol"))
    for name in {one.lower() for one in spec.headers} & {one.lower() for one in secret_headers}:
        errors.append(FieldError(f"secret_headers.{name[:128]}", "is among the headers too"))
    return errors


def _command_problems(
    services: Services, spec: McpServerSpec, secret_headers: dict[str, str]
) -> list[FieldError]:
    errors = [
        FieldError(at, "are for a server with a url; a command gets none")
        for at, headers in (("headers", spec.headers), ("secret_headers", secret_headers))
        if headers
    ]
    if (refusal := services.mcp.refusal(spec)) is not None:
        errors.append(FieldError("command", refusal))
    return errors


async def _list(
    services: Services, project_id: ProjectId, spec: McpServerSpec, secret_headers: dict[str, str]
) -> tuple[ListedTool, ...]:
    """Raises McpUnreachableError."""
    server = Server(project_id, mint(), 0, spec, secret_headers)
    return await services.mcp.list_tools(server)


def _shown(services: Services, one: RegisteredServer) -> McpServer:
    return shapes.mcp_server(one, one.secret_headers(services.vault))


def _forget(services: Services, project_id: ProjectId) -> None:
    services.toolbox.forget(project_id)
    services.mcp.forget(project_id)
