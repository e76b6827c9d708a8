"""A tool version made ready for use: its schemas compiled, once."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

from runward.domain.json import JsonObject, canonical
from runward.domain.registry.tools import CallableRule, CelRule, ToolSpec
from runward.domain.schema.validator import RefusedSchema, Validator, stored_validator

RequestKey: TypeAlias = tuple[str, str]
"""A call by its tool's name and its arguments' canonical form."""
_NO_TOOLS: Final[Mapping[str, bool]] = MappingProxyType({})


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
        if isinstance(output, RefusedSchema):  # its result could not be checked
            arguments = output
    return CompiledTool(spec, version, arguments, output)


def is_enabled(tool: CompiledTool, answers: Mapping[str, bool] = _NO_TOOLS) -> bool:
    """Whether the model sees the tool. `answers`: the answers of tools' rules and callables, by
    the tool's name. A tool whose rule or callable was not asked is hidden."""
    if isinstance(tool.spec.enabled, CelRule | CallableRule):
        return answers.get(tool.name, False)
    return tool.spec.enabled


def make_request_key(tool: str, arguments: JsonObject) -> RequestKey:
    """The key of what a callable answered about a call."""
    return tool, canonical(arguments)


def needs_approval(tool: CompiledTool, *, answer: bool | None = None) -> bool:
    """Return whether a call needs a person's approval. `answer`: that of the tool's rule or
    callable about the call. A call about which it was not asked needs one."""
    if isinstance(tool.spec.approval, CelRule | CallableRule):
        return answer is not False
    return tool.spec.approval == "always"


def build_rule_values(tool: CompiledTool, arguments: JsonObject) -> JsonObject:
    """The values of the variables that differ from rule to rule."""
    about: JsonObject = {
        "name": tool.name,
        "version": tool.version,
        "metadata": tool.spec.metadata,
    }
    return {"args": arguments, "tool": about}
