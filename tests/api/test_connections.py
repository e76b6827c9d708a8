"""Connections, hosts and compression, in front of every handler."""

import asyncio
import gzip
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
import uvicorn
from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from starlette.routing import Route

from runward.api.app import create_app
from runward.api.http.connections import make_limited_protocol
from runward.api.http.hosts import AllowedHosts, normalize_host
from runward.console import pages

TEXT = "sun " * 1000


async def large(request: Request) -> Response:
    return Response(TEXT, media_type="application/json")


async def small(request: Request) -> Response:
    return Response("sun", media_type="application/json")


async def headers(request: Request) -> Response:
    await request.body()
    return Response(json.dumps([*request.headers]), media_type="application/json")


async def stream(request: Request) -> Response:
    async def frames() -> AsyncIterator[str]:
        yield f"data: {TEXT}\n\n"

    return StreamingResponse(frames(), media_type="text/event-stream")


routes = APIRouter(
    routes=[
        Route("/large", large),
        Route("/small", small),
        Route("/headers", headers, methods=["POST"]),
        Route("/stream", stream),
    ]
)


@asynccontextmanager
async def serving(
    *, hosts: frozenset[str] = frozenset({"*"}), connections: int = 10, head_seconds: float = 60
) -> AsyncGenerator[int]:
    """The port."""
    routers: list[APIRouter] = [routes, pages.router()]
    app = create_app(None, routers, hosts=hosts)
    http = make_limited_protocol(connections, head_seconds)
    config = uvicorn.Config(app, http=http, log_config=None, lifespan="off")
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        await server.startup([listening])
        yield listening.getsockname()[1]
        server.force_exit = True
        await server.shutdown([listening])


async def get(port: int, path: str, **headers: str) -> tuple[httpx2.Response, bytes]:
    """The answer, and its body as it was sent."""
    async with (
        httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client,
        client.stream("GET", path, headers=headers) as response,
    ):
        return response, b"".join([piece async for piece in response.aiter_raw()])


async def test_large_answers_and_files_are_compressed_for_who_takes_it() -> None:
    async with serving() as port:
        for path in ("/large", "/console/app.js"):
            packed, body = await get(port, path, **{"Accept-Encoding": "gzip"})
            plain, whole = await get(port, path, **{"Accept-Encoding": "identity"})
            assert packed.headers["content-encoding"] == "gzip"
            assert "content-encoding" not in plain.headers
            assert packed.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"
            assert gzip.decompress(body) == whole
            assert int(packed.headers["content-length"]) == len(body) < len(whole)


@pytest.mark.parametrize(
    ("accepted", "taken"),
    [
        ("gzip", True),
        ("GZIP", True),
        ("br, *;q=0.5", True),
        ("gzip;q=1.0, *;q=0", True),
        ("gzip;q=0", False),
        ("gzip; Q=0.000", False),
        ("*, gzip;q=0", False),
        ("*;q=0", False),
        ("", False),
        ("br", False),
        ("gzipped", False),
        ("gzip;q=x", False),
    ],
)
async def test_gzip_is_sent_only_to_who_takes_it(accepted: str, *, taken: bool) -> None:
    async with serving() as port:
        response, _ = await get(port, "/large", **{"Accept-Encoding": accepted})
    assert response.headers.get("content-encoding") == ("gzip" if taken else None)
    assert response.headers["vary"] == "Accept-Encoding"


@pytest.mark.parametrize("path", ["/small", "/stream"])
async def test_small_answers_and_event_streams_are_not_compressed(path: str) -> None:
    async with serving() as port:
        response, body = await get(port, path, **{"Accept-Encoding": "gzip"})
    assert "content-encoding" not in response.headers
    assert body.startswith((b"sun", b"data: sun"))


async def test_a_host_that_is_not_allowed_is_refused_but_for_probes() -> None:
    async with serving(hosts=frozenset({"localhost"})) as port:
        refused, body = await get(port, "/small", Host="evil.example")
        assert refused.status_code == 400
        assert b"RUNWARD_ALLOWED_HOSTS" in body
        assert "x-request-id" in refused.headers
        assert (await get(port, "/small", Host=f"LocalHost:{port}"))[0].status_code == 200
        assert (await get(port, "/metrics", Host="10.0.0.1"))[0].status_code != 400


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("A.example:80", "a.example"),
        ("a.example.", "a.example"),
        ("[::1]:8080", "::1"),
        ("[::1]", "::1"),
        ("[::1", "["),
        ("127.0.0.1", "127.0.0.1"),
        ("", ""),
    ],
)
def test_the_name_in_a_host_header_is_read(host: str, name: str) -> None:
    assert normalize_host(host) == name


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("b.example", False),
        ("a.b.example", True),
        ("c.a.b.example", True),
        ("ab.example", False),
        ("." * 100_000, False),
    ],
)
def test_a_wildcard_covers_subdomains(host: str, *, allowed: bool) -> None:
    assert AllowedHosts({"*.b.example"}).allows(host) is allowed


async def answer_to(port: int, sent: bytes) -> bytes:
    """What comes until the server closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(sent)
        return await reader.read()
    finally:
        writer.close()


WHOLE = b"GET /small HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.mark.parametrize("sent", [b"", b"GET /small HT", b"GET /small HTTP/1.1\r\nHost: a\r\n"])
async def test_a_connection_whose_headers_do_not_arrive_is_closed(sent: bytes) -> None:
    async with serving(head_seconds=0.05) as port:
        assert await answer_to(port, sent) == b""


LINES = b"x: " + b"y" * 1000 + b"\r\n"


@pytest.mark.parametrize("rest", [LINES * 600, b"x: " + b"y" * 600_000, LINES * 50 + b"\r\n"])
async def test_headers_are_refused_above_a_size_before_they_have_all_arrived(rest: bytes) -> None:
    async with serving() as port:
        try:
            answered = await answer_to(port, WHOLE[:-2] + b"Connection: close\r\n" + rest)
        except ConnectionResetError:  # closed before everything was sent
            answered = b"HTTP/1.1 431 "
    small = rest.endswith(b"\r\n\r\n")
    assert answered.startswith(b"HTTP/1.1 200 OK" if small else b"HTTP/1.1 431 ")


@pytest.mark.parametrize("more", [b"\r\n", b"G", WHOLE[:-2]])
async def test_later_requests_of_a_connection_have_the_same_time(more: bytes) -> None:
    async with serving(head_seconds=0.05) as port:
        answered = await answer_to(port, WHOLE + more)
    assert answered.startswith(b"HTTP/1.1 200 OK")
    assert answered.count(b"HTTP/1.1") == 1


async def test_connections_above_the_limit_are_refused_until_one_is_closed() -> None:
    async with serving(connections=1) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(WHOLE)
        assert (await reader.readuntil(b"sun")).startswith(b"HTTP/1.1 200")
        assert (await answer_to(port, b"")).startswith(b"HTTP/1.1 503")
        writer.write(WHOLE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        await reader.read()
        writer.close()
        again = await answer_to(port, WHOLE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert again.startswith(b"HTTP/1.1 200")


CHUNKED = (
    b"POST /headers HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
)


async def test_a_trailer_is_no_header() -> None:
    async with serving() as port:
        answered = await answer_to(port, CHUNKED + b"Authorization: Bearer x\r\n\r\n")
    assert answered.startswith(b"HTTP/1.1 200 OK")
    assert answered.endswith(b'["host", "connection", "transfer-encoding"]')


@pytest.mark.parametrize("rest", [LINES * 600, b"x: " + b"y" * 600_000])
async def test_trailers_are_refused_above_a_size_before_they_have_all_arrived(rest: bytes) -> None:
    async with serving() as port:
        try:
            answered = await answer_to(port, CHUNKED + rest)
        except ConnectionResetError:  # closed before everything was sent
            answered = b"HTTP/1.1 431 "
    assert answered.startswith(b"HTTP/1.1 431 ")


def problem_of(answered: bytes) -> dict[str, Any]:
    head, _, body = answered.partition(b"\r\n\r\n")
    assert b"\r\nContent-Type: application/problem+json\r\n" in head
    assert b"\r\nConnection: close\r\n" in head
    return json.loads(body)


async def test_what_cannot_be_read_is_refused_with_a_problem() -> None:
    async with serving(connections=1) as port:
        problem = problem_of(await answer_to(port, b"hello\r\n\r\n"))
        assert (problem["status"], problem["code"]) == (400, "bad_request")
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        problem = problem_of(await answer_to(port, b""))
        assert (problem["status"], problem["code"]) == (503, "unavailable")
        writer.close()


@pytest.mark.parametrize(
    "line",
    [
        b"GET /small HTTP/2.0\r\n",
        b"GET /small HTTP/1.1\r\nTransfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
    ],
)
async def test_a_version_or_framing_that_proxies_may_read_otherwise_is_refused(line: bytes) -> None:
    async with serving() as port:
        answered = await answer_to(port, line + b"Host: a\r\n\r\n0\r\n\r\n")
    assert problem_of(answered)["status"] == 400


async def test_a_whole_request_is_answered_before_what_follows_it_is_refused() -> None:
    async with serving() as port:
        answered = await answer_to(port, WHOLE + WHOLE + b"GARBAGE\r\n\r\n")
    assert answered.count(b"HTTP/1.1 200 OK") == 2
    assert b"HTTP/1.1 400" not in answered


async def test_a_body_that_cannot_be_read_is_refused() -> None:
    async with serving() as port:
        answered = await answer_to(port, CHUNKED[:-3] + b"xyz\r\n")
    assert problem_of(answered)["status"] == 400


async def test_an_upgrade_is_not_done_and_the_connection_closes() -> None:
    upgrade = WHOLE[:-2] + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    async with serving() as port:
        answered = await answer_to(port, upgrade)
    assert answered.startswith(b"HTTP/1.1 200 OK")
    assert b"connection: close\r\n" in answered
