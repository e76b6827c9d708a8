"""What an operator sees: the metrics of runs, and the workers."""

import socket
from collections.abc import Callable

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_metrics

from runward.metrics.recorders import OTHER
from tests.api.project import ALL_SCOPES, Project, Running, call
from tests.api.test_schedules_api import YEARLY, create, make_due, processed, until
from tests.support.models.chat_server import HttpError, calls, text
from tests.support.receiver import Receiver, Reply
from tests.support.tools.server import Behaviour

Count = Callable[..., float]


@pytest.fixture
def count(running: Running) -> Count:
    """Return by how much the series with these labels have increased since the test began. Many
    tests share the service, so that it may count a name under `other`."""

    def read() -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        shown = httpx2.get(f"{running.service.url}/metrics", trust_env=False)
        assert shown.status_code == 200
        samples = [one for family in parse_metrics(shown.text) for one in family.samples]
        return {(one.name, frozenset(one.labels.items())): one.value for one in samples}

    before = read()

    def find(name: str, **labels: str) -> float:
        return sum(
            value - before.get((found, pairs), 0.0)
            for (found, pairs), value in read().items()
            if found == name
            and all(dict(pairs)[label] in (wanted, OTHER) for label, wanted in labels.items())
        )

    return find


def test_a_run_is_counted_with_its_turns_model_requests_and_tokens(
    project: Project, count: Count
) -> None:
    project.tool("look")
    model = project.script(calls(call(1, "look")), text("done"), name="priced")
    agent = {"name": "counted", "model": model, "tools": ["look"]}
    project.client.call("POST", "/v1/agents", agent)
    run = project.settle(project.client.start_run_of("counted"))
    assert run["status"] == "completed"
    usage, name = run["usage"], model.removeprefix("openai:")
    assert count("runward_runs_ended_total", status="completed", agent="counted") == 1
    assert count("runward_run_duration_seconds_count", status="completed") >= 1
    assert count("runward_turn_duration_seconds_count") >= 2
    assert count("runward_model_request_duration_seconds_count", provider="openai") >= 2
    assert count("runward_tool_call_duration_seconds_count", tool="look") == 1
    found = {"provider": "openai", "model": name}
    tokens = [count("runward_tokens_total", type=type_, **found) for type_ in ("input", "output")]
    tokens[0] += count("runward_tokens_total", type="cached_input", **found)
    assert tokens == [usage["input_tokens"], usage["output_tokens"]]
    assert count("runward_cost_usd_total", **found) == pytest.approx(usage["cost_usd"])
    assert usage["cost_usd"] > 0
    assert count("runward_commit_duration_seconds_count") >= 2
    assert count("runward_committed_steps_total") >= count("runward_commit_duration_seconds_count")
    assert count("runward_database_pool_wait_seconds_count") > 0


def test_failed_calls_are_counted(project: Project, count: Count) -> None:
    project.tool("flaky", Behaviour(status=503), Behaviour(), idempotent=True)
    project.run(calls(call(1, "flaky")), text("done"), tools=["flaky"])
    assert count("runward_tool_call_errors_total", tool="flaky", reason="unavailable") == 1
    assert count("runward_tool_call_duration_seconds_count", tool="flaky") == 2
    assert count("runward_retries_total", kind="tool") >= 1


def test_unknown_outcomes_are_counted(project: Project, count: Count) -> None:
    project.tool("torn", Behaviour("reset"))
    project.run(calls(call(1, "torn")), text("done"), tools=["torn"])
    assert count("runward_tool_call_errors_total", tool="torn", reason="unknown") == 1
    assert count("runward_unknown_outcomes_total") >= 1


def test_a_cancelled_run_is_counted_by_the_process_that_cancels_it(
    project: Project, count: Count
) -> None:
    project.tool("ask", approval="always")
    run = project.run(calls(call(1, "ask")), tools=["ask"])
    assert run["status"] == "requires_action"
    project.client.cancel(run["id"])
    assert count("runward_runs_ended_total", status="cancelled", agent="") >= 1


def test_failed_model_requests_are_counted_by_their_code(project: Project, count: Count) -> None:
    assert project.run(HttpError(401))["status"] == "failed"
    found = {"provider": "openai", "code": "model_unauthorized"}
    assert count("runward_model_request_errors_total", **found) >= 1
    assert count("runward_model_request_duration_seconds_count", provider="openai") >= 1


def test_notifications_and_disabled_endpoints_are_counted(project: Project, count: Count) -> None:
    admin = project.key(*ALL_SCOPES)
    with Receiver() as receiver:
        gone = {"url": receiver.answer("gone", Reply(410)), "events": ["run.created"]}
        other = {"url": receiver.answer("other"), "events": ["webhook_endpoint.disabled"]}
        for one in (gone, other):
            admin.call("POST", "/v1/webhook_endpoints", one)
        project.run(text("Hi."))
        receiver.wait_for("other")
        until(lambda: count("runward_webhook_attempt_duration_seconds_count", result="delivered"))
    assert count("runward_webhook_attempt_duration_seconds_count", result="failed") >= 1
    assert count("runward_webhook_endpoints_disabled_total", reason="gone") >= 1


def test_slots_of_schedules_are_counted(project: Project, count: Count) -> None:
    schedule = create(project.client, cron=YEARLY)
    make_due(project, schedule)
    [slot] = processed(project.client, schedule)
    until(lambda: count("runward_schedule_slots_total", status="started"))
    project.client.settle(slot["run_id"])


def test_the_event_loop_is_measured(count: Count) -> None:
    until(lambda: count("runward_event_loop_lag_seconds_count"))


def test_the_operator_sees_the_workers(project: Project, running: Running) -> None:
    [worker] = running.operator.call("GET", "/v1/workers")["data"]
    assert worker["host"] == socket.gethostname()
    assert worker["version"] == running.contract.document["info"]["version"]
    assert worker["concurrency"] == 256
    assert worker["started_at"] <= worker["last_heartbeat_at"]
    admin = project.key("admin")
    problem = admin.refused(403, "forbidden", "GET", "/v1/workers")
    assert "project `default`" in problem["detail"]


def test_a_process_that_works_is_alive(running: Running) -> None:
    assert running.operator.call("GET", "/livez") == {"status": "ok"}
