"""Every example of a request in openapi.json is sent to a real service, which takes it. Ids,
digests and addresses are those of the test."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import httpx2
import pytest

from runward.api.http.models import KEY_ID
from runward.api.openapi.examples import METRICS
from tests.api.furnished import furnish_webhook
from tests.api.project import ALL_SCOPES, Project, Running, call
from tests.api.test_openapi_api import COMMITTED
from tests.support.mcp.server import McpServer
from tests.support.models.chat_server import calls, text
from tests.support.services.client import Json
from tests.support.tools.server import Behaviour

DOCUMENT: Json = json.loads(COMMITTED.read_text())
AMOUNT: Json = {"type": "object", "properties": {"amount": {"type": "number"}}}
CALL = call(1, "pay", '{"amount":500}')
WITH_SERVERS = ("register_mcp_server", "update_mcp_server")
"""The test below has MCP servers."""
Found = Mapping[str, str]
"""What stands in the example, or as `{name}` in the path -> what the test has instead."""


def bodies() -> list[Any]:
    found: list[Any] = []
    for path, methods in DOCUMENT["paths"].items():
        for method, spec in methods.items():
            content: Json = spec.get("requestBody", {}).get("content", {})
            for name, example in content.get("application/json", {}).get("examples", {}).items():
                shared: Json = DOCUMENT["components"]["examples"].get(name, {})
                value = example.get("value", shared.get("value"))
                id_ = f"{spec['operationId']}-{name}"
                if spec["operationId"] not in WITH_SERVERS:
                    found.append(pytest.param(method, path, spec["operationId"], value, id=id_))
    return found


# -- what must be there before ----------------------------------------------------------------


def nothing(_: Project) -> Found:
    return {}


def pay(project: Project, *behaviours: Behaviour, **fields: Any) -> Json:
    made = project.tool("pay", *behaviours, parameters=AMOUNT, **fields)
    return project.start(calls(CALL), text("Paid."), tools=["pay"]) if fields else made


def tool(project: Project) -> Found:
    pay(project)
    return {"{name}": "pay"}


def clerk(project: Project) -> Found:
    pay(project)
    session = project.client.call("POST", "/v1/sessions", {})
    body = {"name": "clerk", "model": "offline:rules", "tools": ["pay"]}
    project.client.call("POST", "/v1/agents", body)
    model = project.script(text('{"where": "here"}'))
    return {"{name}": "clerk", SESSION_ID: session["id"], "openai:gpt-5.2": model}


def asked(project: Project) -> Found:
    run = project.settle(pay(project, approval="always"))
    [action] = run["required_actions"]
    found = {"{run_id}": run["id"], "{approval_id}": action["approval_id"]}
    return found | {DIGEST: action["digest"]}


def unknown(project: Project) -> Found:
    run = project.settle(pay(project, Behaviour("reset"), Behaviour(), on_unknown="ask"))
    project.retried_by_hand.add((run["id"], "c1"))
    return {"{run_id}": run["id"], "{call_id}": "c1"}


def measuring(project: Project) -> Found:
    body = {"name": "pay", "type": "client", "parameters": AMOUNT}
    project.client.call("POST", "/v1/tools", body)
    run = project.run(calls(CALL), text("ok"), tools=["pay"])
    return {"{run_id}": run["id"], "{call_id}": "c1"}


def later(project: Project) -> Found:
    run = pay(project, Behaviour("later"), approval="never")
    project.until(run, "tool_call.progress")
    [hit] = project.hits("pay")
    return {"{run_id}": run["id"], "{token}": hit.body["callback"]["token"]}


def stopped(project: Project) -> Found:
    made = project.run(calls(call(1, "nothing")), text("ok"), limits={"max_turns": 1})
    assert made["status"] == "incomplete"
    return {"{run_id}": made["id"]}


def conversation(project: Project) -> Found:
    session = project.client.call("POST", "/v1/sessions", {})
    run = project.run(text("Hello."), session_id=session["id"])
    ours = session["id"].replace("sess_", "conv_")
    return {"{session_id}": session["id"], "{conversation_id}": ours, RUN_ID: run["id"]}


def webhook_endpoint(project: Project) -> Found:
    return {"{endpoint_id}": furnish_webhook(project)["endpoint_id"]}


def this_project(project: Project) -> Found:
    return {"{project_id}": project.id}


def schedule(project: Project) -> Found:
    body = {"name": "test", "cron": "0 0 1 1 *", "run": {"model": "offline:rules", "input": "go"}}
    return {"{schedule_id}": project.client.call("POST", "/v1/schedules", body)["id"]}


def budget(project: Project) -> Found:
    made = project.key("admin").call("POST", "/v1/budgets", {"limit_usd": 1})
    return {"{budget_id}": made["id"]}


def limited_key(project: Project) -> Found:
    return {KEY_ID: project.new_key("runs:read")["id"]}


DIGEST = DOCUMENT["components"]["examples"]["Approval"]["value"]["digest"]
RUN_ID = DOCUMENT["components"]["examples"]["Run"]["value"]["id"]
SESSION_ID = DOCUMENT["components"]["examples"]["Session"]["value"]["id"]
BEFORE: Mapping[str, Callable[[Project], Found]] = {
    "start_run": clerk,
    "send_input": asked,
    "continue_run": stopped,
    "cancel_run": asked,
    "create_chat_completion": tool,
    "create_response": tool,
    "update_session": conversation,
    "fork_session": conversation,
    "update_conversation": conversation,
    "create_conversation_items": conversation,
    "decide_approval": asked,
    "resolve_tool_call": unknown,
    "submit_tool_result": measuring,
    "submit_callback": later,
    "update_tool": tool,
    "test_tool": tool,
    "update_agent": clerk,
    "update_webhook_endpoint": webhook_endpoint,
    "create_project_key": this_project,
    "create_schedule": clerk,
    "update_schedule": schedule,
    "update_budget": budget,
    "put_limits": limited_key,
}
WITH_EVERY_SCOPE = (
    *("create_key", "create_webhook_endpoint", "update_webhook_endpoint"),
    *("create_budget", "update_budget"),
    *("put_limits", "put_retention", "preview_retention", "put_legal_hold"),
)
NAMED_AFTER_IT = {"put_secret": "CRM_TOKEN"}


@pytest.mark.parametrize(("method", "path", "operation", "body"), bodies())
def test_a_request_in_the_document_is_taken(
    project: Project, running: Running, method: str, path: str, operation: str, body: Any
) -> None:
    found = BEFORE.get(operation, nothing)(project)
    sent = json.dumps(body)
    for shown, real in found.items():
        sent, path = sent.replace(shown, real), path.replace(shown, real)
    path = path.replace("{name}", NAMED_AFTER_IT.get(operation, "{name}"))
    client = running.operator if operation.startswith("create_project") else project.client
    if operation in WITH_EVERY_SCOPE:
        client = project.key(*ALL_SCOPES)
    response = client.request(method.upper(), path, json.loads(sent))
    assert response.status_code < 300, response.text


def test_requests_about_mcp_servers_are_taken_too(project: Project) -> None:
    examples: Json = DOCUMENT["components"]["examples"]
    body: Json = examples["RegisterMcpServer"]["value"]
    change = DOCUMENT["paths"]["/v1/mcp_servers/{name}"]["patch"]["requestBody"]
    project.client.call("PUT", "/v1/secrets/FILES_KEY", {"value": "k"})
    with McpServer() as server:
        project.client.call("POST", "/v1/mcp_servers", {**body, "url": server.url})
        for example in change["content"]["application/json"]["examples"].values():
            project.client.call("PATCH", f"/v1/mcp_servers/{body['name']}", example["value"])


def test_the_metrics_have_the_lines_of_their_example(running: Running) -> None:
    text = httpx2.get(f"{running.service.url}/metrics").text
    assert METRICS in text
