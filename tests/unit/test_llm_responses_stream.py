"""Events and bodies of the Responses API, whole and broken, become one response."""

import json
from typing import Any

import pytest

from runward.domain.registry.tools import HostedTool, ToolSpec
from runward.domain.run.items import HostedCall, Message, Native, Reasoning
from runward.domain.run.response import ModelResponse, RequestedCall, Usage
from runward.llm.base import ArgumentsDelta, ModelDelta, ModelError, ReasoningDelta, TextDelta
from runward.llm.failures import MAX_CALLS, MAX_OUTPUT_ITEMS
from runward.llm.openai.request_parts import Functions
from runward.llm.openai.responses.response import ResponseMerge
from runward.llm.openai.responses.tools import DeclaredTools, function_tool

PROVIDER = "openai-responses"
USAGE = {
    "input_tokens": 9,
    "input_tokens_details": {"cached_tokens": 3},
    "output_tokens": 4,
    "output_tokens_details": {"reasoning_tokens": 2},
}
CALL: dict[str, Any] = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "c1",
    "name": "a",
    "arguments": "{}",
}


def mcp(name: str, label: str) -> ToolSpec:
    hosted = HostedTool(kind="mcp", settings={"server_label": label})
    return ToolSpec(name=name, parameters={}, type="hosted", hosted=hosted, strict=False)


def part(text: str, *notes: Any) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [*notes], "logprobs": []}


def message(*content: Any, **more: Any) -> dict[str, Any]:
    whole = {"type": "message", "id": "msg_1", "role": "assistant", "content": [*content]}
    return whole | more


def body(*output: Any, **more: Any) -> bytes:
    return json.dumps({"status": "completed", "output": output, "usage": USAGE, **more}).encode()


def merge_of(*tools: ToolSpec, deltas: list[ModelDelta] | None = None) -> ResponseMerge:
    offered = DeclaredTools(tools, Functions(function_tool))
    return ResponseMerge(deltas.append if deltas is not None else lambda _: None, offered)


def whole(*output: Any, tools: tuple[ToolSpec, ...] = (), **more: Any) -> ModelResponse:
    return merge_of(*tools).whole(body(*output, **more))


def event(kind: str, **fields: Any) -> bytes:
    return json.dumps({"type": f"response.{kind}", **fields}).encode()


def failure(**more: Any) -> ModelError:
    with pytest.raises(ModelError) as failed:
        whole(**more)
    return failed.value


def test_a_whole_answer_is_read() -> None:
    response = whole(message(part("Hel"), part("lo")), CALL)
    assert response.text == "Hello"
    assert response.calls == (RequestedCall("c1", "a", "{}"),)
    assert (response.finish, response.usage) == ("tool_calls", Usage(9, 4, 3, 2))
    assert whole(message(part("Hi"))).finish == "stop"


def test_what_cannot_be_said_anew_is_kept_of_a_message() -> None:
    note = {"type": "url_citation", "url": "https://e.example"}
    plain, cited, phased = (
        whole(message(part("Hi"))),
        whole(message(part("Hi", note))),
        whole(message(part("Hi"), phase="commentary")),
    )
    assert plain.output == (Message("assistant", "Hi"),)
    content: Any = [{"type": "output_text", "text": "Hi", "annotations": [note]}]
    own = Native(PROVIDER, {"id": "msg_1", "content": content})
    assert cited.output == (Message("assistant", "Hi", native=own),)
    own = Native(PROVIDER, {"id": "msg_1", "phase": "commentary"})
    assert phased.output == (Message("assistant", "Hi", native=own),)


def test_reasoning_knows_what_it_led_to() -> None:
    thought: Any = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
    response = whole(thought, CALL)
    assert response.output == (
        Reasoning(PROVIDER, thought | {"leads_to": "fc_1"}),
        RequestedCall("c1", "a", "{}", native=Native(PROVIDER, {"id": "fc_1"})),
    )
    assert whole(thought).reasoning == (Reasoning(PROVIDER, thought | {"leads_to": None}),)


def test_a_refusal_is_one() -> None:
    refusal = {"type": "refusal", "refusal": "No."}
    assert whole(message(part("Well"), refusal)).output == (
        Message("assistant", "No.", refusal=True),
    )
    assert whole(message()).output == ()


@pytest.mark.parametrize(
    ("reason", "finish"),
    [("max_output_tokens", "length"), ("content_filter", "content_filter"), ("other", "other")],
)
def test_the_last_call_of_an_answer_that_was_cut_off_is_cut_off(reason: str, finish: str) -> None:
    second = CALL | {"call_id": "c2"}
    response = whole(
        CALL, second, message(part("Hi")), status="incomplete",
        incomplete_details={"reason": reason},
    )  # fmt: skip
    assert [call.truncated for call in response.calls] == [False, True]
    assert response.finish == finish
    assert whole(CALL | {"status": "incomplete"}).calls[0].truncated


def test_calls_are_of_the_tools_that_were_offered() -> None:
    asked = {"type": "mcp_approval_request", "id": "mcpr_1", "name": "f", "arguments": "{}"}
    tools = (mcp("first", "a"), mcp("second", "b"))
    names = [
        whole(asked | {"server_label": label}, tools=tools).calls[0].name
        for label in ("a", "b", "other")
    ]
    assert names == ["first", "second", "first"]
    assert whole(asked).calls[0].name == "mcp"
    (shell,) = whole({"type": "shell_call", "call_id": "c", "action": {"commands": ["x"]}}).calls
    assert (shell.name, shell.arguments) == ("shell", '{"commands":["x"]}')
    (broken,) = whole({"type": "shell_call", "call_id": "c"}).calls
    assert broken.arguments == "{}"


def test_what_failed_at_openai_is_told_with_its_error() -> None:
    error = {"type": "http_error", "code": 401, "message": "No."}
    item = {"type": "mcp_call", "id": "m", "name": "f", "arguments": "{", "error": error}
    (one,) = whole(item).output
    assert isinstance(one, HostedCall)
    assert (one.arguments, one.output, one.is_error) == (
        {"name": "f", "arguments": "{"},
        {"error": error},
        True,
    )
    (listed,) = whole({"type": "mcp_list_tools", "tools": [{"name": "f"}, 1]}).output
    assert isinstance(listed, HostedCall)
    assert (listed.output, listed.is_error) == ({"tools": ["f"]}, False)


def test_what_cannot_be_stored_is_replaced() -> None:
    item = {"type": "compaction", "id": "c\x00", "data": ["\ud83d"]}
    (one,) = whole(item).output
    assert isinstance(one, HostedCall)
    assert one.data == {"type": "compaction", "id": "c\ufffd", "data": ["\ufffd"]}


def test_a_stream_is_read_and_shown() -> None:
    deltas: list[ModelDelta] = []
    merge = merge_of(deltas=deltas)
    opening = CALL | {"arguments": ""}
    done = message(part("Hello"))
    for data in (
        event("created", response={"status": "in_progress"}),
        event("output_item.added", output_index=0, item={"type": "reasoning"}),
        event("reasoning_summary_part.added", summary_index=0),
        event("reasoning_summary_text.delta", delta="Hm."),
        event("reasoning_summary_part.added", summary_index=1),
        event("reasoning_text.delta", delta="Well."),
        event("output_item.added", output_index=0, item=message()),
        event("output_text.delta", output_index=0, delta="Hel"),
        event("output_text.delta", output_index=0, delta="lo"),
        event("output_text.delta", output_index=0, delta=""),
        event("output_item.done", output_index=0, item=done),
        event("output_item.added", output_index=1, item=opening),
        event("function_call_arguments.delta", output_index=1, delta="{}"),
        event("function_call_arguments.delta", output_index=7, delta="{}"),
        event("output_item.done", output_index=1, item=CALL),
        event("image_generation_call.partial_image", partial_image_b64="aaaa"),
    ):
        assert not merge.done
        merge.feed(data)
    with pytest.raises(ModelError):
        merge.result()
    merge.feed(event("completed", response={"status": "completed", "output": [], "usage": USAGE}))
    assert merge.done
    assert deltas == [
        ReasoningDelta(""),
        ReasoningDelta("Hm."),
        ReasoningDelta("\n\n"),
        ReasoningDelta("Well."),
        TextDelta("Hel"),
        TextDelta("lo"),
        ArgumentsDelta(0, "c1", "a", ""),
        ArgumentsDelta(0, "c1", "a", "{}"),
    ]
    assert (merge.result().text, len(merge.result().calls)) == ("Hello", 1)


def test_an_item_that_only_the_end_tells_of_is_taken_too() -> None:
    merge = merge_of()
    merge.feed(event("output_item.done", output_index=0, item=message(part("Hi"))))
    listed = [message(part("other")), CALL]
    merge.feed(event("incomplete", response={"status": "incomplete", "output": listed}))
    response = merge.result()
    assert (response.text, response.calls[0].truncated) == ("Hi", True)


def test_a_stream_that_ends_too_early_is_broken() -> None:
    merge = merge_of()
    merge.feed(event("output_text.delta", delta="Hi"))
    merge.feed(b"[DONE]")
    with pytest.raises(ModelError) as failed:
        merge.result()
    assert (failed.value.code, failed.value.transient) == ("model_stream_broken", True)


@pytest.mark.parametrize(
    ("error", "code", "transient"),
    [
        ({"code": "server_error", "message": "Oops."}, "model_failed", True),
        ({"code": "rate_limit_exceeded", "message": "Slow."}, "model_rate_limited", True),
        ({"code": "vector_store_timeout", "message": "x"}, "model_failed", True),
        ({"code": "invalid_prompt", "message": "x"}, "model_failed", False),
        ({"code": "invalid_base64_image", "message": "x"}, "model_failed", False),
        ({"code": "image_too_large", "message": "x"}, "model_failed", False),
        ({"code": "unsupported_image_media_type", "message": "x"}, "model_failed", False),
    ],
)
def test_a_failure_says_whether_it_may_pass(error: Any, code: str, *, transient: bool) -> None:
    failed = failure(status="failed", error=error)
    assert (failed.code, failed.transient) == (code, transient)
    assert error["message"] in failed.message
    for told in ({"type": "error", **error}, {"type": "error", "error": error}, {"error": error}):
        with pytest.raises(ModelError) as raised:
            merge_of().feed(json.dumps(told).encode())
        assert raised.value.code == code


def test_an_answer_that_was_cancelled_or_is_none_is_no_answer() -> None:
    assert "cancelled" in failure(status="cancelled").message
    for data in (b"[]", b"{", b'{"status": "completed"}'):
        with pytest.raises(ModelError) as failed:
            merge_of().whole(data)
        assert failed.value.code == "model_invalid_response"


def streamed(*done: tuple[Any, dict[str, Any]], listed: list[dict[str, Any]]) -> ModelResponse:
    merge = merge_of()
    for place, item in done:
        where = {} if place is None else {"output_index": place}
        merge.feed(event("output_item.done", item=item, **where))
    merge.feed(event("completed", response={"status": "completed", "output": listed}))
    return merge.result()


THOUGHT: dict[str, Any] = {"type": "reasoning", "id": "rs_1", "summary": []}
SAID = message(part("Hi"))


@pytest.mark.parametrize("places", [(0, 1, 2), (0, 2, 5), (3, 7, 9), (0, 0, 0), (None, None, None)])
def test_items_of_a_stream_come_once_wherever_it_places_them(places: Any) -> None:
    items = [THOUGHT, SAID, CALL]
    for listed in (items, []):
        response = streamed(*zip(places, items, strict=True), listed=listed)
        assert [type(one) for one in response.output] == [Reasoning, Message, RequestedCall]
        assert response.text == "Hi"


def test_items_whose_ids_differ_at_the_end_come_once() -> None:
    renamed = [{**item, "id": f"other_{at}"} for at, item in enumerate((THOUGHT, SAID))]
    response = streamed((0, THOUGHT), (4, SAID), listed=[*renamed, CALL])
    assert [type(one) for one in response.output] == [Reasoning, Message, RequestedCall]
    nameless = [{k: v for k, v in item.items() if k != "id"} for item in (SAID, SAID)]
    response = streamed((0, nameless[0]), (3, nameless[1]), listed=nameless)
    assert response.text == "HiHi"


def test_an_item_that_the_end_leaves_out_keeps_its_place() -> None:
    response = streamed((0, THOUGHT), (3, SAID), (8, CALL), listed=[THOUGHT, CALL])
    assert [type(one) for one in response.output] == [Reasoning, Message, RequestedCall]


def test_more_calls_or_items_than_a_response_may_have_are_refused_while_they_are_read() -> None:
    merge, fed = merge_of(), 0
    with pytest.raises(ModelError) as refused:
        for fed in range(10 * MAX_CALLS):
            item = CALL | {"id": f"fc_{fed}", "call_id": f"c{fed}"}
            merge.feed(event("output_item.added", output_index=fed, item=item))
    assert fed == MAX_CALLS
    assert (refused.value.code, refused.value.transient) == ("model_response_too_large", False)
    merge = merge_of()
    with pytest.raises(ModelError):
        for fed in range(2 * MAX_OUTPUT_ITEMS):
            item = {"type": "reasoning", "id": f"rs_{fed}"}
            merge.feed(event("output_item.done", output_index=fed, item=item))
    assert fed == MAX_OUTPUT_ITEMS
    assert failure(output=[CALL] * (MAX_CALLS + 1)).code == "model_response_too_large"
    assert failure(output=[THOUGHT] * (MAX_OUTPUT_ITEMS + 1)).code == "model_response_too_large"
