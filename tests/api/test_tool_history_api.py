"""GET /v1/tools/{name}/calls: what has been called of a tool, whichever run it was in."""

from typing import Any

import pytest

from tests.api.project import Project, call
from tests.support.models.chat_server import calls, text
from tests.support.services.client import Json
from tests.support.tools.server import Behaviour


def page_of(project: Project, name: str = "pay", **params: Any) -> Json:
    return project.client.call("GET", f"/v1/tools/{name}/calls", **params)


def paid(project: Project, *numbers: int, name: str = "main", **fields: Any) -> Json:
    """A run that calls `pay` once for each number, one after the other."""
    asked = [calls(call(number, "pay")) for number in numbers]
    model = project.script(*asked, text("done"), name=name)
    return project.settle(project.start(model=model, tools=["pay"], **fields))


def test_a_tool_that_was_never_called_has_no_calls(project: Project) -> None:
    project.tool("pay")
    page = page_of(project)
    assert (page["data"], page["last_id"], page["has_more"]) == ([], None, False)
    assert page["summary"] == {"calls": 0, "failed": 0, "timed": 0, "p50_ms": None, "p95_ms": None}


def test_the_calls_of_all_runs_stand_there_the_newest_first(project: Project) -> None:
    project.tool("pay")
    project.tool("ship")
    first = paid(project, 1, 2)
    project.settle(
        project.start(
            model=project.script(calls(call(7, "ship")), text("x"), name="s"), tools=["ship"]
        )
    )
    second = paid(project, 1, name="other")
    page = page_of(project)
    shown = [(one["run_id"], one["call_id"]) for one in page["data"]]
    assert shown == [(second["id"], "c1"), (first["id"], "c2"), (first["id"], "c1")]
    [ledger] = project.client.tool_calls(second["id"])
    newest = page["data"][0]
    assert newest == {
        **{name: ledger[name] for name in newest.keys() & ledger.keys()},
        "agent": None,
        "duration_ms": newest["duration_ms"],
        "error": None,
    }
    assert newest["attempt"] == 1
    assert newest["duration_ms"] > 0
    times = sorted(one["duration_ms"] for one in page["data"])
    assert page["summary"]["p50_ms"] == times[1]
    assert times[1] <= page["summary"]["p95_ms"] <= times[2]


def test_calls_of_an_inline_tool_with_the_same_name_are_not_there(project: Project) -> None:
    project.tool("pay")
    own = paid(project, 1)
    inline = {"name": "pay", "parameters": {"type": "object"}, "url": "http://127.0.0.1:9/"}
    model = project.script(calls(call(1, "pay")), text("done"), name="inline")
    project.settle(project.start(model=model, tools=[inline]))
    page = page_of(project)
    assert [one["run_id"] for one in page["data"]] == [own["id"]]
    assert (page["summary"]["calls"], page["summary"]["failed"]) == (1, 0)


@pytest.mark.parametrize("order", ["desc", "asc"])
def test_they_are_read_in_pages(project: Project, order: str) -> None:
    project.tool("pay")
    paid(project, 1, 2, 3)
    seen: list[str] = []
    after: str | None = None
    more = True
    while more:
        page = page_of(project, limit=2, after=after, order=order)
        assert page["summary"]["calls"] == 3
        seen += [one["call_id"] for one in page["data"]]
        after, more = page["last_id"], page["has_more"]
    assert seen == (["c1", "c2", "c3"] if order == "asc" else ["c3", "c2", "c1"])
    project.client.refused(
        422, "invalid_request", "GET", "/v1/tools/pay/calls?after=run_" + "f" * 32
    )


def test_a_failed_call_says_why_and_how_often_it_was_sent(project: Project) -> None:
    retry = {"max_attempts": 2, "initial_seconds": 0.01, "max_seconds": 0.01}
    project.tool("pay", Behaviour("raise", status=503), idempotent=True, retry=retry)
    paid(project, 1)
    page = page_of(project)
    [failed] = page["data"]
    assert (failed["outcome"], failed["attempt"]) == ("failed", 2)
    assert failed["error"]["code"] == "tool_error"
    assert "503" in failed["error"]["message"]
    assert (page["summary"]["calls"], page["summary"]["failed"]) == (1, 1)


def test_a_call_that_waits_is_open_and_one_that_was_declined_no_failure(project: Project) -> None:
    project.tool("pay", approval="always")
    run = paid(project, 1)
    [waiting] = page_of(project)["data"]
    assert (waiting["phase"], waiting["outcome"], waiting["error"]) == (
        "awaiting_approval",
        None,
        None,
    )
    assert (waiting["attempt"], waiting["duration_ms"]) == (0, None)
    project.client.decide_call(run["id"], "c1", "reject", message="not today")
    project.settle(run)
    page = page_of(project)
    [declined] = page["data"]
    assert declined["error"] == {"code": "declined", "message": "not today"}
    assert (declined["started_at"], declined["duration_ms"]) == (None, None)
    assert page["summary"] == {"calls": 1, "failed": 0, "timed": 0, "p50_ms": None, "p95_ms": None}


def test_a_call_bears_the_agent_that_asked_for_it(project: Project) -> None:
    project.tool("pay")
    handoff = calls(call("h", "transfer_to_cashier", "{}"))
    cashier = project.script(calls(call(1, "pay")), text("paid"), name="cashier")
    project.client.call(
        "POST", "/v1/agents", {"name": "cashier", "model": cashier, "tools": ["pay"]}
    )
    clerk = {
        "name": "clerk",
        "model": project.script(handoff, name="clerk"),
        "handoffs": ["cashier"],
    }
    project.client.call("POST", "/v1/agents", clerk)
    project.settle(project.client.call("POST", "/v1/runs", {"agent": "clerk", "input": "go"}))
    [found] = page_of(project)["data"]
    assert (found["agent"], found["tool"], found["tool_version"]) == ("cashier", "pay", 1)


def test_a_call_that_a_continued_run_has_taken_over_is_there_once(project: Project) -> None:
    project.tool("pay")
    old = project.run(
        calls(call(1, "pay")),
        calls(call(2, "pay")),
        text("x"),
        tools=["pay"],
        limits={"max_turns": 1},
    )
    assert old["status"] == "incomplete"
    new = project.settle(
        project.client.call("POST", f"/v1/runs/{old['id']}/continue", {"max_turns": 2})
    )
    assert len(project.client.tool_calls(new["id"])) == 2
    shown = [(one["run_id"], one["call_id"]) for one in page_of(project)["data"]]
    assert shown == [(new["id"], "c2"), (old["id"], "c1")]
    assert page_of(project)["summary"]["calls"] == 2


def test_a_try_is_no_call(project: Project) -> None:
    project.tool("pay")
    project.client.call("POST", "/v1/tools/pay/test", {"arguments": {"x": "1"}})
    assert page_of(project)["data"] == []


def test_a_tool_that_is_not_there_has_no_page(project: Project) -> None:
    project.tool("pay")
    paid(project, 1)
    project.client.refused(404, "tool_not_found", "GET", "/v1/tools/nobody/calls")
    project.client.call("DELETE", "/v1/tools/pay")
    project.client.refused(404, "tool_not_found", "GET", "/v1/tools/pay/calls")
