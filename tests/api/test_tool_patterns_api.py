"""Patterns in `tools` select registered tools when a run starts."""

from tests.api.project import Project, call
from tests.support.models.chat_server import calls, text

SELECTED = ["crm_find", "crm_update"]


def register(project: Project) -> None:
    for name in (*reversed(SELECTED), "pay", "crmx"):
        project.tool(name)


def refused_paths(project: Project, **fields: object) -> list[str]:
    body = {"input": "x", **fields}
    problem = project.client.refused(422, "invalid_request", "POST", "/v1/runs", body)
    return [error["path"] for error in problem["errors"]]


def test_a_run_keeps_the_tools_that_a_pattern_selected(project: Project) -> None:
    register(project)
    run = project.run(calls(call(1, "crm_find")), text("done"), tools=["pay", "crm_*", "crm_find"])
    assert run["output"] == "done"
    assert project.asked()[0].tool_names == ["pay", *SELECTED]
    shown = project.client.call("GET", f"/v1/runs/{run['id']}", include="config")
    assert shown["config"]["tools"] == ["pay", *SELECTED]
    assert len(project.hits("crm_find")) == 1


def test_an_agent_keeps_its_pattern_and_its_child_run_selects_anew(project: Project) -> None:
    register(project)
    model = project.script(text("a"), text("b"), name="clerk")
    body = {"name": "clerk", "model": model, "tools": ["crm_*"], "tool_choice": "none"}
    assert project.client.call("POST", "/v1/agents", body)["tools"] == ["crm_*"]
    project.end(project.client.start_run_of("clerk"))
    project.tool("crm_delete")
    project.client.call(
        "POST", "/v1/tools", {"name": "ask_clerk", "type": "agent", "agent": "clerk"}
    )
    run = project.run(
        calls(call(1, "ask_clerk", '{"input": "go"}')), text("done"), tools=["ask_clerk"]
    )
    assert run["output"] == "done"
    names = [request.tool_names for request in project.asked("clerk")]
    assert names == [SELECTED, ["crm_delete", *SELECTED]]


def test_a_pattern_that_selects_nothing_or_is_none_is_refused(project: Project) -> None:
    register(project)
    assert refused_paths(project, model="offline:rules", tools=["pay", "erp_*"]) == ["tools.1"]
    assert refused_paths(project, model="offline:rules", tools=["c*m"]) == ["tools.0"]
    assert refused_paths(project, model="offline:rules", tools=["*"]) == ["tools.0"]


def test_a_tool_choice_may_name_a_selected_tool(project: Project) -> None:
    register(project)
    agent = {"name": "clerk", "model": "offline:rules", "tools": ["crm_*"]}
    chosen = {**agent, "tool_choice": {"name": "crm_find"}}
    assert project.client.call("POST", "/v1/agents", chosen)["tool_choice"] == {"name": "crm_find"}
    wrong = {**agent, "name": "other", "tool_choice": {"name": "pay"}}
    project.client.refused(422, "invalid_request", "POST", "/v1/agents", wrong)
