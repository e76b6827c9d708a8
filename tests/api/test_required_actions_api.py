"""/v1/required_actions, the inbox of a project, and what a client loads for it: details without
large arguments, and nothing that it has already."""

import json

from tests.api.project import Project, call
from tests.api.test_client_tools_api import waiting as waits_for_a_client
from tests.api.test_input_required_api import asking
from tests.support.models.chat_server import Answer, calls, text
from tests.support.services.client import Json
from tests.support.tools.server import Behaviour

PATH = "/v1/required_actions"


def asks(project: Project, tool: str, name: str, arguments: str = '{"x":"1"}') -> Json:
    asked = Answer("I will do it.", calls=(call(1, tool, arguments),))
    model = project.script(asked, text("Done."), name=name)
    return project.settle(project.start(model=model, tools=[tool]))


def test_an_unknown_outcome_stays_listed_behind_many_newer_runs(project: Project) -> None:
    project.tool("pay", Behaviour("reset"), on_unknown="ask")
    run = project.run(calls(call(1, "pay")), text("Done."), tools=["pay"])
    for _ in range(101):
        assert project.start(model="offline:rules", wait=30)["status"] == "completed"
    found = project.client.call("GET", PATH)
    [action] = found["data"]
    assert (action["type"], action["run_id"], action["call_id"]) == ("resolve", run["id"], "c1")
    assert found["counts"] == {"approval": 0, "resolve": 1, "tool_result": 0}
    project.client.resolve(run["id"], "c1", resolution="completed", output="paid")
    assert project.client.call("GET", PATH)["data"] == []
    project.end(run)


def test_unknown_outcomes_come_first_then_what_expires_soon_then_the_oldest(
    project: Project,
) -> None:
    project.tool("late", approval="always", approval_expires_seconds=86_400)
    project.tool("soon", approval="always", approval_expires_seconds=3_000)
    project.tool("sooner", approval="always", approval_expires_seconds=1_500)
    project.tool("pay", Behaviour("reset"), on_unknown="ask")
    client_run = waits_for_a_client(project)
    for tool in ("late", "soon", "sooner", "pay"):
        asks(project, tool, tool)
    found = project.client.call("GET", PATH)
    assert [one["tool"] for one in found["data"]][:4] == ["pay", "sooner", "soon", "late"]
    assert found["data"][4]["run_id"] == client_run["id"]
    assert found["counts"] == {"approval": 3, "resolve": 1, "tool_result": 1}
    first = project.client.call("GET", PATH, limit=1)
    assert ([one["tool"] for one in first["data"]], first["has_more"]) == (["pay"], True)
    assert first["counts"] == found["counts"]


def test_a_tools_question_is_shown_with_its_call(project: Project) -> None:
    run, _ = asking(project, Behaviour("return", value="paid"))
    [action] = project.client.call("GET", PATH)["data"]
    assert action["type"] == "tool_result"
    shown = project.client.call("GET", f"/v1/runs/{run['id']}/tool_calls/{action['call_id']}")
    [required] = run["required_actions"]
    assert shown["requests"] == required["requests"]
    assert (shown["phase"], shown["arguments"]) == ("awaiting_input", required["arguments"])


def test_large_arguments_are_left_out_and_loaded_on_demand(project: Project) -> None:
    project.tool("mail", approval="always", parameters={"type": "object"}, strict=False)
    arguments = {"to": "ada", "body": "x" * 1_000_000}
    run = asks(project, "mail", "mail", json.dumps(arguments))
    [action] = project.client.call("GET", PATH)["data"]
    of_call = f"/v1/runs/{run['id']}/tool_calls/c1"
    of_approval = f"/v1/approvals/{action['approval_id']}"
    for path in (of_call, of_approval):
        small = project.client.call("GET", path, max_arguments_bytes=4096)
        assert small["arguments"] == {"to": "ada"}
        assert small["omitted_arguments"] == [{"name": "body", "bytes": 1_000_002}]
        whole = project.client.call("GET", path)
        assert (whole["arguments"], whole["omitted_arguments"]) == (arguments, [])
        assert whole["digest"] == small["digest"]
    [listed] = project.client.call("GET", "/v1/approvals", max_arguments_bytes=0)["data"]
    assert listed["arguments"] == {}


def test_an_approval_has_the_words_with_which_the_model_asked(project: Project) -> None:
    project.tool("pay", approval="always")
    asks(project, "pay", "pay")
    [approval] = project.client.approvals()
    assert approval["model_message"] == "I will do it."


def test_an_unknown_call_is_not_found(project: Project) -> None:
    run = project.run(text("Done."))
    path = f"/v1/runs/{run['id']}/tool_calls/none"
    project.client.refused(404, "call_not_found", "GET", path)


def test_an_answer_that_has_not_changed_is_not_sent_again(project: Project) -> None:
    project.tool("pay", approval="always")
    asks(project, "pay", "one")
    first = project.client.request("GET", PATH)
    known = {"If-None-Match": first.headers["ETag"]}
    again = project.client.request("GET", PATH, headers=known)
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["ETag"] == first.headers["ETag"]
    asks(project, "pay", "two")
    changed = project.client.request("GET", PATH, headers=known)
    assert changed.status_code == 200
    assert len(changed.json()["data"]) == 2
    assert project.client.request("GET", "/v1/runs", headers=known).status_code == 200
