"""What strict servers of Anthropic, Gemini and Bedrock are sent: choices, settings, schemas, media
and what cannot be told."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from runward.domain.ids import CallId
from runward.domain.registry.tools import ToolSpec
from runward.domain.run.items import (
    HostedCall,
    MediaPart,
    Message,
    Part,
    Reasoning,
    TextPart,
    ToolCall,
    ToolResult,
)
from runward.domain.run.response import Loss
from runward.llm.base import ModelError
from runward.llm.providers.access import ProviderName
from tests.support.models.all_providers import AllProviders
from tests.support.models.chat_rules import Body
from tests.support.models.providers.provider_server import ProviderRequest
from tests.support.models.spoken import Reply, says
from tests.unit.provider_models import ADD, KEY, LOOSE, NAMES, Provider, connected, texts_of, user

PNG = "iVBORw0KGgo="
PICTURE = MediaPart("image", data=PNG, media_type="image/png")


@pytest.fixture(scope="module")
def providers() -> Iterator[AllProviders]:
    def agrees(_: ProviderRequest) -> Reply:
        return says("ok")

    with AllProviders() as providers:
        for name, model in NAMES.items():
            getattr(providers, name).respond(model, agrees)
        yield providers


async def one(name: ProviderName, providers: AllProviders) -> AsyncIterator[Provider]:
    async with connected(name, providers) as provider:
        yield provider
        assert provider.server.violations == []


@pytest.fixture(scope="module", params=list(NAMES))
async def provider(request: Any, providers: AllProviders) -> AsyncIterator[Provider]:
    async for provider in one(request.param, providers):
        yield provider


@pytest.fixture(scope="module")
async def anthropic(providers: AllProviders) -> AsyncIterator[Provider]:
    async for provider in one("anthropic", providers):
        yield provider


@pytest.fixture(scope="module")
async def gemini(providers: AllProviders) -> AsyncIterator[Provider]:
    async for provider in one("gemini", providers):
        yield provider


CHOICES: dict[ProviderName, dict[str, Any]] = {
    "anthropic": {
        "auto": {"type": "auto"},
        "none": {"type": "none"},
        "required": {"type": "any"},
        "named": {"type": "tool", "name": "add"},
    },
    "gemini": {
        "auto": {"mode": "AUTO"},
        "none": {"mode": "NONE"},
        "required": {"mode": "ANY"},
        "named": {"mode": "ANY", "allowed_function_names": ["add"]},
    },
    "bedrock": {
        "auto": {"auto": {}},
        "none": None,
        "required": {"any": {}},
        "named": {"tool": {"name": "add"}},
    },
}


def choice_of(provider: Provider) -> Any:
    match provider.name:
        case "anthropic":
            return provider.sent.get("tool_choice")
        case "gemini":
            told = provider.sent["toolConfig"]["functionCallingConfig"]
            names = told.pop("allowedFunctionNames", None)
            return told | ({"allowed_function_names": names} if names else {})
        case "bedrock":
            return provider.sent.get("toolConfig", {}).get("toolChoice")


@pytest.mark.parametrize("choice", ["auto", "none", "required", "named"])
async def test_a_choice_is_put_in_the_providers_words(provider: Provider, choice: str) -> None:
    told = {"name": "add"} if choice == "named" else choice
    answer = await provider.ask(user(), tool_choice=told)
    assert choice_of(provider) == CHOICES[provider.name][choice]
    assert answer.losses == ()


def declared(provider: Provider) -> list[Body]:
    match provider.name:
        case "anthropic":
            return provider.sent["tools"]
        case "gemini":
            tools = provider.sent["tools"]
            return [one for tool in tools for one in tool.get("functionDeclarations", [])]
        case "bedrock":
            tools = provider.sent["toolConfig"]["tools"]
            return [tool["toolSpec"] for tool in tools if "toolSpec" in tool]


async def test_tools_are_strict_where_they_are_and_the_provider_has_that(
    provider: Provider,
) -> None:
    await provider.ask(user())
    assert [one["name"] for one in declared(provider)] == ["add", "loose"]
    if provider.name == "gemini":
        assert choice_of(provider) == {"mode": "AUTO"}  # one of the tools is not strict
        await provider.ask(user(), tools=(ADD,))
        assert choice_of(provider) == {"mode": "VALIDATED"}
    else:
        assert [one.get("strict") for one in declared(provider)] == [True, None]


async def test_gemini_is_told_what_it_reads_of_a_schema_and_the_rest_is_a_loss(
    gemini: Provider,
) -> None:
    properties: Body = {
        "x": {"type": "number", "exclusiveMinimum": 0, "multipleOf": 2, "minimum": 0},
        "multipleOf": {"type": "string", "examples": ["a"], "$comment": "-"},
    }
    parameters: Body = {"type": "object", "properties": properties, "required": ["x"]}
    rich = ToolSpec(name="rich", parameters=parameters, strict=False)
    answer = await gemini.ask(user(), tools=(rich,))
    [told] = declared(gemini)
    schema = told.get("parametersJsonSchema") or told["parameters_json_schema"]
    assert schema["properties"]["x"] == {"type": "number", "minimum": 0}
    assert "multipleOf" in schema["properties"]
    why = (
        f"gemini:{gemini.model_name} does not support these keywords in the parameters: "
        "exclusiveMinimum, multipleOf."
    )
    assert answer.losses == (Loss("tools.rich", why),)


async def test_anthropic_is_told_several_types_as_alternatives(anthropic: Provider) -> None:
    wide: Body = {
        "type": "object",
        "properties": {
            "n": {"type": ["integer", "null"], "minimum": 1, "description": "How many."},
            "any": {},
        },
        "required": [],
        "additionalProperties": False,
    }
    open_tool = ToolSpec(name="open", parameters=wide)
    narrow = wide | {"properties": {"n": wide["properties"]["n"]}}
    tools = (ToolSpec(name="narrow", parameters=narrow), open_tool)
    answer = await anthropic.ask(user(), tools=tools)
    told, untold = declared(anthropic)
    [whole, nothing] = told["input_schema"]["properties"]["n"]["anyOf"]
    assert (whole["type"], nothing) == ("integer", {"type": "null"})
    assert told["strict"] is True
    assert "strict" not in untold
    assert [loss.part for loss in answer.losses] == ["tools.open.strict"]


async def test_an_output_schema_is_told(provider: Provider) -> None:
    schema: Body = {
        "type": "object",
        "properties": {"age": {"type": "integer"}},
        "required": ["age"],
        "additionalProperties": False,
    }
    answer = await provider.ask(user(), output_schema=schema)
    assert "age" in str(provider.server.requests(provider.model_name)[-1])
    assert answer.losses == ()


async def test_an_open_map_is_not_told_as_a_schema_to_claude(provider: Provider) -> None:
    schema = {"type": "object", "additionalProperties": {"type": "string"}}
    answer = await provider.ask(user(), output_schema=schema)
    lost = [] if provider.name == "gemini" else ["output_schema"]
    assert [loss.part for loss in answer.losses] == lost


async def test_settings_are_translated(provider: Provider) -> None:
    settings = {"temperature": 0.5, "top_p": None, "max_output_tokens": 99, "stop": "END"}
    own: dict[ProviderName, Body] = {
        "anthropic": {"user": "u", "service_tier": "auto", "extra_body": {"top_k": 3}},
        "gemini": {"seed": 4, "presence_penalty": 1, "extra_body": {"serviceTier": "flex"}},
        "bedrock": {"metadata": {"a": "b"}, "service_tier": "flex", "extra_body": {"top_k": 3}},
    }
    answer = await provider.ask(user(), settings=settings | own[provider.name])
    assert answer.losses == ()
    sent = provider.sent
    match provider.name:
        case "anthropic":
            names = ("temperature", "max_tokens", "stop_sequences", "top_k", "service_tier")
            assert [sent[name] for name in names] == [0.5, 99, ["END"], 3, "auto"]
            assert sent["metadata"] == {"user_id": "u"}
        case "gemini":
            config = sent["generationConfig"]
            names = ("temperature", "maxOutputTokens", "stopSequences", "seed", "presencePenalty")
            assert [config[name] for name in names] == [0.5, 99, ["END"], 4, 1]
            assert sent["serviceTier"] == "flex"
        case "bedrock":
            expected = {"maxTokens": 99, "temperature": 0.5, "stopSequences": ["END"]}
            assert sent["inferenceConfig"] == expected
            assert sent["requestMetadata"] == {"a": "b"}
            assert sent["serviceTier"] == {"type": "flex"}
            assert sent["additionalModelRequestFields"] == {"top_k": 3}


async def test_an_effort_makes_the_model_think(provider: Provider) -> None:
    answer = await provider.ask(user(), settings={"reasoning": {"effort": "low"}})
    assert answer.losses == ()
    sent = provider.sent
    match provider.name:
        case "anthropic":
            assert sent["thinking"] == {"type": "adaptive"}
            assert sent["output_config"] == {"effort": "low"}
        case "gemini":
            told = sent["generationConfig"]["thinkingConfig"]
            assert "LOW" in told.values()
        case "bedrock":
            fields = sent["additionalModelRequestFields"]
            assert fields["thinking"] == {"type": "adaptive"}


@pytest.mark.parametrize(
    ("fields", "lost"),
    [
        ({"settings": {"reasoning": {"effort": "very"}}}, "model_settings.reasoning"),
        (
            {"settings": {"reasoning": {"effort": "low"}}, "tool_choice": "required"},
            "model_settings.reasoning",
        ),
        (
            {"settings": {"reasoning": {"effort": "low"}, "temperature": 0.5}},
            "model_settings.temperature",
        ),
    ],
)
async def test_what_claude_cannot_be_told_is_a_loss(
    anthropic: Provider, fields: Any, lost: str
) -> None:
    answer = await anthropic.ask(user(), **fields)
    assert [loss.part for loss in answer.losses] == [lost]


async def test_prompts_are_cached_behind_tools_instructions_and_the_end(provider: Provider) -> None:
    await provider.ask(user("one"), Message("assistant", "two"), user("three"))
    sent = provider.sent
    match provider.name:
        case "anthropic":
            [*_, last] = sent["messages"]
            for place in (sent["tools"][-1], sent["system"][-1], last["content"][-1]):
                assert place["cache_control"]["type"] == "ephemeral"
            assert str(sent).count("cache_control") == 3
        case "bedrock":
            places = (sent["toolConfig"]["tools"], sent["system"], sent["messages"][-1]["content"])
            assert [place[-1] for place in places] == [{"cachePoint": {"type": "default"}}] * 3
        case "gemini":
            assert "cache" not in str(sent)


async def test_system_messages_are_instructions_at_the_beginning_and_keep_their_place_later(
    provider: Provider,
) -> None:
    items = (Message("system", "First."), user("hi"), Message("assistant", "yes"))
    await provider.ask(*items, Message("system", "Later."), user("go"))
    whole = str(provider.server.requests(provider.model_name)[-1])
    places = [whole.index(text) for text in ("yes", "Later.", '"go"')]
    assert places == sorted(places)
    match provider.name:
        case "gemini":
            system = provider.sent["systemInstruction"]["parts"]
        case _:
            system = provider.sent["system"]
    assert texts_of(system) == ["Be kind.", "First."]
    assert "<system>" in whole


async def test_a_conversation_of_system_messages_alone_is_asked(provider: Provider) -> None:
    assert (await provider.ask(Message("system", "Speak."))).text == "ok"


MEDIA: tuple[Part, ...] = (
    TextPart("look"),
    PICTURE,
    MediaPart("file", data="aGk=", media_type="text/plain"),
)


async def test_images_and_files_are_shown_in_messages_and_in_results(provider: Provider) -> None:
    call = ToolCall(CallId("c1"), "add", '{"x": 1}')
    result = ToolResult(CallId("c1"), "see", parts=MEDIA)
    items = (Message("user", MEDIA), call, result)
    await provider.ask(*items)
    whole = str(provider.server.requests(provider.model_name)[-1])
    assert whole.count(PNG) == 2
    match provider.name:
        case "anthropic":
            [block] = provider.sent["messages"][-1]["content"]
            assert [part["type"] for part in block["content"]] == ["text", "image", "document"]
        case "gemini":
            [content] = provider.sent["contents"][-1:]
            assert len(content["parts"][0]["functionResponse"]["parts"]) == 2
        case "bedrock":
            [block, *_] = provider.sent["messages"][-1]["content"]
            assert {"image", "text"} <= {key for p in block["toolResult"]["content"] for key in p}


async def test_an_empty_result_in_parts_says_so(provider: Provider) -> None:
    call = ToolCall(CallId("c1"), "add", '{"x": 1}')
    await provider.ask(user(), call, ToolResult(CallId("c1"), "", parts=(TextPart(""),)))
    assert "(empty)" in str(provider.server.requests(provider.model_name)[-1])


@pytest.mark.parametrize(
    ("part", "shown"),
    [
        (MediaPart("image", url="https://x.test/a"), {"anthropic"}),
        (MediaPart("file", url="https://x.test/a.pdf"), {"anthropic", "gemini"}),
        (MediaPart("image", url="s3://bucket/a.png"), {"anthropic", "bedrock"}),
        (MediaPart("file", url="https://x.test/a.zip"), {"gemini"}),
        (MediaPart("file", data="aGk=", media_type="application/zip"), {"gemini"}),
        (MediaPart("file", data="aGk=", media_type="application/json"), set(NAMES)),
        (MediaPart("image", url=f"data:image/png;base64,{PNG}"), set(NAMES)),
    ],
)
async def test_what_a_provider_does_not_take_is_told_in_text(
    provider: Provider, part: MediaPart, shown: set[str]
) -> None:
    await provider.ask(Message("user", (part,)))
    whole = str(provider.server.requests(provider.model_name)[-1])
    assert (f"({part.type} " in whole) is (provider.name not in shown)


async def test_data_that_is_no_base64_is_refused(anthropic: Provider) -> None:
    broken = MediaPart("image", data="a", media_type="image/png")
    with pytest.raises(ModelError, match="not valid base64") as refused:
        await anthropic.ask(Message("user", (broken,)))
    assert refused.value.transient is False


async def test_media_of_the_models_own_messages_follow_in_one_of_the_users(
    anthropic: Provider, gemini: Provider
) -> None:
    drawn = Message("assistant", (TextPart("Here."), PICTURE))
    await anthropic.ask(user(), drawn, user("nice"))
    [_, said, behind] = anthropic.sent["messages"]
    assert [block["type"] for block in said["content"]] == ["text", "text"]
    assert [block["type"] for block in behind["content"]] == ["text", "image", "text"]
    await gemini.ask(user(), drawn, user("nice"))
    [_, said, _] = gemini.sent["contents"]
    assert [sorted(part) for part in said["parts"]] == [["text"], ["inlineData"]]


async def test_thoughts_and_hosted_calls_of_others_are_not_given_to_it(provider: Provider) -> None:
    other = "gemini" if provider.name != "gemini" else "anthropic"
    thought = Reasoning(other, {"text": "secretly", "signature": "c2ln"})
    searched = HostedCall("h1", "search", "web_search", other, {"q": "x"}, "found", {"parts": []})
    await provider.ask(user(), thought, searched, Message("assistant", "so"), user())
    whole = str(provider.server.requests(provider.model_name)[-1])
    assert "secretly" not in whole
    assert "(Called search with" in whole


async def test_an_unsigned_thought_does_not_go_back(provider: Provider) -> None:
    thought = Reasoning(provider.name, {"text": "unsigned"})
    await provider.ask(user(), thought, Message("assistant", "so"), user())
    whole = str(provider.server.requests(provider.model_name)[-1])
    assert ("unsigned" in whole) is (provider.name == "gemini")


async def test_too_many_strict_tools_are_told_as_plain_ones(anthropic: Provider) -> None:
    tools = tuple(ADD.model_copy(update={"name": f"add{n}"}) for n in range(21))
    answer = await anthropic.ask(user(), tools=(*tools, LOOSE))
    assert [loss.part for loss in answer.losses] == ["strict"]
    assert not [one for one in declared(anthropic) if "strict" in one]


async def test_the_key_is_sent_and_nothing_of_this_machine(anthropic: Provider) -> None:
    await anthropic.ask(user())
    headers = anthropic.server.requests(anthropic.model_name)[-1].headers
    assert KEY in (headers.get("authorization", "") + headers.get("x-api-key", ""))
    told = {name for name in headers if name.startswith("x-stainless-")}
    assert told & {"x-stainless-os", "x-stainless-arch", "x-stainless-runtime"} == set()
