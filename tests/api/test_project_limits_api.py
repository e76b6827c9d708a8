"""/v1/limits: limits of running and queued runs, and of requests."""

import time
from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.api.project import PATIENCE_SECONDS, CheckedClient, Project
from tests.support.models.chat_server import Answer, text
from tests.support.services.client import Json
from tests.support.serving import Hold

NONE: Json = {
    "object": "limits",
    "running_runs": None,
    "queued_runs": None,
    "requests_per_minute": None,
    "concurrency": [],
}


@pytest.fixture
def limited(project: Project) -> Generator[Project]:
    """A project whose limits are removed after the test."""
    yield project
    put(project)


def put(project: Project, **limits: Any) -> CheckedClient:
    """Set the limits. Returns a client with a new key, which no cache of a process contains."""
    project.key("admin").call("PUT", "/v1/limits", limits)
    return project.key("runs:read", "runs:write")


def test_limits_are_replaced_as_a_whole(project: Project) -> None:
    admin = project.key("admin")
    assert admin.call("GET", "/v1/limits") == {**NONE, "updated_at": None}
    agents = [{"agent": "b", "max": 2}, {"agent": "a", "max": 1}]
    chosen = {"running_runs": 5, "concurrency": agents}
    made = admin.call("PUT", "/v1/limits", chosen)
    agents.reverse()
    assert made == {**NONE, **chosen, "updated_at": made["updated_at"]}
    assert admin.call("GET", "/v1/limits") == made
    changed = admin.call("PUT", "/v1/limits", {"queued_runs": 7})
    assert changed == {**NONE, "queued_runs": 7, "updated_at": changed["updated_at"]}
    assert changed["updated_at"] > made["updated_at"]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"running_runs": 0}, "running_runs"),
        ({"queued_runs": 1_000_001}, "queued_runs"),
        ({"requests_per_minute": "60"}, "requests_per_minute"),
        ({"concurrency": [{"agent": "a", "max": 0}]}, "concurrency.0.max"),
        ({"concurrency": [{"agent": "a", "max": 1}] * 2}, "concurrency"),
        ({"concurrency": [{"agent": f"a{n}", "max": 1} for n in range(101)]}, "concurrency"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_a_wrong_limit_is_rejected(project: Project, body: Json, path: str) -> None:
    admin = project.key("admin")
    problem = admin.refused(422, "invalid_request", "PUT", "/v1/limits", body)
    assert [error["path"] for error in problem["errors"]] == [path]
    assert admin.call("GET", "/v1/limits")["updated_at"] is None


def wait_for_statuses(client: CheckedClient, runs: list[Json], *wanted: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        found = [client.get_run(run["id"])["status"] for run in runs]
        if found == list(wanted):
            return
        assert time.monotonic() < deadline, found
        time.sleep(0.02)


def test_further_runs_wait_until_a_running_one_has_ended(project: Project) -> None:
    hold = Hold()
    model = project.script(Answer(text="one", hold=hold), text("two"))
    client = put(project, running_runs=1)
    first = client.start_run(model=model)
    hold.arrived()
    second = client.start_run(model=model)
    assert client.get_run(second["id"])["status"] == "queued"
    hold.release()
    ended = [client.settle(run["id"], timeout=PATIENCE_SECONDS) for run in (first, second)]
    assert [run["output"] for run in ended] == ["one", "two"]
    assert ended[1]["started_at"] >= ended[0]["ended_at"]


def test_a_run_that_waits_for_an_approval_makes_room(project: Project) -> None:
    project.tool("pay", approval="always")
    client = put(project, running_runs=1)
    body = {"model": "offline:rules", "tools": ["pay"], "input": 'pay(x="1")'}
    waiting = [client.call("POST", "/v1/runs", body) for _ in range(2)]
    wait_for_statuses(client, waiting, "requires_action", "requires_action")


def test_an_agent_has_a_limit_of_its_own(project: Project) -> None:
    hold = Hold()
    model = project.script(Answer(text="one", hold=hold), text("two"))
    project.client.call("POST", "/v1/agents", {"name": "clerk", "model": model})
    client = put(project, concurrency=[{"agent": "clerk", "max": 1}])
    body = {"agent": "clerk", "input": "hi"}
    runs = [client.call("POST", "/v1/runs", body) for _ in range(2)]
    other = client.start_run(model="offline:rules")
    client.settle(other["id"], timeout=PATIENCE_SECONDS)
    hold.arrived()
    statuses = sorted(client.get_run(run["id"])["status"] for run in runs)
    assert statuses == ["in_progress", "queued"]
    hold.release()
    for run in runs:
        assert client.settle(run["id"], timeout=PATIENCE_SECONDS)["status"] == "completed"


def test_a_full_queue_rejects_further_runs(project: Project) -> None:
    client = put(project, queued_runs=2)
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    body = {"model": "offline:rules", "input": "hi", "start_at": later}
    first = client.request("POST", "/v1/runs", body, headers={"Idempotency-Key": "one"}).json()
    second = client.call("POST", "/v1/runs", body)
    response = client.request("POST", "/v1/runs", body)
    assert (response.status_code, response.json()["code"]) == (429, "too_many_requests")
    assert response.headers["Retry-After"] == "2"
    assert "2 queued runs" in response.json()["detail"]
    refused = {"model": "offline:rules", "input": "hi"}
    assert client.request("POST", "/v1/responses", refused).status_code == 429
    replayed = client.request("POST", "/v1/runs", body, headers={"Idempotency-Key": "one"})
    assert replayed.json()["id"] == first["id"]
    client.cancel(first["id"])
    third = client.call("POST", "/v1/runs", body)
    for run in (second, third):
        client.cancel(run["id"])


def test_requests_above_the_limit_are_rejected_until_the_minute_has_passed(
    limited: Project,
) -> None:
    client = put(limited, requests_per_minute=3)
    responses = [client.request("GET", "/v1/runs") for _ in range(4)]
    assert [response.status_code for response in responses] == [200, 200, 200, 429]
    assert {one.headers["RateLimit-Policy"] for one in responses} == {'"project";q=3;w=60'}
    limits = [one.headers["RateLimit"].partition(";t=") for one in responses]
    assert [limit for limit, _, _ in limits] == [f'"project";r={left}' for left in (2, 1, 0, 0)]
    assert all(0 < int(seconds) <= 60 for _, _, seconds in limits)
    problem = responses[-1].json()
    assert problem["code"] == "too_many_requests"
    assert 0 < int(responses[-1].headers["Retry-After"]) <= 60


def test_errors_count_and_show_the_limit_and_other_keys_share_it(limited: Project) -> None:
    client = put(limited, requests_per_minute=2)
    missing = client.request("GET", "/v1/runs/run_" + "0" * 32)
    assert (missing.status_code, missing.headers["RateLimit"][:13]) == (404, '"project";r=1')
    other = limited.key("admin")
    assert other.request("GET", "/v1/keys").status_code == 200
    assert other.request("GET", "/v1/keys").status_code == 429
    assert client.request("GET", "/mcp").status_code == 429
    assert other.request("GET", "/v1/limits").status_code == 200


def test_a_project_without_a_limit_has_no_headers(project: Project) -> None:
    response = put(project).request("GET", "/v1/runs")
    assert not [name for name in response.headers if name.startswith("ratelimit")]
