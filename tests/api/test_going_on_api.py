"""Runs that are spoken to while they are open, that go on after a limit, or that are called off."""

import json
from typing import Final

import pytest

from tests.api.project import Project, call, of_type, result_of, types_of
from tests.support.models.chat_server import Answer, Call, calls, text
from tests.support.services.client import Json
from tests.support.serving import Hold
from tests.support.tools.server import Behaviour

NO_RUN: Final = "run_" + "f" * 32


def send(project: Project, run: Json, words: str) -> Json:
    return project.client.call("POST", f"/v1/runs/{run['id']}/input", {"input": words})


def go_on(project: Project, run: Json, **body: object) -> Json:
    return project.client.call("POST", f"/v1/runs/{run['id']}/continue", body)


def said(messages: list[Json]) -> list[tuple[str, str | None]]:
    return [(message["role"], message.get("content")) for message in messages]


# -- input ----------------------------------------------------------------------------------------


def test_a_message_during_an_answer_makes_the_run_go_on(project: Project) -> None:
    hold = Hold()
    run = project.start(Answer(text="First.", hold=hold), text("Second."), input="one")
    hold.arrived()
    send(project, run, "two")
    hold.release()
    ended = project.settle(run)
    assert (ended["status"], ended["output"], ended["turn"]) == ("completed", "Second.", 2)
    talk = [("user", "one"), ("assistant", "First."), ("user", "two")]
    assert said(project.asked()[-1].messages)[-3:] == talk
    assert of_type(project.client.events(run["id"]), "input.received") != []


def test_a_message_during_a_call_is_read_after_its_result(project: Project) -> None:
    hold = project.tools.hold(f"input-{project.suffix}")
    project.tool("slow", Behaviour(hold=f"input-{project.suffix}"))
    run = project.start(calls(call(1, "slow")), text("done"), tools=["slow"])
    project.wait_for_hits("slow")
    send(project, run, "hurry")
    hold.release()
    assert project.settle(run)["output"] == "done"
    assert said(project.asked()[-1].messages)[-2:] == [("tool", "slow(1)"), ("user", "hurry")]
    assert len(project.hits("slow")) == 1


def test_a_message_to_a_waiting_run_decides_nothing(project: Project) -> None:
    project.tool("pay", approval="always")
    run = project.run(calls(call(1, "pay")), text("done"), tools=["pay"])
    send(project, run, "And send me the receipt.")
    waiting = project.settle(run)
    assert waiting["status"] == "requires_action"
    assert [action["call_id"] for action in waiting["required_actions"]] == ["c1"]
    assert project.hits("pay") == []
    project.client.decide_call(run["id"], "c1", "approve")
    assert project.settle(run)["output"] == "done"
    last = said(project.asked()[-1].messages)
    assert last[-1] == ("user", "And send me the receipt.")
    assert len(project.asked()) == 2


def test_a_message_is_among_the_items(project: Project) -> None:
    project.tool("pay", approval="always")
    run = project.run(calls(call(1, "pay")), text("done"), tools=["pay"])
    send(project, run, "Wait.")
    project.client.decide_call(run["id"], "c1", "reject")
    project.settle(run)
    roles = [item.get("role") or item["type"] for item in project.client.items(run["id"])]
    assert roles == ["user", "tool_call", "tool_result", "user", "assistant"]


def test_an_ended_run_takes_no_message(project: Project) -> None:
    run = project.run(text("hi"))
    path = f"/v1/runs/{run['id']}/input"
    project.client.refused(409, "run_ended", "POST", path, {"input": "more"})
    assert project.client.get_run(run["id"]) == run


def test_a_run_of_another_project_takes_no_message(project: Project, other: Project) -> None:
    run = project.run(text("hi"))
    for run_id in (run["id"], NO_RUN):
        path = f"/v1/runs/{run_id}/input"
        other.client.refused(404, "run_not_found", "POST", path, {"input": "more"})


# -- continue -------------------------------------------------------------------------------------


def test_an_incomplete_run_goes_on_as_a_new_one(project: Project) -> None:
    project.tool("pay")
    old = project.run(calls(call(1, "pay")), text("Paid."), tools=["pay"], limits={"max_turns": 1})
    assert old["status"] == "incomplete"
    new = go_on(project, old, max_turns=3)
    assert (new["continued_from"], new["id"] != old["id"]) == (old["id"], True)
    ended = project.settle(new)
    assert (ended["status"], ended["output"]) == ("completed", "Paid.")
    assert len(project.hits("pay")) == 1, "the old run's call is not made again"
    assert result_of(project.asked(), "c1") == "pay(1)"
    before = [item | {"id": ""} for item in project.client.items(old["id"])]
    after = [item | {"id": ""} for item in project.client.items(new["id"])]
    assert after[: len(before)] == before
    assert project.client.get_run(old["id"]) == old


def test_a_run_goes_on_with_what_it_is_told_then(project: Project) -> None:
    old = project.run(Answer(refusal="I will not."), text("Well then."))
    ended = project.settle(go_on(project, old, input="Please."))
    assert ended["output"] == "Well then."
    talk = [("assistant", None), ("user", "Please.")]
    assert [
        (role, None if role == "assistant" else words)
        for role, words in said(project.asked()[-1].messages)[-2:]
    ] == talk


def test_a_run_goes_on_with_counts_of_its_own(project: Project) -> None:
    project.tool("pay")
    model = project.respond(
        lambda request: calls(call(request.turn, "pay", f'{{"x":"{request.turn}"}}'))
    )
    run = project.run(model=model, tools=["pay"], limits={"max_turns": 2})
    for _ in range(2):
        run = project.settle(go_on(project, run))
        assert (run["status"], run["incomplete_details"]["reason"]) == ("incomplete", "max_turns")
    assert len(project.hits("pay")) == 6


def test_where_the_model_has_answered_something_must_be_said(project: Project) -> None:
    old = project.run(Answer(refusal="I will not."))
    path = f"/v1/runs/{old['id']}/continue"
    problem = project.client.refused(422, "invalid_request", "POST", path, {})
    assert problem["errors"][0]["path"] == "input"


def test_tokens_and_money_are_counted_from_nothing(project: Project) -> None:
    project.tool("pay")
    model = project.script(calls(call(1, "pay")), text("done"), name="priced")
    old = project.run(model=model, tools=["pay"], limits={"max_cost_usd": 0.05})
    assert old["incomplete_details"]["reason"] == "max_cost_usd"
    ended = project.settle(go_on(project, old))
    assert (ended["status"], ended["output"], ended["turn"]) == ("completed", "done", 2)
    assert ended["usage"]["cost_usd"] == old["usage"]["cost_usd"]


def test_a_result_that_was_cut_can_still_be_read(project: Project) -> None:
    project.tool("rows", Behaviour("raw", value="x" * 10_000), max_output_bytes=1024)
    read = Call("c2", "read_result", '{"call_id":"c1","offset":5000,"limit":16}')
    old = project.run(
        calls(call(1, "rows")), calls(read), text("done"), tools=["rows"], limits={"max_turns": 1}
    )
    assert project.settle(go_on(project, old, max_turns=2))["output"] == "done"
    assert json.loads(result_of(project.asked(), "c2"))["bytes"] == 10_000


def test_only_an_incomplete_run_goes_on(project: Project, other: Project) -> None:
    run = project.run(text("hi"))
    path = f"/v1/runs/{run['id']}/continue"
    problem = project.client.refused(409, "conflict", "POST", path, {})
    assert "Only an incomplete run" in problem["detail"]
    other.client.refused(404, "run_not_found", "POST", path, {})


# -- cancel ---------------------------------------------------------------------------------------


def test_cancel_after_the_turn_keeps_the_answer_that_is_being_given(project: Project) -> None:
    project.tool("pay")
    hold = Hold()
    run = project.start(Answer(calls=(call(1, "pay"),), hold=hold), text("never"), tools=["pay"])
    hold.arrived()
    project.client.cancel(run["id"], "after_turn")
    hold.release()
    assert project.settle(run)["status"] == "cancelled"
    assert project.hits("pay") == []
    [ledger] = project.client.tool_calls(run["id"])
    assert (ledger["outcome"], ledger["reason"], ledger["attempt"]) == (
        "cancelled",
        "run_cancelled",
        0,
    )


@pytest.mark.parametrize("mode", ["immediate", "after_turn"])
def test_cancelling_a_waiting_run_gives_every_open_call_a_result(
    mode: str, project: Project
) -> None:
    project.tool("pay", approval="always")
    run = project.run(calls(call(1, "pay"), call(2, "pay", '{"x":"2"}')), tools=["pay"])
    assert project.client.cancel(run["id"], mode)["status"] == "cancelled"
    results = [item for item in project.client.items(run["id"]) if "output" in item]
    assert [(item["call_id"], item["is_error"]) for item in results] == [("c1", True), ("c2", True)]
    assert types_of(project.client.events(run["id"]))[-1] == "run.cancelled"
