"""A tool version made ready for use: its schemas compiled, once."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

from runward.domain.json import JsonObject, canonical
from runward.domain.registry.tools import ByCallable, ToolSpec, When
from runward.domain.schema.validator import Refusal, Validator, stored_validator

RequestedArguments: TypeAlias = tuple[str, str]
"""A call by its tool's name and its arguments' canonical form."""
_NOBODY: Final[Mapping[str, bool]] = MappingProxyType({})
_NOTHING: Final[Mapping[RequestedArguments, bool]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class CompiledTool:
    """`version` counts the changes of the registered tool, from 1."""

    spec: ToolSpec
    version: int
    arguments: Validator
    output: Validator | None

    @property
    def name(self) -> str:
        return self.spec.name


def compile_tool(spec: ToolSpec, version: int) -> CompiledTool:
    """A tool whose schemas registration would refuse today accepts no arguments."""
    arguments = stored_validator(spec.parameters, strict=spec.strict, at="arguments")
    output = None
    if spec.output_schema is not None:
        output = stored_validator(spec.output_schema, at="output")
        if isinstance(output, Refusal):  # its result could not be checked
            arguments = output
    return CompiledTool(spec, version, arguments, output)


def is_enabled(tool: CompiledTool, answered: Mapping[str, bool] = _NOBODY) -> bool:
    """Whether the model sees the tool. `answered`: the answers of tools' rules and callables, by
    the tool's name. A tool whose rule or callable was not asked is hidden."""
    if isinstance(tool.spec.enabled, When | ByCallable):
        return answered.get(tool.name, False)
    return tool.spec.enabled


def asked(tool: str, arguments: JsonObject) -> RequestedArguments:
    """The key of what a callable answered about a call."""
    return tool, canonical(arguments)


def needs_approval(
    tool: CompiledTool,
    arguments: JsonObject,
    answered: Mapping[RequestedArguments, bool] = _NOTHING,
) -> bool:
    """Whether a call needs a person's approval. `answered`: the answers of rules and callables
    about calls. A call about which none was asked needs one."""
    if isinstance(tool.spec.approval, When | ByCallable):
        return answered.get(asked(tool.name, arguments), True)
    return tool.spec.approval == "always"


def rule_values(tool: CompiledTool, arguments: JsonObject) -> JsonObject:
    """The values of the variables that differ from rule to rule."""
    about: JsonObject = {
        "name": tool.name,
        "version": tool.version,
        "metadata": tool.spec.metadata,
    }
    return {"args": arguments, "tool": about}
