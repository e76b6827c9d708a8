"""A hostile model server, in each of the five protocols, fails its own run and no other."""

# Each behavior meets one protocol, and all five with RUNWARD_HOSTILE=1 (`make hostile`).

import gzip
import json
import os
import struct
from collections.abc import Iterator
from contextlib import ExitStack, aclosing
from typing import Final

import pytest

from runward.llm.base import ModelError, ModelRequest
from tests.hostile.figures import record
from tests.hostile.peers import Memory, Peers
from tests.hostile.test_redirects import PROTOCOLS
from tests.hostile.webhooks import CHUNKED, MEGABYTE, OK, says
from tests.support.models.providers.event_stream import encoded, event
from tests.support.postgres import Databases
from tests.support.services.client import TERMINAL, Client, Json
from tests.support.services.service import ROOT, Service
from tests.unit.raw_server import Line, RawServer, answer

DEADLINE_SECONDS: Final = 15
SLACK_SECONDS: Final = 15.0
MAX_GROWTH_BYTES: Final = 512 * MEGABYTE
"""Ten answers are large: two behaviors in five protocols. Each is read up to 32 MiB, as bytes and
as text."""
SSE: Final = OK + b"Content-Type: text/event-stream\r\n"
MODELS: Final = {
    "openai": "gpt",
    "openai-responses": "gpt",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-3-flash",
    "bedrock": "us.anthropic.claude-sonnet-4-5",
}
ENV_OF_PROVIDERS: Final = {
    "ANTHROPIC_API_KEY": "sk-ant-test",
    "GEMINI_API_KEY": "gemini-test",
    "AWS_ACCESS_KEY_ID": "AKIATEST",
    "AWS_SECRET_ACCESS_KEY": "bedrock-test",
    "AWS_REGION": "us-east-1",
}
DEEP: Final = b"[" * 100_000 + b"]" * 100_000
STEPS: Final[dict[str, tuple[bytes, ...]]] = {
    "ends-at-once": (),
    "no-http": (b"SSH-2.0\r\n",),
    "empty": (answer(b""),),
    "null": (answer(b"null"),),
    "list": (answer(b"[]"),),
    "text": (answer(b'"hello"'),),
    "page": (answer(b"<html>", "200 OK", "Content-Type: text/html"),),
    "deep": (answer(DEEP),),
    "deep-object": (answer(b'{"choices":' * 5000 + b"1" + b"}" * 5000),),
    "million-digits": (answer(b'{"choices":' + b"9" * MEGABYTE + b"}"),),
    "nan": (answer(b'{"choices":[NaN],"usage":{"total_tokens":-Infinity}}'),),
    "wrong-types": (answer(b'{"choices":{},"output":7,"content":1,"candidates":"x"}'),),
    "lone-surrogate": (answer(rb'{"choices":[{"message":{"content":"\ud800\u0000"}}]}'),),
    "cut-off": (OK + b"Content-Length: 1000\r\n\r\n{",),
    "broken-chunk": (CHUNKED, b"zz\r\n"),
    "chunk-in-parts": (CHUNKED, b"1\r\n{", b"\r\nzz\r\n{}\r\n"),
    "gzip-bomb": (
        answer(gzip.compress(b" " * 48 * MEGABYTE, 1), "200 OK", "Content-Encoding: gzip"),
    ),
    "stream-of-nothing": (SSE + b"\r\n",),
    "stream-of-comments": (SSE + b"\r\n" + b": ping\n\n" * 50_000,),
    "stream-of-garbage": (SSE + b"\r\n" + b"data: {not json\n\n" * 1000,),
    "stream-of-unknown": (SSE + b"\r\n" + b'event: x\ndata: {"type":"x"}\n\n' * 2000,),
    "stream-of-one-line": (SSE + b"\r\ndata: " + b"x" * 40 * MEGABYTE,),
    "stream-of-deep-json": (SSE + b"\r\ndata: " + b"[" * 100_000 + b"\n\n",),
    "stream-of-large-indices": (
        SSE
        + b'\r\ndata: {"choices":[{"index":9223372036854775808,"delta":{"tool_calls":'
        + b'[{"index":99999999999,"id":"c","function":{"name":"f"}}]}}]}\n\n',
    ),
    "status-99999": (b"HTTP/1.1 99999 Odd\r\n\r\n",),
    "status-500": (answer(b"\xff" * 1000, "500 Odd"),),
    "status-429": (answer(b"{}", "429 Wait", "Retry-After: " + "9" * 300),),
    "status-400": (answer(json.dumps({"error": {"message": "x" * MEGABYTE}}).encode(), "400 No"),),
    "redirect": (answer(b"", "302 Found", "Location: /elsewhere"),),
}
FRAMES: Final = OK + b"Content-Type: application/vnd.amazon.eventstream\r\n\r\n"
DELTA: Final = event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "x"}})
OWN: Final[dict[str, tuple[bytes, ...]]] = {
    "anthropic-huge-line": (
        SSE + b'\r\nevent: content_block_delta\ndata: {"type":"content_block_delta","index":0,',
        b'"delta":{"type":"text_delta","text":"' + b"x" * 40 * MEGABYTE + b'"}}\n\n',
    ),
    "anthropic-line-without-an-end": (SSE + b"\r\nevent: ", b"x" * 40 * MEGABYTE),
    "bedrock-sse": (SSE + b'\r\ndata: {"messageStart":{"role":"assistant"}}\n\n',),
    "bedrock-huge-frame": (FRAMES + struct.pack("!II", 2**32 - 1, 0) + b"x" * 20 * MEGABYTE,),
    "bedrock-frame-of-nothing": (FRAMES + b"\0" * 1000,),
    "bedrock-wrong-sum": (FRAMES + DELTA[:-1] + b"\0",),
    "bedrock-cut-frame": (FRAMES + DELTA[:-20],),
    "bedrock-long-headers": (FRAMES + encoded({"x": "y" * 60_000, ":event-type": "x"}, b"{}"),),
    "bedrock-deep-payload": (
        FRAMES + encoded({":event-type": "contentBlockDelta", ":message-type": "event"}, DEEP),
    ),
    "bedrock-no-json": (
        FRAMES + encoded({":event-type": "contentBlockDelta", ":message-type": "event"}, b"{no"),
    ),
}
"""Of one protocol, which the name begins with."""

PAIRS: Final = tuple(
    (provider, behavior)
    for number, behavior in enumerate(STEPS)
    for place, provider in enumerate(MODELS)
    if os.environ.get("RUNWARD_HOSTILE") or number % len(MODELS) == place
) + tuple((name.partition("-")[0], name) for name in OWN)


async def hostile(line: Line) -> None:
    """What the name of the model says."""
    request = await line.request()
    behaviors = (name for name in STEPS | OWN if f"0{name}0".encode() in request)
    for step in (STEPS | OWN)[next(behaviors)]:
        await line.say(step)


@pytest.fixture
def service(migrated_databases: Databases) -> Iterator[Service]:
    with ExitStack() as stack:
        url = stack.enter_context(migrated_databases.migrated())
        peer = stack.enter_context(Peers({"model": (hostile,)})).servers["model"]
        base = f"http://127.0.0.1:{peer.port}"
        names = ("ANTHROPIC_BASE_URL", "GEMINI_BASE_URL", "BEDROCK_BASE_URL")
        env = ENV_OF_PROVIDERS | dict.fromkeys(names, base)
        yield stack.enter_context(Service("serve", url, openai_base_url=f"{base}/v1", env=env))
        followed = [one[:60] for one in peer.requests if b" /elsewhere" in one]
        assert followed == []


def start(client: Client, provider: str, behavior: str) -> Json:
    return client.start_run(
        model=f"{provider}:{MODELS[provider]}-0{behavior}0",
        limits={"deadline_seconds": DEADLINE_SECONDS},
    )


@pytest.mark.timeout(240)
def test_every_behavior_of_a_model_server_ends_its_run_with_a_documented_error(
    service: Service,
) -> None:
    with service.client() as client:
        memory = Memory(service.pid)
        runs = {pair: start(client, *pair) for pair in PAIRS}
        neighbor = client.start_run(model="offline:rules", input="hello")
        assert client.settle(neighbor["id"])["status"] == "completed"
        known = "".join(page.read_text() for page in (ROOT / "docs").rglob("*.md"))
        problems: list[str] = []
        for name, run in runs.items():
            ended = client.settle(run["id"], timeout=DEADLINE_SECONDS + SLACK_SECONDS)
            code = "" if ended["error"] is None else str(ended["error"]["code"])
            if ended["status"] not in TERMINAL or code == "internal_error" or code not in known:
                problems.append(f"{name}: {ended['status']} {ended['error']}")
        growth = memory.growth_bytes
        logged = service.output(1 << 30)
    assert problems == []
    assert "Traceback" not in logged
    assert growth < MAX_GROWTH_BYTES
    record(model_runs=len(runs), model_behaviors=len(STEPS) + len(OWN), model_protocols=len(MODELS))
    record(model_growth_mb=round(growth / 1e6))


@pytest.mark.parametrize(
    ("protocol", "piece"),
    [
        ("openai", b" "),
        ("openai-responses", b" "),
        ("anthropic", b" " * 65_534 + b"\n\n"),  # whose SDK takes quadratic time for a long line
        ("gemini", b" "),
    ],
)
async def test_an_answer_is_refused_once_it_is_too_large_decompressed(
    protocol: str, piece: bytes
) -> None:
    body = gzip.compress(piece * (48 * MEGABYTE // len(piece)), 1)
    bomb = says(answer(body, "200 OK", "Content-Encoding: gzip"), closes=True)
    async with RawServer(bomb) as server:
        url = server.url.removesuffix("/tool")
        async with aclosing(PROTOCOLS[protocol](url)) as model:
            with pytest.raises(ModelError) as raised:
                await model.respond(ModelRequest("m", "", ()), lambda _: None)
    assert raised.value.code == "model_response_too_large"
