"""MCP servers that are commands: allowed by the operator, started by Runward, killed and started
again."""

import os
import subprocess
import sys
from pathlib import Path

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


@pytest.mark.parametrize(
    "fields", [{"headers": {"X-A": "b"}}, {"secret_headers": {"X-A": "b"}}, {"url": "http://x"}]
)
def test_a_command_takes_neither_headers_nor_a_url(project: Project, fields: Json) -> None:
    body = {"name": "box", "command": sys.executable, "args": ARGS, **fields}
    project.client.refused(422, "invalid_request", "POST", "/v1/mcp_servers", body)


def test_somebody_elses_server_works_too(project: Project, tmp_path: Path) -> None:
    """`mcp-server-time`, in an environment of its own: RUNWARD_TEST_MCP_TIME is its Python."""
    python = os.environ.get("RUNWARD_TEST_MCP_TIME")
    if python is None or not Path(python).exists():
        pytest.skip("install mcp-server-time somewhere, and name its Python RUNWARD_TEST_MCP_TIME")
    # The service's own Python is allowed; it becomes the other one.
    script = tmp_path / "start.py"
    script.write_text(
        f"import os\nos.execv({python!r}, [{python!r}, '-m', 'mcp_server_time'])\n", "utf-8"
    )
    assert subprocess.run([python, "-c", "import mcp_server_time"], check=False).returncode == 0
    made = register(project, args=[str(script)], approval="never")
    assert "box_get_current_time" in made["tool_names"]
    body = {"arguments": {"timezone": "Europe/Vienna"}}
    trial = project.client.call("POST", "/v1/tools/box_get_current_time/test", body)
    assert "Europe/Vienna" in str(trial["output"])
