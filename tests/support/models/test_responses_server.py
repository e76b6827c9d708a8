"""The scripted server speaks the Responses API as the official client reads it, and is as strict
as the original."""

from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai.types.responses import Response

from tests.support.models.responses_items import (
    Call,
    Computer,
    Custom,
    Item,
    Output,
    Patch,
    Reasoning,
    Refusal,
    Shell,
    Text,
)
from tests.support.models.responses_server import HttpError, ResponsesServer, answer, text

FUNCTION: Any = {
    "type": "function",
    "name": "add",
    "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}},
}
NATIVE: Any = [{"type": "shell"}, {"type": "apply_patch"}, {"type": "computer"}]
CALL: Any = {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{}"}
RESULT: Any = {"type": "function_call_output", "call_id": "c1", "output": "3"}
SAID: Any = {"role": "user", "content": "go"}
SEARCH = Item({"type": "web_search_call", "status": "completed", "action": {"type": "search"}})
OUTPUTS: tuple[Output, ...] = (
    Reasoning(("I add.", "Then I stop.")),
    Call("c1", "add", '{"x": 17}'),
    Custom("c2", "note", "free text"),
    Shell("c3", ("ls -l", "pwd"), timeout_ms=1000),
    Patch("c4", {"type": "create_file", "path": "a.txt", "diff": "+a"}),
    Computer("c5", ({"type": "screenshot"},)),
    SEARCH,
    Refusal("I will not."),
    Text("Done, in the end.", phase="final_answer"),
)


@pytest.fixture
def server() -> Iterator[ResponsesServer]:
    with ResponsesServer() as server:
        yield server


@pytest.fixture
def sdk(server: ResponsesServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        api_key="sk-test", base_url=server.base_url, max_retries=0, timeout=10
    ) as client:
        yield client


def ask(sdk: openai.OpenAI, model: str, *items: Any, **options: Any) -> Any:
    create: Any = sdk.responses.create
    return create(model=model, input=list(items or (SAID,)), **options)


def refused(sdk: openai.OpenAI, *items: Any, **options: Any) -> str:
    with pytest.raises(openai.BadRequestError) as caught:
        ask(sdk, "main", *items, **options)
    return str(caught.value)


def test_the_client_reads_every_kind_of_output_whole_and_from_the_stream(
    server: ResponsesServer, sdk: openai.OpenAI
) -> None:
    server.script("main", answer(*OUTPUTS), answer(*OUTPUTS))
    options: Any = {"tools": [FUNCTION, *NATIVE], "include": ["reasoning.encrypted_content"]}
    whole: Response = ask(sdk, "main", **options)
    assert [item.type for item in whole.output] == [
        "reasoning",
        "function_call",
        "custom_tool_call",
        "shell_call",
        "apply_patch_call",
        "computer_call",
        "web_search_call",
        "message",
        "message",
    ]
    assert (whole.output_text, whole.status) == ("Done, in the end.", "completed")
    streaming: Any = sdk.responses.stream
    with streaming(model="main", input=[SAID], **options) as stream:
        events: list[Any] = list(stream)
        final: Any = stream.get_final_response()
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert (events[0].type, events[-1].type) == ("response.created", "response.completed")
    assert [item.type for item in final.output] == [item.type for item in whole.output]
    assert final.output[1].arguments == '{"x": 17}'
    assert final.usage.total_tokens == 70

    def joined(kind: str) -> str:
        return "".join(event.delta for event in events if event.type == f"response.{kind}.delta")

    assert joined("function_call_arguments") == '{"x": 17}'
    assert joined("custom_tool_call_input") == "free text"
    assert joined("shell_call_command") == "ls -lpwd"
    assert joined("reasoning_summary_text") == "I add.Then I stop."
    assert joined("refusal") == "I will not."
    assert joined("output_text") == "Done, in the end."
    assert server.violations == []


def test_what_the_model_made_can_be_given_back(server: ResponsesServer, sdk: openai.OpenAI) -> None:
    server.by_turn("main", answer(Reasoning(), Call("c1", "add")), text("3"))
    options: Any = {"store": False, "include": ["reasoning.encrypted_content"], "tools": [FUNCTION]}
    first = ask(sdk, "main", **options)
    made = [item.model_dump(exclude_none=True) for item in first.output]
    assert ask(sdk, "main", SAID, *made, RESULT, **options).output_text == "3"
    assert server.requests("main")[1].results == [("c1", "3")]
    reasoning, call = made
    assert "without its required 'reasoning' item" in refused(sdk, SAID, call, RESULT)
    assert "without its required following item" in refused(sdk, SAID, reasoning)
    changed = reasoning | {"encrypted_content": "mine"}
    assert "could not be verified" in refused(sdk, SAID, changed, call, RESULT)
    bare = {key: value for key, value in reasoning.items() if key != "encrypted_content"}
    assert "Items are not persisted" in refused(sdk, SAID, bare, call, RESULT, store=False)
    assert len(server.violations) == 4


def test_a_stored_conversation_is_continued_by_its_id(
    server: ResponsesServer, sdk: openai.OpenAI
) -> None:
    server.by_turn("main", answer(Call("c1", "add")), text("3"))
    first = ask(sdk, "main", tools=[FUNCTION])
    second = ask(sdk, "main", RESULT, previous_response_id=first.id)
    assert second.output_text == "3"
    assert "No tool output found" in refused(sdk, SAID, previous_response_id=first.id)
    assert "not found" in refused(sdk, RESULT, previous_response_id="resp_unknown")


UNFIT: list[tuple[tuple[Any, ...], str]] = [
    ((SAID, CALL), "No tool output found for function call c1"),
    ((SAID, RESULT), "No tool call found for function call output with call_id c1"),
    ((SAID, CALL, RESULT, RESULT), "No tool call found"),
    ((SAID, RESULT, CALL), "No tool call found"),
    ((SAID, CALL, CALL, RESULT), "Duplicate call_id"),
    ((SAID, CALL, {**RESULT, "type": "shell_call_output", "output": []}), "No tool call found"),
    ((SAID, CALL | {"arguments": "{"}, RESULT), "must be a JSON object"),
    ((SAID, CALL | {"created_by": "me"}, RESULT), "Unknown parameter: 'created_by'"),
    (({"type": "tool_call"},), "Supported values"),
    (({"role": "tool", "content": "x"},), "Invalid value for role"),
    (({"role": "user", "content": [{"type": "text", "text": "x"}]},), "Supported"),
    (({"role": "assistant", "content": [{"type": "input_text", "text": "x"}]},), "Supported"),
    ((SAID | {"id": "a"}, SAID | {"id": "a"}), "Duplicate item found with id a"),
    ((SAID, CALL, RESULT | {"output": [{"type": "output_text", "text": "x"}]}), "Supported"),
]


@pytest.mark.parametrize(("items", "complaint"), UNFIT)
def test_input_that_does_not_fit_together_is_refused(
    server: ResponsesServer, sdk: openai.OpenAI, items: tuple[Any, ...], complaint: str
) -> None:
    server.script("main", text("never"))
    assert complaint in refused(sdk, *items)
    assert server.violations


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"extra_body": {"messages": []}}, "Unknown parameter: 'messages'"),
        ({"extra_body": {"max_tokens": 5}}, "Unknown parameter: 'max_tokens'"),
        ({"max_output_tokens": 5}, "max_output_tokens"),
        ({"include": ["everything"]}, "include"),
        ({"reasoning": {"budget": 5}}, "reasoning"),
        ({"tools": [{"type": "function", "function": {"name": "add"}}]}, "Missing required"),
        ({"tools": [FUNCTION, FUNCTION]}, "not unique"),
        ({"tools": [FUNCTION | {"strict": True}]}, "additionalProperties"),
        ({"tools": [{"type": "bash"}]}, "Supported values"),
        ({"tools": [{"type": "shell", "name": "shell"}]}, "Unknown parameter: 'name'"),
        ({"tool_choice": {"type": "function", "name": "add"}}, "not found in 'tools'"),
        ({"stream_options": {"include_obfuscation": False}}, "stream_options"),
    ],
)
def test_options_that_openai_refuses_are_refused(
    server: ResponsesServer, sdk: openai.OpenAI, options: Any, complaint: str
) -> None:
    server.script("main", text("never"))
    assert complaint in refused(sdk, **options)


def test_a_script_cannot_answer_with_a_tool_that_nobody_declared(
    server: ResponsesServer, sdk: openai.OpenAI
) -> None:
    server.script("main", answer(Shell("c1", ("ls",))))
    assert "undeclared" in refused(sdk)


def test_what_goes_wrong_at_the_provider_reaches_the_client(
    server: ResponsesServer, sdk: openai.OpenAI
) -> None:
    server.script(
        "main",
        HttpError(429, "slow down", retry_after="7"),
        answer(Text("par"), incomplete="max_output_tokens"),
        answer(failed=("server_error", "broken")),
        answer(Text("half of it"), cut_after=4),
        answer(error=("rate_limit_exceeded", "too many")),
    )
    with pytest.raises(openai.RateLimitError) as limited:
        ask(sdk, "main")
    assert limited.value.response.headers["retry-after"] == "7"
    short = ask(sdk, "main")
    assert (short.status, short.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    failed = list(ask(sdk, "main", stream=True))[-1]
    assert (failed.type, failed.response.error.code) == ("response.failed", "server_error")
    with pytest.raises(openai.APIConnectionError):
        list(ask(sdk, "main", stream=True))
    broken = list(ask(sdk, "main", stream=True))[-1]
    assert (broken.type, broken.code) == ("error", "rate_limit_exceeded")
