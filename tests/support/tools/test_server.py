"""The webhook server behaves as told, checks signatures, and its log says what reached it."""

import asyncio
import gc
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest
from standardwebhooks import Webhook

from tests.support.tools import hits
from tests.support.tools.hits import Hit
from tests.support.tools.process import ToolProcess
from tests.support.tools.server import Behaviour, ToolServer

SECRET = "whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0"


@pytest.fixture
def tools(tmp_path: Path) -> Iterator[ToolServer]:
    with ToolServer(log=tmp_path / "hits.jsonl") as tools:
        yield tools


def body(**fields: Any) -> dict[str, Any]:
    call = {"type": "tool_call", "run_id": "run_1", "call_id": "c1", "tool": "a"}
    return {**call, "arguments": {"x": "1"}, "attempt": 1, "fence": 3, **fields}


def post(url: str, **fields: Any) -> httpx2.Response:
    return httpx2.post(url, json=body(**fields), timeout=10, trust_env=False)


def test_echo_answers_with_the_tools_name_and_its_argument(tools: ToolServer) -> None:
    answer = post(tools.tool("a", Behaviour("echo")))
    assert (answer.status_code, answer.text) == (200, "a(1)")
    [hit] = tools.hits("a")
    assert (hit.run_id, hit.call_id, hit.attempt, hit.fence) == ("run_1", "c1", 1, 3)
    assert hit.arguments == {"x": "1"}
    assert hit.outcome == "answered"
    assert hit.verified is None


@pytest.mark.parametrize(
    ("behaviour", "status", "text"),
    [
        (Behaviour("return", value={"k": None}), 200, '{"k": null}'),
        (Behaviour("return", value=""), 200, '""'),
        (Behaviour("raw", value="<p>", content_type="text/html"), 200, "<p>"),
        (Behaviour("raise", message="boom"), 500, "boom"),
        (Behaviour("raise_cancelled"), 500, "boom"),
        (Behaviour("raise_timeout"), 504, "boom"),
        (Behaviour("later"), 202, "{}"),
        (Behaviour("redirect", value="http://127.0.0.1:9/"), 307, ""),
        (Behaviour("invalid_json"), 200, '{"half": '),
        (Behaviour("echo", status=503), 503, "a(1)"),
    ],
)
def test_an_answer_is_as_told(
    tools: ToolServer, behaviour: Behaviour, status: int, text: str
) -> None:
    answer = post(tools.tool("a", behaviour))
    assert (answer.status_code, answer.text) == (status, text)


def test_an_error_result_and_headers_are_as_told(tools: ToolServer) -> None:
    answer = post(
        tools.tool("a", Behaviour("is_error", message="no", headers={"Retry-After": "3"}))
    )
    assert answer.json() == {"is_error": True, "content": [{"type": "text", "text": "no"}]}
    assert answer.headers["retry-after"] == "3"


def test_later_behaviours_are_for_later_hits(tools: ToolServer) -> None:
    url = tools.tool("a", Behaviour(status=503), Behaviour())
    assert [post(url).status_code for _ in range(3)] == [503, 200, 200]


def test_a_connection_can_be_reset_or_end_early(tools: ToolServer) -> None:
    for kind in ("reset", "truncated"):
        with pytest.raises((httpx2.ReadError, httpx2.RemoteProtocolError)):
            post(tools.tool(kind, Behaviour(kind)))
        assert len(tools.wait_for(kind)) == 1


def test_bodies_can_be_slow_or_huge(tools: ToolServer) -> None:
    assert post(tools.tool("drip", Behaviour("drip", size=3))).text == "..."
    assert len(post(tools.tool("huge", Behaviour("huge", size=1_000_000))).text) >= 1_000_000


def test_a_client_that_leaves_is_noted_as_abandoned(tools: ToolServer) -> None:
    url = tools.tool("a", Behaviour(hold="never"))
    with pytest.raises(httpx2.ReadTimeout):
        httpx2.post(url, json=body(), timeout=0.3, trust_env=False)
    tools.hold("never").arrived(1, 10)
    tools.until(lambda hits: [hit.outcome for hit in hits] == ["abandoned"], 10)


def test_calls_that_should_meet_are_in_flight_together(tools: ToolServer) -> None:
    url = tools.tool("a", Behaviour(meet=3))

    async def together() -> list[httpx2.Response]:
        async with httpx2.AsyncClient(timeout=10, trust_env=False) as http:
            return await asyncio.gather(*(http.post(url, json=body()) for _ in range(3)))

    assert [answer.status_code for answer in asyncio.run(together())] == [200, 200, 200]
    assert tools.peak == 3
    assert sorted(hit.active for hit in tools.hits()) == [1, 2, 3]


def test_only_a_right_signature_is_verified(tools: ToolServer) -> None:
    url = tools.tool("a")
    tools.secrets("a", "whsec_b3RoZXItb3RoZXItb3RoZXI=", SECRET)
    now = datetime.now(UTC)
    raw = json.dumps(body())
    headers = {
        "webhook-id": "w1",
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(SECRET).sign("w1", now, raw),
    }
    for content in (raw, raw + " "):
        httpx2.post(url, content=content, headers=headers, timeout=10, trust_env=False)
    post(url)
    assert [hit.verified for hit in tools.hits()] == [True, False, False]


def test_notices_are_kept_apart_from_calls(tools: ToolServer) -> None:
    url = tools.tool("a", Behaviour("raise"))
    assert post(url + "/elsewhere", type="tool_call.cancelled").status_code == 200
    post(url)
    assert [hit.type for hit in tools.all_hits()] == ["tool_call.cancelled", "tool_call"]
    assert len(tools.hits()) == 1


def test_a_witness_is_asked_before_the_answer() -> None:
    async def witness(hit: Hit) -> bool:
        return hit.attempt == 1

    with ToolServer(witness=witness) as tools:
        url = tools.tool("a")
        post(url)
        post(url, attempt=2)
        assert [hit.started_seen for hit in tools.hits()] == [True, False]


def test_the_log_on_disk_says_the_same(tools: ToolServer, tmp_path: Path) -> None:
    post(tools.tool("a"))
    assert hits.read(tmp_path / "hits.jsonl") == tools.all_hits()
    whole = (tmp_path / "hits.jsonl").read_text()
    assert len(hits.fold((whole + '{"line": "hit", "num').splitlines())) == 1


def test_a_server_that_closes_while_clients_come_leaves_nothing_open() -> None:
    """A connection or socket that is left open is a ResourceWarning, which fails the test."""
    with ExitStack() as clients:
        for _ in range(5):
            with ToolServer() as tools:
                where = ("127.0.0.1", httpx2.URL(tools.url).port or 0)
                for _ in range(20):
                    clients.enter_context(socket.create_connection(where))
    gc.collect()


@pytest.mark.timeout(60)
def test_it_also_runs_as_a_process_of_its_own(tmp_path: Path) -> None:
    with ToolProcess(tmp_path / "hits.jsonl") as tools:
        url = tools.tool("a", Behaviour(hold="door"), Behaviour())
        tools.secrets("a", SECRET)

        async def both() -> None:
            async with httpx2.AsyncClient(timeout=30, trust_env=False) as http:
                first = asyncio.create_task(http.post(url, json=body()))
                await asyncio.to_thread(tools.arrived, "door")
                assert (await http.post(url, json=body(call_id="c2"))).text == "a(1)"
                assert not first.done()
                await asyncio.to_thread(tools.release, "door")
                assert (await first).text == "a(1)"

        asyncio.run(both())
        assert [hit.call_id for hit in tools.hits("a")] == ["c1", "c2"]
        assert [hit.verified for hit in tools.hits()] == [False, False]
        assert [hit.outcome for hit in tools.all_hits()] == ["answered", "answered"]
