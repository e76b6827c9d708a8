"""Without an exporter, tools receive the client's trace context unchanged."""

from typing import cast

import pytest
from mcp_types import RequestParamsMeta

from tests.api.project import Project
from tests.support.mcp.client import mcp_client
from tests.support.mcp.server import McpServer
from tests.support.models.chat_server import Call, calls, text
from tests.support.receiver import Receiver
from tests.support.services.client import Json
from tests.support.tools.server import Behaviour

TRACE = {
    "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "tracestate": "vendor=1",
}


def run(project: Project, headers: dict[str, str], **fields: object) -> Json:
    body = {"input": "go", **fields}
    response = project.client.request("POST", "/v1/runs", body, headers=headers)
    assert response.status_code == 202, response.text
    return project.settle(response.json())


def test_webhook_tools_receive_the_client_s_trace_context(project: Project) -> None:
    project.tool("pay")
    model = project.script(calls(Call("c1", "pay", '{"x":"1"}')), text("Paid."))
    run(project, TRACE, model=model, tools=["pay"])
    [hit] = project.hits("pay")
    assert {name: hit.headers[name] for name in TRACE} == TRACE


def test_a_child_run_belongs_to_the_trace_of_its_parent(project: Project) -> None:
    project.tool("pay")
    clerk = project.script(calls(Call("c2", "pay", '{"x":"1"}')), text("Paid."), name="clerk")
    project.client.call("POST", "/v1/agents", {"name": "clerk", "model": clerk, "tools": ["pay"]})
    project.client.call(
        "POST", "/v1/tools", {"name": "ask_clerk", "type": "agent", "agent": "clerk"}
    )
    boss = project.script(calls(Call("c1", "ask_clerk", '{"input":"Pay."}')), text("Paid."))
    assert run(project, TRACE, model=boss, tools=["ask_clerk"])["status"] == "completed"
    [hit] = project.hits("pay")
    assert hit.headers["traceparent"] == TRACE["traceparent"]


def test_mcp_servers_receive_it_in_their_metadata(project: Project) -> None:
    with McpServer() as server:
        box = {"name": "box", "url": server.url, "approval": "never"}
        project.client.call("POST", "/v1/mcp_servers", box)
        model = project.script(calls(Call("c1", "box_echo", '{"text":"hi"}')), text("Done."))
        run(project, TRACE, model=model, tools=["box_echo"])
        [seen] = [one for one in server.seen() if one["what"] == "echo"]
    assert seen["trace"] == TRACE


def test_cancelled_calls_are_reported_in_the_trace_of_the_run(project: Project) -> None:
    project.tool("pay", Behaviour("later"))
    model = project.script(calls(Call("c1", "pay", '{"x":"1"}')))
    body = {"input": "go", "model": model, "tools": ["pay"]}
    started = project.client.request("POST", "/v1/runs", body, headers=TRACE).json()
    project.wait_for_hits("pay")
    project.client.cancel(started["id"])
    key = project.tool_key("pay")
    hits = project.tools.until(lambda found: sum(hit.key == key for hit in found) == 2)
    [notice] = [hit for hit in hits if hit.key == key and hit.type == "tool_call.cancelled"]
    assert {name: notice.headers[name] for name in TRACE} == TRACE


def test_guardrails_hooks_and_notifications_receive_it(project: Project) -> None:
    answers = {"guard": {"action": "allow"}, "hook": {}}
    urls = {
        name: project.tools.tool(project.tool_key(name), Behaviour("return", value=one))
        for name, one in answers.items()
    }
    guardrail = {"stage": "run_input", "type": "webhook", "url": urls["guard"]}
    hook = {"on": "before_model", "type": "webhook", "url": urls["hook"]}
    project.client.call("PUT", "/v1/policy", {"guardrails": [guardrail], "hooks": [hook]})
    with Receiver() as receiver:
        webhook = {"url": receiver.answer("endpoint")}
        run(project, TRACE, model=project.script(text("Hi.")), webhook=webhook)
        notification = receiver.wait_for_type("endpoint", "run.completed")
    keys = {project.tool_key(name) for name in answers}
    asked = [hit.headers for hit in project.tools.all_hits() if hit.key in keys]
    assert len(asked) == 2
    for headers in (*asked, notification.headers):
        assert {name: headers[name] for name in TRACE} == TRACE


async def test_mcp_clients_send_it_in_the_metadata_of_a_call(project: Project) -> None:
    project.tool("pay")
    async with mcp_client(project.client.url, project.client.key) as client:
        for number, meta in enumerate((TRACE, {"traceparent": "00-0-0-00"}, {})):
            await client.call_tool("pay", {"x": str(number)}, meta=cast(RequestParamsMeta, meta))
    hits = project.hits("pay")
    assert {name: hits[0].headers[name] for name in TRACE} == TRACE
    assert not any("traceparent" in hit.headers for hit in hits[1:])


def test_a_continued_run_belongs_to_the_trace_of_the_request_that_continues_it(
    project: Project,
) -> None:
    project.tool("pay")
    asked = [calls(Call(f"c{number}", "pay", '{"x":"1"}')) for number in (1, 2)]
    model = project.script(*asked, text("Paid."))
    limits = {"max_turns": 1}
    stopped = run(project, TRACE, model=model, tools=["pay"], limits=limits)
    later = {"traceparent": f"00-{'7' * 32}-{'8' * 16}-01"}
    path = f"/v1/runs/{stopped['id']}/continue"
    project.settle(project.client.request("POST", path, {}, headers=later).json())
    first, second = project.hits("pay")
    assert first.headers["traceparent"] == TRACE["traceparent"]
    assert second.headers["traceparent"] == later["traceparent"]


@pytest.mark.parametrize(
    "traceparent",
    ["", "00-0-0-00", "00-" + "0" * 32 + "-00f067aa0ba902b7-01", "x" * 5000],
)
def test_a_trace_context_that_is_not_valid_is_ignored(project: Project, traceparent: str) -> None:
    project.tool("pay")
    model = project.script(calls(Call("c1", "pay", '{"x":"1"}')), text("Paid."))
    run(project, {"traceparent": traceparent}, model=model, tools=["pay"])
    [hit] = project.hits("pay")
    assert "traceparent" not in hit.headers


def test_a_long_tracestate_is_dropped(project: Project) -> None:
    project.tool("pay")
    model = project.script(calls(Call("c1", "pay", '{"x":"1"}')), text("Paid."))
    long = ",".join(f"v{number}={'x' * 100}" for number in range(10))
    run(project, {**TRACE, "tracestate": long}, model=model, tools=["pay"])
    [hit] = project.hits("pay")
    assert hit.headers["traceparent"] == TRACE["traceparent"]
    assert "tracestate" not in hit.headers
