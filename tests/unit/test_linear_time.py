"""Foreign data is read in linear time: four times the input takes about four times the work."""

import gzip
import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import httpx2
import jiter
import pytest
from pydantic import JsonValue
from pydantic_core import from_json, to_json

from runward.domain import json as json_value
from runward.domain.json import MAX_VALUES, JsonObject
from runward.domain.registry.mcp_servers import ListedTool, McpServerSpec, offered_tools
from runward.domain.run.conversation import build_conversation
from runward.domain.run.decide import AskModel, RunTools, next_action
from runward.domain.run.items import Message
from runward.domain.run.settle import settle, start
from runward.domain.run.state import (
    CallOutcome,
    CallPhase,
    Changes,
    Result,
    RunState,
    Segment,
    SegmentKind,
)
from runward.domain.run.tools import CompiledTool
from runward.domain.schema.strict import NullRemover, close_objects, strict_form, strict_problems
from runward.domain.schema.subschemas import Effort, Subschemas
from runward.domain.schema.validator import Validator, check_schema, parse_arguments
from runward.llm.base import ModelError
from runward.llm.failures import MAX_CALLS
from runward.llm.frames import EventLines
from runward.llm.openai.chat.response import ChatMerge
from runward.llm.openai.request_parts import Functions, is_strict
from runward.llm.openai.responses.response import ResponseMerge as ResponsesMerge
from runward.llm.openai.responses.tools import DeclaredTools, function_tool
from runward.llm.sdk_clients import PIECE_BYTES, limit_body
from runward.tools.mcp.process import process_streams
from runward.tools.webhook.response import parse_leniently
from tests.support.operations import (
    CountedText,
    counted_calls,
    counted_operations,
    counted_scans,
)
from tests.unit.domain_cases import state, taken, tool, wants

ALLOWED: Final = 5.0
"""How much more work four times the input may take."""


def no_delta(_delta: object) -> None:
    pass


def chat_frame(*pieces: JsonObject, **delta: Any) -> bytes:
    choice = {"index": 0, "delta": {**delta, **({"tool_calls": [*pieces]} if pieces else {})}}
    return json.dumps({"choices": [choice]}).encode()


def chat_piece(index: int, arguments: str = "{}", call_id: str | None = None) -> JsonObject:
    function: JsonObject = {"name": "add", "arguments": arguments}
    return {"index": index, "id": call_id or f"call_{index}", "function": function}


def feed_chat(frames: list[bytes]) -> None:
    merge = ChatMerge(no_delta)
    with suppress(ModelError):
        for frame in frames:
            merge.feed(frame)
        merge.feed(b"[DONE]")
        merge.result()


def chat_calls(count: int) -> None:
    feed_chat([chat_frame(chat_piece(at)) for at in range(count)])


def chat_calls_of_one_index(count: int) -> None:
    feed_chat([chat_frame(chat_piece(0, call_id=f"c{at}")) for at in range(count)])


def chat_calls_of_one_frame(count: int) -> None:
    feed_chat([chat_frame(*(chat_piece(at) for at in range(count)))])


def chat_body(count: int) -> None:
    message = {"tool_calls": [chat_piece(at) for at in range(count)]}
    with suppress(ModelError):
        ChatMerge(no_delta).whole(json.dumps({"choices": [{"message": message}]}).encode())


def chat_named_pieces(count: int) -> None:
    feed_chat([chat_frame(chat_piece(0, "1")) for _ in range(count)])


def chat_text(count: int) -> None:
    feed_chat([chat_frame(content="word ") for _ in range(count)])


def responses_item(at: int) -> JsonObject:
    return {
        "type": "function_call",
        "id": f"fc_{at}",
        "call_id": f"call_{at}",
        "name": "add",
        "arguments": "{}",
    }


def responses_stream(count: int) -> None:
    merge = ResponsesMerge(no_delta, DeclaredTools((), Functions(function_tool)))
    items = [responses_item(at) for at in range(count)]
    with suppress(ModelError):
        for at, item in enumerate(items):
            for kind in ("added", "done"):
                event = {"type": f"response.output_item.{kind}", "output_index": at, "item": item}
                merge.feed(json.dumps(event).encode())
        end = {"type": "response.completed", "response": {"status": "completed", "output": items}}
        merge.feed(json.dumps(end).encode())
        merge.result()


def responses_body(count: int) -> None:
    output = [responses_item(at) for at in range(count)]
    with suppress(ModelError):
        ResponsesMerge(no_delta, DeclaredTools((), Functions(function_tool))).whole(
            json.dumps({"output": output, "status": "completed"}).encode()
        )


def event_lines(count: int) -> None:
    lines = EventLines()
    for _ in range(count):
        lines.feed(b"data: {}")
    lines.feed(b"\n\n" * count)
    lines.end()


def counted_names(count: int) -> list[str]:
    return [CountedText(f"property_{at}") for at in range(count)]


def object_schema(count: int) -> JsonObject:
    names = counted_names(count)
    return {
        CountedText("type"): "object",
        CountedText("properties"): {name: {"type": "string"} for name in names},
        CountedText("required"): [*names],
        CountedText("additionalProperties"): False,
    }


def strict_schema(count: int) -> None:
    schema = object_schema(count)
    assert not list(strict_problems(schema))
    strict_form(schema)
    close_objects(schema)


def strictness(count: int) -> None:
    assert is_strict(object_schema(count))


def nulls_of_a_strict_tool(count: int) -> None:
    schema = object_schema(count)
    value: JsonObject = dict.fromkeys(counted_names(count))
    assert NullRemover(Subschemas(schema), Effort(value)).clean(value) == value


def union_of_unions(count: int) -> None:
    """Every level fits only the second branch, and each is tried with the whole rest."""
    tree: JsonObject = {"$ref": "#/$defs/tree"}
    branches: list[JsonValue] = [
        {"type": "object", "properties": {"at": tree, kind: {}}} for kind in ("left", "right")
    ]
    schema: JsonObject = {
        "type": "object",
        "properties": {"at": tree},
        "$defs": {"tree": {"anyOf": [*branches, {"type": "integer"}]}},
    }
    value: Any = [1] * count
    for _ in range(40):
        value = {"at": value}
    assert Validator(schema, strict=True).problems(value)


def references(count: int) -> None:
    """Each points to the next: a chain, and all of them at once."""
    assert check_schema(chained(count), strict=True) == []


def chained(count: int) -> JsonObject:
    chain: JsonObject = {f"d{at}": {"$ref": f"#/$defs/d{at + 1}"} for at in range(count)}
    return {
        "type": "object",
        "properties": {f"p{at}": {"$ref": f"#/$defs/d{at}"} for at in range(count)},
        "$defs": {**chain, f"d{count}": {"type": "string"}},
    }


def deep_arguments(count: int) -> None:
    assert isinstance(parse_arguments("[" * 60 + "1," * count + "1" + "]" * 60), list)


def mcp_list(count: int) -> None:
    server = McpServerSpec(name="server", url="https://mcp.example")
    parameters: JsonObject = {"type": "object", "properties": {}}
    tools = [ListedTool(name=f"tool_{at}", parameters=parameters) for at in range(count)]
    assert len(offered_tools(server, tools).specs) == count


INPUTS: Final[dict[Callable[[int], None], int]] = {
    chat_calls: MAX_CALLS // 4,
    chat_calls_of_one_index: MAX_CALLS // 4,
    chat_calls_of_one_frame: MAX_CALLS // 4,
    chat_body: MAX_CALLS // 4,
    chat_named_pieces: 400,
    chat_text: 400,
    responses_stream: MAX_CALLS // 4,
    responses_body: MAX_CALLS // 4,
    event_lines: 400,
    strict_schema: 200,
    strictness: 200,
    nulls_of_a_strict_tool: 200,
    union_of_unions: 500,
    references: 20,
    deep_arguments: 1000,
    mcp_list: 50,
}


@pytest.mark.parametrize("parse", INPUTS, ids=lambda parse: parse.__name__)
def test_four_times_the_input_takes_four_times_the_work(parse: Callable[[int], None]) -> None:
    parse(4)  # whatever is done only once
    work: list[int] = []
    for count in (INPUTS[parse], 4 * INPUTS[parse]):
        with counted_operations() as operations:
            parse(count)
        work.append(operations.lines)
    assert work[1] <= ALLOWED * work[0]


def test_pieces_that_all_name_their_call_are_each_parsed_once() -> None:
    pieces = [chat_frame(chat_piece(0, "1")) for _ in range(200)]
    with counted_calls(from_json) as parsed:
        feed_chat(pieces)
    assert parsed[0] <= len(pieces) + 1


def test_equal_calls_of_one_response_are_not_printed_for_each_pair() -> None:
    printed: list[int] = []
    for count in (25, 100):
        calls = [wants("lookup", '{"a": [1, 2]}', f"c{at}") for at in range(count)]
        with counted_calls(to_json) as prints:
            state, _ = taken(*calls, tools=[tool()])
            build_conversation(state)
        printed.append(prints[0])
    assert printed[1] <= ALLOWED * printed[0]


def test_a_conversation_of_four_times_the_calls_takes_four_times_the_work() -> None:
    work: list[int] = []
    for count in (25, 100):
        calls = [wants("lookup", f'{{"a": {at}}}', f"c{at}") for at in range(count)]
        state, _ = taken(*calls, tools=[tool()])
        for call in state.calls.values():
            result = Result(CallOutcome.COMPLETED, "found")
            state = state.with_call(replace(call, phase=CallPhase.SETTLED, result=result))
        with counted_operations() as operations:
            assert len(build_conversation(state)) == 2 * count
        work.append(operations.lines)
    assert work[1] <= ALLOWED * work[0]


def take_turn(run: RunState, calls: int, number: int, lookup: CompiledTool) -> RunState:
    """The model requests so many calls, and each gets its result alone."""
    limits = {"lookup": lookup.spec.concurrency}
    assert next_action(run, caps=limits) == AskModel()
    requested = [
        wants("lookup", f'{{"a": {number * 1000 + at}}}', f"c{number}_{at}") for at in range(calls)
    ]
    run, _ = taken(*requested, tools=[lookup], before=run)
    while isinstance(action := next_action(run, caps=limits), RunTools):
        for call_id in action.start:
            run, _ = start(run, Changes(), run.calls[call_id], seconds=30.0)
        for call_id in action.start:
            assert run.open_calls
            result = Result(CallOutcome.COMPLETED, "found")
            run = settle(run, Changes(), run.calls[call_id], result)
            next_action(run, caps=limits)
    assert all(call.attempt == 1 for call in run.calls.values())
    return run


def long_run() -> RunState:
    limits = {"max_turns": 200, "max_tool_calls": 200, "max_parallel_tool_calls": 64}
    question = Segment(SegmentKind.INPUT, 0, None, (Message("user", "Look it up."),))
    run = state(segments=(question,))
    limits = run.config.limits.model_copy(update=limits)
    return replace(run, config=run.config.model_copy(update={"limits": limits}))


def test_a_late_turn_takes_about_as_much_work_as_an_early_one() -> None:
    """Only the request to the model grows with the conversation, and is built in linear time."""
    run, lookup, work = long_run(), tool(), list[int]()
    for number in range(100):
        with counted_operations() as operations:
            run = take_turn(run, 1, number, lookup)
        work.append(operations.lines)
    assert work[99] <= 1.5 * work[4], (work[4], work[99])


def test_a_call_among_many_takes_about_as_much_work_as_among_few() -> None:
    lookup, work = tool(concurrency={"limit": 64}), list[float]()
    take_turn(long_run(), 1, 0, lookup)  # whatever is done only once
    for calls in (10, 100):
        run = long_run()
        with counted_operations() as operations:
            take_turn(run, calls, 0, lookup)
        work.append(operations.lines / calls)
    assert work[1] <= 1.6 * work[0], work


def test_a_chain_of_references_has_a_limit() -> None:
    [problem] = check_schema(chained(800), strict=True)
    assert "chain of more than 100 references" in problem.message


@pytest.mark.processes
async def test_a_long_line_of_a_command_is_read_in_linear_time() -> None:
    program = """if True:
        import sys
        print('{"jsonrpc": "2.0", "id": 1, "result": {"a": "', "x" * int(sys.argv[1]), '"}}')
    """
    work: list[int] = []
    for size in (1_048_576, 4_194_304):
        args = ("-S", "-c", program, str(size))
        async with process_streams(sys.executable, args, {}, sys.stderr) as (messages, _):
            with counted_scans() as scans:
                [message] = [item.message async for item in messages]
        assert len(message.result["a"]) >= size
        work.append(scans[0])
    assert work[1] <= ALLOWED * work[0]


@pytest.mark.parametrize(("read", "digits"), [(json_value.parse, 199), (parse_leniently, 299)])
def test_looking_for_huge_numbers_takes_about_as_long_as_parsing(
    read: Callable[[str], Any], digits: int
) -> None:
    """A regular expression took a hundred times as long, and held the interpreter meanwhile."""
    text = f"[{','.join(['1' * digits] * 5000)}]"
    assert cpu_seconds(lambda: read(text)) < 25 * cpu_seconds(lambda: from_json(text))


def test_a_webhook_s_answer_of_too_many_values_is_not_parsed() -> None:
    """A parser holds the interpreter, also on a thread: 10 MiB of empty lists took a second."""
    with counted_calls(jiter.from_json) as parsed, pytest.raises(ValueError, match="500,000"):
        parse_leniently(f"[{'[],' * MAX_VALUES}1]")
    assert parsed[0] == 0


def cpu_seconds(work: Callable[[], Any]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began


def chat_merge() -> ChatMerge:
    return ChatMerge(no_delta)


def responses_merge() -> ResponsesMerge:
    return ResponsesMerge(no_delta, DeclaredTools((), Functions(function_tool)))


@pytest.mark.parametrize("merge", [chat_merge, responses_merge])
@pytest.mark.parametrize("whole", [True, False])
def test_a_model_s_answer_of_too_many_values_is_not_parsed(
    merge: Callable[[], ChatMerge | ResponsesMerge], *, whole: bool
) -> None:
    """31 MB of empty lists take a parser seconds, during which it holds the interpreter."""
    body = f'{{"a":[{"[]," * (MAX_VALUES // 2)}1]}}'.encode()
    with counted_calls(from_json) as parsed, pytest.raises(ModelError) as refused:
        merge().whole(body) if whole else merge().feed(body)
    assert (refused.value.code, parsed[0]) == ("model_response_too_large", 0)


def test_the_items_of_a_stream_have_a_limit_together() -> None:
    merge = responses_merge()
    values: JsonValue = [[] for _ in range(MAX_VALUES // 6)]
    with pytest.raises(ModelError, match="more than 500,000 values"):
        for at in range(4):
            item: JsonObject = {"type": "web_search_call", "id": f"ws_{at}", "action": values}
            event: JsonObject = {
                "type": "response.output_item.done",
                "output_index": at,
                "item": item,
            }
            merge.feed(json.dumps(event).encode())


async def test_an_inflated_answer_comes_in_small_pieces() -> None:
    """The event loop gets its turn between two pieces."""
    plain = b"data: {}\n\n" * 100_000
    headers = {"content-encoding": "gzip"}
    response = httpx2.Response(200, headers=headers, stream=httpx2.ByteStream(gzip.compress(plain)))
    await limit_body(response)
    pieces = [piece async for piece in response.aiter_raw()]
    assert b"".join(pieces) == plain
    assert max(map(len, pieces)) <= PIECE_BYTES


def test_long_arguments_of_a_call_are_not_searched_for_their_end() -> None:
    """One frame of 16 MiB, then one that may begin another call."""
    merge = ChatMerge(no_delta)
    merge.feed(chat_frame(chat_piece(0, '{"a": "' + "x" * 16_777_216)))
    begun = time.process_time()
    merge.feed(chat_frame(chat_piece(0, '"}')))
    assert time.process_time() - begun < 0.3
    merge.feed(b"[DONE]")
    assert len(merge.result().calls) == 1
