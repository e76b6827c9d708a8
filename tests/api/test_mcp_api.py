"""MCP servers over the API and through runs, with real servers over streamable HTTP."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from aiohttp import web

from tests.api.project import Project, call, of_type, result_of, types_of
from tests.hostile.mcp_peer import TOOL, McpPeer, plain, rpc
from tests.support.mcp.server import McpServer
from tests.support.models.chat_server import calls, text
from tests.support.services.client import Json
from tests.support.services.service import free_port
from tests.support.serving import Hold
from tests.support.tools.news import ToolNews


@pytest.fixture(params=["2026", "2025"])
def server(request: pytest.FixtureRequest) -> Iterator[McpServer]:
    """Of either of the protocol's generations."""
    with McpServer(legacy=request.param == "2025") as server:
        yield server


@pytest.fixture
def modern() -> Iterator[McpServer]:
    with McpServer() as server:
        yield server


def register(project: Project, server: McpServer, **fields: object) -> Json:
    body = {"name": "box", "url": server.url, **fields}
    return project.client.call("POST", "/v1/mcp_servers", body)


def test_registering_connects_and_makes_tools_of_what_is_listed(
    project: Project, server: McpServer
) -> None:
    made = register(project, server)
    assert made["object"] == "mcp_server"
    assert made["version"] == 1
    assert "box_echo" in made["tool_names"]
    assert project.client.call("GET", "/v1/mcp_servers/box") == made
    assert project.client.call("GET", "/v1/mcp_servers")["data"] == [made]
    tool = project.client.call("GET", "/v1/tools/box_add")
    assert tool["type"] == "mcp"
    assert tool["mcp"] == {"server": "box", "tool": "add"}
    assert tool["url"] == server.url
    assert tool["parameters"]["required"] == ["a", "b"]
    assert tool["output_schema"]["type"] == "object"
    assert tool["description"] == "Add two numbers."
    assert tool["metadata"]["mcp"]["annotations"] == {"readOnlyHint": True}
    assert tool["approval"] == "never"
    assert project.client.call("GET", "/v1/tools/box_echo")["approval"] == "always"


def test_a_run_calls_its_tools_and_the_model_reads_what_they_say(
    project: Project, server: McpServer
) -> None:
    register(project, server, approval="never")
    run = project.run(
        calls(
            call(1, "box_echo", '{"text":"hi"}'),
            call(2, "box_add", '{"a":2,"b":3}'),
            call(3, "box_fail", "{}"),
            call(4, "box_picture", "{}"),
        ),
        text("fine"),
        tools=["box_echo", "box_add", "box_fail", "box_picture"],
    )
    assert run["status"] == "completed"
    said = project.asked()
    assert '"hi"' in result_of(said, "c1")
    assert result_of(said, "c2") == '{"sum":5}'
    assert "The till is closed." in result_of(said, "c3")
    outcomes = {one["call_id"]: one for one in project.client.tool_calls(run["id"])}
    assert [outcomes[f"c{n}"]["outcome"] for n in (1, 2, 3, 4)] == [
        "completed",
        "completed",
        "failed",
        "completed",
    ]
    assert outcomes["c3"]["reason"] == "tool_error"


def test_a_person_approves_the_call_of_a_tool_that_does_not_say_that_it_only_reads(
    project: Project, modern: McpServer
) -> None:
    register(project, modern)
    run = project.run(calls(call(1, "box_echo", '{"text":"hi"}')), text("fine"), tools=["box_echo"])
    assert run["status"] == "requires_action"
    assert modern.seen() == []
    [approval] = project.client.approvals(run_id=run["id"])
    project.client.decide(approval["id"], "approve")
    assert project.settle(run)["status"] == "completed"
    assert [one["what"] for one in modern.seen()] == ["echo"]


def test_a_run_can_use_a_server_and_change_the_settings_of_its_tools(
    project: Project, modern: McpServer
) -> None:
    names = register(project, modern)["tool_names"]
    made = project.client.call(
        "POST",
        "/v1/agents",
        {"name": "all", "model": "offline:rules", "tools": [{"type": "mcp", "server": "box"}]},
    )
    assert made["tools"] == sorted(names)
    add = {"type": "mcp", "server": "box", "tool": "add", "approval": "always"}
    echo = {"type": "mcp", "server": "box", "tool": "echo", "approval": "never"}
    script = calls(call(1, "box_echo", '{"text":"hi"}'), call(2, "box_add", '{"a":2,"b":3}'))
    run = project.run(script, text("fine"), tools=[add, echo])
    [approval] = project.client.approvals(run_id=run["id"])
    assert approval["tool"] == "box_add"
    project.client.decide(approval["id"], "approve")
    assert project.settle(run)["status"] == "completed"
    assert sorted(one["what"] for one in modern.seen()) == ["add", "echo"]
    project.client.call("DELETE", "/v1/agents/all")


def test_a_server_that_cannot_be_reached_is_424_and_nothing_is_stored(project: Project) -> None:
    body = {"name": "box", "url": f"http://127.0.0.1:{free_port()}/mcp"}
    problem = project.client.refused(424, "mcp_unreachable", "POST", "/v1/mcp_servers", body)
    assert "no connection" in problem["detail"]
    assert project.client.call("GET", "/v1/mcp_servers")["data"] == []
    assert project.client.call("GET", "/v1/tools")["data"] == []


def test_headers_arrive_and_their_values_are_never_shown_again(
    project: Project, server: McpServer
) -> None:
    made = register(
        project,
        server,
        headers={"X-Team": "blue-team", "Authorization": "Bearer top-secret"},
        approval="never",
    )
    assert made["headers"] == {"X-Team": "…", "Authorization": "…"}
    project.run(calls(call(1, "box_echo", '{"text":"hi"}')), text("fine"), tools=["box_echo"])
    [seen] = modern_calls(server, "echo")
    assert seen["headers"]["x-team"] == "blue-team"
    assert seen["headers"]["authorization"] == "Bearer top-secret"
    shown = str([project.client.call("GET", path) for path in ("/v1/mcp_servers", "/v1/tools")])
    assert "top-secret" not in shown
    assert "blue-team" not in shown


def modern_calls(server: McpServer, what: str) -> list[Json]:
    return [one for one in server.seen() if one["what"] == what]


def test_secrets_are_not_sent_to_another_url_unless_they_are_given_again(
    project: Project, modern: McpServer
) -> None:
    register(project, modern, headers={"Authorization": "Bearer top-secret"})
    with McpServer() as elsewhere:
        path = "/v1/mcp_servers/box"
        problem = project.client.refused(
            422, "invalid_request", "PATCH", path, {"url": elsewhere.url}
        )
        assert problem["errors"][0]["path"] == "headers"
        body: Json = {"url": elsewhere.url, "headers": {}}
        assert project.client.call("PATCH", path, body)["version"] == 2
        assert project.client.call("GET", "/v1/tools/box_add")["url"] == elsewhere.url
        assert project.client.call("GET", "/v1/tools/box_add")["version"] == 2


def test_filters_take_and_leave_tools_by_the_servers_names(
    project: Project, modern: McpServer
) -> None:
    made = register(
        project, modern, prefix="b", tools={"allow": ["echo", "add", "die"], "deny": ["die"]}
    )
    assert made["tool_names"] == ["b_echo", "b_add"]
    changed = project.client.call("PATCH", "/v1/mcp_servers/box", {"tools": {"allow": ["add"]}})
    assert changed["tool_names"] == ["b_add"]
    assert project.client.call("GET", "/v1/tools/b_echo")["enabled"] is False


def test_a_name_that_is_taken_is_refused_and_both_are_named(
    project: Project, modern: McpServer
) -> None:
    project.tool("box_echo")
    body = {"name": "box", "url": modern.url}
    problem = project.client.refused(409, "already_exists", "POST", "/v1/mcp_servers", body)
    assert "'echo'" in problem["detail"]
    assert "'box_echo'" in problem["detail"]
    assert project.client.call("GET", "/v1/mcp_servers")["data"] == []
    assert [one["name"] for one in project.client.call("GET", "/v1/tools")["data"]] == ["box_echo"]


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://10.0.0.1/mcp", "not public"),
        ("http://169.254.169.254/mcp", "metadata"),
        ("http://[::1]:8000/mcp", "not public"),
        ("http://user:pw@127.0.0.1/mcp", "user name or password"),
        ("ftp://127.0.0.1/mcp", "http://"),
    ],
)
def test_a_private_address_is_refused_at_registration(
    project: Project, url: str, said: str
) -> None:
    body = {"name": "box", "url": url}
    problem = project.client.refused(422, "invalid_request", "POST", "/v1/mcp_servers", body)
    assert problem["errors"][0]["path"] == "url"
    assert said in problem["errors"][0]["message"]


def test_a_project_sets_policy_over_a_tool_and_gives_it_back(
    project: Project, modern: McpServer
) -> None:
    register(project, modern)
    path = "/v1/tools/box_echo"
    changed = project.client.call("PATCH", path, {"approval": "never", "max_output_bytes": 300})
    assert (changed["approval"], changed["version"]) == ("never", 2)
    project.client.refused(422, "invalid_request", "PATCH", path, {"description": "mine"})
    project.client.refused(409, "conflict", "DELETE", path)
    project.client.call("POST", "/v1/mcp_servers/box/refresh")
    assert project.client.call("GET", path)["approval"] == "never"
    assert project.client.call("PATCH", path, {"approval": None})["approval"] == "always"


def test_progress_is_seen_and_a_timeout_is_told_to_the_model_and_the_server(
    project: Project, server: McpServer
) -> None:
    register(project, server, approval="never", timeout_seconds=1)
    run = project.run(calls(call(1, "box_slow", "{}")), text("fine"), tools=["box_slow"])
    assert run["status"] == "completed"
    events = project.client.events(run["id"])
    [progress] = of_type(events, "tool_call.progress")
    assert (progress["progress"], progress["message"]) == (0.25, "a quarter")
    [done] = project.client.tool_calls(run["id"])
    assert done["outcome"] == "timed_out"
    server.wait_for("cancelled")


def test_a_cancelled_run_cancels_its_call_at_the_server(
    project: Project, server: McpServer
) -> None:
    register(project, server, approval="never")
    run = project.start(calls(call(1, "box_slow", "{}")), tools=["box_slow"])
    project.until(run, "tool_call.progress")
    project.client.cancel(run["id"])
    server.wait_for("cancelled")
    assert project.end(run)["status"] == "cancelled"


def test_a_server_killed_in_the_middle_of_a_call_leaves_the_outcome_unknown_and_is_found_again(
    project: Project, server: McpServer
) -> None:
    register(project, server, approval="never")
    run = project.start(calls(call(1, "box_slow", "{}")), text("fine"), tools=["box_slow"])
    project.until(run, "tool_call.progress")
    server.kill()
    assert project.end(run)["status"] == "completed"
    [lost] = project.client.tool_calls(run["id"])
    assert lost["outcome"] == "outcome_unknown"
    assert "may or may not have taken effect" in result_of(project.asked(), "c1")
    assert "tool_call.outcome_unknown" in types_of(project.client.events(run["id"]))
    server.start()
    model = project.script(calls(call(1, "box_add", '{"a":1,"b":1}')), text("x"), name="again")
    again = project.run(model=model, tools=["box_add"])
    [found] = project.client.tool_calls(again["id"])
    assert (found["outcome"], found["output"]) == ("completed", {"sum": 2})


def test_a_server_that_is_down_is_surely_not_reached(project: Project, server: McpServer) -> None:
    register(project, server, approval="never", timeout_seconds=10)
    server.kill()
    run = project.run(calls(call(1, "box_add", '{"a":1,"b":1}')), text("x"), tools=["box_add"])
    [done] = project.client.tool_calls(run["id"])
    assert (done["outcome"], done["reason"]) == ("failed", "not_sent")
    server.start()


def test_a_changed_list_makes_next_versions_and_disables_what_is_gone(
    project: Project, server: McpServer
) -> None:
    register(project, server)
    path = "/v1/tools/box_change/test"
    with ToolNews(project.running.service.database_url) as news:
        project.client.call("POST", path, {"arguments": {"what": "grow"}})
        news.tool(project.client, "box_grown", version=1)
        project.client.call("POST", path, {"arguments": {"what": "shrink"}})
        assert news.tool(project.client, "box_picture", version=2)["enabled"] is False
        ask = calls(call(1, "box_echo", '{"text":"hi"}'))
        run = project.run(ask, text("fine"), tools=["box_echo"])
        [before] = project.client.approvals(run_id=run["id"])
        project.client.call("POST", path, {"arguments": {"what": "reword"}})
        changed = news.tool(project.client, "box_echo", version=2)
        assert changed["parameters"]["required"] == ["text", "volume"]
    project.client.request(
        "POST", f"/v1/approvals/{before['id']}/decision", {"decision": "approve"}
    )
    project.settle(run)
    assert modern_calls(server, "echo") + modern_calls(server, "shout") == []


def test_a_list_that_changed_while_nobody_looked_is_refreshed_on_demand(
    project: Project, modern: McpServer
) -> None:
    register(project, modern)
    modern.restart(without="fail,slow")
    shown = project.client.call("POST", "/v1/mcp_servers/box/refresh")
    assert "box_fail" not in shown["tool_names"]
    gone = project.client.call("GET", "/v1/tools/box_fail")
    assert (gone["enabled"], gone["version"]) == (False, 2)
    modern.restart(without="slow")
    project.client.call("POST", "/v1/mcp_servers/box/refresh")
    back = project.client.call("GET", "/v1/tools/box_fail")
    assert (back["enabled"], back["version"]) == (True, 3)


def test_a_refresh_of_the_former_address_is_refused(project: Project) -> None:
    hold = Hold()

    async def listed_late(request: web.Request, asked: Any) -> web.StreamResponse:
        await hold.reach()
        return await plain(request, asked)

    with McpPeer() as peer, ThreadPoolExecutor(1) as pool:
        project.client.call("POST", "/v1/mcp_servers", {"name": "box", "url": peer.url_of("a")})
        tools = [{**TOOL, "name": "other"}]

        async def listed(_request: web.Request, asked: Any) -> web.Response:
            body = rpc(asked["id"], result={"tools": tools})
            return web.Response(body=body, content_type="application/json")

        peer.answers |= {("a", "tools/list"): listed_late, ("b", "tools/list"): listed}
        refresh = pool.submit(project.client.request, "POST", "/v1/mcp_servers/box/refresh")
        hold.arrived()
        project.client.call("PATCH", "/v1/mcp_servers/box", {"url": peer.url_of("b")})
        hold.release()
        refused = refresh.result()
    shown = project.client.call("GET", "/v1/mcp_servers/box")
    assert shown["tool_names"] == ["box_other"]
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")


def test_a_deleted_server_takes_its_tools_along(project: Project, modern: McpServer) -> None:
    first = register(project, modern)
    project.client.call("DELETE", "/v1/mcp_servers/box")
    project.client.refused(404, "mcp_server_not_found", "GET", "/v1/mcp_servers/box")
    project.client.refused(404, "tool_not_found", "GET", "/v1/tools/box_echo")
    again = register(project, modern)
    assert again["id"] != first["id"]
    assert project.client.call("GET", "/v1/tools/box_echo")["version"] == 2


def test_one_key_registers_once(project: Project, modern: McpServer) -> None:
    body = {"name": "box", "url": modern.url}
    headers = {"Idempotency-Key": "once"}
    first = project.client.request("POST", "/v1/mcp_servers", body, headers=headers)
    modern.kill()
    second = project.client.request("POST", "/v1/mcp_servers", body, headers=headers)
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json() == second.json()
    modern.start()


def test_a_command_that_the_operator_did_not_allow_is_refused(project: Project) -> None:
    body = {"name": "box", "command": "/bin/sh", "args": ["-c", "true"]}
    problem = project.client.refused(422, "invalid_request", "POST", "/v1/mcp_servers", body)
    assert problem["errors"][0]["path"] == "command"
    assert "RUNWARD_MCP_COMMANDS" in problem["errors"][0]["message"]
