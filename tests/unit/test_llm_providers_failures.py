"""What goes wrong in the middle of an answer, or before anything is sent."""

import json
from typing import Any

import pytest
from aiohttp import web
from pydantic_ai.exceptions import UserError

from runward.domain.run.response import Loss
from runward.llm.base import ModelError
from runward.llm.providers.failures import model_error
from tests.support.models.chat_rules import Body
from tests.support.models.providers.event_stream import encoded, event
from tests.unit.provider_models import KEY, before, user


def stream(*events: Body) -> web.Response:
    lines = "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events)
    return web.Response(text=lines, content_type="text/event-stream")


def problem(kind: str, message: str) -> Body:
    return {"type": "error", "error": {"type": kind, "message": message}}


BEGUN: Body = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-4-6",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 5, "output_tokens": 1},
    },
}


@pytest.mark.parametrize(
    ("kind", "code", "transient"),
    [
        ("overloaded_error", "model_unavailable", True),
        ("api_error", "model_unavailable", True),
        ("rate_limit_error", "model_rate_limited", True),
        ("invalid_request_error", "model_refused_request", False),
    ],
)
async def test_anthropic_says_in_a_stream_what_went_wrong(
    kind: str, code: str, *, transient: bool
) -> None:
    async def fails(_: web.Request) -> web.Response:
        return stream(BEGUN, problem(kind, f"no, {KEY}"))

    async with before("anthropic", fails) as provider:
        with pytest.raises(ModelError) as failed:
            await provider.ask(user(), tools=())
    assert (failed.value.code, failed.value.transient) == (code, transient)
    assert failed.value.message.endswith("no, ***")


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("throttlingException", "model_rate_limited"),
        ("modelStreamErrorException", "model_stream_broken"),
        ("internalServerException", "model_unavailable"),
    ],
)
async def test_bedrock_says_in_a_stream_what_went_wrong(kind: str, code: str) -> None:
    async def fails(_: web.Request) -> web.Response:
        frames = event("messageStart", {"role": "assistant"}) + exception(kind)
        return web.Response(body=frames, content_type="application/vnd.amazon.eventstream")

    async with before("bedrock", fails) as provider:
        with pytest.raises(ModelError) as failed:
            await provider.ask(user())
    assert (failed.value.code, failed.value.transient) == (code, True)


def exception(kind: str) -> bytes:
    headers = {":message-type": "exception", ":exception-type": kind}
    return encoded(headers, json.dumps({"message": "broke"}).encode())


async def test_an_answer_that_no_library_can_read_is_an_answer_all_the_same() -> None:
    """Else the run would be taken up again and again, and nobody told why."""

    async def answers(_: web.Request) -> web.Response:
        frames = event("messageStart", {"role": "assistant"})
        frames += event("contentBlockStart", {"contentBlockIndex": 0, "start": {}})
        return web.Response(body=frames, content_type="application/vnd.amazon.eventstream")

    async with before("bedrock", answers) as provider:
        with pytest.raises(ModelError) as failed:
            await provider.ask(user())
    assert (failed.value.code, failed.value.transient) == ("model_invalid_response", True)
    assert "ContentBlockStart" in failed.value.message


async def test_a_schema_that_is_no_strict_one_to_the_provider_is_told_as_it_is() -> None:
    asked: list[Any] = []

    async def refuses(request: web.Request) -> web.StreamResponse:
        asked.append(await request.json())
        if any("strict" in tool for tool in asked[-1]["tools"]):
            told = problem("invalid_request_error", "tools: Schema is too complex.")
            return web.json_response(told, status=400)
        end = {"stop_reason": "end_turn", "stop_sequence": None}
        usage = {"output_tokens": 2}
        return stream(BEGUN, {"type": "message_delta", "delta": end, "usage": usage})

    async with before("anthropic", refuses) as provider:
        answer = await provider.ask(user())
    assert len(asked) == 2
    assert [tool["input_schema"]["type"] for tool in asked[1]["tools"]] == ["object", "object"]
    why = "anthropic:claude-opus-4-6 does not accept these schemas in strict mode."
    assert answer.losses == (Loss("strict", why),)


async def test_any_other_refusal_is_told_at_once() -> None:
    asked: list[Any] = []

    async def refuses(request: web.Request) -> web.StreamResponse:
        asked.append(await request.json())
        return web.json_response(problem("invalid_request_error", "No."), status=400)

    async with before("anthropic", refuses) as provider:
        with pytest.raises(ModelError, match=r"No\."):
            await provider.ask(user())
    assert len(asked) == 1


def test_what_a_library_says_holds_no_key() -> None:
    failed = model_error(UserError(f"bad {KEY}"), "anthropic", KEY, has_output=False)
    assert failed.message == "The request cannot be sent to this model: bad ***"
    assert failed.code == "model_refused_request"
