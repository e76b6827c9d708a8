"""Tools in the configuration of a run or an agent: names, and definitions."""

from collections.abc import Iterator
from typing import Annotated, Literal, TypeAlias, cast

from pydantic import ConfigDict, Discriminator, Field, Tag

from runward.api.http.models import RequestModel, create_request_model, with_example
from runward.api.registry.function_tools import FunctionTool, NestedFunctionTool, get_tool_tag
from runward.api.registry.namespaces import MAX_FUNCTIONS, NamespaceDescription, join_fields
from runward.api.registry.tool_models import (
    OVERRIDABLE_FIELDS,
    RegisterTool,
    hide_header_values,
    make_optional_field,
)
from runward.domain.json import JsonObject
from runward.domain.registry.tools import (
    InlineToolSpec,
    SecretReference,
    ToolName,
    ToolSelector,
    ToolSpec,
)
from runward.domain.run.config import AgentConfig, get_inline_tools


class _SignedTool(RequestModel):
    signing_secret: SecretReference | None = None
    """Secret of the project that signs the requests of the tool and of its guardrails. Its value
    must be a secret in the format of Standard Webhooks (`whsec_…`). Null: the project's signing
    secret signs them."""

    def _add_secret(self, spec: ToolSpec) -> InlineToolSpec:
        fields = dict(spec) | {"signing_secret": self.signing_secret}
        return InlineToolSpec.model_construct(None, **fields)


class InlineTool(RegisterTool, _SignedTool):
    """A tool that only this run or agent has. It has the same fields as a tool to register."""

    def to_spec(self) -> InlineToolSpec:
        return self._add_secret(super().to_spec())


class InlineFunctionTool(FunctionTool, _SignedTool):
    """A tool that only this run or agent has, in the format of OpenAI's Responses API."""

    def to_spec(self) -> InlineToolSpec:
        return self._add_secret(super().to_spec())


class InlineNestedFunctionTool(NestedFunctionTool, _SignedTool):
    """A tool that only this run or agent has, in the format of OpenAI's Chat Completions API."""

    def to_spec(self) -> InlineToolSpec:
        return self._add_secret(super().to_spec())


class InlineNamespace(RequestModel):
    """A group of tools that only this run or agent has, in the format of OpenAI's Responses API.
    The function `find` of the namespace `crm` becomes the tool `crm_find`. Its description is the
    description of the namespace followed by its own."""

    model_config = ConfigDict(use_attribute_docstrings=True) | with_example(
        type="namespace",
        name="crm",
        description="Customers and their orders.",
        tools=[{"type": "function", "name": "find", "description": "Finds a customer."}],
    )

    type: Literal["namespace"]
    name: ToolName
    """Name of the namespace. The names of the tools begin with it."""
    description: NamespaceDescription = ""
    """Description of the namespace. The descriptions of the tools begin with it."""
    tools: Annotated[tuple[InlineFunctionTool, ...], Field(min_length=1, max_length=MAX_FUNCTIONS)]
    """Functions of the namespace."""

    def flatten(self) -> Iterator[InlineFunctionTool]:
        """Return the functions as tools without a namespace. Their names may be too long."""
        for one in self.tools:
            joined = join_fields(self.name, self.description, one.name, one.description)
            yield one.model_copy(update=joined)


InlineDefinition: TypeAlias = InlineTool | InlineFunctionTool | InlineNestedFunctionTool
_Settings = create_request_model(
    "_Settings",
    {
        name: make_optional_field(name, field)
        for name, field in ToolSpec.model_fields.items()
        if name in OVERRIDABLE_FIELDS
    },
)


class McpTools(_Settings):
    """Tools of a registered MCP server. Settings such as `approval` apply only to this run or
    agent. Null or a missing setting: the setting of the registered tool."""

    model_config = ConfigDict(use_attribute_docstrings=True) | with_example(
        type="mcp", server="files", tool="read_file", approval="always"
    )

    type: Literal["mcp"]
    server: ToolName
    """Name of the registered MCP server."""
    tool: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    """Name of the tool on the MCP server. Null: all tools of the server."""

    @property
    def settings(self) -> JsonObject:
        """Return the settings that the request set."""
        given = self.model_fields_set & OVERRIDABLE_FIELDS
        return {name: value for name in given if (value := getattr(self, name)) is not None}


def _get_entry_tag(value: object) -> str:
    if isinstance(value, str | RequestModel):
        return "name" if isinstance(value, str) else type(value).__name__
    if not isinstance(value, dict):
        return "name"
    match cast(JsonObject, value):
        case {"type": "mcp"}:
            return "McpTools"
        case {"type": "namespace"}:
            return "InlineNamespace"
        case fields:
            return get_tool_tag(fields)


ToolEntry: TypeAlias = Annotated[
    Annotated[ToolSelector, Tag("name")]
    | Annotated[McpTools, Tag("McpTools")]
    | Annotated[InlineTool, Tag("RegisterTool")]
    | Annotated[InlineFunctionTool, Tag("FunctionTool")]
    | Annotated[InlineNestedFunctionTool, Tag("NestedFunctionTool")]
    | Annotated[InlineNamespace, Tag("InlineNamespace")],
    Discriminator(_get_entry_tag),
]


class AgentTool(InlineToolSpec):
    """A tool that only this run or agent has. Runward never shows the values of its headers."""

    headers: dict[str, str | SecretReference] = Field(  # pyright: ignore[reportIncompatibleVariableOverride]
        default_factory=dict
    )
    """HTTP headers that Runward sends with every call. Values are shown as `…`, and references to
    secrets are shown unchanged."""

    @classmethod
    def from_spec(cls, spec: InlineToolSpec) -> "AgentTool":
        """Return the tool of a specification. It is not validated again."""
        fields = dict(spec) | {"headers": hide_header_values(spec.headers)}
        return cls.model_construct(None, **fields)


def list_tools(config: AgentConfig) -> list[str | AgentTool]:
    """Return the names of the registered tools, and the inline tools."""
    return [*config.tools, *map(AgentTool.from_spec, get_inline_tools(config))]
