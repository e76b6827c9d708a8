"""MCP servers that go away in the middle, come back, and come back as others: what happens to the
calls and the runs. Real processes, ended by SIGKILL. docs/how-to/mcp.md says what is shown here."""

import os
import signal
import sys
from collections.abc import Iterator

import pytest

from tests.api.project import Project, Running, call, result_of
from tests.e2e.conftest import Processes
from tests.e2e.mcp_project import results, running_on
from tests.support.mcp.server import McpServer
from tests.support.models.chat_server import (
    Answer,
    Call,
    ModelRequest,
    ModelServer,
    Reply,
    calls,
    text,
)
from tests.support.services.client import Json
from tests.support.serving import Hold
from tests.support.tools.news import ToolNews

pytestmark = pytest.mark.timeout(180)
UNKNOWN = (
    "The tool did not return a complete response. The call may or may not have "
    "taken effect. Check before you repeat it."
)
PATIENT = {"max_turns": 50}
"""For runs that go on until they see a change."""
GONE = "Tool 'box_picture' not found. Tools that can be called now: box_add, box_echo."


@pytest.fixture
def project(running: Running) -> Iterator[Project]:
    with running.project() as project:
        yield project


@pytest.fixture
def news(running: Running) -> Iterator[ToolNews]:
    with ToolNews(running.service.database_url) as news:
        yield news


@pytest.fixture
def modern() -> Iterator[McpServer]:
    with McpServer() as server:
        yield server


@pytest.fixture
def legacy() -> Iterator[McpServer]:
    """It has sessions, and knows the handshake of 2025 alone."""
    with McpServer(legacy=True) as server:
        yield server


@pytest.fixture(params=["modern", "legacy"])
def server(request: pytest.FixtureRequest) -> McpServer:
    found: McpServer = request.getfixturevalue(request.param)
    return found


def register(project: Project, server: McpServer, **fields: object) -> Json:
    body = {"name": "box", "url": server.url, "approval": "never", **fields}
    return project.client.call("POST", "/v1/mcp_servers", body)


def refresh(project: Project) -> Json:
    return project.client.call("POST", "/v1/mcp_servers/box/refresh")


def add(number: int) -> Answer:
    return calls(call(f"add{number}", "box_add", f'{{"a": {number}, "b": 1}}'))


def shown(request: ModelRequest) -> dict[str, Json]:
    """The tools that the model could call, by name."""
    offered: list[Json] = [one["function"] for one in request.body.get("tools", [])]
    return {one["name"]: one for one in offered}


def held(hold: Hold, *asked: Call) -> Answer:
    return Answer(calls=asked, hold=hold)


def called_so_far(request: ModelRequest) -> set[str]:
    return {call_id for call_id, _ in request.results}


# -- in the middle of a call ----------------------------------------------------------------------


def test_the_model_reads_that_a_call_may_have_taken_effect_and_the_next_one_works(
    project: Project, server: McpServer
) -> None:
    """Nobody does anything but start the server again, on its port."""
    register(project, server)
    hold = Hold()
    run = project.start(
        calls(call(1, "box_slow", "{}")),
        held(hold, *add(1).calls),
        text("fine"),
        tools=["box_slow", "box_add"],
    )
    project.until(run, "tool_call.progress")
    server.kill()
    hold.arrived()
    assert result_of(project.asked(), "c1") == UNKNOWN
    server.start()
    hold.release()
    assert project.end(run)["status"] == "completed"
    outcomes = [one["outcome"] for one in project.client.tool_calls(run["id"])]
    assert outcomes == ["outcome_unknown", "completed"]
    assert [one["what"] for one in server.seen()] == ["add"], "nothing was sent again"


def test_a_person_is_asked_what_became_of_a_call_and_has_it_made_again(
    project: Project, modern: McpServer
) -> None:
    register(project, modern)
    project.client.call("PATCH", "/v1/tools/box_slow", {"on_unknown": "ask"})
    run = project.start(calls(call(1, "box_slow", "{}")), text("fine"), tools=["box_slow"])
    project.until(run, "tool_call.progress")
    modern.restart()
    [asked] = project.settle(run)["required_actions"]
    assert asked["call_id"] == "c1"
    assert modern.seen() == []
    project.client.resolve(run["id"], "c1", resolution="retry")
    modern.wait_for("slow")
    modern.release()
    assert project.end(run)["status"] == "completed"
    [done] = results(project, run)
    assert (done["output"], done["is_error"]) == ({"result": "done"}, False)


def test_a_run_fails_where_that_is_wanted(project: Project, modern: McpServer) -> None:
    register(project, modern)
    project.client.call("PATCH", "/v1/tools/box_slow", {"on_unknown": "fail_run"})
    run = project.start(calls(call(1, "box_slow", "{}")), text("fine"), tools=["box_slow"])
    project.until(run, "tool_call.progress")
    modern.kill()
    ended = project.end(run)
    assert (ended["status"], ended["error"]["code"]) == ("failed", "tool_error")
    [lost] = project.client.tool_calls(run["id"])
    assert lost["outcome"] == "outcome_unknown"


def test_a_command_that_dies_in_a_call_is_started_again_for_the_next_one(project: Project) -> None:
    args = ["-m", "tests.support.mcp.process", "stdio"]
    body = {"name": "box", "command": sys.executable, "args": args, "approval": "never"}
    project.client.call("POST", "/v1/mcp_servers", body)
    run = project.start(
        calls(call(1, "box_pid", "{}")),
        calls(call(2, "box_slow", "{}")),
        calls(call(3, "box_pid", "{}")),
        text("fine"),
        tools=["box_pid", "box_slow"],
    )
    project.until(run, "tool_call.progress")
    [first] = results(project, run)
    os.kill(first["output"]["pid"], signal.SIGKILL)
    assert project.end(run)["status"] == "completed"
    _, lost, third = results(project, run)
    assert lost["output"] == UNKNOWN
    assert third["output"]["pid"] not in (None, first["output"]["pid"])


# -- back as another ------------------------------------------------------------------------------


def test_a_run_sees_what_a_server_lists_since_it_was_started_again(
    project: Project, server: McpServer, news: ToolNews
) -> None:
    """`picture` is gone, `echo` wants a volume, `grown` is new."""
    register(project, server)
    first, second = Hold(), Hold()

    def model(request: ModelRequest) -> Reply:
        called = called_so_far(request)
        if "cadd0" not in called:
            return add(0)
        if "c1" not in called:
            return held(first, call(1, "box_picture", "{}"))
        if "cadd1" not in called:
            return held(second, *add(1).calls)
        if "box_picture" in shown(request):
            return add(request.turn)
        if "c2" not in called:
            loud = call(3, "box_echo", '{"text": "hi", "volume": 2}')
            return calls(call(2, "box_picture", "{}"), loud)
        return text("fine")

    tools = ["box_add", "box_picture", "box_echo"]
    run = project.start(model=project.respond(model), tools=tools, limits=PATIENT)
    first.arrived()
    server.restart(changes="grow,shrink,reword")
    first.release()
    second.arrived()
    assert news.tool(project.client, "box_picture", version=2)["enabled"] is False
    second.release()
    assert project.end(run)["status"] == "completed"
    last = project.asked()[-1]
    assert shown(last)["box_echo"]["parameters"]["required"] == ["text", "volume"]
    assert result_of(project.asked(), "c1") in ("Unknown tool: picture", GONE)
    assert result_of(project.asked(), "c2") == GONE
    assert "HI" in result_of(project.asked(), "c3")
    grown = project.script(calls(call(1, "box_grown", "{}")), text("fine"), name="later")
    new = project.run(model=grown, tools=["box_grown"])
    [called] = project.client.tool_calls(new["id"])
    assert called["outcome"] == "completed"


def waiting_for_echo(project: Project) -> tuple[Json, Json]:
    """A run that has called a tool, and its approval."""
    replies = (add(0), calls(call(1, "box_echo", '{"text": "hi"}')), text("fine"))
    run = project.run(*replies, tools=["box_add", "box_echo"])
    [approval] = project.client.approvals(run_id=run["id"])
    return run, approval


def approve(project: Project, run: Json, approval: Json) -> Json:
    project.client.decide(approval["id"], "approve")
    return project.settle(run)


def test_a_tool_that_came_back_changed_is_asked_about_again(
    project: Project, server: McpServer, news: ToolNews
) -> None:
    register(project, server, approval=None)
    run, before = waiting_for_echo(project)
    server.restart(changes="describe")
    if server.legacy:
        refresh(project)  # it cannot say so by itself
    news.tool(project.client, "box_echo", version=2)
    assert approve(project, run, before)["status"] == "requires_action"
    assert server.seen() == []
    assert project.client.call("GET", f"/v1/approvals/{before['id']}")["status"] == "superseded"
    [again] = project.client.approvals(run_id=run["id"])
    assert (again["tool_version"], again["arguments"]) == (2, {"text": "hi"})
    assert approve(project, run, again)["status"] == "completed"
    assert [one["what"] for one in server.seen()] == ["echo"]


def test_an_approved_call_that_no_longer_fits_is_not_made(
    project: Project, modern: McpServer, news: ToolNews
) -> None:
    register(project, modern, approval=None)
    run, before = waiting_for_echo(project)
    modern.restart(changes="reword")
    news.tool(project.client, "box_echo", version=2)
    assert approve(project, run, before)["status"] == "completed"
    assert "arguments.volume: is missing" in result_of(project.asked(), "c1")
    assert modern.seen() == []


# -- while runs are under way ---------------------------------------------------------------------


def test_another_process_knows_what_a_session_was_told_and_the_other_way_round(
    start: Processes, model: ModelServer, server: McpServer
) -> None:
    """The worker has the session, and hears `list_changed`; the API is told to refresh."""
    start("worker")
    with (
        ToolNews(start.database_url) as news,
        running_on(start("api"), model) as running,
        running.project() as project,
    ):
        register(project, server)
        gone, back = Hold(), Hold()

        def scripted(request: ModelRequest) -> Reply:
            called, there = called_so_far(request), "box_picture" in shown(request)
            if "c1" not in called:
                return calls(call(1, "box_change", '{"what": "shrink"}'))
            if "cadd1" not in called:
                return held(gone, *add(1).calls)
            if "c2" not in called:
                it = call(2, "box_add", '{"a": 0, "b": 0}')
                return add(request.turn) if there else held(back, it)
            if "c3" not in called:
                return calls(call(3, "box_picture", "{}")) if there else add(request.turn)
            return text("fine")

        tools = ["box_add", "box_change", "box_picture"]
        run = project.start(model=project.respond(scripted), tools=tools, limits=PATIENT)
        gone.arrived()
        assert news.tool(project.client, "box_picture", version=2)["enabled"] is False
        gone.release()
        back.arrived()
        server.restart()
        assert "box_picture" in refresh(project)["tool_names"]
        back.release()
        assert project.end(run)["status"] == "completed"
        done = {one["call_id"]: one for one in project.client.tool_calls(run["id"])}
        assert done["c3"]["outcome"] == "completed"
