"""/v1/tools: register, list, update, test and delete tools."""

import time
from typing import Final

from fastapi import Response

from runward.api.http.audit import Audit, AuditDep
from runward.api.http.auth import ToolsReader, ToolsWriter
from runward.api.http.dependencies import AccessDep, RegistryDep, StorageDep
from runward.api.http.idempotency import RequestKey, respond_once
from runward.api.http.paging import NamePagination, Page
from runward.api.http.params import ToolPath
from runward.api.http.routes import make_router
from runward.api.registry.function_tools import ToolDefinition
from runward.api.registry.tool_checks import find_tool_errors
from runward.api.registry.tool_models import (
    NewTool,
    TestTool,
    Tool,
    ToolSecret,
    ToolTestResult,
    UpdateTool,
    apply_patch,
    dump_overrides,
)
from runward.domain import errors as e
from runward.domain import not_found
from runward.domain.audit import AuditAction
from runward.domain.errors import FieldError
from runward.domain.ids import CallId, RunId
from runward.domain.registry.scopes import Principal
from runward.domain.registry.tools import ToolSpec, is_reserved
from runward.domain.run.bounds import bounded_outcome
from runward.domain.run.tools import CompiledTool
from runward.services import Access, Registry, Storage
from runward.store.postgres.db import Tx, mint
from runward.store.registry import mcp_servers, plugin_sync, tool_registry
from runward.store.registry.tool_registry import RegisteredTool
from runward.tools import signing
from runward.tools.base import Invocation

routes = make_router("Tools")

MAX_ROUNDS: Final = 20
"""Maximum number of times that an update is repeated because another client changed the tool."""
_UNTESTABLE_TYPES: Final = {
    "agent": "is of type agent and cannot be tested; start a run of its agent instead",
    "client": "is of type client and cannot be tested, because only the client can run it",
    "hosted": (
        "is of type hosted and cannot be tested, because only the model's provider can run it"
    ),
}


@routes.post("/tools", status_code=201, response_model=NewTool)
async def register_tool(
    principal: ToolsWriter,
    storage: StorageDep,
    registry: RegistryDep,
    request_key: RequestKey,
    audit: AuditDep,
    tool: ToolDefinition,
) -> Response:
    """Register a tool, in Runward's format or in one of OpenAI's. The response contains the tool's
    signing secret, which Runward returns only once."""
    spec = tool.to_spec()
    errors = await find_tool_errors(registry, principal.project_id, spec)
    if is_reserved(spec.name):
        errors.append(FieldError("name", "is reserved for a built-in tool"))
    if errors:
        located = [FieldError(tool.locate(one.path), one.message) for one in errors]
        raise e.InvalidRequestError(errors=located)
    secret = signing.make_secret()

    async def register(tx: Tx) -> NewTool:
        made = await tool_registry.add_tool(tx, storage.vault, principal.project_id, spec, secret)
        if made is None:
            raise e.AlreadyExistsError(
                f"A tool named '{spec.name}' already exists. Use PATCH to update it."
            )
        await audit.record(tx, AuditAction.TOOL_CREATED, spec.name, after=Tool.from_row(made))
        return NewTool.from_row(made, secret=secret)

    headers = {"Location": f"/v1/tools/{spec.name}"}
    shown = await respond_once(storage, request_key, register, status=201, headers=headers)
    registry.forget_tools(principal.project_id)
    return shown


@routes.get("/tools")
async def list_tools(
    principal: ToolsReader, storage: StorageDep, pagination: NamePagination
) -> Page[Tool]:
    """List tools, ordered by name."""
    async with storage.connect() as tx:
        found = await tool_registry.list_tools(tx, principal.project_id, **pagination.by_name)
    return pagination.page(found, Tool.from_row, lambda tool: tool.name)


@routes.get("/tools/{name}")
async def get_tool(principal: ToolsReader, storage: StorageDep, name: ToolPath) -> Tool:
    """Get the current version of a tool."""
    async with storage.connect() as tx:
        found = await tool_registry.get_tool(tx, principal.project_id, name)
    if found is None:
        raise not_found.ToolNotFoundError
    return Tool.from_row(found)


@routes.patch("/tools/{name}")
async def update_tool(
    principal: ToolsWriter,
    storage: StorageDep,
    registry: RegistryDep,
    audit: AuditDep,
    name: ToolPath,
    patch: UpdateTool,
) -> Tool:
    """Update a tool. The update creates a new version. Runward closes the pending approvals of the
    previous version and creates new ones."""
    for _ in range(MAX_ROUNDS):
        async with storage.connect() as tx:
            before = await tool_registry.get_tool(tx, principal.project_id, name)
        if before is None:
            raise not_found.ToolNotFoundError
        changed = await _apply_change(storage, registry, principal, audit, before, patch)
        if changed is not None:
            registry.forget_tools(principal.project_id)
            return Tool.from_row(changed)
    raise e.ConflictError(f"Other requests are updating tool '{name}'. Retry the request.")


async def _apply_change(
    storage: Storage,
    registry: Registry,
    principal: Principal,
    audit: Audit,
    before: RegisteredTool,
    patch: UpdateTool,
) -> RegisteredTool | None:
    """Store the update. None: another client changed the tool after `before` was read, so the check
    must be repeated."""
    if errors := patch.find_errors(before.spec):
        raise e.InvalidRequestError(errors=errors)
    code = await _get_code_spec(storage, registry, principal, before.spec, patch)
    spec = apply_patch(before.spec, patch, code)
    if errors := await find_tool_errors(registry, principal.project_id, spec):
        raise e.InvalidRequestError(errors=errors)
    async with storage.begin() as tx:
        former = await tool_registry.lock_tool(tx, principal.project_id, before.spec.name)
        if former is None or (former.id, former.version) != (before.id, before.version):
            return None
        if code is None:
            changed = await tool_registry.update_tool(
                tx, storage.vault, principal.project_id, former, spec
            )
        else:
            changed = await plugin_sync.override_settings(
                tx, principal.project_id, code, dump_overrides(patch)
            )
        assert changed is not None  # it is locked
        shown = Tool.from_row(former), Tool.from_row(changed)
        await audit.record(tx, AuditAction.TOOL_UPDATED, spec.name, before=shown[0], after=shown[1])
        return changed


@routes.delete("/tools/{name}", status_code=204)
async def delete_tool(
    principal: ToolsWriter,
    storage: StorageDep,
    registry: RegistryDep,
    audit: AuditDep,
    name: ToolPath,
) -> None:
    """Delete a tool. Runs that use the tool no longer see it. Tools of plugins and MCP servers
    cannot be deleted, only disabled."""
    async with storage.begin() as tx:
        found = await tool_registry.lock_tool(tx, principal.project_id, name)
        if found is None:
            raise not_found.ToolNotFoundError
        if found.spec.type in ("plugin", "mcp"):
            whence = "a plugin" if found.spec.type == "plugin" else "an MCP server"
            raise e.ConflictError(
                f"Tool '{name}' comes from {whence} and cannot be deleted. To "
                'disable the tool, send PATCH with {"enabled": false}.'
            )
        await tool_registry.delete_tool(tx, principal.project_id, name)
        await audit.record(tx, AuditAction.TOOL_DELETED, name, before=Tool.from_row(found))
    registry.forget_tools(principal.project_id)


@routes.post(
    "/tools/{name}/rotate_secret",
    response_model=ToolSecret,
    summary="Rotate a tool's signing secret",
)
async def rotate_tool_secret(
    principal: ToolsWriter,
    storage: StorageDep,
    registry: RegistryDep,
    request_key: RequestKey,
    audit: AuditDep,
    name: ToolPath,
) -> Response:
    """Create a new signing secret for a tool. For 24 hours, Runward signs calls with the new secret
    and with the previous one."""
    secret = signing.make_secret()

    async def rotate(tx: Tx) -> ToolSecret:
        if not await tool_registry.rotate_secret(
            tx, storage.vault, principal.project_id, name, secret
        ):
            raise not_found.ToolNotFoundError
        await audit.record(tx, AuditAction.TOOL_SECRET_ROTATED, name)
        return ToolSecret(secret=secret)

    shown = await respond_once(storage, request_key, rotate)
    registry.forget_tools(principal.project_id)
    return shown


async def _get_code_spec(
    storage: Storage, registry: Registry, principal: Principal, spec: ToolSpec, patch: UpdateTool
) -> ToolSpec | None:
    """Return the specification by the plugin's code or the MCP server. If the plugin is not loaded
    and no value must be restored, return the stored one. None: the project defines the tool."""
    if spec.mcp is not None:
        async with storage.connect() as tx:
            server = await mcp_servers.get_server(tx, principal.project_id, spec.mcp.server)
        return mcp_servers.find_listed_spec(server, spec)
    if spec.type != "plugin":
        return None
    code = registry.get_plugin_spec(spec.name)
    if code is None and any(getattr(patch, name) is None for name in patch.model_fields_set):
        raise e.ConflictError(
            f"The plugin of tool '{spec.name}' is not loaded in this API process. Install the "
            "plugin, or add it to RUNWARD_PLUGINS."
        )
    return code or spec


@routes.post("/tools/{name}/test")
async def test_tool(
    principal: ToolsWriter,
    storage: StorageDep,
    registry: RegistryDep,
    access: AccessDep,
    name: ToolPath,
    trial: TestTool,
) -> ToolTestResult:
    """Call a tool once, outside of any run. Runward requires no approval, does not retry, and
    records nothing. The arguments must match the tool's schema. Tools of the types `agent`,
    `client`, and `hosted` cannot be tested this way."""
    async with storage.connect() as tx:
        versions = await tool_registry.read_current_versions(tx, principal.project_id, [name])
    if name not in versions:
        raise not_found.ToolNotFoundError
    tools = await registry.fetch_tools(principal.project_id, versions.items())
    armed = tools.get(name, versions[name])
    if (message := _UNTESTABLE_TYPES.get(armed.tool.spec.type)) is not None:
        raise e.InvalidRequestError(errors=[FieldError("path.name", message)])
    if problems := armed.tool.arguments.problems(trial.arguments):
        raise e.InvalidRequestError(errors=problems)
    executors = registry.executors
    executor = executors.get(armed.tool.spec.type)
    if executor is None:
        message = f"is of type {armed.tool.spec.type}, which this API process cannot run"
        raise e.InvalidRequestError(errors=[FieldError("path.name", message)])
    started = time.monotonic()
    call = _make_invocation(principal, armed.tool, trial, registry, access, secrets=armed.secrets)
    outcome = bounded_outcome(await executor.invoke(call))
    return ToolTestResult.from_outcome(outcome, seconds=time.monotonic() - started)


def _make_invocation(
    principal: Principal,
    tool: CompiledTool,
    trial: TestTool,
    registry: Registry,
    access: Access,
    secrets: tuple[str, ...],
) -> Invocation:
    return Invocation(
        project_id=principal.project_id,
        run_id=RunId(mint()),
        call_id=CallId("test"),
        call_uuid=mint(),
        tool=tool.spec,
        tool_version=tool.version,
        agent=None,
        arguments=tool.arguments.without_nulls(trial.arguments),
        context=trial.context,
        attempt=1,
        fence=0,
        seconds=tool.spec.timeout_seconds or registry.tool_seconds,
        callback_url=f"{access.public_url}/v1/callbacks/test",
        callback_token="test",  # noqa: S106  # leads nowhere
        secrets=secrets,
    )
