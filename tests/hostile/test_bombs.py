"""Rules and schemas that take excessive time or memory. Each is refused, or evaluated within its
limits, and the runs of other projects continue.
"""

import resource
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final, cast
from uuid import uuid4

import pytest

from runward.domain.ids import ProjectId
from runward.domain.json import JsonObject
from runward.domain.registry.tools import ToolSpec
from runward.domain.schema.validator import Validator, check_schema
from runward.llm.offline.arguments import fill_arguments
from runward.llm.providers.tools import ToolDefinitions
from runward.tools.rules import RuleEvaluator, RuleQuestion
from tests.api.project import Project, call
from tests.hostile.figures import record
from tests.support.models.chat_server import calls, text
from tests.support.services.client import Json
from tests.support.tools.server import Behaviour

CPU_SECONDS: Final = 2.0
"""For a schema and one value; the same for an honest pair takes less than a millisecond."""
RULE_SECONDS: Final = 15.0
STATM: Final = Path("/proc/self/statm")
OPEN: Final[Json] = {"type": "object", "properties": {}, "additionalProperties": True}


def of(name: str, schema: Any) -> JsonObject:
    return {"type": "object", "properties": {name: schema}}


def nested(key: str, depth: int, *, many: bool = False) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(depth):
        schema = {key: [schema, schema]} if many else {key: schema}
    return schema


def doubling(key: str, depth: int) -> JsonObject:
    """Each definition refers twice to the next."""
    definitions: Any = {}
    for at in range(depth):
        definitions[f"d{at}"] = {key: [{"$ref": f"#/$defs/d{at + 1}"}] * 2}
    last: JsonObject = {f"d{depth}": {"type": "string"}}
    return {**of("x", {"$ref": "#/$defs/d0"}), "$defs": {**definitions, **last}}


def tree(key: str) -> JsonObject:
    """A recursive union: each level of a value fits no branch, and is tried in all of them."""
    inner: Any = {"$ref": "#/$defs/t"}
    branches: Any = [
        {"type": "object", "properties": {"a": inner, "k": {"const": number}}, "required": ["k"]}
        for number in range(8)
    ]
    return {**of("x", inner), "$defs": {"t": {key: branches}}}


def chain(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = {"a": value}
    return value


MANY: Final = list(range(50_000))
LONG: Final = "a" * 100_000
EITHER: Final[Any] = [{"anyOf": [of("x", {}), of("y", {})]}] * 100
ENUM: Final[JsonObject] = {"enum": [{"a": at} for at in range(2500)]}
LETTERS: Final = "".join(Random(1).choices("ab", k=100_000))
RECURSIVE: Final[JsonObject] = {"$ref": "#/properties/x"}
SCHEMAS: Final[dict[str, tuple[Any, Any]]] = {
    "any_of_doubled_16_times": (doubling("anyOf", 15), 1),
    "any_of_doubled_60_times": (doubling("anyOf", 60), 1),
    "one_of_doubled": (doubling("oneOf", 15), 1),
    "all_of_doubled": (doubling("allOf", 15), 1),
    "one_of_nested": (of("x", nested("oneOf", 10, many=True)), 1),
    "not_nested": (of("x", nested("not", 45)), 1),
    "if_nested": (of("x", nested("if", 45)), 1),
    "union_of_unions": (tree("anyOf"), chain(1, 55)),
    "one_of_of_unions": (tree("oneOf"), chain(1, 55)),
    "reference_to_itself": (of("x", RECURSIVE), 1),
    "reference_in_a_circle": (
        {
            **of("x", {"$ref": "#/$defs/a"}),
            "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
        },
        1,
    ),
    "all_of_the_whole": ({**of("x", {}), "allOf": [{"$ref": "#"}]}, 1),
    "any_of_the_whole": (
        of("x", {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}),
        {"x": {"x": {"x": 1}}},
    ),
    "reference_that_is_deep": (of("x", {"$ref": "#/properties" + "/x" * 3000}), 1),
    "reference_by_http": (of("x", {"$ref": "http://127.0.0.1:1/s.json"}), 1),
    "reference_to_a_file": (of("x", {"$ref": "file:///etc/passwd"}), 1),
    "reference_by_anchor": ({**of("x", {"$ref": "#a"}), "$defs": {"a": {"$anchor": "a"}}}, 1),
    "dynamic_reference": (
        {"type": "object", "$dynamicAnchor": "n", "properties": {"x": {"$dynamicRef": "#n"}}},
        1,
    ),
    "pattern_of_repeated_groups": (of("x", {"pattern": "^(a+)+$"}), LONG + "!"),
    "pattern_with_backtracking": (of("x", {"pattern": "^(?=(a+)+$)(a|aa)+$"}), "a" * 5000 + "!"),
    "pattern_with_a_back_reference": (of("x", {"pattern": r"^(a+)+\1b$"}), "a" * 5000),
    "pattern_of_a_million_states": (of("x", {"pattern": "((a{0,100}){0,100}){0,100}"}), LONG),
    "pattern_of_alternatives": (of("x", {"pattern": "(x+x+)+y|" * 2000 + "z"}), "x" * 5000),
    "pattern_properties": (
        {"type": "object", "patternProperties": {f"^(a|b)*{at}": {} for at in range(500)}},
        {f"{'ab' * 10}{at}": 1 for at in range(2000)},
    ),
    "pattern_that_visits_all_states": (of("x", {"pattern": "(a|b)*a(a|b){20000}c"}), LETTERS),
    "pattern_that_looks_ahead": (of("x", {"pattern": "(?=a*b)c"}), LONG),
    "pattern_not_checked": (of("x", {"not": {"pattern": "(?=a*b)c"}}), LONG),
    "patterns_of_long_names": (
        {"type": "object", "patternProperties": {"(a|b)*a(a|b){3000}c": {}}},
        {LETTERS: 1},
    ),
    "patterns_of_names_that_look_ahead": (
        {"type": "object", "patternProperties": {"(?=a*b)c": {}}},
        {LONG: 1},
    ),
    "references_to_an_enum": (
        {**of("x", {"anyOf": [{"$ref": "#/$defs/e"}] * 1500}), "$defs": {"e": ENUM}},
        -1,
    ),
    "references_in_each_item": (
        {
            **of("x", {"items": {"allOf": [{"$ref": "#/$defs/a"}] * 900}}),
            "$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}] * 45}, "b": {"type": "integer"}},
        },
        MANY[:8000],
    ),
    "property_names": (
        {"type": "object", "propertyNames": {"pattern": "^(a+)+$"}},
        {f"{'a' * 50}{at}": 1 for at in range(5000)},
    ),
    "huge_enum": (of("x", {"type": "array", "items": {"enum": [*range(8000)]}}), [-1] * 20_000),
    "enum_of_objects": (
        of("x", {"type": "array", "items": {"enum": [{"a": at} for at in range(4000)]}}),
        [{"a": -1}] * 5_000,
    ),
    "unique_items": (of("x", {"type": "array", "uniqueItems": True}), MANY),
    "unique_objects": (
        of("x", {"type": "array", "uniqueItems": True}),
        [{"a": at} for at in range(20_000)],
    ),
    "contains": (of("x", {"contains": {"enum": [*range(-1000, 0)]}, "minContains": 3}), MANY),
    "unevaluated_properties": (
        {
            "type": "object",
            "allOf": EITHER,
            "unevaluatedProperties": False,
        },
        {f"p{at}": 1 for at in range(5000)},
    ),
    "dependent_schemas": (
        {
            "type": "object",
            "dependentSchemas": {f"p{at}": {"required": ["z"]} for at in range(900)},
        },
        {f"p{at}": 1 for at in range(900)},
    ),
    "multiple_of_a_tiny_number": (of("x", {"multipleOf": 1e-300}), 1e300),
    "numbers_without_end": (of("x", {"minimum": 10**400}), 10**300),
    "lengths_without_end": (of("x", {"minLength": 10**30, "maxLength": 10**40}), LONG),
    "many_properties": (
        {"type": "object", "properties": {f"p{at}": {"type": "string"} for at in range(1500)}},
        {f"p{at}": at for at in range(1500)},
    ),
    **{
        f"format_{name}": (of("x", {"format": name}), value)
        for name, value in {
            "email": "a." * 20_000 + "@" + "b." * 20_000,
            "idn-hostname": "ä." * 20_000,
            "hostname": "a-" * 50_000,
            "uri": "http://" + "%41" * 30_000,
            "uri-template": "{a}" * 30_000 + "{",
            "regex": "(a{0,100}){0,100}" * 200,
            "ipv6": ":" * 100_000,
            "date-time": "9" * 100_000,
            "json-pointer": "/~0" * 30_000,
            "unknown": LONG,
        }.items()
    },
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_refused_or_judges_in_no_time(name: str) -> None:
    schema, given = SCHEMAS[name]
    whole = isinstance(given, dict) or "properties" not in schema
    value = cast(Any, given if whole else {"x": given})
    begun = time.process_time()
    if not check_schema(schema, strict=False):
        Validator(schema).problems(value)
    assert time.process_time() - begun < CPU_SECONDS


@pytest.mark.parametrize("key", ["anyOf", "oneOf", "allOf"])
def test_a_schema_that_describes_too_many_subschemas_is_refused(key: str) -> None:
    assert check_schema(doubling(key, 12), strict=False) == []
    [problem] = check_schema(doubling(key, 60), strict=False)
    assert "subschemas when its references are followed" in problem.message


@pytest.mark.skipif(not STATM.exists(), reason="/proc/self/statm tells how much memory is used")
def test_the_parts_of_a_recursive_union_take_little_memory() -> None:
    inner: Any = {"$ref": "#/$defs/t"}
    branches: Any = [
        {"type": "object", "properties": {"a": inner, "k": {"const": at}}, "required": ["k"]}
        for at in range(200)
    ]
    schema: Any = {**of("x", inner), "$defs": {"t": {"anyOf": [*branches, ENUM]}}}
    assert check_schema(schema, strict=False) == []
    before = _resident_bytes()
    assert Validator(schema).problems({"x": {"a": {"a": -1}}})
    assert _resident_bytes() - before < 150 * 1_048_576


def _resident_bytes() -> int:
    return int(STATM.read_text().split()[1]) * resource.getpagesize()


def test_types_that_multiply_make_a_tool_less_strict() -> None:
    """Claude is told alternatives instead of a list of types, so lists in lists multiply."""
    inner: Any = {"type": "string"}
    for _ in range(14):
        inner = {**of("a", inner), "type": ["object", "string"]}
    spec = ToolSpec(name="t", parameters=of("x", inner), type="client", strict=True)
    assert check_schema(spec.parameters, strict=True) == []
    made, [lost] = ToolDefinitions().definition(spec, "anthropic", strict=True)
    assert not made.strict
    assert "parts" in lost.reason


def test_the_offline_model_gives_up_on_schemas_with_too_many_choices() -> None:
    said = " ".join(f"w{at}" for at in range(2_600))
    choices = [*(f"zz{at}" for at in range(400)), *(f"w{at}" for at in range(400))]
    listed = {"type": "array", "maxItems": 10**9, "items": {"enum": choices}}
    begun = time.process_time()
    assert fill_arguments(of("x", listed), said) is not None
    assert time.process_time() - begun < CPU_SECONDS


TEN: Final = "[1,2,3,4,5,6,7,8,9,10]"
RULES: Final[dict[str, str]] = {
    "macros_in_macros": f"{TEN}.all(a, {TEN}.all(b, {TEN}.all(c, {TEN}.all(d, true))))",
    "list_that_doubles": TEN + ".map(x, x + x)" * 26 + " == []",
    "text_that_doubles": "['aaaaaaaaaaaaaaaa']" + ".map(x, x + x)" * 26 + " == []",
    "comment_that_hides": "true // '\n && " + TEN + ".map(x, [x, x])" * 26 + " != [] // '",
    "argument_squared": "args.l.all(a, args.l.all(b, a + b >= 0))",
    "argument_cubed": "args.l.all(a, args.l.all(b, args.l.all(c, a + b + c >= 0)))",
    "pattern_of_repeated_groups": "args.s.matches('^(a+)+$')",
    "pattern_of_a_million_states": "args.s.matches('((a{0,100}){0,100}){0,100}')",
    "pattern_from_arguments": "args.s.matches(args.p)",
    "parentheses": "(" * 2000 + "true" + ")" * 2000,
    "negations": "!" * 4001 + "true",
    "choices": "true ? " * 500 + "true" + " : true" * 500,
    "indices": "args" + "['x']" * 600 + " == 1",
    "sums": "size(" + "args.s + " * 400 + "'') > 0",
    "lists": "size(" + "args.l + " * 400 + "[]) > 0",
    "list_literal": "1 in [" + "1," * 1900 + "1]",
    "map_literal": "{" + ",".join(f"{at}:1" for at in range(500)) + "} == {}",
    "division_by_zero": "args.n / 0 == 1",
    "overflow": "9223372036854775807 + args.n > 0",
    "duration": "duration('9999999999999999s') > duration('1s')",
    "timestamp": "timestamp('99999-01-01T00:00:00Z') > timestamp(args.s)",
    "text_of_escapes": "'" + "\\u0000" * 600 + "' == args.s",
    "too_long": "true || " * 5000 + "true",
    "number_that_is_too_long": "9" * 4000 + " > args.n",
    "unknown_function": "args.s.foo().bar().baz()",
    "no_answer": "args",
}
ARGS: Final[JsonObject] = {"l": [*range(1000)], "s": "a" * 50_000 + "!", "p": "(a+)+" * 500, "n": 1}
SHARED: Final[JsonObject] = {"context": {}, "run": {}}


async def test_a_rule_is_refused_or_answers_in_time_and_a_neighbor_s_is_answered() -> None:
    rules = RuleEvaluator()
    attacker, neighbor = ProjectId(uuid4()), ProjectId(uuid4())
    try:
        judged = 0
        for name, rule in RULES.items():
            begun = time.monotonic()
            if await rules.problem(attacker, rule) is None:
                judged += 1
                [answer] = await rules.decide(
                    attacker, [RuleQuestion(rule, {"args": ARGS})], SHARED
                )
                assert isinstance(answer, bool) or answer.reason, name
            assert time.monotonic() - begun < RULE_SECONDS, name
        question = RuleQuestion("args.n == 1", {"args": ARGS})
        assert await rules.decide(neighbor, [question], SHARED) == [True]
    finally:
        await rules.aclose()
    record(rules=len(RULES), schemas=len(SCHEMAS))
    assert 0 < judged < len(RULES)


# -- through runs ---------------------------------------------------------------------------------


def registered(project: Project, **fields: Any) -> Iterator[Json]:
    """The tool, unless it is refused as a request that is not valid."""
    name = f"t{uuid4().hex[:8]}"
    url = project.tools.tool(project.tool_key(name), Behaviour("return", value=ARGS))
    body = {"name": name, "type": "webhook", "url": url, "strict": False, **fields}
    response = project.client.request("POST", "/v1/tools", body)
    assert response.status_code in (201, 422), response.text
    if response.status_code == 201:
        yield response.json()


THROUGH: Final = ("any_of_doubled_16_times", "union_of_unions", "pattern_with_backtracking")
RULES_THROUGH: Final = ("argument_squared", "argument_cubed", "pattern_from_arguments", "sums")


def test_runs_with_bombs_end_and_a_neighbor_s_runs_go_on(project: Project, other: Project) -> None:
    tools: list[Json] = []
    for name in THROUGH:
        tools += registered(project, parameters=SCHEMAS[name][0])
        tools += registered(project, parameters=OPEN, output_schema=SCHEMAS[name][0])
    for name in RULES_THROUGH:
        tools += registered(project, parameters=OPEN, approval={"when": RULES[name]})
        tools += registered(project, parameters=OPEN, enabled={"when": RULES[name]})
    runs: list[Json] = []
    for number, tool in enumerate(tools):
        asked = calls(call(1, tool["name"], '{"x":1,"l":[1,2,3],"s":"a!","p":"(a+)+"}'))
        model = project.script(asked, text("done"), name=f"bomb{number}")
        runs.append(project.client.start_run(model=model, tools=[tool["name"]]))
    other.tool("greet")
    greeted = other.run(calls(call(1, "greet")), text("done"), tools=["greet"])
    assert greeted["status"] == "completed"
    ended = [project.settle(run)["status"] for run in runs]
    assert set(ended) <= {"completed", "failed", "requires_action"}, ended
    assert len(runs) >= 8
    record(runs_with_bombs=len(runs))
