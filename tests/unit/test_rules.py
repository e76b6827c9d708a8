"""Rules in CEL: what they answer, and that every failure is one, quickly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from runward.domain.json import JsonObject
from runward.domain.registry.rules import (
    CONCURRENCY_KEY,
    RuleError,
    RuleFailure,
    RuleValue,
    compile_rule,
)

NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)


def decide(rule: str, args: JsonObject) -> RuleValue | RuleFailure:
    return compile_rule(rule).evaluate({"args": args, "context": {}, "run": {}, "tool": {}})


@pytest.mark.parametrize(
    ("rule", "args", "answer"),
    [
        ("args.amount > 100", {"amount": 500}, True),
        ("args.amount > 100", {"amount": 500.5}, True),
        ("args.amount > 100", {"amount": 50}, False),
        ("args.amount > 100", {"amount": 99.9}, False),
        ("args.amount > 100.5", {"amount": 101}, True),
        ("args.amount == 100", {"amount": 100.0}, True),
        ("double(args.amount) * 1.5 > 100.0", {"amount": 80}, True),
        ("args.x == 'v'", {"x": "v"}, True),
        ("args.x == 'v'", {"x": "w"}, False),
        ("args.urgent", {"urgent": True}, True),
        ("has(args.amount) && args.amount > 100", {}, False),
        ("args.to.endsWith('@example.com')", {"to": "a@example.com"}, True),
        ("args.lines.exists(line, line.price > 3)", {"lines": [{"price": 4}]}, True),
        ("args.x == null", {"x": None}, True),
        ("args['odd key'] in ['a', 'b']", {"odd key": "a"}, True),
    ],
)
def test_a_rule_answers_true_or_false(rule: str, args: JsonObject, *, answer: bool) -> None:
    assert decide(rule, args) is answer


@given(amount=NUMBERS, limit=st.integers(-(2**53), 2**53))
def test_numbers_of_both_kinds_compare_as_numbers(amount: float, limit: int) -> None:
    assert decide(f"args.amount > {limit}", {"amount": amount}) is (amount > limit)


@pytest.mark.parametrize(
    ("rule", "args"),
    [
        ("args.amount > 100", {}),
        ("args.amount > 100", {"amount": "500"}),
        ("args.amount > 100", {"amount": None}),
        ("args.amount > 100", {"amount": 2**70}),
        ("args.text == 'x'", {"text": "\ud800"}),
        ("args.amount", {"amount": 1}),
        ("args.amount", {"amount": "true"}),
        ("args.list.all(a, args.list.all(b, a + b >= 0))", {"list": list(range(2000))}),
    ],
)
def test_a_rule_that_cannot_answer_is_a_failure_and_never_an_answer(
    rule: str, args: JsonObject
) -> None:
    failure = decide(rule, args)
    assert isinstance(failure, RuleFailure)
    assert failure.reason


def test_all_four_variables_can_be_asked() -> None:
    rule = compile_rule("args.a == 1 && context.b == 2 && run.c == 3 && tool.name == 'refund'")
    values: dict[str, JsonValue] = {
        "args": {"a": 1},
        "context": {"b": 2},
        "run": {"c": 3},
        "tool": {"name": "refund"},
    }
    assert rule.evaluate(values) is True


def test_a_missing_context_is_an_empty_one() -> None:
    rule = compile_rule("has(context.tier) && context.tier == 'gold'")
    assert rule.evaluate({"args": {}, "context": None}) is False
    assert rule.evaluate({}) is False


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("args.amount >", "Line 1, column 14"),
        ("args.a == 1 &&\n  arg.b == 2", "Line 2"),
        ("amount > 100", "a rule can use args, context, run, tool"),
        ("1 + 1", "returns int"),
        ("'yes'", "returns string"),
        ("", "Line 1"),
        ("true" + " || true" * 1000, "longer than"),
        ("(" * 300 + "true" + ")" * 300, "recursion"),
        ("args.l.all(a, a.all(b, b.all(c, c.all(d, d))))", "nests macros"),
        ("[args.s].map(a, a + a).map(a, a + a).map(a, a + a).map(a, a + a) == []", "nests macros"),
    ],
)
def test_a_bad_rule_is_refused_with_the_place(rule: str, said: str) -> None:
    with pytest.raises(RuleError, match=said):
        compile_rule(rule)


@pytest.mark.parametrize("quote", ["'", '"', "'''"])
def test_a_quote_in_a_comment_hides_no_macro(quote: str) -> None:
    deep = "args.l.all(a, args.l.all(b, args.l.all(c, args.l.all(d, true))))"
    wide = "[args.s]" + ".map(x, x + x)" * 26 + " == []"
    for hidden in (deep, wide):
        with pytest.raises(RuleError, match="nests macros"):
            compile_rule(f"// {quote}\n{hidden} // {quote}")


def test_quotes_and_words_in_comments_and_strings_count_for_nothing() -> None:
    rule = "args.x == '.map(.map(.map(.map( // \\'' // it isn't .all(.all(.all(.all("
    assert decide(rule, {"x": ".map(.map(.map(.map( // '"}) is True


def test_a_rule_is_given_only_the_variables_that_it_names() -> None:
    rule = compile_rule("args.x == 'run' // context")
    assert (
        rule.evaluate({"args": {"x": 1}, "run": {"big": 2**70}, "context": {"big": 2**70}}) is False
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("run.metadata.customer", "acme"),
        ("run.metadata.number", 7),
        ("run.metadata.share", 0.5),
        ("has(run.metadata.customer)", True),
        ("run.agent + '/' + run.metadata.customer", "clerk/acme"),
        ("string(run.metadata.number)", "7"),
    ],
)
def test_a_concurrency_key_returns_a_value(key: str, value: object) -> None:
    metadata: JsonObject = {"customer": "acme", "number": 7, "share": 0.5}
    run: JsonObject = {"agent": "clerk", "metadata": metadata}
    found = compile_rule(key, CONCURRENCY_KEY).evaluate({"run": run})
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("key", ["run.metadata.missing", "run.metadata.empty", "run.metadata"])
def test_a_concurrency_key_without_a_value_is_a_failure(key: str) -> None:
    variables: JsonObject = {"run": {"metadata": {"empty": None}}}
    assert isinstance(compile_rule(key, CONCURRENCY_KEY).evaluate(variables), RuleFailure)


@pytest.mark.parametrize("key", ["[1]", "{'a': 1}", "null", "b'x'"])
def test_a_concurrency_key_of_another_type_is_rejected(key: str) -> None:
    with pytest.raises(RuleError, match="A concurrency key must return a string, a number"):
        compile_rule(key, CONCURRENCY_KEY)


@pytest.mark.parametrize("key", ["args.customer", "tool.name"])
def test_a_concurrency_key_reads_no_call(key: str) -> None:
    with pytest.raises(RuleError, match=r"a rule can use context, run$"):
        compile_rule(key, CONCURRENCY_KEY)
