"""What providers run by themselves, and what only they understand of an answer: kept, shown, and
given back as it was, in its place."""

import asyncio
import gc
import json
from typing import Any

import pytest
from aiohttp import web

from runward.domain.registry.tools import HostedTool, HostedToolKind, ToolSpec
from runward.domain.run.items import HostedCall, Message, Native, Reasoning
from runward.domain.run.response import ModelResponse
from runward.llm.base import ModelError, ModelRequest, ReasoningDelta
from runward.llm.providers.access import ProviderAccess, ProviderName
from runward.llm.providers.clients import CLIENT_FACTORIES
from runward.llm.providers.models import ProviderModel
from tests.support.models.chat_rules import Body
from tests.unit.provider_models import Provider, before, kept, user


def hosted(kind: HostedToolKind, **settings: Any) -> ToolSpec:
    parameters: Body = {"type": "object", "properties": {}}
    told = HostedTool(kind=kind, settings=settings)
    return ToolSpec(name="looker", parameters=parameters, type="hosted", hosted=told)


class Scripted:
    """Whole answers in their order; `bodies` are the requests."""

    def __init__(self, *answers: Body) -> None:
        self.bodies: list[Body] = []
        self._answers = list(answers)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.bodies.append(await request.json())
        return web.json_response(self._answers.pop(0))


async def conversation(
    name: ProviderName, server: Scripted, *tools: ToolSpec
) -> tuple[ModelResponse, ModelResponse]:
    """Two answers: the second with the first in the conversation."""
    settings: Any = {"stream": False, "max_output_tokens": 100}
    async with before(name, server.answer) as provider:
        first = await provider.ask(user(), tools=tools, settings=settings)
        items = [user(), *kept(first), user("and?")]
        return first, await provider.ask(*items, tools=tools, settings=settings)


def claude(*content: Body, stop: str = "end_turn") -> Body:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-4-6",
        "content": list(content),
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": 5, "output_tokens": 2},
    }


SEARCH: Body = {
    "type": "server_tool_use",
    "id": "srvtoolu_1",
    "name": "web_search",
    "input": {"query": "cats"},
}
FOUND: Body = {
    "type": "web_search_result",
    "url": "https://cats.test",
    "title": "Cats",
    "encrypted_content": "enc==",
    "page_age": None,
}
RESULT: Body = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [FOUND]}
CITED: Body = {
    "type": "text",
    "text": "Cats purr.",
    "citations": [
        {
            "type": "web_search_result_location",
            "url": "https://cats.test",
            "title": "Cats",
            "encrypted_index": "idx==",
            "cited_text": "purr",
        }
    ],
}


async def test_anthropic_searches_and_gets_it_back_with_its_citations() -> None:
    thought = {"type": "thinking", "thinking": "Look.", "signature": "sig=="}
    veiled = {"type": "redacted_thinking", "data": "veil=="}
    answer = claude(thought, veiled, SEARCH, RESULT, CITED)
    server = Scripted(answer, claude({"type": "text", "text": "Yes."}))
    first, second = await conversation("anthropic", server, hosted("web_search", max_uses=2))
    assert [type(one) for one in first.output] == [Reasoning, Reasoning, HostedCall, Message]
    call = first.output[2]
    assert isinstance(call, HostedCall)
    assert (call.call_id, call.name, call.kind) == ("srvtoolu_1", "looker", "web_search")
    assert (call.arguments, call.is_error) == ({"query": "cats"}, False)
    assert "https://cats.test" in json.dumps(call.output)
    assert (first.text, second.text) == ("Cats purr.", "Yes.")
    [tool] = server.bodies[0]["tools"]
    assert (tool["name"], tool["max_uses"]) == ("web_search", 2)
    back = server.bodies[1]["messages"][1]["content"]
    assert [block["type"] for block in back] == [
        "thinking",
        "redacted_thinking",
        "server_tool_use",
        "web_search_tool_result",
        "text",
    ]
    assert back[:2] == [thought, veiled]
    assert back[2] == SEARCH
    assert back[3]["content"][0]["encrypted_content"] == "enc=="
    assert back[4]["citations"][0]["encrypted_index"] == "idx=="


async def test_a_search_that_failed_says_so() -> None:
    error = {"type": "web_search_tool_result_error", "error_code": "unavailable"}
    answer = claude(SEARCH, RESULT | {"content": error}, {"type": "text", "text": "No luck."})
    server = Scripted(answer, claude({"type": "text", "text": "No."}))
    first, _ = await conversation("anthropic", server, hosted("web_search"))
    [call] = [one for one in first.output if isinstance(one, HostedCall)]
    assert call.is_error
    assert server.bodies[1]["messages"][1]["content"][1]["content"]["error_code"] == "unavailable"


async def test_anthropic_that_pauses_is_asked_to_go_on() -> None:
    server = Scripted(
        claude(SEARCH, stop="pause_turn"),
        claude(RESULT, {"type": "text", "text": "Cats purr."}),
    )
    async with before("anthropic", server.answer) as provider:
        settings = {"stream": False, "max_output_tokens": 100}
        answer = await provider.ask(user(), tools=(hosted("web_search"),), settings=settings)
    assert answer.text == "Cats purr."
    assert answer.finish == "stop"
    assert (answer.usage.input, answer.usage.output) == (10, 4)
    again = server.bodies[1]["messages"]
    assert [message["role"] for message in again] == ["user", "assistant"]
    assert again[1]["content"][0]["id"] == "srvtoolu_1"
    assert {one.call_id for one in answer.output if isinstance(one, HostedCall)} == {"srvtoolu_1"}


async def test_an_endless_pause_is_no_answer() -> None:
    async def pauses(_: web.Request) -> web.Response:
        return web.json_response(claude(SEARCH, stop="pause_turn"))

    async with before("anthropic", pauses) as provider:
        settings = {"stream": False, "max_output_tokens": 100}
        with pytest.raises(ModelError, match="paused the response 16 times"):
            await provider.ask(user(), tools=(hosted("web_search"),), settings=settings)


def gemini(*parts: Body, finish: str = "STOP") -> Body:
    return {
        "candidates": [
            {"content": {"role": "model", "parts": list(parts)}, "finishReason": finish}
        ],
        "usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 2, "totalTokenCount": 7},
        "modelVersion": "gemini-3.8-flash",
    }


async def test_gemini_runs_code_and_gets_it_back_with_its_signatures() -> None:
    code: Body = {"executableCode": {"language": "PYTHON", "code": "print(1)"}}
    ran: Body = {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "boom"}}
    said: Body = {"text": "It failed.", "thoughtSignature": "c2ln"}
    server = Scripted(gemini(code, ran, said), gemini({"text": "Yes."}))
    first, _ = await conversation("gemini", server, hosted("code_interpreter"))
    call, message = first.output
    assert isinstance(call, HostedCall)
    assert (call.name, call.kind, call.is_error) == ("looker", "code_interpreter", True)
    assert call.arguments["code"] == "print(1)"
    assert isinstance(message, Message)
    assert message.native is not None
    back = server.bodies[1]["contents"][1]["parts"]
    assert [sorted(part.keys()) for part in back] == [
        ["executableCode"],
        ["codeExecutionResult"],
        ["text", "thoughtSignature"],
    ]
    assert back[2] == said


async def test_a_client_of_gemini_that_is_no_longer_used_starts_no_task() -> None:
    opened = CLIENT_FACTORIES["gemini"](ProviderAccess(key="none"))
    opened.model("gemini-3.8-flash")
    await opened.close()
    tasks = asyncio.all_tasks()
    del opened
    gc.collect()
    assert asyncio.all_tasks() == tasks


async def test_a_call_that_gemini_could_not_read_is_worth_another_attempt() -> None:
    server = Scripted(gemini(finish="MALFORMED_FUNCTION_CALL"))
    async with before("gemini", server.answer) as provider:
        with pytest.raises(ModelError, match="MALFORMED_FUNCTION_CALL") as failed:
            await provider.ask(user(), settings={"stream": False})
    assert failed.value.transient


async def test_a_blocked_prompt_is_a_refusal() -> None:
    blocked: Body = {
        "promptFeedback": {"blockReason": "SAFETY"},
        "usageMetadata": {"promptTokenCount": 5, "totalTokenCount": 5},
    }
    async with before("gemini", Scripted(blocked).answer) as provider:
        answer = await provider.ask(user(), settings={"stream": False})
    assert answer.refusal == "The model refused to answer (SAFETY)."


async def test_a_picture_that_gemini_drew_is_a_message_and_goes_back() -> None:
    drawn: Body = {
        "inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="},
        "thoughtSignature": "c2ln",
    }
    server = Scripted(gemini({"text": "Here."}, drawn), gemini({"text": "Yes."}))
    first, _ = await conversation("gemini", server)
    assert [type(one) for one in first.output] == [Message, Message]
    text, picture = server.bodies[1]["contents"][1]["parts"]
    assert text == {"text": "Here."}
    assert picture["thoughtSignature"] == "c2ln"
    assert picture["inlineData"]["data"] == "iVBORw0KGgo="


async def test_a_thought_that_begins_unseen_is_a_sign_of_life() -> None:
    events: list[Body] = [
        {"type": "message_start", "message": claude() | {"stop_reason": None}},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "thinking", "thinking": "", "signature": ""},
        },
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "signature_delta", "signature": "s=="},
        },
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": 2},
        },
        {"type": "message_stop"},
    ]
    lines = "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events)

    async def stream(_: web.Request) -> web.Response:
        return web.Response(text=lines, content_type="text/event-stream")

    async with before("anthropic", stream) as provider:
        answer = await provider.ask(user())
        assert provider.deltas == [ReasoningDelta("")]
    assert answer.reasoning == (Reasoning("anthropic", {"signature": "s=="}),)


@pytest.mark.parametrize(
    ("kind", "settings", "told"),
    [("web_search", {"depth": 3}, "depth"), ("code_interpreter", {"files": []}, "files")],
)
async def test_a_setting_that_a_hosted_tool_does_not_have_is_refused(
    kind: HostedToolKind, settings: Any, told: str
) -> None:
    async with before("anthropic", Scripted().answer) as provider:
        with pytest.raises(ModelError, match=f"does not support these settings: {told}") as refused:
            await provider.ask(user(), tools=(hosted(kind, **settings),))
    assert refused.value.transient is False


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("anthropic", "not json"),
        ("anthropic", '{"error": null}'),
        ("gemini", "[]"),
        ("bedrock", "{}"),
    ],
)
async def test_nonsense_is_no_answer(name: ProviderName, body: str) -> None:
    async def nonsense(_: web.Request) -> web.Response:
        return web.Response(text=body, content_type="application/json")

    async with before(name, nonsense) as provider:
        for stream in (True, False):
            await no_answer(provider, stream=stream)


async def no_answer(provider: Provider, *, stream: bool) -> None:
    settings = {"stream": stream, "max_output_tokens": 10}
    with pytest.raises(ModelError) as failed:
        await provider.ask(user(), settings=settings)
    assert failed.value.transient


@pytest.mark.parametrize("url", ["ftp://127.0.0.1", "nowhere"])
async def test_an_address_that_is_none_is_not_asked_again(url: str) -> None:
    model = ProviderModel("anthropic", ProviderAccess("key", url))
    with pytest.raises(ModelError) as failed:
        await model.respond(ModelRequest("claude", "", (user(),)), lambda _: None)
    await model.aclose()
    assert (failed.value.code, failed.value.transient) == ("model_misconfigured", False)


async def test_a_call_of_an_unknown_tool_that_gemini_reports_as_unexpected_is_a_call() -> None:
    call: Body = {"functionCall": {"name": "nothing", "args": {"x": 1}}}
    server = Scripted(gemini(call, finish="UNEXPECTED_TOOL_CALL"))
    async with before("gemini", server.answer) as provider:
        answer = await provider.ask(user(), settings={"stream": False})
    [asked] = answer.calls
    assert (asked.name, asked.arguments, asked.truncated) == ("nothing", '{"x":1}', False)
    assert answer.finish == "tool_calls"


async def test_an_unexpected_call_that_cannot_be_read_is_worth_another_attempt() -> None:
    server = Scripted(gemini(finish="UNEXPECTED_TOOL_CALL"))
    async with before("gemini", server.answer) as provider:
        with pytest.raises(ModelError, match="UNEXPECTED_TOOL_CALL") as failed:
            await provider.ask(user(), settings={"stream": False})
    assert failed.value.transient


LIMITS = {
    "claude-opus-4-8": 128_000,
    "claude-sonnet-4-5": 64_000,
    "claude-sonnet-4-20250514": 64_000,
    "claude-opus-4-1": 32_000,
    "claude-3-7-sonnet-latest": 64_000,
    "claude-3-5-haiku-latest": 8_192,
    "claude-3-haiku-20240307": 4_096,
    "of-my-own": 16_384,
}


@pytest.mark.filterwarnings("ignore:The model:DeprecationWarning")
@pytest.mark.parametrize("effort", [None, "high"])
async def test_claude_may_write_the_most_that_it_can_and_is_not_streamed_against_the_wish(
    effort: str | None,
) -> None:
    settings: Any = {"stream": False}
    if effort is not None:
        settings["reasoning"] = {"effort": effort}
    server = Scripted(*(claude({"type": "text", "text": "Hi"}) for _ in LIMITS))
    async with before("anthropic", server.answer) as provider:
        for name in LIMITS:
            request = ModelRequest(name, "", (user(),), settings=settings)
            await provider.model.respond(request, lambda _: None)
    assert not any(body.get("stream") for body in server.bodies)
    for body, (name, limit) in zip(server.bodies, LIMITS.items(), strict=True):
        raised = effort is not None and name == "of-my-own"
        assert body["max_tokens"] == (20_480 if raised else limit)


@pytest.mark.filterwarnings("ignore:The model:DeprecationWarning")
async def test_claude_gets_the_room_that_the_conversation_leaves() -> None:
    told = "input length and `max_tokens` exceed context limit: 190000 + 64000 > 200000, decrease"
    bodies: list[Body] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        bodies.append(await request.json())
        if len(bodies) == 1:
            error = {"type": "invalid_request_error", "message": told}
            return web.json_response({"type": "error", "error": error}, status=400)
        return web.json_response(claude({"type": "text", "text": "Hi"}))

    async with before("anthropic", answer) as provider:
        request = ModelRequest("claude-sonnet-4-0", "", (user(),), settings={"stream": False})
        answered = await provider.model.respond(request, lambda _: None)
    assert answered.text == "Hi"
    assert [body["max_tokens"] for body in bodies] == [64_000, 10_000]


async def test_bedrock_is_not_streamed_against_the_wish() -> None:
    paths: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        paths.append(request.path)
        said = {"message": {"role": "assistant", "content": [{"text": "Hi"}]}}
        usage = {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}
        return web.json_response({"output": said, "stopReason": "end_turn", "usage": usage})

    async with before("bedrock", answer) as provider:
        response = await provider.ask(user(), tools=(), settings={"stream": False})
    assert response.text == "Hi"
    assert [path.rpartition("/")[2] for path in paths] == ["converse"]


async def test_what_cannot_be_read_of_an_earlier_answer_goes_back_as_text() -> None:
    server = Scripted(claude({"type": "text", "text": "fine"}))
    unknown: Body = {"parts": [{"part_kind": "unheard-of"}]}
    call = HostedCall("srv_1", "looker", "web_search", "anthropic", {"query": "q"}, ["r"], unknown)
    cited = Message("assistant", "as it says", native=Native("anthropic", {"citations": [1]}))
    settings: Any = {"stream": False, "max_output_tokens": 100}
    async with before("anthropic", server.answer) as provider:
        answer = await provider.ask(user(), call, cited, user("and?"), settings=settings)
    assert answer.text == "fine"
    [asked] = server.bodies
    assert "looker" in json.dumps(asked)
    assert "as it says" in json.dumps(asked)
