"""/v1/approvals: the inbox, the four decisions, and everything that may come between a question
and its answer. What must not be sent is looked for at the tool, not in the service's words."""

from typing import Any

import pytest

from runward.domain.run.texts import tool_gone
from tests.api.project import Project, at_once, call, of_type, result_of, types_of
from tests.support.models.chat_server import calls, text
from tests.support.services.client import Json
from tests.support.tools.server import Behaviour

NOBODY = "The approval request expired before a person decided"
NO_APPROVAL = "apr_" + "f" * 32


def asked_to_pay(project: Project, *more: Any, **fields: Any) -> tuple[Json, Json]:
    """A run that waits for its only call, and the approval it waits for."""
    project.tool("pay", approval="always", **fields)
    run = project.run(calls(call(1, "pay")), *more, text("done"), tools=["pay"])
    assert run["status"] == "requires_action"
    return run, pending(project, run)


def pending(project: Project, run: Json) -> Json:
    [approval] = project.client.approvals(run_id=run["id"])
    return approval


def get(project: Project, approval: Json) -> Json:
    return project.client.call("GET", f"/v1/approvals/{approval['id']}")


def decision(approval: Json) -> str:
    return f"/v1/approvals/{approval['id']}/decision"


# -- the inbox ------------------------------------------------------------------------------------


def test_an_approval_shows_exactly_what_would_be_sent(project: Project) -> None:
    run, approval = asked_to_pay(project)
    [action] = run["required_actions"]
    assert approval == {
        "id": action["approval_id"],
        "object": "approval",
        "run_id": run["id"],
        "call_id": "c1",
        "tool": "pay",
        "tool_version": 1,
        "url": project.tools.url_of(project.tool_key("pay")),
        "arguments": {"x": "1"},
        "omitted_arguments": [],
        "edited_arguments": None,
        "digest": action["digest"],
        "status": "pending",
        "allowed_decisions": ["approve", "reject", "edit", "respond"],
        "path": [],
        "agent": None,
        "run": {
            "id": run["id"],
            "agent": None,
            "created_by": run["created_by"],
            "created_at": run["created_at"],
            "input": "go",
        },
        "model_message": None,
        "requested_at": approval["requested_at"],
        "expires_at": action["expires_at"],
        "decided_at": None,
        "decided_by": None,
        "decider": None,
        "message": None,
    }
    assert get(project, approval) == approval
    [asked] = of_type(project.client.events(run["id"]), "tool_call.approval_requested")
    assert (asked["approval_id"], asked["digest"]) == (approval["id"], approval["digest"])


def test_an_approval_shows_the_text_of_the_last_message_of_a_user(project: Project) -> None:
    parts = [{"type": "text", "text": "Pay "}, {"type": "text", "text": "it.\n" + "x" * 3_000}]
    asked = [
        {"role": "user", "content": "Hello."},
        {"role": "user", "content": parts},
        {"role": "assistant", "content": "I will."},
    ]
    project.tool("pay", approval="always")
    run = project.run(calls(call(1, "pay")), tools=["pay"], input=asked)
    assert pending(project, run)["run"]["input"] == ("Pay it.\n" + "x" * 3_000)[:2_000]
    image = {"type": "image", "url": "https://shop.example/a.png"}
    model = project.script(calls(call(1, "pay")), name="b")
    seen = project.settle(
        project.start(model=model, tools=["pay"], input=[{"role": "user", "content": [image]}])
    )
    assert pending(project, seen)["run"]["input"] is None
    project.client.call("POST", f"/v1/runs/{seen['id']}/input", {"input": "And quickly."})
    assert pending(project, seen)["run"]["input"] == "And quickly."


def test_the_inbox_is_filtered_by_status_run_and_tool(project: Project) -> None:
    project.tool("pay", approval="always")
    project.tool("ship", approval="always")
    both = calls(call(1, "pay"), call(2, "ship"))
    first = project.run(both, text("done"), tools=["pay", "ship"])
    second = project.settle(
        project.start(
            model=project.script(calls(call(1, "pay")), name="b"), tools=["pay"], input="x"
        )
    )

    def found(**filters: str) -> list[tuple[str, str]]:
        page = project.client.call("GET", "/v1/approvals", order="asc", **filters)
        return [(one["run_id"], one["tool"]) for one in page["data"]]

    of_first = [(first["id"], "pay"), (first["id"], "ship")]
    of_second = [(second["id"], "pay")]
    assert found(status="pending") == of_first + of_second
    assert found(run_id=first["id"]) == of_first
    assert found(tool="pay") == [of_first[0], *of_second]
    assert found(tool="pay", run_id=second["id"], status="pending") == of_second
    assert found(status="approved") == []
    assert found(run_id="run_" + "f" * 32) == found(run_id="nonsense") == []
    project.client.decide_call(first["id"], "c2", "approve")
    assert found(status="pending") == [of_first[0], *of_second]
    assert found(status="approved") == [of_first[1]]


def test_the_inbox_is_read_in_pages(project: Project) -> None:
    project.tool("pay", approval="always")
    many = [call(n, "pay", f'{{"x":"{n}"}}') for n in range(5)]
    project.run(calls(*many), tools=["pay"])
    newest = project.client.call("GET", "/v1/approvals", limit=2)
    assert [one["call_id"] for one in newest["data"]] == ["c4", "c3"]
    assert newest["has_more"]
    after = newest["last_id"]
    rest = project.client.call("GET", "/v1/approvals", limit=3, after=after)
    assert [one["call_id"] for one in rest["data"]] == ["c2", "c1", "c0"]
    assert not rest["has_more"]


def test_free_siblings_of_a_gated_call_run_at_once(project: Project) -> None:
    project.tool("look")
    project.tool("pay", approval="always")
    both = calls(call(1, "pay"), call(2, "look"))
    run = project.run(both, text("done"), tools=["pay", "look"])
    assert run["status"] == "requires_action"
    assert len(project.hits("look")) == 1
    assert len(project.asked()) == 1
    project.client.decide_call(run["id"], "c1", "approve")
    assert project.end(run)["output"] == "done"
    assert [call_id for call_id, _ in project.asked()[1].results] == ["c1", "c2"]


def test_of_two_gated_calls_the_decided_one_runs_and_the_run_goes_on_waiting(
    project: Project,
) -> None:
    project.tool("pay", approval="always")
    both = calls(call(1, "pay"), call(2, "pay", '{"x":"2"}'))
    run = project.run(both, text("done"), tools=["pay"])
    project.client.decide_call(run["id"], "c2", "approve")
    project.wait_for_hits("pay")
    waiting = project.settle(run)
    assert waiting["status"] == "requires_action"
    assert [action["call_id"] for action in waiting["required_actions"]] == ["c1"]
    assert len(project.asked()) == 1
    project.client.decide_call(run["id"], "c1", "reject")
    assert project.end(run)["output"] == "done"
    assert [hit.call_id for hit in project.hits("pay")] == ["c2"]


def test_a_rule_decides_which_calls_need_a_person(project: Project) -> None:
    rule = {"when": "args.x == '1' && context.careful"}
    project.tool("pay", approval=rule)
    both = calls(call(1, "pay"), call(2, "pay", '{"x":"2"}'))
    run = project.run(both, tools=["pay"], context={"careful": True})
    assert [action["call_id"] for action in run["required_actions"]] == ["c1"]
    assert [hit.call_id for hit in project.hits("pay")] == ["c2"]


def test_a_rule_that_fails_means_that_a_person_is_asked(project: Project) -> None:
    project.tool("pay", approval={"when": "context.nothing.there"})
    run = project.run(calls(call(1, "pay")), tools=["pay"])
    assert run["status"] == "requires_action"
    assert project.hits("pay") == []


def test_a_rule_without_end_asks_a_person_and_holds_up_no_other_project(
    project: Project, other: Project
) -> None:
    endless = "// '\ncontext.s.matches('(.|x){900}y') // '"
    project.tool("pay", approval={"when": endless})
    hostile = project.start(calls(call(1, "pay")), tools=["pay"], context={"s": "x" * 500_000})
    other.tool("pay", approval={"when": "args.x == '2'"})
    both = calls(call(1, "pay"), call(2, "pay", '{"x":"2"}'))
    run = other.run(both, tools=["pay"])
    assert [action["call_id"] for action in run["required_actions"]] == ["c2"]
    assert project.settle(hostile)["status"] == "requires_action"
    assert project.hits("pay") == []


def test_nobody_is_asked_about_a_call_that_cannot_run(project: Project) -> None:
    project.tool("pay", approval="always")
    run = project.run(calls(call(1, "pay", '{"y":1}')), text("sorry"), tools=["pay"])
    assert (run["status"], run["output"]) == ("completed", "sorry")
    assert project.client.approvals(status=None) == []


# -- the four decisions ---------------------------------------------------------------------------


def test_an_approved_call_is_sent_as_it_was_shown(project: Project) -> None:
    run, approval = asked_to_pay(project)
    decided = project.client.decide(approval["id"], "approve", digest=approval["digest"])
    assert decided["status"] == "approved"
    assert decided["decided_by"].startswith("key_")
    assert decided["decided_at"] >= decided["requested_at"]
    assert project.end(run)["output"] == "done"
    [hit] = project.hits("pay")
    assert hit.arguments == {"x": "1"}
    [started] = of_type(project.client.events(run["id"]), "tool_call.started")
    assert started["digest"] == approval["digest"]
    assert project.client.approvals() == []


def test_approving_costs_no_turn(project: Project) -> None:
    project.tool("pay", approval="always")
    model = project.script(calls(call(1, "pay")), text("done"))
    run = project.run(model=model, tools=["pay"], limits={"max_turns": 2})
    project.client.decide_call(run["id"], "c1", "approve")
    ended = project.end(run)
    assert (ended["status"], ended["turn"]) == ("completed", 2)


REJECTED: dict[str, tuple[Json, Json, str]] = {
    "a person's words": ({"message": "Too dear."}, {"reject_message": "No."}, "Too dear."),
    "the tool's words": ({}, {"reject_message": "No."}, "No."),
    "nobody's words": ({}, {}, "Tool execution was not approved."),
}


@pytest.mark.parametrize("whose", REJECTED)
def test_a_rejected_call_is_never_sent_and_the_run_goes_on(project: Project, whose: str) -> None:
    said, fields, shown = REJECTED[whose]
    run, approval = asked_to_pay(project, **fields)
    decided = project.client.decide(approval["id"], "reject", **said)
    assert (decided["status"], decided["message"]) == ("rejected", said.get("message"))
    assert project.end(run)["output"] == "done"
    assert result_of(project.asked(), "c1") == shown
    assert project.hits("pay") == []
    [ledger] = project.client.tool_calls(run["id"])
    assert (ledger["outcome"], ledger["reason"], ledger["attempt"]) == ("rejected", "declined", 0)
    assert "tool_call.rejected" in types_of(project.client.events(run["id"]))


def test_a_call_like_a_rejected_one_is_rejected_by_itself(project: Project) -> None:
    run, approval = asked_to_pay(project, calls(call(2, "pay")), calls(call(3, "pay", '{"x":"3"}')))
    project.client.decide(approval["id"], "reject")
    again = project.settle(run)
    assert again["status"] == "requires_action"
    assert pending(project, run)["call_id"] == "c3", "another call is asked about"
    second = project.client.tool_calls(run["id"])[1]
    assert (second["outcome"], second["reason"]) == ("rejected", "declined_before")
    assert second["approval_id"] is None
    project.client.decide_call(run["id"], "c3", "reject")
    assert project.end(run)["status"] == "completed"
    assert project.hits("pay") == []


def test_an_edited_call_is_sent_with_the_persons_arguments(project: Project) -> None:
    run, approval = asked_to_pay(project)
    decided = project.client.decide(approval["id"], "edit", arguments={"x": "9"}, message="less")
    assert (decided["status"], decided["message"]) == ("edited", "less")
    assert (decided["arguments"], decided["edited_arguments"]) == ({"x": "1"}, {"x": "9"})
    assert project.end(run)["output"] == "done"
    [hit] = project.hits("pay")
    assert hit.arguments == {"x": "9"}
    assert '{"x":"9"}' in result_of(project.asked(), "c1"), "the model is told"
    assert project.asked()[-1].messages[-2]["tool_calls"][0]["function"]["arguments"] == '{"x":"1"}'
    [ledger] = project.client.tool_calls(run["id"])
    assert (ledger["arguments"], ledger["original_arguments"]) == ({"x": "9"}, {"x": "1"})
    assert ledger["digest"] != approval["digest"]
    [started] = of_type(project.client.events(run["id"]), "tool_call.started")
    assert started["digest"] == ledger["digest"]


@pytest.mark.parametrize(
    ("arguments", "path"),
    [({}, "arguments.x"), ({"x": 1}, "arguments.x"), ({"x": "1", "y": 2}, "y")],
)
def test_an_edit_that_the_tool_would_not_take_is_refused(
    project: Project, arguments: Json, path: str
) -> None:
    run, approval = asked_to_pay(project)
    body = {"decision": "edit", "arguments": arguments}
    problem = project.client.refused(422, "invalid_request", "POST", decision(approval), body)
    assert any(path in error["path"] for error in problem["errors"]), problem["errors"]
    assert get(project, approval) == approval
    assert project.client.get_run(run["id"]) == run


@pytest.mark.parametrize("output", ["paid by hand", {"paid": True}, None, 0, [], ""])
def test_an_answer_in_the_tools_place_never_calls_it(project: Project, output: Any) -> None:
    run, approval = asked_to_pay(project)
    decided = project.client.decide(approval["id"], "respond", output=output)
    assert decided["status"] == "responded"
    assert project.end(run)["output"] == "done"
    assert project.hits("pay") == []
    [ledger] = project.client.tool_calls(run["id"])
    assert (ledger["output"], ledger["is_error"], ledger["attempt"]) == (output, False, 0)
    assert ledger["reason"] == "responded"
    [item] = [one for one in project.client.items(run["id"]) if one.get("type") == "tool_result"]
    assert item["output"] == output


def test_a_person_who_saw_something_else_is_refused(project: Project) -> None:
    run, approval = asked_to_pay(project)
    for verb in ({"decision": "approve"}, {"decision": "reject"}):
        body = {**verb, "digest": "sha256:" + "0" * 64}
        project.client.refused(409, "digest_mismatch", "POST", decision(approval), body)
    assert project.client.get_run(run["id"]) == run
    assert project.hits("pay") == []


BAD_DECISIONS: list[tuple[Json, str]] = [
    ({}, "decision"),
    ({"decision": "maybe"}, "decision"),
    ({"decision": "edit"}, "arguments"),
    ({"decision": "edit", "arguments": []}, "arguments"),
    ({"decision": "respond"}, "output"),
    ({"decision": "approve", "arguments": {}}, "arguments"),
    ({"decision": "approve", "by": "the boss"}, "by"),
    ({"decision": "approve", "remember": True}, "remember"),
    ({"decision": "approve", "remember": {"scope": "world"}}, "remember.scope"),
    ({"decision": "reject", "message": 7}, "message"),
]


def test_what_is_no_decision_is_refused(project: Project) -> None:
    run, approval = asked_to_pay(project)
    for body, path in BAD_DECISIONS:
        problem = project.client.refused(422, "invalid_request", "POST", decision(approval), body)
        assert path in {error["path"] for error in problem["errors"]}, (body, problem["errors"])
    for approval_id in (NO_APPROVAL, "apr_1", run["id"]):
        project.client.refused(
            404,
            "approval_not_found",
            "POST",
            f"/v1/approvals/{approval_id}/decision",
            {"decision": "approve"},
        )
    assert project.client.get_run(run["id"]) == run


# -- second decisions -----------------------------------------------------------------------------


def test_the_same_decision_again_is_answered_like_the_first(project: Project) -> None:
    run, approval = asked_to_pay(project)
    first = project.client.decide(approval["id"], "reject", message="no")
    assert project.client.decide(approval["id"], "reject", message="no") == first
    again = project.client.decide(approval["id"], "reject", message="no", digest=approval["digest"])
    assert again == first
    assert project.end(run)["status"] == "completed"
    assert project.client.decide(approval["id"], "reject", message="no") == first
    decided = of_type(project.client.events(run["id"]), "tool_call.approval_decided")
    assert len(decided) == 1


def test_another_decision_is_a_conflict_that_names_the_winner(project: Project) -> None:
    run, approval = asked_to_pay(project)
    project.client.decide(approval["id"], "approve")
    for body in (
        {"decision": "reject"},
        {"decision": "respond", "output": 1},
        {"decision": "approve", "remember": {"scope": "run"}},
    ):
        response = project.client.request("POST", decision(approval), body)
        problem = response.json()
        assert (response.status_code, problem["code"]) == (409, "approval_already_decided")
        assert response.headers["x-should-retry"] == "false"
        assert problem["status"] == 409
        assert problem["approval"] == {
            "id": approval["id"],
            "status": "approved",
            "decision": {"decision": "approve"},
            "decided_by": get(project, approval)["decided_by"],
        }
    assert project.end(run)["output"] == "done"
    assert len(project.hits("pay")) == 1


def test_of_many_who_decide_at_once_one_wins(project: Project) -> None:
    run, approval = asked_to_pay(project)

    def decide(number: int) -> int:
        body = {"decision": "reject", "message": f"by {number}"}
        return project.client.request("POST", decision(approval), body).status_code

    assert sorted(at_once(16, decide)) == [200] + [409] * 15
    assert project.end(run)["status"] == "completed"
    winner = get(project, approval)["message"]
    assert result_of(project.asked(), "c1") == winner


# -- remembering ----------------------------------------------------------------------------------


def test_a_remembered_approval_covers_siblings_and_later_calls(project: Project) -> None:
    project.tool("pay", approval="always")
    project.tool("ship", approval="always")
    run = project.run(
        calls(call(1, "pay"), call(2, "pay", '{"x":"2"}'), call(3, "ship")),
        calls(call(4, "pay", '{"x":"4"}')),
        text("done"),
        tools=["pay", "ship"],
    )
    project.client.decide_call(run["id"], "c1", "approve", remember={"scope": "run"})
    project.wait_for_hits("pay", 2)
    assert pending(project, run)["call_id"] == "c3", "another tool is asked about all the same"
    project.client.decide_call(run["id"], "c3", "reject")
    assert project.end(run)["output"] == "done"
    assert sorted(hit.call_id for hit in project.hits("pay")) == ["c1", "c2", "c4"]
    last = of_type(project.client.events(run["id"]), "tool_call.approval_decided")[-1]
    assert (last["call_id"], last.get("remembered")) == ("c4", True)


def test_exact_arguments_are_remembered_exactly(project: Project) -> None:
    run, approval = asked_to_pay(project, calls(call(2, "pay"), call(3, "pay", '{"x":"3"}')))
    remember = {"scope": "run", "exact_arguments": True}
    project.client.decide(approval["id"], "approve", remember=remember)
    project.wait_for_hits("pay", 2)
    assert project.settle(run)["status"] == "requires_action"
    assert pending(project, run)["call_id"] == "c3"
    assert [hit.call_id for hit in project.hits("pay")] == ["c1", "c2"]


def test_a_remembered_rejection_rejects_with_the_same_words(project: Project) -> None:
    run, approval = asked_to_pay(project, calls(call(2, "pay", '{"x":"2"}')))
    project.client.decide(approval["id"], "reject", message="Not today.", remember={"scope": "run"})
    assert project.end(run)["output"] == "done"
    assert result_of(project.asked(), "c2") == "Not today."
    assert project.hits("pay") == []


def test_another_run_remembers_nothing(project: Project) -> None:
    run, approval = asked_to_pay(project)
    project.client.decide(approval["id"], "approve", remember={"scope": "run"})
    assert project.end(run)["status"] == "completed"
    again = project.script(calls(call(1, "pay")), name="again")
    second = project.run(model=again, tools=["pay"])
    assert second["status"] == "requires_action"


def test_a_new_version_of_the_tool_is_not_covered(project: Project) -> None:
    run, approval = asked_to_pay(
        project, calls(call(2, "pay", '{"x":"2"}')), calls(call(3, "pay", '{"x":"3"}'))
    )
    hold = project.tools.hold(f"version-{project.suffix}")
    project.tools.tool(
        project.tool_key("pay"), Behaviour(), Behaviour(hold=f"version-{project.suffix}")
    )
    project.client.decide(approval["id"], "approve", remember={"scope": "run"})
    project.wait_for_hits("pay", 2)
    project.client.call("PATCH", "/v1/tools/pay", {"description": "Pays more."})
    hold.release()
    again = project.settle(run)
    assert again["status"] == "requires_action"
    assert pending(project, run)["call_id"] == "c3"


# -- what may come between ------------------------------------------------------------------------


def test_nobody_answering_is_told_as_that_and_the_run_goes_on(project: Project) -> None:
    run, approval = asked_to_pay(project, approval_expires_seconds=1)
    assert project.end(run)["output"] == "done"
    assert get(project, approval)["status"] == "expired"
    shown = result_of(project.asked(), "c1")
    assert shown.startswith(NOBODY)
    assert "not approved" not in shown
    assert project.hits("pay") == []
    problem = project.client.refused(
        409, "approval_already_decided", "POST", decision(approval), {"decision": "approve"}
    )
    assert problem["approval"]["status"] == "expired"
    [ledger] = project.client.tool_calls(run["id"])
    assert ledger["reason"] == "approval_expired"


def test_a_tool_that_changed_is_asked_about_again(project: Project) -> None:
    run, first = asked_to_pay(project)
    project.client.call("PATCH", "/v1/tools/pay", {"description": "Pays twice."})
    project.client.request("POST", decision(first), {"decision": "approve"})
    assert project.settle(run)["status"] == "requires_action"
    second = pending(project, run)
    assert (second["call_id"], second["tool_version"]) == ("c1", 2)
    assert second["id"] != first["id"]
    assert second["digest"] != first["digest"]
    assert project.hits("pay") == []
    body = {"decision": "approve", "digest": first["digest"]}
    project.client.refused(409, "digest_mismatch", "POST", decision(second), body)
    project.client.decide(second["id"], "approve", digest=second["digest"])
    assert project.end(run)["output"] == "done"
    [hit] = project.hits("pay")
    assert hit.body["tool_version"] == 2


def test_the_approval_of_a_tool_that_changed_is_void(project: Project) -> None:
    run, first = asked_to_pay(project)
    project.client.call("PATCH", "/v1/tools/pay", {"description": "Pays twice."})
    project.client.decide(first["id"], "approve")
    assert project.settle(run)["status"] == "requires_action"
    assert get(project, first)["status"] == "superseded"


def test_a_tool_whose_address_changed_is_asked_about_with_the_new_one(project: Project) -> None:
    run, first = asked_to_pay(project)
    elsewhere = project.tools.tool(project.tool_key("elsewhere"))
    project.client.call("PATCH", "/v1/tools/pay", {"url": elsewhere})
    project.client.request("POST", decision(first), {"decision": "approve"})
    project.settle(run)
    second = pending(project, run)
    assert (second["url"], first["url"] == elsewhere) == (elsewhere, False)
    project.client.decide(second["id"], "approve")
    assert project.end(run)["status"] == "completed"
    assert (len(project.hits("pay")), len(project.hits("elsewhere"))) == (0, 1)


def test_a_tool_that_was_deleted_meanwhile_is_not_called(project: Project) -> None:
    run, approval = asked_to_pay(project)
    project.client.call("DELETE", "/v1/tools/pay")
    project.client.request("POST", decision(approval), {"decision": "approve"})
    assert project.end(run)["output"] == "done"
    assert project.hits("pay") == []
    assert result_of(project.asked(), "c1") == tool_gone("pay")


def test_a_tool_that_was_switched_off_meanwhile_is_not_called(project: Project) -> None:
    run, approval = asked_to_pay(project)
    project.client.call("PATCH", "/v1/tools/pay", {"enabled": False})
    project.client.request("POST", decision(approval), {"decision": "approve"})
    assert project.end(run)["output"] == "done"
    assert project.hits("pay") == []


def test_cancelling_a_run_cancels_its_pending_approvals(project: Project) -> None:
    run, approval = asked_to_pay(project)
    assert project.client.cancel(run["id"])["required_actions"] == []
    assert get(project, approval)["status"] == "cancelled"
    assert project.client.approvals() == []
    problem = project.client.refused(
        409, "approval_already_decided", "POST", decision(approval), {"decision": "approve"}
    )
    assert problem["approval"]["status"] == "cancelled"
    assert project.hits("pay") == []


def test_a_run_that_fails_on_another_call_of_the_response_cancels_its_approval(
    project: Project,
) -> None:
    project.tool("pay", approval="always")
    both = calls(call(1, "pay"), call(2, "payy"))
    run = project.run(both, tools=["pay"], on_unknown_tool="fail_run")
    assert run["status"] == "failed"
    [approval] = project.client.call("GET", "/v1/approvals", run_id=run["id"])["data"]
    assert (approval["status"], approval["decided_by"]) == ("cancelled", None)
    problem = project.client.refused(
        409, "approval_already_decided", "POST", decision(approval), {"decision": "approve"}
    )
    assert problem["approval"]["status"] == "cancelled"


# -- who may decide -------------------------------------------------------------------------------


def test_only_a_key_with_the_scope_decides(project: Project) -> None:
    run, approval = asked_to_pay(project)
    body = {"decision": "approve"}
    for scope in ("runs:read", "runs:write", "tools:write", "admin"):
        project.key(scope).refused(403, "insufficient_scope", "POST", decision(approval), body)
    assert get(project, approval) == approval
    made = project.new_key("approvals:decide")
    decider = project.client_of(made["key"])
    assert decider.call("GET", "/v1/approvals", status="pending")["data"] == [approval]
    decided = decider.call("POST", decision(approval), body)
    assert decided["decided_by"] == made["id"]
    assert decided["decider"] == {"type": "key", "id": made["id"], "name": made["name"]}
    assert project.end(run)["output"] == "done"


def test_the_approver_is_the_key_and_never_what_the_body_says(project: Project) -> None:
    run, approval = asked_to_pay(project)
    project.client.decide(approval["id"], "reject", message="decided_by: the boss")
    assert project.end(run)["status"] == "completed"
    [decided] = of_type(project.client.events(run["id"]), "tool_call.approval_decided")
    assert decided["decided_by"] == get(project, approval)["decided_by"]
