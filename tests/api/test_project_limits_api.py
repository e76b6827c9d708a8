"""/v1/limits: limits of running and queued runs, of requests and of event streams."""

import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.api.project import PATIENCE_SECONDS, CheckedClient, Project, call
from tests.support.models.chat_server import Answer, calls, text
from tests.support.services.client import Json
from tests.support.serving import Hold

NONE: Json = {
    "object": "limits",
    "running_runs": None,
    "queued_runs": None,
    "requests_per_minute": None,
    "event_streams": None,
    "concurrency": [],
    "keys": [],
}
NO_KEY_LIMITS: Json = {
    "running_runs": None,
    "queued_runs": None,
    "requests_per_minute": None,
    "event_streams": None,
}
CUSTOMER = "run.metadata.customer"


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
    given = [
        {"key": CUSTOMER, "max": 3},
        {"tool": "pay", "max": 4},
        {"agent": "b", "max": 2},
        {"agent": "a", "max": 1},
    ]
    key_id = project.new_key("runs:read")["id"]
    keys = [{"key_id": key_id, "event_streams": 4}]
    made = admin.call("PUT", "/v1/limits", {"event_streams": 5, "concurrency": given, "keys": keys})
    shown = {
        "event_streams": 5,
        "concurrency": [
            {"agent": None, "tool": None, "key": None, **one} for one in reversed(given)
        ],
        "keys": [{**NO_KEY_LIMITS, **keys[0]}],
    }
    assert made == {**NONE, **shown, "updated_at": made["updated_at"]}
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
        ({"concurrency": [{"max": 1}]}, "concurrency.0"),
        ({"concurrency": [{"agent": "a", "key": "'b'", "max": 1}]}, "concurrency.0"),
        ({"concurrency": [{"agent": "a", "tool": "b", "max": 1}]}, "concurrency.0"),
        ({"concurrency": [{"tool": "b", "max": 1}] * 2}, "concurrency"),
        ({"concurrency": [{"key": "run.", "max": 1}]}, "concurrency.0.key"),
        ({"concurrency": [{"key": "[1]", "max": 1}]}, "concurrency.0.key"),
        ({"concurrency": [{"key": f"'{n}'", "max": 1} for n in range(11)]}, "concurrency"),
        ({"keys": [{"key_id": "key_" + "0" * 32}]}, "keys.0.key_id"),
        ({"keys": [{"key_id": "unknown"}]}, "keys.0.key_id"),
        ({"keys": [{"key_id": "unknown"}] * 2}, "keys"),
        ({"event_streams": 0}, "event_streams"),
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


def test_the_running_runs_with_a_tool_are_limited(project: Project) -> None:
    hold = Hold()
    model = project.script(Answer(text="one", hold=hold), text("two"))
    for tool in ("pay", "look"):
        project.tool(tool)
    client = put(project, concurrency=[{"tool": "pay", "max": 1}])
    first = client.start_run(model=model, tools=["pay", "look"])
    hold.arrived()
    second = client.start_run(model=model, tools=["pay"])
    other = client.start_run(model="offline:rules", tools=["look"])
    client.settle(other["id"], timeout=PATIENCE_SECONDS)
    assert client.get_run(second["id"])["status"] == "queued"
    hold.release()
    for run in (first, second):
        client.settle(run["id"], timeout=PATIENCE_SECONDS)


# Limits of single keys.


def put_key(project: Project, **limits: Any) -> tuple[CheckedClient, CheckedClient]:
    """Limit a key. Returns a client with this key, and a client with another key."""
    made = project.new_key("runs:read", "runs:write")
    put(project, keys=[{"key_id": made["id"], **limits}])
    return project.client_of(made["key"]), project.key("runs:read", "runs:write")


def test_a_key_of_another_project_is_unknown(project: Project, other: Project) -> None:
    body = {"keys": [{"key_id": other.new_key("runs:read")["id"], "running_runs": 1}]}
    problem = project.key("admin").refused(422, "invalid_request", "PUT", "/v1/limits", body)
    assert [error["path"] for error in problem["errors"]] == ["keys.0.key_id"]


def test_the_requests_of_a_key_are_limited_and_other_keys_are_not(project: Project) -> None:
    limited, other = put_key(project, requests_per_minute=2)
    responses = [limited.request("GET", "/v1/runs") for _ in range(3)]
    assert [response.status_code for response in responses] == [200, 200, 429]
    assert responses[0].headers["RateLimit-Policy"] == '"key";q=2;w=60'
    assert responses[0].headers["RateLimit"].startswith('"key";r=1;t=')
    assert "The API key has sent 2 requests" in responses[2].json()["detail"]
    assert other.request("GET", "/v1/runs").status_code == 200


def test_a_response_shows_the_limits_of_the_key_and_of_the_project(limited: Project) -> None:
    made = limited.new_key("runs:read")
    put(limited, requests_per_minute=9, keys=[{"key_id": made["id"], "requests_per_minute": 3}])
    headers = limited.client_of(made["key"]).request("GET", "/v1/runs").headers
    assert headers.get_list("RateLimit-Policy") == ['"key";q=3;w=60', '"project";q=9;w=60']
    assert [one[:11] for one in headers.get_list("RateLimit")] == ['"key";r=2;t', '"project";r']


def test_the_queued_runs_of_a_key_are_limited(project: Project) -> None:
    limited, other = put_key(project, queued_runs=1)
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    body = {"model": "offline:rules", "input": "hi", "start_at": later}
    runs = [other.call("POST", "/v1/runs", body), limited.call("POST", "/v1/runs", body)]
    problem = limited.refused(429, "too_many_requests", "POST", "/v1/runs", body)
    assert problem["detail"] == "The API key has 1 queued runs, its maximum."
    runs.append(other.call("POST", "/v1/runs", body))
    for run in runs:
        other.cancel(run["id"])


def test_the_running_runs_of_a_key_are_limited(project: Project) -> None:
    hold = Hold()
    model = project.script(Answer(text="one", hold=hold), text("two"))
    limited, other = put_key(project, running_runs=1)
    first = limited.start_run(model=model)
    hold.arrived()
    second = limited.start_run(model=model)
    other.settle(other.start_run(model="offline:rules")["id"], timeout=PATIENCE_SECONDS)
    assert limited.get_run(second["id"])["status"] == "queued"
    hold.release()
    ended = [limited.settle(run["id"], timeout=PATIENCE_SECONDS) for run in (first, second)]
    assert [run["output"] for run in ended] == ["one", "two"]


@pytest.mark.parametrize("owner", ["key", "project"])
def test_the_event_streams_of_a_key_or_a_project_are_limited(project: Project, owner: str) -> None:
    limited, other = put_key(project, event_streams=1)
    if owner == "project":
        limited = put(project, event_streams=1)
    project.tool("pay", approval="always")
    body = {"model": "offline:rules", "tools": ["pay"], "input": 'pay(x="1")'}
    events = f"/v1/runs/{limited.call('POST', '/v1/runs', body)['id']}/events"
    with limited.streaming("GET", events, Accept="text/event-stream") as stream:
        assert stream.status_code == 200
        refused = limited.request("GET", events, headers={"Accept": "text/event-stream"})
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "5")
        shown = "API key" if owner == "key" else "project"
        assert f"This {shown} already has 1 open streams" in refused.json()["detail"]
        with other.streaming("GET", events, Accept="text/event-stream") as second:
            assert second.status_code == (200 if owner == "key" else 429)
    with limited.streaming("GET", events, Accept="text/event-stream") as stream:
        assert stream.status_code == 200


# Concurrency keys.


@pytest.mark.parametrize("path", ["/v1/runs", "/v1/responses", "/v1/chat/completions"])
def test_runs_with_the_same_value_run_one_after_the_other(project: Project, path: str) -> None:
    hold = Hold()
    model = project.script(Answer(text="one", hold=hold), text("two"))
    client = put(project, concurrency=[{"key": CUSTOMER, "max": 1}])
    first = client.start_run(model=model, metadata={"customer": "acme"})
    hold.arrived()
    inputs: Json = {"messages": [{"role": "user", "content": "hi"}]}
    if path != "/v1/chat/completions":
        inputs = {"input": "hi"} | ({"background": True} if path == "/v1/responses" else {})
    with ThreadPoolExecutor(1) as pool:
        body = {"model": model, "metadata": {"customer": "acme"}, **inputs}
        second = pool.submit(client.request, "POST", path, body)
        other = client.start_run(model="offline:rules", metadata={"customer": "other"})
        client.settle(other["id"], timeout=PATIENCE_SECONDS)
        wait_for_queued(client)
        hold.release()
        assert second.result().status_code in (200, 202)
    assert client.settle(first["id"], timeout=PATIENCE_SECONDS)["output"] == "one"


def wait_for_queued(client: CheckedClient) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while [run["status"] for run in client.call("GET", "/v1/runs")["data"]].count("queued") != 1:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_runs_without_a_value_are_limited_together(project: Project) -> None:
    hold = Hold()
    model = project.script(Answer(text="one", hold=hold), text("two"))
    client = put(project, concurrency=[{"key": CUSTOMER, "max": 1}])
    first = client.start_run(model=model)
    hold.arrived()
    second = client.start_run(model=model, metadata={"customer": None})
    assert client.get_run(second["id"])["status"] == "queued"
    hold.release()
    for run in (first, second):
        client.settle(run["id"], timeout=PATIENCE_SECONDS)


def test_a_child_run_has_the_values_of_its_parent_run(project: Project) -> None:
    hold = Hold()
    child = project.script(Answer(text="booked", hold=hold), name="child")
    project.client.call("POST", "/v1/agents", {"name": "clerk", "model": child})
    tool = {"name": "ask", "type": "agent", "agent": "clerk", "description": "Ask"}
    project.client.call("POST", "/v1/tools", tool)
    model = project.script(calls(call(1, "ask", '{"input":"book"}')), text("done"), text("two"))
    client = put(project, concurrency=[{"key": CUSTOMER, "max": 1}])
    metadata = {"customer": "acme"}
    first = client.start_run(model=model, tools=["ask"], metadata=metadata)
    hold.arrived()
    second = client.start_run(model=model, metadata=metadata)
    assert client.get_run(second["id"])["status"] == "queued"
    hold.release()
    for run in (first, second):
        client.settle(run["id"], timeout=PATIENCE_SECONDS)
