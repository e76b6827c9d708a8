"""Agents together, over HTTP: handing a run over, workflows, what tools share between them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.contract import Contract
from tests.api.project import CheckedClient, Project, Running
from tests.support.models.chat_server import Answer, Call, ModelServer, calls, text
from tests.support.postgres import Databases
from tests.support.services.client import Json
from tests.support.services.service import BOOTSTRAP_KEY, Service
from tests.support.tools.server import ToolServer

ENV = {"RUNWARD_PLUGINS": "tests.support.plugins.team"}


@pytest.fixture(scope="module")
def running(migrated_databases: Databases) -> Iterator[Running]:
    """A service of its own, with plugins."""
    with (
        migrated_databases.migrated() as database_url,
        ModelServer() as model,
        ToolServer() as tools,
        Service("serve", database_url, openai_base_url=model.base_url, env=ENV) as service,
        service.client() as plain,
    ):
        contract = Contract(plain.call("GET", "/openapi.json"))
        with CheckedClient(service.url, BOOTSTRAP_KEY, contract) as operator:
            yield Running(service, operator, contract, model, tools)


def use(call_id: str, name: str, **arguments: Any) -> Call:
    return Call(call_id, name, json.dumps(arguments))


def agent(project: Project, agent_name: str, *answers: Answer, **fields: Any) -> None:
    """With a model of its own that gives these answers."""
    model = project.script(*answers, name=agent_name)
    body = {"name": agent_name, "model": model, **fields}
    project.client.call("POST", "/v1/agents", body)


def workflow(project: Project, kind: str, *agents: str, **fields: Any) -> Json:
    run = project.client.call(
        "POST", "/v1/runs", {"kind": kind, "agents": agents, "input": "begin", **fields}
    )
    return project.client.settle(run["id"])


def finished(project: Project, **fields: Any) -> Json:
    run = project.client.call("POST", "/v1/runs", {"input": "go", **fields})
    return project.client.settle(run["id"])


def asked(project: Project, agent_name: str) -> list[str]:
    """What the user's messages to an agent said, one a request."""
    requests = project.model.requests(project.model_name(agent_name))
    return [request.messages[-1]["content"] for request in requests]


# -- handing over ---------------------------------------------------------------------------------


def test_a_tool_may_hand_the_run_over(project: Project) -> None:
    agent(project, "second", text("mine now"))
    turn = calls(use("c1", "hand_to", agent="second"))
    main = project.script(turn)
    run = finished(project, model=main, tools=["hand_to"], handoffs=["second"])
    assert (run["status"], run["output"], run["agent"]) == ("completed", "mine now", "second")
    events = project.client.events(run["id"])
    [changed] = [one["data"] for one in events if one["type"] == "handoff.completed"]
    assert changed == {"from": None, "to": "second", "turn": 1}
    [items] = [one for one in project.client.items(run["id"]) if one.get("role") == "assistant"]
    assert (items["agent"], items["turn"]) == ("second", 2)


def test_a_tool_cannot_hand_the_run_to_just_anybody(project: Project) -> None:
    agent(project, "second", text("mine now"))
    main = project.script(calls(use("c1", "hand_to", agent="second")), text("then not"))
    run = finished(project, model=main, tools=["hand_to"])
    assert (run["output"], run["agent"]) == ("then not", None)


def test_agents_may_hand_a_run_back_and_forth(project: Project) -> None:
    back, forth = Call("c2", "transfer_to_first"), Call("c1", "transfer_to_second")
    agent(project, "first", calls(forth), text("home"), handoffs=["second"])
    agent(project, "second", calls(back), handoffs=["first"])
    run = finished(project, agent="first")
    assert (run["status"], run["output"], run["turn"]) == ("completed", "home", 3)
    shown = project.model.requests(project.model_name("second"))[0].tool_names
    assert shown == ["transfer_to_first"]


def test_limits_of_the_start_hold_whoever_has_the_run(project: Project) -> None:
    agent(project, "second", *[calls(use("c2", "look_up", key="x"))] * 9, tools=["look_up"])
    main = project.script(calls(Call("c1", "transfer_to_second")))
    run = finished(project, model=main, handoffs=["second"], limits={"max_turns": 2})
    assert (run["status"], run["turn"]) == ("incomplete", 2)


# -- workflows ------------------------------------------------------------------------------------


def test_a_sequence_hands_each_output_on(project: Project) -> None:
    agent(project, "one", text("from one"))
    agent(project, "two", text("from two"))
    run = workflow(project, "sequential", "one", "two")
    assert (run["status"], run["output"], run["model"]) == ("completed", "from two", None)
    assert (asked(project, "one"), asked(project, "two")) == (["begin"], ["from one"])
    tools = [one["tool"] for one in project.client.tool_calls(run["id"])]
    assert tools == ["one", "two"]


def test_agents_at_once_give_an_object(project: Project) -> None:
    agent(project, "one", text("from one"), text("from one"))
    agent(project, "two", text("from two"))
    run = workflow(project, "parallel", "one", "two", "one")
    assert run["output"] == {"one": "from one", "two": "from two", "one_2": "from one"}
    assert run["output_parsed"] is None


def test_an_agent_may_be_named_like_a_built_in_tool(project: Project) -> None:
    agent(project, "search_tools", text("found"))
    run = workflow(project, "sequential", "search_tools")
    assert (run["status"], run["output"]) == ("completed", "found")


def test_a_loop_ends_when_a_tool_says_that_it_is_enough(project: Project) -> None:
    enough = calls(use("c1", "good_enough", word="final draft"))
    agent(project, "writer", text("draft 1"), text("draft 2"))
    agent(project, "critic", text("do it again"), enough, tools=["good_enough"])
    run = workflow(project, "loop", "writer", "critic", max_iterations=5)
    assert (run["status"], run["output"]) == ("completed", "final draft")
    assert asked(project, "writer") == ["begin", "do it again"]
    assert asked(project, "critic") == ["draft 1", "draft 2"]
    assert run["incomplete_details"] is None


def test_a_loop_ends_after_so_many_rounds(project: Project) -> None:
    agent(project, "writer", *[text("draft")] * 3)
    run = workflow(project, "loop", "writer", max_iterations=3)
    assert (run["status"], run["output"]) == ("completed", "draft")
    assert run["incomplete_details"]["reason"] == "max_iterations"
    assert len(asked(project, "writer")) == 3


def test_a_workflow_may_be_a_step_of_another(project: Project) -> None:
    agent(project, "writer", text("draft"))
    agent(project, "critic", calls(use("c1", "good_enough", word="fine")), tools=["good_enough"])
    inner = {"name": "inner", "kind": "sequential", "agents": ["writer", "critic"]}
    project.client.call("POST", "/v1/agents", inner)
    run = workflow(project, "loop", "inner", max_iterations=9)
    assert (run["status"], run["output"]) == ("completed", "fine")
    assert len(asked(project, "writer")) == 1


def test_a_step_that_fails_fails_the_sequence(project: Project) -> None:
    agent(project, "two", text("never"))
    body = {"name": "one", "model": project.script(name="one"), "on_max_turns": "fail"}
    project.client.call("POST", "/v1/agents", body | {"tools": ["look_up"]})
    endless = calls(use("c1", "look_up", key="x"))
    project.model.respond(project.model_name("one"), lambda _: endless)
    run = workflow(project, "sequential", "one", "two")
    assert (run["status"], run["error"]["code"]) == ("failed", "step_failed")
    assert asked(project, "two") == []


def test_a_workflow_waits_for_a_person_in_one_of_its_steps(project: Project) -> None:
    project.client.call("PATCH", "/v1/tools/look_up", {"approval": "always"})
    agent(project, "one", calls(use("c1", "look_up", key="x")), text("looked"), tools=["look_up"])
    run = workflow(project, "sequential", "one")
    [action] = run["required_actions"]
    assert (run["status"], action["path"]) == ("requires_action", ["one"])
    project.client.decide(action["approval_id"], "approve")
    assert project.client.settle(run["id"])["output"] == "looked"


# -- what tools share -----------------------------------------------------------------------------


def written(project: Project, *answers: Answer, name: str = "main", **fields: Any) -> Json:
    main = project.script(*answers, name=name)
    tools = ["write_down", "look_up"]
    return finished(project, model=main, tools=tools, **fields)


def test_a_run_without_a_session_has_a_state_of_its_own(project: Project) -> None:
    run = written(
        project,
        calls(use("c1", "write_down", key="a", value="1")),
        calls(use("c2", "look_up", key="a"), use("c3", "write_down", key="a")),
        calls(use("c4", "look_up", key="a")),
        text("done"),
    )
    outputs = [one["output"] for one in project.client.tool_calls(run["id"])]
    assert outputs == ["written", "1", "written", "nothing"]
    events = project.client.events(run["id"])
    changes = [one["data"]["changes"] for one in events if one["type"] == "state.updated"]
    assert changes == [{"a": "1"}, {"a": None}]


def test_a_session_keeps_its_state_and_its_history_for_the_next_run(project: Project) -> None:
    session = project.client.call("POST", "/v1/sessions", {"state": {"given": "before"}})
    write = calls(use("c1", "write_down", key="a", value="1"))
    first = written(project, write, text("noted"), session_id=session["id"])
    assert first["session_id"] == session["id"]
    look = calls(use("c1", "look_up", key="a"), use("c2", "look_up", key="given"))
    second = written(project, look, text("known"), name="next", session_id=session["id"])
    outputs = [one["output"] for one in project.client.tool_calls(second["id"])]
    assert outputs == ["1", "before"]
    state = project.client.call("GET", f"/v1/sessions/{session['id']}")["state"]
    assert state == {"given": "before", "a": "1"}
    shown = project.model.requests(project.model_name("next"))[0].messages
    said = [one.get("content") for one in shown if one["role"] != "tool"]
    assert said == ["go", None, "noted", "go"]


def test_a_child_run_shares_the_session_s_state(project: Project) -> None:
    session = project.client.call("POST", "/v1/sessions", {})
    write = calls(use("c1", "write_down", key="a", value="from below"))
    agent(project, "child", write, text("ok"), tools=["write_down"])
    tool = {"name": "ask_child", "type": "agent", "agent": "child"}
    project.client.call("POST", "/v1/tools", tool)
    main = project.script(
        calls(use("c1", "ask_child", input="write")),
        calls(use("c2", "look_up", key="a")),
        text("done"),
    )
    run = finished(project, model=main, tools=["ask_child", "look_up"], session_id=session["id"])
    assert [one["output"] for one in project.client.tool_calls(run["id"])] == ["ok", "from below"]


def test_a_decision_may_be_remembered_for_a_session(project: Project) -> None:
    project.client.call("PATCH", "/v1/tools/look_up", {"approval": "always"})
    session = project.client.call("POST", "/v1/sessions", {})
    look, done = calls(use("c1", "look_up", key="a")), text("done")
    run = written(project, look, done, session_id=session["id"])
    [action] = run["required_actions"]
    remember = {"scope": "session", "exact_arguments": True}
    project.client.decide(action["approval_id"], "approve", remember=remember)
    assert project.client.settle(run["id"])["status"] == "completed"
    again = written(project, look, done, name="next", session_id=session["id"])
    assert again["status"] == "completed"
    other = calls(use("c1", "look_up", key="b"))
    third = written(project, other, done, name="third", session_id=session["id"])
    assert third["status"] == "requires_action"  # other arguments
    project.client.cancel(third["id"])
    elsewhere = written(project, look, done, name="elsewhere")
    assert elsewhere["status"] == "requires_action"  # another conversation
