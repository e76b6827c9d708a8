"""The HTTP cases of the Open Responses compliance suite, written anew from the specification: each
answer and event is held against OpenAI's own types and the list of required fields. All cases at
once too, as the suite runs them."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.api.project import Project, at_once
from tests.support.models import responses_shapes as shapes
from tests.support.services.client import Json

MODEL = "offline:rules"
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9"
    "awAAAABJRU5ErkJggg=="
)
WEATHER: Json = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather at a place.",
    "parameters": {
        "type": "object",
        "properties": {"location": {"type": "string", "description": "City and country."}},
        "required": ["location"],
    },
}


def message(role: str, content: Any, **more: Any) -> Json:
    return {"type": "message", "role": role, "content": content, **more}


def create(project: Project, *items: Json, **fields: Any) -> Json:
    answer = project.client.request(
        "POST", "/v1/responses", {"model": MODEL, "input": list(items), **fields}
    )
    assert answer.status_code == 200, answer.text
    return shapes.response(answer.json())


def stream(project: Project, *items: Json, **fields: Any) -> list[Json]:
    body = {"model": MODEL, "input": list(items), "stream": True, **fields}
    with project.client.streaming("POST", "/v1/responses", body) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        return shapes.events(parsed(answer.iter_lines()))


def parsed(lines: Any) -> list[Json]:
    """The events; the event field says their type, and `[DONE]` comes last."""
    found: list[Json] = []
    name, last = "", ""
    for line in lines:
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            last = line.removeprefix("data: ")
            if last != "[DONE]":
                found.append(json.loads(last))
                assert found[-1]["type"] == name
    assert last == "[DONE]"
    return found


def basic_response(project: Project) -> None:
    made = create(project, message("user", "Say hello in exactly 3 words."))
    assert made["status"] == "completed"
    assert made["output"]


def assistant_phase(project: Project) -> None:
    made = create(
        project,
        message("user", "Find the report."),
        message("assistant", "I am looking for it.", phase="commentary"),
        message("assistant", "It is on the desk.", phase="final_answer"),
        message("user", "Which desk?"),
    )
    assert made["status"] == "completed"


def streaming_response(project: Project) -> None:
    events = stream(project, message("user", "Count from 1 to 5."))
    assert events[-1]["type"] == "response.completed"
    assert events[-1]["response"]["status"] == "completed"


def system_prompt(project: Project) -> None:
    for role in ("system", "developer"):
        made = create(project, message(role, "Speak like a pirate."), message("user", "Say hello."))
        assert made["status"] == "completed"


def tool_calling(project: Project) -> None:
    asks = message("user", 'get_weather(location="San Francisco, CA")')
    made = create(project, asks, tools=[WEATHER])
    assert made["status"] == "completed"
    [call] = made["output"]
    assert (call["type"], call["name"]) == ("function_call", "get_weather")
    assert json.loads(call["arguments"]) == {"location": "San Francisco, CA"}


def tool_calling_streaming(project: Project) -> None:
    asks = message("user", 'get_weather(location="Paris")')
    events = stream(project, asks, tools=[WEATHER])
    about = [event for event in events if "output_index" in event]
    assert [event["type"] for event in about] == [
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
    ]
    assert about[0]["item"]["type"] == about[-1]["item"]["type"] == "function_call"


def image_input(project: Project) -> None:
    parts = [
        {"type": "input_text", "text": "What is in this picture?"},
        {"type": "input_image", "image_url": PIXEL},
    ]
    assert create(project, message("user", parts))["status"] == "completed"


def multi_turn(project: Project) -> None:
    made = create(
        project,
        message("user", "My name is Alice."),
        message("assistant", "Hello Alice! How can I help?"),
        message("user", "What is my name?"),
    )
    assert made["status"] == "completed"


def compact_response(project: Project) -> None:
    body = {
        "model": MODEL,
        "prompt_cache_key": "conversation-1",
        "input": [message("user", "My name is Alice."), message("assistant", "Hello Alice!")],
    }
    answer = project.client.request("POST", "/v1/responses/compact", body)
    assert answer.status_code == 200, answer.text
    [item] = shapes.compaction(answer.json())["output"]
    made = create(project, item, message("user", "What is my name?"))
    assert made["status"] == "completed"


def compact_missing_model(project: Project) -> None:
    body = {"input": [message("user", "My name is Alice.")]}
    answer = project.client.request("POST", "/v1/responses/compact", body)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "missing_required_parameter"


CASES = (
    basic_response,
    assistant_phase,
    streaming_response,
    system_prompt,
    tool_calling,
    tool_calling_streaming,
    image_input,
    multi_turn,
    compact_response,
    compact_missing_model,
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_compliance(case: Callable[[Project], None], project: Project) -> None:
    case(project)


def test_compliance_of_all_at_once(project: Project) -> None:
    at_once(len(CASES), lambda n: CASES[n](project))
