"""Tools, output schemas and media in the form that both of OpenAI's protocols use."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from runward.domain.json import JsonObject
from runward.domain.registry.tools import ToolSpec
from runward.domain.run import texts
from runward.domain.run.items import MediaPart
from runward.domain.run.response import Loss
from runward.domain.schema.strict import strict_form
from runward.llm.base import ModelRequest
from runward.llm.strict_mode import STRICT_MODES, UnenforceableError, enforceable_schema

OUTPUT_NAME: Final = "output"
MAX_FUNCTIONS: Final = 4096
STRICT_MODE: Final = STRICT_MODES["openai"]


@dataclass(frozen=True, slots=True)
class Function:
    """A tool's definition. `not_strict_reason`: why the provider does not enforce the parameters of
    a strict tool. It is None if the provider enforces them, or if the tool is not strict."""

    definition: JsonObject
    not_strict_reason: str | None = None


class Functions:
    """A cache of tools' definitions. A tool version keeps its ToolSpec between turns and runs, and
    computing the strict form of a schema is slow. `wrap` turns a function into a tool of the
    protocol."""

    def __init__(self, wrap: Callable[[JsonObject], JsonObject]) -> None:
        self._wrap = wrap
        # The spec is stored too, so that its `id` is not reused.
        self._kept: dict[int, tuple[ToolSpec, Function]] = {}

    def definition(self, spec: ToolSpec) -> JsonObject:
        return self._function(spec).definition

    def losses(self, tools: Iterable[ToolSpec]) -> Iterator[Loss]:
        """Yield a loss for each strict tool that is not sent as strict."""
        for spec in tools:
            if (why := self._function(spec).not_strict_reason) is not None:
                text = f"OpenAI's strict mode does not support the parameters of the tool: {why}."
                yield Loss(
                    f"tools.{spec.name}.strict", f"{text} Runward still validates the arguments."
                )

    def _function(self, spec: ToolSpec) -> Function:
        kept = self._kept.get(id(spec))
        if kept is not None:
            return kept[1]
        if len(self._kept) >= MAX_FUNCTIONS:
            self._kept.clear()
        written = build_function(spec)
        written = Function(self._wrap(written.definition), written.not_strict_reason)
        self._kept[id(spec)] = spec, written
        return written


def build_function(spec: ToolSpec) -> Function:
    said: JsonObject = {"name": spec.name}
    if spec.description:
        said["description"] = spec.description
    if not spec.strict:
        return Function({**said, "parameters": spec.parameters})
    try:
        parameters = enforceable_schema(strict_form(spec.parameters), STRICT_MODE)
    except UnenforceableError as error:
        return Function({**said, "parameters": spec.parameters, "strict": False}, str(error))
    return Function({**said, "parameters": parameters, "strict": True})


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """The output schema in the form of the protocol. If the protocol does not support the schema,
    `shape` is None, and `instructions` describe the schema."""

    shape: JsonObject | None
    instructions: str = ""
    loss: Loss | None = None


def output_and_instructions(request: ModelRequest) -> tuple[OutputFormat | None, str]:
    """Return the output format if there is a schema, and the instructions, which may describe the
    schema."""
    if request.output_schema is None:
        return None, request.instructions
    output = output_format(request.output_schema)
    texts = (request.instructions, output.instructions)
    return output, "\n\n".join(text for text in texts if text)


def strictness_losses(request: ModelRequest, functions: Functions) -> tuple[Loss, ...]:
    """Return the schemas that are not enforced. `request.tools` must contain only functions."""
    output = None if request.output_schema is None else output_format(request.output_schema).loss
    return (*functions.losses(request.tools), *([] if output is None else [output]))


def output_format(schema: JsonObject) -> OutputFormat:
    """Return the output format. It is strict if OpenAI's strict mode supports the schema. Runward
    validates the answer in any case."""
    if schema.get("type") != "object" or schema.keys() & {"anyOf", "oneOf", "allOf", "$ref"}:
        why = (
            "OpenAI accepts only an object at the root of a schema. Runward describes "
            "the schema to the model in the instructions."
        )
        return OutputFormat(None, texts.answer_by_schema(schema), _output_loss(why))
    try:
        if not is_strict(schema):
            raise UnenforceableError((), "has optional properties or allows additional properties")
        strict = enforceable_schema(strict_form(schema), STRICT_MODE)
    except UnenforceableError as error:
        why = (
            f"OpenAI's strict mode does not support the output schema: {error}. Runward "
            "still validates the output."
        )
        return OutputFormat({"name": OUTPUT_NAME, "schema": schema}, loss=_output_loss(why))
    return OutputFormat({"name": OUTPUT_NAME, "schema": strict, "strict": True})


def _output_loss(why: str) -> Loss:
    return Loss("output_schema", why)


def is_strict(schema: JsonValue) -> bool:
    """Return whether every object in the schema is closed and requires all its properties."""
    if isinstance(schema, list):
        return all(is_strict(child) for child in schema)
    if not isinstance(schema, dict):
        return True
    properties = schema.get("properties", {})
    if not isinstance(properties, dict):
        return False
    if schema.get("type") == "object" or properties:
        required = schema.get("required", [])
        if schema.get("additionalProperties") is not False or not isinstance(required, list):
            return False
        if not properties.keys() <= {name for name in required if isinstance(name, str)}:
            return False
    children = [
        child for key, child in schema.items() if key not in ("properties", "enum", "const")
    ]
    return is_strict(children) and is_strict([*properties.values()])


def data_url(part: MediaPart, default_type: str) -> str:
    """Return the data of an image or file as a data URL (RFC 2397)."""
    return f"data:{part.media_type or default_type};base64,{part.data or ''}"
