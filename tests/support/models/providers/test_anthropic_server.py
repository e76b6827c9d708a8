"""The scripted server speaks Anthropic's Messages API as the official client reads it, and is as
strict as the original."""

from collections.abc import Iterator
from typing import Any

import anthropic
import httpx2
import pytest

from tests.support.models.providers import anthropic_rules
from tests.support.models.providers.anthropic_server import AnthropicServer
from tests.support.models.providers.call_pairs import CHANGED, Signed
from tests.support.models.spoken import Call, Fails, Says, Text, Thought, says

USER: Any = {"role": "user", "content": "go"}
TOOL: Any = {"name": "add", "input_schema": {"type": "object", "properties": {}}}
ADDS = says(Thought("I add."), "Let me see.", Call("c1", "add", '{"x": 17}'))


@pytest.fixture(scope="module")
def server() -> Iterator[AnthropicServer]:
    with AnthropicServer() as server:
        yield server


@pytest.fixture
def sdk(server: AnthropicServer) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(
        api_key="sk-test", base_url=server.url, max_retries=0, timeout=10
    ) as client:
        yield client


def ask(sdk: anthropic.Anthropic, model: str, *messages: Any, **options: Any) -> Any:
    create: Any = sdk.messages.create
    asked = {"max_tokens": 100, "tools": [TOOL], **options}
    return create(model=model, messages=list(messages or (USER,)), **asked)


def streamed(sdk: anthropic.Anthropic, model: str) -> Any:
    stream: Any = sdk.messages.stream
    with stream(model=model, max_tokens=100, messages=[USER], tools=[TOOL]) as events:
        return events.get_final_message()


def result(call_id: str = "c1", **fields: Any) -> Any:
    return {"type": "tool_result", "tool_use_id": call_id, "content": "18", **fields}


def use(call_id: str = "c1", **fields: Any) -> Any:
    return {"type": "tool_use", "id": call_id, "name": "add", "input": {}, **fields}


def assistant(*blocks: Any) -> Any:
    return {"role": "assistant", "content": list(blocks)}


def user(*blocks: Any) -> Any:
    return {"role": "user", "content": list(blocks)}


def text(value: str) -> Any:
    return {"type": "text", "text": value}


def test_the_client_reads_an_answer_whole_and_from_the_stream(
    server: AnthropicServer, sdk: anthropic.Anthropic
) -> None:
    server.script("read", ADDS, ADDS)
    for message in (ask(sdk, "read"), streamed(sdk, "read")):
        thought, said, call = message.content
        assert (thought.type, thought.thinking) == ("thinking", "I add.")
        assert thought.signature
        assert (said.text, call.id, call.name, call.input) == (
            *("Let me see.", "c1", "add"),
            {"x": 17},
        )
        assert message.stop_reason == "tool_use"
        usage = message.usage
        assert (usage.input_tokens, usage.cache_read_input_tokens) == (40, 10)
        assert (usage.output_tokens, usage.output_tokens_details.thinking_tokens) == (20, 5)


def test_an_answer_that_comes_back_as_it_was_is_taken_and_its_results_are_kept(
    server: AnthropicServer, sdk: anthropic.Anthropic
) -> None:
    server.by_turn("back", ADDS, says("done"))
    given = ask(sdk, "back").content
    sent = assistant(*(block.model_dump(exclude_none=True) for block in given))
    assert ask(sdk, "back", USER, sent, user(result())).content[0].text == "done"
    assert server.requests("back")[-1].results == [("c1", result())]
    with pytest.raises(anthropic.BadRequestError, match="cannot be modified"):
        ask(sdk, "back", USER, assistant(use("c1", input={"x": 17})), user(result()))
    assert server.violations.pop() == CHANGED


def test_errors_refusals_and_broken_streams_come_as_anthropic_sends_them(
    server: AnthropicServer, sdk: anthropic.Anthropic
) -> None:
    server.script(
        "errors",
        Fails(429, retry_after="7"),
        Fails(529),
        Says((Text("I will not."),), ending="refused"),
        Says((Text("a long text"),), cut=True),
        Says((Call("c1", "add"),), ending="length"),
    )
    with pytest.raises(anthropic.RateLimitError) as limit:
        ask(sdk, "errors")
    assert limit.value.response.headers["retry-after"] == "7"
    with pytest.raises(anthropic.InternalServerError, match="overloaded_error"):
        ask(sdk, "errors")
    refused = ask(sdk, "errors")
    assert (refused.stop_reason, refused.content) == ("refusal", [])
    assert refused.stop_details.explanation == "I will not."
    with pytest.raises(Exception, match=r"peer closed|incomplete"):
        streamed(sdk, "errors")
    assert streamed(sdk, "errors").stop_reason == "max_tokens"


def test_a_key_and_a_known_model_are_asked_for(
    server: AnthropicServer, sdk: anthropic.Anthropic
) -> None:
    assert httpx2.post(f"{server.url}/v1/messages", json={}).status_code == 401
    with pytest.raises(anthropic.NotFoundError):
        ask(sdk, "nobody")
    with pytest.raises(anthropic.BadRequestError, match="surprise"):
        ask(sdk, "any", extra_body={"surprise": 1})
    assert len(server.violations) == 2
    server.violations.clear()


def body(*messages: Any, **fields: Any) -> Any:
    whole = {"model": "m", "max_tokens": 2000, "messages": list(messages or (USER,)), **fields}
    return {key: value for key, value in whole.items() if value is not ...}


IMAGE = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
}
STRICT: Any = {"name": "add", "strict": True, "input_schema": {"type": "object", "properties": {}}}
ENABLED = {"type": "enabled", "budget_tokens": 1024}


@pytest.mark.parametrize(
    "request_body",
    [
        body(system="Be brief.", temperature=0.5, stop_sequences=["x"]),
        body(USER, assistant(use()), user(result()), tools=[TOOL]),
        body(USER, assistant(text("a"), use()), user(result(), text("b")), tools=[TOOL]),
        body(USER, assistant(use()), user(result(content=[IMAGE], is_error=True)), tools=[TOOL]),
        body(user(text("what is this?"), IMAGE)),
        body(USER, USER),
        body(stream=True, thinking=ENABLED, tools=[TOOL], tool_choice={"type": "none"}),
        body(tools=[TOOL], tool_choice={"type": "auto", "disable_parallel_tool_use": True}),
    ],
)
def test_a_correct_request_is_taken(request_body: Any) -> None:
    assert anthropic_rules.check(request_body, Signed()) == []


@pytest.mark.parametrize(
    ("request_body", "complaint"),
    [
        (body(max_tokens=...), '"max_tokens" is a required property'),
        (body(temperature=1.5), "1.5 is greater than the maximum"),
        (body({"role": "system", "content": "x"}), "role"),
        (body(messages=[]), "at least one message"),
        (body(assistant(text("x")), USER), 'first message must use the "user" role'),
        (body(user(text(" "))), "must contain non-whitespace text"),
        (body(user()), "non-empty content"),
        (body(user({"type": "text", "text": "a", "extra": 1})), "not valid under any"),
        (body(USER, assistant(text("so "))), "trailing whitespace"),
        (body(USER, assistant(use("c 1")), user(result("c 1")), tools=[TOOL]), "match pattern"),
        (body(USER, assistant(use()), USER, tools=[TOOL]), "without `tool_result` blocks"),
        (body(USER, assistant(use()), tools=[TOOL]), "without `tool_result` blocks"),
        (body(USER, user(result()), tools=[TOOL]), "unexpected `tool_use_id`"),
        (
            body(USER, assistant(use()), user(result(), result()), tools=[TOOL]),
            "unexpected `tool_use_id`",
        ),
        (
            body(USER, assistant(use(), use("d")), user(result("d"), result()), tools=[TOOL]),
            "out of the order",
        ),
        (body(USER, assistant(use()), user(text("a"), result()), tools=[TOOL]), "come first"),
        (body(USER, assistant(use(), use()), user(result()), tools=[TOOL]), "must be unique"),
        (body(USER, user(use()), user(result()), tools=[TOOL]), "only be in assistant"),
        (body(USER, assistant(use()), user(result())), "must define tools"),
        (body(USER, assistant(use()), user(result(content=[text("")])), tools=[TOOL]), "non-empty"),
        (body(USER, assistant(use(input="{}")), user(result()), tools=[TOOL]), "not valid"),
        (body(tool_choice={"type": "any"}), "while providing `tools`"),
        (body(tools=[TOOL], tool_choice={"type": "tool", "name": "b"}), "not found"),
        (body(tools=[TOOL, TOOL]), "must be unique"),
        (body(tools=[TOOL | {"name": "a b"}]), "match pattern"),
        (body(tools=[STRICT]), "'additionalProperties' must be set to false"),
        (body(thinking=ENABLED | {"budget_tokens": 3000}), "greater than `thinking"),
        (body(thinking=ENABLED, temperature=0.5), "only be set to 1"),
        (body(thinking=ENABLED, tools=[TOOL], tool_choice={"type": "any"}), "forces tool use"),
        (
            body(USER, assistant({"type": "thinking", "thinking": "x", "signature": "mine"}), USER),
            "Invalid `signature`",
        ),
    ],
)
def test_a_wrong_request_is_complained_about(request_body: Any, complaint: str) -> None:
    assert complaint in "\n".join(anthropic_rules.check(request_body, Signed()))
