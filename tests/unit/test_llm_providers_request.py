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
from tests.unit.provider_models import ADD, KEY, LOOSE, NAMES, Vendor, connected, texts_of, user

PNG = "iVBORw0KGgo="
PICTURE = MediaPart("image", data=PNG, media_type="image/png")


@pytest.fixture(scope="module")
def vendors() -> Iterator[AllProviders]:
    def agrees(_: ProviderRequest) -> Reply:
        return says("ok")

    with AllProviders() as vendors:
        for name, model in NAMES.items():
            getattr(vendors, name).respond(model, agrees)
        yield vendors


async def one(name: ProviderName, vendors: AllProviders) -> AsyncIterator[Vendor]:
    async with connected(name, vendors) as vendor:
        yield vendor
        assert vendor.server.violations == []


@pytest.fixture(scope="module", params=list(NAMES))
async def vendor(request: Any, vendors: AllProviders) -> AsyncIterator[Vendor]:
    async for vendor in one(request.param, vendors):
        yield vendor


@pytest.fixture(scope="module")
async def anthropic(vendors: AllProviders) -> AsyncIterator[Vendor]:
    async for vendor in one("anthropic", vendors):
        yield vendor


@pytest.fixture(scope="module")
async def gemini(vendors: AllProviders) -> AsyncIterator[Vendor]:
    async for vendor in one("gemini", vendors):
        yield vendor


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


def choice_of(vendor: Vendor) -> Any:
    match vendor.name:
        case "anthropic":
            return vendor.sent.get("tool_choice")
        case "gemini":
            told = vendor.sent["toolConfig"]["functionCallingConfig"]
            names = told.pop("allowedFunctionNames", None)
            return told | ({"allowed_function_names": names} if names else {})
        case "bedrock":
            return vendor.sent.get("toolConfig", {}).get("toolChoice")


@pytest.mark.parametrize("choice", ["auto", "none", "required", "named"])
async def test_a_choice_is_put_in_the_vendors_words(vendor: Vendor, choice: str) -> None:
    told = {"name": "add"} if choice == "named" else choice
    answer = await vendor.ask(user(), tool_choice=told)
    assert choice_of(vendor) == CHOICES[vendor.name][choice]
    assert answer.losses == ()


def declared(vendor: Vendor) -> list[Body]:
    match vendor.name:
        case "anthropic":
            return vendor.sent["tools"]
        case "gemini":
            tools = vendor.sent["tools"]
            return [one for tool in tools for one in tool.get("functionDeclarations", [])]
        case "bedrock":
            tools = vendor.sent["toolConfig"]["tools"]
            return [tool["toolSpec"] for tool in tools if "toolSpec" in tool]


async def test_tools_are_strict_where_they_are_and_the_vendor_has_that(vendor: Vendor) -> None:
    await vendor.ask(user())
    assert [one["name"] for one in declared(vendor)] == ["add", "loose"]
    if vendor.name == "gemini":
        assert choice_of(vendor) == {"mode": "AUTO"}  # one of the tools is not strict
        await vendor.ask(user(), tools=(ADD,))
        assert choice_of(vendor) == {"mode": "VALIDATED"}
    else:
        assert [one.get("strict") for one in declared(vendor)] == [True, None]


async def test_gemini_is_told_what_it_reads_of_a_schema_and_the_rest_is_a_loss(
    gemini: Vendor,
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
        f"gemini:{gemini.model_name} is not told of exclusiveMinimum, multipleOf in its parameters."
    )
    assert answer.losses == (Loss("tools.rich", why),)


async def test_anthropic_is_told_several_types_as_alternatives(anthropic: Vendor) -> None:
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


async def test_an_output_schema_is_told(vendor: Vendor) -> None:
    schema: Body = {
        "type": "object",
        "properties": {"age": {"type": "integer"}},
        "required": ["age"],
        "additionalProperties": False,
    }
    answer = await vendor.ask(user(), output_schema=schema)
    assert "age" in str(vendor.server.requests(vendor.model_name)[-1])
    assert answer.losses == ()


async def test_an_open_map_is_not_told_as_a_schema_to_claude(vendor: Vendor) -> None:
    schema = {"type": "object", "additionalProperties": {"type": "string"}}
    answer = await vendor.ask(user(), output_schema=schema)
    lost = [] if vendor.name == "gemini" else ["output_schema"]
    assert [loss.part for loss in answer.losses] == lost


async def test_settings_are_translated(vendor: Vendor) -> None:
    settings = {"temperature": 0.5, "top_p": None, "max_output_tokens": 99, "stop": "END"}
    own: dict[ProviderName, Body] = {
        "anthropic": {"user": "u", "service_tier": "auto", "extra_body": {"top_k": 3}},
        "gemini": {"seed": 4, "presence_penalty": 1, "extra_body": {"serviceTier": "flex"}},
        "bedrock": {"metadata": {"a": "b"}, "service_tier": "flex", "extra_body": {"top_k": 3}},
    }
    answer = await vendor.ask(user(), settings=settings | own[vendor.name])
    assert answer.losses == ()
    sent = vendor.sent
    match vendor.name:
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


async def test_an_effort_makes_the_model_think(vendor: Vendor) -> None:
    answer = await vendor.ask(user(), settings={"reasoning": {"effort": "low"}})
    assert answer.losses == ()
    sent = vendor.sent
    match vendor.name:
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
    anthropic: Vendor, fields: Any, lost: str
) -> None:
    answer = await anthropic.ask(user(), **fields)
    assert [loss.part for loss in answer.losses] == [lost]


async def test_prompts_are_cached_behind_tools_instructions_and_the_end(vendor: Vendor) -> None:
    await vendor.ask(user("one"), Message("assistant", "two"), user("three"))
    sent = vendor.sent
    match vendor.name:
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
    vendor: Vendor,
) -> None:
    items = (Message("system", "First."), user("hi"), Message("assistant", "yes"))
    await vendor.ask(*items, Message("system", "Later."), user("go"))
    whole = str(vendor.server.requests(vendor.model_name)[-1])
    places = [whole.index(text) for text in ("yes", "Later.", '"go"')]
    assert places == sorted(places)
    match vendor.name:
        case "gemini":
            system = vendor.sent["systemInstruction"]["parts"]
        case _:
            system = vendor.sent["system"]
    assert texts_of(system) == ["Be kind.", "First."]
    assert "<system>" in whole


async def test_a_conversation_of_system_messages_alone_is_asked(vendor: Vendor) -> None:
    assert (await vendor.ask(Message("system", "Speak."))).text == "ok"


MEDIA: tuple[Part, ...] = (
    TextPart("look"),
    PICTURE,
    MediaPart("file", data="aGk=", media_type="text/plain"),
)


async def test_images_and_files_are_shown_in_messages_and_in_results(vendor: Vendor) -> None:
    call = ToolCall(CallId("c1"), "add", '{"x": 1}')
    result = ToolResult(CallId("c1"), "see", parts=MEDIA)
    items = (Message("user", MEDIA), call, result)
    await vendor.ask(*items)
    whole = str(vendor.server.requests(vendor.model_name)[-1])
    assert whole.count(PNG) == 2
    match vendor.name:
        case "anthropic":
            [block] = vendor.sent["messages"][-1]["content"]
            assert [part["type"] for part in block["content"]] == ["text", "image", "document"]
        case "gemini":
            [content] = vendor.sent["contents"][-1:]
            assert len(content["parts"][0]["functionResponse"]["parts"]) == 2
        case "bedrock":
            [block, *_] = vendor.sent["messages"][-1]["content"]
            assert {"image", "text"} <= {key for p in block["toolResult"]["content"] for key in p}


async def test_an_empty_result_in_parts_says_so(vendor: Vendor) -> None:
    call = ToolCall(CallId("c1"), "add", '{"x": 1}')
    await vendor.ask(user(), call, ToolResult(CallId("c1"), "", parts=(TextPart(""),)))
    assert "(empty)" in str(vendor.server.requests(vendor.model_name)[-1])


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
async def test_what_a_vendor_does_not_take_is_told_in_text(
    vendor: Vendor, part: MediaPart, shown: set[str]
) -> None:
    await vendor.ask(Message("user", (part,)))
    whole = str(vendor.server.requests(vendor.model_name)[-1])
    assert (f"({part.type} " in whole) is (vendor.name not in shown)


async def test_data_that_is_no_base64_is_refused(anthropic: Vendor) -> None:
    broken = MediaPart("image", data="a", media_type="image/png")
    with pytest.raises(ModelError, match="not base64") as refused:
        await anthropic.ask(Message("user", (broken,)))
    assert refused.value.transient is False


async def test_media_of_the_models_own_messages_follow_in_one_of_the_users(
    anthropic: Vendor, gemini: Vendor
) -> None:
    drawn = Message("assistant", (TextPart("Here."), PICTURE))
    await anthropic.ask(user(), drawn, user("nice"))
    [_, said, behind] = anthropic.sent["messages"]
    assert [block["type"] for block in said["content"]] == ["text", "text"]
    assert [block["type"] for block in behind["content"]] == ["text", "image", "text"]
    await gemini.ask(user(), drawn, user("nice"))
    [_, said, _] = gemini.sent["contents"]
    assert [sorted(part) for part in said["parts"]] == [["text"], ["inlineData"]]


async def test_thoughts_and_hosted_calls_of_others_are_not_given_to_it(vendor: Vendor) -> None:
    other = "gemini" if vendor.name != "gemini" else "anthropic"
    thought = Reasoning(other, {"text": "secretly", "signature": "c2ln"})
    searched = HostedCall("h1", "search", "web_search", other, {"q": "x"}, "found", {"parts": []})
    await vendor.ask(user(), thought, searched, Message("assistant", "so"), user())
    whole = str(vendor.server.requests(vendor.model_name)[-1])
    assert "secretly" not in whole
    assert "(Called search with" in whole


async def test_an_unsigned_thought_does_not_go_back(vendor: Vendor) -> None:
    thought = Reasoning(vendor.name, {"text": "unsigned"})
    await vendor.ask(user(), thought, Message("assistant", "so"), user())
    whole = str(vendor.server.requests(vendor.model_name)[-1])
    assert ("unsigned" in whole) is (vendor.name == "gemini")


async def test_too_many_strict_tools_are_told_as_plain_ones(anthropic: Vendor) -> None:
    tools = tuple(ADD.model_copy(update={"name": f"add{n}"}) for n in range(21))
    answer = await anthropic.ask(user(), tools=(*tools, LOOSE))
    assert [loss.part for loss in answer.losses] == ["strict"]
    assert not [one for one in declared(anthropic) if "strict" in one]


async def test_the_key_is_sent_and_nothing_of_this_machine(anthropic: Vendor) -> None:
    await anthropic.ask(user())
    headers = anthropic.server.requests(anthropic.model_name)[-1].headers
    assert KEY in (headers.get("authorization", "") + headers.get("x-api-key", ""))
    told = {name for name in headers if name.startswith("x-stainless-")}
    assert told & {"x-stainless-os", "x-stainless-arch", "x-stainless-runtime"} == set()
