"""Select the tools of a run or an agent: look up MCP servers, and check and seal definitions."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from runward.api.registry.inline_models import (
    InlineDefinition,
    InlineNamespace,
    McpTools,
    ToolEntry,
)
from runward.api.registry.namespaces import find_length_errors
from runward.api.registry.tool_checks import find_tool_errors
from runward.domain.errors import FieldError, InsufficientScopeError, InvalidRequestError
from runward.domain.ids import ProjectId
from runward.domain.registry.scopes import Principal, Scope
from runward.domain.registry.tools import InlineToolSpec, is_reserved
from runward.domain.run.config import AgentConfig, replace_tools
from runward.services import Registry, Storage
from runward.store.registry import tool_registry
from runward.tools import signing

MAX_INLINE_TOOLS: Final = 128


@dataclass(slots=True)
class ToolSelection:
    """The tools of a run or an agent. `paths`: the place of each tool in the request."""

    names: list[str] = field(default_factory=list[str])
    inline_tools: dict[str, InlineToolSpec] = field(default_factory=dict[str, InlineToolSpec])
    paths: dict[str, str] = field(default_factory=dict[str, str])
    errors: list[FieldError] = field(default_factory=list[FieldError])

    def apply_to(self, config: AgentConfig) -> AgentConfig:
        return replace_tools(config, self.names, tuple(self.inline_tools.values()))

    def add_name(self, name: str, path: str) -> None:
        if name in self.inline_tools:
            self.errors.append(FieldError(path, "must be unique among the tools"))
        self.names.append(name)
        self.paths.setdefault(name, path)

    def add_inline(self, spec: InlineToolSpec, path: str, name_path: str) -> None:
        if is_reserved(spec.name):
            self.errors.append(FieldError(name_path, "is reserved for a built-in tool"))
        elif spec.name in self.paths:
            self.errors.append(FieldError(name_path, "must be unique among the tools"))
        else:
            self.inline_tools[spec.name] = spec
            self.paths[spec.name] = path


def ensure_may_define(principal: Principal, entries: Sequence[ToolEntry]) -> None:
    """Raise InsufficientScopeError unless the principal can define the tools of a run. A tool that
    Runward calls can send secrets of the project to its address, or replace an approval rule."""
    if principal.may((Scope.TOOLS_WRITE,)):
        return
    if any(_needs_tools_write(entry) for entry in entries):
        problem = "To define tools other than client tools, the API key also needs the scope"
        raise InsufficientScopeError([Scope.TOOLS_WRITE], problem)


def _needs_tools_write(entry: ToolEntry) -> bool:
    if isinstance(entry, str):
        return False
    if isinstance(entry, McpTools):
        return bool(entry.settings)
    if isinstance(entry, InlineNamespace):
        return any(map(_needs_tools_write, entry.tools))
    type_: str = getattr(entry, "type")  # noqa: B009  # a field of a model that is built
    return type_ != "client" and not (type_ == "function" and getattr(entry, "url") is None)  # noqa: B009


async def select_tools(
    storage: Storage, registry: Registry, project_id: ProjectId, entries: Sequence[ToolEntry]
) -> ToolSelection:
    """Return the tools of a request, with sealed headers. It may use DNS, so do not call it in a
    transaction. Raises InvalidRequestError."""
    if sum(map(_count_objects, entries)) > MAX_INLINE_TOOLS:
        text = f"must contain at most {MAX_INLINE_TOOLS} objects, including those in namespaces"
        raise InvalidRequestError(errors=[FieldError("tools", text)])
    selection = ToolSelection()
    definitions: dict[str, InlineDefinition] = {}
    for number, entry in enumerate(entries):
        path = f"tools.{number}"
        if isinstance(entry, str):
            selection.add_name(entry, path)
        elif isinstance(entry, McpTools):
            await _add_mcp_tools(storage, project_id, selection, entry, path)
        else:
            _add_definitions(selection, definitions, entry, path)
    checks = [
        _find_errors(registry, project_id, spec, selection.paths[spec.name], definitions)
        for spec in selection.inline_tools.values()
    ]
    for found in await asyncio.gather(*checks):
        selection.errors += found
    if selection.errors:
        raise InvalidRequestError(errors=selection.errors)
    selection.inline_tools = {
        name: tool_registry.seal_headers(storage.vault, project_id, spec)
        for name, spec in selection.inline_tools.items()
    }
    return selection


def _count_objects(entry: ToolEntry) -> int:
    if isinstance(entry, InlineNamespace):
        return len(entry.tools)
    return int(not isinstance(entry, str))


def _add_definitions(
    selection: ToolSelection,
    definitions: dict[str, InlineDefinition],
    entry: InlineDefinition | InlineNamespace,
    path: str,
) -> None:
    """Add the tool, or the tools of the namespace. `definitions` receives their places."""
    found: dict[str, InlineDefinition]
    if isinstance(entry, InlineNamespace):
        found = {f"{path}.tools.{n}": one for n, one in enumerate(entry.flatten())}
    else:
        found = {path: entry}
    for place, definition in found.items():
        definitions[place] = definition
        _add_definition(selection, definition, place)


def _add_definition(selection: ToolSelection, entry: InlineDefinition, path: str) -> None:
    try:
        spec = entry.to_spec()
    except InvalidRequestError as error:
        selection.errors += _locate(error.errors, entry, path)
        return
    selection.errors += _locate(find_length_errors(spec.name, spec.description), entry, path)
    selection.add_inline(spec, path, f"{path}.{entry.locate('name')}")


def _locate(
    errors: Sequence[FieldError], entry: InlineDefinition | None, path: str
) -> Iterator[FieldError]:
    for error in errors:
        inner = error.path if entry is None else entry.locate(error.path)
        yield FieldError(f"{path}.{inner}", error.message)


async def _add_mcp_tools(
    storage: Storage, project_id: ProjectId, selection: ToolSelection, entry: McpTools, path: str
) -> None:
    async with storage.connect() as tx:
        found = await tool_registry.list_mcp_tools(tx, project_id, entry.server, entry.tool)
    if not found:
        place, text = (
            ("server", "is not a registered MCP server with tools")
            if entry.tool is None
            else ("tool", f"is not a tool of a registered MCP server named '{entry.server}'")
        )
        selection.errors.append(FieldError(f"{path}.{place}", text))
    for spec in found:
        if entry.settings:
            fields = dict(spec) | entry.settings
            inline = InlineToolSpec.model_construct(None, **fields)
            selection.add_inline(inline, path, path)
        else:
            selection.add_name(spec.name, path)


async def _find_errors(
    registry: Registry,
    project_id: ProjectId,
    spec: InlineToolSpec,
    path: str,
    definitions: Mapping[str, InlineDefinition],
) -> list[FieldError]:
    errors = await find_tool_errors(registry, project_id, spec)
    if spec.signing_secret is not None:
        name = spec.signing_secret.secret
        secrets = await registry.read_secrets(project_id, [name])
        if name not in secrets:
            text = f"names the secret '{name}', which does not exist"
            errors.append(FieldError("signing_secret.secret", text))
        elif not signing.is_secret(spec.signing_secret.resolve(secrets)):
            text = f"names the secret '{name}', whose value is not a signing secret (`whsec_…`)"
            errors.append(FieldError("signing_secret.secret", text))
    return list(_locate(errors, definitions.get(path), path))
