"""From a Python function to the schema that models are shown, and back to its parameters."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, NotRequired, Optional, TypedDict, Union

import pytest
from pydantic import BaseModel, Field

from runward.domain.json import JsonObject
from runward.tools import BaseTool, PluginError, ToolContext, tool
from runward.tools.plugin.tool import make_tool
from runward.tools.testing import run_tool_sync, schema_of


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


@dataclass
class Point:
    x: int
    y: int = 0
    tags: list[str] = field(default_factory=list[str])


class Address(TypedDict):
    street: str
    floor: NotRequired[int]


class Person(BaseModel):
    name: str
    born: date | None = None
    friends: list["Person"] = []


def properties(function: Any) -> JsonObject:
    shown = make_tool(function).spec.parameters
    assert shown["type"] == "object"
    assert shown["additionalProperties"] is False
    found = shown["properties"]
    assert isinstance(found, dict)
    return found


def with_hint(hint: Any, *, strict: bool = True) -> Any:
    """A tool with one parameter of that type."""

    def function(x: Any) -> Any:
        return repr(x)

    function.__annotations__["x"] = hint
    return tool(function, strict=strict)


# -- types ----------------------------------------------------------------------------------------

TYPES: dict[str, tuple[Any, JsonObject, Any, str]] = {
    "str": (str, {"type": "string"}, "a", "'a'"),
    "int": (int, {"type": "integer"}, 3, "3"),
    "float": (float, {"type": "number"}, 3, "3.0"),
    "bool": (bool, {"type": "boolean"}, True, "True"),
    "list": (list[int], {"type": "array", "items": {"type": "integer"}}, [1], "[1]"),
    "set": (
        set[str],
        {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        ["a"],
        "{'a'}",
    ),
    "Optional": (
        Optional[str],  # noqa: UP045  # as people write it
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        None,
        "None",
    ),
    "Union": (
        Union[int, str],  # noqa: UP007  # as people write it
        {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "a",
        "'a'",
    ),
    "Literal": (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}, "b", "'b'"),
    "Literal of one": (Literal["a"], {"type": "string", "const": "a"}, "a", "'a'"),
    "date": (
        date,
        {"type": "string", "format": "date"},
        "2026-11-02",
        "datetime.date(2026, 11, 2)",
    ),
    "Annotated": (
        Annotated[int, Field(ge=1, le=9, description="How many.")],
        {"type": "integer", "minimum": 1, "maximum": 9, "description": "How many."},
        4,
        "4",
    ),
    "Any": (Any, {}, [None], "[None]"),
    "Enum": (Colour, {"$ref": "#/$defs/Colour"}, "blue", "<Colour.BLUE: 'blue'>"),
    "IntEnum": (Level, {"$ref": "#/$defs/Level"}, 2, "<Level.HIGH: 2>"),
    "dataclass": (
        Point,
        {"$ref": "#/$defs/Point"},
        {"x": 1},
        "Point(x=1, y=0, tags=[])",
    ),
    "TypedDict": (
        Address,
        {"$ref": "#/$defs/Address"},
        {"street": "A", "floor": 1},
        "{'street': 'A', 'floor': 1}",
    ),
    "list of TypedDict": (
        list[Address] | None,
        {
            "anyOf": [
                {"type": "array", "items": {"$ref": "#/$defs/Address"}},
                {"type": "null"},
            ]
        },
        [{"street": "A"}],
        "[{'street': 'A'}]",
    ),
    "model": (
        Person,
        {"$ref": "#/$defs/Person"},
        {"name": "A", "friends": [{"name": "B"}]},
        "Person(name='A', born=None, friends=[Person(name='B', born=None, friends=[])])",
    ),
}


@pytest.mark.parametrize("name", TYPES)
def test_a_type_is_shown_as_its_schema_and_what_comes_is_made_that_type(name: str) -> None:
    hint, shown, given, received = TYPES[name]
    function = with_hint(hint)
    assert properties(function) == {"x": shown}
    assert run_tool_sync(function, {"x": given}).output == received


DEFINITIONS: dict[Any, JsonObject] = {
    Colour: {"type": "string", "enum": ["red", "blue"]},
    Level: {"type": "integer", "enum": [1, 2]},
    Point: {
        "type": "object",
        "properties": {
            "x": {"type": "integer"},
            "y": {"type": "integer", "default": 0},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["x"],
        "additionalProperties": False,
    },
    Address: {
        "type": "object",
        "properties": {"street": {"type": "string"}, "floor": {"type": "integer"}},
        "required": ["street"],
        "additionalProperties": False,
    },
}


@pytest.mark.parametrize("kind", DEFINITIONS, ids=lambda kind: kind.__name__)
def test_a_class_is_defined_once_and_without_its_python_name_as_title(kind: Any) -> None:
    schema = make_tool(with_hint(kind)).spec.parameters
    assert schema["$defs"] == {kind.__name__: DEFINITIONS[kind]}


@pytest.mark.parametrize(
    ("hint", "given", "path"),
    [
        (Annotated[str, Field(pattern="^a+$")], "b", "arguments.x"),
        (date, "2026-02-31", "arguments.x"),
        (Person, {"name": "A", "born": "yesterday"}, "arguments.x.born"),
    ],
)
def test_what_does_not_fit_is_an_error_that_names_the_path(
    hint: Any, given: Any, path: str
) -> None:
    result = run_tool_sync(with_hint(hint), {"x": given})
    assert result.message is not None
    assert path in result.message
    assert result.output is None


# -- parameters -----------------------------------------------------------------------------------


def defaults(a: int, b: str = "x", c: str | None = None, *, d: list[int] = [1]) -> Any:  # noqa: B006
    d.append(len(d))
    return [a, b, c, d]


def test_defaults_make_parameters_optional_and_are_never_shared() -> None:
    shown = make_tool(defaults).spec.parameters
    assert shown["required"] == ["a"]
    assert properties(defaults)["b"] == {"type": "string", "default": "x"}
    assert properties(defaults)["c"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
    for _ in range(2):
        assert run_tool_sync(defaults, {"a": 1}).output == [1, "x", None, [1, 1]]
    assert run_tool_sync(defaults, {"a": 1, "b": None, "d": None}).output == [1, "x", None, [1, 1]]


def with_field_default(x: int = Field(4, le=9, description="Own.")) -> int:
    return x


def test_a_field_may_stand_as_the_default_too() -> None:
    assert properties(with_field_default)["x"] == {
        "type": "integer",
        "maximum": 9,
        "default": 4,
        "description": "Own.",
    }
    assert run_tool_sync(with_field_default, {}).output == 4


def everything(first: int, /, second: int, *rest: int, named: int = 0, **others: str) -> Any:
    return [first, second, rest, named, others]


def test_all_kinds_of_parameters_are_passed_as_python_wants_them() -> None:
    function = tool(everything, strict=False)
    shown = properties(function)
    assert shown["rest"] == {"type": "array", "items": {"type": "integer"}}
    assert shown["others"] == {"type": "object", "additionalProperties": {"type": "string"}}
    given: JsonObject = {"first": 1, "second": 2, "rest": [3, 4], "named": 5, "others": {"a": "b"}}
    assert run_tool_sync(function, given).output == [1, 2, [3, 4], 5, {"a": "b"}]
    assert run_tool_sync(function, {"first": 1, "second": 2}).output == [1, 2, [], 0, {}]


def test_open_arguments_cannot_repeat_a_parameter() -> None:
    given: JsonObject = {"first": 1, "second": 2, "others": {"second": "b"}}
    result = run_tool_sync(tool(everything, strict=False), given)
    assert (
        result.message
        == "The arguments are not valid. arguments.others: must not contain the names of other "
        "parameters: second"
    )


def awkward(schema: int, json: int, model_config: int, _private: int, self: int, copy: int) -> Any:
    return [schema, json, model_config, _private, self, copy]


def test_any_name_is_a_parameter_s_name() -> None:
    names = ("schema", "json", "model_config", "_private", "self", "copy")
    assert tuple(properties(awkward)) == names
    given: JsonObject = {name: number for number, name in enumerate(names)}
    assert run_tool_sync(awkward, given).output == list(range(6))


def renamed(x: Annotated[int, Field(alias="from")]) -> int:
    return x


def test_an_alias_is_the_name_for_the_model() -> None:
    assert list(properties(renamed)) == ["from"]
    assert run_tool_sync(renamed, {"from": 3}).output == 3


def untyped(x, y=2):  # pyright: ignore  # as people write it
    return [x, y]  # pyright: ignore


def test_what_has_no_type_takes_anything() -> None:
    assert properties(untyped) == {"x": {}, "y": {"default": 2}}
    assert run_tool_sync(untyped, {"x": {"a": [1]}}).output == [{"a": [1]}, 2]


def odd_default(x: Any = object()) -> bool:  # noqa: B008
    return type(x) is object


def test_a_default_that_is_no_json_is_used_and_not_shown() -> None:
    assert properties(odd_default) == {"x": {}}
    assert run_tool_sync(odd_default, {}).output is True


class Counter:
    def __init__(self) -> None:
        self.count = 0

    def add(self, ctx: ToolContext, by: int) -> int:
        """Count."""
        self.count += by
        return self.count


def test_a_bound_method_is_a_function() -> None:
    counter = Counter()
    assert list(properties(counter.add)) == ["by"]
    assert run_tool_sync(counter.add, {"by": 2}).output == 2
    assert counter.count == 2


# -- the context ----------------------------------------------------------------------------------


def first(ctx: ToolContext, x: int) -> str:
    return f"{ctx.call_id} {x}"


def annotated(ctx: Annotated[ToolContext, "ours"], x: int) -> str:
    return f"{ctx.call_id} {x}"


def maybe(ctx: ToolContext | None, x: int) -> str:
    assert ctx is not None
    return f"{ctx.call_id} {x}"


def named_only(*, ctx: ToolContext, x: int) -> str:
    return f"{ctx.call_id} {x}"


@pytest.mark.parametrize("function", [first, annotated, maybe, named_only])
def test_a_first_parameter_of_the_contexts_type_is_given_and_hidden(
    function: Callable[..., Any],
) -> None:
    assert list(properties(function)) == ["x"]
    assert run_tool_sync(function, {"x": 1}).output == "call_1 1"


def second(x: int, ctx: ToolContext) -> None: ...
def all_of_them(*ctx: ToolContext) -> None: ...
def both(ctx: ToolContext, again: ToolContext | None = None) -> None: ...


@pytest.mark.parametrize(
    ("function", "parameter"), [(second, "ctx"), (all_of_them, "ctx"), (both, "again")]
)
def test_a_context_anywhere_else_is_an_error_that_names_function_and_parameter(
    function: Callable[..., Any], parameter: str
) -> None:
    with pytest.raises(PluginError) as error:
        make_tool(function)
    assert str(error.value) == (
        f"{__name__}:{function.__name__}: parameter '{parameter}' is a ToolContext, "
        "but only the first parameter can be a ToolContext"
    )


# -- docstrings -----------------------------------------------------------------------------------


def google(city: str, days: int = 1) -> None:
    """Look at the weather.

    It is often wrong.

    Args:
        city: Which city,
            by name.
        days (int): How far
          ahead.

    Returns:
        Nothing.
    """


def numpy(city: str, days: int = 1) -> None:
    """Look at the weather.

    It is often wrong.

    Parameters
    ----------
    city : str
        Which city,
        by name.
    days
        How far
        ahead.

    Returns
    -------
    None
    """


def sphinx(city: str, days: int = 1) -> None:
    """Look at the weather.

    It is often wrong.

    :param city: Which city,
        by name.
    :param int days: How far
        ahead.
    :returns: Nothing.
    """


@pytest.mark.parametrize("style", ["auto", "set"])
@pytest.mark.parametrize("function", [google, numpy, sphinx])
def test_docstrings_of_every_style_describe_the_tool_and_its_parameters(
    function: Any, style: str
) -> None:
    made = make_tool(tool(function, docstring="auto" if style == "auto" else function.__name__))
    assert made.spec.description == "Look at the weather.\n\nIt is often wrong."
    shown: Any = made.spec.parameters["properties"]
    described = {name: " ".join(shown[name]["description"].split()) for name in shown}
    assert described == {"city": "Which city, by name.", "days": "How far ahead."}


def test_a_docstring_can_be_switched_off() -> None:
    made = make_tool(tool(google, docstring="off"))
    assert made.spec.description == ""
    assert "description" not in str(made.spec.parameters)


def test_a_docstring_of_another_style_than_said_is_plain_text() -> None:
    made = make_tool(tool(google, docstring="sphinx"))
    assert "Args:" in made.spec.description


def one_line(x: int) -> None:
    """Do it: now."""


def silent(x: int) -> None: ...


def starred(*args: int, **options: int) -> None:
    """Do it.

    Args:
        *args: Numbers.
        **options: More.
        unknown: Of nothing.
    """


def own_words(x: Annotated[int, Field(description="Mine.")]) -> None:
    """Do it.

    Args:
        x: Not this.
    """


def test_docstrings_may_say_little_or_much() -> None:
    assert make_tool(one_line).spec.description == "Do it: now."
    assert make_tool(silent).spec.description == ""
    shown: Any = properties(tool(starred, strict=False))
    assert (shown["args"]["description"], shown["options"]["description"]) == ("Numbers.", "More.")
    own: Any = properties(own_words)
    assert own["x"]["description"] == "Mine."


def test_name_and_description_can_be_the_author_s() -> None:
    spec = make_tool(tool(google, name="weather", description="Mine.")).spec
    assert (spec.name, spec.description, spec.type) == ("weather", "Mine.", "plugin")
    assert make_tool(tool(google, description="")).spec.description == ""


# -- strict ---------------------------------------------------------------------------------------


def test_strict_tools_are_shown_with_everything_required_and_closed() -> None:
    shown = schema_of(defaults)
    assert shown["required"] == ["a", "b", "c", "d"]
    assert shown["additionalProperties"] is False
    assert schema_of(tool(defaults, strict=False))["required"] == ["a"]


class Open(BaseModel):
    inner: dict[str, int]


class Whole(BaseTool):
    name = "whole"

    def __init__(self, parameters: JsonObject) -> None:
        self.parameters = parameters

    async def run(self, ctx: ToolContext, arguments: JsonObject) -> Any:
        return arguments


def nested(levels: int) -> JsonObject:
    schema: JsonObject = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


@pytest.mark.parametrize(
    ("item", "path"),
    [
        (with_hint(dict[str, int]), "parameters.properties.x.additionalProperties"),
        (with_hint(dict), "parameters.properties.x.additionalProperties"),
        (with_hint(list[Open]), "parameters.$defs.Open.properties.inner.additionalProperties"),
        (Whole({"type": "object", "anyOf": [{"properties": {}}]}), "parameters.anyOf"),
        (Whole(nested(101)), "parameters: must not be nested more than 100"),
    ],
    ids=["map", "bare dict", "map in a model", "anyOf at the root", "too deep"],
)
def test_what_has_no_strict_form_is_refused_with_the_path(item: Any, path: str) -> None:
    with pytest.raises(PluginError) as error:
        make_tool(item)
    assert path in str(error.value)


def test_without_strict_open_maps_are_as_written() -> None:
    function = with_hint(dict[str, int], strict=False)
    assert properties(function)["x"] == {
        "type": "object",
        "additionalProperties": {"type": "integer"},
    }
    assert run_tool_sync(function, {"x": {"a": 1}}).output == "{'a': 1}"


# -- results --------------------------------------------------------------------------------------


def person() -> Person: ...  # pyright: ignore[reportReturnType]


def silent_about_it():  # pyright: ignore  # as people write it
    ...


def test_an_output_schema_can_be_made_of_what_is_returned() -> None:
    spec = make_tool(tool(person, output_schema=True)).spec
    assert spec.output_schema is not None
    assert spec.output_schema["$ref"] == "#/$defs/Person"
    own: JsonObject = {"type": "object"}
    assert make_tool(tool(person, output_schema=own)).spec.output_schema == own
    assert make_tool(person).spec.output_schema is None
    with pytest.raises(PluginError, match="requires a return annotation"):
        make_tool(tool(silent_about_it, output_schema=True))
