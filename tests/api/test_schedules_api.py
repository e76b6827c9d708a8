"""Schedules over HTTP: what clients set and see, and the runs that start."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

import pytest

from tests.api.project import PATIENCE_SECONDS, CheckedClient, Project
from tests.api.test_inline_tools_api import FIND, namespace, pay
from tests.api.test_webhook_endpoints_api import query
from tests.support.models.chat_server import text
from tests.support.services.client import Json

T = TypeVar("T")
SCHEDULES = "/v1/schedules"
RUN = {"model": "offline:rules", "input": "go"}
YEARLY = "0 0 1 1 *"
"""For schedules that start runs only when a test makes them due."""
NIGHTLY = {"name": "nightly", "cron": "30 2 * * *", "time_zone": "Europe/Berlin", "run": RUN}


def create(client: CheckedClient, **fields: Any) -> Json:
    return client.call("POST", SCHEDULES, {"name": "test", "run": RUN, **fields})


def read(client: CheckedClient, schedule: Json) -> Json:
    return client.call("GET", f"{SCHEDULES}/{schedule['id']}")


def update(client: CheckedClient, schedule: Json, **fields: Any) -> Json:
    return client.call("PATCH", f"{SCHEDULES}/{schedule['id']}", fields)


def slots(client: CheckedClient, schedule: Json, **params: Any) -> list[Json]:
    return client.call("GET", f"{SCHEDULES}/{schedule['id']}/slots", **params)["data"]


def make_due(project: Project, schedule: Json) -> None:
    """The next slot is due now, so that no test waits for a minute to begin."""
    schedule_id = UUID(schedule["id"].removeprefix("sched_"))
    query(
        project,
        "UPDATE schedules SET next_at = clock_timestamp(), due_at = clock_timestamp()"
        f" WHERE id = '{schedule_id}'",
    )


def until(look: Callable[[], T]) -> T:
    """What `look` returns as soon as it is true."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := look()):
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.05)
    return found


def processed(client: CheckedClient, schedule: Json, count: int = 1) -> list[Json]:
    """The slots as soon as there are so many, oldest first."""

    def found() -> list[Json]:
        shown = slots(client, schedule, order="asc")
        return shown if len(shown) >= count else []

    return until(found)


def parse_time(value: str) -> datetime:
    return datetime.fromisoformat(value)


def test_a_schedule_shows_its_next_slot_and_can_be_found(project: Project) -> None:
    client = project.client
    made = client.request("POST", SCHEDULES, NIGHTLY)
    assert made.status_code == 201
    schedule = made.json()
    assert made.headers["location"] == f"{SCHEDULES}/{schedule['id']}"
    assert {name: schedule[name] for name in NIGHTLY} == NIGHTLY
    given = (schedule["overlap"], schedule["misfires"], schedule["enabled"])
    assert given == ("skip", "once", True)
    next_at = parse_time(schedule["next_at"])
    assert (next_at.hour, next_at.minute) in ((0, 30), (1, 30))
    assert next_at - datetime.now(UTC) < timedelta(hours=26)
    assert schedule["last_at"] is schedule["last_run_id"] is schedule["last_error"] is None
    assert read(client, schedule) == schedule
    assert client.call("GET", SCHEDULES)["data"] == [schedule]
    assert slots(client, schedule) == []


def test_a_slot_starts_a_run_that_names_its_schedule(project: Project) -> None:
    client = project.client
    model = project.script(text("done"))
    run = {"model": model, "input": "go", "metadata": {"report": "daily"}}
    schedule = create(client, cron=YEARLY, run=run, overlap="queue")
    make_due(project, schedule)
    [slot] = processed(client, schedule)[:1]
    ended = client.settle(slot["run_id"], timeout=PATIENCE_SECONDS)
    assert (ended["status"], ended["output"]) == ("completed", "done")
    assert (ended["schedule_id"], ended["metadata"]) == (schedule["id"], {"report": "daily"})
    assert ended["created_by"] == schedule["created_by"]
    assert (slot["status"], slot["skip_reason"], slot["error"]) == ("started", None, None)
    shown = read(client, schedule)
    assert parse_time(shown["next_at"]) > parse_time(slot["at"])
    assert shown["last_at"] >= slot["at"]
    other = client.start_run(model="offline:rules")
    assert other["schedule_id"] is None
    listed = client.call("GET", "/v1/runs", schedule_id=schedule["id"])["data"]
    assert ended["id"] in {one["id"] for one in listed}
    assert other["id"] not in {one["id"] for one in listed}
    assert client.call("GET", "/v1/runs", schedule_id="sched_?")["data"] == []


@pytest.mark.parametrize("misfires", ["skip", "once", "all"])
def test_a_run_starts_once_after_a_delay(project: Project, misfires: str) -> None:
    client = project.client
    schedule = create(client, after_seconds=1, misfires=misfires)
    assert schedule["at"] == schedule["next_at"]
    assert (schedule["after_seconds"], schedule["time_zone"], schedule["cron"]) == (1, None, None)
    [slot] = processed(client, schedule)
    late = parse_time(slot["created_at"]) - parse_time(slot["at"])
    assert timedelta(0) <= late < timedelta(seconds=PATIENCE_SECONDS)
    assert slot["at"] == schedule["at"]
    shown = read(client, schedule)
    assert (shown["next_at"], shown["last_run_id"]) == (None, slot["run_id"])


def test_a_run_starts_once_at_a_time(project: Project) -> None:
    client = project.client
    at = datetime.now(UTC) + timedelta(days=2)
    schedule = create(client, at=at.isoformat())
    assert parse_time(schedule["next_at"]) == at
    soon = datetime.now(UTC) + timedelta(seconds=1)
    assert parse_time(update(client, schedule, at=soon.isoformat())["next_at"]) == soon
    [slot] = processed(client, schedule)
    assert parse_time(slot["at"]) == soon


def test_a_paused_schedule_starts_no_run_and_continues_in_the_future(project: Project) -> None:
    client = project.client
    schedule = create(client, cron=YEARLY)
    make_due(project, schedule)
    processed(client, schedule)
    paused = update(client, schedule, enabled=False)
    assert paused["next_at"] is None
    resumed = update(client, schedule, enabled=True)
    assert parse_time(resumed["next_at"]) > datetime.now(UTC) - timedelta(seconds=5)
    assert update(client, schedule, name="other")["next_at"] == resumed["next_at"]
    past = create(client, after_seconds=3600)
    at = f"'{past['at']}'::timestamptz - interval '2 hours'"
    query(project, f"UPDATE schedules SET at = {at} WHERE id = '{past['id'][6:]}'")
    update(client, past, enabled=False)
    assert update(client, past, enabled=True)["next_at"] is None


def test_an_update_replaces_the_timing(project: Project) -> None:
    client = project.client
    schedule = create(client, cron="0 12 * * *", time_zone="Asia/Tokyo")
    assert schedule["next_at"].endswith("T03:00:00Z")
    moved = update(client, schedule, time_zone="America/Bogota")
    assert moved["next_at"].endswith("T17:00:00Z")
    assert update(client, schedule, cron="0 13 * * *")["next_at"].endswith("T18:00:00Z")
    delayed = update(client, schedule, after_seconds=3600)
    assert (delayed["cron"], delayed["time_zone"], delayed["after_seconds"]) == (None, None, 3600)
    assert delayed["at"] == delayed["next_at"]
    problem = client.refused(
        422, "invalid_request", "PATCH", f"{SCHEDULES}/{schedule['id']}", {"time_zone": "UTC"}
    )
    assert problem["errors"][0]["path"] == "time_zone"
    again = update(client, schedule, cron="0 12 * * *")
    assert (again["at"], again["after_seconds"], again["time_zone"]) == (None, None, "UTC")


def test_the_last_slot_that_could_not_start_shows_its_error(project: Project) -> None:
    client = project.client
    client.call("POST", "/v1/agents", {"name": "clerk", "model": "offline:rules"})
    schedule = create(client, cron=YEARLY, run={"agent": "clerk", "input": "go"})
    client.call("DELETE", "/v1/agents/clerk")
    make_due(project, schedule)
    [slot] = processed(client, schedule)[:1]
    assert (slot["status"], slot["run_id"]) == ("failed", None)
    assert slot["error"]["code"] == "unknown_agent"
    assert [one["path"] for one in slot["error"]["errors"]] == ["run.agent"]
    assert read(client, schedule)["last_error"] == slot["error"]
    client.call("POST", "/v1/agents", {"name": "clerk", "model": "offline:rules"})
    make_due(project, schedule)
    until(lambda: read(client, schedule)["last_run_id"])
    assert read(client, schedule)["last_error"] is None


def test_slots_are_listed_in_pages(project: Project) -> None:
    client = project.client
    schedule = create(client, cron=YEARLY, overlap="queue")
    for count in range(1, 4):
        make_due(project, schedule)
        processed(client, schedule, count)
    update(client, schedule, enabled=False)
    everything = slots(client, schedule, order="asc")
    assert [one["at"] for one in everything] == sorted(one["at"] for one in everything)
    path = f"{SCHEDULES}/{schedule['id']}/slots"
    page = client.call("GET", path, limit=2, order="asc")
    assert (page["data"], page["has_more"]) == (everything[:2], True)
    rest = client.call("GET", path, limit=2, order="asc", after=page["last_id"])
    assert rest["data"] == everything[2:4]
    back = client.call("GET", path, limit=2, order="asc", before=rest["first_id"])
    assert back["data"] == everything[:2]
    response = client.request("GET", path, params={"after": "slot_1"})
    assert response.json()["errors"][0]["path"] == "query.after"


def test_values_of_headers_are_never_shown_or_stored_in_clear(project: Project) -> None:
    client = project.client
    headers = {"x-token": "canary-of-a-schedule"}
    tool = pay(project, headers=headers)
    crm = namespace(FIND | {"url": tool["url"], "headers": headers})
    run = {"model": "offline:rules", "input": "pay(x='1')", "tools": [tool, crm]}
    schedule = create(client, cron=YEARLY, run=run, overlap="queue")
    assert schedule["run"]["tools"][0] == tool | {"headers": {"x-token": "…"}}
    assert schedule["run"]["tools"][1]["tools"][0]["headers"] == {"x-token": "…"}
    stored = query(project, "SELECT run::text FROM schedules")
    assert all("canary-of-a-schedule" not in row[0] for row in stored)
    make_due(project, schedule)
    [hit] = project.wait_for_hits("pay")
    assert hit.headers["x-token"] == "canary-of-a-schedule"
    assert update(client, schedule, run=RUN)["run"] == RUN
    sealed = f"SELECT sealed_run FROM schedules WHERE id = '{schedule['id'][6:]}'"
    assert query(project, sealed)[0][0] is None


def test_a_key_without_tools_write_cannot_define_webhook_tools(project: Project) -> None:
    writer = project.key("runs:write")
    tool = {"name": "look", "url": "https://a.example", "parameters": {"type": "object"}}
    body = NIGHTLY | {"run": RUN | {"tools": [tool]}}
    writer.refused(403, "insufficient_scope", "POST", SCHEDULES, body)
    schedule = create(writer, cron="0 0 * * *")
    path = f"{SCHEDULES}/{schedule['id']}"
    writer.refused(403, "insufficient_scope", "PATCH", path, {"run": body["run"]})
    project.key("runs:read").refused(403, "insufficient_scope", "DELETE", path)


def test_a_repeated_request_creates_one_schedule(project: Project) -> None:
    client = project.client
    headers = {"Idempotency-Key": "nightly"}
    client.call("POST", "/v1/agents", {"name": "clerk", "model": "offline:rules"})
    body = NIGHTLY | {"run": {"agent": "clerk", "input": "go"}}
    first = client.request("POST", SCHEDULES, body, headers=headers)
    client.call("DELETE", "/v1/agents/clerk")
    second = client.request("POST", SCHEDULES, body, headers=headers)
    assert first.json() == second.json()
    assert len(client.call("GET", SCHEDULES)["data"]) == 1


def test_a_deleted_schedule_is_gone_and_its_runs_stay(project: Project) -> None:
    client = project.client
    schedule = create(client, after_seconds=1)
    [slot] = processed(client, schedule)
    assert client.request("DELETE", f"{SCHEDULES}/{schedule['id']}").status_code == 204
    for path in (f"{SCHEDULES}/{schedule['id']}", f"{SCHEDULES}/{schedule['id']}/slots"):
        client.refused(404, "schedule_not_found", "GET", path)
    client.refused(404, "schedule_not_found", "DELETE", f"{SCHEDULES}/{schedule['id']}")
    assert client.get_run(slot["run_id"])["schedule_id"] == schedule["id"]


def test_no_stored_response_contains_the_request_of_a_deleted_schedule(project: Project) -> None:
    body = {"name": "test", "run": RUN, "cron": YEARLY}
    headers = {"Idempotency-Key": "deleted"}
    made = project.client.request("POST", SCHEDULES, body, headers=headers).json()
    stored = f"SELECT 1 FROM idempotency_keys WHERE resource_id = '{made['id'][6:]}'"
    assert len(query(project, stored)) == 1
    project.client.call("DELETE", f"{SCHEDULES}/{made['id']}")
    assert query(project, stored) == []


FUTURE = (datetime.now(UTC) + timedelta(days=1)).isoformat()


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({}, ""),
        ({"cron": "0 0 * * *", "at": FUTURE}, ""),
        ({"at": FUTURE, "after_seconds": 5}, ""),
        ({"at": FUTURE, "time_zone": "UTC"}, ""),
        ({"cron": "0 0 * *"}, "cron"),
        ({"cron": "0 0 30 2 *"}, "cron"),
        ({"cron": "0 0 */31 * MON#5"}, "cron"),
        ({"cron": "* " * 100}, "cron"),
        ({"cron": "0 0 * * *", "time_zone": "Europe/Utopia"}, "time_zone"),
        ({"cron": "0 0 * * *", "time_zone": "../etc/passwd"}, "time_zone"),
        ({"at": "2020-01-01T00:00:00Z"}, "at"),
        ({"at": "9999-12-31T23:59:59-12:00"}, "at"),
        ({"at": "2090-01-01T00:00:00Z"}, "at"),
        ({"at": "2090-01-01T00:00:00"}, "at"),
        ({"after_seconds": 0}, "after_seconds"),
        ({"after_seconds": 10**9}, "after_seconds"),
        ({"cron": "0 0 * * *", "overlap": "wait"}, "overlap"),
        ({"cron": "0 0 * * *", "run": {"input": "go"}}, "run"),
        ({"cron": "0 0 * * *", "run": RUN | {"tools": ["gone"]}}, "run.tools.0"),
        ({"cron": "0 0 * * *", "run": RUN | {"model": "nobody:x"}}, "run.model"),
        ({"cron": "0 0 * * *", "run": {"agent": "gone", "input": "go"}}, "run.agent"),
        ({"cron": "0 0 * * *", "run": RUN | {"limits": {"max_turns": 0}}}, "run.limits.max_turns"),
        ({"cron": "0 0 * * *", "run": RUN | {"input": "x" * 65_536}}, "run"),
        (
            {"cron": "0 0 * * *", "run": RUN | {"webhook": {"url": "ftp://a.example"}}},
            "run.webhook.url",
        ),
        (
            {
                "cron": "0 0 * * *",
                "run": RUN | {"input": [{"role": "tool", "tool_call_id": "1", "content": "x"}]},
            },
            "run.input.0.tool_call_id",
        ),
    ],
)
def test_a_wrong_schedule_is_rejected_with_the_path(
    project: Project, fields: Json, path: str
) -> None:
    body = {"name": "wrong", "run": RUN, **fields}
    response = project.client.request("POST", SCHEDULES, body)
    assert response.status_code == 422, response.text
    assert path in [one["path"] for one in response.json()["errors"]], response.text
    assert project.client.call("GET", SCHEDULES)["data"] == []


def test_the_session_of_the_run_must_exist(project: Project) -> None:
    run = RUN | {"session_id": "sess_" + "0" * 32}
    project.client.refused(404, "session_not_found", "POST", SCHEDULES, NIGHTLY | {"run": run})


def test_an_update_is_checked_like_a_new_schedule(project: Project) -> None:
    client = project.client
    path = f"{SCHEDULES}/{create(client, cron='0 0 * * *')['id']}"
    for body, place in (
        ({"cron": None}, "cron"),
        ({"cron": "0 0 */31 * MON#5"}, "cron"),
        ({"at": "2020-01-01T00:00:00Z"}, "at"),
        ({"run": {"agent": "gone", "input": "go"}}, "run.agent"),
        ({"cron": "0 0 * * *", "at": FUTURE}, ""),
        ({"at": FUTURE, "time_zone": "UTC"}, ""),
    ):
        response = client.request("PATCH", path, body)
        assert response.status_code == 422, response.text
        assert place in [one["path"] for one in response.json()["errors"]]
    client.refused(404, "schedule_not_found", "PATCH", path[:-4] + "0000", {"name": "x"})
