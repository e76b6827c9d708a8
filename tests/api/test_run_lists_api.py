"""Which runs a list shows, which of them a search finds, and who started each."""

from typing import Any

import pytest

from tests.api.project import Project, call
from tests.support.models.chat_server import calls, text
from tests.support.services.client import Json


def listed(project: Project, **params: Any) -> list[str]:
    page = project.client.call("GET", "/v1/runs", **params)
    assert page["has_more"] is False
    return [run["id"] for run in page["data"]]


def said(project: Project, answer: str, **fields: Any) -> str:
    """A run of a model that answers so; its id."""
    name = f"m{len(project.clients)}{answer[:8].encode().hex()}"
    model = project.script(text(answer), name=name)
    run = project.settle(project.start(model=model, **fields))
    assert run["status"] == "completed"
    return run["id"]


# -- who started it -------------------------------------------------------------------------------


def test_a_run_says_which_key_started_it_at_once_and_for_good(project: Project) -> None:
    key = project.new_key("runs:write", "runs:read", name="the shop's")
    shop = project.client_of(key["key"])
    model = project.script(text("done"))
    body = {"model": model, "input": "hi"}
    accepted = shop.call("POST", "/v1/runs", body)
    by = {"type": "key", "id": key["id"], "name": "the shop's"}
    assert accepted["created_by"] == by
    run = project.settle(accepted)
    assert run["created_by"] == by
    [listed_run] = project.client.call("GET", "/v1/runs")["data"]
    assert listed_run == run
    project.key("admin").call("DELETE", f"/v1/keys/{key['id']}")
    assert project.client.get_run(run["id"])["created_by"] == by


def test_a_replayed_request_shows_who_was_first(project: Project) -> None:
    model = project.script(text("done"))
    key = project.new_key("runs:write", name="first")
    headers = {"Idempotency-Key": "order-1"}
    body = {"model": model, "input": "hi"}
    first = project.client_of(key["key"]).request("POST", "/v1/runs", body, headers=headers)
    again = project.client.request("POST", "/v1/runs", body, headers=headers)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.json()["created_by"] == first.json()["created_by"]
    assert again.json()["created_by"]["name"] == "first"
    project.settle(again.json())


def test_a_child_run_was_started_by_who_started_the_first_one(project: Project) -> None:
    project.client.call(
        "POST", "/v1/agents", {"name": "clerk", "model": project.script(text("ok"), name="clerk")}
    )
    tool = {"name": "ask_clerk", "type": "agent", "agent": "clerk"}
    project.client.call("POST", "/v1/tools", tool)
    asked = calls(call(1, "ask_clerk", '{"input":"do it"}'))
    run = project.run(asked, text("done"), tools=["ask_clerk"])
    [child] = project.client.call("GET", "/v1/runs", parent_run_id=run["id"])["data"]
    assert child["created_by"] == run["created_by"]
    assert run["created_by"]["name"] == "test"


def test_a_continued_run_was_started_by_who_continued_it(project: Project) -> None:
    project.tool("pay")
    asked = calls(call(1, "pay"))
    old = project.run(asked, text("done"), tools=["pay"], limits={"max_turns": 1})
    assert old["status"] == "incomplete"
    key = project.new_key("runs:write", name="night shift")
    with project.client_of(key["key"]) as other:
        new = other.call("POST", f"/v1/runs/{old['id']}/continue", {"max_turns": 1})
    assert new["created_by"] == {"type": "key", "id": key["id"], "name": "night shift"}
    assert project.end(new)["created_by"] == new["created_by"]


# -- filters --------------------------------------------------------------------------------------


def test_several_statuses_are_named_with_commas(project: Project) -> None:
    project.tool("pay", approval="always")
    waiting = project.run(calls(call(1, "pay")), tools=["pay"])["id"]
    done = said(project, "done")
    model = project.script(calls(call(1, "pay")), name="other")
    cancelled = project.settle(project.start(model=model, tools=["pay"]))["id"]
    project.client.cancel(cancelled)
    assert listed(project, status="requires_action") == [waiting]
    assert listed(project, status="completed,cancelled") == [cancelled, done]
    assert listed(project, status="completed,cancelled", order="asc") == [done, cancelled]
    assert listed(project, status="failed,expired") == []


def test_runs_are_filtered_by_their_session(project: Project) -> None:
    session = project.client.call("POST", "/v1/sessions", {"name": "talk"})["id"]
    inside = said(project, "one", session_id=session)
    outside = said(project, "two")
    assert listed(project, session_id=session) == [inside]
    assert listed(project) == [outside, inside]
    assert listed(project, session_id="sess_" + "f" * 32) == []
    assert listed(project, session_id="nobody") == []


def test_runs_are_filtered_by_when_they_were_accepted(project: Project) -> None:
    ids = [said(project, answer) for answer in ("one", "two", "three")]
    [_, two, _] = [project.client.get_run(run)["created_at"] for run in ids]
    assert listed(project, created_after=two) == [ids[2], ids[1]]
    assert listed(project, created_before=two) == [ids[0]]
    assert listed(project, created_after=two, created_before=two) == []
    assert listed(project, created_after="0001-01-01T00:00:00Z") == ids[::-1]
    assert listed(project, created_before="9999-12-31T23:59:59Z") == ids[::-1]


# -- search ---------------------------------------------------------------------------------------


@pytest.fixture
def order(project: Project) -> str:
    """The run to be found, beside one that has nothing of it."""
    project.client.call(
        "POST",
        "/v1/agents",
        {"name": "clerk", "model": project.script(text("Überweisung 100% done"), name="clerk")},
    )
    said(project, "Nothing of interest.", metadata={"note": "another"})
    parts = [{"type": "text", "text": "Please pay"}, {"type": "text", "text": ' "A_1017"\nnow'}]
    asked = [
        {"role": "user", "content": "The customer is Zoë."},
        {"role": "assistant", "content": "I see the parrot."},
        {"role": "user", "content": parts},
    ]
    metadata = {"customer": "c-88", "nested": {"deep": ["Tulip"]}}
    body = {"agent": "clerk", "input": asked, "metadata": metadata}
    run = project.settle(project.client.call("POST", "/v1/runs", body))
    assert run["status"] == "completed"
    return run["id"]


@pytest.mark.parametrize(
    "q",
    [
        "zoë",
        "please PAY",
        'pay "a_1017"\nNOW',
        "überweisung",
        "00% D",
        "C-88",
        "tulip",
        "clerk",
        "lerk-",
    ],
)
def test_a_search_finds_what_was_said_the_output_metadata_agent_and_model(
    project: Project, order: str, q: str
) -> None:
    assert listed(project, q=q) == [order]


@pytest.mark.parametrize(
    "q",
    [
        "parrot",  # what an assistant said before
        "customer\x7f",
        "role",
        "content",
        "nested x",
        "a%1017",
        "a.1017",
        "1_0%",
        "\\",
        "/",
        "' OR 1=1 --",
    ],
)
def test_a_search_finds_nothing_else(project: Project, order: str, q: str) -> None:
    assert listed(project, q=q) == []


def test_a_search_finds_why_a_run_failed(project: Project) -> None:
    project.tool("pay", on_error="fail_run")
    run = project.run(calls(call(1, "pay", '{"x":1}')), tools=["pay"])
    assert run["status"] == "failed"
    assert listed(project, q=run["error"]["message"][:20]) == [run["id"]]


def test_the_beginning_of_an_id_finds_that_run_alone(project: Project) -> None:
    first, second = said(project, "one"), said(project, "about nothing")
    assert listed(project, q=first) == [first]
    assert listed(project, q=f" {first[:24].upper()} ".replace("RUN", "run")) == [first]
    assert set(listed(project, q=first[:12])) <= {first, second}
    assert listed(project, q=first, status="failed") == []
    assert listed(project, q="run_" + "f" * 32) == []


def test_the_id_of_a_child_run_finds_it(project: Project) -> None:
    project.client.call(
        "POST", "/v1/agents", {"name": "clerk", "model": project.script(text("ok"), name="clerk")}
    )
    tool = {"name": "ask_clerk", "type": "agent", "agent": "clerk"}
    project.client.call("POST", "/v1/tools", tool)
    asked = calls(call(1, "ask_clerk", '{"input":"find the tulip"}'))
    run = project.run(asked, text("done"), tools=["ask_clerk"])
    [child] = listed(project, parent_run_id=run["id"])
    assert listed(project, q=child) == [child]
    assert listed(project, q="tulip") == []
    assert listed(project, q="tulip", parent_run_id=run["id"]) == [child]


def test_what_was_found_is_walked_through_in_pages(project: Project) -> None:
    ids = [said(project, f"needle {n}") for n in range(3)]
    said(project, "hay")
    for order_, expected in (("desc", ids[::-1]), ("asc", ids)):
        seen: list[str] = []
        page: Json = {"has_more": True, "last_id": None}
        while page["has_more"]:
            page = project.client.call(
                "GET", "/v1/runs", q="NEEDLE", limit=2, order=order_, after=page["last_id"]
            )
            assert page["last_id"] == page["data"][-1]["id"]
            seen += [run["id"] for run in page["data"]]
        assert seen == expected


def test_a_search_stays_in_its_project(project: Project) -> None:
    run = said(project, "a needle")
    with project.running.project() as other:
        assert listed(other, q="needle") == []
        assert listed(other, q=run) == []
