"""Sessions with MCP servers that are hostile, or that change while a call is prepared."""

import asyncio
import gzip
from dataclasses import replace
from typing import Any, Final

import pytest
from aiohttp import web

from runward.domain.errors import McpUnreachableError
from runward.domain.json import MAX_VALUES
from runward.domain.run.outcomes import Done, Failed, FailureKind
from runward.tools.base import LEASE_LOST
from runward.tools.mcp.session import ConnectableServer
from tests.hostile.mcp_peer import TOOL, McpPeer, rpc
from tests.support.services.client import Json
from tests.unit.test_mcp import PROJECT, hosting, invocation

BACKTRACKING: Final = {"type": "object", "properties": {"a": {"pattern": "^(a+)+$"}}}


async def test_a_server_s_schema_is_not_checked_on_the_event_loop() -> None:
    """The SDK's check of this result takes twice as long for each further letter."""
    said: Json = {"a": "a" * 18 + "!"}

    async def listed(_request: web.Request, asked: Any) -> web.Response:
        tools = [{**TOOL, "outputSchema": BACKTRACKING}]
        body = rpc(asked["id"], result={"tools": tools})
        return web.Response(body=body, content_type="application/json")

    async def called(_request: web.Request, asked: Any) -> web.Response:
        body = rpc(asked["id"], result={"content": [], "structuredContent": said})
        return web.Response(body=body, content_type="application/json")

    with McpPeer() as peer:
        peer.answers |= {("a", "tools/list"): listed, ("a", "tools/call"): called}
        async with hosting(peer.url_of("a")) as host:
            assert await host.call("act") == Done(said)


async def test_the_lease_is_asked_for_when_the_session_is_ready() -> None:
    """Opening one may take 15 seconds, in which another worker may take the run over."""
    with McpPeer() as peer:
        async with hosting(peer.url_of("a")) as host:
            ready: list[bool] = []

            async def may_send() -> bool:
                ready.append(all(session.is_open for session in host.mcp._sessions.values()))  # pyright: ignore[reportPrivateUsage]
                return False

            call = replace(invocation("act", 20.0, {}), may_send=may_send)
            assert await host.mcp.invoke(call) == LEASE_LOST
            assert ready == [True]


async def test_a_session_that_is_replaced_serves_the_call_that_has_chosen_it() -> None:
    with McpPeer() as peer:
        async with hosting(peer.url_of("a")) as host:
            await host.call("act")
            [session] = host.mcp._sessions.values()  # pyright: ignore[reportPrivateUsage]

            async def may_send() -> bool:
                server = host.server
                host.server = ConnectableServer(PROJECT, server.id, 2, server.spec, {})
                host.mcp.forget(PROJECT)
                await asyncio.wait({session.task}, timeout=0.3)
                return True

            call = replace(invocation("act", 20.0, {}), may_send=may_send)
            assert await host.mcp.invoke(call) == Done("fine")


async def test_a_session_whose_registration_cannot_be_read_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fail(*_: object) -> ConnectableServer | None:
        raise ConnectionResetError("the database has gone")

    with McpPeer() as peer:
        async with hosting(peer.url_of("a")) as host:
            await host.call("act")
            [session] = host.mcp._sessions.values()  # pyright: ignore[reportPrivateUsage]
            with monkeypatch.context() as patch:
                patch.setattr(host.mcp, "_load", fail)
                host.mcp.forget(PROJECT)
                await asyncio.wait({session.task}, timeout=10)
            assert session.task.done()
            assert await host.call("act") == Done("fine")


async def test_a_compressed_stream_is_refused() -> None:
    async def listed(_request: web.Request, asked: Any) -> web.Response:
        body = gzip.compress(b"data: " + rpc(asked["id"], result={"tools": [TOOL]}) + b"\n\n")
        headers = {"Content-Type": "text/event-stream", "Content-Encoding": "gzip"}
        return web.Response(body=body, headers=headers)

    with McpPeer() as peer:
        peer.answers["a", "tools/list"] = listed
        async with hosting(peer.url_of("a")) as host:
            with pytest.raises(McpUnreachableError, match="the response is compressed"):
                await host.mcp.list_tools(host.server)


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
async def test_an_answer_of_too_many_values_is_not_parsed(*, streams: bool) -> None:
    """The SDK would parse 10 MiB of empty lists on the event loop, which takes seconds."""

    async def called(_request: web.Request, asked: Any) -> web.Response:
        lists = f"[{'[],' * MAX_VALUES}1]"
        body = rpc(asked["id"], result={"content": [], "structuredContent": {"a": "LISTS"}})
        body = body.replace(b'"LISTS"', lists.encode())
        if streams:
            return web.Response(body=b"data: " + body + b"\n\n", content_type="text/event-stream")
        return web.Response(body=body, content_type="application/json")

    with McpPeer() as peer:
        peer.answers["a", "tools/call"] = called
        async with hosting(peer.url_of("a")) as host:
            failed = await host.call("act")
            assert isinstance(failed, Failed)
            assert failed.reason is FailureKind.INVALID_RESPONSE
            assert "more than" in failed.detail, "it was refused before it was parsed"
            assert "500,000 values" in failed.detail
            assert [session.loss for session in host.mcp._sessions.values()] == [""]  # pyright: ignore[reportPrivateUsage]


async def test_a_session_that_ends_before_its_list_is_read_again_is_no_unseen_error() -> None:
    """A server that restarts says that its list has changed, and is gone a second later."""
    with McpPeer() as peer:
        async with hosting(peer.url_of("a")) as host:
            await host.call("act")
            [session] = host.mcp._sessions.values()  # pyright: ignore[reportPrivateUsage]
            session.listed_at = 0.0
            host.mcp._relist(session)  # pyright: ignore[reportPrivateUsage]
            reading = host.mcp._tasks[session]  # pyright: ignore[reportPrivateUsage]
            await session.aclose()
            await asyncio.wait({reading})
            assert reading.exception() is None
