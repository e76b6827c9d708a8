"""Tool versions with compiled schemas."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final, TypeAlias

from runward.domain.immutable import immutable
from runward.domain.json import JsonObject, canonical, compute_digest
from runward.domain.registry.tools import CallableRule, CelRule, InlineToolSpec, ToolSpec
from runward.domain.schema.validator import RefusedSchema, Validator, stored_validator

UNREGISTERED: Final = 0
"""Version of tools that are not registered: built-in tools, handoffs, workflow steps, and the
inline tools of runs and agents."""
RequestKey: TypeAlias = tuple[str, str]
"""A call's tool name and the canonical form of its arguments."""
_NO_TOOLS: Final[Mapping[str, bool]] = MappingProxyType({})


@immutable
class CompiledTool:
    """A tool with compiled schemas. `version` counts the versions of the registered tool, from
    1."""

    spec: ToolSpec
    version: int
    arguments: Validator
    output: Validator | None
    definition: str | None = None
    """Digest of the definition of an inline tool. None for other tools, which have versions."""

    @property
    def name(self) -> str:
        return self.spec.name


def compile_tool(spec: ToolSpec, version: int) -> CompiledTool:
    """Return the compiled tool. If registration would now reject one of its schemas, the tool
    accepts no arguments."""
    arguments = stored_validator(spec.parameters, strict=spec.strict, at="arguments")
    output = None
    if spec.output_schema is not None:
        output = stored_validator(spec.output_schema, at="output")
        if isinstance(output, RefusedSchema):  # Its result could not be validated.
            arguments = output
    return CompiledTool(spec, version, arguments, output)


def compile_inline_tool(spec: InlineToolSpec, definition: str | None = None) -> CompiledTool:
    """Compile a tool that a run or an agent defines. `definition`: the digest of its stored form.
    None: `spec` is the stored form."""
    digest = compute_definition_digest(spec) if definition is None else definition
    return replace(compile_tool(spec, UNREGISTERED), definition=digest)


def compute_definition_digest(spec: InlineToolSpec) -> str:
    """Return the digest of an inline tool. `spec`: its stored form, with sealed headers."""
    return compute_digest(spec.model_dump(mode="json", exclude_defaults=True))


def is_enabled(tool: CompiledTool, answers: Mapping[str, bool] = _NO_TOOLS) -> bool:
    """Return whether the model sees the tool. `answers`: the results of tools' rules and callables,
    by tool name. A tool whose rule or callable was not evaluated is hidden."""
    if isinstance(tool.spec.enabled, CelRule | CallableRule):
        return answers.get(tool.name, False)
    return tool.spec.enabled


def make_request_key(tool: str, arguments: JsonObject) -> RequestKey:
    """Return the key of a callable's result for a call."""
    return tool, canonical(arguments)


def needs_approval(tool: CompiledTool, *, answer: bool | None = None) -> bool:
    """Return whether a call needs an approval. `answer`: the result of the tool's rule or callable.
    If it was not evaluated, the call needs an approval."""
    if isinstance(tool.spec.approval, CelRule | CallableRule):
        return answer is not False
    return tool.spec.approval == "always"


def build_rule_values(tool: CompiledTool, arguments: JsonObject) -> JsonObject:
    """Return the values of the variables in rules."""
    about: JsonObject = {
        "name": tool.name,
        "version": tool.version,
        "metadata": tool.spec.metadata,
    }
    return {"args": arguments, "tool": about}
