"""Guardrails and hooks over HTTP: a project's policy, and what they do to its runs."""

import json
import time
from typing import Any

import pytest

from tests.api.project import PATIENCE_SECONDS, Project, call, of_type, result_of
from tests.support.models.chat_server import Reply, calls, text
from tests.support.services.client import Json
from tests.support.tools.hits import Hit
from tests.support.tools.server import Behaviour

NOWHERE = "http://127.0.0.1:9/guard"
GUARDED = "A guardrail rejected this content."
MODEL_STAGES = ("before_model", "after_model")


def guardrail(project: Project, name: str, stage: str, *answers: Any, **fields: Any) -> Json:
    """One that gives these answers, or allows."""
    url = _serving(project, name, answers or ({"action": "allow"},))
    return {"stage": stage, "type": "webhook", "url": url, **fields}


def hook(project: Project, name: str, on: str, *answers: Any, **fields: Any) -> Json:
    """One that gives these answers, or goes on."""
    return {"on": on, "type": "webhook", "url": _serving(project, name, answers or ({},)), **fields}


def _serving(project: Project, name: str, answers: tuple[Any, ...]) -> str:
    behaviours = [
        one if isinstance(one, Behaviour) else Behaviour("return", value=one) for one in answers
    ]
    return project.tools.tool(project.tool_key(name), *behaviours)


def rejecting(message: str) -> Json:
    return {"action": "reject", "message": message}


def failing(message: str) -> Json:
    return {"action": "fail", "message": message}


def asked(project: Project, *names: str) -> list[Hit]:
    """What was asked of these, in order of arrival."""
    keys = {project.tool_key(name) for name in names}
    return [hit for hit in project.tools.all_hits() if hit.key in keys]


def arrivals(project: Project) -> list[str]:
    """Everyone of this project who was asked or called, in order."""
    end = f"-{project.suffix}"
    return [hit.key.removesuffix(end) for hit in project.tools.all_hits() if hit.key.endswith(end)]


def put(project: Project, **policy: Any) -> Json:
    return project.client.call("PUT", "/v1/policy", policy)


def one_call(project: Project, **fields: Any) -> Json:
    """A run that calls `pay` once."""
    return runs_of(project, calls(call(1, "pay")), text("done"), **fields)


def runs_of(project: Project, *replies: Reply, model: str = "main", **fields: Any) -> Json:
    """A run that may call `pay`; a second one of a project needs a model of its own."""
    named = project.script(*replies, name=model)
    return project.run(model=named, tools=["pay"], **fields)


def told(project: Project) -> str:
    """What the model read as the call's result."""
    return result_of(project.asked(), "c1")


# -- the policy -----------------------------------------------------------------------------------


def test_a_policy_that_was_never_set_is_empty(project: Project) -> None:
    assert project.client.call("GET", "/v1/policy") == {
        "object": "policy",
        "hooks": [],
        "guardrails": [],
        "version": 0,
        "updated_at": None,
    }


def test_a_policy_is_replaced_whole(project: Project, other: Project) -> None:
    rails = [{"stage": "run_output", "type": "webhook", "url": NOWHERE, "timeout_seconds": 2.5}]
    made = put(
        project, guardrails=rails, hooks=[{"on": "after_tool", "type": "webhook", "url": NOWHERE}]
    )
    assert made["guardrails"] == rails
    assert made["hooks"] == [
        {"on": "after_tool", "type": "webhook", "url": NOWHERE, "timeout_seconds": 10.0}
    ]
    assert made["version"] == 1
    assert project.client.call("GET", "/v1/policy") == made
    changed = put(project, guardrails=[])
    assert (changed["hooks"], changed["guardrails"], changed["version"]) == ([], [], 2)
    assert changed["updated_at"] > made["updated_at"]
    assert other.client.call("GET", "/v1/policy")["version"] == 0, "of each project"


@pytest.mark.parametrize(
    ("policy", "paths"),
    [
        ({"guardrails": [{"stage": "input", "type": "webhook"}]}, ["guardrails.0.url"]),
        (
            {"guardrails": [{"stage": "soon", "type": "webhook", "url": NOWHERE}]},
            ["guardrails.0.stage"],
        ),
        ({"hooks": [{"on": "input", "type": "webhook", "url": NOWHERE}]}, ["hooks.0.on"]),
        (
            {"hooks": [{"on": "before_tool", "type": "plugin", "name": "nobody"}]},
            ["hooks.0.name"],
        ),
        (
            {
                "guardrails": [
                    {"stage": "input", "type": "webhook", "url": NOWHERE},
                    {"stage": "input", "type": "webhook", "url": "http://169.254.169.254/"},
                    {"stage": "output", "type": "plugin", "name": "nobody"},
                ],
                "hooks": [{"on": "before_tool", "type": "webhook", "url": "ftp://x"}],
            },
            ["guardrails.1.url", "guardrails.2.name", "hooks.0.url"],
        ),
        (
            {"hooks": [{"on": "before_tool", "type": "webhook", "url": NOWHERE}] * 17},
            ["hooks"],
        ),
        (
            {
                "hooks": [
                    {"on": "before_tool", "type": "webhook", "url": NOWHERE, "timeout_seconds": 61}
                ]
            },
            ["hooks.0.timeout_seconds"],
        ),
        ({"rules": []}, ["rules"]),
    ],
)
def test_a_policy_that_cannot_be_is_refused_with_its_paths(
    project: Project, policy: Json, paths: list[str]
) -> None:
    problem = project.client.refused(422, "invalid_request", "PUT", "/v1/policy", policy)
    assert [error["path"] for error in problem["errors"]] == paths
    assert project.client.call("GET", "/v1/policy")["version"] == 0


def test_reading_a_policy_does_not_allow_changing_it(project: Project) -> None:
    reader = project.key("runs:read")
    assert reader.call("GET", "/v1/policy")["object"] == "policy"
    reader.refused(403, "insufficient_scope", "PUT", "/v1/policy", {})
    reader.refused(403, "insufficient_scope", "POST", "/v1/signing_secret/rotate")


def test_the_secret_is_the_project_s_and_the_former_one_signs_for_a_while(
    project: Project, other: Project
) -> None:
    secrets = [
        answer["secret"]
        for client in (project.client, project.client, other.client)
        for answer in [client.call("POST", "/v1/signing_secret/rotate")]
    ]
    assert len(set(secrets)) == 3
    project.tool("pay")
    put(project, guardrails=[guardrail(project, "rail", "input")])
    for number, secret in enumerate(secrets):
        project.tools.secrets(project.tool_key("rail"), secret)
        one_call(project, model=f"m{number}")
    assert [hit.verified for hit in asked(project, "rail")] == [True, True, False]


def test_rotating_with_a_key_rotates_once(project: Project) -> None:
    headers = {"Idempotency-Key": "r-1"}
    first, again = (
        project.client.request("POST", "/v1/signing_secret/rotate", headers=headers).json()
        for _ in range(2)
    )
    assert first == again


def test_a_policy_holds_for_runs_that_are_under_way(project: Project) -> None:
    project.tool("pay", approval="always")
    run = one_call(project)
    assert run["status"] == "requires_action"
    put(project, guardrails=[guardrail(project, "rail", "input", rejecting("not today"))])
    project.client.decide_call(run["id"], "c1", "approve")
    assert project.end(run)["status"] == "completed"
    assert (told(project), project.hits("pay")) == ("not today", [])


def test_a_policy_is_of_its_project_alone(project: Project, other: Project) -> None:
    put(other, guardrails=[guardrail(other, "rail", "input", rejecting("no"))])
    project.tool("pay")
    one_call(project)
    assert (told(project), asked(other, "rail")) == ("pay(1)", [])


# -- around a call --------------------------------------------------------------------------------


def test_everyone_is_asked_in_order_and_told_what_it_is_about(project: Project) -> None:
    project.tool(
        "pay",
        guardrails=[
            guardrail(project, "tool-in", "input"),
            guardrail(project, "tool-out", "output"),
        ],
    )
    put(
        project,
        guardrails=[guardrail(project, "project-in", "input")],
        hooks=[hook(project, "project-after", "after_tool")],
    )
    run = one_call(
        project,
        guardrails=[guardrail(project, "run-out", "output"), guardrail(project, "run-in", "input")],
        hooks=[hook(project, "run-before", "before_tool")],
        context={"tier": "gold"},
    )
    assert run["status"] == "completed"
    assert arrivals(project) == [
        *("tool-in", "run-in", "project-in", "run-before"),
        "pay",
        *("project-after", "tool-out", "run-out"),
    ]
    (out,), (tool,) = asked(project, "tool-out"), project.hits("pay")
    assert out.body == {
        "type": "guardrail",
        "stage": "output",
        "run_id": run["id"],
        "agent": None,
        "context": {"tier": "gold"},
        "call_id": "c1",
        "tool": "pay",
        "tool_version": 1,
        "arguments": {"x": "1"},
        "output": "pay(1)",
        "is_error": False,
    }
    assert out.webhook_id == f"{tool.webhook_id}_output_0"


def test_a_tool_s_guardrail_is_signed_with_the_tool_s_secret(project: Project) -> None:
    made = project.tool("pay", guardrails=[guardrail(project, "rail", "input")])
    project.tools.secrets(project.tool_key("rail"), made["secret"])
    one_call(project)
    assert [hit.verified for hit in asked(project, "rail")] == [True]


@pytest.mark.parametrize("whose", ["tool", "run", "project"])
def test_a_rejected_input_is_the_result_and_nothing_is_sent(project: Project, whose: str) -> None:
    rail = [guardrail(project, "rail", "input", rejecting("no cards"))]
    project.tool("pay", **({"guardrails": rail} if whose == "tool" else {}))
    if whose == "project":
        put(project, guardrails=rail)
    run = one_call(project, **({"guardrails": rail} if whose == "run" else {}))
    assert (run["status"], told(project), project.hits("pay")) == ("completed", "no cards", [])
    (rejected,) = of_type(project.client.events(run["id"]), "tool_call.rejected")
    assert (rejected["reason"], rejected["output"]) == ("guardrail", "no cards")
    assert project.tool_key("rail") in rejected["detail"]


def test_a_rejected_output_never_reaches_the_model(project: Project) -> None:
    project.tool("pay", Behaviour("return", value={"card": "visa-4111"}))
    run = one_call(project, guardrails=[guardrail(project, "rail", "output", rejecting("hidden"))])
    assert (run["status"], told(project), len(project.hits("pay"))) == ("completed", "hidden", 1)
    seen = [*project.client.items(run["id"]), *project.client.events(run["id"])]
    assert "visa-4111" not in json.dumps(seen)


@pytest.mark.parametrize("stage", ["input", "output"])
def test_a_guardrail_can_fail_the_run(project: Project, stage: str) -> None:
    project.tool("pay")
    run = one_call(project, guardrails=[guardrail(project, "rail", stage, failing("stolen card"))])
    assert (run["status"], run["error"]["code"]) == ("failed", "guardrail")
    assert "stolen card" in run["error"]["message"]
    assert len(project.asked()) == 1


@pytest.mark.parametrize(
    "broken",
    [
        Behaviour("raise", message="the password is swordfish"),
        Behaviour("redirect", value=NOWHERE),
        Behaviour("invalid_json"),
        Behaviour("huge", size=200_000),
        Behaviour("reset"),
        Behaviour("return", value={"action": "allow"}, sleep=5),
        Behaviour("later"),
    ],
    ids=lambda behaviour: behaviour.kind,
)
def test_a_guardrail_that_does_not_answer_clearly_rejects(
    project: Project, broken: Behaviour
) -> None:
    project.tool("pay")
    rail = guardrail(project, "rail", "input", broken, timeout_seconds=0.5)
    run = one_call(project, guardrails=[rail])
    assert (run["status"], told(project), project.hits("pay")) == ("completed", GUARDED, [])
    assert "swordfish" not in json.dumps(project.client.events(run["id"]))


def test_a_before_hook_answers_in_the_tool_s_place(project: Project) -> None:
    project.tool("pay")
    answers = {"output": {"paid": True}, "metadata": {"by": "cache"}}
    run = one_call(project, hooks=[hook(project, "cache", "before_tool", answers)])
    assert (json.loads(told(project)), project.hits("pay")) == ({"paid": True}, [])
    (completed,) = of_type(project.client.events(run["id"]), "tool_call.completed")
    assert completed["metadata"] == {"by": "cache"}


def test_an_after_hook_replaces_what_the_model_reads(project: Project) -> None:
    project.tool("pay", Behaviour("return", value={"card": "visa-4111"}))
    run = one_call(project, hooks=[hook(project, "mask", "after_tool", {"output": {"card": "…"}})])
    assert json.loads(told(project)) == {"card": "…"}
    assert "visa-4111" not in json.dumps(project.client.events(run["id"]))


@pytest.mark.parametrize(
    ("on", "result", "sent"),
    [
        ("before_tool", "A hook failed, so the tool was not run.", 0),
        ("after_tool", "The tool was called, but a hook failed, so the result is withheld.", 1),
    ],
)
def test_a_tool_hook_that_fails_is_as_good_as_a_no(
    project: Project, on: str, result: str, sent: int
) -> None:
    project.tool("pay")
    run = one_call(project, hooks=[hook(project, "hook", on, Behaviour("raise"))])
    assert (run["status"], told(project)) == ("completed", result)
    assert len(project.hits("pay")) == sent


def test_guardrails_are_not_asked_about_calls_that_a_person_rejected(project: Project) -> None:
    rails = [guardrail(project, "in", "input"), guardrail(project, "out", "output")]
    project.tool("pay", approval="always", guardrails=rails)
    run = one_call(project)
    assert asked(project, "in", "out") == []
    project.client.decide_call(run["id"], "c1", "reject")
    assert project.end(run)["status"] == "completed"
    assert asked(project, "in", "out") == []


def test_a_result_that_is_called_back_is_checked_too(project: Project) -> None:
    project.tool(
        "pay",
        Behaviour("later"),
        guardrails=[guardrail(project, "out", "output", rejecting("hidden"))],
    )
    run = project.accepted(calls(call(1, "pay")), text("done"), tools=["pay"])
    (hit,) = project.hits("pay")
    path = hit.body["callback"]["url"].partition("/v1/")[2]
    project.client.call("POST", f"/v1/{path}", {"status": "completed", "output": "secret"})
    assert project.end(run)["status"] == "completed"
    assert told(project) == "hidden"
    assert [hit.body["output"] for hit in asked(project, "out")] == ["secret"]


# -- before a person is asked ---------------------------------------------------------------------


def test_nobody_is_asked_about_a_call_that_a_guardrail_rejects_before(project: Project) -> None:
    rail = guardrail(project, "rail", "pre_approval", rejecting("too much"))
    project.tool("pay", approval="always", guardrails=[rail])
    run = one_call(project)
    assert (run["status"], told(project)) == ("completed", "too much")
    assert project.client.approvals(status=None, run_id=run["id"]) == []
    assert (
        of_type(project.client.events(run["id"]), "tool_call.rejected")[0]["reason"] == "guardrail"
    )


def test_a_guardrail_before_the_approval_is_asked_only_where_a_person_would_be(
    project: Project,
) -> None:
    rail = guardrail(project, "rail", "pre_approval")
    project.tool("pay", approval={"when": "args.x == '2'"})
    put(project, guardrails=[rail])
    one_call(project)
    assert asked(project, "rail") == []
    both = calls(call(1, "pay", '{"x":"2"}'), call(2, "pay", '{"x":"1"}'))
    run = runs_of(project, both, text("done"), model="other")
    assert run["status"] == "requires_action"
    (hit,) = asked(project, "rail")
    assert (hit.body["stage"], hit.tool, hit.arguments) == ("pre_approval", "pay", {"x": "2"})
    project.client.decide_call(run["id"], "c1", "approve")
    assert project.end(run)["status"] == "completed"
    assert len(asked(project, "rail")) == 1


# -- around the model -----------------------------------------------------------------------------


def test_a_before_model_hook_sees_the_conversation_and_may_answer_itself(project: Project) -> None:
    before = hook(project, "before", "before_model", {"message": "We are closed."})
    run = project.run(text("never"), hooks=[before])
    assert (run["status"], run["output"]) == ("completed", "We are closed.")
    assert project.asked() == []
    (hit,) = asked(project, "before")
    assert hit.body == {
        "type": "hook",
        "on": "before_model",
        "run_id": run["id"],
        "agent": None,
        "context": None,
        "turn": 1,
        "items": [{"type": "message", "role": "user", "content": "go"}],
    }


def test_an_after_model_hook_may_replace_the_response_and_its_calls(project: Project) -> None:
    project.tool("pay")
    after = hook(project, "after", "after_model", {"message": "Let me not."})
    run = one_call(project, hooks=[after])
    assert (run["status"], run["output"], project.hits("pay")) == ("completed", "Let me not.", [])
    (hit,) = asked(project, "after")
    assert hit.body["calls"] == [{"call_id": "c1", "name": "pay", "arguments": {"x": "1"}}]


def test_an_after_model_hook_may_add_change_and_drop_calls(project: Project) -> None:
    project.tool("pay")
    project.tool("refund", approval="always")
    changed = [
        {"call_id": "c2", "arguments": {"x": "2"}},
        {"call_id": "h1", "name": "refund", "arguments": {"x": "3"}},
        {"call_id": "h2", "name": "pay", "arguments": {"x": 4}},
    ]
    after = hook(project, "after", "after_model", {"calls": changed}, {})
    run = project.run(
        calls(call(1, "pay"), call(2, "pay")), text("done"), tools=["pay", "refund"], hooks=[after]
    )
    assert run["status"] == "requires_action", "an added call is approved like any other"
    [action] = run["required_actions"]
    assert (action["call_id"], action["arguments"]) == ("h1", {"x": "3"})
    project.client.decide(action["approval_id"], "approve")
    assert project.end(run)["output"] == "done"
    said = [hit.body["arguments"] for hit in (*project.hits("pay"), *project.hits("refund"))]
    assert said == [{"x": "2"}, {"x": "3"}]
    events = project.client.events(run["id"])
    assert [one["call_id"] for one in of_type(events, "tool_call.created")] == ["c2", "h1", "h2"]
    [invalid] = of_type(events, "tool_call.failed")
    assert (invalid["call_id"], invalid["reason"]) == ("h2", "invalid_arguments")
    [recorded] = of_type(events, "model.calls_changed")
    assert recorded == {
        "turn": 1,
        "agent": None,
        "hook": f"hook (after_model) {after['url']}",
        "requested_calls": [
            {"call_id": "c1", "name": "pay", "arguments": {"x": "1"}},
            {"call_id": "c2", "name": "pay", "arguments": {"x": "1"}},
        ],
    }
    read = [one["id"] for one in project.asked()[-1].body["messages"][1]["tool_calls"]]
    assert read == ["c2", "h1", "h2"]


def test_an_after_model_hook_with_calls_that_cannot_be_used_fails_the_run(
    project: Project,
) -> None:
    project.tool("pay")
    twice = {"calls": [{"call_id": "c1"}, {"call_id": "c1", "name": "other"}]}
    run = one_call(project, hooks=[hook(project, "after", "after_model", twice)])
    assert (run["status"], run["error"]["code"], project.hits("pay")) == (
        "failed",
        "hook_failed",
        [],
    )
    assert "calls.1: two calls have the ID 'c1'" in run["error"]["message"]


def test_model_hooks_that_go_on_change_nothing(project: Project) -> None:
    project.tool("pay")
    put(project, hooks=[hook(project, on, on) for on in MODEL_STAGES])
    run = one_call(project)
    assert (run["status"], run["output"]) == ("completed", "done")
    assert arrivals(project) == [*MODEL_STAGES, "pay", *MODEL_STAGES]
    assert [hit.body["turn"] for hit in asked(project, *MODEL_STAGES)] == [1, 1, 2, 2]


@pytest.mark.parametrize("on", MODEL_STAGES)
def test_a_model_hook_that_fails_fails_the_run(project: Project, on: str) -> None:
    run = project.run(text("hi"), hooks=[hook(project, "hook", on, Behaviour("raise"))])
    assert (run["status"], run["error"]["code"]) == ("failed", "hook_failed")
    assert on in run["error"]["message"]
    assert len(project.asked()) == run["turn"] == (on == "after_model")
    assert (run["usage"]["total_tokens"] > 0) == (on == "after_model"), "it is paid for"


# -- around the run -------------------------------------------------------------------------------


def test_a_rejected_input_ends_the_run_before_the_model_is_asked(project: Project) -> None:
    rail = guardrail(project, "rail", "run_input", rejecting("Off topic."))
    run = project.run(text("never"), guardrails=[rail])
    assert (run["status"], run["output"]) == ("incomplete", "Off topic.")
    assert run["incomplete_details"]["reason"] == "guardrail"
    assert project.asked() == []
    said = {"type": "message", "role": "user", "content": "go"}
    assert asked(project, "rail")[0].body["input"] == [said]


def test_a_rejected_final_output_is_replaced(project: Project) -> None:
    put(project, guardrails=[guardrail(project, "rail", "run_output", rejecting("I may not say."))])
    run = project.run(text("the code is swordfish"))
    assert (run["status"], run["output"]) == ("incomplete", "I may not say.")
    assert run["incomplete_details"]["reason"] == "guardrail"
    assert project.tool_key("rail") in run["incomplete_details"]["message"]
    assert asked(project, "rail")[0].body["output"] == "the code is swordfish"


def test_a_refused_tool_result_that_would_be_the_output_stays_out_of_the_session(
    project: Project,
) -> None:
    rail = guardrail(project, "rail", "run_output", rejecting("I may not say."))
    session = project.client.call("POST", "/v1/sessions", {})
    project.tool("pay", Behaviour("return", value="the code is swordfish"))
    about: Json = {"tool_use_behavior": "stop_on_first_tool", "guardrails": [rail]}
    run = one_call(project, session_id=session["id"], **about)
    assert (run["status"], run["output"]) == ("incomplete", "I may not say.")
    runs_of(project, text("Hello."), model="next", session_id=session["id"])
    [request] = project.model.requests(project.model_name("next"))
    assert "swordfish" not in json.dumps(request.messages)
    assert request.messages[-2] == {"role": "assistant", "content": "I may not say."}
    assert dict(request.results)["c1"].startswith("The tool was called")


def test_no_item_of_a_refused_input_reaches_the_next_run_of_the_session(project: Project) -> None:
    rail = guardrail(project, "rail", "run_input", rejecting("Off topic."))
    session = project.client.call("POST", "/v1/sessions", {})
    items = [
        {"role": "user", "content": "swordfish"},
        {"role": "assistant", "content": "swordfish"},
    ]
    about: Json = {"session_id": session["id"], "input": items, "guardrails": [rail]}
    refused = project.run(text("never"), **about)
    assert refused["status"] == "incomplete"
    project.run(text("Hello."), session_id=session["id"], input="hi")
    [request] = project.asked()
    assert "swordfish" not in json.dumps(request.messages)


def test_a_guardrail_of_the_run_that_does_not_answer_clearly_rejects(project: Project) -> None:
    rail = guardrail(project, "rail", "run_input", Behaviour("raise", message="swordfish"))
    run = project.run(text("never"), guardrails=[rail])
    assert (run["status"], run["output"], project.asked()) == ("incomplete", GUARDED, [])
    assert "HTTP status 500" in run["incomplete_details"]["message"]
    assert "swordfish" not in json.dumps(run)


@pytest.mark.parametrize("stage", ["run_input", "run_output"])
def test_a_guardrail_of_the_run_can_fail_it(project: Project, stage: str) -> None:
    run = project.run(text("hi"), guardrails=[guardrail(project, "r", stage, failing("abuse"))])
    assert (run["status"], run["error"]["code"]) == ("failed", "guardrail")
    assert "abuse" in run["error"]["message"]


def test_the_output_of_an_incomplete_run_is_judged_too(project: Project) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    rail = guardrail(project, "rail", "run_output", rejecting("I may not say."))
    fields: Json = {"output_schema": schema, "output_retries": 0, "guardrails": [rail]}
    run = project.run(text("the code is swordfish"), **fields)
    assert (run["status"], run["output"]) == ("incomplete", "I may not say.")


@pytest.mark.parametrize("stage", ["run_input", "run_output"])
def test_a_workflow_s_own_guardrails_of_the_run_are_asked_once(
    project: Project, stage: str
) -> None:
    model = project.script(text("step"))
    project.client.call("POST", "/v1/agents", {"name": "step", "model": model})
    rail = guardrail(project, "rail", stage, rejecting("no"))
    fields: Json = {"kind": "sequential", "agents": ["step"], "guardrails": [rail]}
    run = project.client.settle(
        project.client.call("POST", "/v1/runs", {"input": "go", **fields})["id"]
    )
    assert (run["status"], run["output"]) == ("incomplete", "no")
    assert len(asked(project, "rail")) == 1
    assert len(project.asked()) == (stage == "run_output")


def test_guardrails_of_the_run_that_allow_are_asked_once(project: Project) -> None:
    project.tool("pay")
    rails = [guardrail(project, stage, stage) for stage in ("run_input", "run_output")]
    run = one_call(project, guardrails=rails)
    assert (run["status"], run["output"]) == ("completed", "done")
    assert arrivals(project) == ["run_input", "pay", "run_output"]


def test_a_slow_guardrail_does_not_hold_up_a_cancel(project: Project) -> None:
    rail = guardrail(project, "rail", "run_input", Behaviour("return", value={}, sleep=20))
    run = project.start(text("never"), guardrails=[{**rail, "timeout_seconds": 30}])
    project.tools.until(lambda _: bool(asked(project, "rail")), PATIENCE_SECONDS)
    began = time.monotonic()
    project.client.cancel(run["id"])
    assert project.end(run)["status"] == "cancelled"
    assert time.monotonic() - began < 5


# -- where they are named -------------------------------------------------------------------------

BAD: Json = {
    "guardrails": [{"stage": "input", "type": "webhook", "url": "http://169.254.169.254/"}],
    "hooks": [{"on": "before_tool", "type": "plugin", "name": "nobody"}],
}
BAD_PATHS = ["guardrails.0.url", "hooks.0.name"]


def test_agents_and_runs_cannot_name_what_cannot_be_asked(project: Project) -> None:
    agent: Json = {"name": "clerk", "model": "offline:rules"}
    project.client.call("POST", "/v1/agents", agent)
    for method, path, body in (
        ("POST", "/v1/agents", {**agent, "name": "other", **BAD}),
        ("PATCH", "/v1/agents/clerk", BAD),
        ("POST", "/v1/runs", {"model": "offline:rules", "input": "hi", **BAD}),
    ):
        problem = project.client.refused(422, "invalid_request", method, path, body)
        assert [error["path"] for error in problem["errors"]] == BAD_PATHS, path


def test_a_tool_has_no_guardrails_of_the_run(project: Project) -> None:
    rails = [guardrail(project, "rail", stage) for stage in ("output", "run_output")]
    body = {"name": "pay", "parameters": {"type": "object"}, "url": NOWHERE, "guardrails": rails}
    problem = project.client.refused(422, "invalid_request", "POST", "/v1/tools", body)
    assert [error["path"] for error in problem["errors"]] == ["guardrails.1.stage"]


def test_an_agent_s_guardrails_hold_for_its_runs(project: Project) -> None:
    project.tool("pay")
    rail = guardrail(project, "rail", "input", rejecting("no cards"))
    model = project.script(calls(call(1, "pay")), text("done"))
    agent = {"name": "clerk", "model": model, "tools": ["pay"], "guardrails": [rail]}
    assert project.client.call("POST", "/v1/agents", agent)["guardrails"][0]["url"] == rail["url"]
    run = project.settle(project.client.start_run_of("clerk"))
    assert (run["status"], told(project), project.hits("pay")) == ("completed", "no cards", [])
    assert asked(project, "rail")[0].body["agent"] == "clerk"


def test_a_result_that_was_withheld_may_be_called_back_again(project: Project) -> None:
    rail = guardrail(project, "out", "output", rejecting("hidden"))
    project.tool("pay", Behaviour("later"), guardrails=[rail])
    run = project.accepted(calls(call(1, "pay")), text("done"), tools=["pay"])
    path = project.hits("pay")[0].body["callback"]["url"].partition("/v1/")[2]
    same = {"status": "completed", "output": "secret"}
    project.client.call("POST", f"/v1/{path}", same)
    assert project.end(run)["status"] == "completed"
    project.client.call("POST", f"/v1/{path}", same)
    other = {**same, "output": "another"}
    project.client.refused(409, "result_already_given", "POST", f"/v1/{path}", other)
