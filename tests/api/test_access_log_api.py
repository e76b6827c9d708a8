"""The lines that the service logs about requests, and the IDs in them."""

import json
from typing import Any
from uuid import uuid4

import pytest

from tests.api.project import ALL_SCOPES, Project, call
from tests.support.mcp.client import mcp_client
from tests.support.models.chat_server import calls, text
from tests.support.receiver import Receiver, Reply
from tests.support.services.client import Json
from tests.support.tools.server import Behaviour

DISABLED = "webhook_endpoint_disabled"


def find_line(project: Project, word: str, event: str = "request") -> Json:
    """The only line about this event with this word. The line about a request follows its
    response."""
    service = project.running.service
    service.wait_for_output(word)
    lines = [line for line in service.output().splitlines() if word in line]
    [found] = [one for line in lines if (one := json.loads(line))["event"] == event]
    return found


def send(project: Project, method: str, path: str, body: Any = None) -> Json:
    """Send a request, and return its line."""
    headers = {"X-Request-Id": f"test-{uuid4().hex}"}
    response = project.client.request(method, path, body, headers=headers)
    line = find_line(project, headers["X-Request-Id"])
    assert (line["method"], line["status"]) == (method, response.status_code)
    return line


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/runs", {"input": "Hi."}),
        ("/v1/responses", {"input": "Hi."}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi."}]}),
    ],
)
def test_requests_that_start_a_run_are_logged_with_its_id(
    project: Project, path: str, body: Json
) -> None:
    line = send(project, "POST", path, {"model": project.script(text("Hi.")), **body})
    [run] = project.client.call("GET", "/v1/runs")["data"]
    assert (line["path"], line["project"], line["run"]) == (path, project.id, run["id"])
    project.settle(run)


async def test_a_tool_call_over_mcp_is_logged_with_its_run(project: Project) -> None:
    project.tool("pay")
    async with mcp_client(project.client.url, project.client.key) as client:
        await client.call_tool("pay", {"x": "1"})
    [run] = project.client.call("GET", "/v1/runs")["data"]
    line = find_line(project, run["id"])
    assert (line["path"], line["project"]) == ("/mcp", project.id)


def test_the_ids_in_the_path_are_logged(project: Project) -> None:
    project.tool("pay")
    run = project.run(calls(call(1, "pay")), text("Paid."), tools=["pay"])
    line = send(project, "GET", f"/v1/runs/{run['id']}/tool_calls/c1")
    assert line["path"] == "/v1/runs/{run_id}/tool_calls/{call_id}"
    assert (line["project"], line["run"], line["call_id"]) == (project.id, run["id"], "c1")


def test_failed_requests_are_logged_with_the_ids_that_are_known(project: Project) -> None:
    line = send(project, "GET", "/v1/audit_log")
    assert (line["status"], line["project"]) == (403, project.id)
    line = send(project, "POST", "/v1/runs", {"model": 1})
    assert (line["status"], line["project"]) == (422, project.id)
    line = send(project, "GET", f"/nowhere/{'x' * 5000}")
    assert line["status"] == 404
    assert len(line["path"]) == 512


def test_lines_about_background_tasks_have_the_ids_of_their_run(project: Project) -> None:
    project.tool("pay", Behaviour("later"))
    run = project.start(calls(call(1, "pay")), tools=["pay"])
    project.wait_for_hits("pay")
    with Receiver() as receiver:
        gone = {"url": receiver.answer("gone", Reply(410)), "events": ["run.cancelled"]}
        endpoint = project.key(*ALL_SCOPES).call("POST", "/v1/webhook_endpoints", gone)
        project.client.cancel(run["id"])
        [pay] = project.client.tool_calls(run["id"])
        for word, event in ((pay["id"], "notice_sent"), (endpoint["id"], DISABLED)):
            line = find_line(project, word, event)
            assert (line["project"], line["run"]) == (project.id, run["id"])
