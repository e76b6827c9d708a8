"""Without an exporter, tools receive the client's trace context unchanged."""

import pytest

from tests.api.project import Project
from tests.support.mcp.server import McpServer
from tests.support.models.chat_server import Call, calls, text
from tests.support.services.client import Json

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
