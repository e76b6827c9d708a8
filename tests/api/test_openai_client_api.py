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


# Conversations.


def test_a_conversation_is_a_session(project: Project, sdk: openai.OpenAI) -> None:
    model = project.script(text("Hello Alice."), text("Alice."))
    made = sdk.conversations.create(metadata={"customer": "c-7"})
    first = sdk.responses.create(model=model, input="I am Alice.", conversation=made.id)
    second = sdk.responses.create(model=model, input="Who?", conversation={"id": made.id})
    assert [one["content"] for one in project.asked()[-1].messages] == [
        "I am Alice.",
        "Hello Alice.",
        "Who?",
    ]
    for response in (first, second, sdk.responses.retrieve(first.id)):
        assert response.conversation is not None
        assert response.conversation.id == made.id
    items = list(sdk.conversations.items.list(made.id, order="asc", limit=3))
    assert [one.type for one in items] == ["message"] * 4
    newest: Any = next(iter(sdk.conversations.items.list(made.id)))
    assert (
        newest == items[-1] == sdk.conversations.items.retrieve(newest.id, conversation_id=made.id)
    )
    session = made.id.replace("conv_", "sess_")
    assert project.client.call("GET", f"/v1/sessions/{session}")["metadata"] == made.metadata
    changed = sdk.conversations.update(made.id, metadata={"customer": "c-8"})
    assert changed == sdk.conversations.retrieve(made.id)
    assert changed.metadata == {"customer": "c-8"}
    assert sdk.conversations.delete(made.id).deleted
    with pytest.raises(openai.NotFoundError):
        sdk.conversations.retrieve(made.id)
    assert sdk.responses.retrieve(second.id).output_text == "Alice."


def test_a_client_adds_and_deletes_items_that_the_model_reads(
    project: Project, sdk: openai.OpenAI
) -> None:
    model = project.script(text("Sunny."), text("Sunny."))
    first: Any = {"role": "user", "content": "I am Alice."}
    made = sdk.conversations.create(items=[first])
    asked: Any = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
    answer: Any = {"type": "function_call_output", "call_id": "c1", "output": "sun"}
    [one] = sdk.conversations.items.create(made.id, items=[asked]).data
    [two] = sdk.conversations.items.create(made.id, items=[answer]).data
    assert (one.type, two.type) == ("function_call", "function_call_output")
    sdk.responses.create(model=model, input="So?", conversation=made.id)
    roles = [one["role"] for one in project.asked()[-1].messages]
    assert roles == ["user", "assistant", "tool", "user"]
    assert one.id is not None
    sdk.conversations.items.delete(one.id, conversation_id=made.id)
    with pytest.raises(openai.NotFoundError):
        sdk.conversations.items.retrieve(one.id, conversation_id=made.id)
    kept = list(sdk.conversations.items.list(made.id, order="asc"))
    assert [item.type for item in kept] == ["message", "function_call_output", *["message"] * 2]
    sdk.responses.create(model=model, input="Well?", conversation=made.id)
    said = [one["content"] for one in project.asked()[-1].messages]
    assert said == ["I am Alice.", "So?", "Sunny.", "Well?"]
    own = project.client.call("GET", f"/v1/sessions/{made.id.replace('conv_', 'sess_')}/items")
    assert [item["run_id"] is None for item in own["data"]] == [True, True, *[False] * 4]


def test_a_conversation_of_another_project_does_not_exist(
    other: Project, sdk: openai.OpenAI
) -> None:
    made = sdk.conversations.create()
    path = f"/v1/conversations/{made.id}"
    item: Any = {"items": [{"role": "user", "content": "x"}]}
    empty: Any = {"metadata": {}}
    for method, below, body in (
        ("GET", "", None),
        ("POST", "", empty),
        ("DELETE", "", None),
        ("GET", "/items", None),
        ("POST", "/items", item),
        ("GET", f"/items/msg_{made.id[5:]}_1_1", None),
        ("DELETE", f"/items/msg_{made.id[5:]}_1_1", None),
    ):
        answer = other.client.request(method, path + below, body)
        assert answer.status_code == 404, (method, below)
        assert answer.json()["error"]["code"] == "session_not_found"
