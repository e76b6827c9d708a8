"""A tool version made ready for use: its schema and rules compiled, once."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

from pydantic import JsonValue

from app.domain.json import JsonObject, canonical
from app.domain.rules import Rule, RuleFailure, compile_rule
from app.domain.schema import Validator
from app.domain.tools import ByCallable, ToolSpec, When

Asked: TypeAlias = tuple[str, str]
"""A call by its tool's name and its arguments' canonical form."""
_NOBODY: Final[Mapping[str, bool]] = MappingProxyType({})
_NOTHING: Final[Mapping[Asked, bool]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Tool:
    """`version` counts the changes of the registered tool, from 1."""

    spec: ToolSpec
    version: int
    arguments: Validator
    output: Validator | None
    approval: Rule | None
    enabled: Rule | None

    @property
    def name(self) -> str:
        return self.spec.name


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What rules may look at besides the arguments and the tool."""

    context: JsonObject | None
    run: Mapping[str, JsonValue]


def compile_tool(spec: ToolSpec, version: int) -> Tool:
    """Raises ValueError for a schema or rule that registration would have refused."""
    return Tool(
        spec=spec,
        version=version,
        arguments=Validator(spec.parameters, strict=spec.strict),
        output=None if spec.output_schema is None else Validator(spec.output_schema, at="output"),
        approval=compile_rule(spec.approval.when) if isinstance(spec.approval, When) else None,
        enabled=compile_rule(spec.enabled.when) if isinstance(spec.enabled, When) else None,
    )


def is_enabled(tool: Tool, around: Surroundings, answered: Mapping[str, bool] = _NOBODY) -> bool:
    """A rule that fails hides the tool. `answered`: what callables of tools said, by the tool's
    name; one that was not asked hides its tool too."""
    if isinstance(tool.spec.enabled, ByCallable):
        return answered.get(tool.name, False)
    if tool.enabled is None:
        return tool.spec.enabled is True
    return tool.enabled.decide(_variables(tool, {}, around)) is True


def asked(tool: str, arguments: JsonObject) -> Asked:
    """The key of what a callable answered about a call."""
    return tool, canonical(arguments)


def needs_approval(
    tool: Tool,
    arguments: JsonObject,
    around: Surroundings,
    answered: Mapping[Asked, bool] = _NOTHING,
) -> bool:
    """A rule that fails means that a person is asked. `answered`: what callables said about
    calls; where one was not asked, a person is."""
    if isinstance(tool.spec.approval, ByCallable):
        return answered.get(asked(tool.name, arguments), True)
    if tool.approval is None:
        return tool.spec.approval == "always"
    answer = tool.approval.decide(_variables(tool, arguments, around))
    return isinstance(answer, RuleFailure) or answer


def _variables(tool: Tool, arguments: JsonObject, around: Surroundings) -> dict[str, JsonValue]:
    about: JsonObject = {
        "name": tool.name,
        "version": tool.version,
        "metadata": tool.spec.metadata,
    }
    return {
        "args": arguments,
        "context": around.context or {},
        "run": dict(around.run),
        "tool": about,
    }
