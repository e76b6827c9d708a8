"""Names of models: which there are, and what an unknown one is told."""

import asyncio
import gc
import sys
import weakref

import pytest

from runward.domain.run.items import Message
from runward.llm.base import Model, ModelRequest
from runward.llm.catalog import MAX_PROJECT_MODELS, ModelCatalog, ModelNotInCatalogError, Models
from runward.llm.offline.model import OfflineModel
from runward.llm.openai.chat.chat_completions import OpenAIChat
from runward.llm.providers.access import ProviderAccess, ProviderName


def catalog(key: str | None = None, url: str | None = None) -> ModelCatalog:
    return ModelCatalog(openai_api_key=key, openai_base_url=url)


def test_the_name_goes_to_the_provider_verbatim() -> None:
    model, name = catalog("sk-1").environment.resolve("openai:org/gpt-5.1:free")
    assert isinstance(model, OpenAIChat)
    assert name == "org/gpt-5.1:free"
    assert catalog("sk-1").environment.resolve("openai:x")[0] is not model


def test_the_offline_model_needs_nothing() -> None:
    models = catalog().environment
    model, name = models.resolve("offline:rules")
    assert isinstance(model, OfflineModel)
    assert name == "rules"
    assert models.resolve("offline:rules")[0] is model


def test_a_server_of_ones_own_needs_no_key() -> None:
    catalog(url="http://127.0.0.1:1/v1").environment.resolve("openai:llama")


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("openai:gpt-5", "OPENAI_API_KEY is missing"),
        ("openai-responses:gpt-5", "OPENAI_API_KEY is missing"),
        ("anthropic:claude", "ANTHROPIC_API_KEY is missing"),
        ("gemini:pro", "GEMINI_API_KEY (or GOOGLE_API_KEY) is missing"),
        ("bedrock:nova", "AWS_BEARER_TOKEN_BEDROCK (or AWS_ACCESS_KEY_ID"),
        ("offline:other", "offline:rules"),
        ("gpt-5", "provider:model"),
        ("openai:", "provider:model"),
        (":x", "The model ':x' does not exist"),
        ("", "provider:model"),
        ("OpenAI:gpt-5", "The model 'OpenAI:gpt-5' does not exist"),
    ],
)
def test_an_unknown_model_is_told_what_there_is(model: str, told: str) -> None:
    with pytest.raises(ModelNotInCatalogError) as refused:
        catalog().environment.resolve(model)
    assert told in str(refused.value)


def test_a_key_that_cannot_stand_in_a_header_is_refused_without_being_shown() -> None:
    with pytest.raises(ValueError, match="API key") as refused:
        catalog("sk-secret\nX-Other: 1")
    assert "secret" not in str(refused.value)


async def test_other_providers_are_reached_with_their_own_keys() -> None:
    reached: dict[ProviderName, ProviderAccess] = {
        "anthropic": ProviderAccess("sk-a"),
        "bedrock": ProviderAccess("token"),
    }
    known = ModelCatalog(openai_api_key=None, openai_base_url=None, providers=reached)
    models = known.environment
    model, name = models.resolve("bedrock:us.amazon.nova-pro-v1:0")
    assert model.abilities.provider == "bedrock"
    assert name == "us.amazon.nova-pro-v1:0"
    assert [*models.abilities()] == ["offline", "anthropic", "bedrock"]
    with pytest.raises(ModelNotInCatalogError):
        models.resolve("gemini:x")
    await known.aclose()


def test_without_the_extra_a_model_of_another_provider_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    models = ModelCatalog(
        openai_api_key=None, openai_base_url=None, providers={"gemini": ProviderAccess("key")}
    ).environment
    assert [*models.abilities()] == ["offline"]
    with pytest.raises(ModelNotInCatalogError, match=r"pip install 'runward\[providers\]'"):
        models.resolve("gemini:x")


async def test_closing_what_was_never_opened_is_fine() -> None:
    await catalog().aclose()
    await catalog("sk-1").aclose()


def of(known: ModelCatalog, *, refused_url: str | None = None, **own: str) -> Models:
    return known.for_project(own, refused_url)


def at(models: Models, name: str) -> Model:
    return models.resolve(name)[0]


def test_without_secrets_of_its_own_a_project_has_the_environment_s_models() -> None:
    known = catalog("sk-1")
    assert of(known) is known.environment


def test_a_project_s_own_key_takes_the_place_of_the_environment_s() -> None:
    known = catalog("sk-1")
    own = of(known, OPENAI_API_KEY="sk-own")
    assert at(own, "openai:x") is not at(known.environment, "openai:x")
    assert of(known, OPENAI_API_KEY="sk-own") is own
    assert of(known, OPENAI_API_KEY="sk-other") is not own


def test_a_key_for_one_provider_leaves_the_others_as_they_are() -> None:
    known = catalog("sk-1")
    own = of(known, GEMINI_API_KEY="own")
    assert at(own, "openai:x") is at(known.environment, "openai:x")
    assert at(own, "gemini:x").abilities.provider == "gemini"
    with pytest.raises(ModelNotInCatalogError, match="ANTHROPIC_API_KEY is missing"):
        at(own, "anthropic:x")


def test_an_address_that_may_not_be_called_leaves_no_way_to_that_provider() -> None:
    own = of(catalog("sk-1"), OPENAI_BASE_URL="http://10.0.0.1", refused_url="leads nowhere good")
    for provider in ("openai", "openai-responses"):
        with pytest.raises(ModelNotInCatalogError, match="leads nowhere good"):
            at(own, f"{provider}:x")
    assert at(own, "offline:rules").abilities.provider == "offline"


def test_a_project_s_key_that_cannot_stand_in_a_header_is_said_and_not_shown() -> None:
    own = of(catalog("sk-1"), ANTHROPIC_API_KEY="sk-secret\n")
    with pytest.raises(
        ModelNotInCatalogError, match="ANTHROPIC_API_KEY contains characters that are not allowed"
    ) as refused:
        at(own, "anthropic:x")
    assert "secret\n" not in str(refused.value)


def test_a_key_that_cannot_stand_in_a_header_leaves_other_providers_as_they_are() -> None:
    known = catalog("sk-1")
    own = of(known, ANTHROPIC_API_KEY="sk-secret\n", GEMINI_API_KEY="own")
    assert at(own, "openai:x") is at(known.environment, "openai:x")
    assert at(own, "gemini:x").abilities.provider == "gemini"
    own = of(known, OPENAI_API_KEY="ключ", GEMINI_API_KEY="own")
    assert at(own, "gemini:x").abilities.provider == "gemini"
    with pytest.raises(ModelNotInCatalogError, match="OPENAI_API_KEY contains characters"):
        at(own, "openai-responses:x")


async def test_what_projects_opened_is_closed_with_the_rest() -> None:
    known = catalog()
    of(known, OPENAI_API_KEY="sk-own", ANTHROPIC_API_KEY="sk-own")
    await known.aclose()


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n"
EVENTS = {
    "openai": b'data: {"choices": [{"delta": {"content": "hi"}, "finish_reason": "stop"}]}\n\n'
    b"data: [DONE]\n\n",
    "anthropic": b'event: message_start\ndata: {"type": "message_start", "message": {"id": "1", '
    b'"type": "message", "role": "assistant", "model": "x", "content": [], "stop_reason": null, '
    b'"usage": {"input_tokens": 1, "output_tokens": 1}}}\n\n'
    b'event: content_block_start\ndata: {"type": "content_block_start", "index": 0, '
    b'"content_block": {"type": "text", "text": "hi"}}\n\n'
    b'event: message_delta\ndata: {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, '
    b'"usage": {"output_tokens": 1}}\n\n'
    b'event: message_stop\ndata: {"type": "message_stop"}\n\n',
}


async def test_clients_of_a_project_close_with_the_last_user_of_its_models() -> None:
    answer = asyncio.Event()
    closed = {provider: asyncio.Event() for provider in EVENTS}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        provider = "anthropic" if b"/v1/messages" in head else "openai"
        await answer.wait()
        writer.write(HEAD % len(EVENTS[provider]) + EVENTS[provider])
        while await reader.read(65536):
            pass
        closed[provider].set()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        known = ModelCatalog(
            openai_api_key=None,
            openai_base_url=url,
            providers={"anthropic": ProviderAccess(None, url)},
        )
        request = ModelRequest("x", "", (Message("user", "go"),))
        own = of(known, OPENAI_API_KEY="sk-a", ANTHROPIC_API_KEY="sk-a")
        models = {provider: at(own, f"{provider}:x") for provider in EVENTS}
        gone = {provider: weakref.ref(model) for provider, model in models.items()}
        asking = {
            provider: asyncio.create_task(model.respond(request, lambda _: None))
            for provider, model in models.items()
        }
        del own, models
        for n in range(MAX_PROJECT_MODELS + 1):
            of(known, OPENAI_API_KEY=f"sk-{n}")
            await asyncio.sleep(0)
        gc.collect()
        assert all(model() is not None for model in gone.values())  # a request is in flight
        answer.set()
        for provider in EVENTS:
            assert (await asyncio.wait_for(asking.pop(provider), 30)).text == "hi", provider
        gc.collect()
        for provider in EVENTS:
            await asyncio.wait_for(closed[provider].wait(), 30)
            assert gone[provider]() is None, provider
        await known.aclose()
