"""MCP servers that are commands: allowed by the operator, started by Runward, killed and started
again."""

import sys

import pytest

from tests.api.project import Project, call
from tests.support.client import Json
from tests.support.model_server import calls, text

ARGS = ["-m", "tests.support.mcp_process", "stdio"]


def register(project: Project, **fields: object) -> Json:
    body = {"name": "box", "command": sys.executable, "args": ARGS, **fields}
    return project.client.call("POST", "/v1/mcp_servers", body)


def test_a_command_is_started_and_its_tools_called(project: Project) -> None:
    made = register(project, approval="never")
    assert (made["command"], made["args"], made["url"]) == (sys.executable, ARGS, None)
    run = project.run(
        calls(call(1, "box_add", '{"a":2,"b":3}'), call(2, "box_echo", '{"text":"hi"}')),
        text("fine"),
        tools=["box_add", "box_echo"],
    )
    assert run["status"] == "completed"
    first, second = project.client.tool_calls(run["id"])
    assert (first["output"], second["outcome"]) == ({"sum": 5}, "completed")


def test_its_environment_holds_nothing_of_runwards(project: Project) -> None:
    register(project, approval="never")
    trial = project.client.call("POST", "/v1/tools/box_environment/test", {"arguments": {}})
    names = trial["output"]["result"]
    assert "PATH" in names
    assert [name for name in names if name.startswith(("RUNWARD_", "DATABASE", "OPENAI"))] == []


def test_a_process_that_dies_in_a_call_leaves_it_unknown_and_is_started_again(
    project: Project,
) -> None:
    register(project, approval="never")
    run = project.run(
        calls(call(1, "box_die", "{}")),
        calls(call(2, "box_add", '{"a":1,"b":1}')),
        text("fine"),
        tools=["box_die", "box_add"],
    )
    assert run["status"] == "completed"
    died, added = project.client.tool_calls(run["id"])
    assert died["outcome"] == "outcome_unknown"
    assert (added["outcome"], added["output"]) == ("completed", {"sum": 2})


def test_other_arguments_are_another_version_of_its_tools(project: Project) -> None:
    register(project)
    before = project.client.call("GET", "/v1/tools/box_add")
    project.client.call("PATCH", "/v1/mcp_servers/box", {"args": [*ARGS, "die"]})
    after = project.client.call("GET", "/v1/tools/box_add")
    assert (before["version"], after["version"]) == (1, 2)
    assert project.client.call("GET", "/v1/tools/box_die")["enabled"] is False


def test_a_command_that_is_no_mcp_server_is_424(project: Project) -> None:
    body = {"name": "box", "command": sys.executable, "args": ["-c", "pass"]}
    project.client.refused(424, "mcp_unreachable", "POST", "/v1/mcp_servers", body)


@pytest.mark.parametrize("fields", [{"headers": {"X-A": "b"}}, {"url": "http://x"}])
def test_a_command_takes_neither_headers_nor_a_url(project: Project, fields: Json) -> None:
    body = {"name": "box", "command": sys.executable, "args": ARGS, **fields}
    project.client.refused(422, "invalid_request", "POST", "/v1/mcp_servers", body)
