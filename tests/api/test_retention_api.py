"""Retention, legal holds and erasures over HTTP, on a database in which a word is planted
everywhere."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest

from runward.domain.retention import DataClass, RetentionLimits
from runward.store.postgres.db import open_database
from runward.worker.cleaner import Cleaner
from tests.api.project import ALL_SCOPES, CheckedClient, Project, call, of_type, types_of
from tests.api.test_erasure_api import KEPT, children, full_of, query, tables_with
from tests.api.test_webhook_endpoints_api import until
from tests.support.models.chat_server import calls, text
from tests.support.receiver import Receiver, Reply
from tests.support.services.client import Json
from tests.support.tools.server import Behaviour

DAY = 86_400
REGISTERED = {"agent_versions", "agents", "audit_entries", "webhook_endpoints"}


@pytest.fixture
def admin(project: Project) -> CheckedClient:
    return project.key(*ALL_SCOPES)


@pytest.fixture
def secret(project: Project) -> str:
    """A text that is nowhere in the database."""
    return f"secret{project.suffix}text"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


def clean(project: Project, limits: RetentionLimits | None = None) -> None:
    """A whole pass of the cleaner, as a worker makes it."""

    async def act() -> None:
        database = open_database(project.running.service.database_url, pool_size=1)
        cleaner = Cleaner(database, limits or RetentionLimits({}, {}))
        await cleaner.begin()
        while not cleaner.is_done:
            await cleaner.step()
        await database.close()

    asyncio.run(act())


def age(project: Project, days: int) -> None:
    """Make the data of the project older."""
    own = f"WHERE project_id = '{project.id.removeprefix('proj_')}'"
    by = f"interval '{days} days'"
    query(
        project,
        "SET LOCAL runward.erasing = 'on'",
        f"UPDATE runs SET ended_at = ended_at - {by} {own}",
        f"UPDATE webhook_deliveries SET created_at = created_at - {by} {own}",
    )


def count(project: Project, table: str, condition: str = "true") -> int:
    own = f"project_id = '{project.id.removeprefix('proj_')}'"
    [row] = query(project, f"SELECT count(*) AS n FROM {table} WHERE {own} AND ({condition})")
    return row.n


def plant(project: Project, admin: CheckedClient, receiver: Receiver, secret: str) -> list[Json]:
    """Content in every place that can have it: two runs of a session with a fork, with tool calls,
    an approval that is remembered, a child run, a late callback, deliveries with answers, and
    stored responses."""
    url = receiver.answer("all", Reply(200, f"got {secret}"))
    admin.call("POST", "/v1/webhook_endpoints", {"url": url, "include": ["output"]})
    full = full_of(project, secret)
    session = {"metadata": {"user": secret}, "state": {"note": secret}, "name": f"of {secret}"}
    shared = once(project, "/v1/sessions", session)
    project.tool("ask", Behaviour("return", f"asked {secret}"), approval="always")
    project.tool("slow", Behaviour("later"))
    model = project.script(
        calls(call(1, "ask", f'{{"x":"{secret}"}}')),
        calls(call(2, "slow", f'{{"x":"{secret}"}}')),
        text(f"Done {secret}"),
        name="second",
    )
    run = project.start(
        model=model,
        input=f"Ask {secret}",
        tools=["ask", "slow"],
        session_id=shared["id"],
        webhook={"url": url, "events": ["*"]},
    )
    project.settle(run)
    [asked] = project.client.approvals(run_id=run["id"])
    remember = {"scope": "session"}
    decision = {"decision": "reject", "message": f"Since {secret}", "remember": remember}
    once(project, f"/v1/approvals/{asked['id']}/decision", decision)
    [hit] = project.wait_for_hits("slow")
    once(project, f"/v1/runs/{run['id']}/input", {"input": f"And {secret}"})
    project.client.cancel(run["id"])
    late = httpx2.post(
        hit.body["callback"]["url"], json={"status": "completed", "output": f"late {secret}"}
    )
    assert late.status_code == 410
    once(project, f"/v1/sessions/{shared['id']}/fork", {"name": f"Fork {secret}"})
    until(lambda: count(project, "webhook_deliveries", "type = 'run.cancelled'") == 2)
    until(lambda: count(project, "webhook_deliveries", "status = 'pending'") == 0)
    assert tables_with(project, secret) - REGISTERED == {
        "approvals",
        "late_callbacks",
        "remembered_decisions",
        "run_events",
        "run_items",
        "runs",
        "session_items",
        "sessions",
        "tool_calls",
        "webhook_deliveries",
    }
    assert count(project, "idempotency_keys", "answer IS NOT NULL") == 5
    return [full, project.client.get_run(run["id"])]


def once(project: Project, path: str, body: Json) -> Json:
    """Send the request with a key, so that its response is stored."""
    key = {"Idempotency-Key": f"{path}{project.suffix}"}
    response = project.client.request("POST", path, body, headers=key)
    assert response.is_success, response.text
    return response.json()


def erased(admin: CheckedClient, **metadata: Any) -> Json:
    """The erasure of everything with this metadata, when it has ended."""
    made = admin.call("POST", "/v1/erasures", {"metadata": metadata})

    def ended() -> Json | None:
        now = admin.call("GET", f"/v1/erasures/{made['id']}")
        return now if now["status"] == "completed" else None

    return until(ended) or {}


# -- erasures -------------------------------------------------------------------------------------


def test_an_erasure_leaves_nothing_of_a_user_anywhere(
    project: Project, admin: CheckedClient, receiver: Receiver, secret: str
) -> None:
    """The word is the user's tag, too."""
    model = project.script(text("Kept."), name="other")
    kept = project.run(model=model, metadata={"user": "another"})
    full, other = plant(project, admin, receiver, secret)
    done = erased(admin, order=secret)
    assert (done["runs_erased"], done["sessions_deleted"], done["held"]) == (1, 0, 0)
    done = erased(admin, user=secret)
    assert (done["runs_erased"], done["sessions_deleted"], done["held"]) == (1, 2, 0)
    assert tables_with(project, secret) <= REGISTERED
    recorded = f"audit_entries::text LIKE '%{secret}%'"
    assert count(project, "audit_entries", recorded) > 0
    assert count(project, "audit_entries", f"{recorded} AND resource_type <> 'agent'") == 0
    assert count(project, "idempotency_keys", "answer IS NOT NULL") == 0
    for run in (full, other, *children(project, full)):
        left = project.client.get_run(run["id"])
        assert {name: left[name] for name in KEPT} == {name: run[name] for name in KEPT}
        assert left["erased_at"] is not None
    assert project.client.get_run(kept["id"])["output"] == "Kept."


def test_an_erasure_cancels_open_runs_and_deletes_their_session(
    project: Project, admin: CheckedClient, secret: str
) -> None:
    project.tool("pay", approval="always")
    session = project.client.call("POST", "/v1/sessions", {"metadata": {"user": secret}})["id"]
    asks = calls(call(1, "pay", f'{{"x":"{secret}"}}'))
    run = project.run(model=project.script(asks, name="other"), tools=["pay"])
    tagged = project.run(asks, tools=["pay"], session_id=session)
    done = erased(admin, user=secret)
    assert (done["runs_erased"], done["sessions_deleted"]) == (1, 1)
    assert project.client.get_run(tagged["id"])["status"] == "cancelled"
    project.client.refused(404, "session_not_found", "GET", f"/v1/sessions/{session}")
    assert project.client.get_run(run["id"])["status"] == "requires_action"
    [event] = of_type(project.client.events(tagged["id"]), "run.cancelled")
    assert secret not in str(event)


@pytest.mark.parametrize("value", [{}, {"id": 1}, [], ["u1"]])
def test_an_erasure_does_not_cover_values_that_only_contain_its_values(
    project: Project, admin: CheckedClient, value: Json | list[str]
) -> None:
    user = {"user": {"id": 1, "name": "Ada"}} if isinstance(value, dict) else {"user": ["u1", "u2"]}
    run = project.run(text("Hi."), metadata={**user, "order": "A-1"})
    session = admin.call("POST", "/v1/sessions", {"metadata": user})["id"]
    done = erased(admin, user=value)
    assert (done["runs_erased"], done["sessions_deleted"]) == (0, 0)
    assert admin.call("GET", f"/v1/sessions/{session}")["metadata"] == user
    done = erased(admin, **user)
    assert (done["runs_erased"], done["sessions_deleted"]) == (1, 1)
    assert project.client.get_run(run["id"])["erased_at"] is not None


def test_an_erasure_needs_metadata(admin: CheckedClient) -> None:
    admin.refused(422, "invalid_request", "POST", "/v1/erasures", {"metadata": {}})
    admin.refused(404, "erasure_not_found", "GET", "/v1/erasures/era_" + "f" * 32)


# -- retention ------------------------------------------------------------------------------------


def test_the_retention_of_a_project(admin: CheckedClient) -> None:
    forever = {"days": None, "is_default": True, "default_days": None, "max_days": None}
    default = admin.call("GET", "/v1/retention")
    assert default["runs"] == default["events"] == default["tool_call_content"] == forever
    assert default["deliveries"] == {**forever, "days": 30, "default_days": 30}
    put = admin.call("PUT", "/v1/retention", {"runs": 90, "deliveries": None})
    assert put["runs"] == {**forever, "days": 90, "is_default": False}
    assert put["deliveries"]["days"] is None
    assert admin.call("GET", "/v1/retention") == put
    assert admin.call("PUT", "/v1/retention", {}) == default
    for wrong in (0, 36_501, "1"):
        admin.refused(422, "invalid_request", "PUT", "/v1/retention", {"runs": wrong})


def test_old_runs_lose_their_content(
    project: Project, admin: CheckedClient, receiver: Receiver, secret: str
) -> None:
    runs = plant(project, admin, receiver, secret)
    age(project, 10)
    preview = admin.call("POST", "/v1/retention/preview", {"runs": 11})
    assert preview["runs"] == {"rows": 0, "more": False, "oldest_at": None}
    preview = admin.call("POST", "/v1/retention/preview", {"runs": 9, "deliveries": 9})
    oldest = min(project.client.get_run(run["id"])["ended_at"] for run in runs)
    assert preview["runs"] == {"rows": 3, "more": False, "oldest_at": oldest}
    assert preview["deliveries"]["rows"] == count(project, "webhook_deliveries")
    admin.call("PUT", "/v1/retention", {"runs": 9, "deliveries": 9})
    clean(project)
    left = {"sessions"}  # the session's own state, which is not content of a run
    assert tables_with(project, secret) <= {*REGISTERED, *left}
    for run in runs:
        shown = project.client.get_run(run["id"])
        assert {name: shown[name] for name in KEPT - {"ended_at"}} == {
            name: run[name] for name in KEPT - {"ended_at"}
        }
        assert shown["erased_at"] is not None
    assert count(project, "webhook_deliveries") == 0
    assert admin.call("POST", "/v1/retention/preview")["runs"]["rows"] == 0


def test_old_tool_calls_lose_their_content_and_the_conversation_stays(
    project: Project, admin: CheckedClient, secret: str
) -> None:
    project.tool("pay", Behaviour("return", f"paid {secret}"), approval="always")
    session = project.client.call("POST", "/v1/sessions", {})["id"]
    asked = project.run(
        calls(call(1, "pay", f'{{"x":"{secret}"}}')),
        text("Done."),
        text("Again."),
        input="Please pay.",
        tools=["pay"],
        session_id=session,
    )
    [approval] = project.client.approvals(run_id=asked["id"])
    edited = {"arguments": {"x": f"less {secret}"}, "message": f"since {secret}"}
    project.client.decide(approval["id"], "edit", **edited)
    run = project.end(asked)
    age(project, 2)
    preview = admin.call("POST", "/v1/retention/preview", {"tool_call_content": 1})
    assert preview["tool_call_content"]["rows"] == 1
    admin.call("PUT", "/v1/retention", {"tool_call_content": 1})
    clean(project)
    project.reduced.add(run["id"])
    assert tables_with(project, secret) == set()
    left = project.client.get_run(run["id"])
    assert (left["output"], left["erased_at"]) == ("Done.", None)
    shown = project.client.call("GET", f"/v1/runs/{run['id']}/tool_calls/c1")
    assert (shown["phase"], shown["arguments"], shown["outcome"]) == ("settled", {}, "completed")
    decided = project.client.call("GET", f"/v1/approvals/{approval['id']}")
    assert (decided["status"], decided["arguments"], decided["message"]) == ("edited", {}, None)
    items = project.client.call("GET", f"/v1/sessions/{session}/items")["data"]
    assert [item.get("content") for item in items if item["type"] == "message"] == [
        "Please pay.",
        "Done.",
    ]
    again = project.run(model=run["model"], input="And?", session_id=session)
    assert again["output"] == "Again."
    assert secret not in str(project.asked()[-1].messages)


def test_old_events_are_deleted_and_the_run_stays(
    project: Project, admin: CheckedClient, receiver: Receiver
) -> None:
    admin.call("POST", "/v1/webhook_endpoints", {"url": receiver.answer("all")})
    response = project.client.call(
        "POST", "/v1/responses", {"model": project.script(text("Hi.")), "input": "hello"}
    )
    run = project.client.get_run(response["id"].replace("resp_", "run_"))
    last = len(project.client.events(run["id"]))
    until(lambda: count(project, "webhook_deliveries", "type = 'run.completed'") == 1)
    age(project, 2)
    admin.call("PUT", "/v1/retention", {"events": 1})
    assert admin.call("POST", "/v1/retention/preview")["events"]["rows"] == last
    clean(project)
    project.reduced.add(run["id"])
    path = f"/v1/runs/{run['id']}"
    shown = {**project.client.call("GET", path), "ended_at": None}
    assert shown == {**run, "ended_at": None}
    for refused in (f"{path}/events", f"{path}/events?after=1", f"{path}/events?include=children"):
        project.client.refused(410, "events_removed", "GET", refused)
    project.client.refused(
        410, "events_removed", "GET", f"{path}/events", Accept="text/event-stream"
    )
    assert project.client.call("GET", f"{path}/events?after={last}")["data"] == []
    gone = project.client.request("GET", f"/v1/responses/{response['id']}")
    assert (gone.status_code, gone.json()["error"]["code"]) == (404, "response_not_found")
    assert count(project, "run_events") == count(project, "webhook_deliveries") == 0
    assert types_of(project.client.call("GET", "/v1/events")["data"]) == []


# -- legal holds ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["run", "session", "fork", "project"])
def test_nothing_under_a_legal_hold_is_erased(
    project: Project, admin: CheckedClient, secret: str, kind: str
) -> None:
    session = project.client.call("POST", "/v1/sessions", {"metadata": {"user": secret}})["id"]
    run = project.run(text(f"Hi {secret}"), session_id=session, metadata={"user": secret})
    fork = project.client.call("POST", f"/v1/sessions/{session}/fork", {"name": "fork"})["id"]
    held = {"run": run["id"], "session": session, "fork": fork, "project": project.id}[kind]
    hold = admin.call("PUT", f"/v1/legal_holds/{held}", {"reason": "Case 1"})
    assert (hold["id"], hold["reason"]) == (held, "Case 1")
    assert admin.call("GET", "/v1/legal_holds")["data"] == [hold]
    assert admin.call("GET", f"/v1/legal_holds/{held}") == hold
    before = project.client.events(run["id"])

    project.client.refused(409, "legal_hold", "DELETE", f"/v1/runs/{run['id']}")
    if kind != "fork":
        project.client.refused(409, "legal_hold", "DELETE", f"/v1/sessions/{session}")
    whole = f"/v1/sessions/{session}?erase_runs=true"
    project.client.refused(409, "legal_hold", "DELETE", whole)
    response = project.client.request("DELETE", f"/v1/responses/{run['id'].replace('run', 'resp')}")
    assert (response.status_code, response.json()["error"]["code"]) == (409, "legal_hold")
    assert erased(admin, user=secret)["runs_erased"] == 0
    age(project, 3)
    admin.call("PUT", "/v1/retention", dict.fromkeys(DataClass, 2))
    preview = admin.call("POST", "/v1/retention/preview")
    assert all(preview[name]["rows"] == 0 for name in DataClass)
    clean(project)
    assert project.client.get_run(run["id"])["output"] == f"Hi {secret}"
    assert project.client.events(run["id"]) == before

    assert admin.request("DELETE", f"/v1/legal_holds/{held}").status_code == 204
    admin.refused(404, "legal_hold_not_found", "GET", f"/v1/legal_holds/{held}")
    clean(project)
    project.reduced.add(run["id"])
    assert project.client.get_run(run["id"])["erased_at"] is not None
    assert count(project, "run_events") == 0


def test_an_open_run_under_a_hold_is_not_cancelled(
    project: Project, admin: CheckedClient, secret: str
) -> None:
    project.tool("pay", approval="always")
    run = project.run(calls(call(1, "pay")), tools=["pay"], metadata={"user": secret})
    admin.call("PUT", f"/v1/legal_holds/{run['id']}")
    project.client.refused(409, "legal_hold", "DELETE", f"/v1/runs/{run['id']}")
    assert erased(admin, user=secret)["held"] == 1
    assert project.client.get_run(run["id"])["status"] == "requires_action"


def test_an_erasure_counts_a_held_run_of_a_held_session_once(
    project: Project, admin: CheckedClient, secret: str
) -> None:
    session = project.client.call("POST", "/v1/sessions", {"metadata": {"user": secret}})["id"]
    run = project.run(text("Hi."), session_id=session)
    admin.call("PUT", f"/v1/legal_holds/{run['id']}")
    assert erased(admin, user=secret)["held"] == 2


def test_a_hold_of_something_else_is_refused(project: Project, admin: CheckedClient) -> None:
    path: Callable[[str], str] = lambda id_: f"/v1/legal_holds/{id_}"  # noqa: E731
    for kind, code in (("run", "run"), ("sess", "session"), ("proj", "project")):
        admin.refused(404, f"{code}_not_found", "PUT", path(f"{kind}_{'f' * 32}"))
    for unknown in ("key_" + "f" * 32, "run_1"):
        admin.refused(404, "legal_hold_not_found", "PUT", path(unknown))
    admin.refused(404, "legal_hold_not_found", "DELETE", path(project.id))


def test_an_endpoint_is_not_deleted_while_there_is_a_hold(
    project: Project, admin: CheckedClient, receiver: Receiver
) -> None:
    made = admin.call("POST", "/v1/webhook_endpoints", {"url": receiver.answer("all")})["id"]
    admin.call("PUT", f"/v1/legal_holds/{project.id}")
    admin.refused(409, "legal_hold", "DELETE", f"/v1/webhook_endpoints/{made}")
    admin.call("DELETE", f"/v1/legal_holds/{project.id}")
    assert admin.request("DELETE", f"/v1/webhook_endpoints/{made}").status_code == 204
