"""MCP servers that are commands: allowed by the operator, started by Runward, killed and started
again."""

import sys
from pathlib import Path

import pytest

from tests.api.project import Project, call
from tests.support.mcp import plain
from tests.support.models.chat_server import calls, text
from tests.support.services.client import Json

BAD_BYTES = r"""
import json, sys
ABOUT = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
         "serverInfo": {"name": "odd", "version": "1"}}
TOOL = {"name": "odd", "inputSchema": {"type": "object"}}
DEEP = {"type": "object", "default": json.loads("[" * 90 + "]" * 90)}
TOOLS = [TOOL, {"name": "deep", "inputSchema": DEEP}]
RESULTS = {"initialize": ABOUT, "tools/list": {"tools": TOOLS}, "tools/call": {
    "content": [{"type": "text", "text": "cafBAD"}]}}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        result = RESULTS.get(asked["method"])
        said = {"result": result} if result else {"error": {"code": -32601, "message": "no"}}
        answer = json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}).encode()
        sys.stdout.buffer.write(answer.replace(b"BAD", b"\xe9") + b"\n")
        sys.stdout.buffer.flush()
"""
ARGS = ["-m", "tests.support.mcp.process", "stdio"]
"""A server of the SDK."""
PLAIN = [str(Path(plain.__file__))]

LONG_LINE = "the server wrote a line of more than 11534336 bytes to its standard output."
ENDLESS = """
import sys
while True:
    sys.stdout.write("x" * 65536)
"""


def register(project: Project, **fields: object) -> Json:
    body = {"name": "box", "command": sys.executable, "args": PLAIN, **fields}
    return project.client.call("POST", "/v1/mcp_servers", body)


def test_a_command_is_started_and_its_tools_called(project: Project) -> None:
    made = register(project, args=ARGS, approval="never")
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
    project.client.call("PATCH", "/v1/mcp_servers/box", {"args": [*PLAIN, "die"]})
    after = project.client.call("GET", "/v1/tools/box_add")
    assert (before["version"], after["version"]) == (1, 2)
    assert project.client.call("GET", "/v1/tools/box_die")["enabled"] is False


def test_a_command_that_is_no_mcp_server_is_424(project: Project) -> None:
    body = {"name": "box", "command": sys.executable, "args": ["-c", "pass"]}
    project.client.refused(424, "mcp_unreachable", "POST", "/v1/mcp_servers", body)


def test_a_command_that_dies_at_its_start_says_why_without_secrets(project: Project) -> None:
    why = "no database at postgres://box:hunter2@db, token=abcdef0123456789"
    program = f"import sys; print('starting', file=sys.stderr); sys.exit({why!r} + '\\n\\n')"
    body = {"name": "box", "command": sys.executable, "args": ["-c", program]}
    problem = project.client.refused(424, "mcp_unreachable", "POST", "/v1/mcp_servers", body)
    end = "The last line of the server's standard error: no database at postgres://…db, token=…"
    assert problem["detail"].endswith(end)
    assert "starting" not in problem["detail"]


def test_the_last_words_of_a_command_are_bounded(project: Project) -> None:
    program = "import sys; sys.stderr.write('x' * 1_000_000); sys.exit(1)"
    body = {"name": "box", "command": sys.executable, "args": ["-c", program]}
    problem = project.client.refused(424, "mcp_unreachable", "POST", "/v1/mcp_servers", body)
    assert "standard error: xxx" in problem["detail"]
    assert len(problem["detail"]) < 600


def test_a_bad_byte_or_a_deep_schema_of_a_command_does_not_end_its_session(
    project: Project,
) -> None:
    made = register(project, approval="never", args=["-c", BAD_BYTES])
    reason = "the schemas or annotations of the tool are nested more than 64 levels deep"
    assert made["tool_names"] == ["box_odd"]
    assert made["skipped"] == [{"tool": "deep", "reason": reason}]
    for _ in range(2):
        trial = project.client.call("POST", "/v1/tools/box_odd/test", {"arguments": {}})
        assert (trial["outcome"], trial["output"]) == ("completed", "caf\ufffd")


def test_an_endless_line_of_a_command_ends_its_session_with_a_sentence(project: Project) -> None:
    body = {"name": "box", "command": sys.executable, "args": ["-c", ENDLESS]}
    problem = project.client.refused(424, "mcp_unreachable", "POST", "/v1/mcp_servers", body)
    assert problem["detail"] == f"MCP server 'box': {LONG_LINE}"

    in_a_call = BAD_BYTES.replace(
        "    asked = json.loads(line)\n",
        "    asked = json.loads(line)\n"
        "    while asked.get('params', {}).get('arguments'):\n"
        "        sys.stdout.write('x' * 65536)\n",
    )
    register(project, approval="never", args=["-c", in_a_call])
    path = "/v1/tools/box_odd/test"
    trial = project.client.call("POST", path, {"arguments": {"endless": True}})
    assert (trial["outcome"], trial["detail"]) == ("failed", LONG_LINE)
    trial = project.client.call("POST", path, {"arguments": {}})
    assert trial["outcome"] == "completed"


@pytest.mark.parametrize("fields", [{"headers": {"X-A": "b"}}, {"url": "http://x"}])
def test_a_command_takes_neither_headers_nor_a_url(project: Project, fields: Json) -> None:
    body = {"name": "box", "command": sys.executable, "args": ARGS, **fields}
    project.client.refused(422, "invalid_request", "POST", "/v1/mcp_servers", body)
