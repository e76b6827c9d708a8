"""MCP servers without a service: names, outcomes, and sessions with real servers."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from ipaddress import ip_network
from itertools import pairwise
from typing import Any
from uuid import UUID, uuid4

import pytest
from aiohttp import web
from pydantic import JsonValue

from runward.domain.errors import AlreadyExistsError, FieldError, McpUnreachableError
from runward.domain.ids import CallId, ProjectId, RunId
from runward.domain.json import JsonObject
from runward.domain.registry import mcp_servers
from runward.domain.registry.mcp_servers import ListedTool, McpServerSpec, ToolFilter, offered_tools
from runward.domain.registry.tools import McpToolSource, ToolSpec
from runward.domain.run.outcomes import Done, Failed, FailureKind, Outcome
from runward.domain.schema.validator import check_schema
from runward.egress.client import Egress
from runward.tools.base import LEASE_LOST, Invocation
from runward.tools.mcp import http
from runward.tools.mcp.invoker import RELIST_PAUSE_SECONDS, McpInvoker
from runward.tools.mcp.open_calls import HeldCall
from runward.tools.mcp.outcome import error_outcome
from runward.tools.mcp.session import MAX_CALLS, ConnectableServer
from tests.hostile.mcp_peer import RESULTS, McpPeer, rpc
from tests.support.mcp.server import McpServer
from tests.support.serving import Server as HttpServer

pytestmark = pytest.mark.processes

OBJECT: JsonObject = {"type": "object"}
PROJECT = ProjectId(uuid4())
LOOPBACK = (ip_network("127.0.0.0/8"),)


def spec(**fields: Any) -> McpServerSpec:
    about: dict[str, Any] = {"name": "box", "url": "http://127.0.0.1/mcp", **fields}
    return McpServerSpec(**about)


def listed(name: str, **fields: Any) -> ListedTool:
    about: dict[str, Any] = {"parameters": OBJECT, **fields}
    return ListedTool(name=name, **about)


def names(server: McpServerSpec, *tools: ListedTool) -> list[str]:
    return [one.name for one in offered_tools(server, tools).specs]


# -- what is listed -------------------------------------------------------------------------------


def test_names_are_made_to_fit_what_every_provider_takes() -> None:
    assert names(spec(), listed("read.file/now é")) == ["box_read_file_now__"]
    assert names(spec(prefix="b"), listed("x" * 100)) == ["b_" + "x" * 62]


def test_two_tools_of_one_name_are_refused_and_both_are_named() -> None:
    with pytest.raises(AlreadyExistsError, match=r"'a\.b' and 'a/b'"):
        offered_tools(spec(), [listed("a.b"), listed("a/b")])
    assert names(spec(tools=ToolFilter(deny=("a/b",))), listed("a.b"), listed("a/b")) == ["box_a_b"]


def test_only_a_tool_that_says_that_it_reads_is_called_unasked() -> None:
    tools = [
        listed("reads", annotations={"readOnlyHint": True}),
        listed("says", annotations={"readOnlyHint": "true"}),
        listed("destroys", annotations={"destructiveHint": True}),
        listed("silent"),
    ]
    approvals = [one.approval for one in offered_tools(spec(), tools).specs]
    assert approvals == ["never", "always", "always", "always"]
    unasked = offered_tools(spec(approval="never"), tools).specs
    assert [one.approval for one in unasked] == ["never"] * 4


def test_a_tool_whose_schema_is_none_is_skipped_with_the_reason() -> None:
    made = offered_tools(spec(), [listed("good"), listed("bad", parameters={"type": "objekt"})])
    assert [one.name for one in made.specs] == ["box_good"]
    [skipped] = made.skipped
    assert skipped.tool == "bad"
    assert "parameters" in skipped.reason


def test_a_server_that_is_shown_again_costs_no_second_check_of_its_schemas(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checked: list[JsonValue] = []

    def check(schema: JsonValue, **how: Any) -> list[FieldError]:
        checked.append(schema)
        return check_schema(schema, **how)

    monkeypatch.setattr(mcp_servers, "check_schema", check)
    good: JsonObject = {"type": "object", "title": uuid4().hex}
    bad: JsonObject = {"type": "array", "title": uuid4().hex}
    tools = [listed("a", parameters=good), listed("b", output_schema=good, parameters=good)]
    first = offered_tools(spec(), [*tools, listed("c", parameters=bad)])
    assert checked == [good, good, good, bad]
    assert offered_tools(spec(), [*tools, listed("c", parameters=bad)]) == first
    assert len(checked) == 4
    assert [one.tool for one in first.skipped] == ["c"]


@pytest.mark.parametrize(
    ("tool", "reason"),
    [
        (listed(""), "empty or too long"),
        (listed("x" * 257), "empty or too long"),
        (listed("bad", output_schema={"type": "objekt"}), "output_schema"),
    ],
)
def test_what_cannot_be_a_tool_here_is_skipped_with_the_reason(
    tool: ListedTool, reason: str
) -> None:
    made = offered_tools(spec(), [listed("good"), tool])
    assert [one.name for one in made.specs] == ["box_good"]
    [skipped] = made.skipped
    assert reason in skipped.reason


def test_a_tool_that_would_have_the_name_of_runward_s_own_is_skipped() -> None:
    made = offered_tools(spec(prefix="read"), [listed("result")])
    assert made.specs == ()
    assert "reserved" in made.skipped[0].reason


def test_a_tool_that_is_only_a_task_is_skipped_with_the_reason() -> None:
    made = offered_tools(spec(), [listed("good"), listed("long", only_as_task=True)])
    assert [one.name for one in made.specs] == ["box_good"]
    assert [(one.tool, "task" in one.reason) for one in made.skipped] == [("long", True)]


def test_another_command_is_another_version() -> None:
    codes = [
        offered_tools(spec(url=None, command="c", args=args), [listed("a")]).specs[0].code
        for args in (("x",), ("y",))
    ]
    assert None not in codes
    assert codes[0] != codes[1]


# -- what a server answers ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "data", "why"),
    [
        (http.NOT_SENT, {}, FailureKind.NOT_SENT),
        (http.CONNECTION_LOST, {}, FailureKind.UNKNOWN),
        (-32_000, None, FailureKind.UNKNOWN),
        (-32_001, None, FailureKind.TIMEOUT),
        (http.ERROR_STATUS, {"status": 503}, FailureKind.UNAVAILABLE),
        (http.ERROR_STATUS, {"status": 401}, FailureKind.ERROR),
        (http.ERROR_STATUS, {"status": 404, "expired": True}, FailureKind.NOT_SENT),
        (http.ERROR_STATUS, {"status": "many"}, FailureKind.ERROR),
        (http.ERROR_STATUS, {"status": [503]}, FailureKind.ERROR),
        (http.ERROR_STATUS, {"status": 10**30}, FailureKind.ERROR),
        (http.UNREADABLE, {}, FailureKind.INVALID_RESPONSE),
        (-32_700, None, FailureKind.INVALID_RESPONSE),
        (-32_602, "anything", FailureKind.ERROR),
    ],
)
def test_an_error_says_what_is_known(code: int, data: Any, why: FailureKind) -> None:
    assert error_outcome(code, "said", data).reason is why


# -- sessions -------------------------------------------------------------------------------------


class Host:
    """What a process has: `Mcp` with one registered server."""

    def __init__(self, url: str, egress: Egress, **options: Any) -> None:
        self.server = ConnectableServer(PROJECT, uuid4(), 1, spec(url=url), {})
        self.taken: asyncio.Queue[list[str]] = asyncio.Queue()
        self.settled: set[UUID] = set()
        self.mcp = McpInvoker(
            egress,
            commands=(),
            load_server=self._load,
            store_tools=self._take,
            find_open_calls=self._find_open,
            **options,
        )

    async def _load(self, project_id: ProjectId, name: str) -> ConnectableServer | None:
        return self.server if name == "box" else None

    async def _take(self, server: ConnectableServer, tools: Sequence[ListedTool]) -> int:
        self.taken.put_nowait([tool.name for tool in tools])
        return 0

    async def _find_open(self, calls: Sequence[HeldCall]) -> set[UUID]:
        return {one.id for one in calls} - self.settled

    async def call(self, tool: str, seconds: float = 20.0, **arguments: Any) -> Outcome:
        return await self.mcp.invoke(invocation(tool, seconds, arguments))


def invocation(tool: str, seconds: float, arguments: JsonObject) -> Invocation:
    about = McpToolSource(server="box", tool=tool)
    made = ToolSpec(name="t", parameters=OBJECT, type="mcp", strict=False, mcp=about)
    return Invocation(
        project_id=PROJECT,
        run_id=RunId(uuid4()),
        call_id=CallId("c1"),
        call_uuid=uuid4(),
        tool=made,
        tool_version=1,
        agent=None,
        arguments=arguments,
        context=None,
        attempt=1,
        fence=0,
        seconds=seconds,
        callback_url="",
        callback_token="",
        secrets=(),
    )


@asynccontextmanager
async def hosting(url: str, *, private: bool = True, **options: Any) -> AsyncGenerator[Host]:
    egress = Egress(allow_private=LOOPBACK if private else ())
    host = Host(url, egress, **options)
    try:
        yield host
    finally:
        await host.mcp.aclose()
        await egress.aclose()


async def test_many_calls_from_many_tasks_share_one_session() -> None:
    with McpServer() as server:
        async with hosting(server.url) as host:
            done = await asyncio.gather(*(host.call("add", a=n, b=1) for n in range(100)))
            assert done == [Done({"sum": n + 1}) for n in range(100)]
            assert await host.taken.get()
            assert host.taken.empty(), "it was listed once"


async def test_a_call_of_a_run_that_another_worker_has_is_not_sent() -> None:
    async def lost() -> bool:
        return False

    with McpServer() as server:
        async with hosting(server.url) as host:
            call = replace(invocation("add", 20.0, {"a": 1, "b": 1}), may_send=lost)
            assert await host.mcp.invoke(call) == LEASE_LOST
            assert [one for one in server.seen() if one["what"] == "add"] == []


async def test_calls_that_wait_while_the_session_ends_are_not_sent() -> None:
    with McpServer() as server:
        async with hosting(server.url) as host:
            assert await host.call("add", a=1, b=1) == Done({"sum": 2})
            calls = [asyncio.create_task(host.call("slow")) for _ in range(MAX_CALLS + 8)]
            while len([one for one in server.seen() if one["what"] == "slow"]) < MAX_CALLS:
                await asyncio.to_thread(server.wait_for, "slow")
                await asyncio.sleep(0.05)
            await host.mcp.aclose()
            outcomes = await asyncio.gather(*calls)
            whys = [one.reason for one in outcomes if isinstance(one, Failed)]
            assert whys.count(FailureKind.NOT_SENT) == 8, outcomes


async def test_a_call_that_is_cancelled_leaves_the_session_to_the_others() -> None:
    with McpServer() as server:
        async with hosting(server.url) as host:
            slow = asyncio.create_task(host.call("slow"))
            await asyncio.to_thread(server.wait_for, "slow")
            slow.cancel()
            assert await host.call("add", a=1, b=1) == Done({"sum": 2})
            await asyncio.to_thread(server.wait_for, "cancelled")


async def test_a_server_whose_every_list_changes_it_is_not_asked_without_a_pause() -> None:
    lists: list[float] = []

    async def changing(request: web.Request, asked: Any) -> web.StreamResponse:
        lists.append(asyncio.get_running_loop().time())
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        result = rpc(asked["id"], result=RESULTS["tools/list"])
        changed = b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'
        await answer.write(b"data: " + changed + b"\n\ndata: " + result + b"\n\n")
        return answer

    with McpPeer() as peer:
        peer.answers["p", "tools/list"] = changing
        async with hosting(peer.url_of("p")) as host:
            assert isinstance(await host.call("act"), Done)
            for _ in range(3):
                await asyncio.wait_for(host.taken.get(), 30)
    pauses = [after - before for before, after in pairwise(lists)]
    assert min(pauses) >= RELIST_PAUSE_SECONDS / 2, pauses


async def test_an_old_list_is_read_again_when_a_tool_is_called() -> None:
    with McpServer() as server:
        async with hosting(server.url, list_again_seconds=0.0) as host:
            await host.call("add", a=1, b=1)
            await host.call("add", a=1, b=1)
            first = await host.taken.get()
            assert await host.taken.get() == first


async def test_an_idle_session_is_closed_and_the_next_call_opens_another() -> None:
    with McpServer() as server:
        async with hosting(server.url, idle_seconds=0.05) as host:
            for _ in range(2):
                assert await host.call("add", a=1, b=1) == Done({"sum": 2})
                [session] = host.mcp._sessions.values()  # pyright: ignore[reportPrivateUsage]
                async with asyncio.timeout(10):
                    await session.task
            assert host.taken.qsize() == 2


async def test_another_registration_under_the_name_is_another_session() -> None:
    with McpServer() as first, McpServer() as second:
        async with hosting(first.url) as host:
            await host.call("echo", text="one")
            host.server = ConnectableServer(PROJECT, uuid4(), 1, spec(url=second.url), {})
            host.mcp.forget(PROJECT)
            await host.call("echo", text="two")
        assert [one["text"] for one in first.seen() if one["what"] == "echo"] == ["one"]
        assert [one["text"] for one in second.seen() if one["what"] == "echo"] == ["two"]


async def test_a_name_that_leads_to_a_private_address_is_refused_when_connecting() -> None:
    with McpServer() as server:
        url = server.url.replace("127.0.0.1", "localhost")
        async with hosting(url, private=False) as host:
            outcome = await host.call("echo", text="hi")
            assert isinstance(outcome, Failed)
            assert outcome.reason is FailureKind.NOT_SENT
            assert "not public" in outcome.detail
        assert server.seen() == []


class Redirecting(HttpServer):
    def __init__(self, status: int) -> None:
        super().__init__()
        self.asked: list[str] = []
        self._status = status

    def app(self) -> web.Application:
        async def answer(request: web.Request) -> web.Response:
            self.asked.append(request.path)
            return web.Response(status=self._status, headers={"Location": "/elsewhere"})

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answer)
        return app


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_is_followed(status: int) -> None:
    with Redirecting(status) as server:
        async with hosting(f"{server.url}/mcp") as host:
            with pytest.raises(McpUnreachableError, match="Runward does not follow redirects"):
                await host.mcp.list_tools(host.server)
        assert set(server.asked) == {"/mcp"}


class Endless(HttpServer):
    """Lists tools as long as somebody reads, at most `MANY` pieces of 1,000 tools."""

    MANY = 1_000

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.pieces = 0
        self._kind = kind

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/mcp", self._answer)
        return app

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        if asked.get("method") == "tools/list":
            return await self._list(request, asked["id"])
        if asked.get("method") != "initialize":
            return web.Response(status=202 if "id" not in asked else 400)
        about: dict[str, Any] = {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "endless", "version": "1"},
        }
        return web.json_response({"jsonrpc": "2.0", "id": asked["id"], "result": about})

    async def _list(self, request: web.Request, id_: Any) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": self._kind})
        await response.prepare(request)
        piece = b'{"name":"t","inputSchema":{"type":"object"}},' * 1_000
        start = b'{"jsonrpc":"2.0","id":%d,"result":{"tools":[' % id_
        await response.write((b"data: " if "event" in self._kind else b"") + start)
        for _ in range(self.MANY):
            await response.write(piece)
            self.pieces += 1
        return response


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_a_list_of_too_many_tools_is_refused_while_it_is_read(kind: str) -> None:
    with Endless(kind) as server:
        async with hosting(f"{server.url}/mcp") as host:
            with pytest.raises(
                McpUnreachableError, match="the server's list has more than 512 tools"
            ):
                await host.mcp.list_tools(host.server)
        assert server.pieces < server.MANY // 2


def test_a_meter_takes_what_a_long_list_of_large_tools_needs() -> None:
    tool = b'{"name":"t","inputSchema":%s}' % (b'{"a":' * 50 + b"1" + b"}" * 50)
    meter = http.ListMeter()
    meter.add(tool * 512)
    with pytest.raises(http.LongListError):
        meter.add(tool * 512)
