"""The table of what each provider takes, held against the adapters that it is made from."""

import pytest
from pydantic import JsonValue

from runward.domain.json import JsonObject
from runward.domain.run.items import Message
from runward.llm.base import ModelRequest
from runward.llm.capabilities import ADAPTER_SETTINGS, ALL_ABILITIES, capability_table
from runward.llm.openai.chat import chat_completions
from runward.llm.openai.chat.request import function_tool, request_body
from runward.llm.openai.request_parts import Functions
from runward.llm.openai.responses import responses_api
from runward.llm.settings import check_settings
from tests.unit.test_llm_responses_request import body_of as responses_body_of

VALUES: JsonObject = {
    "temperature": 0.5,
    "top_p": 0.5,
    "max_output_tokens": 70,
    "presence_penalty": 0.5,
    "frequency_penalty": 0.5,
    "seed": 7,
    "stop": "END",
    "reasoning": {"effort": "low"},
    "reasoning.summary": {"summary": "auto"},
    "verbosity": "low",
    "service_tier": "flex",
    "user": "ada",
    "safety_identifier": "ada",
    "prompt_cache_key": "key",
    "metadata": {"team": "a"},
    "store": True,
}


def given(name: str) -> dict[str, JsonValue]:
    """The setting of a row: `reasoning.summary` is a part of one."""
    settings: dict[str, JsonValue] = {name.partition(".")[0]: VALUES[name]}
    assert check_settings(settings) == []
    return settings


def chat_body(settings: dict[str, JsonValue]) -> JsonObject:
    asked = ModelRequest("gpt", "", (Message("user", "go"),), settings=settings)
    return request_body(asked, Functions(function_tool), stream=True)


@pytest.mark.parametrize("name", sorted(chat_completions.ABILITIES.settings - ADAPTER_SETTINGS))
def test_every_setting_that_chat_completions_takes_is_sent(name: str) -> None:
    assert chat_body(given(name)) != chat_body({})


@pytest.mark.parametrize("name", sorted(responses_api.ABILITIES.settings - ADAPTER_SETTINGS))
def test_every_setting_that_the_responses_api_takes_is_sent(name: str) -> None:
    said = Message("user", "go")
    assert responses_body_of(said, settings=given(name)) != responses_body_of(said, settings={})


def test_every_provider_has_a_column_and_every_ability_a_row() -> None:
    head, _, *rows = capability_table().splitlines()
    assert [f"`{can.provider}`" in head for can in ALL_ABILITIES] == [True] * 5
    assert {row.count("|") for row in rows} == {len(ALL_ABILITIES) + 2}
    shown = {row.split("|")[1].strip() for row in rows}
    for can in ALL_ABILITIES:
        assert {f"setting `{name}`" for name in can.settings - ADAPTER_SETTINGS} <= shown
        assert {f"hosted `{kind}`" for kind in can.hosted} <= shown
        assert {f"executor `{kind}`" for kind in can.executors} <= shown
