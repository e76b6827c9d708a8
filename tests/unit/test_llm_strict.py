"""Schemas sent as strict are ones that the provider takes; the run is told of the others."""

import enum
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import AnyUrl, BaseModel, Field

from runward.domain.json import JsonObject, compact
from runward.domain.registry.tools import ToolSpec
from runward.domain.run.items import Message
from runward.domain.schema.validator import Validator, check_schema
from runward.llm.base import ModelRequest
from runward.llm.openai.chat.request import function_tool, request_body
from runward.llm.openai.request_parts import Functions, strictness_losses
from runward.llm.strict_mode import STRICT_MODES
from runward.tools.plugin.docstrings import read_docstring
from runward.tools.plugin.function import read_signature
from tests.support.models.chat_rules import check_strict


class Color(enum.Enum):
    """A color."""

    RED = "red"
    BLUE = "blue"


@dataclass
class Size:
    """In centimeters."""

    width: int
    color: Color = Color.RED


class Tree(BaseModel):
    """A tree."""

    below: "list[Tree]" = []


def described(color: Color, size: Size, tree: Tree, plain: Color | None = None) -> str:
    """Draw.

    Args:
        color: Of the lines.
        size: Of the paper.
        tree: What is drawn.
        plain: The background.
    """
    return f"{color}{size}{tree}{plain}"


def defaults(color: Color = Color.RED, count: int = 5, size: Size | None = None) -> str:
    return f"{color}{count}{size}"


def limits(  # noqa: PLR0917
    tags: set[str],
    url: AnyUrl,
    path: Path,
    data: bytes,
    sum: Decimal,
    name: Annotated[str, Field(min_length=1, max_length=20, pattern="^[a-z]+$")],
    word: Annotated[str, Field(json_schema_extra={"pattern": "^(?!x).*$"})],
    few: Annotated[list[int], Field(min_length=1, max_length=3)],
    kind: Literal["a", "b"] = "a",
) -> str:
    return f"{tags}{url}{path}{data!r}{sum}{name}{word}{few}{kind}"


def tool_of(function: Callable[..., Any]) -> ToolSpec:
    parameters = read_signature(function, read_docstring(function, "auto")).schema()
    assert check_schema(parameters, strict=True) == []
    return ToolSpec(name=function.__name__, parameters=parameters)


def with_property(schema: Any) -> ToolSpec:
    definitions: JsonObject = {"text": {"type": "string"}}
    if "defs/any" in str(schema):
        definitions["any"] = {}
    parameters: JsonObject = {
        "type": "object",
        "properties": {"a": schema},
        "required": ["a"],
        "$defs": definitions,
    }
    assert check_schema(parameters, strict=True) == []
    return ToolSpec(name="tool", parameters=parameters)


def asked(spec: ToolSpec | None = None, **fields: Any) -> tuple[Any, list[tuple[str, str]]]:
    """The request's body, and what is lost."""
    functions = Functions(function_tool)
    tools = (spec,) if spec is not None else ()
    request = ModelRequest("m", "Be kind.", (Message("user", "go"),), tools=tools, **fields)
    body = request_body(request, functions, stream=False)
    return body, [(loss.part, loss.reason) for loss in strictness_losses(request, functions)]


@pytest.mark.parametrize("function", [described, defaults, limits], ids=lambda one: one.__name__)
def test_parameters_of_functions_are_rewritten_for_the_strict_mode(function: Any) -> None:
    body, lost = asked(tool_of(function))
    [tool] = body["tools"]
    assert tool["function"]["strict"] is True
    assert check_strict(tool["function"]["parameters"], "parameters") == []
    assert lost == []


def test_a_reference_with_a_description_is_wrapped_and_keeps_it() -> None:
    body, _ = asked(tool_of(described))
    color = body["tools"][0]["function"]["parameters"]["properties"]["color"]
    assert color == {"description": "Of the lines.", "anyOf": [{"$ref": "#/$defs/Color"}]}


def test_limits_that_the_strict_mode_does_not_know_are_told_in_the_description() -> None:
    body, _ = asked(tool_of(limits))
    properties = body["tools"][0]["function"]["parameters"]["properties"]
    assert properties["tags"]["description"] == "(uniqueItems: true)"
    assert properties["url"]["description"] == '(format: "uri"; minLength: 1)'
    assert properties["name"]["pattern"] == "^[a-z]+$"
    assert properties["name"]["description"] == "(maxLength: 20; minLength: 1)"
    assert properties["word"] == {"type": "string", "description": '(pattern: "^(?!x).*$")'}
    assert (properties["few"]["minItems"], properties["few"]["maxItems"]) == (1, 3)
    assert properties["kind"]["description"] == '(default: "a")'


def test_calls_are_checked_against_the_registered_schema() -> None:
    spec = tool_of(limits)
    valid: JsonObject = {
        "tags": ["a"], "url": "https://e.example", "path": "/", "data": "", "sum": 1,
        "name": "abc", "word": "a", "few": [1], "kind": None,
    }  # fmt: skip
    validator = Validator(spec.parameters, strict=True)
    assert validator.problems(valid) == []
    assert [one.path for one in validator.problems({**valid, "tags": ["a", "a"]})] == [
        "arguments.tags"
    ]


def nested(depth: int) -> JsonObject:
    schema: JsonObject = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return schema


INEXPRESSIBLE: list[tuple[Any, str]] = [
    ({}, "properties.a allows any value"),
    (True, "properties.a allows any value"),
    ({"description": "Anything."}, "properties.a allows any value"),
    ({"type": "array"}, "properties.a is an array without an items schema"),
    ({"type": "array", "items": {}}, "properties.a.items allows any value"),
    (
        {"type": "array", "prefixItems": [{"type": "string"}], "items": False},
        "properties.a has keywords that strict mode does not support: prefixItems",
    ),
    ({"anyOf": [{"type": "string"}, {}]}, "properties.a.anyOf.1 allows any value"),
    ({"$ref": "#/$defs/any"}, "$defs.any allows any value"),
    (nested(10), "is an object inside 10 other objects"),
    ({"type": "string", "enum": [f"v{at}" for at in range(1001)]}, "more than 1000 values"),
]


@pytest.mark.parametrize(("schema", "why"), INEXPRESSIBLE)
def test_a_tool_that_cannot_be_strict_is_sent_as_it_is_and_the_run_is_told(
    schema: Any, why: str
) -> None:
    spec = with_property(schema)
    body, lost = asked(spec)
    function = body["tools"][0]["function"]
    assert function["strict"] is False
    assert function["parameters"] == spec.parameters
    [(what, told)] = lost
    assert what == "tools.tool.strict"
    assert why in told


EXPRESSIBLE: list[Any] = [
    nested(9),
    {"$ref": "#/$defs/text", "default": "x"},
    {"allOf": [{"$ref": "#/$defs/text"}], "description": "A text."},
    {"oneOf": [{"type": "string"}, {"$ref": "#/$defs/text"}], "title": "T"},
    {"type": ["string", "null"], "format": "uri", "$comment": "c", "x-own": 1, "examples": ["a"]},
    {"type": "array", "items": {"type": "integer", "minimum": 0}, "uniqueItems": True},
    {"const": 5},
    {"enum": ["a", None]},
    {"type": "object"},
]


@pytest.mark.parametrize("schema", EXPRESSIBLE)
def test_a_tool_that_can_be_strict_is(schema: Any) -> None:
    body, lost = asked(with_property(schema))
    function = body["tools"][0]["function"]
    assert function["strict"] is True
    assert check_strict(function["parameters"], "parameters") == []
    assert lost == []


def closed(**properties: Any) -> JsonObject:
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


def test_an_output_schema_is_rewritten_for_the_strict_mode() -> None:
    pet = {"oneOf": [{"$ref": "#/$defs/cat"}, closed(bark={"type": "string"})]}
    tags = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
    schema = closed(pet={**pet, "description": "A pet."}, tags=tags)
    schema["$defs"] = {"cat": closed(meow={"type": "string", "minLength": 1})}
    body, lost = asked(output_schema=schema)
    shape = body["response_format"]["json_schema"]
    assert shape["strict"] is True
    assert check_strict(shape["schema"], "schema") == []
    assert lost == []


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "string"}},
        {"oneOf": [closed(a={"type": "string"}), closed(b={"type": "string"})]},
        {"$ref": "#/$defs/a", "$defs": {"a": closed()}},
        {"type": "string"},
    ],
)
def test_an_output_schema_without_an_object_at_its_root_is_told_in_words(schema: Any) -> None:
    body, lost = asked(output_schema=schema)
    assert "response_format" not in body
    instructions = body["messages"][0]["content"]
    assert instructions.startswith("Be kind.\n\n")
    assert compact(schema) in instructions
    assert [what for what, _ in lost] == ["output_schema"]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {**closed(a={"type": "string"}), "required": []},
        closed(a={}),
        closed(a={"type": "array", "prefixItems": [{"type": "string"}]}),
    ],
)
def test_an_output_schema_that_cannot_be_strict_is_sent_as_it_is_and_the_run_is_told(
    schema: Any,
) -> None:
    body, lost = asked(output_schema=schema)
    assert body["response_format"]["json_schema"] == {"name": "output", "schema": schema}
    assert [what for what, _ in lost] == ["output_schema"]


def test_every_strict_mode_has_its_source() -> None:
    assert set(STRICT_MODES) == {"openai", "openai-responses", "anthropic", "gemini", "bedrock"}
    for mode in STRICT_MODES.values():
        assert mode.source.startswith("https://")
