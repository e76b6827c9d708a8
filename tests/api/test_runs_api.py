"""/v1/runs: accepting, waiting, listing, reading, cancelling; each with a model and tools that
do what the test says."""

import re
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

import httpx2
import pytest

from tests.api.project import Project, at_once, call, meanwhile, of_type, result_of, types_of
from tests.support.models.chat_server import Answer, Call, HttpError, calls, text
from tests.support.services.client import NO_TLS, Json, frames
from tests.support.serving import Hold
from tests.support.tools.server import Behaviour

RUN_FIELDS = {
    "erased_at",
    "config",
    "id",
    "object",
    "status",
    "agent",
    "model",
    "session_id",
    "continued_from",
    "parent_run_id",
    "schedule_id",
    "turn",
    "usage",
    "output",
    "output_parsed",
    "error",
    "incomplete_details",
    "required_actions",
    "waiting_for",
    "last_sequence",
    "priority",
    "start_at",
    "created_at",
    "created_by",
    "started_at",
    "ended_at",
    "context",
    "metadata",
}
NO_RUN = "run_" + "f" * 32
USAGE = {
    "input_tokens": 50,
    "output_tokens": 20,
    "cached_tokens": 10,
    "reasoning_tokens": 5,
    "total_tokens": 70,
    "cost_usd": 0,
}

# -- accepting ------------------------------------------------------------------------------------


def test_a_post_answers_202_with_the_run_and_where_it_is(project: Project) -> None:
    body = {
        "model": project.script(text("hi")),
        "instructions": "Be kind.",
        "input": "hello",
        "context": {"user": 7},
        "metadata": {"order": "A-1"},
    }
    response = project.client.request("POST", "/v1/runs", body)
    run = response.json()
    assert response.status_code == 202
    assert response.headers["Location"] == f"/v1/runs/{run['id']}"
    assert re.fullmatch("run_[0-9a-f]{32}", run["id"])
    assert run.keys() == RUN_FIELDS
    assert run["object"] == "run"
    assert run["status"] in {"queued", "in_progress"}
    assert (run["agent"], run["model"]) == (None, body["model"])
    assert (run["context"], run["metadata"]) == ({"user": 7}, {"order": "A-1"})
    assert (run["turn"], run["output"], run["error"], run["ended_at"]) == (0, None, None, None)
    assert run["required_actions"] == []


def test_a_completed_run_shows_its_output_usage_and_times(project: Project) -> None:
    run = project.run(text("hi"))
    assert run["status"] == "completed"
    assert (run["output"], run["output_parsed"]) == ("hi", None)
    assert (run["turn"], run["usage"]) == (1, USAGE)
    assert run["last_sequence"] == len(project.client.events(run["id"]))
    created, started, ended = (
        datetime.fromisoformat(run[name]) for name in ("created_at", "started_at", "ended_at")
    )
    assert created.tzinfo is not None
    assert created <= started <= ended


def test_an_answer_of_no_text_is_an_empty_output_and_not_null(project: Project) -> None:
    run = project.run(Answer(text=""))
    assert (run["status"], run["output"]) == ("completed", "")


def test_a_refusal_is_its_own_outcome(project: Project) -> None:
    run = project.run(Answer(refusal="I will not."))
    assert (run["status"], run["output"]) == ("incomplete", "I will not.")
    assert run["incomplete_details"]["reason"] == "refusal"


@pytest.mark.parametrize("how", ["query", "header"])
def test_a_post_that_waits_answers_with_the_settled_run(project: Project, how: str) -> None:
    body = {"model": project.script(text("hi")), "input": "hello"}
    params = {"wait": "20"} if how == "query" else None
    headers = {"Prefer": "respond-async, wait=20"} if how == "header" else None
    response = project.client.request("POST", "/v1/runs", body, params=params, headers=headers)
    assert response.status_code == 200
    assert (response.json()["status"], response.json()["output"]) == ("completed", "hi")


def test_a_get_with_the_body_null_has_no_body(project: Project) -> None:
    """Some clients send it where they have nothing to say."""
    run = project.run(text("hi"))
    url, key = project.client.url, project.client.key
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    with httpx2.Client(trust_env=False, verify=NO_TLS, headers=headers) as http:
        answer = http.request("GET", f"{url}/v1/runs/{run['id']}", content=b"null")
    assert answer.json() == run


def test_a_field_of_another_api_is_answered_with_ours(project: Project) -> None:
    body = {"model": "offline:rules", "input": "hi", "max_tokens": 5}
    problem = project.client.refused(422, "invalid_request", "POST", "/v1/runs", body)
    assert "did you mean `max_output_tokens`?" in problem["errors"][0]["message"]
    error = project.client.request("POST", "/v1/responses", body).json()["error"]
    assert (error["code"], error["param"]) == ("unknown_parameter", "max_tokens")


def test_a_wait_says_whether_the_run_has_settled(project: Project) -> None:
    hold = Hold()
    body = {"model": project.script(Answer(text="hi", hold=hold)), "input": "hello"}
    made = project.client.request("POST", "/v1/runs", body, params={"wait": 0.1})
    path = f"/v1/runs/{made.json()['id']}"
    statuses = [made.status_code]
    statuses += [
        project.client.request("GET", path, params=p).status_code for p in ({"wait": 0.1}, {})
    ]
    assert statuses == [202, 202, 200]
    hold.release()
    assert project.client.request("GET", path, params={"wait": 30}).status_code == 200


def test_a_post_that_waits_returns_as_soon_as_someone_must_act(project: Project) -> None:
    project.tool("pay", approval="always")
    run = project.start(calls(call(1, "pay")), tools=["pay"], wait=20)
    assert run["status"] == "requires_action"
    [action] = run["required_actions"]
    assert action.keys() == {
        "type",
        "approval_id",
        "run_id",
        "call_id",
        "tool",
        "agent",
        "arguments",
        "digest",
        "expires_at",
        "allowed_decisions",
        "path",
    }
    assert (action["type"], action["call_id"], action["tool"]) == ("approval", "c1", "pay")
    assert (action["arguments"], action["path"]) == ({"x": "1"}, [])
    assert re.fullmatch("sha256:[0-9a-f]{64}", action["digest"])


def test_a_wait_that_runs_out_answers_with_the_run_as_it_is(project: Project) -> None:
    hold = Hold()
    run = project.start(Answer(text="late", hold=hold))
    hold.arrived()
    seen = project.client.call("GET", f"/v1/runs/{run['id']}", wait=0.2)
    hold.release()
    assert seen["status"] == "in_progress"
    assert project.settle(run)["output"] == "late"


def test_a_poll_that_waits_is_answered_when_the_run_settles(project: Project) -> None:
    hold = Hold()
    run = project.start(Answer(text="late", hold=hold))
    hold.arrived()
    with meanwhile(lambda: project.client.get_run(run["id"], wait=30)) as polled:
        with pytest.raises(TimeoutError):
            polled.result(0.3)
        hold.release()
        before = time.monotonic()
        assert polled.result(20)["status"] == "completed"
    assert time.monotonic() - before < 5


def test_a_post_may_be_answered_with_the_stream(project: Project) -> None:
    body = {"model": project.script(text("hi")), "input": "hello"}
    with project.client.streaming("POST", "/v1/runs", body, Accept="text/event-stream") as response:
        assert response.headers["Content-Type"].startswith("text/event-stream")
        assert project.running.contract.promises(response)
        run_id = response.headers["Location"].removeprefix("/v1/runs/")
        seen = [frame.data for frame in frames(response.iter_lines()) if frame.id is not None]
    assert seen == project.client.events(run_id)
    assert types_of(seen)[0] == "run.created"
    assert types_of(seen)[-1] == "run.completed"


UNKNOWN: dict[str, tuple[Json, str, str]] = {
    "a model of no provider": ({"model": "gpt"}, "unknown_model", "model"),
    "an unknown provider": ({"model": "nobody:gpt"}, "unknown_model", "model"),
    "an unknown fallback": ({"model": ["offline:rules", "x:y"]}, "unknown_model", "model"),
    "an unknown tool": ({"model": "offline:rules", "tools": ["pay"]}, "unknown_tool", "tools.0"),
    "an unknown agent": ({"agent": "clerk"}, "unknown_agent", "agent"),
    "a tool_choice that is not a tool of the run": (
        {"model": "offline:rules", "tool_choice": {"name": "pay"}},
        "invalid_request",
        "tool_choice.name",
    ),
    "a model setting that does not exist": (
        {"model": "offline:rules", "model_settings": {"heat": 1}},
        "invalid_request",
        "model_settings",
    ),
    "an output_schema that is none": (
        {"model": "offline:rules", "output_schema": {"type": "sentence"}},
        "invalid_request",
        "output_schema.type",
    ),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_a_run_names_must_exist(project: Project, name: str) -> None:
    fields, code, path = UNKNOWN[name]
    problem = project.client.refused(422, code, "POST", "/v1/runs", {"input": "x", **fields})
    assert problem["errors"][0]["path"] == path
    assert project.client.call("GET", "/v1/runs")["data"] == []


def test_a_tool_that_was_deleted_is_unknown_at_once(project: Project) -> None:
    project.tool("pay")
    body = {"model": "offline:rules", "input": "x", "tools": ["pay"]}
    assert project.client.request("POST", "/v1/runs", body).status_code == 202
    project.client.call("DELETE", "/v1/tools/pay")
    project.client.refused(422, "unknown_tool", "POST", "/v1/runs", body)


# -- Idempotency-Key ------------------------------------------------------------------------------


def post(project: Project, body: Json, key: str) -> tuple[int, Json, str | None]:
    response = project.client.request("POST", "/v1/runs", body, headers={"Idempotency-Key": key})
    return response.status_code, response.json(), response.headers.get("Idempotent-Replayed")


def test_the_same_key_and_body_make_one_run(project: Project) -> None:
    body = {"model": project.script(text("hi")), "input": "hello"}
    status, first, replayed = post(project, body, "k-1")
    assert (status, replayed) == (202, None)
    project.settle(first)
    reordered = dict(reversed(body.items()))
    status, second, replayed = post(project, reordered, "k-1")
    assert (status, second["id"], replayed) == (202, first["id"], "true")
    assert second["status"] == "completed", "a replay shows the run as it is now"
    assert len(project.client.call("GET", "/v1/runs")["data"]) == 1
    assert len(project.asked()) == 1


def test_the_same_key_with_another_body_is_refused(project: Project) -> None:
    body = {"model": "offline:rules", "input": "hello"}
    assert post(project, body, "k-1")[0] == 202
    status, problem, _ = post(project, {**body, "input": "bye"}, "k-1")
    assert (status, problem["code"]) == (422, "idempotency_key_reused")
    assert len(project.client.call("GET", "/v1/runs")["data"]) == 1


def test_twenty_posts_at_once_with_one_key_make_one_run(project: Project) -> None:
    body = {"model": project.script(text("hi")), "input": "hello"}
    answers = at_once(20, lambda _: post(project, body, "k-1"))
    assert {status for status, _, _ in answers} == {202}
    assert len({run["id"] for _, run, _ in answers}) == 1
    assert [replayed for _, _, replayed in answers].count(None) == 1
    project.settle(answers[0][1])
    assert len(project.client.call("GET", "/v1/runs")["data"]) == 1
    assert len(project.asked()) == 1


def test_a_refused_request_burns_no_key(project: Project) -> None:
    bad: list[Json] = [{"input": "x"}, {"model": "nobody:x", "input": "x"}, {"model": 7}]
    for body in bad:
        assert post(project, body, "k-1")[0] == 422
    assert post(project, {"model": "offline:rules", "input": "x"}, "k-1")[0] == 202


def test_another_project_may_use_the_same_key(project: Project, other: Project) -> None:
    body = {"model": "offline:rules", "input": "hello"}
    first, second = post(project, body, "k-1"), post(other, body, "k-1")
    assert (first[0], second[0], second[2]) == (202, 202, None)
    assert first[1]["id"] != second[1]["id"]


# -- listing and reading --------------------------------------------------------------------------


def ids(page: Json) -> list[str]:
    return [entry["id"] for entry in page["data"]]


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_the_page_before_the_first_id_of_a_page_is_the_one_before_it(
    project: Project, order: str
) -> None:
    made = [project.run(model="offline:rules", input=f"n {n}")["id"] for n in range(5)]
    shown = made if order == "asc" else made[::-1]

    def page(**query: Any) -> tuple[list[str], bool]:
        found = project.client.call("GET", "/v1/runs", order=order, **query)
        assert (found["first_id"], found["last_id"]) == (
            (found["data"][0]["id"], found["data"][-1]["id"]) if found["data"] else (None, None)
        )
        return ids(found), found["has_more"]

    assert page(limit=2, before=shown[4]) == (shown[2:4], True)
    assert page(limit=2, before=shown[2]) == (shown[:2], False)
    assert page(limit=9, before=shown[4]) == (shown[:4], False)
    assert page(limit=2, before=shown[0]) == ([], False)


def test_the_items_of_a_run_are_read_backwards(project: Project) -> None:
    said = [{"role": "user", "content": f"n {n}"} for n in range(4)]
    run = project.run(model="offline:rules", input=said)
    path = f"/v1/runs/{run['id']}/items"
    whole = ids(project.client.call("GET", path))
    page = project.client.call("GET", path, limit=2, before=whole[3])
    assert (ids(page), page["has_more"]) == (whole[1:3], True)
    page = project.client.call("GET", path, limit=2, before=whole[1])
    assert (ids(page), page["has_more"]) == (whole[:1], False)
    page = project.client.call("GET", path, limit=2, order="desc", before=whole[1])
    assert (ids(page), page["has_more"]) == ([whole[3], whole[2]], True)


def test_a_page_is_after_or_before_an_id(project: Project) -> None:
    run = project.run(model="offline:rules", input="hello")["id"]
    for query in ({"after": run, "before": run}, {"before": "nothing"}):
        refused = project.client.request("GET", "/v1/runs", params=query)
        assert refused.status_code == 422
        assert refused.json()["errors"][0]["path"] == "query.before"


def test_a_run_shows_what_it_was_started_with_if_that_is_asked_for(project: Project) -> None:
    project.tool("pay")
    limits = {"max_turns": 3}
    said = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}]
    run = project.run(
        model="offline:rules", input=said, instructions="Pay.", tools=["pay"], limits=limits
    )
    path = f"/v1/runs/{run['id']}"
    assert project.client.call("GET", path)["config"] is None
    for wait in (None, 1):
        shown = project.client.call("GET", path, include="config", wait=wait)["config"]
        assert shown["input"] == [{"type": "message", **message} for message in said]
        assert (shown["instructions"], shown["tools"]) == ("Pay.", ["pay"])
        assert (shown["limits"]["max_turns"], shown["limits"]["max_parallel_tool_calls"]) == (3, 8)


def test_a_continued_run_shows_the_messages_that_it_was_continued_with(project: Project) -> None:
    asking = project.start(
        Answer(calls=(call(1, "nothing"),)), text("Done."), limits={"max_turns": 1}
    )
    stopped = project.settle(asking)
    assert stopped["status"] == "incomplete"
    later = project.client.call(
        "POST", f"/v1/runs/{stopped['id']}/continue", {"max_turns": 1, "input": "Go on."}
    )
    shown = project.client.call("GET", f"/v1/runs/{later['id']}", include="config")["config"]
    assert [message["content"] for message in shown["input"]] == ["Go on."]
    project.settle(later)


def test_runs_are_listed_in_pages_both_ways(project: Project) -> None:
    made = [project.run(model="offline:rules", input=f"n {n}")["id"] for n in range(5)]
    newest = project.client.call("GET", "/v1/runs", limit=2)
    assert ids(newest) == [made[4], made[3]]
    assert newest == {
        "object": "list",
        "data": newest["data"],
        "first_id": made[4],
        "last_id": made[3],
        "has_more": True,
    }
    rest = project.client.call("GET", "/v1/runs", limit=3, after=newest["last_id"])
    assert (ids(rest), rest["has_more"]) == (made[2::-1], False)
    oldest = project.client.call("GET", "/v1/runs", order="asc", limit=2, after=made[1])
    assert (ids(oldest), oldest["has_more"]) == (made[2:4], True)
    nothing = project.client.call("GET", "/v1/runs", after=made[0])
    assert (nothing["data"], nothing["first_id"], nothing["last_id"]) == ([], None, None)


def test_runs_are_found_by_status_and_by_agent(project: Project) -> None:
    project.tool("pay", approval="always")
    project.client.call(
        "POST", "/v1/agents", {"name": "clerk", "model": "offline:rules", "tools": ["pay"]}
    )
    waiting = project.settle(project.client.start_run_of("clerk", input="please pay(x='1')"))
    done = project.run(model="offline:rules", input="hello")
    assert waiting["status"] == "requires_action"
    found = project.client.call("GET", "/v1/runs", status="requires_action")
    assert ids(found) == [waiting["id"]]
    assert found["data"][0]["required_actions"] == waiting["required_actions"]
    assert ids(project.client.call("GET", "/v1/runs", status="completed")) == [done["id"]]
    assert ids(project.client.call("GET", "/v1/runs", agent="clerk")) == [waiting["id"]]
    assert ids(project.client.call("GET", "/v1/runs", agent="nobody")) == []
    assert ids(project.client.call("GET", "/v1/runs", agent="clerk", status="failed")) == []


def test_a_listed_run_is_the_run_itself(project: Project) -> None:
    run = project.run(text("hi"))
    assert project.client.call("GET", "/v1/runs")["data"] == [run]
    assert project.client.get_run(run["id"]) == run


def test_items_are_the_conversation_with_each_result_after_its_calls(project: Project) -> None:
    project.tool("look", Behaviour("return", value={"found": [1, None]}))
    run = project.run(
        Answer(text="Let me see.", calls=(call(1, "look"), call(2, "look", '{"x":"2"}'))),
        text("There."),
        tools=["look"],
        input=[
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": [{"type": "text", "text": "where?"}]},
        ],
    )
    items = project.client.items(run["id"])
    shown = [{k: v for k, v in item.items() if k not in {"id", "agent"}} for item in items]
    assert shown == [
        {"type": "message", "role": "system", "content": "be brief", "turn": 0},
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "text", "text": "where?"}],
            "turn": 0,
        },
        {"type": "message", "role": "assistant", "content": "Let me see.", "turn": 1},
        *(
            {"type": "tool_call", "call_id": f"c{n}", "name": "look", "turn": 1}
            | {"arguments": {"x": str(n)}}
            for n in (1, 2)
        ),
        *(
            {"type": "tool_result", "call_id": f"c{n}", "is_error": False, "turn": 1}
            | {"output": {"found": [1, None]}}
            for n in (1, 2)
        ),
        {"type": "message", "role": "assistant", "content": "There.", "turn": 2},
    ]
    assert {item["agent"] for item in items} == {None}
    assert len({item["id"] for item in items}) == len(items)


def test_items_and_calls_are_read_in_pages(project: Project) -> None:
    project.tool("look")
    run = project.run(
        calls(*(call(n, "look", f'{{"x":"{n}"}}') for n in range(5))), text("ok"), tools=["look"]
    )
    for what in ("items", "tool_calls"):
        path = f"/v1/runs/{run['id']}/{what}"
        whole = project.client.call("GET", path)["data"]
        walked: list[Json] = []
        after = None
        while True:
            page = project.client.call("GET", path, limit=2, after=after)
            walked += page["data"]
            if not page["has_more"]:
                break
            after = page["last_id"]
        assert walked == whole
        backwards = project.client.call("GET", path, order="desc")["data"]
        assert backwards == whole[::-1]
        problem = project.client.refused(422, "invalid_request", "GET", f"{path}?after=nothing")
        assert problem["errors"][0]["path"] == "query.after"


def test_the_ledger_holds_every_call_with_how_it_ended(project: Project) -> None:
    project.tool("good")
    project.tool("bad", Behaviour("raise"))
    run = project.run(
        calls(call(1, "good"), call(2, "bad"), call(3, "none"), call(4, "good", '{"x":1}')),
        text("ok"),
        tools=["good", "bad"],
    )
    good, bad, unknown, invalid = project.client.tool_calls(run["id"])
    assert (good["call_id"], good["phase"], good["outcome"]) == ("c1", "settled", "completed")
    assert (good["output"], good["is_error"], good["attempt"]) == ("good(1)", False, 1)
    assert (good["tool_version"], good["arguments"], good["turn"]) == (1, {"x": "1"}, 1)
    assert good["created_at"] <= good["started_at"] <= good["ended_at"]
    assert (bad["outcome"], bad["reason"], bad["is_error"]) == ("failed", "tool_error", True)
    assert "HTTP status 500" in bad["detail"]
    assert (unknown["tool"], unknown["tool_version"]) == ("none", None)
    assert (unknown["reason"], unknown["attempt"]) == ("unknown_tool", 0)
    assert (invalid["reason"], invalid["started_at"]) == ("invalid_arguments", None)
    assert "x: " in invalid["output"]
    assert good["id"] == project.hits("good")[0].webhook_id
    assert len(project.hits("good")) == 1


def test_the_context_reaches_tools_and_never_the_model(project: Project) -> None:
    project.tool("look")
    project.run(calls(call(1, "look")), text("ok"), tools=["look"], context={"tenant": "secret-7"})
    assert project.hits("look")[0].body["context"] == {"tenant": "secret-7"}
    assert "secret-7" not in str([request.body for request in project.asked()])


@pytest.mark.parametrize("what", ["", "/items", "/tool_calls", "/events"])
def test_an_unknown_run_is_404_everywhere(project: Project, what: str) -> None:
    for run_id in (NO_RUN, "run_1", "1"):
        project.client.refused(404, "run_not_found", "GET", f"/v1/runs/{run_id}{what}")


# -- cancelling -----------------------------------------------------------------------------------


def test_cancel_ends_a_run_whose_model_is_silent(project: Project) -> None:
    hold = Hold()
    run = project.start(Answer(text="late", hold=hold))
    hold.arrived()
    cancelled = project.client.cancel(run["id"])
    assert cancelled["status"] == "cancelled"
    assert cancelled["ended_at"] is not None
    hold.release()
    events = project.client.events(run["id"])
    assert types_of(events) == ["run.created", "run.started", "run.cancelled"]
    assert project.client.cancel(run["id"]) == cancelled, "twice is fine"


def test_cancel_without_a_body_is_immediate(project: Project) -> None:
    hold = Hold()
    run = project.start(Answer(text="late", hold=hold))
    hold.arrived()
    response = project.client.request("POST", f"/v1/runs/{run['id']}/cancel")
    hold.release()
    assert response.json()["status"] == "cancelled"


def test_cancel_gives_a_call_in_flight_a_truthful_result(project: Project) -> None:
    project.tool("slow", Behaviour(hold=f"cancel-{project.suffix}"))
    project.tool("gated", approval="always")
    run = project.start(calls(call(1, "slow"), call(2, "gated")), tools=["slow", "gated"])
    project.wait_for_hits("slow")
    assert project.client.cancel(run["id"])["status"] == "cancelled"
    project.tools.hold(f"cancel-{project.suffix}").release()
    sent, never = project.client.tool_calls(run["id"])
    assert (sent["outcome"], sent["phase"]) == ("cancelled", "settled")
    assert "may or may not have taken effect" in sent["output"]
    assert (never["outcome"], never["attempt"]) == ("cancelled", 0)
    assert "may or may not" not in never["output"]
    assert project.client.approvals(run_id=run["id"]) == []
    results = [item for item in project.client.items(run["id"]) if "output" in item]
    assert [item["call_id"] for item in results] == ["c1", "c2"]
    assert types_of(project.client.events(run["id"]))[-1] == "run.cancelled"


def test_cancel_after_the_turn_keeps_the_results_and_asks_no_more(project: Project) -> None:
    hold = project.tools.hold(f"after-{project.suffix}")
    project.tool("slow", Behaviour(hold=f"after-{project.suffix}"))
    run = project.start(calls(call(1, "slow")), text("never"), tools=["slow"])
    project.wait_for_hits("slow")
    assert project.client.cancel(run["id"], "after_turn")["status"] == "in_progress"
    hold.release()
    ended = project.settle(run)
    assert ended["status"] == "cancelled"
    [ledger] = project.client.tool_calls(run["id"])
    assert (ledger["outcome"], ledger["output"]) == ("completed", "slow(1)")
    assert len(project.asked()) == 1


def test_cancel_after_the_turn_ends_a_waiting_run_at_once(project: Project) -> None:
    project.tool("pay", approval="always")
    run = project.run(calls(call(1, "pay")), tools=["pay"])
    assert run["status"] == "requires_action"
    assert project.client.cancel(run["id"], "after_turn")["status"] == "cancelled"
    assert project.hits("pay") == []


def test_an_ended_run_cannot_be_cancelled(project: Project) -> None:
    run = project.run(text("hi"))
    problem = project.client.refused(
        409, "run_ended", "POST", f"/v1/runs/{run['id']}/cancel", {"mode": "immediate"}
    )
    assert "completed" in problem["detail"]
    assert project.client.get_run(run["id"]) == run


# -- agents ---------------------------------------------------------------------------------------


def test_an_agent_is_registered_read_changed_and_deleted(project: Project) -> None:
    client = project.client
    body = {
        "name": "clerk",
        "description": "Pays.",
        "model": "offline:rules",
        "instructions": "Pay.",
        "metadata": {"team": "a"},
    }
    response = client.request("POST", "/v1/agents", body)
    made = response.json()
    assert (response.status_code, response.headers["Location"]) == (201, "/v1/agents/clerk")
    assert made.items() >= {**body, "object": "agent", "version": 1, "tools": []}.items()
    assert made["limits"]["max_turns"] == 10
    client.refused(409, "already_exists", "POST", "/v1/agents", body)
    assert client.call("GET", "/v1/agents/clerk") == made
    assert client.call("GET", "/v1/agents")["data"] == [made]
    changed = client.call("PATCH", "/v1/agents/clerk", {"description": None, "tools": ["pay"]})
    assert (changed["version"], changed["description"]) == (2, None)
    assert (changed["tools"], changed["instructions"]) == (["pay"], "Pay.")
    client.refused(422, "invalid_request", "PATCH", "/v1/agents/clerk", {"name": "other"})
    client.refused(422, "unknown_model", "PATCH", "/v1/agents/clerk", {"model": "x:y"})
    assert client.request("DELETE", "/v1/agents/clerk").status_code == 204
    for method in ("GET", "DELETE"):
        client.refused(404, "agent_not_found", method, "/v1/agents/clerk")
    assert client.call("POST", "/v1/agents", body)["version"] == 3


def test_agents_are_listed_by_name(project: Project) -> None:
    for name in ("b", "a", "c"):
        project.client.call("POST", "/v1/agents", {"name": name, "model": "offline:rules"})
    page = project.client.call("GET", "/v1/agents", limit=2)
    assert [agent["name"] for agent in page["data"]] == ["a", "b"]
    rest = project.client.call("GET", "/v1/agents", after=page["last_id"])
    assert [agent["name"] for agent in rest["data"]] == ["c"]


def test_a_run_of_an_agent_is_as_the_agent_says(project: Project) -> None:
    project.tool("look")
    model = project.script(calls(call(1, "look")), text("ok"))
    project.client.call(
        "POST",
        "/v1/agents",
        {"name": "clerk", "model": model, "instructions": "Look.", "tools": ["look"]},
    )
    run = project.settle(project.client.start_run_of("clerk"))
    assert (run["status"], run["agent"], run["model"]) == ("completed", "clerk", model)
    first = project.asked()[0]
    assert first.messages[0]["content"] == "Look."
    assert first.tool_names == ["look"]
    assert project.hits("look")[0].body["agent"] == "clerk"
    assert {item["agent"] for item in project.client.items(run["id"])} == {"clerk"}


def test_a_runs_own_limits_stand_in_place_of_its_agents(project: Project) -> None:
    project.tool("look")
    agent: Json = {"name": "clerk", "tools": ["look"], "limits": {"max_turns": 5}}
    model = project.script(calls(call(1, "look")), text("never"))
    project.client.call("POST", "/v1/agents", {**agent, "model": model})
    run = project.settle(project.client.start_run_of("clerk", limits={"max_turns": 1}))
    assert (run["status"], run["incomplete_details"]["reason"]) == ("incomplete", "max_turns")


def test_a_started_run_keeps_to_its_agent_as_it_was(project: Project) -> None:
    hold = Hold()
    model = project.script(Answer(text="first", hold=hold), name="first")
    later = project.script(text("second"), name="second")
    project.client.call("POST", "/v1/agents", {"name": "clerk", "model": model})
    run = project.client.start_run_of("clerk")
    hold.arrived()
    project.client.call("PATCH", "/v1/agents/clerk", {"model": later})
    hold.release()
    assert project.settle(run)["output"] == "first"
    assert project.settle(project.client.start_run_of("clerk"))["output"] == "second"


def test_an_agent_may_name_tools_that_are_not_there_yet(project: Project) -> None:
    agent: Json = {"name": "clerk", "model": "offline:rules", "tools": ["pay"]}
    project.client.call("POST", "/v1/agents", agent)
    body = {"agent": "clerk", "input": "x"}
    project.client.refused(422, "unknown_tool", "POST", "/v1/runs", body)
    project.tool("pay")
    assert project.client.request("POST", "/v1/runs", body).status_code == 202


# -- limits ---------------------------------------------------------------------------------------


def reason(run: Json) -> str:
    assert run["status"] == "incomplete", run
    return run["incomplete_details"]["reason"]


def test_the_last_turns_tools_run_before_the_run_is_incomplete(project: Project) -> None:
    project.tool("look")
    run = project.run(calls(call(1, "look")), tools=["look"], limits={"max_turns": 1})
    assert (reason(run), run["turn"], run["output"]) == ("max_turns", 1, None)
    assert len(project.hits("look")) == 1
    last = project.client.events(run["id"])[-1]
    assert last["data"]["incomplete_details"] == run["incomplete_details"]


def test_at_max_turns_the_model_may_summarise(project: Project) -> None:
    project.tool("look")
    run = project.run(
        calls(call(1, "look")),
        text("so far"),
        tools=["look"],
        limits={"max_turns": 1},
        on_max_turns="summarise",
    )
    assert (run["status"], run["output"]) == ("completed", "so far")
    assert project.asked()[-1].tool_names == []


def test_at_max_turns_the_run_may_fail(project: Project) -> None:
    project.tool("look")
    run = project.run(
        calls(call(1, "look")), tools=["look"], limits={"max_turns": 1}, on_max_turns="fail"
    )
    assert (run["status"], run["error"]["code"]) == ("failed", "max_turns")


def test_at_max_turns_the_run_may_complete_with_a_fixed_output(project: Project) -> None:
    project.tool("look")
    run = project.run(
        calls(call(1, "look")),
        tools=["look"],
        limits={"max_turns": 1},
        on_max_turns={"output": {"sorry": True}},
    )
    assert (run["status"], run["output"]) == ("completed", {"sorry": True})


def test_a_call_above_max_tool_calls_is_not_sent(project: Project) -> None:
    project.tool("look")
    run = project.run(
        calls(call(1, "look"), call(2, "look", '{"x":"2"}')),
        tools=["look"],
        limits={"max_tool_calls": 1},
    )
    assert reason(run) == "max_tool_calls"
    first, second = project.client.tool_calls(run["id"])
    assert (first["outcome"], second["reason"]) == ("completed", "max_tool_calls")
    assert [hit.call_id for hit in project.hits("look")] == ["c1"]


def test_max_tokens_is_checked_before_the_model_is_asked_again(project: Project) -> None:
    project.tool("look")
    run = project.run(calls(call(1, "look")), tools=["look"], limits={"max_tokens": 70})
    assert (reason(run), run["usage"]["total_tokens"]) == ("max_tokens", 70)
    assert len(project.asked()) == 1


def test_max_tokens_does_not_take_an_answer_away(project: Project) -> None:
    run = project.run(text("hi"), limits={"max_tokens": 1})
    assert (run["status"], run["output"]) == ("completed", "hi")


def test_a_deadline_that_passes_while_the_run_waits_expires_it(project: Project) -> None:
    project.tool("pay", approval="always")
    run = project.start(calls(call(1, "pay")), tools=["pay"], limits={"deadline_seconds": 1})
    ended = project.end(run)
    assert ended["status"] == "expired"
    events = project.client.events(run["id"])
    assert types_of(events)[-2:] == ["tool_call.cancelled", "run.expired"]
    [approval] = project.client.approvals(status=None, run_id=run["id"])
    assert approval["status"] == "cancelled"
    assert project.hits("pay") == []


def test_a_deadline_that_passes_while_the_model_thinks_ends_the_run(project: Project) -> None:
    hold = Hold()
    run = project.start(Answer(text="late", hold=hold), limits={"deadline_seconds": 1})
    ended = project.end(run)
    hold.release()
    assert reason(ended) == "deadline"


def test_a_deadline_that_passes_while_a_tool_works_ends_the_run(project: Project) -> None:
    hold = project.tools.hold(f"deadline-{project.suffix}")
    project.tool("slow", Behaviour(hold=f"deadline-{project.suffix}"))
    run = project.start(calls(call(1, "slow")), tools=["slow"], limits={"deadline_seconds": 1})
    ended = project.end(run)
    hold.release()
    assert reason(ended) == "deadline"
    [ledger] = project.client.tool_calls(run["id"])
    assert ledger["outcome"] == "timed_out"


def test_the_runs_tool_timeout_is_for_tools_without_their_own(project: Project) -> None:
    hold = project.tools.hold(f"timeout-{project.suffix}")
    project.tool("slow", Behaviour(hold=f"timeout-{project.suffix}"))
    run = project.run(
        calls(call(1, "slow")),
        text("ok"),
        tools=["slow"],
        limits={"tool_timeout_seconds": 0.2},
    )
    hold.release()
    assert run["status"] == "completed"
    shown = result_of(project.asked(), "c1")
    assert shown.startswith("Tool 'slow' timed out after 0.2 seconds.")
    assert "may or may not have taken effect" in shown
    assert "tool_call.timed_out" in types_of(project.client.events(run["id"]))


def test_no_more_calls_are_in_flight_than_the_run_allows(project: Project) -> None:
    project.tool("look")
    asked = [call(n, "look", f'{{"x":"{n}"}}') for n in range(6)]
    run = project.run(
        calls(*asked), text("ok"), tools=["look"], limits={"max_parallel_tool_calls": 1}
    )
    assert run["status"] == "completed"
    assert [hit.active for hit in project.hits("look")] == [1] * 6
    assert [call_id for call_id, _ in project.asked()[-1].results] == [f"c{n}" for n in range(6)]


# -- what the model does --------------------------------------------------------------------------

PERSON: Json = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


def test_an_output_that_matches_its_schema_is_shown_parsed_too(project: Project) -> None:
    run = project.run(text('{"name":"Ada","age":36}'), output_schema=PERSON)
    assert run["status"] == "completed"
    assert run["output"] == '{"name":"Ada","age":36}'
    assert run["output_parsed"] == {"name": "Ada", "age": 36}


def test_an_output_that_does_not_match_may_be_repaired(project: Project) -> None:
    run = project.run(text('{"name":"Ada"}'), text('{"name":"Ada","age":36}'), output_schema=PERSON)
    assert (run["status"], run["output_parsed"]) == ("completed", {"name": "Ada", "age": 36})
    repair = project.asked()[1].messages[-1]
    assert repair["role"] == "user"
    assert "age" in repair["content"]
    [retried] = of_type(project.client.events(run["id"]), "model.retried")
    assert retried["code"] == "output_schema"


def test_an_output_that_stays_wrong_leaves_the_run_incomplete(project: Project) -> None:
    run = project.run(text("not JSON"), text("still not"), output_schema=PERSON)
    assert (reason(run), run["output"], run["output_parsed"]) == (
        "output_schema",
        "still not",
        None,
    )
    assert len(project.asked()) == 2


def test_no_repair_may_be_wanted(project: Project) -> None:
    run = project.run(text("not JSON"), output_schema=PERSON, output_retries=0)
    assert reason(run) == "output_schema"
    assert len(project.asked()) == 1


def test_an_unknown_tool_is_an_error_result_that_names_those_there_are(project: Project) -> None:
    project.tool("look")
    run = project.run(calls(call(1, "loook"), call(2, "look")), text("ok"), tools=["look"])
    assert run["status"] == "completed"
    assert "look" in result_of(project.asked(), "c1").removeprefix("Tool 'loook'")
    assert result_of(project.asked(), "c2") == "look(1)"


def test_an_unknown_tool_may_fail_the_run(project: Project) -> None:
    project.tool("look")
    run = project.run(calls(call(1, "loook")), tools=["look"], on_unknown_tool="fail_run")
    assert run["status"] == "failed"
    assert "loook" in run["error"]["message"]


def test_the_third_identical_call_is_warned_about_and_the_fifth_stops_the_run(
    project: Project,
) -> None:
    project.tool("look")
    run = project.run(*(calls(call(n, "look")) for n in range(1, 6)), tools=["look"])
    assert reason(run) == "repeated_calls"
    assert [hit.call_id for hit in project.hits("look")] == ["c1", "c2", "c3", "c4"]
    results = dict(project.asked()[-1].results)
    warned = [call_id for call_id, shown in results.items() if "third identical" in shown]
    assert warned == ["c3"]
    last = project.client.tool_calls(run["id"])[-1]
    assert (last["reason"], last["attempt"]) == ("repeated_call", 0)


def test_calls_with_other_arguments_are_not_identical(project: Project) -> None:
    project.tool("look")
    script = [calls(call(n, "look", f'{{"x":"{n}"}}')) for n in range(6)]
    assert project.run(*script, text("ok"), tools=["look"])["status"] == "completed"


@pytest.mark.parametrize("behavior", ["stop_on_first_tool", {"stop_at": ["look"]}])
def test_a_tools_result_may_be_the_output(project: Project, behavior: Any) -> None:
    project.tool("look", Behaviour("return", value={"found": 1}))
    run = project.run(calls(call(1, "look")), tools=["look"], tool_use_behavior=behavior)
    assert (run["status"], run["output"]) == ("completed", {"found": 1})
    assert len(project.asked()) == 1


def test_an_error_never_becomes_the_output(project: Project) -> None:
    project.tool("bad", Behaviour("raise"))
    run = project.run(
        calls(call(1, "bad")), text("sorry"), tools=["bad"], tool_use_behavior="stop_on_first_tool"
    )
    assert run["output"] == "sorry"


def test_a_forced_choice_becomes_auto_after_the_first_call(project: Project) -> None:
    project.tool("look")
    project.run(calls(call(1, "look")), text("ok"), tools=["look"], tool_choice={"name": "look"})
    first, second = project.asked()
    assert first.body["tool_choice"] == {"type": "function", "function": {"name": "look"}}
    assert second.body.get("tool_choice", "auto") == "auto"


def test_one_id_for_two_calls_fails_the_run_and_starts_nothing(project: Project) -> None:
    project.tool("look")
    run = project.run(calls(call(1, "look"), call(1, "look", '{"x":"2"}')), tools=["look"])
    assert (run["status"], run["error"]["code"]) == ("failed", "call_id_reused")
    assert project.hits("look") == []


def test_a_call_that_was_cut_off_is_not_executed(project: Project) -> None:
    project.tool("look")
    cut_off = Answer(calls=(call(1, "look"), call(2, "look")), finish_reason="length")
    run = project.run(cut_off, text("ok"), tools=["look"])
    assert run["status"] == "completed"
    assert [hit.call_id for hit in project.hits("look")] == ["c1"]
    assert "cut off" in result_of(project.asked(), "c2")


@pytest.mark.parametrize("arguments", ["", "{}", "null"])
def test_empty_arguments_are_an_empty_object(project: Project, arguments: str) -> None:
    nothing: Json = {"type": "object", "properties": {}, "additionalProperties": False}
    project.tool("now", Behaviour("return", value=12), parameters=nothing)
    run = project.run(calls(Call("c1", "now", arguments)), text("ok"), tools=["now"])
    assert run["status"] == "completed"
    [ledger] = project.client.tool_calls(run["id"])
    if arguments != "null":
        assert (ledger["output"], project.hits("now")[0].body["arguments"]) == (12, {})


# -- when the model fails -------------------------------------------------------------------------


def retries(project: Project, run: Json) -> list[Json]:
    return of_type(project.client.events(run["id"]), "model.retried")


def test_a_rate_limited_model_is_asked_again_after_what_it_said(project: Project) -> None:
    run = project.run(HttpError(429, retry_after="1"), text("ok"))
    assert (run["status"], run["output"]) == ("completed", "ok")
    [retried] = retries(project, run)
    assert (retried["model"], retried["code"]) == (run["model"], "model_rate_limited")
    assert retried["after_seconds"] >= 1
    first, second = project.asked()
    assert second.at - first.at >= 0.9


def test_a_model_that_is_down_for_a_moment_is_asked_again(project: Project) -> None:
    run = project.run(HttpError(500), HttpError(503, retry_after="0"), text("ok"))
    assert run["output"] == "ok"
    assert [each["code"] for each in retries(project, run)] == ["model_unavailable"] * 2
    assert run["turn"] == 1


def test_a_key_that_the_model_refuses_fails_the_run_without_quoting_it(project: Project) -> None:
    run = project.run(HttpError(401, "Incorrect API key provided: sk-test"))
    assert (run["status"], run["error"]["code"]) == ("failed", "model_unauthorized")
    assert "sk-test" not in str(project.client.events(run["id"]))
    assert len(project.asked()) == 1


def test_a_request_that_the_model_refuses_fails_the_run(project: Project) -> None:
    run = project.run(HttpError(400, "too many dogs"))
    assert (run["status"], run["error"]["code"]) == ("failed", "model_refused_request")
    assert "too many dogs" in run["error"]["message"]


def test_a_stream_that_breaks_is_asked_again_and_its_text_is_not_doubled(project: Project) -> None:
    run = project.run(Answer(text="hello world", cut_after=3), text("hello world"))
    assert run["output"] == "hello world"
    [retried] = retries(project, run)
    assert retried["code"] == "model_stream_broken"
    [message] = of_type(project.client.events(run["id"]), "message.completed")
    assert message["text"] == "hello world"


def test_calls_of_a_stream_that_breaks_are_not_made_twice(project: Project) -> None:
    project.tool("look")
    broken = Answer(calls=(call(1, "look"),), cut_after=3)
    run = project.run(broken, calls(call(1, "look")), text("ok"), tools=["look"])
    assert run["status"] == "completed"
    assert len(project.hits("look")) == 1


FALLBACKS: dict[str, Callable[[], HttpError]] = {
    "refused": lambda: HttpError(401),
    "too far away": lambda: HttpError(429, retry_after="3600"),
    "not there": lambda: HttpError(404),
}


@pytest.mark.parametrize("why", FALLBACKS)
def test_the_next_model_answers_where_the_first_cannot(project: Project, why: str) -> None:
    first = project.script(FALLBACKS[why](), name="first")
    second = project.script(text("from the second"), name="second")
    run = project.run(model=[first, second])
    assert (run["status"], run["output"]) == ("completed", "from the second")
    assert run["model"] == [first, second]
    assert len(project.asked("first")) == 1


def test_asking_the_next_model_is_told_as_an_event(project: Project) -> None:
    first = project.script(HttpError(404), name="first")
    run = project.run(model=[first, project.script(text("ok"), name="second")])
    [retried] = retries(project, run)
    assert retried["code"] == "model_not_found"


def test_a_run_fails_when_no_model_can_answer(project: Project) -> None:
    first = project.script(HttpError(401), name="first")
    second = project.script(HttpError(403), name="second")
    run = project.run(model=[first, second])
    assert (run["status"], run["error"]["code"]) == ("failed", "model_unauthorized")
