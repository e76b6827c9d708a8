"""The stand-in for a model: what it calls, with what, and what it says."""

import json
import time
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runward.domain.ids import CallId
from runward.domain.registry.tools import ToolSpec
from runward.domain.run.items import Item, Message, TextPart, ToolCall, ToolResult
from runward.domain.run.response import ModelResponse
from runward.llm.base import ArgumentsDelta, ModelDelta, ModelRequest, TextDelta
from runward.llm.offline.arguments import MAX_TEXT, fill_arguments
from runward.llm.offline.calls import only_calls, written_calls
from runward.llm.offline.model import OfflineModel
from runward.llm.offline.texts import LABEL, MAX_QUOTE


def spec(name: str, description: str = "", **properties: Any) -> ToolSpec:
    required = [key for key, shape in properties.items() if not shape.pop("optional", False)]
    parameters: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "required": list(required),
    }
    return ToolSpec(name=name, description=description, parameters=parameters, strict=False)


TEXT: dict[str, Any] = {"type": "string"}
WEATHER = spec("get_weather", "Current weather of a city.", city={**TEXT})
REFUND = spec(
    "refund_payment",
    "Gives money back to a customer.",
    order_id={**TEXT},
    amount={"type": "number"},
    reason={**TEXT, "optional": True},
)
MAIL = spec("send_email", "Sends an e-mail.", to={**TEXT, "format": "email"}, subject={**TEXT})
TOOLS = (WEATHER, REFUND, MAIL)


async def ask(
    *said: str | Item,
    tools: tuple[ToolSpec, ...] = TOOLS,
    deltas: list[ModelDelta] | None = None,
    **fields: Any,
) -> ModelResponse:
    items = tuple(Message("user", item) if isinstance(item, str) else item for item in said)
    request = ModelRequest("rules", "", items, tools, **fields)
    return await OfflineModel().respond(request, (deltas if deltas is not None else []).append)


def calls_of(response: ModelResponse) -> list[tuple[str, Any]]:
    return [(call.name, json.loads(call.arguments)) for call in response.calls]


def done(call_id: str, name: str, output: Any = "ok", *, is_error: bool = False) -> list[Item]:
    call = ToolCall(CallId(call_id), name, "{}")
    return [call, ToolResult(CallId(call_id), output, is_error)]


async def test_written_calls_are_made_in_order_in_one_response() -> None:
    said = """Please get_weather(city='Paris') and then refund_payment(order_id="o1", amount=5.5)"""
    response = await ask(said)
    assert calls_of(response) == [
        ("get_weather", {"city": "Paris"}),
        ("refund_payment", {"order_id": "o1", "amount": 5.5}),
    ]
    assert [call.call_id for call in response.calls] == ["call_1", "call_2"]
    assert (response.text, response.finish) == ("", "tool_calls")


async def test_the_same_call_twice_is_two_calls() -> None:
    response = await ask("get_weather(city='A') get_weather(city='A')")
    assert len(response.calls) == 2


async def test_when_all_have_results_it_quotes_them_and_says_what_it_is() -> None:
    said = "get_weather(city='A') get_weather(city='B')"
    calls = [ToolCall(CallId(f"call_{n}"), "get_weather", "{}") for n in (1, 2)]
    results = [
        ToolResult(CallId("call_1"), {"temp": 20}),
        ToolResult(CallId("call_2"), "no such city", is_error=True),
    ]
    response = await ask(said, *calls, *results)
    assert response.calls == ()
    assert response.text == (
        f'{LABEL} Results:\n- get_weather returned: {{"temp":20}}\n'
        "- get_weather failed: no such city"
    )


async def test_a_long_result_is_quoted_shortly() -> None:
    response = await ask("get_weather(city='A')", *done("call_1", "get_weather", "x" * 9999))
    assert response.text.startswith(f"{LABEL} get_weather returned: xxx")
    assert len(response.text) < MAX_QUOTE + 60


async def test_without_parallel_calls_one_follows_the_other() -> None:
    said = "get_weather(city='A') get_weather(city='B')"
    first = await ask(said, parallel_tool_calls=False)
    assert calls_of(first) == [("get_weather", {"city": "A"})]
    second = await ask(said, *done("call_1", "get_weather"), parallel_tool_calls=False)
    assert calls_of(second) == [("get_weather", {"city": "B"})]
    assert second.calls[0].call_id == "call_2"
    history = [*done("call_1", "get_weather"), *done("call_2", "get_weather")]
    assert (await ask(said, *history, parallel_tool_calls=False)).calls == ()


async def test_a_second_user_message_is_a_new_decision() -> None:
    history: list[Item] = [*done("call_1", "get_weather"), Message("assistant", "There.")]
    response = await ask("get_weather(city='A')", *history, "get_weather(city='B')")
    assert calls_of(response) == [("get_weather", {"city": "B"})]
    assert response.calls[0].call_id == "call_2"


async def test_call_ids_are_new_even_if_the_older_ones_are_not_its_own() -> None:
    history = [*done("call_7", "get_weather"), *done("toolu_x", "get_weather")]
    response = await ask("hello", *history, "get_weather(city='B')")
    assert response.calls[0].call_id == "call_8"


async def test_names_that_are_no_tools_are_text_unless_nothing_else_is_said() -> None:
    assert (await ask("what is sin(x=1)?")).calls == ()
    assert calls_of(await ask("nothing_here(x=1)")) == [("nothing_here", {"x": 1})]
    assert (await ask("nothing_here(x=1)", tools=())).calls == ()


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("What is the weather in New York?", ("get_weather", {"city": "New York"})),
        ("weather for 'san josé' please", ("get_weather", {"city": "san josé"})),
        (
            'Refund $1,250.50 for order ord_77, reason: "arrived broken"',
            (
                "refund_payment",
                {"order_id": "ord_77", "amount": 1250.5, "reason": "arrived broken"},
            ),
        ),
        (
            "please refund amount 40 of order #1007",
            ("refund_payment", {"order_id": "1007", "amount": 40}),
        ),
        (
            "send an email to ann@mail.test about 'Lunch'",
            ("send_email", {"to": "ann@mail.test", "subject": "Lunch"}),
        ),
    ],
)
async def test_a_plain_sentence_finds_its_tool_and_arguments(said: str, expected: Any) -> None:
    assert calls_of(await ask(said)) == [expected]


@pytest.mark.parametrize("said", ["Hello there!", "", "Refund me.", "send an email", "Tell a joke"])
async def test_it_says_what_it_can_do_where_a_call_would_not_be_sensible(said: str) -> None:
    response = await ask(said)
    assert response.calls == ()
    assert response.text.startswith(LABEL)
    assert 'write get_weather(city="")' in response.text


async def test_it_says_so_when_it_has_no_tools() -> None:
    response = await ask("Hi", tools=())
    assert response.text == (
        f"{LABEL} This model follows fixed rules. It is not a language model. "
        'Your message: "Hi". No tools are available.'
    )


async def test_its_own_example_is_a_call_it_understands() -> None:
    tool = spec("t", a={"type": "integer"}, b={"type": "array"}, c={"enum": ["x"]}, d={**TEXT})
    text = (await ask("?", tools=(tool,))).text
    assert calls_of(await ask(text, tools=(tool,))) == [("t", {"a": 0, "b": [], "c": "x", "d": ""})]


async def test_tool_choice_none_is_text_and_required_is_a_call() -> None:
    assert (await ask("get_weather(city='A')", tool_choice="none")).calls == ()
    assert len((await ask("Hello", tool_choice="required")).calls) == 1
    assert (await ask("Hello", tools=(), tool_choice="required")).calls == ()
    again = await ask("get_weather(city='A')", *done("c", "get_weather"), tool_choice="required")
    assert len(again.calls) == 1


async def test_a_named_tool_is_the_one_that_is_called() -> None:
    response = await ask("weather in Rome, order 12", tool_choice={"name": "refund_payment"})
    (call,) = calls_of(response)
    assert call[0] == "refund_payment"
    assert (call[1]["amount"], call[1]["order_id"]) == (0, "12")
    written = "get_weather(city='A') refund_payment(order_id='o', amount=1)"
    response = await ask(written, tool_choice={"name": "refund_payment"})
    assert calls_of(response) == [("refund_payment", {"order_id": "o", "amount": 1})]


async def test_deltas_add_up_to_the_response() -> None:
    deltas: list[ModelDelta] = []
    response = await ask("Hi  there\n", deltas=deltas)
    assert len(deltas) > 5
    assert "".join(d.text for d in deltas if isinstance(d, TextDelta)) == response.text
    deltas.clear()
    response = await ask("get_weather(city='A')", deltas=deltas)
    assert deltas == [ArgumentsDelta(0, "call_1", "get_weather", '{"city":"A"}')]


async def test_usage_counts_words() -> None:
    response = await ask("one two three", *done("call_1", "get_weather", "four five"))
    assert response.usage.input == 6
    assert response.usage.output == len(response.text.split())


async def test_an_output_schema_is_kept() -> None:
    schema = {
        "type": "object",
        "properties": {"answer": {"type": "string"}, "sure": {"type": "boolean"}},
        "required": ["answer", "sure"],
        "additionalProperties": False,
    }
    response = await ask("Hi", tools=(), output_schema=schema)
    answer = json.loads(response.text)
    assert jsonschema_rs.is_valid(schema, answer)
    assert answer["answer"].startswith(LABEL)


async def test_text_in_parts_is_read_too() -> None:
    said = Message("user", (TextPart("get_weather("), TextPart("city='A')")))
    assert calls_of(await ask(said)) == [("get_weather", {"city": "A"})]


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("f()", {}),
        ('f( a = 1 , b = [1, {"c": null}] , )', {"a": 1, "b": [1, {"c": None}]}),
        (r"f(a='it\'s (1, 2)', b=true)", {"a": "it's (1, 2)", "b": True}),
        (r'f(a="\u00e9\n")', {"a": "é\n"}),
        ("f(a=-1.5e3)", {"a": -1500.0}),
        ("f(1)", None),
        ("f(a)", None),
        ("f(a=b)", None),
        ("f(a=1 b=2)", None),
        ("f(a=NaN)", None),
        ("f(a=1e999)", None),
        ("f(a='open", None),
        ("f(a=" + "[" * 100_000, None),
        ("f(a=1", None),
    ],
)
def test_the_syntax_of_a_written_call(text: str, arguments: Any) -> None:
    assert [call.arguments for call in written_calls(text)] == (
        [] if arguments is None else [arguments]
    )


def test_names_stand_alone() -> None:
    assert written_calls("x.f(a=1) 2f(a=1) -f(a=1)") == []
    assert [c.name for c in written_calls("g(f(a=1)) then h-2()")] == ["f", "h-2"]


def test_only_calls() -> None:
    for text, only in [("f(); g(a=1),\nh()", True), ("f() now", False), ("", False)]:
        assert only_calls(text, written_calls(text)) is only


@pytest.mark.parametrize(
    ("shape", "text", "value"),
    [
        ({"type": "integer"}, "make it 3 times", 3),
        ({"type": ["integer", "null"]}, "nothing", None),
        ({"anyOf": [{"type": "number"}, {"type": "null"}]}, "-2.5 degrees", -2.5),
        ({"enum": ["low", "high"]}, "priority High please", "high"),
        ({"const": 7}, "", 7),
        ({"type": "boolean"}, "with my value", True),
        ({"type": "boolean"}, "without my value", False),
        ({"type": "string", "format": "date"}, "on 2026-11-30 at noon", "2026-11-30"),
        ({"type": "string", "format": "uri"}, "see https://a.test/b?c=1.", "https://a.test/b?c=1."),
        ({"type": "array", "items": {"type": "number"}}, "1, 2 and 3", [1, 2, 3]),
        ({"type": "array", "items": {"type": "string"}}, "'a' and 'b'", ["a", "b"]),
        ({"type": "string", "default": "x"}, "hello", "x"),
        ({"type": "object", "properties": {"n": {"type": "integer"}}}, "5", {"n": 5}),
    ],
)
def test_a_value_is_found_by_its_schema(shape: Any, text: str, value: Any) -> None:
    schema: Any = {"type": "object", "properties": {"value": shape}, "required": ["value"]}
    assert fill_arguments(schema, text) == {"value": value}


SHAPES = st.recursive(
    st.sampled_from(
        [{"type": t} for t in ("string", "integer", "number", "boolean", "null")]
        + [{"enum": ["a", 1]}, {"type": ["string", "null"]}, {"type": "string", "format": "email"}]
    ),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}),
        st.dictionaries(st.sampled_from(["id", "to", "amount", "note"]), inner).map(
            lambda properties: {
                "type": "object",
                "properties": properties,
                "required": sorted(properties),
            }
        ),
    ),
    max_leaves=6,
)
WORDS = st.lists(
    st.sampled_from(["id", "7", "'x'", "b@c.test", "to", "Rome", "amount", "-1.5", "note:", "no"])
).map(" ".join)


@settings(deadline=None)
@given(SHAPES, WORDS)
def test_invented_arguments_have_the_types_that_the_schema_asks_for(shape: Any, text: str) -> None:
    schema: Any = {"type": "object", "properties": {"value": shape}, "required": ["value"]}
    filled = fill_arguments(schema, text, force=True)
    assert filled is not None
    assert jsonschema_rs.is_valid(schema, filled, validate_formats=False)
    assert fill_arguments(schema, text, force=True) == filled


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a_x", "a x" + " " * MAX_TEXT),
        ("a" + "_" * 62 + "b", "a" + " " * MAX_TEXT),
        ("note", "“" * MAX_TEXT),
    ],
)
def test_no_message_keeps_it_busy(name: str, said: str) -> None:
    """It answers on the event loop. Without a bound the first took ten seconds or more, and the
    second more than a lifetime."""
    began = time.process_time()
    fill_arguments({"properties": {name: {"type": "string"}}}, said[:MAX_TEXT])
    assert time.process_time() - began < 2


async def test_it_looks_for_the_arguments_of_eight_tools_at_most() -> None:
    count = {"type": "integer"}
    lacking = [spec(f"refund_{at}", "", amount=count, mail={"format": "email"}) for at in range(8)]
    fitting = spec("refund_9", "", amount=count)
    assert calls_of(await ask("refund 5", tools=(*lacking[1:], fitting)))
    assert not calls_of(await ask("refund 5", tools=(*lacking, fitting)))
