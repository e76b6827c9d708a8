"""OpenAI's own Python SDK with its default settings: what surrounds a response."""

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.api.project import Project
from tests.api.test_open_responses import MODEL, WEATHER, message
from tests.support.models.chat_server import text

TOOL: Any = WEATHER


@pytest.fixture
def sdk(project: Project) -> Iterator[openai.OpenAI]:
    client = project.client
    with openai.OpenAI(base_url=f"{client.url}/v1", api_key=client.key) as ours:
        yield ours


# Input tokens.


def count(sdk: openai.OpenAI, **fields: Any) -> int:
    return sdk.responses.input_tokens.count(**fields).input_tokens


def test_input_tokens_are_estimated_from_all_that_the_model_reads(
    project: Project, sdk: openai.OpenAI
) -> None:
    """An item counts as 16 bytes and its text, and four bytes as a token."""
    words = "x" * 4000
    assert count(sdk, input=words) == 1004
    assert count(sdk, model=MODEL, input=words, instructions=words) == 2004
    assert count(sdk, model=MODEL, input=words, tools=[TOOL]) > 1004 + 20
    project.client.call("POST", "/v1/agents", {"name": "clerk", "model": MODEL})
    project.tool("pay")
    agent = {"model": MODEL, "instructions": words, "tools": ["pay"]}
    project.client.call("POST", "/v1/agents", {"name": "teller", **agent})
    assert count(sdk, model="teller", input=words) > count(sdk, model="clerk", input=words) + 1000
    with pytest.raises(openai.NotFoundError):
        count(sdk, model="nobody", input=words)


def test_input_tokens_include_the_earlier_conversation(
    project: Project, sdk: openai.OpenAI
) -> None:
    words: Any = message("user", "x" * 4000)
    first = sdk.responses.create(model=MODEL, input=[words])
    assert count(sdk, previous_response_id=first.id, input="y") > 1004
    asks = 'get_weather(location="Rome")'
    both: Any = [words, message("user", asks)]
    waiting = sdk.responses.create(model=MODEL, input=both, tools=[TOOL])
    [call] = waiting.output
    assert call.type == "function_call"
    answer: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "y" * 4000}
    assert count(sdk, previous_response_id=waiting.id, input=[answer]) > 2008
    session = project.client.call("POST", "/v1/sessions", {})["id"]
    sdk.responses.create(model=MODEL, input=[words], conversation=session)
    assert count(sdk, conversation=session, input="y") > 1004
    assert len(project.client.call("GET", "/v1/runs")["data"]) == 3


# Models.


def test_agents_and_known_models_are_listed(project: Project, sdk: openai.OpenAI) -> None:
    model = project.script(text("Hi."))
    for agent in ({"name": "clerk", "model": MODEL}, {"name": "ada", "model": model}):
        project.client.call("POST", "/v1/agents", agent)
    listed = {one.id: one for one in sdk.models.list()}
    assert [*listed][:3] == ["ada", "clerk", MODEL]
    assert model in listed
    assert (listed["ada"].owned_by, listed[model].owned_by) == ("runward", "openai")
    assert listed["clerk"].created > 0
    for name, shown in listed.items():
        assert sdk.models.retrieve(name) == shown
    assert sdk.responses.create(model="ada", input="x").output_text == "Hi."


def test_a_model_needs_no_list_to_be_found(sdk: openai.OpenAI) -> None:
    assert sdk.models.retrieve("openai:meta/llama-4").id == "openai:meta/llama-4"
    for unknown in ("nobody", "nobody:x", "offline:x"):
        with pytest.raises(openai.NotFoundError) as missing:
            sdk.models.retrieve(unknown)
        assert missing.value.code == "model_not_found"
