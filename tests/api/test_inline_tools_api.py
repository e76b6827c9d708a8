"""Tools that a run or an agent defines itself."""

import json
from typing import Any

import pytest

from tests.api.project import Project, call, result_of
from tests.api.test_notices_api import told
from tests.support.models.chat_server import calls, text
from tests.support.services.client import Json
from tests.support.tools.server import Behaviour

PARAMETERS: Json = {"type": "object", "properties": {"x": {"type": "string"}}}
FUNCTION: Json = {"name": "look", "description": "Looks.", "parameters": PARAMETERS}
PAY: Json = {"name": "pay", "parameters": PARAMETERS, "url": "http://127.0.0.1:9/pay"}
TWIN: Json = {"type": "function", "function": FUNCTION | {"name": "pay"}}
CLIENT: Json = {"type": "client"}
FIND: Json = {"type": "function", "name": "find", "description": "Finds.", "parameters": PARAMETERS}
ONCE = calls(call(1, "pay"))


def pay(project: Project, *behaviours: Behaviour, **fields: Any) -> Json:
    """The definition of a webhook tool, whose server checks the project's signature."""
    rotated = project.client.call("POST", "/v1/signing_secret/rotate")
    project.tools.secrets(project.tool_key("pay"), rotated["secret"])
    url = project.tools.tool(project.tool_key("pay"), *behaviours)
    return {**PAY, "url": url, **fields}


def namespace(*tools: Json) -> Json:
    """A namespace in the format of OpenAI's Responses API."""
    about = {"type": "namespace", "name": "crm", "description": "The customers."}
    return {**about, "tools": list(tools)}


def decision_of(action: Json) -> str:
    return f"/v1/approvals/{action['approval_id']}/decision"


def refused(project: Project, *tools: Any) -> list[str]:
    """The paths of the errors."""
    body = {"model": "offline:rules", "input": "x", "tools": list(tools)}
    problem = project.client.refused(422, "invalid_request", "POST", "/v1/runs", body)
    return [error["path"] for error in problem["errors"]]


def test_an_inline_webhook_is_called_with_the_projects_signature(project: Project) -> None:
    project.tool("other")
    tool = pay(project, headers={"X-Key": "hunter2"}, metadata={"team": "red"})
    run = project.run(ONCE, text("done"), tools=["other", tool])
    assert run["status"] == "completed"
    [hit] = project.hits("pay")
    assert (hit.verified, hit.headers["x-key"], hit.body["tool_version"]) == (True, "hunter2", 0)
    shown = project.client.call("GET", f"/v1/runs/{run['id']}", include="config")
    name, definition = shown["config"]["tools"]
    assert (name, definition["name"], definition["headers"]) == ("other", "pay", {"X-Key": "…"})
    assert "hunter2" not in json.dumps([shown, project.client.events(run["id"])])
    assert project.client.request("GET", "/v1/tools/pay").status_code == 404


def test_an_approval_of_an_inline_tool_is_bound_to_its_definition(project: Project) -> None:
    digests: list[str] = []
    for reject_message in ("No.", "Never."):
        tool = pay(project, Behaviour(), approval="always", reject_message=reject_message)
        model = project.script(ONCE, text("done"), name=reject_message[:2])
        run = project.run(model=model, tools=[tool])
        [action] = run["required_actions"]
        digests.append(action["digest"])
        body: Json = {"decision": "edit", "arguments": {"x": "2"}}
        project.client.call("POST", f"/v1/approvals/{action['approval_id']}/decision", body)
        assert project.settle(run)["status"] == "completed"
    assert digests[0] != digests[1]
    assert [hit.body["arguments"] for hit in project.hits("pay")] == [{"x": "2"}] * 2


def test_a_decision_about_an_inline_tool_is_not_remembered_for_the_session(
    project: Project,
) -> None:
    session = project.client.call("POST", "/v1/sessions", {})["id"]
    tool = pay(project, approval="always")
    run = project.run(ONCE, text("done"), tools=[tool], session_id=session)
    [action] = run["required_actions"]
    body = {"decision": "approve", "remember": {"scope": "session"}}
    path = f"/v1/approvals/{action['approval_id']}/decision"
    problem = project.client.refused(422, "invalid_request", "POST", path, body)
    assert problem["errors"][0]["path"] == "remember.scope"
    project.client.call("POST", path, body | {"remember": {"scope": "run"}})
    assert project.settle(run)["status"] == "completed"


def test_an_inline_tool_can_answer_later_and_is_told_of_a_cancellation(project: Project) -> None:
    later = Behaviour("later")
    tool = pay(project, later, later)
    run = project.start(ONCE, text("done"), tools=[tool])
    [hit] = project.wait_for_hits("pay")
    project.until(run, "tool_call.progress")
    answer = {"status": "completed", "output": {"paid": True}}
    project.client.call("POST", "/v1" + hit.body["callback"]["url"].partition("/v1")[2], answer)
    assert project.settle(run)["status"] == "completed"
    assert result_of(project.asked(), "c1") == '{"paid":true}'
    run = project.accepted(model=project.script(ONCE, name="second"), tools=[tool])
    project.client.cancel(run["id"])
    assert told(project, "pay").verified is True


def test_an_inline_tool_in_openais_format_is_run_by_the_client(project: Project) -> None:
    run = project.run(
        calls(call(1, "look")), text("done"), tools=[{"type": "function", "function": FUNCTION}]
    )
    [action] = run["required_actions"]
    assert (action["type"], action["tool"]) == ("tool_result", "look")
    project.client.call("POST", f"/v1/runs/{run['id']}/tool_calls/c1/result", {"output": "A tree."})
    assert project.settle(run)["status"] == "completed"


def test_the_functions_of_a_namespace_are_tools(project: Project) -> None:
    tools = [namespace(FIND, {**FIND, "name": "update", "defer_loading": True}), FUNCTION | CLIENT]
    run = project.run(calls(call(1, "crm_find")), text("done"), tools=tools)
    [action] = run["required_actions"]
    assert (action["type"], action["tool"]) == ("tool_result", "crm_find")
    shown = project.client.call("GET", f"/v1/runs/{run['id']}", include="config")["config"]
    assert [(one["name"], one["description"], one["defer"]) for one in shown["tools"]] == [
        ("crm_find", "The customers.\n\nFinds.", False),
        ("crm_update", "The customers.\n\nFinds.", True),
        ("look", "Looks.", False),
    ]
    body = {"name": "clerk", "model": "offline:rules", "tools": tools}
    made = project.client.call("POST", "/v1/agents", body)
    assert [one["name"] for one in made["tools"]] == ["crm_find", "crm_update", "look"]


def test_a_namespace_is_checked_function_by_function(project: Project) -> None:
    twin = FUNCTION | CLIENT | {"name": "crm_find"}
    assert refused(project, twin, namespace(FIND)) == ["tools.1.tools.0.name"]
    long = {**FIND, "name": "f" * 61}
    assert refused(project, namespace(FIND, long)) == ["tools.0.tools.1.name"]
    assert refused(project, namespace(FIND | {"description": "x" * 16_380})) == [
        "tools.0.tools.0.description"
    ]
    wrong = {**FIND, "parameters": {"type": "string"}}
    assert refused(project, namespace(FIND | {"name": "g"}, wrong)) == [
        "tools.0.tools.1.parameters.type"
    ]
    many = [{**FIND, "name": f"f{n}"} for n in range(128)]
    assert refused(project, namespace(*many), FUNCTION | CLIENT) == ["tools"]
    assert refused(project, namespace()) == ["tools.0.tools"]


def test_a_secret_of_the_project_can_sign(project: Project) -> None:
    secret = project.client.call("POST", "/v1/signing_secret/rotate")["secret"]
    project.client.call("PUT", "/v1/secrets/SIGNING", {"value": secret})
    tool = pay(project, signing_secret={"secret": "SIGNING"})  # the project has a new one
    project.tools.secrets(project.tool_key("pay"), secret)
    run = project.run(ONCE, text("done"), tools=[tool])
    [hit] = project.hits("pay")
    assert (run["status"], hit.verified) == ("completed", True)


def test_agents_and_their_handoffs_and_child_runs_have_inline_tools(project: Project) -> None:
    tool = pay(project, approval="always")
    script = project.script(ONCE, text("paid"), ONCE, text("paid"), name="clerk")
    made = project.client.call(
        "POST",
        "/v1/agents",
        {"name": "clerk", "model": script, "tools": [tool | {"headers": {"A": "b"}}]},
    )
    [shown] = made["tools"]
    assert (shown["name"], shown["headers"], shown["approval"]) == ("pay", {"A": "…"}, "always")
    changed = project.client.call("PATCH", "/v1/agents/clerk", {"instructions": "Pay."})
    assert changed["tools"] == [shown]
    ask = {"name": "ask", "type": "agent", "agent": "clerk"}
    run = project.run(
        calls(call("a", "ask", '{"input":"go"}')),
        calls(call("b", "transfer_to_clerk", "{}")),
        tools=[ask],
        handoffs=["clerk"],
    )
    [action] = run["required_actions"]
    assert action["path"] == ["clerk"]
    project.client.call(
        "POST", f"/v1/approvals/{action['approval_id']}/decision", {"decision": "approve"}
    )
    run = project.settle(run)
    [action] = run["required_actions"]
    assert (action["path"], action["tool"]) == ([], "pay")
    project.client.call(
        "POST", f"/v1/approvals/{action['approval_id']}/decision", {"decision": "approve"}
    )
    assert project.settle(run)["status"] == "completed"
    assert [hit.headers["a"] for hit in project.hits("pay")] == ["b", "b"]


def test_rules_enable_inline_tools(project: Project) -> None:
    hidden = {**PAY, "name": "hidden", "enabled": {"when": "context.vip"}}
    project.run(
        text("done"),
        tools=[hidden, {**PAY, "enabled": {"when": "!context.vip"}}],
        context={"vip": False},
    )
    [request] = project.asked()
    assert [tool["function"]["name"] for tool in request.body["tools"]] == ["pay"]


@pytest.mark.parametrize(
    ("tools", "path"),
    [
        (["pay", PAY], "tools.1.name"),
        ([PAY, "pay"], "tools.1"),
        (
            [PAY, {"type": "function", "function": FUNCTION | {"name": "pay"}}],
            "tools.1.function.name",
        ),
        ([{**PAY, "name": "search_tools"}], "tools.0.name"),
        ([{**PAY, "name": "transfer_to_x"}], "tools.0.name"),
        ([{**PAY, "url": None}], "tools.0.url"),
        ([{"name": "pay", "type": "client"}], "tools.0.parameters"),
        ([{**PAY, "approval": {"when": "args."}}], "tools.0.approval.when"),
        ([{**PAY, "signing_secret": {"secret": "NONE"}}], "tools.0.signing_secret.secret"),
        ([{**PAY, "headers": {"A": {"secret": "NONE"}}}], "tools.0.headers.A.secret"),
        ([{**PAY, "colour": "red"}], "tools.0.colour"),
        ([{"type": "mcp", "server": "nobody"}], "tools.0.server"),
        ([{"type": "plugin", "name": "x"}], "tools.0.type"),
        ([7], "tools.0"),
    ],
)
def test_the_error_of_a_definition_has_its_path(project: Project, tools: Any, path: str) -> None:
    if "pay" in tools:
        project.tool("pay")
    assert path in refused(project, *tools)


def test_a_tool_that_runward_calls_needs_the_scope_of_tools(project: Project) -> None:
    client = project.key("runs:read", "runs:write")
    body: Json = {"model": "offline:rules", "input": "x"}
    for tool in (PAY, namespace(FIND, FIND | {"name": "pay", "url": PAY["url"]})):
        body["tools"] = [tool]
        problem = client.refused(403, "insufficient_scope", "POST", "/v1/runs", body)
        assert "tools:write" in problem["detail"]
    for tool in ({"type": "function", "function": FUNCTION}, namespace(FIND)):
        client.call("POST", "/v1/runs", {**body, "tools": [tool]})
