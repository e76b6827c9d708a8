"""JSON Schemas: what registration refuses, what a model is shown, how a call is checked."""

import time
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.domain.errors import FieldError
from runward.domain.json import JsonObject
from runward.domain.registry.tools import ToolSpec
from runward.domain.run.tools import compile_tool
from runward.domain.schema.strict import strict_form
from runward.domain.schema.validator import (
    MAX_SCHEMA_BYTES,
    SchemaError,
    Validator,
    check_schema,
    parse_arguments,
)

ORDER: JsonObject = {
    "type": "object",
    "properties": {
        "amount": {"type": "number", "minimum": 0},
        "currency": {"enum": ["EUR", "USD"]},
        "note": {"type": "string", "maxLength": 5},
        "lines": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"sku": {"type": "string"}, "count": {"type": "integer"}},
                "required": ["sku"],
            },
        },
    },
    "required": ["amount"],
}
BRANCHES: list[Any] = [
    {
        "type": "object",
        "properties": {
            "op": {"const": op},
            "args": {"type": "array", "items": {"$ref": "#/$defs/node"}},
        },
        "required": ["op", "args"],
    }
    for op in ("and", "or", "not", "xor", "any", "all")
]
UNION: JsonObject = {
    "type": "object",
    "properties": {"where": {"$ref": "#/$defs/node"}},
    "required": ["where"],
    "$defs": {"node": {"oneOf": [*BRANCHES, {"type": "string"}]}},
}


def nested(depth: int, innermost: Any = None) -> Any:
    schema: Any = innermost or {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def doubling(times: int, keyword: str = "anyOf") -> JsonObject:
    """Small, and 2 ** times large once its references are followed."""
    steps: dict[str, Any] = {
        f"d{i}": {keyword: [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(times)
    }
    steps[f"d{times}"] = {"type": "string"}
    return {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": steps}


# Registration.


@pytest.mark.parametrize("schema", [ORDER, UNION, {"type": "object", "properties": {}}])
@pytest.mark.parametrize("strict", [True, False])
def test_a_good_schema_has_no_problems(schema: JsonObject, *, strict: bool) -> None:
    assert check_schema(schema, strict=strict) == []


@pytest.mark.parametrize(
    ("schema", "path", "said"),
    [
        ([], "parameters", "must be a JSON Schema"),
        ({}, "parameters.type", 'must be "object"'),
        ({"type": "array"}, "parameters.type", 'but is the text "array"'),
        (
            {"type": "object", "properties": {"a": {"type": "strng"}}},
            "parameters.properties.a.type",
            "must be one of array, boolean",
        ),
        (
            {"type": "object", "properties": {"a": {"minimum": "1"}}},
            "parameters.properties.a.minimum",
            "number",
        ),
        ({"type": "object", "required": "a"}, "parameters.required", "array"),
        ({"type": "object", "properties": []}, "parameters.properties", "object"),
        (
            {"type": "object", "properties": {"a": {"pattern": "("}}},
            "parameters.properties.a.pattern",
            "regular expression",
        ),
        ({"$schema": "http://example.com/x", "type": "object"}, "parameters.$schema", "2020-12"),
        (
            {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:1/x"}}},
            "parameters.properties.a.$ref",
            "never fetches a schema",
        ),
        (
            {"type": "object", "allOf": [{"$ref": "file:///etc/hosts"}]},
            "parameters.allOf.0.$ref",
            "",
        ),
        ({"type": "object", "anyOf": [{"$ref": "#/$defs/no"}]}, "parameters.anyOf.0.$ref", "exist"),
        (
            {"type": "object", "properties": {"a": {"$id": "x"}}},
            "parameters.properties.a.$id",
            "not supported",
        ),
        (nested(60), "parameters", "nested more than 100"),
        (
            {"type": "object", "description": "x" * MAX_SCHEMA_BYTES},
            "parameters",
            "must have at most",
        ),
        (doubling(40), "parameters", "references"),
    ],
)
def test_a_bad_schema_is_refused_with_its_path(schema: Any, path: str, said: str) -> None:
    problem = check_schema(schema, strict=False)[0]
    assert problem.path == path
    assert said in problem.message


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"type": "object", "additionalProperties": True}, "additionalProperties"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "additionalProperties"),
        (
            {"type": "object", "properties": {"m": {"type": "object", "additionalProperties": {}}}},
            "properties.m.additionalProperties",
        ),
        ({"type": "object", "anyOf": [{"required": ["a"]}]}, "anyOf"),
        ({"type": "object", "patternProperties": {"^x": {}}}, "patternProperties"),
        ({"type": "object", "properties": {"a": {"not": {}}}}, "properties.a.not"),
        (
            {
                "type": "object",
                "properties": {"a": {"allOf": [{"type": "string"}, {"minLength": 1}]}},
            },
            "properties.a.allOf",
        ),
        ({"type": "object", "properties": {}, "required": ["a"]}, "required"),
    ],
)
def test_strict_refuses_what_no_provider_takes_and_says_how_to_go_on(
    schema: Any, path: str
) -> None:
    problem = check_schema(schema, strict=True)[0]
    assert problem.path == f"parameters.{path}"
    assert '"strict": false' in problem.message
    assert check_schema(schema, strict=False) == []


def test_many_problems_are_cut_off() -> None:
    schema: Any = {"type": "object", "properties": {f"p{i}": {"type": "no"} for i in range(100)}}
    assert len(check_schema(schema, strict=True)) == 10


# What a model is shown.


def test_the_strict_form_requires_everything_and_lets_the_optional_be_null() -> None:
    form: Any = strict_form(ORDER)
    assert form["required"] == ["amount", "currency", "note", "lines"]
    assert form["additionalProperties"] is False
    assert form["properties"]["amount"] == {"type": "number", "minimum": 0}
    assert form["properties"]["currency"] == {"anyOf": [{"enum": ["EUR", "USD"]}, {"type": "null"}]}
    assert form["properties"]["note"] == {"type": ["string", "null"], "maxLength": 5}
    line = form["properties"]["lines"]["items"]
    assert line["required"] == ["sku", "count"]
    assert line["additionalProperties"] is False
    assert line["properties"]["count"] == {"type": ["integer", "null"]}


def test_the_strict_form_writes_one_of_as_any_of_and_unwraps_a_single_all_of() -> None:
    form: Any = strict_form(
        {
            "type": "object",
            "properties": {
                "a": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
                "b": {"allOf": [{"$ref": "#/$defs/b"}], "description": "B"},
                "c": {"type": "string", "enum": ["x"]},
            },
            "$defs": {"b": {"type": "string"}},
        }
    )
    assert form["properties"]["a"]["anyOf"] == [
        {"type": "string"},
        {"type": "integer"},
        {"type": "null"},
    ]
    assert form["properties"]["b"] == {
        "description": "B",
        "anyOf": [{"$ref": "#/$defs/b"}, {"type": "null"}],
    }
    assert form["properties"]["c"] == {"type": ["string", "null"], "enum": ["x", None]}


def test_the_strict_form_does_not_change_the_schema_and_is_its_own_strict_form() -> None:
    before = str(UNION)
    form = strict_form(UNION)
    assert str(UNION) == before
    assert strict_form(form) == form
    assert check_schema(form, strict=True) == []


# How a call is checked.


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"amount": "5"}, ("arguments.amount", 'must be a number, but is the text "5"')),
        ({"amount": -1}, ("arguments.amount", "must be at least 0, but is -1")),
        ({}, ("arguments.amount", "is missing; it must be a number")),
        (
            {"amount": 1, "tip": 2},
            (
                "arguments.tip",
                "is an unknown property; the known properties are: amount, currency, note, lines",
            ),
        ),
        (
            {"amount": 1, "currency": "GBP"},
            ("arguments.currency", 'must be one of "EUR","USD", but is the text "GBP"'),
        ),
        (
            {"amount": 1, "note": "too long"},
            ("arguments.note", 'must have at most 5 characters, but is the text "too long"'),
        ),
        (
            {"amount": 1, "lines": [{"sku": "a"}, {"sku": 7}]},
            ("arguments.lines.1.sku", "must be text, but is 7"),
        ),
        (
            {"amount": 1, "lines": {}},
            ("arguments.lines", "must be an array, but is an empty object"),
        ),
    ],
)
def test_a_problem_names_the_path_what_was_expected_and_what_came(
    arguments: JsonObject, problem: tuple[str, str]
) -> None:
    assert Validator(ORDER, strict=True).problems(arguments) == [FieldError(*problem)]


def test_a_problem_inside_a_union_is_found_where_it_is() -> None:
    inner: Any = {"where": {"op": "and", "args": ["x", {"op": "not", "args": [5]}]}}
    assert Validator(UNION).problems(inner) == [
        FieldError(
            "arguments.where.args.1.args.0",
            "must be an object with op, args or text, but is 5",
        )
    ]


@pytest.mark.parametrize(
    "schema",
    [
        {"if": {"required": ["a"]}, "then": {"required": ["b"]}},
        {"not": {"required": ["a"]}},
        {"dependentRequired": {"a": ["b"]}},
        {"patternProperties": {"^a": {"type": "string"}}},
        {"propertyNames": {"maxLength": 0}},
        {"allOf": [{"properties": {"a": False}}]},
        {"properties": {"a": {"contains": {"const": 1}, "type": ["array", "integer"]}}, "not": {}},
    ],
)
def test_every_refusal_has_a_problem(schema: JsonObject) -> None:
    assert Validator(schema).problems({"a": 1})


def test_problems_are_few_and_short() -> None:
    schema: JsonObject = {"type": "object", "additionalProperties": {"type": "integer"}}
    problems = Validator(schema).problems({f"{'k' * 500}{i}": "v" * 10_000 for i in range(500)})
    assert len(problems) == 10
    assert all(len(problem.path) < 100 and len(problem.message) < 200 for problem in problems)


def test_a_nested_union_is_refused_in_no_time() -> None:
    """The library's own error list took this half a minute and gigabytes."""
    value: Any = 5
    for _ in range(10):
        value = {"op": "nope", "args": [value]}
    begun = time.process_time()
    assert Validator(UNION).problems({"where": value})
    assert time.process_time() - begun < 1


def test_a_schema_that_registration_refuses_does_not_compile() -> None:
    with pytest.raises(SchemaError, match="outside"):
        Validator({"$ref": "http://127.0.0.1:1/x"})


def test_a_broken_reference_outside_the_subschemas_is_refused() -> None:
    schema: JsonObject = {
        "type": "object",
        "properties": {"a": {"$ref": "#/x/a"}},
        "x": {"a": {"$ref": "#/nope"}},
    }
    [problem] = check_schema(schema, strict=False)
    assert "does not exist" in problem.message


def test_a_value_that_draft_4_excludes_is_refused() -> None:
    amount: JsonObject = {"minimum": 1, "exclusiveMinimum": True}
    schema: JsonObject = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "type": "object",
        "properties": {"amount": amount},
    }
    assert check_schema(schema, strict=False) == []
    assert Validator(schema).problems({"amount": 1})
    assert Validator(schema).problems({"amount": 2}) == []


LARGE: Any = {"type": "object", "properties": {"a": {"pattern": "((a{0,99}){0,99}){0,99}"}}}


@pytest.mark.parametrize("field", ["parameters", "output_schema"])
def test_a_stored_tool_whose_schema_is_too_large_refuses_its_calls(field: str) -> None:
    assert "8 MiB" in check_schema(LARGE, strict=False)[0].message
    spec = {"name": "t", "type": "client", "parameters": {"type": "object"}, "strict": False}
    tool = compile_tool(ToolSpec.model_validate({**spec, field: LARGE}), 1)
    [problem] = tool.arguments.problems(tool.arguments.without_nulls({}))
    assert "no longer accepts" in problem.message
    assert "8 MiB" in problem.message


def test_texts_that_take_a_pattern_too_long_are_refused_with_a_reason() -> None:
    schema: JsonObject = {"type": "object", "properties": {"a": {"pattern": "(?<=x)y"}}}
    [problem] = Validator(schema).problems({"a": "a" * 100_000})
    assert "shorter strings" in problem.message


@pytest.mark.parametrize(
    "pattern", ["^[A-Za-z0-9+/=]*$", r"^\S+$", r"^(?!\s*$).+", "^(?=.*a)(?!.*b)[a-z]+$", "a$"]
)
def test_an_honest_pattern_checks_a_long_text(pattern: str) -> None:
    text: JsonObject = {"type": "string", "pattern": pattern}
    schema: JsonObject = {"type": "object", "properties": {"a": text}}
    assert Validator(schema).problems({"a": "a" * 1_000_000}) == []
    [problem] = Validator(schema).problems({"a": " "})
    assert "must match the pattern" in problem.message


# Null for "left out", in strict tools.


def test_a_null_for_an_optional_property_is_left_out() -> None:
    validator = Validator(ORDER, strict=True)
    given: JsonObject = {"amount": 1, "currency": None, "note": None, "lines": [
        {"sku": "a", "count": None}
    ]}  # fmt: skip
    assert validator.problems(given) == []
    assert validator.without_nulls(given) == {"amount": 1, "lines": [{"sku": "a"}]}


def test_leaving_it_out_altogether_is_right_too() -> None:
    assert Validator(ORDER, strict=True).problems({"amount": 1}) == []


def test_a_null_that_means_something_stays() -> None:
    schema: JsonObject = {
        "type": "object",
        "properties": {"until": {"type": ["string", "null"]}, "note": {"type": "string"}},
    }
    validator = Validator(schema, strict=True)
    assert validator.without_nulls({"until": None, "note": None}) == {"until": None}


def test_a_null_for_a_required_property_is_a_problem() -> None:
    assert Validator(ORDER, strict=True).problems({"amount": None}) == [
        FieldError("arguments.amount", "must be a number, but is null")
    ]


def test_nulls_are_left_out_inside_unions_and_recursion() -> None:
    schema: JsonObject = {
        "type": "object",
        "properties": {"tree": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]}},
        "$defs": {
            "tree": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "left": {"$ref": "#/$defs/tree"}},
                "required": ["name"],
            }
        },
    }
    given: Any = {"tree": {"name": "a", "left": {"name": "b", "left": None}}}
    validator = Validator(schema, strict=True)
    assert validator.without_nulls(given) == {"tree": {"name": "a", "left": {"name": "b"}}}


def test_a_tool_that_is_not_strict_gets_its_nulls() -> None:
    validator = Validator(ORDER)
    assert validator.problems({"amount": 1, "note": None}) != []
    assert validator.without_nulls({"amount": 1, "note": None}) == {"amount": 1, "note": None}


def objects_of(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    @st.composite
    def draw_object(draw: st.DrawFn) -> JsonObject:
        properties = draw(st.dictionaries(st.sampled_from("abcd"), inner))
        required = draw(st.sets(st.sampled_from("abcd")))
        return {
            "type": "object",
            "properties": properties,
            "required": [name for name in properties if name in required],
        }

    @st.composite
    def draw_array(draw: st.DrawFn) -> JsonObject:
        return {"type": "array", "items": draw(inner)}

    return draw_object() | draw_array()


PLAIN: list[Any] = [{"type": "string"}, {"type": "integer"}, {"enum": ["x", "y"]}]
SCHEMAS = st.recursive(st.sampled_from(PLAIN), objects_of, max_leaves=12)


def example(schema: Any) -> Any:
    """What a model answers to a strict schema: everything that may be null is null."""
    if "anyOf" in schema or "null" in (schema.get("type") or ()):
        return None
    if "enum" in schema:
        return schema["enum"][0]
    match schema["type"]:
        case "object":
            return {name: example(child) for name, child in schema["properties"].items()}
        case "array":
            return [example(schema["items"])]
        case kind:
            return {"string": "", "integer": 0}[kind]


@given(properties=st.dictionaries(st.sampled_from("abcd"), SCHEMAS))
def test_whatever_fits_the_strict_form_fits_the_tool_once_its_nulls_are_left_out(
    properties: Any,
) -> None:
    schema: JsonObject = {"type": "object", "properties": properties}
    assert check_schema(schema, strict=True) == []
    form = strict_form(schema)
    given = example(form)
    assert Validator(form).problems(given) == []
    validator = Validator(schema, strict=True)
    assert validator.problems(given) == []
    assert Validator(schema).problems(validator.without_nulls(given)) == []


# Arguments as the model wrote them.


@pytest.mark.parametrize("raw", ["", "  ", "{}", "\n{ }\n"])
def test_no_arguments_are_an_empty_object(raw: str) -> None:
    assert parse_arguments(raw) == {}


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ('{"x":', "line 1 column 5"),
        ("{'x': 1}", "line 1 column 2"),
        ("[1]", "but is an array of 1"),
        ("null", "but is null"),
        ('"{}"', "but is the text"),
        ('{"x": NaN}', "not valid JSON"),
        ('{"x": "\\ud800"}', "not valid JSON"),
        ('{"a":' * 70 + "1" + "}" * 70, "more than 64"),
        ("[" * 100_000, "not valid JSON"),
        ('"' + "x" * 1_048_576, "must have at most"),
        ('{"a":[' + "1," * 500_000 + "1]}", "more than 500,000 values"),
    ],
    ids=lambda text: text[:20],
)
def test_what_is_no_object_is_said_with_its_place(raw: str, said: str) -> None:
    problems = parse_arguments(raw)
    assert isinstance(problems, list)
    assert problems[0].path == "arguments"
    assert said in problems[0].message


def test_what_postgres_cannot_hold_is_replaced() -> None:
    assert parse_arguments('{"a\\u0000": "b\\u0000"}') == {"a\ufffd": "b\ufffd"}


@given(st.text())
def test_no_text_breaks_the_parser(raw: str) -> None:
    assert isinstance(parse_arguments(raw), (dict, list))


def test_dependencies_count_among_the_subschemas() -> None:
    definitions: dict[str, Any] = {
        f"d{n}": {"dependencies": {at: {"$ref": f"#/definitions/d{n + 1}"} for at in "ab"}}
        for n in range(60)
    }
    schema: JsonObject = {
        "type": "object",
        "allOf": [{"$ref": "#/definitions/d0"}],
        "definitions": definitions | {"d60": {}},
    }
    assert "100000 subschemas" in check_schema(schema, strict=False)[0].message
    named: JsonObject = {"type": "object", "dependencies": {"a": ["b"]}}
    assert check_schema(named, strict=False) == []
    assert Validator(named).problems({"a": 1})


def test_the_schema_of_schemas_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[Any] = []
    compile_schema = jsonschema_rs.validator_for

    def compiling(schema: Any, **how: Any) -> jsonschema_rs.Validator:
        compiled.append(schema)
        return compile_schema(schema, **how)

    monkeypatch.setattr(jsonschema_rs, "validator_for", compiling)
    schemas: list[JsonObject] = [{"type": "object", "title": f"{n}"} for n in range(3)]
    check_schema(schemas[0], strict=False)
    compiled.clear()
    for schema in schemas:
        assert check_schema(schema, strict=False) == []
    assert compiled == schemas
