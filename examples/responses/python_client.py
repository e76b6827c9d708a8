"""OpenAI's own Python SDK, unmodified, with Runward behind it.

    pip install openai
    RUNWARD_KEY=rw_… python3 examples/responses/python_client.py

The tool `refund` must be registered and need approval above 100 (`make run` does that). The model
is `offline:rules`, which calls what a text says as `name(a=1)`; an agent's name works as well.
"""

import json
import os
from typing import Any

from openai import NotFoundError, OpenAI
from openai.types.responses import ResponseStreamEvent

MODEL = "offline:rules"
REFUND: Any = {"type": "mcp", "server_label": "runward", "allowed_tools": ["refund"]}
WEATHER: Any = {
    "type": "function",
    "name": "get_weather",
    "parameters": {
        "type": "object",
        "properties": {"location": {"type": "string"}},
        "required": ["location"],
    },
}

client = OpenAI(
    base_url=os.environ.get("RUNWARD_URL", "http://127.0.0.1:8080") + "/v1",
    api_key=os.environ["RUNWARD_KEY"],
)


def create() -> str:
    """Create a response, which is a run, and continue it with a second one."""
    first = client.responses.create(model=MODEL, input="My name is Alice.")
    second = client.responses.create(model=MODEL, input="Who am I?", previous_response_id=first.id)
    assert "Who am I?" in second.output_text
    return f"create: {second.status}"


def stream() -> str:
    """Stream the text of a response."""
    with client.responses.stream(model=MODEL, input="Hello.") as events:
        shown = "".join(
            event.delta for event in events if event.type == "response.output_text.delta"
        )
        assert shown == events.get_final_response().output_text
    return "stream: the pieces are the text"


def run_a_function() -> str:
    """Run a function of this client that the model calls, and continue with its output."""
    first = client.responses.create(
        model=MODEL, input='get_weather(location="Rome")', tools=[WEATHER]
    )
    [call] = first.output
    assert call.type == "function_call"
    place = json.loads(call.arguments)["location"]
    second = client.responses.create(
        model=MODEL,
        previous_response_id=first.id,
        input=[
            {
                "type": "function_call_output",
                "call_id": call.call_id,
                "output": f"sunny in {place}",
            }
        ],
    )
    assert "sunny in Rome" in second.output_text
    return f"function: {second.output_text}"


def approve() -> str:
    """Approve a call. The response ends with the approval request, and the next has the answer."""
    first = client.responses.create(
        model=MODEL, input='refund(order="A-1018", amount=500)', tools=[REFUND]
    )
    [question] = first.output
    assert question.type == "mcp_approval_request"
    second = client.responses.create(
        model=MODEL,
        previous_response_id=first.id,
        input=[
            {
                "type": "mcp_approval_response",
                "approval_request_id": question.id,
                "approve": True,
            }
        ],
    )
    refund = second.output[0]
    assert refund.type == "mcp_call"
    assert refund.approval_request_id == question.id
    return f"approve: {question.name} {refund.status}"


def cut_and_resume() -> str:
    """Disconnect from a background response, which continues, and read the rest later."""
    seen: list[ResponseStreamEvent] = []
    events = client.responses.create(
        model=MODEL,
        input='refund(order="A-1017", amount=50)',
        tools=[REFUND],
        background=True,
        stream=True,
    )
    for event in events:
        seen.append(event)
        if event.type == "response.in_progress":
            break
    events.close()
    assert seen[0].type == "response.created"
    last = seen[-1].sequence_number
    id_ = seen[0].response.id
    seen += client.responses.retrieve(id_, stream=True, starting_after=last)
    numbers = [event.sequence_number for event in seen]
    assert numbers == sorted(set(numbers))
    pieces = [event.delta for event in seen if event.type == "response.output_text.delta"]
    ended = seen[-1]
    assert ended.type == "response.completed"
    assert ended.response.output_text == "".join(pieces)
    assert ended.response == client.responses.retrieve(id_)
    return f"resume: {seen[-1].type}"


def cancel() -> str:
    """Cancel a response that waits for this client."""
    waiting = client.responses.create(
        model=MODEL, input='get_weather(location="Oslo")', tools=[WEATHER], background=True
    )
    client.responses.cancel(waiting.id)
    ended = client.responses.cancel(waiting.id)
    assert ended.status in ("cancelled", "completed")  # already requested
    return "cancel: the run has ended"


def fail() -> str:
    """Cause errors, which the SDK raises as its own types."""
    try:
        client.responses.create(model="nobody", input="Hello.")
    except NotFoundError as error:
        return f"error: {error.code}"
    raise AssertionError("there is an agent called nobody")


if __name__ == "__main__":
    for step in (create, stream, run_a_function, approve, cut_and_resume, cancel, fail):
        print(step())
