"""Agents: their versions, what no agent can be, and runs of agents that have changed or gone."""

from typing import Any

import pytest

from tests.api.project import Project, call
from tests.support.models.chat_server import calls, text
from tests.support.services.client import Json

MODEL = "offline:rules"


def register(project: Project, name: str = "clerk", **fields: Any) -> Json:
    body = {"name": name, **({"model": MODEL} if "kind" not in fields else {}), **fields}
    return project.client.call("POST", "/v1/agents", body)


def change(project: Project, name: str = "clerk", **fields: Any) -> Json:
    return project.client.call("PATCH", f"/v1/agents/{name}", fields)


def versions(project: Project, name: str = "clerk", **params: Any) -> Json:
    return project.client.call("GET", f"/v1/agents/{name}/versions", **params)


def counted(project: Project, count: int) -> list[Json]:
    """An agent with so many versions, the newest first."""
    made = [register(project, instructions="1")]
    made += [change(project, instructions=f"{n}") for n in range(2, count + 1)]
    return made[::-1]


@pytest.mark.parametrize(
    "choice",
    [
        {"name": "pay"},
        {"type": "function", "name": "pay"},
        {"type": "function", "function": {"name": "pay"}},
    ],
)
def test_a_tool_choice_in_a_format_of_openai_is_shown_in_runwards(
    project: Project, choice: Json
) -> None:
    project.tool("pay")
    made = register(project, tools=["pay"], tool_choice=choice)
    assert made["tool_choice"] == {"name": "pay"}
    assert change(project, tool_choice="none")["tool_choice"] == "none"
    assert change(project, tool_choice=choice)["tool_choice"] == {"name": "pay"}
    run = project.run(text("done"), tools=["pay"], tool_choice=choice)
    assert run["status"] == "completed"
    [request] = project.asked()
    assert request.body["tool_choice"] == {"type": "function", "function": {"name": "pay"}}


# -- versions -------------------------------------------------------------------------------------


def test_every_change_is_a_version_that_can_be_read_again(project: Project) -> None:
    made = counted(project, 3)
    found = versions(project)
    assert [one["version"] for one in found["data"]] == [3, 2, 1]
    assert [one["instructions"] for one in found["data"]] == ["3", "2", "1"]
    assert found["data"][0] == made[0] | {"created_at": found["data"][0]["created_at"]}
    for one in found["data"]:
        path = "/v1/agents/clerk"
        read = project.client.call("GET", path, version=one["version"])
        assert (read["version"], read["instructions"]) == (one["version"], one["instructions"])
    assert project.client.call("GET", "/v1/agents/clerk")["version"] == 3


def test_versions_are_read_in_pages(project: Project) -> None:
    counted(project, 5)
    seen: list[int] = []
    after = None
    while True:
        page = versions(project, limit=2, after=after)
        seen += [one["version"] for one in page["data"]]
        if not page["has_more"]:
            break
        after = page["last_id"]
    assert seen == [5, 4, 3, 2, 1]
    before = versions(project, limit=2, before=page["first_id"])
    assert ([one["version"] for one in before["data"]], before["has_more"]) == ([3, 2], True)
    first = versions(project, limit=2, before=before["first_id"])
    assert ([one["version"] for one in first["data"]], first["has_more"]) == ([5, 4], False)


@pytest.mark.parametrize("end", ["?version=0", "?version=x", "/versions?after=0"])
def test_a_version_is_a_number_from_one(project: Project, end: str) -> None:
    register(project)
    project.client.refused(422, "invalid_request", "GET", f"/v1/agents/clerk{end}")


def test_a_version_that_never_was_is_not_found(project: Project) -> None:
    register(project)
    for path in ("clerk?version=2", "nobody?version=1", "nobody/versions"):
        project.client.refused(404, "agent_not_found", "GET", f"/v1/agents/{path}")


def test_a_deleted_agent_has_no_versions_until_it_is_registered_again(project: Project) -> None:
    counted(project, 2)
    project.client.call("DELETE", "/v1/agents/clerk")
    for path in ("clerk", "clerk?version=1", "clerk/versions"):
        project.client.refused(404, "agent_not_found", "GET", f"/v1/agents/{path}")
    assert register(project)["version"] == 3
    assert [one["version"] for one in versions(project)["data"]] == [3, 2, 1]


# -- what no agent can be -------------------------------------------------------------------------

WRONG: list[tuple[str, Json, str]] = [
    ("no model", {}, "model"),
    ("agents without a workflow", {"model": MODEL, "agents": ["one"]}, "agents"),
    ("a workflow of nobody", {"kind": "sequential"}, "agents"),
    ("a workflow with a model", {"kind": "loop", "agents": ["one"], "model": MODEL}, "model"),
    ("a workflow with tools", {"kind": "parallel", "agents": ["one"], "tools": ["pay"]}, "tools"),
    (
        "a workflow that hands over",
        {"kind": "sequential", "agents": ["one"], "handoffs": ["two"]},
        "handoffs",
    ),
    ("an unknown kind", {"kind": "circle", "agents": ["one"]}, "kind"),
    ("rounds of none", {"kind": "loop", "agents": ["one"], "max_iterations": 0}, "max_iterations"),
    ("33 agents", {"kind": "sequential", "agents": ["one"] * 33}, "agents"),
    ("17 handoffs", {"model": MODEL, "handoffs": ["one"] * 17}, "handoffs"),
    ("a handoff of no name", {"model": MODEL, "handoffs": [""]}, "handoffs.0"),
    ("another's choice", {"model": MODEL, "tool_choice": {"name": "pay"}}, "tool_choice.name"),
]


@pytest.mark.parametrize(("fields", "path"), [pytest.param(f, p, id=n) for n, f, p in WRONG])
def test_what_no_agent_can_be_is_refused_by_field(
    project: Project, fields: Json, path: str
) -> None:
    body = {"name": "clerk", **fields}
    problem = project.client.refused(422, "invalid_request", "POST", "/v1/agents", body)
    assert path in [error["path"] for error in problem["errors"]]
    assert project.client.call("GET", "/v1/agents")["data"] == []


def test_a_change_is_checked_like_the_whole_agent(project: Project) -> None:
    register(project)
    body = {"kind": "sequential"}
    problem = project.client.refused(422, "invalid_request", "PATCH", "/v1/agents/clerk", body)
    assert {error["path"] for error in problem["errors"]} == {"agents", "model"}
    assert versions(project)["data"][0]["version"] == 1


# -- runs of agents -------------------------------------------------------------------------------


def refused_run(project: Project, code: str, **body: Any) -> list[str]:
    problem = project.client.refused(422, code, "POST", "/v1/runs", {"input": "go", **body})
    return [error["path"] for error in problem["errors"]]


def test_agents_are_looked_up_when_a_run_starts(project: Project) -> None:
    register(project, handoffs=["payer"])
    register(project, "round", kind="sequential", agents=["clerk", "nobody"])
    assert refused_run(project, "unknown_agent", agent="clerk") == ["handoffs.0"]
    assert refused_run(project, "unknown_agent", agent="round") == ["agents.1"]
    assert refused_run(project, "unknown_agent", agent="nobody") == ["agent"]
    assert refused_run(project, "unknown_agent", model=MODEL, handoffs=["payer"]) == ["handoffs.0"]


def test_a_run_of_a_deleted_agent_goes_on_and_no_other_starts(project: Project) -> None:
    project.tool("pay", approval="always")
    model = project.script(calls(call(1, "pay")), text("Paid."))
    register(project, model=model, tools=["pay"])
    run = project.settle(project.client.start_run_of("clerk"))
    project.client.call("DELETE", "/v1/agents/clerk")
    project.client.decide_call(run["id"], "c1", "approve")
    ended = project.settle(run)
    assert (ended["agent"], ended["output"]) == ("clerk", "Paid.")
    assert refused_run(project, "unknown_agent", agent="clerk") == ["agent"]


def test_a_workflow_has_no_model(project: Project) -> None:
    register(project, model=project.script(text("done")))
    made = register(project, "round", kind="sequential", agents=["clerk"])
    assert (made["kind"], made["model"]) == ("sequential", None)
    run = project.settle(project.client.start_run_of("round"))
    assert (run["agent"], run["model"], run["output"]) == ("round", None, "done")


def test_the_first_of_several_models_is_not_the_whole_answer(project: Project) -> None:
    models = [MODEL, "offline:rules"]
    assert register(project, model=models)["model"] == models
