"""/v1/sessions over HTTP: made, changed, walked, forked, deleted, and joined by runs."""

from itertools import pairwise
from typing import Any

import httpx2
import pytest

from tests.api.project import Project, at_once
from tests.support.models.chat_server import text
from tests.support.services.client import Json

TOO_LARGE = {"x": "y" * 65_536}


def make(project: Project, **fields: Any) -> Json:
    return project.client.call("POST", "/v1/sessions", fields)


def path_of(session: Json) -> str:
    return f"/v1/sessions/{session['id']}"


# -- sessions -------------------------------------------------------------------------------------


def test_a_session_is_made_found_and_listed(project: Project) -> None:
    fields = {
        "name": "Order",
        "metadata": {"a": 1},
        "state": {"b": None, "c": [1.5, "é"]},
        "on_conflict": "reject",
    }
    response = project.client.request("POST", "/v1/sessions", fields)
    made = response.json()
    assert response.status_code == 201
    assert response.headers["Location"] == path_of(made)
    assert made.items() >= {"object": "session", "forked_from": None, **fields}.items()
    assert project.client.call("GET", path_of(made)) == made
    bare = make(project)
    defaults: Json = {"name": None, "metadata": {}, "state": {}, "on_conflict": "queue"}
    assert bare.items() >= defaults.items()
    assert project.client.call("GET", "/v1/sessions")["data"] == [bare, made]


def test_sessions_are_walked_in_pages(project: Project) -> None:
    made = [make(project, name=f"s{n}")["id"] for n in range(5)]
    seen: list[str] = []
    after = None
    while True:
        page = project.client.call("GET", "/v1/sessions", limit=2, order="asc", after=after)
        seen += [one["id"] for one in page["data"]]
        if not page["has_more"]:
            break
        after = page["last_id"]
    assert seen == made


def test_the_same_key_makes_one_session(project: Project) -> None:
    def post(path: str, body: Json) -> Any:
        headers = {"Idempotency-Key": f"key of {path}".replace(" ", "-")}
        return project.client.request("POST", path, body, headers=headers)

    first = post("/v1/sessions", {"name": "a"})
    again = post("/v1/sessions", {"name": "a"})
    assert again.json() == first.json()
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.headers["Location"] == first.headers["Location"] == path_of(first.json())
    fork = f"{path_of(first.json())}/fork"
    assert post(fork, {}).json() == post(fork, {}).json()
    assert len(project.client.call("GET", "/v1/sessions")["data"]) == 2


def test_a_patch_merges_the_state_and_leaves_what_it_does_not_name(project: Project) -> None:
    made = make(project, name="a", metadata={"m": 1}, state={"a": 1, "b": {"c": 2}})
    changed = project.client.call(
        "PATCH", path_of(made), {"state": {"a": None, "b": {"d": 3}, "e": 5}}
    )
    assert changed["state"] == {"b": {"d": 3}, "e": 5}
    assert (changed["name"], changed["metadata"]) == ("a", {"m": 1})
    assert changed["updated_at"] > made["updated_at"]
    body: Json = {"name": None, "metadata": {}, "on_conflict": "cancel_previous"}
    again = project.client.call("PATCH", path_of(made), body)
    assert again.items() >= {**body, "state": changed["state"]}.items()
    assert project.client.call("GET", path_of(made)) == again


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"name": ""}, "name"),
        ({"name": "x" * 201}, "name"),
        ({"metadata": None}, "metadata"),
        ({"state": []}, "state"),
        ({"state": TOO_LARGE}, "state"),
        ({"on_conflict": "wait"}, "on_conflict"),
        ({"on_conflict": None}, "on_conflict"),
        ({"id": "sess_1"}, "id"),
    ],
)
def test_what_is_no_session_is_refused(project: Project, body: Json, path: str) -> None:
    session = make(project)
    for method, to in (("POST", "/v1/sessions"), ("PATCH", path_of(session))):
        problem = project.client.refused(422, "invalid_request", method, to, body)
        assert problem["errors"][0]["path"] == path
    assert project.client.call("GET", "/v1/sessions")["data"] == [session]


def test_a_state_that_grows_too_large_is_refused(project: Project) -> None:
    session = make(project, state={"a": "x" * 40_000})
    body = {"state": {"b": "x" * 40_000}}
    problem = project.client.refused(422, "invalid_request", "PATCH", path_of(session), body)
    assert problem["errors"][0]["path"] == "state"
    assert project.client.call("GET", path_of(session)) == session


def test_a_deleted_session_is_gone(project: Project) -> None:
    session = make(project)
    assert project.client.request("DELETE", path_of(session)).status_code == 204
    gone: list[tuple[str, str, Json | None]] = [
        ("GET", path_of(session), None),
        ("PATCH", path_of(session), {}),
        ("DELETE", path_of(session), None),
        ("GET", f"{path_of(session)}/items", None),
        ("POST", f"{path_of(session)}/fork", {}),
        ("GET", "/v1/sessions/nobody", None),
    ]
    for method, path, body in gone:
        project.client.refused(404, "session_not_found", method, path, body)


# -- runs on a session ----------------------------------------------------------------------------


def talk(project: Project, session: Json, *answers: str) -> list[Json]:
    """Runs of the session, one after the other."""
    model = project.script(*(text(words) for words in answers))
    return [
        project.run(model=model, session_id=session["id"], input=f"question {n}")
        for n, _ in enumerate(answers, start=1)
    ]


def spoken(project: Project, session: Json, **asked: Any) -> list[tuple[str, str]]:
    items = project.client.call("GET", f"{path_of(session)}/items", **asked)["data"]
    return [(item["run_id"], item["content"]) for item in items]


def test_a_run_goes_on_from_those_before_it(project: Project) -> None:
    session = make(project)
    first, second = talk(project, session, "one", "two")
    assert first["session_id"] == session["id"]
    asked = project.asked()[1]
    assert [message["content"] for message in asked.messages] == ["question 1", "one", "question 2"]
    assert spoken(project, session) == [
        (first["id"], "question 1"),
        (first["id"], "one"),
        (second["id"], "question 2"),
        (second["id"], "two"),
    ]
    own = project.client.items(second["id"])
    assert [item["content"] for item in own] == ["question 2", "two"]
    assert project.client.call("GET", path_of(session))["updated_at"] > session["updated_at"]


def test_the_conversation_is_walked_in_pages_both_ways(project: Project) -> None:
    session = make(project)
    talk(project, session, "one", "two")
    whole = spoken(project, session)
    for order, wanted in (("asc", whole), ("desc", whole[::-1])):
        seen: list[tuple[str, str]] = []
        after = None
        while True:
            path = f"{path_of(session)}/items"
            page = project.client.call("GET", path, limit=3, order=order, after=after)
            seen += [(item["run_id"], item["content"]) for item in page["data"]]
            if not page["has_more"]:
                break
            after = page["last_id"]
        assert seen == wanted
        before = project.client.call("GET", path, limit=3, order=order, before=page["first_id"])
        spoke = [(item["run_id"], item["content"]) for item in before["data"]]
        assert (spoke, before["has_more"]) == (
            wanted[-len(page["data"]) - 3 : -len(page["data"])],
            False,
        )


@pytest.mark.parametrize("after", ["x", "item_1_1", "item_" + "0" * 32 + "_1_1"])
def test_an_item_of_another_list_is_no_place_to_go_on_from(project: Project, after: str) -> None:
    path = f"{path_of(make(project))}/items?after={after}"
    problem = project.client.refused(422, "invalid_request", "GET", path)
    assert problem["errors"][0]["path"] == "query.after"


def test_a_fork_shares_the_past_and_not_the_future(project: Project) -> None:
    session = make(project, name="a", state={"s": 1})
    first, _ = talk(project, session, "one", "two")
    forked = project.client.call(
        "POST", f"{path_of(session)}/fork", {"run_id": first["id"], "name": "b"}
    )
    assert forked.items() >= {"name": "b", "state": {"s": 1}, "forked_from": session["id"]}.items()
    project.client.call("PATCH", path_of(forked), {"state": {"s": 2}})
    model = project.script(text("other"), name="other")
    run = project.run(model=model, session_id=forked["id"], input="instead")
    assert run["status"] == "completed"
    contents = [content for _, content in spoken(project, forked)]
    assert contents == ["question 1", "one", "instead", "other"]
    assert [content for _, content in spoken(project, session)][2:] == ["question 2", "two"]
    assert project.client.call("GET", path_of(session))["state"] == {"s": 1}
    whole = project.client.call("POST", f"{path_of(session)}/fork")
    assert (whole["name"], len(spoken(project, whole))) == ("a", 4)


def test_a_fork_begins_at_a_run_of_the_session(project: Project) -> None:
    session = make(project)
    [foreign] = talk(project, make(project), "x")
    path = f"{path_of(session)}/fork"
    for run_id in (foreign["id"], "run_" + "f" * 32, "nobody"):
        project.client.refused(404, "run_not_found", "POST", path, {"run_id": run_id})
    assert len(project.client.call("GET", "/v1/sessions")["data"]) == 2


def waiting(project: Project, session: Json, **fields: Any) -> Json:
    """A run of the session that waits for a person."""
    project.client.register_tool("pay", "http://127.0.0.1:9/", approval="always")
    body = {"model": "offline:rules", "tools": ["pay"], "input": 'pay(x="1")', **fields}
    return project.run(session_id=session["id"], **body)


def start(project: Project, session: Json, **fields: Any) -> Json:
    return project.start(model="offline:rules", session_id=session["id"], input="hi", **fields)


def test_a_run_waits_for_the_one_before_it(project: Project) -> None:
    session = make(project)
    first = waiting(project, session)
    second, third = start(project, session), start(project, session)
    assert (first["status"], second["status"]) == ("requires_action", "queued")
    project.client.decide(first["required_actions"][0]["approval_id"], "reject")
    runs = [project.end(run) for run in (first, second, third)]
    assert [run["status"] for run in runs] == ["completed"] * 3
    for before, after in pairwise(runs):
        assert before["ended_at"] <= after["started_at"]


def test_a_run_is_refused_that_may_not_wait(project: Project) -> None:
    session = make(project, on_conflict="reject")
    first = waiting(project, session)
    body = {"model": "offline:rules", "input": "hi", "session_id": session["id"]}
    problem = project.client.refused(409, "session_busy", "POST", "/v1/runs", body)
    assert problem["status"] == 409
    assert len(project.client.call("GET", "/v1/runs")["data"]) == 1
    queued = project.client.call("POST", "/v1/runs", {**body, "on_conflict": "queue"})
    assert queued["status"] == "queued"
    project.client.refused(409, "session_busy", "DELETE", path_of(session))
    project.client.refused(
        409, "session_busy", "POST", f"{path_of(session)}/fork", {"run_id": first["id"]}
    )
    project.client.cancel(first["id"])
    assert project.end(queued)["status"] == "completed"
    assert project.client.request("DELETE", path_of(session)).status_code == 204
    assert project.client.get_run(first["id"])["session_id"] == session["id"]


def test_a_run_cancels_those_before_it_where_it_was_told_to(project: Project) -> None:
    session = make(project)
    first, second = waiting(project, session), start(project, session)
    last = project.end(start(project, session, on_conflict="cancel_previous"))
    assert last["status"] == "completed"
    ended = [project.client.get_run(run["id"]) for run in (first, second)]
    assert [run["status"] for run in ended] == ["cancelled", "cancelled"]
    assert ended[1]["started_at"] is None
    assert ended[0]["ended_at"] <= last["started_at"]
    roles = [item.get("role") or item["type"] for item in project.client.items(last["id"])]
    assert roles == ["user", "assistant"]
    kept = project.client.call("GET", f"{path_of(session)}/items")["data"]
    results = [item for item in kept if item.get("type") == "tool_result"]
    assert [item["is_error"] for item in results] == [True], "cancelled, and truthfully so"


@pytest.mark.parametrize("rule", ["queue", "reject", "cancel_previous"])
def test_one_request_sent_many_times_at_once_is_one_run(project: Project, rule: str) -> None:
    session = make(project, on_conflict=rule)["id"]
    body = {"model": "offline:rules", "input": "hello", "session_id": session}

    def post(_: int) -> httpx2.Response:
        headers = {"Idempotency-Key": f"one {rule}".replace(" ", "-")}
        return project.client.request("POST", "/v1/runs", body, headers=headers)

    answers = at_once(8, post)
    assert [answer.status_code for answer in answers] == [202] * 8
    (run_id,) = {answer.json()["id"] for answer in answers}
    assert project.client.settle(run_id)["status"] == "completed"


def test_a_run_names_a_session_of_its_project(project: Project, other: Project) -> None:
    theirs = make(other)["id"]
    for session_id in (theirs, "sess_" + "f" * 32, "nobody"):
        body = {"model": "offline:rules", "input": "x", "session_id": session_id}
        project.client.refused(404, "session_not_found", "POST", "/v1/runs", body)
    assert project.client.call("GET", "/v1/runs")["data"] == []
