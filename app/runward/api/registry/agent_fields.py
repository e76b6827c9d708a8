"""The configuration of an agent as requests send it."""

from typing import Annotated, Literal, TypeAlias, assert_never

from pydantic import AfterValidator, Discriminator, Field, Tag

from runward.api.registry.inline_models import ToolEntry
from runward.domain.registry.tools import Frozen, ToolName
from runward.domain.run.config import (
    MAX_TOOLS,
    AgentConfig,
    AgentKind,
    NamedToolChoice,
    ToolChoice,
    ToolChoiceMode,
)


class FunctionName(Frozen):
    """The name of a function, as in OpenAI's Chat Completions API."""

    name: ToolName
    """Name of the tool that the model must call."""


class FunctionToolChoice(Frozen):
    """The tool that the model must call, as in OpenAI's Responses API."""

    type: Literal["function"]
    name: ToolName
    """Name of the tool that the model must call."""


class NestedFunctionToolChoice(Frozen):
    """The tool that the model must call, as in OpenAI's Chat Completions API."""

    type: Literal["function"]
    function: FunctionName
    """The tool that the model must call."""


def _get_tool_choice_tag(value: object) -> str:
    if not isinstance(value, dict):
        return "named" if isinstance(value, NamedToolChoice) else "mode"
    return "nested" if "function" in value else "flat" if "type" in value else "named"


def _normalize_tool_choice(
    choice: ToolChoice | FunctionToolChoice | NestedFunctionToolChoice,
) -> ToolChoice:
    match choice:
        case str() | NamedToolChoice():
            return choice
        case FunctionToolChoice(name=name):
            return NamedToolChoice(name=name)
        case NestedFunctionToolChoice(function=function):
            return NamedToolChoice(name=function.name)
        case _:
            assert_never(choice)


ToolChoiceInput: TypeAlias = Annotated[
    Annotated[ToolChoiceMode, Tag("mode")]
    | Annotated[NamedToolChoice, Tag("named")]
    | Annotated[FunctionToolChoice, Tag("flat")]
    | Annotated[NestedFunctionToolChoice, Tag("nested")],
    Discriminator(_get_tool_choice_tag),
]


class AgentFields(AgentConfig):
    """The configuration of an agent in a request that registers an agent or starts a run."""

    kind: AgentKind = "llm"  # pyright: ignore[reportIncompatibleVariableOverride]
    """Kind of the agent. `llm` calls a model. The workflows `sequential`, `parallel`, and `loop`
    run the agents in `agents` and have no model."""
    tools: Annotated[  # pyright: ignore[reportIncompatibleVariableOverride]
        tuple[ToolEntry, ...], Field(max_length=MAX_TOOLS)
    ] = ()
    """Tools that the model may call: names of registered tools, and definitions of tools that only
    this configuration has. A name that ends with `*`, such as `crm_*`, selects all registered tools
    whose names begin with the part before it when a run starts. If there are more than 64 tools,
    Runward gives the model a tool that searches them."""
    tool_choice: Annotated[  # pyright: ignore[reportIncompatibleVariableOverride]
        ToolChoiceInput, AfterValidator(_normalize_tool_choice)
    ] = "auto"
    """Whether the model may (`auto`), must not (`none`), or must (`required`) call a tool. An
    object names the tool that the model must call: `{"name": …}`, or one of the two formats of
    OpenAI's APIs. Responses contain `{"name": …}`."""

    def to_config(self) -> AgentConfig:
        """Return the configuration with the fields that the request set. Its tools are only those
        that the request names. `select_tools` returns all of them."""
        given = self.model_fields_set & AgentConfig.model_fields.keys()
        values = {name: getattr(self, name) for name in given}
        if "tools" in values:
            values["tools"] = tuple(one for one in self.tools if isinstance(one, str))
        return AgentConfig.model_construct(None, **values)
