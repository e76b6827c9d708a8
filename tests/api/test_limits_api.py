"""What bounds a run, over HTTP: turns, calls, tokens, money, time, and repetition; and what becomes
of a run at its limit."""

from collections.abc import Mapping
from typing import Any, Final

import pytest

from runward.domain.run import texts
from tests.api.project import PATIENCE_SECONDS, Project, call, of_type, result_of
from tests.support.models.chat_server import Answer, Call, ModelRequest, Reply, calls, text
from tests.support.services.client import Json
from tests.support.serving import Hold
from tests.support.tools.server import Behaviour

SCHEMA: Final = {
    "type": "object",
    "properties": {"sum": {"type": "integer"}},
    "required": ["sum"],
    "additionalProperties": False,
}
ANSWER_COSTS: Final = 0.085
"""Of the model `priced`, see conftest."""


def next_call(request: ModelRequest) -> Reply:
    """A model that never stops asking."""
    return calls(Call(f"c{request.turn}", "pay", f'{{"x":"{request.turn}"}}'))


def outcomes(project: Project, run: Json) -> list[tuple[str, str | None]]:
    return [(one["outcome"], one["reason"]) for one in project.client.tool_calls(run["id"])]


def reason(run: Json) -> str:
    assert run["status"] == "incomplete", run
    assert run["incomplete_details"]["message"]
    return run["incomplete_details"]["reason"]


# -- turns ----------------------------------------------------------------------------------------


def test_the_calls_of_the_last_turn_run_and_then_the_run_is_incomplete(project: Project) -> None:
    project.tool("pay")
    run = project.run(model=project.respond(next_call), tools=["pay"], limits={"max_turns": 2})
    assert (reason(run), run["turn"], run["output"]) == ("max_turns", 2, None)
    assert outcomes(project, run) == [("completed", None)] * 2
    assert len(project.hits("pay")) == 2


@pytest.mark.parametrize(
    ("on_max_turns", "status", "output"),
    [
        ("incomplete", "incomplete", None),
        ("fail", "failed", None),
        ({"output": {"enough": True}}, "completed", {"enough": True}),
        ({"output": None}, "completed", None),
    ],
)
def test_at_the_last_turn_the_run_ends_as_it_was_told(
    on_max_turns: Any, status: str, output: Any, project: Project
) -> None:
    project.tool("pay")
    run = project.run(
        model=project.respond(next_call),
        tools=["pay"],
        limits={"max_turns": 1},
        on_max_turns=on_max_turns,
    )
    assert (run["status"], run["output"]) == (status, output)
    if status == "failed":
        assert run["error"]["code"] == "max_turns"
    else:
        assert run["incomplete_details"]["reason"] == "max_turns"


def test_a_run_may_sum_up_in_one_more_answer_without_tools(project: Project) -> None:
    project.tool("pay")
    run = project.run(
        calls(call(1, "pay")),
        text("Paid once."),
        tools=["pay"],
        limits={"max_turns": 1},
        on_max_turns="summarise",
    )
    assert (run["status"], run["output"]) == ("completed", "Paid once.")
    assert run["incomplete_details"]["reason"] == "max_turns"
    last = project.asked()[-1]
    assert last.tool_names == []
    assert last.messages[-1] == {"role": "user", "content": texts.SUMMARISE}


def test_turns_count_across_the_time_that_a_person_took(project: Project) -> None:
    project.tool("pay", approval="always")
    run = project.run(model=project.respond(next_call), tools=["pay"], limits={"max_turns": 2})
    for turn in range(2):
        assert run["status"] == "requires_action"
        project.client.decide_call(run["id"], f"c{turn}", "approve")
        run = project.settle(run)
    assert (reason(run), run["turn"]) == ("max_turns", 2)


# -- calls ----------------------------------------------------------------------------------------


def test_calls_beyond_the_limit_are_not_run(project: Project) -> None:
    project.tool("pay")
    asked = [call(n, "pay", f'{{"x":"{n}"}}') for n in range(3)]
    run = project.run(calls(*asked), tools=["pay"], limits={"max_tool_calls": 2})
    assert reason(run) == "max_tool_calls"
    assert outcomes(project, run) == [("completed", None)] * 2 + [("failed", "max_tool_calls")]
    assert project.client.tool_calls(run["id"])[2]["output"] == texts.TOO_MANY_CALLS
    assert len(project.hits("pay")) == 2


def test_a_run_without_calls_left_may_still_answer(project: Project) -> None:
    run = project.run(text("hi"), limits={"max_tool_calls": 0})
    assert (run["status"], run["output"]) == ("completed", "hi")


def test_no_more_calls_are_in_flight_than_the_run_allows(project: Project) -> None:
    hold = project.tools.hold(f"one-{project.suffix}")
    project.tool("slow", Behaviour(hold=f"one-{project.suffix}"))
    asked = [call(n, "slow", f'{{"x":"{n}"}}') for n in range(3)]
    run = project.start(
        calls(*asked), text("done"), tools=["slow"], limits={"max_parallel_tool_calls": 1}
    )
    project.wait_for_hits("slow")
    hold.release()
    assert project.settle(run)["output"] == "done"
    events = project.client.events(run["id"])
    order = [
        (event["type"], event["data"]["call_id"])
        for event in events
        if event["type"] in ("tool_call.started", "tool_call.completed")
    ]
    expected = [
        (kind, f"c{n}") for n in range(3) for kind in ("tool_call.started", "tool_call.completed")
    ]
    assert order == expected


def test_the_fifth_identical_call_ends_the_run_after_a_warning_at_the_third(
    project: Project,
) -> None:
    project.tool("pay")
    run = project.run(
        model=project.respond(lambda request: calls(call(request.turn, "pay"))), tools=["pay"]
    )
    assert (reason(run), run["turn"]) == ("repeated_calls", 5)
    assert outcomes(project, run) == [("completed", None)] * 4 + [("failed", "repeated_call")]
    assert len(project.hits("pay")) == 4
    results = dict(project.asked()[-1].results)
    warned = [call_id for call_id, shown in results.items() if texts.REPEATED_WARNING in shown]
    assert warned == ["c2"]


# -- tokens and money -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "name", "why"),
    [
        ({"max_tokens": 70}, "main", "max_tokens"),
        ({"max_cost_usd": ANSWER_COSTS - 0.001}, "priced", "max_cost_usd"),
    ],
)
def test_the_answer_that_uses_up_a_budget_is_kept_and_its_calls_run(
    limits: Mapping[str, float], name: str, why: str, project: Project
) -> None:
    project.tool("pay")
    model = project.script(calls(call(1, "pay")), text("never"), name=name)
    run = project.run(model=model, tools=["pay"], limits=limits)
    assert (reason(run), run["turn"]) == (why, 1)
    assert outcomes(project, run) == [("completed", None)]
    assert len(project.asked(name)) == 1


@pytest.mark.parametrize("limits", [{"max_tokens": 71}, {"max_cost_usd": ANSWER_COSTS + 0.001}])
def test_within_its_budget_a_run_goes_on(limits: Mapping[str, float], project: Project) -> None:
    project.tool("pay")
    model = project.script(calls(call(1, "pay")), text("done"), name="priced")
    run = project.run(model=model, tools=["pay"], limits=limits)
    assert (run["status"], run["output"]) == ("completed", "done")


def test_a_budget_counts_what_was_used_before_a_person_answered(project: Project) -> None:
    project.tool("pay", approval="always")
    model = project.respond(next_call, name="priced")
    run = project.run(model=model, tools=["pay"], limits={"max_cost_usd": 0.15})
    for turn in range(2):
        assert run["status"] == "requires_action"
        project.client.decide_call(run["id"], f"c{turn}", "approve")
        run = project.settle(run)
    assert (reason(run), run["turn"]) == ("max_cost_usd", 2)
    assert run["usage"]["cost_usd"] == pytest.approx(2 * ANSWER_COSTS)


def test_a_run_says_what_it_cost(project: Project) -> None:
    project.tool("pay")
    model = project.script(calls(call(1, "pay")), text("done"), name="priced")
    run = project.run(model=model, tools=["pay"])
    assert run["usage"]["cost_usd"] == pytest.approx(2 * ANSWER_COSTS)
    updates = of_type(project.client.events(run["id"]), "usage.updated")
    costs = [update["cost_usd"] for update in updates]
    assert costs == [pytest.approx(ANSWER_COSTS), pytest.approx(2 * ANSWER_COSTS)]


BUDGET: Final[Json] = {"max_cost_usd": 1}


def test_a_budget_of_money_is_refused_for_a_model_without_a_price(project: Project) -> None:
    priced, free = project.script(text("done"), name="priced"), project.script(text("done"))
    agent = {"name": "clerk", "model": [priced, free], "limits": BUDGET}
    run = {"model": free, "input": "go", "limits": BUDGET}
    for path, body in [("/v1/agents", agent), ("/v1/runs", run)]:
        problem = project.client.refused(422, "invalid_request", "POST", path, body)
        [error] = problem["errors"]
        assert error["path"] == "limits.max_cost_usd"
        assert f"no price for '{free}'" in error["message"]
        assert "RUNWARD_MODEL_PRICES" in error["message"]
    project.client.call("POST", "/v1/agents", {**agent, "model": priced})
    for patch in ({"model": free}, {"model": [priced, free]}):
        project.client.refused(422, "invalid_request", "PATCH", "/v1/agents/clerk", patch)
    project.client.call("POST", "/v1/agents", {"name": "free", "model": free})
    handed = {"model": priced, "input": "go", "limits": BUDGET, "handoffs": ["free"]}
    project.client.refused(422, "invalid_request", "POST", "/v1/runs", handed)
    assert project.run(model=free)["usage"]["cost_usd"] == 0


def test_a_child_run_whose_model_has_no_price_fails_where_its_parent_has_a_budget_of_money(
    project: Project,
) -> None:
    project.client.call(
        "POST", "/v1/agents", {"name": "free", "model": project.script(text("done"))}
    )
    workflow = {"name": "line", "kind": "sequential", "agents": ["free"], "limits": BUDGET}
    project.client.call("POST", "/v1/agents", workflow)
    run = project.settle(project.client.start_run_of("line"))
    assert run["status"] == "failed"
    [child] = project.client.call("GET", "/v1/runs", parent_run_id=run["id"])["data"]
    assert (child["status"], child["error"]["code"]) == ("failed", "unknown_price")
    assert "no price for" in child["error"]["message"]
    assert project.asked() == []


def test_a_child_run_costs_no_more_than_its_parent_may(project: Project) -> None:
    project.tool("pay")
    model = project.respond(next_call, name="priced")
    agent = {"name": "clerk", "model": model, "tools": ["pay"]}
    project.client.call("POST", "/v1/agents", {**agent, "limits": {"max_cost_usd": 5}})
    budget = {"max_cost_usd": ANSWER_COSTS / 2}
    workflow = {"name": "line", "kind": "sequential", "agents": ["clerk"], "limits": budget}
    project.client.call("POST", "/v1/agents", workflow)
    run = project.settle(project.client.start_run_of("line"))
    [child] = project.client.call("GET", "/v1/runs", parent_run_id=run["id"])["data"]
    assert (reason(child), child["turn"]) == ("max_cost_usd", 1)


# -- time -----------------------------------------------------------------------------------------


def test_a_deadline_lets_nothing_more_start(project: Project) -> None:
    project.tool("slow", Behaviour(sleep=1.2))
    asked = [call(n, "slow", f'{{"x":"{n}"}}') for n in range(2)]
    run = project.run(
        calls(*asked),
        text("never"),
        tools=["slow"],
        limits={"deadline_seconds": 1, "max_parallel_tool_calls": 1},
    )
    assert reason(run) == "deadline"
    assert len(project.hits("slow")) == 1
    assert outcomes(project, run)[1] == ("cancelled", "run_ended")


def test_a_deadline_ends_a_run_whose_model_is_silent(project: Project) -> None:
    hold = Hold()
    run = project.start(Answer(text="late", hold=hold), limits={"deadline_seconds": 1})
    hold.arrived()
    ended = project.settle(run)
    hold.release()
    assert reason(ended) == "deadline"


def test_a_deadline_that_passes_while_a_person_thinks_expires_the_run(project: Project) -> None:
    project.tool("pay", approval="always")
    run = project.run(calls(call(1, "pay")), tools=["pay"], limits={"deadline_seconds": 1})
    ended = project.end(run)
    assert ended["status"] == "expired"
    assert project.hits("pay") == []
    assert project.client.approvals(run_id=run["id"]) == []


@pytest.mark.parametrize(
    ("own", "of_the_run", "seconds"),
    [(0.2, 3600, "0.2"), (None, 0.3, "0.3")],
)
def test_a_tool_has_its_own_time_or_else_the_run_s(
    own: float | None, of_the_run: float, seconds: str, project: Project
) -> None:
    project.tool("slow", Behaviour(sleep=PATIENCE_SECONDS), timeout_seconds=own)
    run = project.run(
        calls(call(1, "slow")),
        text("done"),
        tools=["slow"],
        limits={"tool_timeout_seconds": of_the_run},
    )
    assert run["output"] == "done"
    told = result_of(project.asked(), "c1")
    assert told.startswith(f"Tool 'slow' timed out after {seconds} seconds.")


# -- output ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("attempts", "answers"), [(0, 1), (2, 3)])
def test_an_output_that_never_fits_ends_the_run_when_its_repairs_are_used_up(
    attempts: int, answers: int, project: Project
) -> None:
    run = project.run(
        model=project.respond(lambda _: text("not json")),
        output_schema=SCHEMA,
        output_retries=attempts,
    )
    assert (reason(run), run["output"]) == ("output_schema", "not json")
    assert (run["turn"], len(project.asked())) == (answers, answers)


def test_a_repair_is_a_turn_like_any_other(project: Project) -> None:
    run = project.run(
        text("not json"), text('{"sum": 1}'), output_schema=SCHEMA, limits={"max_turns": 1}
    )
    assert (reason(run), run["turn"]) == ("max_turns", 1)
