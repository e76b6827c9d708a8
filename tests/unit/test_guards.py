"""One guardrail or hook asked: what it is sent, what its answers mean, and that whatever is not a
clear answer is a no."""

import asyncio
import ipaddress
import json
import socket
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from standardwebhooks import Webhook as Verifier

from runward.domain.json import JsonObject
from runward.domain.registry.guards import (
    Allow,
    Fail,
    GuardrailVerdict,
    HookAnswer,
    HookFailure,
    HookPoint,
    Instead,
    NoChange,
    PluginGuardrail,
    PluginHook,
    Reject,
    Stage,
    WebhookGuardrail,
    WebhookHook,
)
from runward.domain.run import texts
from runward.egress.client import Egress
from runward.tools.guards import MAX_MESSAGE_BYTES, MAX_VERDICT_BYTES, GuardClient, GuardQuestion
from runward.tools.signing import SignedPostClient, make_secret
from tests.unit.raw_server import Line, RawServer, answer, saying

LOOPBACK = ipaddress.ip_network("127.0.0.0/8")
ALLOW = b'{"action": "allow"}'


class Plugins:
    """Plugins' functions, by name."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, JsonObject]] = []

    async def guardrail(self, name: str, payload: JsonObject) -> GuardrailVerdict:
        self.asked.append((name, payload))
        match name:
            case "slow":
                await asyncio.sleep(30)
            case "broken":
                raise RuntimeError("the password is swordfish")
            case "wordless":
                return Reject("")
            case _:
                pass
        return Allow()

    async def hook(self, name: str, payload: JsonObject) -> HookAnswer:
        self.asked.append((name, payload))
        match name:
            case "slow":
                await asyncio.sleep(30)
            case "broken":
                raise RuntimeError("the password is swordfish")
            case "number":
                return Instead(1)
            case _:
                pass
        return NoChange()


@pytest.fixture
def plugins() -> Plugins:
    return Plugins()


@pytest.fixture
async def guards(plugins: Plugins) -> AsyncGenerator[GuardClient]:
    async with aclosing(Egress(allow_private=(LOOPBACK,))) as egress:
        yield GuardClient(
            SignedPostClient(egress), run_guardrail=plugins.guardrail, run_hook=plugins.hook
        )


def a_question(**changes: Any) -> GuardQuestion:
    payload: JsonObject = {"type": "guardrail", "stage": "input", "arguments": {"to": "Zoë"}}
    question = GuardQuestion("call_1_input_0", payload, (make_secret(),), 5.0)
    return replace(question, **changes)


def at(url: str, stage: Stage = "input") -> WebhookGuardrail:
    return WebhookGuardrail(stage=stage, type="webhook", url=url)


def a_hook(url: str, on: HookPoint = "before_tool") -> WebhookHook:
    return WebhookHook(on=on, type="webhook", url=url)


async def verdict_of(guards: GuardClient, raw: bytes, stage: Stage = "input") -> GuardrailVerdict:
    async with RawServer(saying(raw)) as server:
        return await guards.ask_guardrail(at(server.url, stage), a_question())


async def said_by_hook(
    guards: GuardClient, raw: bytes, on: HookPoint = "before_tool"
) -> HookAnswer:
    async with RawServer(saying(raw)) as server:
        return await guards.ask_hook(a_hook(server.url, on), a_question())


# -- what is sent ---------------------------------------------------------------------------------


async def test_a_guardrail_gets_a_signed_request_that_the_library_accepts(
    guards: GuardClient,
) -> None:
    secret, former = make_secret(), make_secret()
    question = a_question(secrets=(secret, former))
    async with RawServer(saying(answer(ALLOW))) as server:
        assert await guards.ask_guardrail(at(server.url), question) == Allow()
        head, _, body = server.requests[0].partition(b"\r\n\r\n")
    lines = [line.split(": ", 1) for line in head.decode().split("\r\n")[1:]]
    headers = {name.lower(): value for name, value in lines}
    assert headers["webhook-id"] == headers["idempotency-key"] == "call_1_input_0"
    assert headers["content-type"] == "application/json"
    assert json.loads(body) == question.payload
    Verifier(secret).verify(body, headers)
    Verifier(former).verify(body, headers)


async def test_nothing_is_asked_without_a_secret(guards: GuardClient) -> None:
    async with RawServer(saying(answer(ALLOW))) as server:
        verdict = await guards.ask_guardrail(at(server.url), a_question(secrets=()))
        assert (server.connections, type(verdict)) == (0, Reject)


# -- verdicts -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ({"action": "allow"}, Allow()),
        ({"action": "allow", "message": "fine", "score": 0.1}, Allow()),
        ({"action": "reject", "message": "no cards"}, Reject("no cards")),
        ({"action": "reject"}, Reject(texts.GUARDED)),
        ({"action": "reject", "message": 7}, Reject(texts.GUARDED)),
        ({"action": "reject", "message": "  "}, Reject(texts.GUARDED)),
        ({"action": "fail", "message": "stolen"}, Fail("stolen")),
        ({"action": "fail"}, Fail(texts.GUARDED)),
    ],
)
async def test_a_clear_answer_is_taken_at_its_word(
    guards: GuardClient, said: JsonObject, verdict: GuardrailVerdict
) -> None:
    assert await verdict_of(guards, answer(json.dumps(said).encode())) == verdict


@pytest.mark.parametrize(
    "raw",
    [
        answer(b""),
        answer(b"", "204 No Content"),
        answer(b"ok", "200 OK", "Content-Type: text/plain"),
        answer(b"{}"),
        answer(b"null"),
        answer(b"true"),
        answer(b'"allow"'),
        answer(b'["allow"]'),
        answer(b'{"action": "Allow"}'),
        answer(b'{"action": true}'),
        answer(b'{"allow": true}'),
        answer(b'{"action": "reject", "action": "allow"}'),
        answer(b'{"action": "allow"'),
        answer(b'{"action": "allow", "x": NaN}'),
        answer(b'{"action": "allow", "x": "\xff"}'),
        answer(b'{"action": "allow", "x": "' + b"x" * MAX_VERDICT_BYTES + b'"}'),
        answer(ALLOW, "200 OK", "Content-Encoding: br"),
        answer(ALLOW, "307 Temporary Redirect", "Location: /elsewhere"),
        answer(ALLOW, "400 Bad Request"),
        answer(ALLOW, "404 Not Found"),
        answer(ALLOW, "500 Internal Server Error"),
        answer(ALLOW, "503 Service Unavailable"),
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + ALLOW,
        b"nonsense\r\n\r\n",
        b"",
    ],
)
async def test_anything_else_rejects_with_a_text_that_says_nothing_of_it(
    guards: GuardClient, raw: bytes
) -> None:
    verdict = await verdict_of(guards, raw)
    assert isinstance(verdict, Reject)
    assert verdict.message == texts.GUARDED
    assert verdict.detail


async def test_about_an_output_the_fixed_text_says_that_the_call_was_made(
    guards: GuardClient,
) -> None:
    verdict = await verdict_of(guards, answer(b"?"), "output")
    assert isinstance(verdict, Reject)
    assert verdict.message == texts.OUTPUT_GUARDED


async def test_a_guardrail_that_is_slow_rejects(guards: GuardClient) -> None:
    async def silent(line: Line) -> None:
        await line.request()
        await line.closed()

    async with RawServer(silent) as server:
        verdict = await guards.ask_guardrail(at(server.url), a_question(seconds=0.05))
    assert isinstance(verdict, Reject)
    assert "0.05 seconds" in (verdict.detail or "")


async def test_what_surely_was_not_sent_is_sent_once_more() -> None:
    sent: list[datetime] = []

    def now() -> datetime:
        sent.append(datetime.now(UTC))
        return sent[-1]

    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    async with aclosing(Egress(allow_private=(LOOPBACK,))) as egress:
        nobody = Plugins()
        posts = SignedPostClient(egress, now=now)
        guards = GuardClient(posts, run_guardrail=nobody.guardrail, run_hook=nobody.hook)
        verdict = await guards.ask_guardrail(at(f"http://127.0.0.1:{port}/"), a_question())
    assert (type(verdict), len(sent)) == (Reject, 2)


async def test_an_address_that_may_not_be_reached_rejects(guards: GuardClient) -> None:
    verdict = await guards.ask_guardrail(at("http://169.254.169.254/latest"), a_question())
    assert isinstance(verdict, Reject)
    assert verdict.message == texts.GUARDED


async def test_what_was_sent_is_not_sent_again(guards: GuardClient) -> None:
    async def hang_up(line: Line) -> None:
        await line.request()
        line.reset()

    async with RawServer(hang_up) as server:
        verdict = await guards.ask_guardrail(at(server.url), a_question())
        assert (type(verdict), len(server.requests)) == (Reject, 1)


async def test_a_long_message_is_cut(guards: GuardClient) -> None:
    said = json.dumps({"action": "reject", "message": "ä" * 10_000}).encode()
    verdict = await verdict_of(guards, answer(said))
    assert isinstance(verdict, Reject)
    assert "omitted" in verdict.message
    assert len(verdict.message.encode()) < MAX_MESSAGE_BYTES + 100


# -- hooks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "on", "said"),
    [
        (answer(b"", "204 No Content"), "before_tool", NoChange()),
        (answer(b""), "after_model", NoChange()),
        (answer(b"{}"), "before_tool", NoChange()),
        (answer(b"null"), "before_tool", NoChange()),
        (answer(b'{"output": 5}'), "before_tool", Instead(5)),
        (answer(b'{"output": null}'), "after_tool", Instead(None)),
        (
            answer(b'{"output": {"a": [1]}, "metadata": {"by": "cache"}}'),
            "before_tool",
            Instead({"a": [1]}, {"by": "cache"}),
        ),
        (answer(b'{"message": "Hello."}'), "before_model", Instead("Hello.")),
        (answer(b'{"message": ""}'), "after_model", Instead("")),
        (answer(b'{"calls": []}'), "after_model", Instead(calls=[])),
        (answer(b'{"output": 1, "calls": null}'), "after_tool", Instead(1)),
    ],
)
async def test_a_hook_goes_on_or_answers_instead(
    guards: GuardClient, raw: bytes, on: HookPoint, said: HookAnswer
) -> None:
    assert await said_by_hook(guards, raw, on) == said


@pytest.mark.parametrize(
    ("raw", "on"),
    [
        (answer(b"[]"), "before_tool"),
        (answer(b"ok"), "before_tool"),
        (answer(b'{"message": "Hello."}'), "before_tool"),
        (answer(b'{"output": 1}'), "before_model"),
        (answer(b'{"message": 1}'), "after_model"),
        (answer(b'{"message": null}'), "after_model"),
        (answer(b'{"message": 1, "calls": []}'), "after_model"),
        (answer(b'{"calls": []}'), "before_model"),
        (answer(b'{"calls": []}'), "before_tool"),
        (answer(b'{"output": "\\u0000"}'), "before_tool"),
        (answer(b'{"output": 1}', "500 Internal Server Error"), "after_tool"),
        (answer(b"{}", "302 Found", "Location: /"), "after_tool"),
    ],
)
async def test_a_hook_that_answers_anything_else_has_failed(
    guards: GuardClient, raw: bytes, on: HookPoint
) -> None:
    assert isinstance(await said_by_hook(guards, raw, on), HookFailure)


# -- plugins --------------------------------------------------------------------------------------


async def ask_plugin(guards: GuardClient, name: str, seconds: float = 5.0) -> GuardrailVerdict:
    guardrail = PluginGuardrail(stage="input", type="plugin", name=name)
    return await guards.ask_guardrail(guardrail, a_question(seconds=seconds))


async def test_a_plugin_is_asked_by_its_name(guards: GuardClient, plugins: Plugins) -> None:
    assert await ask_plugin(guards, "fine") == Allow()
    assert plugins.asked == [("fine", a_question().payload)]


@pytest.mark.parametrize(("name", "seconds"), [("slow", 0.02), ("broken", 5.0)])
async def test_a_plugin_that_is_slow_or_breaks_rejects_or_has_failed(
    guards: GuardClient, name: str, seconds: float
) -> None:
    verdict = await ask_plugin(guards, name, seconds)
    assert isinstance(verdict, Reject)
    assert verdict.message == texts.GUARDED
    assert "swordfish" not in (verdict.detail or "")
    hook = PluginHook(on="after_tool", type="plugin", name=name)
    assert isinstance(await guards.ask_hook(hook, a_question(seconds=seconds)), HookFailure)


async def test_a_plugin_that_rejects_without_words_gets_ours(guards: GuardClient) -> None:
    assert await ask_plugin(guards, "wordless") == Reject(texts.GUARDED)


async def test_a_model_hook_of_a_plugin_must_answer_with_text(guards: GuardClient) -> None:
    hook = PluginHook(on="before_model", type="plugin", name="number")
    assert isinstance(await guards.ask_hook(hook, a_question()), HookFailure)
