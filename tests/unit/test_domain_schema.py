"""JSON Schemas: the rarer keywords, booleans as schemas, references and the limits of looking."""

from typing import Any

import pytest

from runward.domain.errors import FieldError
from runward.domain.json import JsonObject
from runward.domain.schema.strict import NullRemover, strict_form
from runward.domain.schema.subschemas import (
    MAX_STEPS,
    Effort,
    Subschemas,
    pointer_of,
    resolve_pointer,
)
from runward.domain.schema.validator import (
    SchemaError,
    Validator,
    check_schema,
    parse_arguments,
)

CARD: JsonObject = {
    "type": "object",
    "properties": {"kind": {"const": "card"}, "pin": {"type": "integer"}},
    "required": ["kind", "pin"],
}
CASH: JsonObject = {
    "type": "object",
    "properties": {"kind": {"enum": ["cash", "coin"]}, "sum": {"type": "integer"}},
    "required": ["kind"],
}


def said(schema: Any, value: Any) -> list[tuple[str, str]]:
    return [(one.path, one.message) for one in Validator(schema, at="v").problems(value)]


@pytest.mark.parametrize(
    ("schema", "value", "problem"),
    [
        (
            {"prefixItems": [{"type": "string"}], "items": {"type": "integer"}},
            ["a", 1, "b"],
            ("v.2", 'must be an integer, but is the text "b"'),
        ),
        ({"prefixItems": [{"type": "string"}]}, [1, 2], ("v.0", "must be text, but is 1")),
        (
            {"oneOf": [{"type": "integer"}, {"minimum": 5}]},
            7,
            ("v", "must match exactly one of 2 alternatives, but matches 2"),
        ),
        (
            {"anyOf": [{"type": "integer"}, {"type": "number"}], "minimum": 9},
            7,
            ("v", "must be at least 9, but is 7"),
        ),
        (
            {"anyOf": [{"const": 1}, {"enum": [2, 3]}]},
            4,
            ("v", "must be 1 or one of 2,3, but is 4"),
        ),
        (
            {"oneOf": [CARD, CASH]},
            {"kind": "card"},
            ("v.pin", "is missing; it must be an integer"),
        ),
        (
            {"oneOf": [CARD, CASH]},
            {"kind": "cheque"},
            (
                "v",
                "must be an object with kind, pin or an object with kind, sum, "
                "but is an object with kind",
            ),
        ),
        (
            {"required": ["a"], "properties": {"a": True}},
            {},
            ("v.a", "is missing; it must be any value"),
        ),
        (
            {"anyOf": [False, {"minimum": 5}, {"type": "string"}]},
            4,
            ("v", "must be at least 5, but is 4"),
        ),
        (
            {"properties": {"a": False}},
            {"a": 1},
            ("v.a", "does not match the tool's schema, but is 1"),
        ),
    ],
)
def test_a_problem_is_named_where_it_is(schema: Any, value: Any, problem: tuple[str, str]) -> None:
    assert said(schema, value) == [problem]


def test_looking_ends_at_its_limit() -> None:
    """Ten problems at most, whichever keyword found them."""
    schema = {"type": "object", "required": [f"p{i}" for i in range(40)]}
    assert len(said(schema, {})) == 10
    wide = {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}
    assert len(said(wide, [["x"] * 3000])) == 10


def test_a_schema_too_deep_to_compile_is_a_schema_error() -> None:
    schema: Any = {}
    for _ in range(2_000):
        schema = {"not": schema}
    with pytest.raises(SchemaError, match="ecursion"):
        Validator(schema)


def test_a_problem_of_the_schema_is_named_once_for_each_place() -> None:
    schema: Any = {"type": "object", "properties": {"a": {"minLength": -1.5}}}
    paths = [problem.path for problem in check_schema(schema, strict=False)]
    assert paths == ["parameters.properties.a.minLength"]


UNWRITABLE: list[tuple[Any, str, str]] = [
    (
        {"anyOf": [{"type": "string"}], "oneOf": [{"type": "string"}]},
        "parameters.properties.a.oneOf",
        "is not allowed together with anyOf",
    ),
    (
        {"type": "object", "properties": {}, "anyOf": [{}]},
        "parameters.properties.a.anyOf",
        "is not allowed together with properties",
    ),
]


@pytest.mark.parametrize(("schema", "path", "said"), UNWRITABLE)
def test_strict_refuses_what_it_cannot_write(schema: Any, path: str, said: str) -> None:
    [problem] = check_schema({"type": "object", "properties": {"a": schema}}, strict=True)
    assert problem.path == path
    assert said in problem.message


def test_the_strict_form_of_what_is_no_object_of_keywords_is_itself() -> None:
    form: Any = strict_form({"type": "object", "properties": {"a": True}})
    assert form["properties"]["a"] is True
    empty: Any = strict_form({"type": "object"})
    assert empty == {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }


# References.


def test_a_reference_may_point_to_the_whole_schema() -> None:
    assert pointer_of("#") == ()
    tree: JsonObject = {"type": "object", "properties": {"below": {"$ref": "#"}}}
    assert check_schema(tree, strict=True) == []
    assert said(tree, {"below": {"below": 5}}) == [("v.below.below", "must be an object, but is 5")]


def test_names_in_a_pointer_are_unescaped() -> None:
    assert pointer_of("#/$defs/a~1b%20c~0d") == ("$defs", "a/b c~d")
    assert pointer_of("other.json#/a") is None
    assert resolve_pointer({"$defs": [{"a": 1}]}, ("$defs", "0", "a")) == 1
    with pytest.raises(LookupError):
        resolve_pointer({"$defs": [{}]}, ("$defs", "1"))


def test_a_long_chain_of_references_is_followed_to_a_limit() -> None:
    chain: Any = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(50)}
    parts = Subschemas({"$defs": {**chain, "d50": {"type": "string"}}})
    pointer, schema = parts.resolve(("$defs", "d0"))
    assert (pointer, schema) == (("$defs", "d32"), {"$ref": "#/$defs/d33"})
    assert parts.resolve(("$defs", "d40")) == (("$defs", "d50"), {"type": "string"})


# Nulls of optional properties.


def test_nulls_are_left_out_in_the_alternative_that_fits_then() -> None:
    schema: JsonObject = {
        "type": "object",
        "properties": {"pay": {"anyOf": [False, CARD, CASH, {"type": "integer"}]}},
    }
    validator = Validator(schema, strict=True)
    kept = validator.without_nulls({"pay": {"kind": "cash", "sum": None}})
    assert kept == {"pay": {"kind": "cash"}}
    wrong: JsonObject = {"pay": {"kind": "card", "pin": None}}
    assert validator.without_nulls(wrong) == wrong


def test_a_value_beneath_a_schema_without_properties_stays() -> None:
    schema: JsonObject = {
        "type": "object",
        "properties": {"a": False, "b": {"type": "object"}, "c": {"type": "integer"}},
    }
    validator = Validator(schema, strict=True)
    assert validator.without_nulls({"a": 1, "b": {}, "c": None}) == {"a": 1, "b": {}}


def test_leaving_out_nulls_gives_up_at_its_limit() -> None:
    schema: JsonObject = {
        "type": "array",
        "items": {"type": "object", "properties": {"a": {"type": "string"}}},
    }
    value: Any = [{"a": None}] * (MAX_STEPS + 1)
    assert NullRemover(Subschemas(schema), Effort(value)).clean(value) == [
        *([{}] * (MAX_STEPS - 1)),
        *([{"a": None}] * 2),
    ]


def test_a_mistake_behind_thousands_of_parts_that_fit_is_found() -> None:
    schema: JsonObject = {"type": "array", "items": {"type": "integer"}}
    [problem] = Validator({"type": "object", "properties": {"a": schema}}).problems(
        {"a": [*([1] * 3 * MAX_STEPS), "x"]}
    )
    assert problem == FieldError("arguments", "does not match the tool's schema")


def test_arguments_that_are_no_object_have_one_problem() -> None:
    assert parse_arguments("5") == [FieldError("arguments", "must be a JSON object, but is 5")]
