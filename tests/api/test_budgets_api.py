"""/v1/budgets over HTTP: the resource, and runs that wait for a budget."""

import time
from typing import Any, Final

import pytest

from tests.api.project import PATIENCE_SECONDS, CheckedClient, Project, call, of_type
from tests.api.test_limits_api import ANSWER_COSTS
from tests.support.models.chat_server import calls, text
from tests.support.services.client import Json

BUDGETS: Final = "/v1/budgets"


def add(project: Project, limit_usd: float, **fields: Any) -> tuple[CheckedClient, Json]:
    admin = project.key("admin")
    return admin, admin.call("POST", BUDGETS, {"limit_usd": limit_usd, **fields})


def start_waiting(project: Project, budget: Json, **body: Any) -> Json:
    """Start a run, and return it when it waits for the budget."""
    run = project.client.call("POST", "/v1/runs", {"input": "go", **body})
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (events := of_type(project.client.events(run["id"]), "budget.exceeded")):
        assert time.monotonic() < deadline, project.client.events(run["id"])
        time.sleep(0.05)
    [data] = events
    assert data["budget_id"] == budget["id"]
    assert data["limit_usd"] == budget["limit_usd"] < data["estimate_usd"]
    assert data["period_ends_at"] == budget["period_end"]
    return project.client.call("GET", f"/v1/runs/{run['id']}")


def test_a_budget_is_created_listed_updated_and_deleted(project: Project) -> None:
    admin, budget = add(project, 2.5, agent="clerk", period="month")
    path = f"{BUDGETS}/{budget['id']}"
    assert (budget["agent"], budget["key_id"], budget["period"]) == ("clerk", None, "month")
    assert (budget["limit_usd"], budget["spent_usd"], budget["reserved_usd"]) == (2.5, 0, 0)
    assert budget["period_start"].endswith("-01T00:00:00Z")
    assert admin.call("GET", path) == budget
    assert admin.call("GET", BUDGETS)["data"] == [budget]
    assert admin.call("PATCH", path, {"limit_usd": 3})["limit_usd"] == 3
    admin.call("DELETE", path)
    for method, body in [("GET", None), ("PATCH", {"limit_usd": 1}), ("DELETE", None)]:
        admin.refused(404, "budget_not_found", method, path, body)


def test_a_budget_that_cannot_apply_is_refused(project: Project, other: Project) -> None:
    admin, ours = project.key("admin"), project.new_key("runs:read")["id"]
    foreign = other.new_key("runs:read")["id"]
    assert admin.call("POST", BUDGETS, {"limit_usd": 1, "key_id": ours})["key_id"] == ours
    for wrong in (
        {"limit_usd": 0},
        {"limit_usd": 1, "agent": "clerk", "key_id": ours},
        {"limit_usd": 1, "key_id": foreign},
        {"limit_usd": 1, "key_id": "clerk"},
        {"limit_usd": 1, "period": "week"},
        {"limit_usd": 1, "limit_tokens": 1},
        {"limit_tokens": 0},
        {"limit_tokens": 1.5},
        {"period": "day"},
        {"limit_usd": 1, "agent": "no name"},
        {"limit_tokens": 1, "period": "minute", "on_limit": "ask"},
    ):
        admin.refused(422, "invalid_request", "POST", BUDGETS, wrong)


def test_a_run_waits_until_its_budget_is_raised(project: Project) -> None:
    admin, budget = add(project, 0.000001)
    model = project.script(text("done"), name="priced")
    run = start_waiting(project, budget, model=model)
    assert run["status"] == "queued"
    assert project.asked("priced") == []
    admin.call("PATCH", f"{BUDGETS}/{budget['id']}", {"limit_usd": 1_000})
    run = project.settle(run)
    assert (run["status"], run["output"]) == ("completed", "done")
    found = admin.call("GET", f"{BUDGETS}/{budget['id']}")
    assert found["spent_usd"] == pytest.approx(run["usage"]["cost_usd"])
    assert found["spent_usd"] == pytest.approx(ANSWER_COSTS)
    assert found["reserved_usd"] == 0


def ask_to_exceed(project: Project, **body: Any) -> tuple[Json, Json]:
    """Start a run that waits for an approval to exceed a budget. Return the run and the
    approval."""
    _, budget = add(project, 0.000001, on_limit="ask")
    run = project.run(**body)
    assert run["status"] == "requires_action"
    [action] = run["required_actions"]
    [approval] = project.client.call("GET", "/v1/approvals", status="pending")["data"]
    assert (action["type"], action["approval_id"]) == ("approval", approval["id"])
    assert (approval["tool"], approval["url"]) == ("exceed_budget", None)
    assert approval["allowed_decisions"] == ["approve", "reject"]
    [exceeded] = of_type(project.client.events(run["id"]), "budget.exceeded")
    assert approval["arguments"] == exceeded
    assert exceeded["budget_id"] == budget["id"]
    assert exceeded["period_ends_at"] == budget["period_end"]
    return run, approval


def test_a_run_may_exceed_its_budget_after_an_approval(project: Project) -> None:
    project.tool("look")
    model = project.script(calls(call(1, "look")), text("done"), name="priced")
    limits = {"max_tool_calls": 1}  # which the approval does not use up
    run, approval = ask_to_exceed(project, model=model, tools=["look"], limits=limits)
    assert project.asked("priced") == []
    remember = {"decision": "approve", "remember": {"scope": "run"}}
    path = f"/v1/approvals/{approval['id']}/decision"
    project.client.refused(422, "invalid_request", "POST", path, remember)
    project.client.call("POST", path, {"decision": "approve"})
    run = project.settle(run)
    assert (run["status"], run["output"]) == ("completed", "done")
    assert len(project.asked("priced")) == 2  # the approval applies until the period ends
    assert "exceed_budget" not in str(project.asked("priced"))
    found = project.key("admin").call("GET", BUDGETS)["data"][0]
    assert found["spent_usd"] == pytest.approx(2 * ANSWER_COSTS)
    assert found["reserved_usd"] == 0


def test_a_run_ends_if_nobody_lets_it_exceed_its_budget(project: Project) -> None:
    model = project.script(text("never"), name="priced")
    run, approval = ask_to_exceed(project, model=model)
    decision = {"decision": "reject", "message": "Too expensive."}
    project.client.call("POST", f"/v1/approvals/{approval['id']}/decision", decision)
    run = project.settle(run)
    assert run["status"] == "incomplete"
    assert run["incomplete_details"] == {
        "reason": "budget",
        "message": "The run may not exceed its budget. Too expensive.",
    }
    assert project.asked("priced") == []


def test_a_run_that_ended_at_its_budget_can_be_continued(project: Project) -> None:
    model = project.script(text("done"), name="priced")
    run, approval = ask_to_exceed(project, model=model)
    path = f"/v1/approvals/{approval['id']}/decision"
    project.client.call("POST", path, {"decision": "reject"})
    project.settle(run)
    path = f"/v1/runs/{run['id']}/continue"
    asked = project.settle(project.client.call("POST", path))
    assert [action["tool"] for action in asked["required_actions"]] == ["exceed_budget"]
    path = f"/v1/approvals/{asked['required_actions'][0]['approval_id']}/decision"
    project.client.call("POST", path, {"decision": "approve"})
    assert project.settle(asked)["output"] == "done"


def test_a_call_that_the_model_invents_decides_nothing(project: Project) -> None:
    add(project, 1_000, on_limit="ask")
    model = project.script(calls(call(1, "exceed_budget")), text("done"), name="priced")
    run = project.run(model=model)
    assert (run["status"], run["output"]) == ("completed", "done")


def test_a_budget_begins_to_ask(project: Project) -> None:
    admin, budget = add(project, 0.000001)
    assert budget["on_limit"] == "wait"
    model = project.script(text("done"), name="priced")
    waiting = start_waiting(project, budget, model=model)
    path = f"{BUDGETS}/{budget['id']}"
    changed = admin.call("PATCH", path, {"on_limit": "ask"})
    assert (changed["on_limit"], changed["limit_usd"]) == ("ask", budget["limit_usd"])
    assert project.settle(waiting)["status"] == "requires_action"
    assert project.run(model=model)["status"] == "requires_action"


def test_a_run_waits_until_its_budget_is_deleted(project: Project) -> None:
    model = project.script(text("done"), name="priced")
    project.client.call("POST", "/v1/agents", {"name": "clerk", "model": model})
    admin, budget = add(project, 0.000001, agent="clerk")
    run = start_waiting(project, budget, agent="clerk")
    admin.call("DELETE", f"{BUDGETS}/{budget['id']}")
    assert project.settle(run)["status"] == "completed"


def test_a_run_that_waits_for_its_budget_can_be_cancelled(project: Project) -> None:
    _, budget = add(project, 0.000001)
    model = project.script(text("never"), name="priced")
    run = start_waiting(project, budget, model=model)
    project.client.call("POST", f"/v1/runs/{run['id']}/cancel")
    assert project.settle(run)["status"] == "cancelled"
    assert project.asked("priced") == []


def test_a_model_without_a_price_is_refused_where_a_budget_applies(project: Project) -> None:
    free = project.script(text("done"))
    admin, budget = add(project, 1)
    run = {"model": free, "input": "go"}
    problem = project.client.refused(422, "invalid_request", "POST", "/v1/runs", run)
    [error] = problem["errors"]
    assert error["path"] == "model"
    assert "no known price" in error["message"]
    admin.call("DELETE", f"{BUDGETS}/{budget['id']}")
    assert project.run(model=free)["status"] == "completed"


def test_a_run_of_a_key_with_a_budget_fails_if_its_model_has_no_price(project: Project) -> None:
    key = project.new_key("runs:read", "runs:write")
    add(project, 1, key_id=key["id"])
    free = project.script(text("done"), text("done"))
    assert project.run(model=free)["status"] == "completed"  # by another key
    client = project.client_of(key["key"])
    run = client.call("POST", "/v1/runs", {"model": free, "input": "go"}, wait=20)
    assert (run["status"], run["error"]["code"]) == ("failed", "unknown_price")


def test_a_budget_of_tokens_limits_each_minute(project: Project) -> None:
    admin = project.key("admin")
    body = {"limit_tokens": 5, "period": "minute"}
    budget = admin.call("POST", BUDGETS, body)
    path = f"{BUDGETS}/{budget['id']}"
    shown = {name: value for name, value in budget.items() if name.endswith(("_usd", "_tokens"))}
    assert shown == {
        **dict.fromkeys(("limit_usd", "spent_usd", "reserved_usd")),
        "limit_tokens": 5,
        "spent_tokens": 0,
        "reserved_tokens": 0,
    }
    model = project.script(text("done"))  # a model without a price
    run = project.client.start_run(model=model)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (events := of_type(project.client.events(run["id"]), "budget.exceeded")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert (events[0]["limit_tokens"], events[0]["estimate_tokens"] > 4_000) == (5, True)
    wrong = {"limit_usd": 1, "on_limit": "ask"}
    problem = admin.refused(422, "invalid_request", "PATCH", path, wrong)
    assert [error["path"] for error in problem["errors"]] == ["limit_usd", "on_limit"]
    admin.call("PATCH", path, {"limit_tokens": 100_000})
    ended = project.settle(run)
    assert ended["output"] == "done"
    found = admin.call("GET", path)
    used = ended["usage"]["input_tokens"] + ended["usage"]["output_tokens"]
    assert found["spent_tokens"] in (used, 0)  # 0 if the minute has just passed
    assert found["reserved_tokens"] == 0
