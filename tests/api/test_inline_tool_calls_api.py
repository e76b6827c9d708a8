"""Calls of inline tools: everything that applies to calls of registered tools."""

import json

import pytest

from tests.api.project import Project, call, result_of
from tests.api.test_guards_api import asked, guardrail, rejecting
from tests.api.test_inline_tools_api import ONCE, PARAMETERS, pay
from tests.api.test_mcp_endpoint_api import calling, connected, decided
from tests.api.test_responses_model_api import ASKED, approve
from tests.api.test_tools_api import call_back
from tests.support.mcp.client import said
from tests.support.models.chat_server import calls, text
from tests.support.models.responses_items import Text
from tests.support.models.responses_server import answer
from tests.support.services.client import Json
from tests.support.tools.server import Behaviour

RESET = Behaviour("reset")


@pytest.mark.parametrize("resolution", ["completed", "retry"])
def test_a_person_resolves_an_unknown_outcome(project: Project, resolution: str) -> None:
    tool = pay(project, RESET, Behaviour("return", value="paid"), on_unknown="ask")
    run = project.run(ONCE, text("done"), tools=[tool])
    [action] = run["required_actions"]
    assert (run["status"], action["type"], action["tool"]) == ("requires_action", "resolve", "pay")
    body: Json = {"resolution": resolution}
    if resolution == "completed":
        body["output"] = "paid"
    else:
        project.retried_by_hand.add((run["id"], "c1"))
    project.client.call("POST", f"/v1/runs/{run['id']}/tool_calls/c1/resolve", body)
    assert project.settle(run)["status"] == "completed"
    assert result_of(project.asked(), "c1") == "paid"
    hits = project.hits("pay")
    assert [hit.attempt for hit in hits] == ([1] if resolution == "completed" else [1, 2])
    assert all(hit.verified for hit in hits)


def test_an_inline_tool_can_request_input(project: Project) -> None:
    tool = pay(project, Behaviour("later"), Behaviour("return", value="paid"))
    run = project.accepted(ONCE, text("done"), tools=[tool])
    [hit] = project.hits("pay")
    asking: Json = {"status": "input_required", "requests": {"question": "Which?"}}
    assert call_back(hit, **asking).status_code == 200
    project.until(run, "run.waiting")
    [action] = project.settle(run)["required_actions"]
    assert (action["type"], action["requests"]) == ("tool_result", {"question": "Which?"})
    project.client.call("POST", f"/v1/runs/{run['id']}/tool_calls/c1/result", {"output": "A"})
    assert project.settle(run)["status"] == "completed"
    assert project.hits("pay")[1].body["input"]["responses"] == "A"


def test_an_inline_tool_has_guardrails_signed_by_its_own_secret(project: Project) -> None:
    rejects = guardrail(project, "rule", "input", rejecting("No."))
    tool = pay(project, guardrails=[rejects])
    secret = project.client.call("POST", "/v1/signing_secret/rotate")["secret"]
    project.client.call("PUT", "/v1/secrets/SIGNING", {"value": secret})
    project.client.call("POST", "/v1/signing_secret/rotate")
    project.tools.secrets(project.tool_key("rule"), secret)
    tool["signing_secret"] = {"secret": "SIGNING"}
    run = project.run(ONCE, text("done"), tools=[tool])
    assert run["status"] == "completed"
    assert result_of(project.asked(), "c1") == "No."
    [checked] = asked(project, "rule")
    assert (checked.verified, checked.body["tool"]) == (True, "pay")
    assert project.hits("pay") == []


def test_the_output_of_an_inline_client_tool_is_checked(project: Project) -> None:
    rejects = guardrail(project, "rule", "output", rejecting("Secret."))
    tool = {"name": "look", "type": "client", "parameters": PARAMETERS, "guardrails": [rejects]}
    run = project.run(calls(call(1, "look")), text("done"), tools=[tool])
    path = f"/v1/runs/{run['id']}/tool_calls/c1/result"
    project.client.call("POST", path, {"output": "A password."})
    assert project.settle(run)["status"] == "completed"
    assert result_of(project.asked(), "c1") == "Secret."


def test_an_inline_mcp_tool_of_the_provider_asks_a_person(project: Project) -> None:
    assert project.running.providers is not None
    server = project.running.providers.responses
    server.script(project.model_name(), answer(ASKED), answer(Text("done")))
    settings = {"server_label": "crm", "server_url": "https://crm.example/mcp"}
    project.client.call("PUT", "/v1/secrets/CRM", {"value": "tok-0123456789"})
    crm: Json = {
        "name": "crm",
        "type": "hosted",
        "hosted": {"kind": "mcp", "settings": settings, "secrets": {"authorization": "CRM"}},
    }
    run = project.run(model=f"openai-responses:{project.model_name()}", tools=[crm])
    [action] = run["required_actions"]
    assert (action["tool"], action["allowed_decisions"]) == ("crm", ["approve", "reject"])
    assert approve(project, run)["output"] == "done"
    (tool,) = server.requests(project.model_name())[-1].body["tools"]
    assert (tool["require_approval"], tool["authorization"]) == ("always", "tok-0123456789")
    shown = project.client.call("GET", f"/v1/runs/{run['id']}", include="config")
    assert "tok-0123456789" not in json.dumps([shown, project.client.events(run["id"])])


async def test_an_agent_with_an_inline_tool_is_a_tool_at_mcp(project: Project) -> None:
    tool = pay(project, Behaviour("return", value="paid"), approval="always")
    model = project.script(ONCE, text("It is paid."))
    project.client.call("POST", "/v1/agents", {"name": "clerk", "model": model, "tools": [tool]})
    async with connected(project) as client:
        listed = [one.name for one in (await client.list_tools()).tools]
        assert listed == ["agent_clerk", "runward_result"]  # no tool `pay`
        async with calling(client, "agent_clerk", {"input": "Pay."}) as (task, heard):
            await decided(project, heard, "approve")
            assert said(await task) == "It is paid."
    [hit] = project.hits("pay")
    assert hit.verified
