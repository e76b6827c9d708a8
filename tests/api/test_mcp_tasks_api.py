"""Tasks of /mcp are runs, in both generations of the protocol."""

import asyncio
import json
import subprocess
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import httpx2
import pytest
from mcp import MCPError
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.types import CallToolResult, Request, RequestParams, Result
from mcp_types import (
    CancelTaskRequest,
    CancelTaskRequestParams,
    CancelTaskResult,
    GetTaskPayloadRequest,
    GetTaskPayloadRequestParams,
    GetTaskRequest,
    GetTaskRequestParams,
    GetTaskResult,
    ListTasksRequest,
    ListTasksResult,
)
from pydantic import ConfigDict
from pydantic.alias_generators import to_camel

from tests.api.project import PATIENCE_SECONDS, CheckedClient, Project, call
from tests.api.test_mcp_elicitation_api import AMOUNT, ASK, User, accept
from tests.api.test_mcp_endpoint_api import ACCEPT, connected, initialize, post, request, runs_of
from tests.api.test_tools_api import call_back
from tests.support.mcp.client import run_of, said
from tests.support.models.chat_server import calls, text
from tests.support.programs import node_package, node_script
from tests.support.services.client import TERMINAL, Json
from tests.support.tools.server import Behaviour

RELATED = "io.modelcontextprotocol/related-task"
TASKS = "io.modelcontextprotocol/tasks"


# -- protocol 2025 --------------------------------------------------------------------------------


def answer_of(response: httpx2.Response) -> Json:
    """Return the JSON-RPC response of a stream."""
    assert response.status_code == 200, response.text
    data = [line for line in response.text.splitlines() if line.startswith("data: ")]
    return json.loads(data[-1].removeprefix("data: "))


def start_task(client: CheckedClient, name: str, arguments: Json, task: Json | None = None) -> Json:
    body = request("tools/call", name=name, arguments=arguments, task=task or {})
    return answer_of(post(client, body, MCP_Protocol_Version="2025-11-25"))


def started(client: CheckedClient, name: str, arguments: Json) -> str:
    task = start_task(client, name, arguments)["result"]["task"]
    assert task["status"] in {"working", "completed"}
    return task["taskId"]


def ask_2025(client: CheckedClient, method: str, task_id: str, **headers: str) -> Json:
    version = {"MCP_Protocol_Version": "2025-11-25"}
    return answer_of(post(client, request(method, taskId=task_id), **version, **headers))


async def test_the_endpoint_of_2025_declares_tasks_and_each_tool_but_one_supports_them(
    project: Project,
) -> None:
    project.tool("pay")
    project.client.call("POST", "/v1/agents", {"name": "clerk", "model": "offline:rules"})
    async with connected(project, "2025") as client:
        tasks = client.server_capabilities.tasks
        listed = {tool.name: tool.execution for tool in (await client.list_tools()).tools}
    assert tasks is not None
    assert tasks.model_dump(exclude_none=True) == {
        "list": {},
        "cancel": {},
        "requests": {"tools": {"call": {}}},
    }
    supports = {name: one and one.task_support for name, one in listed.items()}
    assert supports == {"agent_clerk": "optional", "pay": "optional", "runward_result": None}


async def test_a_task_of_2025_is_a_run_whose_result_is_that_of_the_call(project: Project) -> None:
    project.tool("pay", Behaviour(hold="task_of_2025"))
    created = start_task(project.client, "pay", {"x": "1"}, {"ttl": 1000})["result"]["task"]
    run_id = created["taskId"]
    run = project.client.get_run(run_id)
    assert created["createdAt"] == run["created_at"]
    assert created["lastUpdatedAt"] >= created["createdAt"]
    assert (created["ttl"], created["pollInterval"]) == (None, 1000)
    async with connected(project, "2025") as client:
        get = GetTaskRequest(params=GetTaskRequestParams(task_id=run_id))
        working = await client.session.send_request(get, GetTaskResult)
        assert (working.status, working.task_id) == ("working", run_id)
        payload = GetTaskPayloadRequest(params=GetTaskPayloadRequestParams(task_id=run_id))
        waiting = asyncio.create_task(client.session.send_request(payload, CallToolResult))
        project.running.tools.hold("task_of_2025").release()
        result = await waiting
        done = await client.session.send_request(get, GetTaskResult)
        listed = await client.session.send_request(ListTasksRequest(), ListTasksResult)
    assert said(result) == "pay(1)"
    assert result.meta is not None
    assert result.meta[RELATED] == {"taskId": run_id}
    assert result.meta["runward/run_id"] == run_id
    assert done.status == "completed"
    assert [task.task_id for task in listed.tasks] == [run_id]
    assert listed.tasks[0].model_dump() == done.model_dump(
        include=set(type(listed.tasks[0]).model_fields)
    )


async def test_a_task_of_2025_that_is_cancelled_cancels_the_run(project: Project) -> None:
    project.tool("pay", approval="always")
    run_id = started(project.client, "pay", {"x": "1"})
    async with connected(project, "2025") as client:
        cancel = CancelTaskRequest(params=CancelTaskRequestParams(task_id=run_id))
        task = await client.session.send_request(cancel, CancelTaskResult)
        assert (task.status, task.status_message) == (
            "cancelled",
            "The run ended with status cancelled.",
        )
        assert project.client.get_run(run_id)["status"] == "cancelled"
        with pytest.raises(MCPError, match="already ended") as refused:
            await client.session.send_request(cancel, CancelTaskResult)
    assert refused.value.code == -32602
    assert ask_2025(project.client, "tasks/result", run_id)["result"]["isError"] is True


async def test_a_task_of_2025_that_fails_is_failed_and_its_result_is_the_error(
    project: Project,
) -> None:
    project.tool("pay", Behaviour("is_error", message="No funds."))
    run_id = started(project.client, "pay", {"x": "1"})
    result = ask_2025(project.client, "tasks/result", run_id)["result"]
    assert (result["isError"], result["content"][0]["text"]) == (True, "No funds.")
    task = ask_2025(project.client, "tasks/get", run_id)["result"]
    assert task["status"] == "failed"
    assert "step_failed" in task["statusMessage"] or "No funds." in task["statusMessage"]


async def test_a_task_of_2025_without_a_user_says_what_it_waits_for(project: Project) -> None:
    project.tool("pay", approval="always")
    run_id = started(project.client, "pay", {"x": "1"})
    project.client.settle(run_id, {"requires_action"})
    task = ask_2025(project.client, "tasks/get", run_id)["result"]
    [approval] = project.client.approvals()
    assert task["status"] == "working"
    assert f"approval {approval['id']}" in task["statusMessage"]
    assert task["lastUpdatedAt"] > task["createdAt"]


@contextmanager
def streamed(client: CheckedClient, body: Json, session: str) -> Generator[Iterator[Json]]:
    """Yield the messages of a stream."""
    headers = {**ACCEPT, "Mcp-Session-Id": session}
    with client.streaming("POST", "/mcp", body, **headers) as response:
        lines = (line for line in response.iter_lines() if line.startswith("data: {"))
        yield (json.loads(line.removeprefix("data: ")) for line in lines)


def test_the_result_of_a_task_of_2025_asks_the_user(project: Project) -> None:
    project.client.call("POST", "/v1/tools", ASK)
    about = initialize()
    about["params"]["capabilities"] = {"elicitation": {}}
    session = post(project.client, about).headers["Mcp-Session-Id"]
    body = request("tools/call", name="ask_address", arguments={"order": "A-1"}, task={})
    run_id = answer_of(post(project.client, body, Mcp_Session_Id=session))["result"]["task"][
        "taskId"
    ]
    project.client.settle(run_id, {"requires_action"})
    task = ask_2025(project.client, "tasks/get", run_id, Mcp_Session_Id=session)["result"]
    assert task["status"] == "input_required"
    with streamed(project.client, request("tasks/result", taskId=run_id), session) as messages:
        question = next(messages)
        assert question["method"] == "elicitation/create"
        assert question["params"]["_meta"] == {RELATED: {"taskId": run_id}}
        answer = {"action": "accept", "content": {"value": "Main Street 1"}}
        told = {"jsonrpc": "2.0", "id": question["id"], "result": answer}
        assert post(project.client, told, Mcp_Session_Id=session).status_code == 202
        result = next(messages)["result"]
    assert result["content"][0]["text"] == "Main Street 1"


def test_the_stream_of_a_result_reports_the_status_and_then_asks(project: Project) -> None:
    project.tool("work", Behaviour("later"), Behaviour("raw", value="done"))
    about = initialize()
    about["params"]["capabilities"] = {"elicitation": {}}
    session = post(project.client, about).headers["Mcp-Session-Id"]
    run_id = started(project.client, "work", {"x": "1"})
    [hit] = project.wait_for_hits("work")
    body = request("tasks/result", taskId=run_id, _meta={"progressToken": 1})
    with streamed(project.client, body, session) as messages:
        assert next(messages)["method"] == "notifications/progress"
        assert call_back(hit, status="input_required", requests="Which?").status_code == 200
        told = (one for one in messages if one["method"] != "notifications/progress")
        changed, question = next(told), next(told)
        assert changed["method"] == "notifications/tasks/status"
        assert changed["params"]["taskId"] == run_id
        assert changed["params"]["status"] == "input_required"
        assert question["params"]["message"] == "Which?"
        result = {"action": "accept", "content": {"value": "A"}}
        post(project.client, {"jsonrpc": "2.0", "id": question["id"], "result": result})
        last = next(one for one in messages if "result" in one)
    assert last["result"]["content"][0]["text"] == "done"


def test_what_cannot_become_a_task_of_2025_is_a_protocol_error_and_no_run(
    project: Project,
) -> None:
    project.tool("pay")
    for name, arguments, code in (
        ("nothing", {}, -32602),
        ("pay", {"y": 1}, -32602),
        ("runward_result", {"run_id": "run_1"}, -32601),
    ):
        assert start_task(project.client, name, arguments)["error"]["code"] == code
    assert runs_of(project) == []


def test_unknown_tasks_and_the_runs_of_others_are_not_found(
    project: Project, other: Project
) -> None:
    other.tool("pay")
    theirs = started(other.client, "pay", {"x": "1"})
    for method in ("tasks/get", "tasks/result", "tasks/cancel"):
        for task_id in (theirs, "run_" + "0" * 32, "nonsense"):
            error = ask_2025(project.client, method, task_id)["error"]
            assert error == {"code": -32602, "message": f"Task not found: {task_id}"}
    assert ask_2025(project.client, "tasks/update", theirs)["error"]["code"] == -32601


def test_a_child_run_is_no_task(project: Project) -> None:
    asking = call(1, "helper_tool", '{"input": "Hi"}')
    model = project.script(calls(asking), text("child"), text("done"))
    project.client.call("POST", "/v1/agents", {"name": "helper", "model": model})
    tool = {"name": "helper_tool", "type": "agent", "agent": "helper", "description": "Helps."}
    project.client.call("POST", "/v1/tools", tool)
    run = project.run(model=model, tools=["helper_tool"])
    project.client.settle(run["id"], TERMINAL)
    [child] = project.client.call("GET", "/v1/runs", parent_run_id=run["id"])["data"]
    assert ask_2025(project.client, "tasks/get", run["id"])["result"]["status"] == "completed"
    assert "not found" in ask_2025(project.client, "tasks/get", child["id"])["error"]["message"]


def test_only_keys_that_may_write_cancel_tasks(project: Project) -> None:
    project.tool("pay", approval="always")
    run_id = started(project.client, "pay", {"x": "1"})
    reader = project.key("runs:read")
    assert ask_2025(reader, "tasks/get", run_id)["result"]["taskId"] == run_id
    refused = post(reader, request("tasks/cancel", taskId=run_id))
    assert refused.status_code == 403
    assert project.client.get_run(run_id)["status"] != "cancelled"


# -- protocol 2026 --------------------------------------------------------------------------------


class TaskResult(Result):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow")
    result_type: Literal["task"] = "task"
    task_id: str
    status: str
    ttl_ms: int | None
    poll_interval_ms: int


class AnyResult(Result):
    model_config = ConfigDict(extra="allow")


class TaskParams(RequestParams):
    task_id: str
    input_responses: dict[str, Any] | None = None


class TaskRequest(Request[TaskParams, str]):
    name_param = "taskId"


class Tasks(ClientExtension):
    """The extension of a client: it polls a task, and its `user` answers the questions."""

    identifier = TASKS

    def __init__(self, user: User | None = None, at_once: int = 10) -> None:
        self.user = user
        self.at_once = at_once
        self.created: list[TaskResult] = []
        self.seen: list[Json] = []
        self.polled = asyncio.Event()

    def claims(self) -> list[ResultClaim[TaskResult]]:
        return [ResultClaim(result_type="task", model=TaskResult, resolve=self._resolve)]

    async def ask(self, context: ClaimContext, method: str, **params: Any) -> Json:
        about = TaskParams(**params)
        found = await context.session.send_request(
            TaskRequest(method=method, params=about), AnyResult
        )
        return found.model_dump(by_alias=True, exclude_none=True)

    async def _resolve(self, task: TaskResult, context: ClaimContext) -> CallToolResult:
        self.created.append(task)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                now = await self.ask(context, "tasks/get", task_id=task.task_id)
                self.seen.append(now)
                self.polled.set()
                if now["status"] in {"completed", "cancelled", "failed"}:
                    return CallToolResult.model_validate(now.get("result", {"content": []}))
                if now["status"] == "input_required":
                    await self._answer(task.task_id, now["inputRequests"], context)

    async def _answer(self, task_id: str, asked: Json, context: ClaimContext) -> None:
        assert self.user is not None
        answers: Json = {"runward:unknown": {"action": "decline"}}
        for name, one in list(asked.items())[: self.at_once]:
            assert one["method"] == "elicitation/create"
            self.user.asked.append(one["params"])
            answers[name] = self.user.answers.pop(0).model_dump(mode="json", exclude_none=True)
        done = await self.ask(context, "tasks/update", task_id=task_id, input_responses=answers)
        assert done["resultType"] == "complete"


async def test_a_slow_call_of_2026_becomes_a_task_and_a_fast_one_does_not(
    project: Project,
) -> None:
    project.tool("fast")
    project.tool("slow", Behaviour(hold="task_of_2026"))
    tasks = Tasks()
    async with connected(project, extensions=[tasks]) as client:
        assert (client.server_capabilities.extensions or {})[TASKS] == {}
        assert said(await client.call_tool("fast", {"x": "1"})) == "fast(1)"
        assert tasks.created == []
        calling = asyncio.create_task(client.call_tool("slow", {"x": "1"}))
        async with asyncio.timeout(PATIENCE_SECONDS):
            await tasks.polled.wait()
        project.running.tools.hold("task_of_2026").release()
        result = await calling
    [task] = tasks.created
    assert (task.ttl_ms, task.poll_interval_ms) == (None, 1000)
    assert tasks.seen[0]["status"] == "working"
    assert said(result) == "slow(1)"
    assert run_of(result) == task.task_id
    assert len(project.hits("slow")) == 1


async def test_a_task_of_2026_asks_the_user_for_results_and_decisions(project: Project) -> None:
    project.client.call("POST", "/v1/tools", ASK)
    project.tool("pay", approval="always", parameters=AMOUNT)
    model = project.script(
        calls(call(1, "ask_address", '{"order": "A"}')),
        calls(call(2, "pay", '{"amount": 5}')),
        text("Sent."),
    )
    agent = {"name": "clerk", "model": model, "tools": ["ask_address", "pay"]}
    project.client.call("POST", "/v1/agents", agent)
    user = User(accept(value="Main Street 2"), accept(decision="approve"))
    tasks = Tasks(user)
    async with connected(project, extensions=[tasks], elicited=user) as client:
        result = await client.call_tool("agent_clerk", {"input": "Send it."})
    assert said(result) == "Sent."
    assert user.answers == []
    assert [len(one["inputRequests"]) for one in tasks.seen if "inputRequests" in one] == [1, 1]
    run = project.client.get_run(run_of(result))
    assert run["status"] == "completed"
    assert {one["tool"]: one["outcome"] for one in project.client.tool_calls(run["id"])} == {
        "ask_address": "completed",
        "pay": "completed",
    }


async def test_the_questions_of_a_task_can_be_answered_one_by_one(project: Project) -> None:
    project.client.call("POST", "/v1/tools", ASK)
    both = (call(n, "ask_address", f'{{"order": "{n}"}}') for n in (1, 2))
    model = project.script(calls(*both), text("Sent."))
    agent = {"name": "clerk", "model": model, "tools": ["ask_address"]}
    project.client.call("POST", "/v1/agents", agent)
    tasks = Tasks(user := User(accept(value="one"), accept(value="two")), at_once=1)
    async with connected(project, extensions=[tasks], elicited=user) as client:
        result = await client.call_tool("agent_clerk", {"input": "Send it."})
    found = [one["inputRequests"].keys() for one in tasks.seen if "inputRequests" in one]
    assert [len(one) for one in found] == [2, 1]
    assert found[1] < found[0]
    outputs = [one["output"] for one in project.client.tool_calls(run_of(result))]
    assert outputs == ["one", "two"]


async def test_a_failed_run_is_a_completed_task_of_2026_with_an_error(project: Project) -> None:
    """In this generation, only protocol errors are failures."""
    project.tool("pay", Behaviour("is_error", message="No funds."), approval="always")
    tasks = Tasks(user := User(accept(decision="approve")))
    async with connected(project, extensions=[tasks], elicited=user) as client:
        result = await client.call_tool("pay", {"x": "1"})
    assert tasks.seen[-1]["status"] == "completed"
    assert result.is_error
    assert said(result) == "No funds."


def modern_request(method: str, *extensions: str, **params: Any) -> tuple[Json, dict[str, str]]:
    """Return the body and the headers of a request of 2026 whose client declares `extensions`."""
    about = "io.modelcontextprotocol/"
    meta: Json = {
        f"{about}protocolVersion": "2026-07-28",
        f"{about}clientInfo": {"name": "raw", "version": "1"},
        f"{about}clientCapabilities": {"extensions": {one: {} for one in extensions}},
    }
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
    if name := params.get("name") or params.get("taskId"):
        headers["Mcp-Name"] = name
    return request(method, **params, _meta=meta), headers


def modern(client: CheckedClient, method: str, *extensions: str, **params: Any) -> httpx2.Response:
    body, headers = modern_request(method, *extensions, **params)
    return post(client, body, **headers)


def test_a_client_of_2026_that_does_not_declare_the_extension_gets_no_tasks(
    project: Project,
) -> None:
    project.tool("pay", approval="always")
    run_id = started(project.client, "pay", {"x": "1"})
    for method in ("tasks/get", "tasks/update", "tasks/cancel"):
        refused = modern(project.client, method, taskId=run_id, inputResponses={})
        assert refused.status_code == 400
        assert refused.json()["error"] | {"message": ""} == {
            "code": -32021,
            "message": "",
            "data": {"requiredCapabilities": {"extensions": {TASKS: {}}}},
        }
    assert project.client.get_run(run_id)["status"] != "cancelled"


def test_a_task_of_2026_is_cancelled_and_the_methods_of_2025_are_unknown(
    project: Project,
) -> None:
    project.tool("pay", approval="always")
    created = modern(
        project.client, "tools/call", TASKS, name="pay", arguments={"x": "1"}, task={}
    ).json()["result"]
    assert (created["resultType"], created["status"]) == ("task", "working")
    run_id = created["taskId"]
    for _ in range(2):
        done = modern(project.client, "tasks/cancel", TASKS, taskId=run_id).json()["result"]
        assert done["resultType"] == "complete"
    task = modern(project.client, "tasks/get", TASKS, taskId=run_id).json()["result"]
    assert (task["status"], "result" in task) == ("cancelled", False)
    for method in ("tasks/result", "tasks/list"):
        assert (
            modern(project.client, method, TASKS, taskId=run_id).json()["error"]["code"] == -32601
        )
    body, headers = modern_request("tasks/get", TASKS, taskId=run_id)
    for named in ("run_1", ""):
        refused = post(project.client, body, **headers | {"Mcp-Name": named})
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, -32020)
    unknown = modern(project.client, "tasks/get", TASKS, taskId="run_1").json()["error"]
    assert unknown["code"] == -32602


# -- the packages of the MCP project --------------------------------------------------------------


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_the_task_client_of_the_mcp_project_runs_tasks(project: Project, version: str) -> None:
    node_package("@modelcontextprotocol/ext-tasks")
    project.tool("pay", approval="never" if version == "2025-11-25" else "always")
    called = [{"name": "pay", "args": {"x": "2"}}]
    script = node_script("mcp_tasks.mjs")
    url, key = f"{project.client.url}/mcp", project.client.key
    done = subprocess.run(
        ["node", script, url, key, version, json.dumps(called)],
        capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    printed = json.loads(done.stdout)
    results = [one["outcome"]["result"]["content"][0]["text"] for one in printed["found"]]
    assert results == ["pay(2)"]
    paid = printed["found"][0]["task"]
    assert project.client.get_run(paid["taskId"])["status"] == "completed"
    if version == "2026-07-28":
        assert [one.splitlines()[0] for one in printed["questions"]] == [
            "Do you approve the call of the tool 'pay'?"
        ]
    else:
        assert printed["listed"][0]["taskId"] == paid["taskId"]
