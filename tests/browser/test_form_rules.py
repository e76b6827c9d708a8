"""What a form says while somebody types is what the server says when it is sent: never stricter, so
that nobody is kept from a decision, and as strict for what forms know."""

import json
from typing import Any

import pytest

from runward.domain.schema.validator import Validator
from tests.browser.conftest import Opens
from tests.support.services.client import Json

UUID = "3f2a6c1e-8d1b-4c57-9b0e-2f1d5a7c9e10"
TREE: Json = {"properties": {"kids": {"items": {"$ref": "#/$defs/tree"}}, "n": {"type": "integer"}}}
CASES: list[tuple[Json, list[Any]]] = [
    ({"type": "string"}, ["", "a", 1, None, [], {}, True]),
    ({"type": ["string", "null"]}, ["a", None, 1]),
    ({"type": "integer"}, [1, 1.0, 1.5, 10**20, -3, "1", True]),
    ({"type": "number"}, [1, 1.5, 1e300, 10**30, "1"]),
    ({"type": "boolean"}, [True, False, 0, "true"]),
    ({"enum": ["a", 1, None, {"b": [1]}]}, ["a", "b", 1, None, {"b": [1]}, {"b": [2]}]),
    ({"const": {"a": 1, "b": 2}}, [{"b": 2, "a": 1}, {"a": 1}, None]),
    ({"minLength": 2, "maxLength": 3}, ["a", "ab", "abcd", "😀😀", "😀", 5]),
    ({"pattern": "^a+$"}, ["aa", "ab", "", 5]),
    ({"pattern": r"^\p{L}+$"}, ["äb", "1"]),
    ({"minimum": 1, "maximum": 5}, [0, 1, 5, 6, 10**20, "a"]),
    ({"exclusiveMinimum": 1, "exclusiveMaximum": 5}, [1, 1.1, 4.9, 5]),
    ({"multipleOf": 0.01}, [0.07, 19.99, 0.3, 4.02, 1, 0.005]),
    ({"multipleOf": 3}, [9, 10, 3_000_000_000_000, "a"]),
    ({"format": "date"}, ["2026-02-28", "2026-02-30", "2024-02-29", "0000-01-01", "x", 5]),
    ({"format": "time"}, ["09:30:00Z", "09:30:00+02:00", "09:30:00.123z", "09:30"]),
    ({"format": "date-time"}, ["2026-02-28T09:30:00Z", "2026-02-28t09:30:00.1+01:00", "2026", "x"]),
    ({"format": "email"}, ["ada@example.com", '"a b"@example.com', "ada"]),
    ({"format": "uri"}, ["https://a.example/x?y#z", "mailto:a@b.example", "urn:a:b", "a b", "/x"]),
    ({"format": "uuid"}, [UUID, UUID.upper(), "3f2a"]),
    ({"format": "ipv4"}, ["192.0.2.7", "192.0.2.256", "192.0.2"]),
    ({"format": "unheard-of"}, ["x"]),
    ({"items": {"type": "integer"}, "minItems": 1, "maxItems": 2}, [[], [1], [1, "a"], [1, 2, 3]]),
    ({"prefixItems": [{"type": "string"}], "items": False}, [["a"], ["a", 1], [1], []]),
    ({"uniqueItems": True}, [[1, 2], [1, 1], [{"a": 1}, {"a": 1}], [1, "1"]]),
    ({"contains": {"const": 1}}, [[1, 2], [2], []]),
    ({"contains": {"const": 1}, "minContains": 0}, [[2]]),
    (
        {"properties": {"a": {"type": "string"}}, "required": ["a"]},
        [{"a": "x"}, {}, {"a": 1}, {"b": 1, "a": ""}],
    ),
    ({"properties": {"a": {}}, "additionalProperties": False}, [{"a": 1}, {"b": 1}, {}]),
    ({"additionalProperties": {"type": "integer"}}, [{"a": 1}, {"a": "x"}]),
    (
        {"patternProperties": {"^x": {"type": "integer"}}, "additionalProperties": False},
        [{"x1": 1}, {"x1": "a"}, {"y": 1}],
    ),
    ({"propertyNames": {"maxLength": 2}}, [{"ab": 1}, {"abc": 1}]),
    ({"minProperties": 1, "maxProperties": 1}, [{}, {"a": 1}, {"a": 1, "b": 2}]),
    ({"dependentRequired": {"a": ["b"]}}, [{"a": 1}, {"a": 1, "b": 1}, {"c": 1}]),
    ({"dependentSchemas": {"a": {"required": ["b"]}}}, [{"a": 1}, {"a": 1, "b": 1}, {}]),
    ({"anyOf": [{"type": "string"}, {"minimum": 5}]}, ["a", 6, 4, None]),
    ({"oneOf": [{"type": "integer"}, {"minimum": 5}]}, [3, 5.5, 6, 4.5]),
    ({"allOf": [{"minLength": 2}, {"pattern": "b"}]}, ["ab", "b", "aa"]),
    ({"not": {"type": "null"}}, [None, 1]),
    (
        {
            "if": {"properties": {"k": {"const": 1}}, "required": ["k"]},
            "then": {"required": ["a"]},
            "else": {"required": ["b"]},
        },
        [{"k": 1, "a": 1}, {"k": 1}, {"b": 1}, {}],
    ),
    (
        {"$ref": "#/$defs/tree", "$defs": {"tree": TREE}},
        [{"kids": [{"n": 1}, {"kids": [{"n": "x"}]}]}, {"kids": [{"n": 1}]}],
    ),
    ({"$ref": "#/$defs/a~1b%20c", "$defs": {"a/b c": {"type": "string"}}}, ["a", 1]),
    ({"items": True}, [[1, "a"]]),
    ({"properties": {"a": False}}, [{}, {"a": 1}]),
]  # fmt: skip

JUDGED_BY_THE_PAGE = """
async (cases) => {
  const { parse } = await import("./console/exact.js");
  const { problems } = await import("./console/schema.js");
  return parse(cases).map(([schema, values]) =>
    values.map((value) => problems({ value }, schema)
      .map(([path, said]) => `${path} ${said}`)));
}
"""


FIELDS_OF_THE_PAGE = """
async (schema) => {
  const { form } = await import("./console/form.js");
  return form(JSON.parse(schema), {}, () => null).element.querySelectorAll("*").length;
}
"""


def wrapped(schema: Json) -> Json:
    """As the schema of one argument."""
    defs = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    inner = {name: value for name, value in schema.items() if name != "$defs"}
    return {"type": "object", "properties": {"value": inner}, **defs}


def test_a_form_says_what_the_server_would(opens: Opens) -> None:
    window = opens()
    asked = [[wrapped(one), values] for one, values in CASES]
    found = window.page.evaluate(JUDGED_BY_THE_PAGE, json.dumps(asked))
    for (schema, values), said in zip(CASES, found, strict=True):
        validator = Validator(wrapped(schema))
        for value, page in zip(values, said, strict=True):
            server = validator.problems({"value": value})
            assert bool(page) == bool(server), (schema, value, page, server)


@pytest.mark.parametrize(
    ("pattern", "length"),
    [("a*b", 100_000), ("a?" * 40 + "a" * 40 + "$", 39), ("(a|a)" * 40 + "b", 40)],
    ids=["a repetition in a long text", "what may be left out", "alternatives"],
)
def test_a_pattern_that_would_stop_the_page_is_left_to_the_server(
    opens: Opens, pattern: str, length: int
) -> None:
    page = opens().page
    page.set_default_timeout(10_000)
    asked = [[wrapped({"pattern": pattern}), ["a" * length]]]
    assert page.evaluate(JUDGED_BY_THE_PAGE, json.dumps(asked)) == [[[]]]


def test_schemas_that_would_stop_the_page_are_left_to_the_server(opens: Opens) -> None:
    page = opens().page
    page.set_default_timeout(20_000)
    again: Json = {"$ref": "#/$defs/t"}
    pair: Json = {"type": "object", "properties": {"a": again, "b": again}, "required": ["a", "b"]}
    endless: Json = {"anyOf": [again, {"type": "null"}]}
    schemas: list[Json] = [{"allOf": [again, again]}, {"anyOf": [again, again]}, pair, endless]
    asked: list[Any] = [[{**wrapped(again), "$defs": {"t": schema}}, ["x"]] for schema in schemas]
    asked.append([wrapped({"uniqueItems": True}), [[{"a": at} for at in range(20_000)]]])
    asked.append([wrapped({"items": {"enum": [*range(8_000)]}}), [[-1] * 20_000]])
    found = page.evaluate(JUDGED_BY_THE_PAGE, json.dumps(asked))
    assert [bool(said) for [said] in found] == [False, False, True, False, False, False]
    for schema, _ in asked:
        drawn = page.evaluate(FIELDS_OF_THE_PAGE, json.dumps(schema))
        assert 0 < drawn < 100_000, schema
