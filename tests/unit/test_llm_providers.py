"""Anthropic, Gemini and Bedrock before servers as strict as theirs: whole conversations, streams,
and every way to fail."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from pydantic_ai import ModelResponse as PydanticResponse
from pydantic_ai import PartStartEvent, TextPart, ThinkingPart, ToolCallPart

from runward.domain.ids import CallId
from runward.domain.json import compact
from runward.domain.run.items import Message, Native, Reasoning, ToolCall, ToolResult
from runward.domain.run.response import Loss, RequestedCall, Usage
from runward.llm.base import ArgumentsDelta, ModelError, ReasoningDelta, TextDelta
from runward.llm.failures import MAX_CALLS, MAX_OUTPUT_ITEMS
from runward.llm.providers.access import ProviderName
from runward.llm.providers.response import DeltaStream, read_answers
from tests.support.models.all_providers import AllProviders
from tests.support.models.spoken import Call, Fails, Says, Text, Thought, says
from tests.support.operations import counted_operations
from tests.support.serving import Hold
from tests.unit.provider_models import ADD, KEY, LOOSE, NAMES, Provider, connected, kept, user


@pytest.fixture(scope="module")
def providers() -> Iterator[AllProviders]:
    with AllProviders() as providers:
        yield providers


@pytest.fixture(scope="module", params=list(NAMES))
async def opened(request: Any, providers: AllProviders) -> AsyncIterator[Provider]:
    """One for all tests: to open boto3 takes a second."""
    name: ProviderName = request.param
    async with connected(name, providers) as provider:
        yield provider


@pytest.fixture
def provider(opened: Provider) -> Provider:
    opened.server.violations.clear()
    return opened


async def failure(provider: Provider, **fields: Any) -> ModelError:
    with pytest.raises(ModelError) as failed:
        await provider.ask(user(), **fields)
    assert KEY not in str(failed.value)
    return failed.value


def script(provider: Provider, *replies: Says | Fails) -> None:
    remaining = list(replies)
    provider.server.respond(provider.model_name, lambda _: remaining.pop(0))


TWO_CALLS = says(
    Thought("I add."), "Adding.", Call("c1", "add", '{"x": 1}'), Call("c2", "loose", "{}")
)


async def test_a_conversation_with_thoughts_calls_and_results_is_taken(provider: Provider) -> None:
    script(provider, TWO_CALLS, says(Thought("Hm."), "Three."), says("Bye."))
    first = await provider.ask(user("one and two"))
    assert [type(one).__name__ for one in first.output] == [
        "Reasoning",
        "Message",
        "RequestedCall",
        "RequestedCall",
    ]
    assert [(call.call_id, call.name) for call in first.calls] == [("c1", "add"), ("c2", "loose")]
    assert first.calls[0].arguments.replace(" ", "") == '{"x":1}'
    assert (first.text, first.finish) == ("Adding.", "tool_calls")
    results = [
        ToolResult(CallId("c2"), ["a", 1], is_error=True),
        ToolResult(CallId("c1"), {"sum": 1}),
    ]
    items = [user("one and two"), *kept(first), *results]
    second = await provider.ask(*items)
    assert (second.text, second.finish) == ("Three.", "stop")
    sent = provider.server.requests(provider.model_name)[-1].results
    assert [call_id for call_id, _ in sent] == ["c1", "c2"]
    items += [*kept(second), Message("system", "Be brief."), user("thanks")]
    assert (await provider.ask(*items)).text == "Bye."
    assert provider.server.violations == []


async def test_results_say_whether_they_failed(provider: Provider) -> None:
    script(provider, TWO_CALLS, says("ok"))
    first = await provider.ask(user())
    results = ToolResult(CallId("c1"), ""), ToolResult(CallId("c2"), "boom", is_error=True)
    await provider.ask(user(), *kept(first), *results)
    blocks = [block for _, block in provider.server.requests(provider.model_name)[-1].results]
    match provider.name:
        case "anthropic":
            assert [block["is_error"] for block in blocks] == [False, True]
        case "gemini":
            assert [block["response"] for block in blocks] == [
                {"return_value": ""},
                {"error": "boom"},
            ]
        case "bedrock":
            assert [block["status"] for block in blocks] == ["success", "error"]
    assert provider.server.violations == []


async def test_a_stream_is_the_same_answer_as_a_whole(provider: Provider) -> None:
    script(provider, TWO_CALLS, TWO_CALLS)
    streamed = await provider.ask(user())
    settings = {"stream": False, "max_output_tokens": 1000}  # Claude's longest answers are streamed
    whole = await provider.ask(user(), settings=settings)
    streams = [one.streamed for one in provider.server.requests(provider.model_name)[-2:]]
    assert streams == [True, False]
    assert [shape(one) for one in streamed.output] == [shape(one) for one in whole.output]
    assert streamed.usage == whole.usage
    assert streamed.finish == whole.finish


def shape(one: object) -> object:
    """Without what servers sign anew, and spaces in arguments."""
    match one:
        case Reasoning():
            return one.data["text"]
        case RequestedCall():
            return one.call_id, one.name, one.arguments.replace(" ", ""), one.truncated
        case _:
            return one


async def test_usage_has_cached_input_and_reasoning_in_it(provider: Provider) -> None:
    script(provider, says("ok"))
    thought = 0 if provider.name == "bedrock" else 5  # Bedrock does not tell
    assert (await provider.ask(user())).usage == Usage(50, 20, cached_input=10, reasoning=thought)


async def test_deltas_are_shown_while_the_answer_comes(provider: Provider) -> None:
    script(provider, replace(TWO_CALLS, pieces=3))
    await provider.ask(user())
    texts = [delta.text for delta in provider.deltas if isinstance(delta, TextDelta)]
    assert "".join(texts) == "Adding."
    assert len(texts) == 3
    thoughts = [delta.text for delta in provider.deltas if isinstance(delta, ReasoningDelta)]
    assert "".join(thoughts) == "I add."
    calls = [delta for delta in provider.deltas if isinstance(delta, ArgumentsDelta)]
    first = "".join(delta.text for delta in calls if delta.index == 0)
    assert first.replace(" ", "") == '{"x":1}'
    assert {(delta.index, delta.call_id, delta.name) for delta in calls} == {
        (0, "c1", "add"),
        (1, "c2", "loose"),
    }


async def test_a_stream_that_breaks_off_is_worth_another_attempt(provider: Provider) -> None:
    script(provider, replace(says("Hello there, how are you?"), cut=True))
    failed = await failure(provider)
    assert (failed.code, failed.transient) == ("model_stream_broken", True)


@pytest.mark.parametrize(
    ("status", "code", "transient"),
    [
        (400, "model_refused_request", False),
        (403, "model_unauthorized", False),
        (404, "model_not_found", False),
        (429, "model_rate_limited", True),
        (503, "model_unavailable", True),
    ],
)
async def test_a_status_says_what_went_wrong(
    provider: Provider, status: int, code: str, *, transient: bool
) -> None:
    script(provider, Fails(status, f"no, not with {KEY}", "7"))
    failed = await failure(provider)
    assert (failed.code, failed.transient, failed.status) == (code, transient, status)
    assert failed.retry_after == (7.0 if transient else None)
    assert ("no, not with ***" in failed.message) is (status != 403)


async def test_anthropic_overloaded_is_worth_another_attempt(providers: AllProviders) -> None:
    async with connected("anthropic", providers) as provider:
        script(provider, Fails(529, "Overloaded"))
        failed = await failure(provider)
        assert (failed.code, failed.transient) == ("model_unavailable", True)


async def test_the_library_asks_once(provider: Provider) -> None:
    before = len(provider.server.requests(provider.model_name))
    script(provider, Fails(503), says("late"))
    await failure(provider)
    assert len(provider.server.requests(provider.model_name)) == before + 1


async def test_nobody_there_is_unreachable(provider: Provider) -> None:
    with AllProviders() as gone:
        pass
    async with connected(provider.name, gone) as lost:
        failed = await failure(lost)
    assert (failed.code, failed.transient) == ("model_unreachable", True)


async def test_the_time_of_a_request_is_limited(provider: Provider) -> None:
    hold = Hold()
    script(provider, replace(says("late"), hold=hold))
    failed = await failure(provider, timeout_seconds=0.2)
    assert (failed.code, failed.transient) == ("model_timeout", True)
    hold.release()


async def test_a_cancelled_request_ends_at_once(provider: Provider) -> None:
    hold = Hold()
    script(provider, replace(says("late"), hold=hold))
    asked = asyncio.ensure_future(provider.ask(user()))
    await asyncio.to_thread(hold.arrived)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    hold.release()


async def test_many_requests_are_open_at_once(provider: Provider) -> None:
    hold = Hold()
    script(provider, *[replace(says("late"), hold=hold)] * 60)
    whole = {"stream": False, "max_output_tokens": 1000}
    asked = [asyncio.ensure_future(provider.ask(user(), settings=whole)) for _ in range(60)]
    await asyncio.to_thread(hold.arrived, 60)
    hold.release()
    assert {answer.text for answer in await asyncio.gather(*asked)} == {"late"}


async def test_an_answer_cut_off_in_a_call_marks_it(provider: Provider) -> None:
    script(provider, replace(TWO_CALLS, ending="length"))
    cut = await provider.ask(user())
    assert cut.finish == "length"
    assert [call.truncated for call in cut.calls] == [False, True]


async def test_a_refusal_is_no_answer(provider: Provider) -> None:
    script(provider, Says((Text("I will not."),), ending="refused"))
    refused = await provider.ask(user())
    told = "The model refused to answer (SAFETY)." if provider.name == "gemini" else "I will not."
    assert (refused.refusal, refused.finish, refused.calls) == (told, "content_filter", ())


async def test_an_empty_answer_is_one(provider: Provider) -> None:
    script(provider, says(), says("still here"))
    nothing = await provider.ask(user())
    assert (nothing.output, nothing.finish) == ((), "stop")
    again = await provider.ask(user(), Message("assistant", ""), user(""))
    assert again.text == "still here"
    assert provider.server.violations == []


async def test_one_call_at_a_time_is_told_or_kept(provider: Provider) -> None:
    script(provider, TWO_CALLS)
    answer = await provider.ask(user(), parallel_tool_calls=False)
    if provider.name == "anthropic":
        assert provider.sent["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
        return
    assert [call.call_id for call in answer.calls] == ["c1"]
    assert {d.index for d in provider.deltas if isinstance(d, ArgumentsDelta)} == {0}
    why = f"{provider.name} requested 2 calls at once. Runward kept only the first."
    assert answer.losses == (Loss("parallel_tool_calls", why),)


async def test_a_single_call_of_one_at_a_time_loses_nothing(provider: Provider) -> None:
    script(provider, says(Call("c1", "add", '{"x": 1}')))
    answer = await provider.ask(user(), parallel_tool_calls=False)
    assert len(answer.calls) == 1
    assert answer.losses == ()


async def test_ids_that_a_provider_lacks_are_made_and_go_back(providers: AllProviders) -> None:
    async with connected("gemini", providers) as provider:
        provider.server.violations.clear()
        script(provider, says(Call("", "add", '{"x": 1}'), Call("", "add", '{"x": 2}')), says("ok"))
        first = await provider.ask(user())
        ids = [call.call_id for call in first.calls]
        assert len(set(ids)) == 2
        assert all(ids)
        assert {d.call_id for d in provider.deltas if isinstance(d, ArgumentsDelta)} == set(ids)
        results = [ToolResult(CallId(one), "1") for one in ids]
        await provider.ask(user(), *kept(first), *results)
        assert [one for one, _ in provider.server.requests(provider.model_name)[-1].results] == ids
        assert provider.server.violations == []


FOREIGN_IDS = [
    "functions.add:0",
    "functions.add:1",
    "call_1|fc_" + "a" * 80,
    "call_1|fc_" + "a" * 81,
    "aufruf 1 für é",
    "fine-1_a",
]


async def test_ids_of_other_providers_are_replaced_where_they_are_not_accepted(
    provider: Provider,
) -> None:
    script(provider, says("ok"), says("ok"))
    calls = [ToolCall(CallId(one), "add", '{"x": 1}') for one in FOREIGN_IDS]
    results = [ToolResult(call.call_id, call.call_id) for call in reversed(calls)]
    for _ in range(2):
        await provider.ask(user(), *calls, *results)
    first, second = (one.results for one in provider.server.requests(provider.model_name)[-2:])
    ids = [call_id for call_id, _ in first]
    assert ids == [call_id for call_id, _ in second]
    assert len(set(ids)) == len(FOREIGN_IDS)
    assert ids[-1] == "fine-1_a"
    assert (ids == FOREIGN_IDS) is (provider.name == "gemini")
    assert provider.server.violations == []


async def test_a_signature_is_given_back_to_its_own_provider_alone(providers: AllProviders) -> None:
    async with connected("gemini", providers) as provider:
        provider.server.violations.clear()
        script(provider, TWO_CALLS, says("ok"))
        first = await provider.ask(user())
        native = first.calls[0].native
        assert native is not None
        assert native.provider == "gemini"
        items = kept(first)
        foreign = [
            replace(one, native=Native("bedrock", native.data)) if one is items[2] else one
            for one in items
        ]
        results = ToolResult(CallId("c1"), "1"), ToolResult(CallId("c2"), "2")
        with pytest.raises(ModelError, match="thought_signature"):
            await provider.ask(user(), *foreign, *results)


async def test_a_conversation_with_calls_can_go_on_without_tools(provider: Provider) -> None:
    script(provider, says(Call("c1", "add", '{"x": 1}')), says("done"))
    first = await provider.ask(user())
    await provider.ask(user(), *kept(first), ToolResult(CallId("c1"), "1"), tools=())
    assert provider.server.violations == []


@pytest.mark.parametrize("tool", [ADD, LOOSE])
async def test_closing_ends_the_connections_and_opening_makes_new_ones(
    provider: Provider, tool: Any
) -> None:
    script(provider, says("one"), says("two"))
    assert (await provider.ask(user(), tools=(tool,))).text == "one"
    await provider.model.aclose()
    assert (await provider.ask(user(), tools=(tool,))).text == "two"


LARGE: dict[str, tuple[int, Callable[[int], Says]]] = {
    "calls": (MAX_CALLS // 4, lambda n: says(*(Call(f"c{at}", "add") for at in range(n)))),
    "text": (100, lambda n: replace(says("a" * n), pieces=n)),
    "thoughts": (50, lambda n: says(*(Thought(f"{at:03}") for at in range(n)), "Done.")),
    "arguments": (
        100,
        lambda n: replace(says(Call("c", "add", compact({"x": "a" * n}))), pieces=n),
    ),
}


@pytest.mark.parametrize("kind", LARGE)
async def test_four_times_the_answer_takes_four_times_the_work(
    provider: Provider, kind: str
) -> None:
    count, make = LARGE[kind]
    script(provider, make(1), make(count), make(4 * count))
    await provider.ask(user())  # whatever is done only once
    work: list[int] = []
    for _ in range(2):
        with counted_operations() as operations:
            await provider.ask(user())
        work.append(operations.lines)
    assert work[1] <= 5 * work[0]


@pytest.mark.parametrize("stream", [True, False])
async def test_more_calls_than_a_response_may_have_are_refused(
    provider: Provider, *, stream: bool
) -> None:
    script(provider, says(*(Call(f"c{at}", "add") for at in range(MAX_CALLS + 1))))
    failed = await failure(provider, settings={"stream": stream})
    assert (failed.code, failed.transient) == ("model_response_too_large", False)
    calls = {one.call_id for one in provider.deltas if isinstance(one, ArgumentsDelta)}
    assert len(calls) == (MAX_CALLS if stream else 0)


def test_a_stream_of_more_parts_than_a_response_may_have_is_refused() -> None:
    """pydantic-ai reads its list of parts at the end of each part, so only this limit bounds it."""
    stream = DeltaStream(lambda _: None, one_call=False)
    fed = 0
    with pytest.raises(ModelError) as failed:
        for fed in range(2 * MAX_OUTPUT_ITEMS):
            stream.feed(PartStartEvent(index=fed, part=ThinkingPart("")))
    assert (fed, failed.value.code) == (MAX_OUTPUT_ITEMS, "model_response_too_large")


async def test_a_text_in_many_parts_is_one_message() -> None:
    parts = [TextPart("a" * 10) for _ in range(1000)]
    answer = PydanticResponse([*parts, ToolCallPart("add", "{}", "c1"), TextPart("b")])
    [message, call, end] = read_answers([answer], (), "anthropic").output
    assert (message, end) == (Message("assistant", "a" * 10_000), Message("assistant", "b"))
    assert isinstance(call, RequestedCall)
