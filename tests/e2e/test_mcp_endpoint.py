"""/mcp on real processes: several API processes, dying ones, and clients of others as they are."""

import asyncio
import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import pytest
from mcp import MCPError

from tests.e2e.conftest import Processes
from tests.support.mcp.client import BOTH, Generation, mcp_client, run_of, said
from tests.support.programs import node_program
from tests.support.services.client import Client, Json
from tests.support.tools.server import Behaviour, ToolServer

pytestmark = pytest.mark.timeout(180)
T = TypeVar("T")

LEASE_SECONDS = 1.0
PATIENCE_SECONDS = 60.0

both = pytest.mark.parametrize("generation", BOTH)


def eventually(look: Callable[[], list[T]]) -> T:
    """The first that `look` finds. Raises TimeoutError."""
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        if found := look():
            return found[0]
        time.sleep(0.05)  # another process has nothing to wait on
    raise TimeoutError("nothing came")


def pay(client: Client, tools: ToolServer, *behaviours: Behaviour, **fields: Any) -> None:
    made = client.register_tool("pay", tools.tool("pay", *behaviours), **fields)
    tools.secrets("pay", made["secret"])


def open_run(client: Client) -> Json:
    return eventually(lambda: client.call("GET", "/v1/runs")["data"])


# -- the MCP inspector's command line -------------------------------------------------------------


def inspector(client: Client, *arguments: str) -> subprocess.Popen[str]:
    url = f"{client.url}/mcp"
    command = [node_program("mcp-inspector"), "--cli", url, "--transport", "http"]
    header = ["--header", f"Authorization: Bearer {client.key}"]
    return subprocess.Popen(
        [*command, *arguments, *header],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def printed(process: subprocess.Popen[str]) -> Json:
    out, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, out + errors
    return json.loads(out)


def test_the_inspector_lists_tools_and_calls_one_that_a_person_approves(
    client: Client, tools: ToolServer
) -> None:
    pay(client, tools, approval="always")
    listed = printed(inspector(client, "--method", "tools/list"))
    assert [tool["name"] for tool in listed["tools"]] == ["pay", "runward_result"]
    call = ("--method", "tools/call", "--tool-name", "pay", "--tool-arg", "x=one")
    calling = inspector(client, *call)
    try:
        approval = eventually(client.approvals)
        assert tools.hits("pay") == []
        client.decide(approval["id"], "approve")
        result = printed(calling)
    finally:
        calling.kill()
        calling.communicate()
    assert result["content"] == [{"type": "text", "text": "pay(one)"}]
    assert result["_meta"]["runward/run_id"] == approval["run_id"]
    assert len(tools.hits("pay")) == 1
    run = client.get_run(approval["run_id"])
    assert run["metadata"]["mcp_client"].startswith("inspector-cli/")


# -- processes that die ---------------------------------------------------------------------------


@both
async def test_a_call_goes_on_when_its_worker_is_killed(
    start: Processes, tools: ToolServer, generation: Generation
) -> None:
    api = start("api", lease_seconds=LEASE_SECONDS)
    worker = start("worker", lease_seconds=LEASE_SECONDS)
    client = start.client(api)
    pay(client, tools, Behaviour(hold="gate"), Behaviour(), idempotent=True)
    async with mcp_client(api.url, client.key, generation) as mcp:
        calling = asyncio.create_task(mcp.call_tool("pay", {"x": "1"}))
        await asyncio.to_thread(tools.wait_for, "pay")
        worker.kill()
        start("worker", lease_seconds=LEASE_SECONDS)
        result = await calling
    assert said(result) == "pay(1)"
    hits = tools.hits("pay")
    assert len({hit.webhook_id for hit in hits}) == 1
    assert len(client.tool_calls(run_of(result))) == 1


@both
async def test_a_call_whose_api_process_is_killed_is_asked_for_at_another(
    start: Processes, tools: ToolServer, generation: Generation
) -> None:
    api, other = start("api"), start("api")
    start("worker")
    client = start.client(other)
    pay(client, tools, Behaviour(hold="gate"))
    with pytest.raises((MCPError, ExceptionGroup, httpx2.TransportError)):
        async with (
            asyncio.timeout(PATIENCE_SECONDS),
            mcp_client(api.url, client.key, generation) as mcp,
        ):
            calling = asyncio.create_task(mcp.call_tool("pay", {"x": "1"}))
            await asyncio.to_thread(tools.wait_for, "pay")
            api.kill()
            await calling
    run = open_run(client)
    tools.hold("gate").release()
    async with mcp_client(other.url, client.key, generation) as mcp:
        result = await mcp.call_tool("runward_result", {"run_id": run["id"]})
    assert said(result) == "pay(1)"
    assert len(tools.hits("pay")) == 1


async def test_any_api_process_serves_any_request(start: Processes, tools: ToolServer) -> None:
    """The requests of one session reach different processes: a list, a call, a cancellation. After
    the process that started a task is killed, another process returns the task's result."""
    first, second = start("api"), start("api")
    start("worker")
    client = start.client(first)
    pay(client, tools, approval="always")
    key = {"Authorization": f"Bearer {client.key}"}
    accept = {"Accept": "application/json, text/event-stream"}
    async with httpx2.AsyncClient(
        headers=key | accept, timeout=PATIENCE_SECONDS, trust_env=False
    ) as http:
        opened = await http.post(f"{first.url}/mcp", json=INITIALIZE)
        http.headers["Mcp-Session-Id"] = opened.headers["Mcp-Session-Id"]
        http.headers["Mcp-Protocol-Version"] = "2025-11-25"
        listed = await http.post(f"{second.url}/mcp", json=message("tools/list", 2))
        assert '"pay"' in listed.text
        asked = message("tools/call", 3, name="pay", arguments={"x": "1"})
        calling = asyncio.create_task(http.post(f"{second.url}/mcp", json=asked))
        approval = await asyncio.to_thread(eventually, client.approvals)
        cancelled = {"requestId": 3, "reason": "enough"}
        told = await http.post(
            f"{first.url}/mcp", json=message("notifications/cancelled", None, **cancelled)
        )
        assert told.status_code == 202
        answer = await calling
        assert tools.hits("pay") == []
        asked = message("tools/call", 4, name="pay", arguments={"x": "2"}, task={})
        created = await http.post(f"{second.url}/mcp", json=asked)
        second.kill()
        waiting = await asyncio.to_thread(eventually, client.approvals)
        assert waiting["run_id"] in created.text
        client.decide(waiting["id"], "approve")
        result = message("tasks/result", 5, taskId=waiting["run_id"])
        done = await http.post(f"{first.url}/mcp", json=result)
    assert client.get_run(approval["run_id"])["status"] == "cancelled"
    assert "The run ended with status cancelled" in answer.text
    assert "pay(2)" in done.text
    assert len(tools.hits("pay")) == 1


INITIALIZE: Json = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "raw", "version": "1"},
    },
}


def message(method: str, id_: int | None, **params: Any) -> Json:
    numbered = {} if id_ is None else {"id": id_}
    return {"jsonrpc": "2.0", **numbered, "method": method, "params": params}


# -- waiting --------------------------------------------------------------------------------------


@both
async def test_a_call_that_waits_too_long_answers_that_its_run_goes_on(
    start: Processes, tools: ToolServer, generation: Generation
) -> None:
    service = start("serve", env={"RUNWARD_MCP_WAIT_SECONDS": "1"})
    client = start.client(service)
    schema: Json = {
        "type": "object",
        "properties": {"paid": {"type": "boolean"}},
        "required": ["paid"],
    }
    answer = Behaviour("return", value={"paid": True})
    pay(client, tools, answer, approval="always", output_schema=schema)
    async with mcp_client(service.url, client.key, generation) as mcp:
        await mcp.list_tools()  # the client knows the schema now, and checks what comes
        waiting = await mcp.call_tool("pay", {"x": "1"})
        [approval] = client.approvals()
        client.decide(approval["id"], "approve")
        client.settle(run_of(waiting))
        result = await mcp.call_tool("runward_result", {"run_id": run_of(waiting)})
    assert not waiting.is_error
    assert waiting.structured_content["runward"]["run_id"] == run_of(waiting)
    assert approval["id"] in said(waiting)
    assert result.structured_content == {"paid": True}


@both
async def test_sigterm_answers_open_calls_ends_streams_and_cancels_nothing(
    start: Processes, tools: ToolServer, generation: Generation
) -> None:
    service = start("serve")
    client = start.client(service)
    pay(client, tools, approval="always")
    async with mcp_client(service.url, client.key, generation) as mcp:
        await mcp.list_tools()  # else it would do so when it has the result
        calling = asyncio.create_task(mcp.call_tool("pay", {"x": "1"}))
        approval = await asyncio.to_thread(eventually, client.approvals)
        service.ask_to_stop()
        result = await calling
        assert "has not ended" in said(result)
        assert run_of(result) == approval["run_id"]
    assert await asyncio.to_thread(service.process.wait, PATIENCE_SECONDS) == 0
    after = start("serve")
    there = start.client(after)
    assert there.get_run(approval["run_id"])["status"] == "requires_action"


def test_without_the_extra_the_answer_names_it(start: Processes, tmp_path: Path) -> None:
    hiding = tmp_path / "sitecustomize.py"
    hiding.write_text("import sys\nsys.modules['mcp'] = None\n")
    service = start("api", env={"PYTHONPATH": str(tmp_path)})
    client = start.client(service)
    answer = client.request("POST", "/mcp", message("tools/list", 1))
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert "the extra `runward[mcp]`" in answer.json()["detail"]
