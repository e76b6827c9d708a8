"""Webhook endpoints over HTTP: what a real endpoint receives, and what clients see of it."""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest
from sqlalchemy import NullPool
from sqlalchemy.ext.asyncio import create_async_engine
from standardwebhooks import WebhookVerificationError

from tests.api.project import ALL_SCOPES, PATIENCE_SECONDS, CheckedClient, Project, call, of_type
from tests.api.test_children_api import paying
from tests.support.models.chat_server import calls, text
from tests.support.receiver import Receiver, Reply
from tests.support.services.client import Json
from tests.support.serving import Hold
from tests.support.tools.server import Behaviour

T = TypeVar("T")
POLL_SECONDS = 0.05
ENDPOINTS = "/v1/webhook_endpoints"
DELIVERIES = "/v1/webhook_deliveries"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def admin(project: Project) -> CheckedClient:
    return project.key(*ALL_SCOPES)


def query(project: Project, statement: str) -> list[Any]:
    async def act() -> list[Any]:
        engine = create_async_engine(project.running.service.database_url, poolclass=NullPool)
        async with engine.begin() as tx:
            found = await tx.exec_driver_sql(statement)
            rows = list(found) if found.returns_rows else []
        await engine.dispose()
        return rows

    return asyncio.run(act())


def endpoint(admin: CheckedClient, url: str, **fields: Any) -> Json:
    return admin.call("POST", ENDPOINTS, {"url": url, **fields})


def deliveries(admin: CheckedClient, **filters: Any) -> list[Json]:
    return admin.call("GET", DELIVERIES, **filters)["data"]


def until(look: Callable[[], T]) -> T:
    """What `look` returns as soon as it is true."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := look()):
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(POLL_SECONDS)
    return found


def settled(admin: CheckedClient, **filters: Any) -> list[Json]:
    """The deliveries as soon as there are some, and each has an attempt."""

    def found() -> list[Json]:
        shown = deliveries(admin, **filters)
        return shown if all(one["attempts"] for one in shown) else []

    return until(found)


def make_due(project: Project) -> None:
    """All deliveries of the project are due now, so that no test waits for the schedule."""
    project_id = project.id.removeprefix("proj_")
    query(
        project,
        "UPDATE webhook_deliveries SET next_attempt_at = clock_timestamp()"
        f" WHERE project_id = '{project_id}' AND status = 'pending'",
    )


def test_an_endpoint_gets_one_signed_notification_for_each_event(
    project: Project, admin: CheckedClient, receiver: Receiver
) -> None:
    made = endpoint(admin, receiver.answer("all"), events=["run.*"])
    run = project.run(text("secret answer"))
    received = sorted(receiver.wait_for("all", 3), key=lambda one: one.body["data"]["sequence"])
    log = project.client.events(run["id"])
    expected = [one for one in log if one["type"].startswith("run.")]
    assert [one.type for one in received] == [one["type"] for one in expected]
    for got, event in zip(received, expected, strict=True):
        got.verify(made["secret"])
        assert got.headers["content-type"] == "application/json"
        assert (got.id, got.body["id"]) == (event["id"], event["id"])
        assert got.body["timestamp"] == event["created_at"]
        assert got.body["data"]["run_id"] == run["id"]
        assert got.body["data"]["sequence"] == event["sequence"]
        assert b"secret answer" not in got.raw
    [delivered] = [one for one in settled(admin) if one["type"] == "run.completed"]
    assert delivered["status"] == "delivered"
    assert delivered["request"]["body"] == received[-1].body
    assert delivered["request"]["headers"].items() <= received[-1].headers.items()
    assert delivered["request"]["headers"]["idempotency-key"] == received[-1].id
    [attempt] = delivered["attempts"]
    assert (attempt["status_code"], attempt["response_body"]) == (204, "")


def test_include_output_adds_the_output_of_a_run(
    project: Project, admin: CheckedClient, receiver: Receiver
) -> None:
    endpoint(admin, receiver.answer("full"), events=["run.completed"], include=["output"])
    run = project.run(text("forty-two"))
    assert receiver.wait_for("full")[0].body["data"]["output"] == run["output"] == "forty-two"


def test_the_webhook_of_a_run_gets_only_its_events_signed_with_the_projects_secret(
    project: Project, admin: CheckedClient, receiver: Receiver
) -> None:
    secret = project.client.call("POST", "/v1/signing_secret/rotate")["secret"]
    model = project.script(text("not this one"), text("this one"), text("nor this one"))
    project.run(model=model)
    webhook = {"url": receiver.answer("own"), "events": ["run.completed"], "include": ["output"]}
    run = project.run(model=model, webhook=webhook)
    [received] = receiver.wait_for("own")
    received.verify(secret)
    assert received.body["data"] | {"output": "this one"} == received.body["data"]
    assert received.body["data"]["run_id"] == run["id"]
    [delivery] = settled(admin, run_id=run["id"])
    assert delivery["webhook_endpoint_id"] is None
    last = project.run(model=model)
    endpoint(admin, receiver.answer("later"), events=["run.completed"])
    assert deliveries(admin, run_id=last["id"]) == []


def test_approvals_are_requested_decided_and_expire(
    project: Project, admin: CheckedClient, receiver: Receiver
) -> None:
    endpoint(admin, receiver.answer("approvals"), events=["approval.*"])
    project.tool("pay", approval="always")
    model = project.script(
        calls(call(1, "pay")), text("done"), calls(call(2, "slow")), text("done")
    )
    waiting = project.run(model=model, tools=["pay"])
    requested = receiver.wait_for_type("approvals", "approval.requested")
    [action] = waiting["required_actions"]
    assert requested.body["data"]["approval_id"] == action["approval_id"]
    assert "arguments" not in requested.body["data"]
    project.client.decide(action["approval_id"], "approve")
    project.end(waiting)
    decided = receiver.wait_for_type("approvals", "approval.decided")
    assert decided.body["data"]["decision"] == "approve"
    project.tool("slow", approval="always", approval_expires_seconds=1)
    project.start(model=model, tools=["slow"])
    expired = receiver.wait_for_type("approvals", "approval.expired")
    assert expired.body["data"]["reason"] == "approval_expired"
    assert {one.type for one in receiver.received("approvals")} == {
        "approval.requested",
        "approval.decided",
        "approval.expired",
    }


def test_an_unknown_outcome_is_notified(
    project: Project, admin: CheckedClient, receiver: Receiver
) -> None:
    endpoint(admin, receiver.answer("unknown"), events=["tool_call.outcome_unknown"])
    project.tool("pay", Behaviour("reset"))
    run = project.run(calls(call(1, "pay")), text("done"), tools=["pay"])
    [received] = receiver.wait_for("unknown")
    [data] = of_type(project.client.events(run["id"]), "tool_call.outcome_unknown")
    assert received.body["data"]["call_id"] == data["call_id"]


def test_child_runs_notify_about_approvals_but_not_about_their_own_end(
    project: Project, admin: CheckedClient, receiver: Receiver
) -> None:
    run = paying(project, webhook={"url": receiver.answer("family")})
    requested = receiver.wait_for_type("family", "approval.requested")
    assert requested.body["data"]["run_id"] != run["id"]
    project.client.decide(requested.body["data"]["approval_id"], "approve")
    receiver.wait_for_type("family", "run.completed")
    ids = {one.body["data"]["run_id"] for one in receiver.received("family") if "run." in one.type}
    assert ids == {run["id"]}


def test_a_failed_delivery_is_retried_with_the_same_id_and_redelivered_on_request(
    project: Project, admin: CheckedClient, receiver: Receiver
) -> None:
    url = receiver.answer("flaky", Reply(500, "not now"), Reply(302), Reply(200, "thanks"))
    made = endpoint(admin, url, events=["run.completed"])
    project.run(text("hello"))
    receiver.wait_for("flaky")
    [failed] = settled(admin)
    assert (failed["status"], failed["attempts"][0]["response_body"]) == ("pending", "not now")
    assert failed["next_attempt_at"] is not None
    make_due(project)
    receiver.wait_for("flaky", 2)
    until(lambda: len(deliveries(admin)[0]["attempts"]) == 2)
    make_due(project)
    receiver.wait_for("flaky", 3)
    until(lambda: deliveries(admin)[0]["status"] == "delivered")
    assert admin.call("GET", f"{ENDPOINTS}/{made['id']}")["failing_since"] is None
    [delivered] = deliveries(admin, status="delivered")
    assert [one["status_code"] for one in delivered["attempts"]] == [500, 302, 200]
    assert "redirect" in delivered["attempts"][1]["error"]
    admin.call("POST", f"{DELIVERIES}/{delivered['id']}/redeliver")
    received = receiver.wait_for("flaky", 4)
    assert {one.id for one in received} == {delivered["event_id"]}
    for one in received:
        one.verify(made["secret"])


def test_an_endpoint_that_is_gone_is_disabled_and_the_others_are_notified(
    project: Project, admin: CheckedClient, receiver: Receiver
) -> None:
    gone = endpoint(admin, receiver.answer("gone", Reply(410)), events=["run.created"])
    other = endpoint(admin, receiver.answer("other"), events=["webhook_endpoint.disabled"])
    project.run(text("hello"))
    notice = receiver.wait_for("other")[0]
    notice.verify(other["secret"])
    assert notice.type == "webhook_endpoint.disabled"
    assert notice.body["data"] == {"webhook_endpoint_id": gone["id"], "disabled_reason": "gone"}
    shown = admin.call("GET", f"{ENDPOINTS}/{gone['id']}")
    assert (shown["enabled"], shown["disabled_reason"]) == (False, "gone")
    [failed] = deliveries(admin, webhook_endpoint_id=gone["id"])
    assert failed["status"] == "failed"
    admin.refused(409, "conflict", "POST", f"{DELIVERIES}/{failed['id']}/redeliver")
    admin.refused(409, "conflict", "POST", f"{ENDPOINTS}/{gone['id']}/test")
    receiver.answer("gone", Reply())
    again = admin.call("PATCH", f"{ENDPOINTS}/{gone['id']}", {"enabled": True})
    assert (again["enabled"], again["disabled_reason"]) == (True, None)
    admin.call("POST", f"{DELIVERIES}/{failed['id']}/redeliver")
    assert {one.id for one in receiver.wait_for("gone", 2)} == {failed["event_id"]}


def test_pending_deliveries_wait_while_an_endpoint_is_disabled(
    project: Project, admin: CheckedClient, receiver: Receiver
) -> None:
    url = receiver.answer("off", Reply(503), Reply())
    made = endpoint(admin, url, events=["run.completed"])
    project.run(text("hello"))
    [pending] = settled(admin)
    admin.call("PATCH", f"{ENDPOINTS}/{made['id']}", {"enabled": False})
    shown = admin.call("GET", f"{DELIVERIES}/{pending['id']}")
    assert (shown["status"], shown["next_attempt_at"]) == ("pending", None)
    project.run(model=project.script(text("nobody"), name="other"))
    admin.call("PATCH", f"{ENDPOINTS}/{made['id']}", {"enabled": True})
    receiver.wait_for("off", 2)
    until(lambda: deliveries(admin)[0]["status"] == "delivered")
    assert [one["event_id"] for one in deliveries(admin)] == [pending["event_id"]]


def test_a_rotated_secret_overlaps_with_the_previous_one(
    admin: CheckedClient, receiver: Receiver
) -> None:
    made = endpoint(admin, receiver.answer("keys"))
    path = f"{ENDPOINTS}/{made['id']}"
    rotated = admin.call("POST", f"{path}/rotate_secret")["secret"]
    admin.call("POST", f"{path}/test")
    [received] = receiver.wait_for("keys")
    assert received.type == "webhook_endpoint.test"
    received.verify(rotated)
    received.verify(made["secret"])
    third = admin.call("POST", f"{path}/rotate_secret")["secret"]
    delivery = admin.call("POST", f"{path}/test")
    received = receiver.wait_for("keys", 2)[1]
    received.verify(third)
    received.verify(rotated)
    with pytest.raises(WebhookVerificationError):
        received.verify(made["secret"])
    assert "secret" not in admin.call("GET", path)
    assert delivery["type"] == "webhook_endpoint.test"


def test_a_failed_test_is_not_retried(admin: CheckedClient, receiver: Receiver) -> None:
    made = endpoint(admin, receiver.answer("tests", Reply(500, "broken")))
    admin.call("POST", f"{ENDPOINTS}/{made['id']}/test")
    [tested] = settled(admin)
    assert (tested["status"], tested["attempts"][0]["response_body"]) == ("failed", "broken")
    assert admin.call("GET", f"{ENDPOINTS}/{made['id']}")["failing_since"] is None


def test_a_slow_endpoint_does_not_hold_up_the_others(
    project: Project, admin: CheckedClient, receiver: Receiver
) -> None:
    hold = Hold()
    endpoint(admin, receiver.answer("slow", Reply(hold=hold)), events=["run.created"])
    endpoint(admin, receiver.answer("fast"), events=["run.created"])
    model = project.script(*[text("hello")] * 12)
    for _ in range(12):
        project.start(model=model)
    assert len({one.id for one in receiver.wait_for("fast", 12)}) == 12
    assert len(receiver.received("slow")) == 8
    hold.release()
    assert len({one.id for one in receiver.wait_for("slow", 12)}) == 12


def test_endpoints_are_created_listed_updated_and_deleted(
    project: Project, admin: CheckedClient, other: Project, receiver: Receiver
) -> None:
    url = receiver.answer("crud")
    response = admin.request("POST", ENDPOINTS, {"url": url}, headers={"Idempotency-Key": "one"})
    made: Json = response.json()
    assert response.headers["location"] == f"{ENDPOINTS}/{made['id']}"
    again = admin.request("POST", ENDPOINTS, {"url": url}, headers={"Idempotency-Key": "one"})
    assert again.json() == made
    shown = {name: value for name, value in made.items() if name != "secret"}
    assert admin.call("GET", ENDPOINTS)["data"] == [shown]
    patched = admin.call("PATCH", f"{ENDPOINTS}/{made['id']}", {"events": ["run.failed"]})
    assert (patched["events"], patched["url"]) == (["run.failed"], url)
    admin.refused(422, "invalid_request", "PATCH", f"{ENDPOINTS}/{made['id']}", {"url": None})
    foreign = other.key(*ALL_SCOPES)
    missing = "webhook_endpoint_not_found"
    for method, path in (
        ("GET", ""),
        ("DELETE", ""),
        ("POST", "/test"),
        ("POST", "/rotate_secret"),
    ):
        foreign.refused(404, missing, method, f"{ENDPOINTS}/{made['id']}{path}")
    project.client.refused(403, "insufficient_scope", "GET", ENDPOINTS)
    admin.call("DELETE", f"{ENDPOINTS}/{made['id']}")
    admin.refused(404, missing, "GET", f"{ENDPOINTS}/{made['id']}")


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"url": "https://example.com", "events": ["run.exploded"]}, "events.0"),
        ({"url": "https://example.com", "events": []}, "events"),
        ({"url": "https://10.0.0.1/hook"}, "url"),
        ({"url": "ftp://example.com/hook"}, "url"),
    ],
)
def test_an_invalid_endpoint_is_refused(admin: CheckedClient, body: Json, path: str) -> None:
    problem = admin.refused(422, "invalid_request", "POST", ENDPOINTS, body)
    assert [one["path"] for one in problem["errors"]] == [path]
    run = {"model": "offline:rules", "input": "x", "webhook": body}
    problem = admin.refused(422, "invalid_request", "POST", "/v1/runs", run)
    assert [one["path"] for one in problem["errors"]] == [f"webhook.{path}"]


def test_erasing_a_run_erases_its_deliveries(
    project: Project, admin: CheckedClient, receiver: Receiver
) -> None:
    secret = f"secret{project.suffix}text"
    url = receiver.answer("echoes", Reply(200, f"I heard {secret}"))
    endpoint(admin, url, events=["run.completed"], include=["output"])
    run = project.run(text(secret))
    [delivered] = settled(admin)
    assert delivered["request"]["body"]["data"]["output"] == secret
    project.client.call("DELETE", f"/v1/runs/{run['id']}")
    [erased] = deliveries(admin)
    assert secret not in str(erased)
    assert erased["attempts"][0] | {"response_body": None} == erased["attempts"][0]
    admin.call("POST", f"{DELIVERIES}/{erased['id']}/redeliver")
    again = receiver.wait_for("echoes", 2)[1]
    assert secret.encode() not in again.raw
    assert again.id == delivered["event_id"]


def test_the_log_of_a_project_contains_each_event_of_all_runs_once(
    project: Project, other: Project
) -> None:
    start = project.client.call("GET", "/v1/events", after="latest")["last_id"]
    model = project.script(text("one"), text("two"))
    runs = [project.run(model=model), project.run(model=model)]
    other.run(text("not of this project"))
    seen: list[Json] = []
    cursor = start
    while len([one for one in seen if one["type"] == "run.completed"]) < 2:
        page = project.client.call("GET", "/v1/events", after=cursor, limit=3)
        seen += page["data"]
        assert len(page["data"]) <= 3
        cursor = page["last_id"]
    logs = [event for run in runs for event in project.client.events(run["id"])]
    assert sorted(seen, key=lambda one: one["id"]) == sorted(logs, key=lambda one: one["id"])
    assert project.client.call("GET", "/v1/events", after=cursor) == {
        "object": "list",
        "data": [],
        "first_id": None,
        "last_id": cursor,
        "has_more": False,
    }
    assert [one["id"] for one in project.client.call("GET", "/v1/events", limit=2)["data"]] == [
        one["id"] for one in seen[:2]
    ]


@pytest.mark.parametrize("cursor", ["1", "x", f"{2**63}-{'0' * 32}-1", f"1-{'0' * 32}-{2**31}"])
def test_an_invalid_cursor_is_refused(project: Project, cursor: str) -> None:
    path = f"/v1/events?after={cursor}"
    problem = project.client.refused(422, "invalid_request", "GET", path)
    assert [one["path"] for one in problem["errors"]] == ["query.after"]
