"""A hostile MCP server, over HTTP or as a command, affects only its own calls."""

# Without RUNWARD_HOSTILE=1 (`make hostile`), some behaviors that are like others are left out, and
# floods are shorter.

import asyncio
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import httpx2
import pytest
from aiohttp import web

from tests.api.project import Project, call
from tests.hostile.figures import record
from tests.hostile.mcp_peer import RESULTS, TOOL, Answer, McpPeer, rpc
from tests.hostile.peers import Memory
from tests.support.models.chat_server import calls, text
from tests.support.services.client import Json

EVERY: Final = bool(os.environ.get("RUNWARD_HOSTILE"))
SHARE: Final = 1 if EVERY else 10
CALL_SECONDS: Final = 5
MAX_GROWTH_BYTES: Final = 512 * 1024 * 1024
FINE: Final = RESULTS["tools/call"]
NOTE: Final = (
    b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}'
)
CHANGED: Final = b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'


def whole(
    make: Callable[[Any], bytes], kind: str = "application/json", status: int = 200
) -> Answer:
    """One body. `make`: from the request's id."""

    async def answer(_request: web.Request, asked: Any) -> web.Response:
        return web.Response(body=make(asked.get("id")), status=status, content_type=kind)

    return answer


def stream(*messages: bytes, times: int = 1, ends: bool = True, answers: bool = True) -> Answer:
    """Messages as events, so often, and perhaps the result."""

    async def answer(request: web.Request, asked: Any) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for _ in range(times):
            await response.write(b"".join(b"data: " + one + b"\n\n" for one in messages))
        if answers:
            await response.write(b"data: " + rpc(asked.get("id"), result=FINE) + b"\n\n")
        while not ends:
            await response.write(b": still here\n\n")
            await asyncio.sleep(0.05)
        return response

    return answer


def ping(number: int) -> bytes:
    return rpc(number, method="ping")


PINGS: Final = b"\n\ndata: ".join(ping(number) for number in range(1000 // SHARE))
CALLS: Final[dict[str, Answer]] = {
    "no_body": whole(lambda _: b""),
    "null": whole(lambda _: b"null"),
    "garbage": whole(lambda _: b"{nonsense"),
    "page": whole(lambda _: b"<h1>", "text/html"),
    "deep": whole(lambda _: b"[" * 100_000 + b"]" * 100_000),
    "no_result": whole(rpc),
    "wrong_id": whole(lambda _: rpc(987_654, result=FINE)),
    "id_of_text": whole(lambda _: rpc("x", result=FINE)),
    "huge_id": whole(lambda _: rpc(10**400, result=FINE)),
    "long_id": whole(lambda _: rpc("x" * 1_000_000, result=FINE)),
    "null_id": whole(lambda _: rpc(None, result=FINE)),
    "result_and_error": whole(lambda id_: rpc(id_, result=FINE, error={"code": 1, "message": ""})),
    "error_of_garbage": whole(lambda id_: rpc(id_, error={"code": "x", "message": 7})),
    "huge_code": whole(lambda id_: rpc(id_, error={"code": 10**300, "message": "x" * 100_000})),
    "content_of_wrong_type": whole(lambda id_: rpc(id_, result={"content": 7})),
    "unknown_content": whole(lambda id_: rpc(id_, result={"content": [{"type": "smell"}]})),
    "too_large": whole(lambda id_: rpc(id_, result={"content": [], "x": "a" * 13_000_000})),
    "nul": whole(lambda id_: rpc(id_, result={"content": [{"type": "text", "text": "\0\ud800"}]})),
    "accepted": whole(lambda _: b"", status=202),
    "status_500": whole(lambda _: b"\xff", status=500),
    "notifications": stream(NOTE, times=3000 // SHARE),
    "list_changes": stream(CHANGED, times=300 // SHARE),
    "requests": stream(PINGS, times=1),
    "answers_to_others": stream(rpc(1, result=FINE), rpc(-1, result=FINE), times=1000 // SHARE),
    "two_answers": stream(rpc(3, result=FINE), rpc(3, result={}), times=2),
    "endless": stream(ends=False, answers=False),
    "endless_notifications": stream(NOTE, times=500, ends=False, answers=False),
    "stream_without_answer": stream(NOTE, answers=False),
    "stream_of_garbage": stream(b"{nonsense", times=1000 // SHARE),
}


def cursors(next_cursor: Callable[[int], str]) -> Answer:
    async def answer(_request: web.Request, asked: Any) -> web.Response:
        number = len(str(asked.get("params", {})))
        result: Json = {"tools": [], "nextCursor": next_cursor(number)}
        return web.Response(body=rpc(asked["id"], result=result), content_type="application/json")

    return answer


LISTS: Final[dict[str, Answer]] = {
    "same_cursor": cursors(lambda _: "again"),
    "new_cursors": cursors(lambda number: "x" * (number % 1000 + 1)),
    "long_cursor": cursors(lambda _: "x" * 1_000_000),
    "many_tools": whole(lambda id_: rpc(id_, result={"tools": [TOOL] * 5000})),
    "deep_schema": whole(
        lambda id_: rpc(id_, result={"tools": 0}).replace(
            b"0}", b'[{"a":' * 4000 + b"1" + b"}]" * 4000 + b"}"
        )
    ),
    "tools_of_wrong_type": whole(lambda id_: rpc(id_, result={"tools": {"a": 1}})),
    "wrong_id_of_a_list": whole(lambda _: rpc(987_654, result={"tools": []})),
    "list_of_garbage": whole(lambda _: b"{nonsense"),
    "endless_list": stream(ends=False, answers=False),
}
STDIO: Final = """
import json, sys
KIND = sys.argv[1]
RESULTS = json.loads(RESULTS_HERE)
out = sys.stdout
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    said = {"result": RESULTS[asked["method"]]} if asked["method"] in RESULTS else {
        "error": {"code": -32601, "message": "no"}}
    fine = json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}) + chr(10)
    if asked["method"] == "tools/call":
        if KIND == "garbage":
            out.write("{nonsense" + chr(10) + chr(10) * 1000)
        elif KIND == "notifications":
            out.write(NOTE_HERE * 3000)
        elif KIND == "requests":
            for number in range(1000):
                out.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": "ping"}) + chr(10))
        elif KIND == "wrong_ids":
            out.write(fine.replace('"id": ', '"id": 99') * 1000)
        elif KIND == "huge_id":
            out.write('{"jsonrpc":"2.0","id":' + "9" * 100000 + ',"result":{}}' + chr(10))
        elif KIND == "deep":
            out.write("[" * 100000 + chr(10))
        elif KIND == "long_line":
            out.write("x" * 12000000)
            out.flush()
            sys.exit(3)
        elif KIND == "ends":
            sys.exit(3)
        elif KIND == "stderr":
            sys.stderr.write("y" * 1000000)
    out.write(fine)
    out.flush()
"""
KINDS: Final = (
    *("garbage", "notifications", "requests", "wrong_ids", "huge_id", "deep", "long_line"),
    *("ends", "stderr"),
)


ALIKE: Final = frozenset(
    (
        *("no_body", "garbage", "wrong_id", "id_of_text", "null_id", "error_of_garbage"),
        *("content_of_wrong_type", "two_answers", "endless_notifications"),
        *("io_notifications", "io_wrong_ids", "io_ends"),
        *("same_cursor", "tools_of_wrong_type", "list_of_garbage"),
    )
)
"""Left out if not every behavior is wanted."""


def chosen(names: Iterable[str]) -> list[str]:
    return [name for name in names if EVERY or name not in ALIKE]


@pytest.fixture
def peer() -> Iterator[McpPeer]:
    with McpPeer() as peer:
        peer.answers = {(name, "tools/call"): one for name, one in CALLS.items()} | {
            (name, "tools/list"): one for name, one in LISTS.items()
        }
        yield peer


def register(project: Project, name: str, **where: Any) -> httpx2.Response:
    body: Json = {"name": name, "approval": "never", "timeout_seconds": CALL_SECONDS, **where}
    return project.client.request("POST", "/v1/mcp_servers", body)


def begin(project: Project, server: str, prefix: str = "") -> Json:
    asked = calls(call(1, f"{server}_act", "{}"))
    model = project.script(asked, text("done"), name=f"{prefix}{server}")
    return project.client.start_run(model=model, tools=[f"{server}_act"])


@pytest.mark.timeout(240)
def test_every_behavior_of_an_mcp_server_ends_its_call_and_a_neighbor_s_call_works(
    project: Project, other: Project, peer: McpPeer
) -> None:
    memory = Memory(project.running.service.pid)
    note = (NOTE + b"\n").decode()
    program = STDIO.replace("RESULTS_HERE", repr(json.dumps(RESULTS)))
    program = program.replace("NOTE_HERE", repr(note))
    servers = chosen([*CALLS, *(f"io_{kind}" for kind in KINDS)])

    def place(name: str) -> Json:
        kind = name.removeprefix("io_")
        return (
            {"url": peer.url_of(name)}
            if name in CALLS
            else {"command": sys.executable, "args": ["-S", "-c", program, kind]}
        )

    def made_of(name: str) -> httpx2.Response:
        return register(project, name, **place(name))

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(made_of, servers))
    assert [one.status_code for one in made] == [201] * len(servers)
    runs = {name: begin(project, name) for name in servers}
    assert register(other, "good", url=peer.url_of("good")).status_code == 201
    ended = other.settle(begin(other, "good"))
    assert ended["status"] == "completed"
    assert other.client.tool_calls(ended["id"])[0]["outcome"] == "completed"
    outcomes: dict[str, str] = {}
    for name, run in runs.items():
        ended = project.settle(run)
        [done] = project.client.tool_calls(run["id"])
        outcomes[name] = done["outcome"]
        assert ended["status"] == "completed", (name, ended)
    assert set(outcomes.values()) <= {"completed", "failed", "timed_out", "outcome_unknown"}
    growth = memory.growth_bytes
    print(outcomes)
    assert growth < MAX_GROWTH_BYTES
    record(mcp_behaviors=len(outcomes), mcp_growth_mb=round(growth / 1e6))


@pytest.mark.timeout(240)
def test_a_list_that_never_ends_or_is_none_is_refused(project: Project, peer: McpPeer) -> None:
    def made_of(name: str) -> httpx2.Response:
        return register(project, name, url=peer.url_of(name))

    names = chosen(LISTS)
    with ThreadPoolExecutor(len(names)) as pool:
        made = pool.map(made_of, names)
        found = {name: one.status_code for name, one in zip(names, made, strict=True)}
    assert set(found.values()) == {424}
    assert project.client.call("GET", "/v1/mcp_servers")["data"] == []
    record(mcp_lists=len(found))
