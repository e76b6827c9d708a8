"""Tools that the client runs: the run says what is to be done, and takes the result."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.api.project import Project, at_once, call, of_type, result_of, types_of
from tests.api.test_children_api import agent, asks, children
from tests.support.models.chat_server import Call, calls, text
from tests.support.services.client import Json
from tests.support.tools.server import Behaviour

PARAMETERS: Json = {
    "type": "object",
    "properties": {"x": {"type": "string"}},
    "required": ["x"],
    "additionalProperties": False,
}


def client_tool(project: Project, name: str = "measure", **fields: Any) -> Json:
    body = {"name": name, "type": "client", "parameters": PARAMETERS, **fields}
    return project.client.call("POST", "/v1/tools", body)


def waiting(project: Project, *more: Any, **fields: Any) -> Json:
    """A run whose only call waits for the client."""
    client_tool(project, **fields)
    return project.run(calls(call(1, "measure")), *(more or [text("ok")]), tools=["measure"])


def path_of(run: Json, call_id: str = "c1") -> str:
    return f"/v1/runs/{run['id']}/tool_calls/{call_id}/result"


def give(project: Project, run: Json, call_id: str = "c1", **result: Any) -> Json:
    return project.client.call("POST", path_of(run, call_id), result)


def refused(project: Project, code: str, run: Json, call_id: str = "c1", **result: Any) -> None:
    status = 404 if code.endswith("_found") else 409
    project.client.refused(status, code, "POST", path_of(run, call_id), result)


# -- registering ----------------------------------------------------------------------------------


def test_it_is_registered_without_a_url(project: Project) -> None:
    made = client_tool(project, description="Measures.")
    assert (made["type"], made["url"], made["headers"]) == ("client", None, {})
    changed = project.client.call("PATCH", "/v1/tools/measure", {"timeout_seconds": 5})
    assert (changed["version"], changed["timeout_seconds"]) == (2, 5)


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"url": "http://127.0.0.1:9/"}, "url"),
        ({"headers": {"x-a": "b"}}, "headers"),
        ({"agent": "clerk"}, "agent"),
        ({"parameters": {"type": "string"}}, "parameters.type"),
    ],
)
def test_what_it_cannot_have_is_refused(
    project: Project, fields: Mapping[str, Any], path: str
) -> None:
    body = {"name": "measure", "type": "client", "parameters": PARAMETERS, **fields}
    problem = project.client.refused(422, "invalid_request", "POST", "/v1/tools", body)
    assert path in [error["path"] for error in problem["errors"]]


def test_it_needs_parameters_and_cannot_be_tried(project: Project) -> None:
    client = project.client
    body = {"name": "measure", "type": "client"}
    problem = client.refused(422, "invalid_request", "POST", "/v1/tools", body)
    assert [error["path"] for error in problem["errors"]] == ["parameters"]
    client_tool(project)
    tried = {"arguments": {"x": "1"}}
    client.refused(422, "invalid_request", "POST", "/v1/tools/measure/test", tried)


# -- waiting and answering ------------------------------------------------------------------------


def test_the_run_says_what_the_client_is_to_do_and_takes_its_result(project: Project) -> None:
    run = waiting(project)
    assert (run["status"], run["required_actions"]) == (
        "requires_action",
        [
            {
                "type": "tool_result",
                "run_id": run["id"],
                "call_id": "c1",
                "tool": "measure",
                "arguments": {"x": "1"},
                "requests": None,
                "path": [],
            }
        ],
    )
    [ledger] = project.client.tool_calls(run["id"])
    assert (ledger["phase"], ledger["attempt"]) == ("awaiting_result", 1)
    assert (ledger["timeout_seconds"], ledger["deadline_at"]) == (None, None)
    settled = give(project, run, output={"celsius": 21.5})
    assert (settled["outcome"], settled["output"]) == ("completed", {"celsius": 21.5})
    ended = project.end(run)
    assert (ended["output"], ended["required_actions"]) == ("ok", [])
    assert json.loads(result_of(project.asked(), "c1")) == {"celsius": 21.5}
    events = project.client.events(run["id"])
    assert of_type(events, "tool_call.progress") == [{"call_id": "c1", "status": "awaiting_result"}]
    [told] = of_type(events, "run.waiting")
    assert told == {"waiting_for": [{"type": "tool_result", "call_id": "c1", "tool": "measure"}]}
    types = types_of(events)
    assert types.index("tool_call.started") < types.index("tool_call.progress")


@pytest.mark.parametrize("output", ["21.5", "", None, 0, False, [], {"a": None}])
def test_any_json_is_a_result(project: Project, output: Any) -> None:
    run = waiting(project)
    assert give(project, run, output=output)["output"] == output
    assert project.end(run)["status"] == "completed"
    shown = output if isinstance(output, str) else json.dumps(output, separators=(",", ":"))
    assert result_of(project.asked(), "c1") == shown


def test_the_client_may_say_that_it_failed(project: Project) -> None:
    run = waiting(project)
    settled = give(project, run, error="The sensor is off.")
    assert (settled["outcome"], settled["reason"]) == ("failed", "tool_error")
    assert project.end(run)["status"] == "completed"
    assert result_of(project.asked(), "c1") == "The sensor is off."
    assert give(project, run, error="The sensor is off.")["outcome"] == "failed"
    refused(project, "result_already_given", run, output="The sensor is off.")


def test_the_same_result_again_is_fine_and_another_is_not(project: Project) -> None:
    run = waiting(project)
    first = give(project, run, output=1)
    assert give(project, run, output=1) == first
    others: list[Json] = [{"output": 2}, {"output": True}, {"output": "1"}, {"error": "no"}]
    for other in others:
        refused(project, "result_already_given", run, **other)
    project.end(run)
    events = project.client.events(run["id"])
    assert give(project, run, output=1) == first
    refused(project, "result_already_given", run, output=2)
    assert project.client.events(run["id"]) == events


def test_of_many_results_at_once_one_counts(project: Project) -> None:
    run = waiting(project)

    def one(number: int) -> int:
        return project.client.request("POST", path_of(run), {"output": number}).status_code

    assert sorted(at_once(12, one)) == [200] + [409] * 11
    assert project.end(run)["status"] == "completed"


def test_an_idempotency_key_repeats_the_answer(project: Project) -> None:
    run = waiting(project)
    key = {"Idempotency-Key": "measured"}
    answers = [
        project.client.request("POST", path_of(run), {"output": 1}, headers=key) for _ in range(2)
    ]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].json() == answers[1].json()
    assert answers[1].headers["idempotent-replayed"] == "true"


def test_calls_are_answered_in_any_order_and_the_model_asked_when_all_are(project: Project) -> None:
    client_tool(project)
    project.tool("look")
    turn = calls(call(1, "measure"), call(2, "look"), call(3, "measure"))
    run = project.run(turn, text("ok"), tools=["measure", "look"])
    assert [one["call_id"] for one in run["required_actions"]] == ["c1", "c3"]
    give(project, run, "c3", output="third")
    again = project.settle(run)
    assert (again["status"], len(project.asked())) == ("requires_action", 1)
    assert [one["call_id"] for one in again["required_actions"]] == ["c1"]
    give(project, run, "c1", output="first")
    assert project.end(run)["output"] == "ok"
    assert project.asked()[1].results == [("c1", "first"), ("c2", "look(1)"), ("c3", "third")]


def test_only_a_call_that_waits_for_the_client_takes_a_result(project: Project) -> None:
    project.tool("later", Behaviour("later"))
    project.tool("look")
    client_tool(project)
    turn = calls(call(1, "measure"), call(2, "later"), call(3, "look"), call(4, "nobody"))
    run = project.run(turn, text("ok"), tools=["measure", "later", "look"])
    for call_id in ("c2", "c3", "c4"):
        refused(project, "call_not_waiting", run, call_id, output=1)
    refused(project, "call_not_found", run, "c9", output=1)
    project.client.cancel(run["id"])
    refused(project, "call_not_waiting", run, output=1)


def test_a_call_of_what_runward_made_itself_takes_no_result(project: Project) -> None:
    """A built-in tool, a handoff, a step of a workflow: no registry has them."""
    agent(project, "second", text("mine now"), text("done"))
    search = calls(Call("c0", "search_history", '{"query":"x"}'))
    turn = calls(Call("c1", "transfer_to_second", "{}"))
    run = project.run(search, turn, handoffs=["second"], tools=["search_history"])
    for call_id in ("c0", "c1"):
        refused(project, "call_not_waiting", run, call_id, output=1)
    flow = {"kind": "sequential", "agents": ["second"], "input": "begin"}
    run = project.client.settle(project.client.call("POST", "/v1/runs", flow)["id"])
    refused(project, "call_not_waiting", run, "step_1_second", output=1)


def test_a_result_is_given_again_after_the_run_was_handed_over(project: Project) -> None:
    agent(project, "second", text("mine now"))
    model = project.script(
        calls(Call("f1", "locate", "{}")), calls(Call("c1", "transfer_to_second", "{}")), name="m"
    )
    body = {"name": "first", "model": model, "handoffs": ["second"]}
    project.client.call("POST", "/v1/agents", body)
    function = {"type": "function", "name": "locate", "parameters": None}
    response = project.client.call(
        "POST", "/v1/responses", {"model": "first", "input": "go", "tools": [function]}
    )
    run = {"id": response["id"].replace("resp_", "run_")}
    project.client.settle(run["id"])
    give(project, run, "f1", output="here")
    assert project.client.settle(run["id"])["agent"] == "second"
    give(project, run, "f1", output="here")
    refused(project, "result_already_given", run, "f1", output="there")


# -- what stands before and after -----------------------------------------------------------------


def test_a_person_is_asked_before_the_client(project: Project) -> None:
    run = waiting(project, approval="always")
    [action] = run["required_actions"]
    assert action["type"] == "approval"
    refused(project, "call_not_waiting", run, output=1)
    project.client.decide(action["approval_id"], "edit", arguments={"x": "9"})
    [action] = project.settle(run)["required_actions"]
    assert (action["type"], action["arguments"]) == ("tool_result", {"x": "9"})
    give(project, run, output=1)
    assert project.end(run)["status"] == "completed"


def test_a_rejected_call_never_reaches_the_client(project: Project) -> None:
    run = waiting(project, approval="always")
    [action] = run["required_actions"]
    project.client.decide(action["approval_id"], "reject", message="no")
    assert project.end(run)["output"] == "ok"
    assert of_type(project.client.events(run["id"]), "tool_call.started") == []
    refused(project, "call_not_waiting", run, output=1)


def guardrail(project: Project, stage: str, **verdict: Any) -> Json:
    url = project.tools.tool(project.tool_key("rail"), Behaviour("return", value=verdict))
    return {"type": "webhook", "url": url, "stage": stage}


def test_a_guardrail_sees_the_call_before_the_client_does(project: Project) -> None:
    rail = guardrail(project, "input", action="reject", message="Not here.")
    run = waiting(project, guardrails=[rail])
    assert (run["status"], run["output"]) == ("completed", "ok")
    assert result_of(project.asked(), "c1") == "Not here."


def test_a_guardrail_sees_what_the_client_says(project: Project) -> None:
    rail = guardrail(project, "output", action="reject", message="Withheld.")
    run = waiting(project, guardrails=[rail])
    assert give(project, run, output="secret")["outcome"] is None, "it is still being looked at"
    assert project.end(run)["output"] == "ok"
    assert result_of(project.asked(), "c1") == "Withheld."
    give(project, run, output="secret")
    refused(project, "result_already_given", run, output="Withheld.")


def test_a_result_that_is_not_what_was_promised_is_an_error(project: Project) -> None:
    run = waiting(project, output_schema={"type": "number"})
    settled = give(project, run, output="warm")
    assert (settled["outcome"], settled["reason"]) == ("failed", "invalid_output")
    assert project.end(run)["status"] == "completed"
    give(project, run, output="warm")
    refused(project, "result_already_given", run, output=21.5)


# -- time and ends --------------------------------------------------------------------------------


def test_a_tool_with_a_timeout_is_waited_for_no_longer(project: Project) -> None:
    client_tool(project, timeout_seconds=0.5)
    run = project.start(calls(call(1, "measure")), text("ok"), tools=["measure"])
    assert project.end(run)["output"] == "ok"
    told = result_of(project.asked(), "c1")
    assert told.startswith("Tool 'measure' timed out after 0.5 seconds.")
    refused(project, "call_not_waiting", run, output=1)


def test_a_run_that_waits_for_the_client_expires_with_its_deadline(project: Project) -> None:
    client_tool(project)
    limits = {"deadline_seconds": 1}
    run = project.start(calls(call(1, "measure")), text("ok"), tools=["measure"], limits=limits)
    ended = project.end(run)
    assert ended["status"] in ("expired", "completed")
    [ledger] = project.client.tool_calls(run["id"])
    assert ledger["outcome"] in ("timed_out", "cancelled")


def test_a_cancel_closes_the_call_and_says_that_it_may_have_been_made(project: Project) -> None:
    run = waiting(project)
    assert project.client.cancel(run["id"])["status"] == "cancelled"
    [ledger] = project.client.tool_calls(run["id"])
    assert (ledger["outcome"], ledger["reason"]) == ("cancelled", "run_cancelled")
    assert "may or may not have taken effect" in ledger["output"]
    refused(project, "call_not_waiting", run, output=1)


def test_the_result_is_posted_to_the_child_run_that_waits(project: Project) -> None:
    client_tool(project)
    agent(project, "inner", calls(call(1, "measure")), text("measured"), tools=["measure"])
    agent(project, "outer", calls(asks("inner")), text("told"), tools=["ask_inner"])
    run = project.run(calls(asks("outer")), text("done"), tools=["ask_outer"])
    [action] = run["required_actions"]
    [outer] = children(project, run)
    [inner] = children(project, outer)
    assert (action["type"], action["run_id"]) == ("tool_result", inner["id"])
    assert action["path"] == ["outer", "inner"]
    refused(project, "call_not_found", run, output=1)
    give(project, inner, output="21")
    ended = project.end(run)
    assert (ended["status"], ended["output"], ended["required_actions"]) == (
        "completed",
        "done",
        [],
    )
    assert result_of(project.asked("inner"), "c1") == "21"
