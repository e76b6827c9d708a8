"""The priority and the start time of runs."""

from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.api.project import Project, call
from tests.support.models.chat_server import calls, text
from tests.support.services.client import Json


def ahead(**duration: float) -> str:
    return (datetime.now(UTC) + timedelta(**duration)).isoformat()


@contextmanager
def starting_later(project: Project, **fields: Any) -> Generator[Json]:
    """A run that starts in an hour."""
    model = project.script(name="later")
    run = project.start(model=model, start_at=ahead(hours=1), **fields)
    yield run
    project.client.cancel(run["id"])


def test_a_run_has_the_priority_of_its_request(project: Project) -> None:
    model = project.script(text("done"), text("done"))
    run = project.run(model=model, priority=-100)
    assert (run["priority"], run["start_at"], run["status"]) == (-100, None, "completed")
    [listed] = project.client.call("GET", "/v1/runs")["data"]
    assert listed["priority"] == -100
    assert project.run(model=model)["priority"] == 0


def test_child_runs_and_continuations_have_the_priority_of_the_first_run(project: Project) -> None:
    model = project.script(calls(call(1, "pay")), text("booked"), name="child")
    project.tool("pay")
    limits = {"max_turns": 1}
    agent = {"name": "clerk", "model": model, "tools": ["pay"], "limits": limits}
    project.client.call("POST", "/v1/agents", agent)
    project.client.call(
        "POST",
        "/v1/tools",
        {"name": "ask", "type": "agent", "agent": "clerk", "description": "Ask"},
    )
    asked = calls(call(2, "ask", '{"input":"book"}'))
    run = project.run(asked, tools=["ask"], priority=7, limits=limits)
    assert run["status"] == "incomplete"
    path = f"/v1/runs/{run['id']}/continue"
    project.script(asked, text("done"))
    continued = project.end(project.client.call("POST", path))
    children = project.client.call("GET", "/v1/runs", parent_run_id=run["id"])["data"]
    assert [one["priority"] for one in children] == [7]
    assert continued["priority"] == 7


def test_a_run_does_not_start_before_its_time(project: Project) -> None:
    start_at = ahead(seconds=1.5)
    run = project.start(text("done"), start_at=start_at)
    assert (run["status"], run["started_at"]) == ("queued", None)
    run = project.end(run)
    assert run["status"] == "completed"
    assert datetime.fromisoformat(run["start_at"]) == datetime.fromisoformat(start_at)
    assert run["started_at"] >= run["start_at"]


def test_a_start_time_in_the_past_is_now(project: Project) -> None:
    run = project.run(text("done"), start_at="2020-01-01T00:00:00+02:00")
    assert (run["status"], run["start_at"]) == ("completed", "2019-12-31T22:00:00Z")


def test_a_message_does_not_start_a_run_before_its_time(project: Project) -> None:
    with starting_later(project) as run:
        project.client.call("POST", f"/v1/runs/{run['id']}/input", {"input": "hurry"})
        assert project.run(text("done"))["status"] == "completed"
        assert project.client.get_run(run["id"])["status"] == "queued"


def test_the_deadline_counts_from_the_start_time(project: Project) -> None:
    run = project.run(text("done"), start_at=ahead(seconds=2), limits={"deadline_seconds": 1.5})
    assert run["status"] == "completed"


def test_a_run_of_a_session_waits_for_its_turn_and_its_time(project: Project) -> None:
    session = project.client.call("POST", "/v1/sessions", {})["id"]
    model = project.script(text("one"), text("two"))
    first = project.start(model=model, session_id=session)
    with starting_later(project, session_id=session) as second:
        project.end(first)
        assert project.run(model=model)["status"] == "completed"
        assert project.client.get_run(second["id"])["status"] == "queued"


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("priority", 101, "must be less than or equal to 100"),
        ("priority", -101, "must be greater than or equal to -100"),
        ("priority", 0.5, "must be a valid integer"),
        ("start_at", "2026-01-01T00:00:00", "must have an offset from UTC, such as Z or +02:00"),
        ("start_at", "tomorrow", "must be a valid datetime"),
        ("start_at", "9999-01-01T00:00:00Z", "must be at most one year ahead"),
    ],
)
def test_a_wrong_value_is_rejected(project: Project, field: str, value: Any, message: str) -> None:
    body = {"model": project.script(), "input": "go", field: value}
    problem = project.client.refused(422, "invalid_request", "POST", "/v1/runs", body)
    [error] = problem["errors"]
    assert (error["path"], message in error["message"]) == (field, True), error


def test_a_schedule_decides_when_its_runs_start(project: Project) -> None:
    run = {"model": project.script(), "input": "go", "priority": 3, "start_at": ahead(hours=1)}
    body = {"name": "later", "after_seconds": 3600, "run": run}
    problem = project.client.refused(422, "invalid_request", "POST", "/v1/schedules", body)
    assert [error["path"] for error in problem["errors"]] == ["run"]
    del run["start_at"]
    made = project.client.call("POST", "/v1/schedules", body)
    assert made["run"]["priority"] == 3
    project.client.call("DELETE", f"/v1/schedules/{made['id']}")
