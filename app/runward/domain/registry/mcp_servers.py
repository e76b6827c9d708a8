"""MCP servers: their registration, and the conversion of the tools that they list. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, JsonValue

from runward.domain.errors import AlreadyExistsError
from runward.domain.json import MAX_DEPTH, JsonObject, compact, compute_digest
from runward.domain.registry.tools import (
    ApprovalRule,
    CelRule,
    Frozen,
    McpToolSource,
    Seconds,
    ToolName,
    ToolSpec,
    is_reserved,
)
from runward.domain.schema.validator import check_schema

MAX_TOOLS: Final = 512
"""Maximum number of tools of one server. A longer list is rejected."""
MAX_NAME: Final = 64
MAX_DESCRIPTION: Final = 16_384
MAX_ANNOTATIONS_BYTES: Final = 4096
MAX_CHECKED: Final = 16_384
"""Maximum number of tools in the cache of schema problems."""
_checked: Final[dict[bytes, str | None]] = {}
"""The schema problem of each tool, by the digest of its schemas. None: the schemas have no
problem."""

ServerApproval: TypeAlias = Literal["never", "always"] | CelRule
McpName = Annotated[str, Field(min_length=1, max_length=256)]
"""The MCP server's name of a tool."""
Argument = Annotated[str, Field(max_length=4096, pattern=r"^[^\x00]*$")]
PREFIX_PATTERN: Final = r"^[A-Za-z][A-Za-z0-9_-]{0,31}$"


class ToolFilter(Frozen):
    """A filter for the tools of an MCP server, by their names on the server."""

    allow: Annotated[tuple[McpName, ...], Field(max_length=MAX_TOOLS)] | None = None
    """Names of the tools to use, as the server names them. Null: all tools."""
    deny: Annotated[tuple[McpName, ...], Field(max_length=MAX_TOOLS)] = ()
    """Names of the tools to leave out, as the server names them. `deny` overrides `allow`."""

    def takes(self, name: str) -> bool:
        return name not in self.deny and (self.allow is None or name in self.allow)


class McpServerSpec(Frozen):
    """One registered server: either a URL or a command."""

    name: ToolName
    """Name of the MCP server. Unique in the project."""
    url: Annotated[str, Field(max_length=2048)] | None = None
    """URL of the MCP server. Runward calls it over streamable HTTP. Set either `url` or
    `command`."""
    command: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    """Command that starts the MCP server. Runward then calls the server over standard input and
    output. The operator must allow the command. Set either `url` or `command`."""
    args: Annotated[tuple[Argument, ...], Field(max_length=64)] = ()
    """Arguments of the command."""
    tools: ToolFilter = ToolFilter()
    """Filter that selects which tools of the server the project uses. By default, the project uses
    all tools."""
    prefix: Annotated[str, Field(pattern=PREFIX_PATTERN)] | None = None
    """Prefix of the tool names in this project, followed by an underscore. Null: the name of the
    server."""
    approval: ServerApproval | None = None
    """Whether calls of the server's tools need approval. Null: `never` for tools that the server
    marks with `readOnlyHint`, and `always` for all others."""
    timeout_seconds: Seconds | None = None
    """Timeout of one call of the server's tools, in seconds. Null: the run's
    `limits.tool_timeout_seconds`, or the default of the deployment."""

    @property
    def target(self) -> JsonObject:
        """Return the URL or command. A registration with a different one is a different server."""
        return {"url": self.url, "command": self.command, "args": list(self.args)}


class ListedTool(Frozen):
    """A tool as its server describes it, stored in the form in which it was last listed."""

    name: str
    title: str | None = None
    description: str = ""
    parameters: JsonObject
    output_schema: JsonObject | None = None
    annotations: dict[str, JsonValue] = Field(default_factory=dict)
    only_as_task: bool = False
    """`execution.taskSupport: "required"` of the protocol of 2025-11-25."""
    too_deep: bool = False
    """Whether its schemas or annotations are nested too deep to be stored. They are then
    missing."""


@dataclass(frozen=True, slots=True)
class SkippedServerTool:
    """A tool of the server that cannot be used, and the reason why."""

    tool: str
    reason: str


@dataclass(frozen=True, slots=True)
class OfferedTools:
    specs: tuple[ToolSpec, ...]
    skipped: tuple[SkippedServerTool, ...]


def offered_tools(server: McpServerSpec, listed_tools: Iterable[ListedTool]) -> OfferedTools:
    """Convert the server's list into tools. Raises AlreadyExistsError if two of them would have the
    same name."""
    specs: dict[str, ToolSpec] = {}
    skipped: list[SkippedServerTool] = []
    for tool in listed_tools:
        if not server.tools.takes(tool.name):
            continue
        if (reason := _skip_reason(server, tool)) is not None:
            skipped.append(SkippedServerTool(tool.name[:256], reason))
            continue
        spec = _spec(server, tool)
        if (other := specs.get(spec.name)) is not None:
            assert other.mcp is not None
            raise AlreadyExistsError(
                f"The server's tools '{other.mcp.tool}' and '{tool.name}' would "
                f"both get the name '{spec.name}'. Exclude one of them with "
                "`tools.deny`."
            )
        specs[spec.name] = spec
    return OfferedTools(tuple(specs.values()), tuple(skipped))


def registry_name(server: McpServerSpec, tool: str) -> str:
    """Return `prefix_tool` as a name that every provider accepts."""
    prefix = server.prefix or server.name
    return re.sub(r"[^A-Za-z0-9_-]", "_", f"{prefix}_{tool}")[:MAX_NAME]


def default_approval(tool: ListedTool) -> ApprovalRule:
    """Return the default rule: a tool needs no approval only if it is marked as read-only."""
    return "never" if tool.annotations.get("readOnlyHint") is True else "always"


def _skip_reason(server: McpServerSpec, tool: ListedTool) -> str | None:
    if not 0 < len(tool.name) <= 256:
        return "the name of the tool is empty or too long"
    if tool.too_deep:
        return (
            f"the schemas or annotations of the tool are nested more than {MAX_DEPTH} levels deep"
        )
    if tool.only_as_task:
        return "the tool requires MCP tasks, which Runward does not support"
    if is_reserved(registry_name(server, tool.name)):
        return "the name that the tool would have in Runward is reserved for a built-in tool"
    return _schema_problem(tool)


def _schema_problem(tool: ListedTool) -> str | None:
    """Return the problem of the tool's schemas. It is cached, because servers are shown more often
    than their tools are listed, and checking the schemas of MAX_TOOLS tools takes a second."""
    schemas = compact([tool.parameters, tool.output_schema]).encode()
    key = blake2b(schemas, digest_size=16).digest()
    if key in _checked:
        return _checked[key]
    problems = check_schema(tool.parameters, strict=False)
    if not problems and tool.output_schema is not None:
        problems = check_schema(
            tool.output_schema, strict=False, at="output_schema", object_root=False
        )
    if len(_checked) >= MAX_CHECKED:
        _checked.clear()
    reason = f"{problems[0].path} {problems[0].message}"[:500] if problems else None
    _checked[key] = reason
    return reason


def _spec(server: McpServerSpec, tool: ListedTool) -> ToolSpec:
    about: JsonObject = {"title": tool.title} if tool.title else {}
    if tool.annotations and len(compact(tool.annotations).encode()) <= MAX_ANNOTATIONS_BYTES:
        about["annotations"] = tool.annotations
    return ToolSpec(
        name=registry_name(server, tool.name),
        description=tool.description[:MAX_DESCRIPTION],
        parameters=tool.parameters,
        output_schema=tool.output_schema,
        type="mcp",
        url=server.url,
        strict=False,
        timeout_seconds=server.timeout_seconds,
        approval=default_approval(tool) if server.approval is None else server.approval,
        metadata={"mcp": about} if about else {},
        # A digest of the command, so that a new command creates a new version of the tool, like a
        # new URL.
        code=None if server.command is None else compute_digest(server.target)[:64],
        mcp=McpToolSource(server=server.name, tool=tool.name),
    )
