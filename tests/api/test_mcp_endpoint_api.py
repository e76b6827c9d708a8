"""/mcp, asked by the MCP SDK's own client in both generations of the protocol: every call is a run,
with all that holds for runs."""

import asyncio
import base64
import itertools
import json
from collections.abc import AsyncGenerator, AsyncIterable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.types import CallToolResult

from tests.api.project import PATIENCE_SECONDS, CheckedClient, Project, call, of_type, types_of
from tests.support.mcp.client import BOTH, Generation, mcp_client, run_of, said
from tests.support.mcp.server import McpServer
from tests.support.models.chat_server import calls, text
from tests.support.services.client import NO_TLS, Json
from tests.support.tools.server import Behaviour

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\nno real picture").decode()
NO_ARGUMENTS: Json = {"type": "object", "properties": {}, "additionalProperties": False}
COUNT: Json = {
    "type": "object",
    "properties": {"count": {"$ref": "#/$defs/number"}},
    "required": ["count"],
    "additionalProperties": False,
    "$defs": {"number": {"type": "integer"}},
}

both = pytest.mark.parametrize("generation", BOTH)


def connected(
    project: Project, generation: Generation = "2026", **how: Any
) -> AbstractAsyncContextManager[Client]:
    return mcp_client(project.client.url, project.client.key, generation, **how)


class Heard:
    """The progress of one call; `until` waits for a message with a word in it."""

    def __init__(self) -> None:
        self.counts: list[float] = []
        self.messages: list[str] = []
        self._changed = asyncio.Condition()

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        assert total is None
        async with self._changed:
            self.counts.append(progress)
            self.messages.append(str(message))
            self._changed.notify_all()

    async def until(self, word: str) -> str:
        async with asyncio.timeout(PATIENCE_SECONDS), self._changed:
            await self._changed.wait_for(lambda: any(word in one for one in self.messages))
        return next(one for one in self.messages if word in one)


@asynccontextmanager
async def calling(
    client: Client, name: str, arguments: Json
) -> AsyncGenerator[tuple[asyncio.Task[CallToolResult], Heard]]:
    """A call in the background, and what is heard of it."""
    heard = Heard()
    task = asyncio.create_task(client.call_tool(name, arguments, progress_callback=heard))
    try:
        yield task, heard
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def decided(project: Project, heard: Heard, decision: str, **fields: Any) -> Json:
    """The approval that the call asks for, and the decision about it."""
    asked = await heard.until("waiting for a person")
    [approval] = project.client.approvals()
    assert approval["id"] in asked
    assert f"'{approval['tool']}'" in asked
    assert f"/v1/approvals/{approval['id']}/decision" in asked
    return project.client.decide(approval["id"], decision, **fields)


def runs_of(project: Project) -> list[Json]:
    return project.client.call("GET", "/v1/runs")["data"]


# -- what is listed -------------------------------------------------------------------------------


@both
async def test_tools_that_runward_can_run_and_agents_are_listed_by_name(
    project: Project, generation: Generation
) -> None:
    project.tool("pay", approval="always", idempotent=True)
    project.tool("Zebra", output_schema=COUNT)
    project.tool("off", enabled=False)
    project.tool("sometimes", enabled={"when": "false"}, approval={"when": "true"})
    project.client.call(
        "POST", "/v1/tools", {"name": "measure", "type": "client", "parameters": NO_ARGUMENTS}
    )
    agent = {"model": "offline:rules", "description": "Pays.", "output_schema": COUNT}
    project.client.call("POST", "/v1/agents", {"name": "clerk", **agent})
    project.client.call("POST", "/v1/agents", {"name": "pair", "model": "offline:rules"})
    project.tool("agent_pair")
    async with connected(project, generation) as client:
        listed = (await client.list_tools()).tools
    tools = {tool.name: tool for tool in listed}
    names = ["Zebra", "agent_clerk", "agent_pair", "pay", "runward_result", "sometimes"]
    assert [tool.name for tool in listed] == names
    pay = tools["pay"]
    assert pay.description == "The tool pay."
    assert pay.input_schema == project.client.call("GET", "/v1/tools/pay")["parameters"]
    assert pay.output_schema is None
    assert pay.annotations is not None
    assert pay.annotations.idempotent_hint is True
    assert pay.meta == {"runward/type": "webhook", "runward/approval": "always"}
    assert tools["Zebra"].annotations is None
    assert tools["sometimes"].meta == {"runward/type": "webhook", "runward/approval": "rule"}
    assert tools["agent_pair"].meta == {"runward/type": "webhook", "runward/approval": "never"}
    wait = tools["runward_result"].input_schema["properties"]["wait_seconds"]
    assert (wait["maximum"], wait["default"]) == (300, 300)
    clerk = tools["agent_clerk"]
    assert clerk.meta == {"runward/type": "agent", "runward/agent": "clerk"}
    assert clerk.description == "Pays."
    assert clerk.input_schema["required"] == ["input"]
    for declared in (clerk.output_schema, tools["Zebra"].output_schema):
        assert declared is not None
        assert declared["$defs"] == COUNT["$defs"]
        assert declared["anyOf"][0]["properties"] == COUNT["properties"]


async def test_a_long_list_comes_in_pages(project: Project) -> None:
    names = [f"t{number:03}" for number in range(101)]
    for name in names:
        project.tool(name)
    async with connected(project) as client:
        first = await client.list_tools()
        rest = await client.list_tools(cursor=first.next_cursor)
        with pytest.raises(MCPError, match="cursor"):
            await client.list_tools(cursor="nönsense")
    assert len(first.tools) == 100
    assert rest.next_cursor is None
    assert [tool.name for tool in (*first.tools, *rest.tools)] == ["runward_result", *names]


async def test_tools_of_mcp_servers_keep_their_annotations_and_their_content(
    project: Project,
) -> None:
    with McpServer() as server:
        body = {"name": "box", "url": server.url, "approval": "never"}
        project.client.call("POST", "/v1/mcp_servers", body)
        async with connected(project) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            added = await client.call_tool("box_add", {"a": 2, "b": 3})
            drawn = await client.call_tool("box_picture", {})
            failed = await client.call_tool("box_fail", {})
    annotations = tools["box_add"].annotations
    assert annotations is not None
    assert annotations.read_only_hint is True
    assert added.structured_content == {"sum": 5}
    assert [block.type for block in drawn.content] == ["image"]
    assert failed.is_error
    assert "The till is closed." in said(failed)


@pytest.mark.parametrize(
    "about",
    [
        {"title": 5},
        {"annotations": {"readOnlyHint": "yes", "title": ["x"], "openWorldHint": None}},
        {"annotations": "none"},
        "nothing",
    ],
)
async def test_no_metadata_of_one_tool_breaks_the_list_of_all(project: Project, about: Any) -> None:
    with McpServer() as server:
        body = {"name": "box", "url": server.url, "approval": "never"}
        project.client.call("POST", "/v1/mcp_servers", body)
        project.client.call("PATCH", "/v1/tools/box_add", {"metadata": {"mcp": about}})
        async with connected(project) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert tools["box_add"].title is None
    assert tools["box_echo"].title is None


async def test_a_client_of_2026_hears_that_the_list_has_changed(project: Project) -> None:
    async with connected(project) as client:
        assert client.server_capabilities.tools is not None
        assert client.server_capabilities.tools.list_changed is True
        async with (
            asyncio.timeout(PATIENCE_SECONDS),
            client.listen(tools_list_changed=True, prompts_list_changed=True) as events,
        ):
            project.tool("pay")
            assert type(await anext(aiter(events))).__name__ == "ToolsListChanged"
            project.client.call("DELETE", "/v1/tools/pay")
            await anext(aiter(events))


async def test_a_stream_of_a_revoked_key_ends_at_a_change_soon_after(project: Project) -> None:
    """A key is checked again before a change is reported, unless it was checked a moment ago."""
    made = project.new_key("runs:read")
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        mcp_client(project.client.url, made["key"], "2026") as client,
        client.listen(tools_list_changed=True) as events,
    ):
        listening = asyncio.create_task(last_of(events))
        project.key("admin").call("DELETE", f"/v1/keys/{made['id']}")
        for number in itertools.count():
            project.tool(f"pay_{number}")
            await asyncio.wait([listening], timeout=0.1)
            if listening.done():
                break
    assert project.client_of(made["key"]).request("GET", "/v1/runs").status_code == 401


async def last_of(events: AsyncIterable[object]) -> object:
    """Return the last event of a stream that ends."""
    last = None
    async for event in events:
        last = event
    return last


def test_the_stream_of_2025_says_that_the_list_has_changed(
    project: Project, other: Project
) -> None:
    with project.client.streaming("GET", "/mcp", Accept="text/event-stream") as response:
        lines = response.iter_lines()
        assert next(lines) == ": listening"
        other.tool("theirs")
        agent = {"name": "clerk", "model": "offline:rules"}
        project.client.call("POST", "/v1/agents", agent)
        line = next(line for line in lines if line.startswith("data: "))
    said_ = json.loads(line.removeprefix("data: "))
    assert said_ == {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


async def test_a_client_of_2025_hears_it_once_it_listens(project: Project) -> None:
    changed = asyncio.Event()

    async def heard(message: Any) -> None:
        if getattr(message, "method", None) == "notifications/tools/list_changed":
            changed.set()

    async with connected(project, "2025", heard=heard) as client:
        assert client.server_capabilities.tools is not None
        assert client.server_capabilities.tools.list_changed is True
        project.tool("pay")
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not changed.is_set():  # nobody is told when it has begun to listen
                project.client.call("PATCH", "/v1/tools/pay", {"description": "Pays."})
                await asyncio.wait([asyncio.ensure_future(changed.wait())], timeout=0.2)


# -- what a call is -------------------------------------------------------------------------------


@both
async def test_a_call_is_a_run_with_one_call_in_its_ledger(
    project: Project, generation: Generation
) -> None:
    project.tool("pay")
    async with (
        connected(project, generation) as client,
        calling(client, "pay", {"x": "1"}) as (task, heard),
    ):
        result = await task
    assert not result.is_error
    assert said(result) == "pay(1)"
    assert result.structured_content is None
    run = project.client.get_run(run_of(result))
    assert (run["status"], run["output"]) == ("completed", "pay(1)")
    assert (run["agent"], run["model"], run["turn"]) == (None, None, 1)
    assert run["created_by"]["name"] == "test"
    assert run["metadata"]["mcp_client"] == "test-client/7.1"
    assert run["usage"]["total_tokens"] == 0
    [one] = project.client.tool_calls(run["id"])
    assert (one["tool"], one["arguments"], one["outcome"]) == ("pay", {"x": "1"}, "completed")
    assert [hit.run_id for hit in project.hits("pay")] == [run["id"]]
    assert types_of(project.client.events(run["id"]))[-1] == "run.completed"
    assert heard.counts == sorted(set(heard.counts))
    assert run["id"] in heard.messages[0]


@both
async def test_results_come_as_text_objects_images_audio_files_and_links(
    project: Project, generation: Generation
) -> None:
    content = [
        {"type": "text", "text": "Look:"},
        {"type": "image", "data": PNG, "media_type": "image/png"},
        {"type": "file", "data": PNG, "media_type": "audio/wav"},
        {"type": "file", "data": PNG, "media_type": "application/pdf", "filename": "a b.pdf"},
        {"type": "file", "url": "https://files.example/dir/c.csv?x=1"},
    ]
    project.tool("mixed", Behaviour("return", value={"content": content}))
    project.tool("object", Behaviour("return", value={"a": [None, 1]}))
    project.tool("list", Behaviour("return", value=[1, None]))
    async with connected(project, generation) as client:
        mixed = await client.call_tool("mixed", {"x": "1"})
        plain = await client.call_tool("object", {"x": "1"})
        several = await client.call_tool("list", {"x": "1"})
    shown = [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in
             mixed.content]  # fmt: skip
    assert shown[:3] == [
        {"type": "text", "text": "Look:"},
        {"type": "image", "data": PNG, "mimeType": "image/png"},
        {"type": "audio", "data": PNG, "mimeType": "audio/wav"},
    ]
    resource = shown[3]["resource"]
    assert (shown[3]["type"], resource["blob"]) == ("resource", PNG)
    assert resource["uri"] == f"runward://runs/{run_of(mixed)}/files/4/a%20b.pdf"
    assert resource["mimeType"] == "application/pdf"
    link = {"type": "resource_link", "uri": "https://files.example/dir/c.csv?x=1", "name": "c.csv"}
    assert shown[4] == link
    assert plain.structured_content == {"a": [None, 1]}
    assert json.loads(said(plain)) == {"a": [None, 1]}
    assert several.structured_content is None
    assert json.loads(said(several)) == [1, None]


@both
async def test_a_call_that_fails_is_an_error_with_the_text_that_a_model_would_read(
    project: Project, generation: Generation
) -> None:
    project.tool("pay", Behaviour("is_error", message="The till is closed."))
    project.tool("strict", Behaviour("is_error", message="Broken."), on_error="fail_run")
    async with connected(project, generation) as client:
        failed = await client.call_tool("pay", {"x": "1"})
        ended = await client.call_tool("strict", {"x": "1"})
    for result, words in ((failed, "The till is closed."), (ended, "Broken.")):
        run = project.client.get_run(run_of(result))
        [one] = project.client.tool_calls(run["id"])
        assert run["status"] == "failed"
        assert result.is_error
        assert words in said(result)
        assert said(result) == one["output"]
    assert project.client.get_run(run_of(failed))["error"]["code"] == "step_failed"


@both
async def test_arguments_that_do_not_fit_are_an_error_and_no_run(
    project: Project, generation: Generation
) -> None:
    project.tool("pay", approval="always")
    project.client.call("POST", "/v1/agents", {"name": "clerk", "model": "offline:rules"})
    async with connected(project, generation) as client:
        tool = await client.call_tool("pay", {"y": 1})
        agent = await client.call_tool("agent_clerk", {})
        later = await client.call_tool("runward_result", {"run_id": 7})
        with pytest.raises(MCPError, match="Unknown tool: nothing") as unknown:
            await client.call_tool("nothing", {})
    assert unknown.value.code == -32602
    assert tool.is_error
    assert "arguments.x" in said(tool)
    assert agent.is_error
    assert "arguments.input" in said(agent)
    assert later.is_error
    assert runs_of(project) == []


async def test_a_client_s_own_tool_and_one_of_another_project_are_unknown(
    project: Project, other: Project
) -> None:
    other.tool("theirs")
    body = {"name": "measure", "type": "client", "parameters": NO_ARGUMENTS}
    project.client.call("POST", "/v1/tools", body)
    async with connected(project) as client:
        listed = (await client.list_tools()).tools
        for name in ("theirs", "measure", "agent_x", "agent_", "n" * 200):
            with pytest.raises(MCPError, match="Unknown tool"):
                await client.call_tool(name, {"x": "1"})
    assert [tool.name for tool in listed] == ["runward_result"]


async def test_a_tool_that_a_rule_hides_is_not_called(project: Project) -> None:
    project.tool("pay", enabled={"when": "context.open"})
    async with connected(project) as client:
        closed = await client.call_tool(
            "pay", {"x": "1"}, meta={"runward/context": {"open": False}}
        )
        opened = await client.call_tool("pay", {"x": "1"}, meta={"runward/context": {"open": True}})
        with pytest.raises(MCPError, match="runward/context must be an object"):
            await client.call_tool("pay", {"x": "1"}, meta={"runward/context": "open"})
    assert closed.is_error
    assert "not found" in said(closed)
    assert said(opened) == "pay(1)"
    assert project.client.get_run(run_of(opened))["context"] == {"open": True}
    assert len(project.hits("pay")) == 1


async def test_a_large_result_comes_whole(project: Project) -> None:
    project.tool("big", Behaviour("huge", size=700_000), max_output_bytes=1000)
    async with connected(project) as client:
        result = await client.call_tool("big", {"x": "1"})
    [one] = project.client.tool_calls(run_of(result))
    assert len(said(result)) >= 700_000
    assert said(result) == one["output"]


async def test_guardrails_and_the_ledger_are_those_of_every_run(project: Project) -> None:
    """What a guardrail withholds does not reach the client by way of the ledger."""
    guard = project.tools.tool(
        project.tool_key("guard"), Behaviour("return", value={"action": "reject", "message": "No."})
    )
    project.tool("pay", guardrails=[{"stage": "input", "type": "webhook", "url": guard}])
    policy = {"guardrails": [{"stage": "run_output", "type": "webhook", "url": guard}]}
    async with connected(project) as client:
        before = await client.call_tool("pay", {"x": "1"})
        project.tool("free")
        project.client.call("PUT", "/v1/policy", policy)
        after = await client.call_tool("free", {"x": "1"})
    assert before.is_error
    assert said(before) == "No."
    assert project.hits("pay") == []
    assert project.client.get_run(run_of(after))["status"] == "incomplete"
    assert after.is_error
    assert "free(1)" not in str(after)
    assert "No." in said(after)


# -- people ---------------------------------------------------------------------------------------


@both
async def test_a_call_waits_for_a_person_who_changes_its_arguments(
    project: Project, generation: Generation
) -> None:
    project.tool("pay", approval="always")
    async with (
        connected(project, generation) as client,
        calling(client, "pay", {"x": "1"}) as (task, heard),
    ):
        await decided(project, heard, "edit", arguments={"x": "2"})
        result = await task
    assert said(result) == "pay(2)"
    [hit] = project.hits("pay")
    assert hit.body["arguments"] == {"x": "2"}
    assert heard.counts == sorted(set(heard.counts))


@both
async def test_a_rejected_call_is_an_error_with_the_person_s_words_and_never_sent(
    project: Project, generation: Generation
) -> None:
    project.tool("pay", approval={"when": "args.x == '1'"}, output_schema=COUNT)
    async with (
        connected(project, generation) as client,
        calling(client, "pay", {"x": "1"}) as (task, heard),
    ):
        await decided(project, heard, "reject", message="Not today.")
        result = await task
    assert result.is_error
    assert said(result) == "Not today."
    assert project.hits("pay") == []
    assert project.client.get_run(run_of(result))["status"] == "failed"


async def test_a_person_s_own_answer_fits_what_was_declared(project: Project) -> None:
    project.tool("count", approval="always", output_schema=COUNT)
    async with connected(project) as client:
        await client.list_tools()  # from now on the client checks results
        async with calling(client, "count", {"x": "1"}) as (task, heard):
            await decided(project, heard, "respond", output="about three")
            result = await task
    assert said(result) == "about three"
    assert result.structured_content["runward"]["output"] == "about three"


@both
async def test_a_run_that_goes_on_says_what_it_waits_for_and_is_asked_for_later(
    project: Project, generation: Generation
) -> None:
    project.tool("count", Behaviour("return", value={"count": 3}), approval="always")
    key = project.key("runs:write")
    async with connected(project, generation) as client:
        async with calling(client, "count", {"x": "1"}) as (_, heard):
            await heard.until("waiting for a person")
            [run] = runs_of(project)
            look = {"run_id": run["id"], "wait_seconds": 0}
            waiting = await client.call_tool("runward_result", look)
        # The call was given up, which cancels its run; another one is left to itself.
        await asyncio.to_thread(project.end, run)
        run = project.client.call(
            "POST", "/v1/runs", {"model": project.script(calls(call(1, "count")), text("done")),
                                 "input": "go", "tools": ["count"]}
        )  # fmt: skip
        project.settle(run)
        [approval] = project.client.approvals(run_id=run["id"])
        project.client.decide(approval["id"], "approve")
        async with mcp_client(key.url, key.key, generation) as another:
            result = await another.call_tool("runward_result", {"run_id": run["id"]})
    assert not waiting.is_error
    shown = waiting.structured_content["runward"]
    assert shown["status"] == "requires_action"
    [asked] = shown["waiting_for"]
    assert asked["type"] == "approval"
    assert asked["approval_id"] in said(waiting)
    assert run_of(waiting) in said(waiting)
    assert "runward_result" in said(waiting)
    assert said(result) == "done"


async def test_elicitation_does_not_approve(project: Project) -> None:
    """A client that can ask its user is not asked: who decides is what an API key says."""
    project.tool("pay", approval="always")
    async with connected(project) as client, calling(client, "pay", {"x": "1"}) as (task, heard):
        await heard.until("waiting for a person")
        assert not task.done()
        weak = project.key("runs:write")
        [approval] = project.client.approvals()
        path = f"/v1/approvals/{approval['id']}/decision"
        weak.refused(403, "insufficient_scope", "POST", path, {"decision": "approve"})
        await decided(project, heard, "approve")
        assert said(await task) == "pay(1)"


# -- agents ---------------------------------------------------------------------------------------


@both
async def test_an_agent_is_a_tool_and_its_gated_call_is_heard_of(
    project: Project, generation: Generation
) -> None:
    project.tool("pay", approval="always")
    model = project.script(calls(call(1, "pay")), text("Paid."))
    agent = {"name": "clerk", "model": model, "tools": ["pay"]}
    project.client.call("POST", "/v1/agents", agent)
    session = project.client.call("POST", "/v1/sessions", {})
    async with connected(project, generation) as client:
        arguments = {"input": "Pay one.", "session_id": session["id"]}
        async with calling(client, "agent_clerk", arguments) as (task, heard):
            await decided(project, heard, "approve")
            result = await task
        unknown = await client.call_tool(
            "agent_clerk", {"input": "x", "session_id": "sess_" + "0" * 32}
        )
    assert said(result) == "Paid."
    run = project.client.get_run(run_of(result))
    assert (run["agent"], run["session_id"]) == ("clerk", session["id"])
    assert run["metadata"]["mcp_client"] == "test-client/7.1"
    assert unknown.is_error
    assert said(unknown) == "This project has no session with this ID."


async def test_an_agent_s_object_is_structured_content(project: Project) -> None:
    model = project.script(text('{"count": 3}'))
    agent = {"name": "counter", "model": model, "output_schema": COUNT}
    project.client.call("POST", "/v1/agents", agent)
    async with connected(project) as client:
        await client.list_tools()
        result = await client.call_tool("agent_counter", {"input": "Count."})
    assert result.structured_content == {"count": 3}


async def test_a_run_that_needs_the_client_of_the_rest_api_answers_at_once(
    project: Project,
) -> None:
    body = {"name": "measure", "type": "client", "parameters": NO_ARGUMENTS}
    project.client.call("POST", "/v1/tools", body)
    model = project.script(calls(call(1, "measure", "{}")), text("Warm."))
    agent = {"name": "nurse", "model": model, "tools": ["measure"]}
    project.client.call("POST", "/v1/agents", agent)
    async with connected(project) as client:
        waiting = await client.call_tool("agent_nurse", {"input": "How is it?"})
        run_id = run_of(waiting)
        assert "the result of 'measure'" in said(waiting)
        path = f"/v1/runs/{run_id}/tool_calls/c1/result"
        project.client.call("POST", path, {"output": 37})
        result = await client.call_tool("runward_result", {"run_id": run_id})
    assert said(result) == "Warm."


async def test_an_agent_tool_is_a_child_run_below_the_call_s_own(project: Project) -> None:
    project.client.call(
        "POST", "/v1/agents", {"name": "clerk", "model": project.script(text("Done."))}
    )
    project.client.call(
        "POST", "/v1/tools", {"name": "ask_clerk", "type": "agent", "agent": "clerk"}
    )
    async with connected(project) as client:
        result = await client.call_tool("ask_clerk", {"input": "Do."})
    assert said(result) == "Done."
    [child] = project.client.call("GET", "/v1/runs", parent_run_id=run_of(result))["data"]
    assert child["agent"] == "clerk"


# -- progress, cancelling, repeating --------------------------------------------------------------


@both
async def test_what_a_tool_says_of_its_progress_is_passed_on(
    project: Project, generation: Generation
) -> None:
    project.tool("slow", Behaviour("later"), timeout_seconds=600)
    async with (
        connected(project, generation) as client,
        calling(client, "slow", {"x": "1"}) as (task, heard),
    ):
        [hit] = await asyncio.to_thread(project.wait_for_hits, "slow")
        await heard.until("the callback of 'slow'")
        tell_back(hit.body, status="progress", progress=0.5, message="half way")
        await heard.until("50 %: half way")
        tell_back(hit.body, status="completed", output={"paid": True})
        result = await task
        [run] = runs_of(project)
        late = Heard()
        again = {"run_id": run["id"]}
        await client.call_tool("runward_result", again, progress_callback=late)
    assert result.structured_content == {"paid": True}
    assert heard.counts == sorted(set(heard.counts))
    # Also what was said before a run's end that came between two looks at it.
    assert "50 %: half way" in late.messages


def tell_back(body: Json, **what: Any) -> None:
    answer = httpx2.post(body["callback"]["url"], json=what, timeout=30, trust_env=False)
    assert answer.status_code == 200, answer.text


async def test_a_client_hears_regularly_that_a_silent_run_is_still_there(project: Project) -> None:
    project.tool("pay", approval="always")
    async with connected(project) as client, calling(client, "pay", {"x": "1"}) as (task, heard):
        still = await heard.until("has the status requires_action")
        await decided(project, heard, "approve")
        await task
    assert still.startswith("Run run_")


@both
async def test_a_call_that_its_client_cancels_cancels_the_run(
    project: Project, generation: Generation
) -> None:
    project.tool("pay", approval="always")
    async with connected(project, generation) as client:
        async with calling(client, "pay", {"x": "1"}) as (task, heard):
            await heard.until("waiting for a person")
            [run] = runs_of(project)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        ended = await asyncio.to_thread(project.end, run)
        result = await client.call_tool("runward_result", {"run_id": run["id"]})
    assert ended["status"] == "cancelled"
    assert project.client.approvals() == []
    assert result.is_error
    assert "cancelled" in said(result)
    assert project.hits("pay") == []


async def test_a_lost_connection_of_2025_cancels_nothing(project: Project) -> None:
    project.tool("pay", approval="always")
    body = request("tools/call", name="pay", arguments={"x": "1"}, _meta={"progressToken": 1})
    with project.client.streaming("POST", "/mcp", body, **ACCEPT) as response:
        lines = response.iter_lines()
        next(line for line in lines if "waiting for a person" in line)
    [run] = runs_of(project)
    async with connected(project, "2025") as client:
        look = {"run_id": run["id"], "wait_seconds": 0}
        assert "has not ended" in said(await client.call_tool("runward_result", look))
        [approval] = project.client.approvals()
        project.client.decide(approval["id"], "approve")
        result = await client.call_tool("runward_result", {"run_id": run["id"]})
    assert said(result) == "pay(1)"


@both
async def test_giving_up_a_look_at_a_result_cancels_nothing(
    project: Project, generation: Generation
) -> None:
    project.tool("pay", approval="always")
    body = {"model": project.script(calls(call(1, "pay")), text("done")), "tools": ["pay"]}
    run = project.run(**body)
    async with connected(project, generation) as client:
        async with calling(client, "runward_result", {"run_id": run["id"]}) as (task, heard):
            await heard.until("waiting for a person")
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await client.list_tools()
    assert project.client.get_run(run["id"])["status"] == "requires_action"


@both
async def test_a_repeated_call_with_its_key_is_one_run(
    project: Project, generation: Generation
) -> None:
    project.tool("pay")
    meta: Any = {"runward/idempotency_key": "order-1"}
    async with connected(project, generation) as client:
        first = await client.call_tool("pay", {"x": "1"}, meta=meta)
        second = await client.call_tool("pay", {"x": "1"}, meta=meta)
        other = await client.call_tool("pay", {"x": "2"}, meta=meta)
        with pytest.raises(MCPError, match="visible ASCII"):
            await client.call_tool("pay", {"x": "1"}, meta={"runward/idempotency_key": "a b"})
    assert run_of(first) == run_of(second)
    assert said(second) == "pay(1)"
    assert other.is_error
    assert "Idempotency-Key was already used" in said(other)
    assert len(project.hits("pay")) == 1


async def test_a_call_whose_outcome_is_unknown_waits_for_someone_to_settle_it(
    project: Project,
) -> None:
    project.tool("pay", Behaviour("reset"), on_unknown="ask")
    async with connected(project) as client, calling(client, "pay", {"x": "1"}) as (task, heard):
        await heard.until("/tool_calls/call_1/resolve")
        [run] = runs_of(project)
        project.client.resolve(run["id"], "call_1", resolution="completed", output="paid")
        assert said(await task) == "paid"


# -- who may --------------------------------------------------------------------------------------

ACCEPT = {"Accept": "application/json, text/event-stream"}


def request(method: str, **params: Any) -> Json:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def post(client: CheckedClient, message: Json, **headers: str) -> httpx2.Response:
    """Names of headers: `_` for `-`."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx2.post(
        f"{client.url}/mcp",
        json=message,
        headers={**ACCEPT, "Authorization": f"Bearer {client.key}", **sent},
        timeout=30,
        trust_env=False,
    )


async def test_a_run_of_another_project_is_unknown(project: Project, other: Project) -> None:
    other.tool("pay")
    async with connected(other) as client:
        run_id = run_of(await client.call_tool("pay", {"x": "1"}))
    async with connected(project) as client:
        theirs = await client.call_tool("runward_result", {"run_id": run_id})
        none = await client.call_tool("runward_result", {"run_id": "run_" + "0" * 32})
        nonsense = await client.call_tool("runward_result", {"run_id": "x"})
    assert theirs == none == nonsense
    assert said(theirs) == "This project has no run with this ID."


async def test_another_key_s_cancellation_does_not_reach_a_run(project: Project) -> None:
    """Requests are numbered by clients alike: 1, 2, 3."""
    project.tool("pay", approval="always")
    opened = post(project.client, initialize())
    session = {"Mcp_Session_Id": opened.headers["Mcp-Session-Id"]}
    body = request("tools/call", name="pay", arguments={"x": "1"}, _meta={"progressToken": 1})
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    weak = project.key("runs:write")
    streamed = project.client.streaming("POST", "/mcp", body, **ACCEPT, **session)
    with streamed as response:
        next(line for line in response.iter_lines() if "waiting for a person" in line)
    [run] = runs_of(project)
    for client, sent in ((weak, session), (project.client, {})):
        done = post(client, cancelled, **sent)
        assert done.status_code == 202
        assert project.client.get_run(run["id"])["status"] == "requires_action"
    post(project.client, cancelled, **session)
    assert project.client.get_run(run["id"])["status"] == "cancelled"


def initialize() -> Json:
    info = {"name": "raw", "version": "1"}
    return request("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=info)


def test_calls_need_runs_write_and_the_list_any_of_the_two(project: Project) -> None:
    project.tool("pay")
    call_ = request("tools/call", name="pay", arguments={"x": "1"})
    reader, decider = project.key("runs:read"), project.key("approvals:decide")
    for key in (reader, project.key("runs:write")):
        listed = post(key, request("tools/list"))
        assert listed.status_code == 200
        assert '"pay"' in listed.text
    refused = post(reader, call_)
    assert refused.status_code == 403
    assert refused.json()["code"] == "insufficient_scope"
    assert 'scope="runs:write"' in refused.headers["WWW-Authenticate"]
    assert post(decider, request("tools/list")).status_code == 403
    assert runs_of(project) == []


def test_without_a_key_the_answer_is_401_and_names_the_scheme(project: Project) -> None:
    url = f"{project.client.url}/mcp"
    answer = httpx2.post(url, json=request("tools/list"), headers=ACCEPT, trust_env=False)
    assert answer.status_code == 401
    place = f"{project.client.url}/.well-known/oauth-protected-resource/mcp"
    challenge = answer.headers["WWW-Authenticate"]
    assert challenge == f'Bearer realm="runward", resource_metadata="{place}"'
    about = httpx2.get(place, trust_env=False).json()
    assert about["resource"] == url
    assert "runs:write" in about["scopes_supported"]
    wrong = {**ACCEPT, "Authorization": "Bearer rw_wrong"}
    answer = httpx2.post(url, json=request("tools/list"), headers=wrong, trust_env=False)
    assert answer.status_code == 401
    assert answer.headers["X-Request-Id"]


def test_requests_of_other_sites_pages_are_refused(project: Project) -> None:
    own = httpx2.URL(project.client.url)
    sent: list[tuple[str, str, int]] = [
        (f"http://{own.netloc.decode()}", own.netloc.decode(), 200),
        ("http://localhost:9", "localhost:9", 200),
        ("http://evil.example", own.netloc.decode(), 403),
        ("http://evil.example", "evil.example", 400),
        ("null", own.netloc.decode(), 403),
        ("http://[", own.netloc.decode(), 403),
    ]
    for origin, host, status in sent:
        answer = post(project.client, request("ping"), Origin=origin, Host=host)
        assert answer.status_code == status, (origin, host, answer.text)


def test_what_is_no_request_is_refused_as_the_protocol_says(project: Project) -> None:
    client = project.client
    headers = {**ACCEPT, "Authorization": f"Bearer {client.key}"}
    with httpx2.Client(
        base_url=client.url, headers=headers, trust_env=False, verify=NO_TLS
    ) as http:
        typed = {"Content-Type": "application/json"}
        for body in (b"{", b'{"a":1,"a":2}', b'{"a":NaN}'):
            answer = http.post("/mcp", content=body, headers=typed)
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32700)
        answer = http.post("/mcp", content=b" " * 1_100_000, headers=typed)
        assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")
        assert http.post("/mcp", content=b"[]", headers=typed).status_code == 400
        assert (
            http.post("/mcp", content=b"x", headers={"Content-Type": "text/plain"}).status_code
            == 415
        )
        assert http.put("/mcp", json={}).status_code == 405
        assert http.post("/mcp/", json=request("ping")).status_code == 404
        assert http.get("/mcp", headers={"Accept": "text/html"}).status_code == 406
        assert http.delete("/mcp").status_code == 405
        unknown = http.post("/mcp", json=request("runs/list"))
        assert "Method not found" in unknown.text


def test_waiting_calls_are_streams_of_the_key(project: Project) -> None:
    project.tool("pay")
    listening: list[Iterator[str]] = []
    with ExitStack() as open_streams:
        for _ in range(20):
            streamed = project.client.streaming("GET", "/mcp", Accept="text/event-stream")
            listening.append(open_streams.enter_context(streamed).iter_lines())
            assert next(listening[-1]) == ": listening"
        call_ = request("tools/call", name="pay", arguments={"x": "1"})
        refused = post(project.client, call_)
        assert (refused.status_code, refused.json()["code"]) == (429, "too_many_requests")
        assert refused.headers["Retry-After"]
    assert runs_of(project) == []


def test_nobody_asks_for_a_run_of_one_call_in_other_words(project: Project) -> None:
    project.tool("pay")
    body = {"kind": "call", "tools": ["pay"], "input": '{"x":"1"}'}
    project.client.refused(422, "invalid_request", "POST", "/v1/runs", body)
    agent = {"name": "caller", "kind": "call", "tools": ["pay"]}
    project.client.refused(422, "invalid_request", "POST", "/v1/agents", agent)


async def test_events_of_a_call_are_those_of_a_workflow_s_step(project: Project) -> None:
    project.tool("pay")
    async with connected(project) as client:
        result = await client.call_tool("pay", {"x": "1"})
    events = project.client.events(run_of(result))
    assert types_of(events) == [
        "run.created",
        "run.started",
        "tool_call.created",
        "usage.updated",
        "tool_call.started",
        "tool_call.completed",
        "run.completed",
    ]
    assert of_type(events, "run.created")[0]["tools"] == ["pay"]
