"""Names of models: which there are, and what an unknown one is told."""

import sys

import pytest

from app.llm.catalog import ModelCatalog, UnknownModelError
from app.llm.offline import Offline
from app.llm.openai_chat import OpenAIChat
from app.llm.vendors_access import Access, VendorName


def catalog(key: str | None = None, url: str | None = None) -> ModelCatalog:
    return ModelCatalog(openai_api_key=key, openai_base_url=url)


def test_the_name_goes_to_the_vendor_verbatim() -> None:
    model, name = catalog("sk-1").resolve("openai:org/gpt-5.1:free")
    assert isinstance(model, OpenAIChat)
    assert name == "org/gpt-5.1:free"
    assert catalog("sk-1").resolve("openai:x")[0] is not model


def test_the_offline_model_needs_nothing() -> None:
    models = catalog()
    model, name = models.resolve("offline:rules")
    assert isinstance(model, Offline)
    assert name == "rules"
    assert models.resolve("offline:rules")[0] is model


def test_a_server_of_ones_own_needs_no_key() -> None:
    catalog(url="http://127.0.0.1:1/v1").known("openai:llama")


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("openai:gpt-5", "OPENAI_API_KEY is missing"),
        ("openai-responses:gpt-5", "OPENAI_API_KEY is missing"),
        ("anthropic:claude", "ANTHROPIC_API_KEY is missing"),
        ("gemini:pro", "GEMINI_API_KEY (or GOOGLE_API_KEY) is missing"),
        ("bedrock:nova", "AWS_BEARER_TOKEN_BEDROCK (or AWS_ACCESS_KEY_ID"),
        ("offline:other", "offline:rules"),
        ("gpt-5", "vendor:model"),
        ("openai:", "vendor:model"),
        (":x", "no model ':x'"),
        ("", "vendor:model"),
        ("OpenAI:gpt-5", "no model 'OpenAI:gpt-5'"),
    ],
)
def test_an_unknown_model_is_told_what_there_is(model: str, told: str) -> None:
    with pytest.raises(UnknownModelError) as refused:
        catalog().known(model)
    assert told in str(refused.value)


@pytest.mark.parametrize("model", ["openai:gpt-5", "offline:rules"])
def test_settings_are_judged_for_every_model(model: str) -> None:
    assert catalog("sk-1").check_settings(model, {"temperature": 1}) == []
    (problem,) = catalog("sk-1").check_settings(model, {"temprature": 1})
    assert problem.startswith("temprature: ")
    assert "temperature" in problem


def test_settings_of_an_unknown_model_cannot_be_judged() -> None:
    with pytest.raises(UnknownModelError):
        catalog().check_settings("openai:gpt-5", {})


def test_a_key_that_cannot_stand_in_a_header_is_refused_without_being_shown() -> None:
    with pytest.raises(ValueError, match="API key") as refused:
        catalog("sk-secret\nX-Other: 1")
    assert "secret" not in str(refused.value)


async def test_other_vendors_are_reached_with_their_own_keys() -> None:
    reached: dict[VendorName, Access] = {"anthropic": Access("sk-a"), "bedrock": Access("token")}
    models = ModelCatalog(openai_api_key=None, openai_base_url=None, vendors=reached)
    model, name = models.resolve("bedrock:us.amazon.nova-pro-v1:0")
    assert model.abilities.vendor == "bedrock"
    assert name == "us.amazon.nova-pro-v1:0"
    assert models.vendors == ["offline", "anthropic", "bedrock"]
    with pytest.raises(UnknownModelError):
        models.known("gemini:x")
    await models.aclose()


def test_without_the_extra_a_model_of_another_vendor_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    models = ModelCatalog(
        openai_api_key=None, openai_base_url=None, vendors={"gemini": Access("key")}
    )
    assert models.vendors == ["offline"]
    with pytest.raises(UnknownModelError, match=r"pip install 'runward\[vendors\]'"):
        models.known("gemini:x")


async def test_closing_what_was_never_opened_is_fine() -> None:
    await catalog().aclose()
    await catalog("sk-1").aclose()
