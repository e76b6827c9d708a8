"""Servers that others wrote, unmodified, in runs: called once a person agreed, over both
transports. `mcp-server-everything` is the protocol's own reference in Node, `mcp-server-time` one
in Python, `mcp-server-motherduck` a database."""

import gzip
import json
import os
from base64 import b64decode
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.api.project import Project, Running, call, of_type, result_of
from tests.e2e.mcp_project import results, running_on
from tests.support.mcp.others import OthersServer, Tap
from tests.support.models.chat_server import ModelServer, calls, text
from tests.support.postgres import Databases
from tests.support.programs import mcp_program, node_program
from tests.support.services.client import Json
from tests.support.services.service import Service

pytestmark = pytest.mark.timeout(180)
QUIET = "FASTMCP_CHECK_FOR_UPDATES=off"
"""It asks the internet otherwise."""


@pytest.fixture(scope="module")
def running(migrated_databases: Databases) -> Iterator[Running]:
    """One for all tests of this module, each in a project of its own."""
    programs = [node_program("mcp-server-everything"), mcp_program("mcp-server-time")]
    env = {"RUNWARD_MCP_COMMANDS": ",".join(["env", "sh", *programs])}
    with (
        migrated_databases.migrated() as url,
        ModelServer() as model,
        Service("serve", url, openai_base_url=model.base_url, env=env) as service,
        running_on(service, model) as running,
    ):
        yield running


@pytest.fixture
def project(running: Running) -> Iterator[Project]:
    with running.project() as project:
        yield project


def everything_over_http() -> OthersServer:
    command = [node_program("mcp-server-everything"), "streamableHttp"]
    return OthersServer(command, ready="listening on port", env={"PORT": "{port}"})


def register(project: Project, **fields: object) -> Json:
    return project.client.call("POST", "/v1/mcp_servers", {"name": "x", **fields})


@pytest.fixture(params=["stdio", "http"])
def everything(request: pytest.FixtureRequest, project: Project) -> Iterator[Json]:
    """As it is registered."""
    if request.param == "stdio":
        yield register(project, command=node_program("mcp-server-everything"), args=["stdio"])
    else:
        with everything_over_http() as server:
            yield register(project, url=server.url)


@pytest.fixture(params=["stdio", "http"])
def database(request: pytest.FixtureRequest, project: Project, tmp_path: Path) -> Iterator[Json]:
    options = ["--db-path", str(tmp_path / "test.db"), "--read-write"]
    program = mcp_program("mcp-server-motherduck")
    if request.param == "stdio":
        yield register(project, command="env", args=[QUIET, program, *options])
    else:
        listening = ["--transport", "http", "--port", "{port}"]
        command = ["env", QUIET, program, *options, *listening]
        with OthersServer(command, ready="Uvicorn running on") as server:
            yield register(project, url=server.url)


def test_a_database_is_changed_only_once_a_person_agreed_and_its_refusals_are_read_by_the_model(
    project: Project, database: Json
) -> None:
    """The annotations of the server say which tools only read."""
    asked = {
        name: project.client.call("GET", f"/v1/tools/{name}")["approval"]
        for name in database["tool_names"]
    }
    assert asked["x_execute_query"] == "always"
    assert asked["x_list_tables"] == "never"
    run = project.run(
        calls(call(1, "x_execute_query", '{"sql": "CREATE TABLE paid AS SELECT 42 AS euros"}')),
        calls(call(2, "x_list_tables", "{}")),
        text("fine"),
        tools=["x_execute_query", "x_list_tables"],
    )
    assert run["status"] == "requires_action"
    path = "/v1/tools/x_list_tables/test"
    before = project.client.call("POST", path, {"arguments": {}})
    assert "paid" not in str(before["output"])
    project.client.decide_call(run["id"], "c1", "approve")
    assert project.settle(run)["status"] == "completed"
    made, shown = results(project, run)
    assert json.loads(made["output"]["result"])["rows"] == [[1]]
    assert '"name": "paid"' in shown["output"]["result"]
    assert result_of(project.asked(), "c2").count("paid") == 1

    ask = calls(call(1, "x_execute_query", '{"sql": "SELECT nothing FROM nowhere"}'))
    run = project.start(
        model=project.script(ask, text("fine"), name="refused"), tools=["x_execute_query"]
    )
    project.settle(run)
    project.client.decide_call(run["id"], "c1", "approve")
    project.settle(run)
    [refused] = results(project, run)
    assert refused["is_error"] is True
    assert "nowhere does not exist" in result_of(project.asked("refused"), "c1")


def test_every_kind_of_answer_of_the_reference_server(project: Project, everything: Json) -> None:
    """Text, structured output, an image, an embedded file, links, and `isError`."""
    zipped = {"name": "a.gz", "data": f"data:text/plain,{'a' * 64}", "outputType": "resource"}
    run = project.run(
        calls(
            call(1, "x_get-sum", '{"a": 2, "b": 3}'),
            call(2, "x_get-structured-content", '{"location": "Chicago"}'),
            call(3, "x_get-tiny-image", "{}"),
            call(4, "x_get-resource-links", '{"count": 2}'),
            call(5, "x_gzip-file-as-resource", json.dumps(zipped)),
            call(6, "x_gzip-file-as-resource", json.dumps(zipped | {"data": "ftp://nowhere/"})),
        ),
        text("fine"),
        tools=everything["tool_names"],
    )
    waiting = {one["call_id"]: one["id"] for one in project.client.approvals(run_id=run["id"])}
    assert set(waiting) == {"c5", "c6"}
    for one in waiting.values():
        project.client.decide(one, "approve")
    assert project.settle(run)["status"] == "completed"
    added, weather, image, links, packed, refused = results(project, run)
    assert added["output"] == "The sum of 2 and 3 is 5."
    assert weather["output"] == {
        "temperature": 36,
        "conditions": "Light rain / drizzle",
        "humidity": 82,
    }
    [_, picture, _] = image["content"]
    assert (picture["type"], picture["media_type"]) == ("image", "image/png")
    assert b64decode(picture["data"]).startswith(b"\x89PNG")
    assert "demo://resource/dynamic/text/2" in links["output"]
    [file] = packed["content"]
    assert (file["media_type"], file["filename"]) == ("application/gzip", "a.gz")
    assert gzip.decompress(b64decode(file["data"])) == b"a" * 64
    assert (refused["is_error"], "Unsupported URL protocol" in refused["output"]) == (True, True)


def test_the_reference_server_is_told_what_runward_does_not_do(
    project: Project, everything: Json
) -> None:
    """It offers sampling and roots only to clients that say that they do them."""
    assert [one["tool"] for one in everything["skipped"]] == ["simulate-research-query"]
    assert [name for name in everything["tool_names"] if "trigger" in name] == [
        "x_trigger-long-running-operation",
        "x_trigger-elicitation-request",
        "x_trigger-url-elicitation",
    ]
    assert project.client.call("GET", "/v1/mcp_servers/x")["skipped"] == everything["skipped"]


def asked(project: Project, tool: str, arguments: str) -> tuple[Json, Json]:
    """A run whose approved call waits for input, and what it waits for."""
    run = project.run(calls(call(1, tool, arguments)), text("fine"), tools=[tool])
    project.client.decide_call(run["id"], "c1", "approve")
    run = project.settle(run)
    [action] = run["required_actions"]
    assert (run["status"], action["type"]) == ("requires_action", "tool_result")
    return run, action["requests"]["elicitations"]["1"]


def answer(project: Project, run: Json, output: Json) -> Json:
    project.client.call("POST", f"/v1/runs/{run['id']}/tool_calls/c1/result", {"output": output})
    return project.settle(run)


def test_a_form_of_the_reference_server_is_answered_while_its_call_is_open(
    project: Project, everything: Json
) -> None:
    run, question = asked(project, "x_trigger-elicitation-request", "{}")
    assert question["message"] == "Please provide inputs for the following fields:"
    assert question["requestedSchema"]["required"] == ["name"]
    assert answer(project, run, {"name": "Ada", "integer": 7})["status"] == "completed"
    [done] = results(project, run)
    assert "- Name: Ada" in done["output"]
    assert "- Favorite Integer: 7" in done["output"]
    assert "- Favorite Number: 3.14" in done["output"], "with the form's default"


def test_the_urls_of_the_reference_server_are_opened_before_and_during_its_call(
    project: Project, everything: Json
) -> None:
    """At first it refuses the call with URLElicitationRequiredError (MCP 2025-11-25)."""
    arguments = '{"url": "https://example.com/pay", "errorPath": true}'
    run, before = asked(project, "x_trigger-url-elicitation", arguments)
    assert before["url"] == "https://modelcontextprotocol.io"
    waiting = answer(project, run, {"action": "accept"})
    [action] = waiting["required_actions"]
    assert action["requests"]["elicitations"]["1"]["url"] == "https://example.com/pay"
    assert answer(project, run, {"action": "accept"})["status"] == "completed"
    [done] = results(project, run)
    assert "User completed the URL elicitation flow." in done["output"]


def test_progress_of_the_reference_server_is_seen(project: Project, everything: Json) -> None:
    assert everything["version"] == 1
    ask = calls(call(1, "x_trigger-long-running-operation", '{"duration": 0.2, "steps": 4}'))
    run = project.run(ask, text("fine"), tools=["x_trigger-long-running-operation"])
    [done] = results(project, run)
    assert done["output"].startswith("Long running operation completed.")
    seen = of_type(project.client.events(run["id"]), "tool_call.progress")
    assert {one["progress"] for one in seen} <= {0.25, 0.5, 0.75, 1.0}
    assert seen


def cancelled_when_under_way(project: Project) -> None:
    """A run whose call would take ten minutes."""
    ask = calls(call(1, "x_trigger-long-running-operation", '{"duration": 600, "steps": 6000}'))
    run = project.start(ask, tools=["x_trigger-long-running-operation"])
    project.until(run, "tool_call.progress")
    project.client.cancel(run["id"])
    assert project.end(run)["status"] == "cancelled"


def test_the_reference_server_is_told_of_a_cancelled_call_over_http(project: Project) -> None:
    with everything_over_http() as server, Tap(server.url) as tap:
        register(project, url=tap.mcp_url)
        cancelled_when_under_way(project)
        [told] = tap.wait_for("notifications/cancelled")
        [sent] = tap.heard("tools/call")
        assert told["params"]["requestId"] == sent["id"]


def test_the_reference_server_is_told_of_a_cancelled_call_over_stdio(
    project: Project, tmp_path: Path
) -> None:
    """What it reads is copied into a pipe."""
    os.mkfifo(tmp_path / "copy")
    reading = os.open(tmp_path / "copy", os.O_RDWR)  # so that neither side waits for the other
    program = node_program("mcp-server-everything")
    copied = ["-c", 'tee "$0" | "$1" stdio', str(tmp_path / "copy"), program]
    with os.fdopen(reading) as lines:
        register(project, command="sh", args=copied)
        cancelled_when_under_way(project)
        sent = first(lines, "tools/call")
        told = first(lines, "notifications/cancelled")
        assert told["params"]["requestId"] == sent["id"]


def first(lines: Iterable[str], method: str) -> Json:
    """The next message of that method; waits for it."""
    return next(one for one in map(json.loads, lines) if one["method"] == method)


def test_the_reference_server_in_python_is_asked_the_time(project: Project) -> None:
    made = register(project, command=mcp_program("mcp-server-time"), approval="always")
    assert made["tool_names"] == ["x_get_current_time", "x_convert_time"]
    when = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    run = project.run(
        calls(
            call(1, "x_convert_time", json.dumps(when)),
            call(2, "x_get_current_time", '{"timezone": "Moon/Tranquility"}'),
        ),
        text("fine"),
        tools=made["tool_names"],
    )
    for one in project.client.approvals(run_id=run["id"]):
        project.client.decide(one["id"], "approve")
    project.settle(run)
    converted, refused = results(project, run)
    assert "21:00" in str(converted["output"])
    assert (refused["is_error"], "Moon/Tranquility" in refused["output"]) == (True, True)
