"""Questions to the user of an MCP client: the results of `client` tools, and decisions about
approvals, in both generations of the protocol."""

import asyncio
from typing import Any

import pytest
from mcp.types import CallToolResult, ElicitRequestFormParams, ElicitResult

from tests.api.project import CheckedClient, Project, call
from tests.api.test_mcp_endpoint_api import both, calling, decided, post, request
from tests.api.test_tools_api import call_back
from tests.support.mcp.client import Generation, mcp_client, run_of, said
from tests.support.models.chat_server import calls, text
from tests.support.services.client import Json
from tests.support.tools.server import Behaviour

ADDRESS: Json = {
    "type": "object",
    "properties": {
        "street": {"type": "string", "title": "Street"},
        "gift": {"type": "boolean", "default": False},
    },
    "required": ["street"],
    "additionalProperties": False,
}
ASK: Json = {
    "name": "ask_address",
    "type": "client",
    "description": "Ask for the address.",
    "parameters": {
        "type": "object",
        "properties": {"order": {"type": "string"}},
        "required": ["order"],
        "additionalProperties": False,
    },
}


AMOUNT: Json = {
    "type": "object",
    "properties": {"amount": {"type": "integer"}},
    "required": ["amount"],
    "additionalProperties": False,
}


class User:
    """The user of a client. `answers`: what they answer, in turn. `asked`: what they saw."""

    def __init__(self, *answers: ElicitResult) -> None:
        self.answers = list(answers)
        self.asked: list[ElicitRequestFormParams] = []

    async def __call__(self, _: Any, params: Any) -> ElicitResult:
        assert isinstance(params, ElicitRequestFormParams)
        self.asked.append(params)
        return self.answers.pop(0)


def accept(**content: Any) -> ElicitResult:
    return ElicitResult(action="accept", content=content)


async def called(
    client: CheckedClient, generation: Generation, user: User | None, name: str, arguments: Json
) -> CallToolResult:
    async with mcp_client(client.url, client.key, generation, elicited=user) as mcp:
        return await mcp.call_tool(name, arguments)


@both
async def test_the_user_gives_the_result_of_a_client_tool(
    project: Project, generation: Generation
) -> None:
    project.client.call("POST", "/v1/tools", {**ASK, "output_schema": ADDRESS})
    user = User(accept(street="Main Street 1", gift=True))
    result = await called(project.client, generation, user, "ask_address", {"order": "A-1"})
    assert result.structured_content == {"street": "Main Street 1", "gift": True}
    [asked] = user.asked
    form = {name: ADDRESS[name] for name in ("type", "properties", "required")}
    assert asked.requested_schema == form
    assert asked.message == 'Ask for the address.\n\n{"order":"A-1"}'
    assert project.client.get_run(run_of(result))["status"] == "completed"


@both
async def test_the_client_tool_of_an_agent_asks_within_the_call(
    project: Project, generation: Generation
) -> None:
    project.client.call("POST", "/v1/tools", ASK)
    asking = call(1, "ask_address", '{"order": "A-2"}')
    model = project.script(calls(asking), text("Sent."))
    agent = {"name": "clerk", "model": model, "tools": ["ask_address"]}
    project.client.call("POST", "/v1/agents", agent)
    user = User(accept(value="Main Street 2"))
    result = await called(project.client, generation, user, "agent_clerk", {"input": "Send it."})
    assert said(result) == "Sent."
    [done] = project.client.tool_calls(run_of(result))
    assert (done["outcome"], done["output"]) == ("completed", "Main Street 2")


@both
@pytest.mark.parametrize("first", ["clerk", "front"])
async def test_the_inline_client_tool_of_an_agent_has_its_description_and_form(
    project: Project, generation: Generation, first: str
) -> None:
    asking = call(1, "ask_address", '{"order": "A-2"}')
    transfer = [calls(call("t", "transfer_to_clerk", "{}"))] if first == "front" else []
    model = project.script(*transfer, calls(asking), text("Sent."))
    tool = {**ASK, "output_schema": ADDRESS}
    clerk = {"name": "clerk", "model": model, "tools": [tool]}
    project.client.call("POST", "/v1/agents", clerk)
    front = {"name": "front", "model": model, "handoffs": ["clerk"]}
    project.client.call("POST", "/v1/agents", front)
    user = User(accept(street="Main Street 2"))
    result = await called(project.client, generation, user, f"agent_{first}", {"input": "Send."})
    assert said(result) == "Sent."
    [asked] = user.asked
    assert asked.message == 'Ask for the address.\n\n{"order":"A-2"}'
    form = {name: ADDRESS[name] for name in ("type", "properties", "required")}
    assert asked.requested_schema == form


@both
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_user_who_does_not_answer_fails_the_call(
    project: Project, generation: Generation, action: Any
) -> None:
    project.client.call("POST", "/v1/tools", ASK)
    user = User(ElicitResult(action=action))
    result = await called(project.client, generation, user, "ask_address", {"order": "A-3"})
    assert result.is_error
    assert "The user declined to answer." in said(result)


@both
async def test_a_client_that_cannot_ask_sees_no_client_tools(
    project: Project, generation: Generation
) -> None:
    project.client.call("POST", "/v1/tools", ASK)
    for user, listed in ((None, False), (User(), True)):
        async with mcp_client(
            project.client.url, project.client.key, generation, elicited=user
        ) as mcp:
            names = [one.name for one in (await mcp.list_tools()).tools]
        assert ("ask_address" in names) is listed


@both
@pytest.mark.parametrize(
    ("answer", "sent", "status"),
    [
        (accept(decision="approve"), 1, "completed"),
        (accept(decision="reject", message="Too much."), 0, "failed"),
    ],
)
async def test_a_user_whose_key_may_decide_is_asked_for_approval(
    project: Project, generation: Generation, answer: ElicitResult, sent: int, status: str
) -> None:
    project.tool("pay", Behaviour("raw", value="paid"), approval="always", parameters=AMOUNT)
    user = User(answer)
    result = await called(project.client, generation, user, "pay", {"amount": 5})
    [asked] = user.asked
    assert "Do you approve the call of the tool 'pay'?" in asked.message
    assert '{"amount":5}' in asked.message
    assert len(project.hits("pay")) == sent
    assert project.client.get_run(run_of(result))["status"] == status


@both
async def test_a_key_that_may_not_decide_is_not_asked_for_approval(
    project: Project, generation: Generation
) -> None:
    project.tool("pay", Behaviour("raw", value="paid"), approval="always", parameters=AMOUNT)
    writer, user = project.key("runs:write"), User()
    async with (
        mcp_client(writer.url, writer.key, generation, elicited=user) as mcp,
        calling(mcp, "pay", {"amount": 5}) as (task, heard),
    ):
        await decided(project, heard, "approve")
        assert said(await task) == "paid"
    assert user.asked == []


@both
async def test_each_question_of_a_tool_gets_its_own_answer(
    project: Project, generation: Generation
) -> None:
    project.tool("work", Behaviour("later"), Behaviour("later"), Behaviour("raw", value="done"))
    user = User(accept(value="one"), accept(value="two"))
    calling_ = asyncio.create_task(called(project.client, generation, user, "work", {"x": "1"}))
    for count, question in enumerate(("First?", "Second?"), start=1):
        hits = await asyncio.to_thread(project.wait_for_hits, "work", count)
        assert call_back(hits[0], status="input_required", requests=question).status_code == 200
    assert said(await calling_) == "done"
    assert [one.message for one in user.asked] == ["First?", "Second?"]
    answers = [hit.body["input"]["responses"] for hit in project.hits("work")[1:]]
    assert answers == ["one", "two"]


async def test_a_repeated_answer_does_not_answer_the_next_question(project: Project) -> None:
    project.tool("work", Behaviour("later"), Behaviour("later"))
    body = request("tools/call", name="work", arguments={"x": "1"}, task={})
    post(project.client, body)
    for count in (1, 2):
        hits = await asyncio.to_thread(project.wait_for_hits, "work", count)
        asked = call_back(hits[0], status="input_required", requests=f"{count}?")
        assert asked.status_code == 200
        [run] = project.client.call("GET", "/v1/runs")["data"]
        project.client.settle(run["id"], {"requires_action"})
        answer = accept(value="one").model_dump(mode="json", exclude_none=True)
        name = f"runward:call:{run['id']}:1:call_1"
        sent = post(project.client, {"jsonrpc": "2.0", "id": name, "result": answer})
        assert sent.status_code == 202
    assert project.client.get_run(run["id"])["status"] == "requires_action"
    assert len(project.hits("work")) == 2
