"""Requests to a model whose address the operator chose: proxies, and what the environment adds."""

import asyncio
from pathlib import Path

import httpx2
import pytest

from runward.domain.run.items import Message
from runward.egress.direct import DirectConnector, find_proxy
from runward.egress.pool import Origin
from runward.llm.base import ModelError, ModelRequest
from runward.llm.openai.chat.chat_completions import OpenAIChat
from tests.unit.raw_server import Line, RawServer, Script, answer, keeping_alive
from tests.unit.test_egress import certificate_for

ANSWER = b'{"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]}'
SETTINGS = {"stream": False}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    return monkeypatch


async def ask(base_url: str) -> str:
    model = OpenAIChat("sk-test", base_url)
    request = ModelRequest("m", "", (Message("user", "go"),), settings=SETTINGS)
    try:
        return (await model.respond(request, lambda _: None)).text
    finally:
        await model.aclose()


async def test_a_request_without_tls_is_sent_to_the_proxy(
    environment: pytest.MonkeyPatch,
) -> None:
    async with RawServer(keeping_alive(ANSWER)) as proxy:
        environment.setenv("HTTP_PROXY", f"http://me:p%40ss@127.0.0.1:{proxy.port}")
        assert await ask("http://models.example:8000/v1?a=b") == "Hello"
    head = proxy.requests[0].partition(b"\r\n\r\n")[0].split(b"\r\n")
    assert head[0] == b"POST http://models.example:8000/v1/chat/completions?a=b HTTP/1.1"
    assert head[1] == b"Host: models.example:8000"
    assert b"proxy-authorization: Basic bWU6cEBzcw==" in head
    assert b"authorization: Bearer sk-test" in head


def forwarding(port: int) -> Script:
    """A proxy that opens a tunnel to a port."""

    async def script(line: Line) -> None:
        await line.request()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await line.say(b"HTTP/1.1 200 Connection established\r\nX: y\r\n\r\n")
        await line.forward(reader, writer)

    return script


async def test_a_request_with_tls_is_sent_through_a_tunnel(
    environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server_tls, client_tls = certificate_for("models.example", tmp_path)
    environment.setattr(httpx2, "create_ssl_context", lambda: client_tls)
    async with (
        RawServer(keeping_alive(ANSWER), tls=server_tls) as server,
        RawServer(forwarding(server.port)) as proxy,
    ):
        environment.setenv("HTTPS_PROXY", f"http://me:pass@127.0.0.1:{proxy.port}")
        assert await ask("https://models.example/v1") == "Hello"
        tunnel = proxy.requests[0].partition(b"\r\n\r\n")[0].split(b"\r\n")
        assert tunnel == [
            b"CONNECT models.example:443 HTTP/1.1",
            b"Host: models.example:443",
            b"proxy-authorization: Basic bWU6cGFzcw==",
        ]
        request = server.requests[0]
        assert request.startswith(b"POST /v1/chat/completions HTTP/1.1\r\nHost: models.example\r\n")
        assert b"proxy-authorization" not in request
        assert b"authorization: Bearer sk-test\r\n" in request
        with pytest.raises(ModelError) as failed:  # The certificate is for another name.
            await ask("https://other.example/v1")
        assert failed.value.code == "model_unreachable"
        assert len(server.requests) == 1


@pytest.mark.parametrize("said", [answer(b"", "407 No"), b"", b"220 mail\r\n\r\n"])
async def test_a_proxy_that_opens_no_tunnel_is_a_server_that_cannot_be_reached(
    environment: pytest.MonkeyPatch, said: bytes
) -> None:
    async def script(line: Line) -> None:
        await line.request()
        await line.say(said)

    async with RawServer(script) as proxy:
        environment.setenv("ALL_PROXY", f"127.0.0.1:{proxy.port}")
        with pytest.raises(ModelError) as failed:
            await ask("https://models.example/v1")
    assert failed.value.code == "model_unreachable"


@pytest.mark.parametrize(
    ("exceptions", "host"),
    [
        ("models.example", "models.example"),
        ("example", "models.example"),
        ("a, models.example:443", "models.example"),
        ("::1", "::1"),
        ("*", "models.example"),
    ],
)
def test_some_servers_need_no_proxy(
    environment: pytest.MonkeyPatch, exceptions: str, host: str
) -> None:
    environment.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    origin = Origin(tls=True, host=host, port=443)
    assert find_proxy(origin) is not None
    environment.setenv("NO_PROXY", exceptions)
    assert find_proxy(origin) is None


async def test_a_proxy_of_another_protocol_is_a_wrong_configuration(
    environment: pytest.MonkeyPatch,
) -> None:
    environment.setenv("ALL_PROXY", "socks5://127.0.0.1:1080")
    with pytest.raises(ModelError) as failed:
        await ask("http://models.example/v1")
    assert failed.value.code == "model_misconfigured"


async def test_variables_of_openai_add_headers_only_for_the_operators_server(
    environment: pytest.MonkeyPatch,
) -> None:
    environment.setenv("OPENAI_ORG_ID", "org-1")
    environment.setenv("OPENAI_PROJECT_ID", "proj_1")
    environment.setenv("OPENAI_CUSTOM_HEADERS", "X-Team: blue\nAuthorization: wrong")
    added = (b"openai-organization: org-1", b"openai-project: proj_1", b"x-team: blue")
    async with RawServer(keeping_alive(ANSWER)) as server:
        url = f"http://127.0.0.1:{server.port}/v1"
        assert await ask(url) == "Hello"
        connect = DirectConnector(httpx2.create_ssl_context()).connect
        model = OpenAIChat("sk-own", url, connect)
        request = ModelRequest("m", "", (Message("user", "go"),), settings=SETTINGS)
        await model.respond(request, lambda _: None)
        await model.aclose()
    first, second = (one.split(b"\r\n") for one in server.requests)
    assert all(one in first for one in added)
    assert b"authorization: Bearer sk-test" in first
    assert not any(one in second for one in added)


async def test_a_user_in_the_address_replaces_the_key(environment: pytest.MonkeyPatch) -> None:
    async with RawServer(keeping_alive(ANSWER)) as server:
        assert await ask(f"http://me:pass@127.0.0.1:{server.port}/v1") == "Hello"
    assert b"authorization: Basic bWU6cGFzcw==\r\n" in server.requests[0]
