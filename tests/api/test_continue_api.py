"""What a run goes on with after each way of being stopped, and what it never does twice."""

import json
from typing import Final

import pytest

from tests.api.project import Project, at_once, call, of_type, result_of
from tests.support.models.chat_server import Answer, Call, calls, text
from tests.support.services.client import Json
from tests.support.serving import Hold

ANSWER: Final[Json] = {
    "type": "object",
    "properties": {"sum": {"type": "integer"}},
    "required": ["sum"],
    "additionalProperties": False,
}


def go_on(project: Project, run: Json, **body: object) -> Json:
    return project.client.call("POST", f"/v1/runs/{run['id']}/continue", body)


def finished(project: Project, run: Json, **body: object) -> Json:
    return project.settle(go_on(project, run, **body))


def stopped(project: Project, *more: Answer, **fields: object) -> Json:
    """After one call of `pay`, by its limit of turns."""
    project.tool("pay")
    limits = {"max_turns": 1}
    run = project.run(calls(call(1, "pay")), *more, tools=["pay"], limits=limits, **fields)
    assert run["incomplete_details"]["reason"] == "max_turns"
    return run


def said(project: Project) -> list[tuple[str, str]]:
    return [(each["role"], each.get("content") or "") for each in project.asked()[-1].messages]


def test_the_answer_says_where_the_new_run_is_and_its_log_whom_it_goes_on_from(
    project: Project,
) -> None:
    old = stopped(project, text("Paid."), context={"user": 7}, metadata={"order": "A-1"})
    response = project.client.request("POST", f"/v1/runs/{old['id']}/continue")
    run = response.json()
    assert response.status_code == 202
    assert response.headers["Location"] == f"/v1/runs/{run['id']}"
    assert (run["continued_from"], run["parent_run_id"]) == (old["id"], None)
    assert (run["context"], run["metadata"]) == ({"user": 7}, {"order": "A-1"})
    assert (run["turn"], run["usage"]["total_tokens"]) == (1, 0)
    assert project.settle(run)["turn"] == 2
    events = project.client.events(run["id"])
    assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
    [created] = of_type(events, "run.created")
    assert created["continued_from"] == old["id"]


def test_the_ledger_begins_with_the_calls_that_were_made(project: Project) -> None:
    old = stopped(project, text("Paid."))
    run = finished(project, old)
    [before], [after] = (project.client.tool_calls(one["id"]) for one in (old, run))
    assert after["id"] != before["id"]
    changed = {"id": after["id"], "run_id": run["id"]}
    assert after == before | changed
    assert of_type(project.client.events(run["id"]), "tool_call.created") == []


def test_one_key_makes_one_run_however_often_it_is_sent(project: Project) -> None:
    old = stopped(project, text("Paid."))
    path = f"/v1/runs/{old['id']}/continue"
    headers = {"Idempotency-Key": f"k-{project.suffix}"}

    def send(_: int) -> str:
        response = project.client.request("POST", path, {"max_turns": 2}, headers=headers)
        assert response.status_code == 202
        assert response.headers["Location"].endswith(response.json()["id"])
        return response.json()["id"]

    [made] = set(at_once(4, send))
    ended = project.settle({"id": made})
    again = project.client.request("POST", path, {"max_turns": 2}, headers=headers)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.json() == ended
    other = project.client.request("POST", path, {"max_turns": 3}, headers=headers)
    assert other.json()["code"] == "idempotency_key_reused"


def test_a_message_is_sent_once_under_its_key(project: Project) -> None:
    hold = Hold()
    run = project.start(Answer(text="First.", hold=hold), text("Second."))
    hold.arrived()
    path = f"/v1/runs/{run['id']}/input"
    headers = {"Idempotency-Key": f"i-{project.suffix}"}
    for _ in range(3):
        response = project.client.request("POST", path, {"input": "two"}, headers=headers)
        assert (response.status_code, response.json()["id"]) == (202, run["id"])
    hold.release()
    project.settle(run)
    assert said(project).count(("user", "two")) == 1


def test_a_run_that_goes_on_twice_begins_with_all_that_was_said_in_order(project: Project) -> None:
    project.tool("pay")
    script = [calls(call(n, "pay", f'{{"x":"{n}"}}')) for n in (1, 2, 3)]
    limits = {"max_turns": 1}
    run = project.run(*script, text("done"), tools=["pay"], limits=limits)
    run = finished(project, run, input="again")
    assert (run["turn"], run["incomplete_details"]["reason"]) == (2, "max_turns")
    run = finished(project, run)
    assert (run["turn"], run["incomplete_details"]["reason"]) == (3, "max_turns")
    run = finished(project, run, max_turns=5)
    assert (run["status"], run["output"], run["turn"]) == ("completed", "done", 4)
    assert (
        said(project)[-7:]
        == [
            ("user", "go"),
            ("assistant", ""),
            ("tool", "pay(1)"),
            ("user", "again"),
            ("assistant", ""),
            ("tool", "pay(2)"),
            ("assistant", ""),
            ("tool", "pay(3)"),
        ][-7:]
    )
    assert len(project.hits("pay")) == 3


def test_turns_may_be_added_beyond_what_one_run_may_ask_for(project: Project) -> None:
    old = stopped(project, text("Paid."))
    assert finished(project, old, max_turns=50)["output"] == "Paid."
    path = f"/v1/runs/{old['id']}/continue"
    for wrong in (0, 51, 1.5, "3"):
        body = {"max_turns": wrong}
        problem = project.client.refused(422, "invalid_request", "POST", path, body)
        assert problem["errors"][0]["path"] == "max_turns"


def test_after_max_tool_calls_as_many_may_be_made_again(project: Project) -> None:
    project.tool("pay")
    script = [calls(call(n, "pay", f'{{"x":"{n}"}}')) for n in (1, 2, 3, 4)]
    limits = {"max_tool_calls": 1}
    old = project.run(*script, text("done"), tools=["pay"], limits=limits)
    assert old["incomplete_details"]["reason"] == "max_tool_calls"
    run = finished(project, old)
    assert run["incomplete_details"]["reason"] == "max_tool_calls"
    assert [hit.arguments for hit in project.hits("pay")] == [{"x": "1"}, {"x": "3"}]


def test_after_repeated_calls_the_model_is_asked_once_more(project: Project) -> None:
    project.tool("pay")
    same = [calls(call(n, "pay")) for n in range(1, 6)]
    old = project.run(*same, text("I give up."), tools=["pay"])
    assert old["incomplete_details"]["reason"] == "repeated_calls"
    run = finished(project, old)
    assert (run["status"], run["output"]) == ("completed", "I give up.")
    assert len(project.hits("pay")) == 4


def test_a_model_that_repeats_itself_still_is_stopped_again(project: Project) -> None:
    project.tool("pay")
    same = [calls(call(n, "pay")) for n in range(1, 8)]
    old = project.run(*same, tools=["pay"])
    run = finished(project, old, input="Do something else.")
    assert run["incomplete_details"]["reason"] == "repeated_calls"
    assert run["turn"] == old["turn"] + 1
    assert len(project.hits("pay")) == 4


def test_after_a_misfit_the_model_may_be_corrected_again(project: Project) -> None:
    misfit = text('{"sum": "two"}')
    old = project.run(
        misfit, misfit, misfit, text('{"sum": 2}'), output_schema=ANSWER, output_retries=1
    )
    assert old["incomplete_details"]["reason"] == "output_schema"
    run = finished(project, old, input="An integer, please.")
    assert (run["status"], run["output_parsed"]) == ("completed", {"sum": 2})


def test_after_its_deadline_a_run_has_as_long_again(project: Project) -> None:
    hold = Hold()
    limits = {"deadline_seconds": 1}
    old = project.run(Answer(text="late", hold=hold), text("in time"), limits=limits)
    hold.release()
    assert old["incomplete_details"]["reason"] == "deadline"
    run = finished(project, old)
    assert (run["status"], run["output"]) == ("completed", "in time")


def test_a_call_that_the_end_cut_off_is_not_made_by_the_run_that_goes_on(project: Project) -> None:
    project.tool("pay", approval="always")
    old = project.run(
        calls(call(1, "pay")), text("noted"), tools=["pay"], limits={"deadline_seconds": 1}
    )
    assert old["status"] == "requires_action"
    ended = project.end(old)
    assert ended["status"] == "expired"
    path = f"/v1/runs/{old['id']}/continue"
    project.client.refused(409, "conflict", "POST", path, {})
    assert project.hits("pay") == []


def test_a_run_goes_on_in_its_session_which_keeps_everything_once(project: Project) -> None:
    session = project.client.call("POST", "/v1/sessions", {})
    old = stopped(project, text("Paid."), text("As I said."), session_id=session["id"])
    run = finished(project, old)
    assert (run["output"], run["session_id"]) == ("Paid.", session["id"])
    assert said(project)[-3:] == [("user", "go"), ("assistant", ""), ("tool", "pay(1)")]
    later = project.client.start_run(
        model=f"openai:{project.model_name()}", input="again", session_id=session["id"]
    )
    assert project.settle(later)["output"] == "As I said."
    assert said(project) == [
        *([("system", "")] if said(project)[0][0] == "system" else []),
        ("user", "go"),
        ("assistant", ""),
        ("tool", "pay(1)"),
        ("assistant", "Paid."),
        ("user", "again"),
    ]


def runs_in(project: Project, session: Json) -> list[str]:
    """The runs whose items the session has, in their order."""
    items = project.client.call("GET", f"/v1/sessions/{session['id']}/items")["data"]
    return list(dict.fromkeys(item["run_id"] for item in items))


def test_the_turn_of_a_run_stays_until_the_run_that_continues_it_has_ended(
    project: Project,
) -> None:
    """A run that waits for a person, and a fork, go on with the whole conversation."""
    session = project.client.call("POST", "/v1/sessions", {})
    old = stopped(project, text("Paid."), session_id=session["id"])
    project.tool("ship", approval="always")
    model = project.script(calls(call(2, "ship")), text("Shipped."), name="other")
    waiting = project.start(model=model, tools=["ship"], input="ship it", session_id=session["id"])
    assert project.settle(waiting)["status"] == "requires_action"
    run = go_on(project, old)
    path = f"/v1/runs/{old['id']}/continue"
    refused = project.client.refused(409, "conflict", "POST", path, {})
    assert "that continues this run has not ended" in refused["detail"]
    assert runs_in(project, session) == [old["id"]]
    fork = project.client.call("POST", f"/v1/sessions/{session['id']}/fork", {})
    assert runs_in(project, fork) == [old["id"]]

    project.client.decide_call(waiting["id"], "c2", "approve")
    assert project.settle(run)["output"] == "Paid."
    shown = [(one["role"], one.get("content") or "") for one in project.asked("other")[-1].messages]
    assert ("tool", "pay(1)") in shown
    assert said(project).count(("tool", "pay(1)")) == 1
    assert runs_in(project, session) == [waiting["id"], run["id"]]
    assert runs_in(project, fork) == [old["id"]]


def test_a_run_goes_on_as_the_agent_that_had_it(project: Project) -> None:
    project.tool("pay")
    paying = project.script(calls(call(1, "pay")), text("Paid."), name="payer")
    payer = {"name": "payer", "model": paying, "tools": ["pay"]}
    project.client.call("POST", "/v1/agents", payer)
    hand = calls(Call("c_hand", "transfer_to_payer", "{}"))
    old = project.run(hand, handoffs=["payer"], limits={"max_turns": 2})
    assert (old["agent"], old["status"]) == ("payer", "incomplete")
    accepted = go_on(project, old)
    assert accepted["agent"] == "payer"
    run = project.settle(accepted)
    assert (run["agent"], run["output"]) == ("payer", "Paid.")
    assert len(project.asked("payer")) == 2
    assert dict(project.asked("payer")[-1].results)["c1"] == "pay(1)"


def test_a_workflow_that_lost_a_step_is_not_continued(project: Project) -> None:
    for name in ("one", "two"):
        model = project.script(text(name), name=name)
        project.client.call("POST", "/v1/agents", {"name": name, "model": model})
    body = {"kind": "sequential", "agents": ["one", "two"], "input": "go"}
    run = project.client.call("POST", "/v1/runs", body | {"limits": {"max_tool_calls": 1}})
    run = project.settle(run)
    assert run["incomplete_details"]["reason"] == "max_tool_calls"
    path = f"/v1/runs/{run['id']}/continue"
    problem = project.client.refused(409, "conflict", "POST", path, {})
    assert "workflow" in problem["detail"]


@pytest.mark.parametrize("ending", ["completed", "cancelled", "requires_action"])
def test_what_is_open_or_ended_otherwise_is_refused_by_its_status(
    project: Project, ending: str
) -> None:
    project.tool("pay", approval="always")
    script = (text("done"),) if ending == "completed" else (calls(call(1, "pay")),)
    run = project.run(*script, tools=["pay"])
    if ending == "cancelled":
        run = project.client.cancel(run["id"])
    assert run["status"] == ending
    path = f"/v1/runs/{run['id']}/continue"
    problem = project.client.refused(409, "conflict", "POST", path, {})
    assert ending in problem["detail"]
    listed = project.client.call("GET", "/v1/runs")["data"]
    assert [one["id"] for one in listed] == [run["id"]]


def test_what_was_remembered_for_a_run_is_asked_again_where_it_goes_on(project: Project) -> None:
    project.tool("pay", approval="always")
    script = (calls(call(1, "pay")), calls(call(2, "pay", '{"x":"2"}')))
    old = project.run(*script, text("done"), tools=["pay"], limits={"max_turns": 1})
    project.client.decide_call(old["id"], "c1", "approve", remember={"scope": "run"})
    assert project.settle(old)["status"] == "incomplete"
    run = finished(project, old, max_turns=2)
    assert [action["call_id"] for action in run["required_actions"]] == ["c2"]
    project.client.decide_call(run["id"], "c2", "approve")
    assert project.settle(run)["output"] == "done"


def test_two_runs_may_go_on_from_one(project: Project) -> None:
    old = stopped(project, text("This way."), text("That way."))
    first = finished(project, old)
    second = finished(project, old)
    assert {first["output"], second["output"]} == {"This way.", "That way."}
    assert result_of(project.asked(), "c1") == "pay(1)"
    assert len(project.hits("pay")) == 1
    assert json.dumps(project.client.get_run(old["id"])) == json.dumps(old)
