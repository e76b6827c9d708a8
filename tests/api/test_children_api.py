"""Child runs as the API shows them: what they wait for, whose they are, and their events."""

import json
from typing import Any

import pytest

from tests.api.project import (
    PATIENCE_SECONDS,
    Project,
    call,
    of_type,
    result_of,
    stored,
    types_of,
)
from tests.support.models.chat_server import Answer, Call, calls, text
from tests.support.services.client import Frame, Json
from tests.support.services.client import frames as parsed
from tests.support.serving import Hold
from tests.support.tools.server import Behaviour

CHILDREN = "include=children"


def agent(project: Project, name: str, *answers: Any, **fields: Any) -> None:
    """Registers an agent, and a tool `ask_NAME` that runs it."""
    model = project.script(*answers, name=name)
    project.client.call("POST", "/v1/agents", {"name": name, "model": model, **fields})
    spec = {"name": f"ask_{name}", "type": "agent", "agent": name}
    project.client.call("POST", "/v1/tools", spec)


def asks(name: str, number: int | str = "", said: str = "do it") -> Call:
    return Call(f"c_{name}{number}", f"ask_{name}", f'{{"input":"{said}"}}')


def paying(project: Project, *more: Any, **fields: Any) -> Json:
    """A run whose clerk's cashier waits for a person before he pays."""
    project.tool("pay", approval="always")
    agent(project, "cashier", calls(call("pay", "pay")), text("paid"), tools=["pay"])
    agent(project, "clerk", calls(asks("cashier")), text("booked"), tools=["ask_cashier"])
    return project.run(calls(asks("clerk")), text("done"), *more, tools=["ask_clerk"], **fields)


def children(project: Project, run: Json) -> list[Json]:
    return project.client.call("GET", "/v1/runs", parent_run_id=run["id"], order="asc")["data"]


def path_of(run: Json) -> str:
    return f"/v1/runs/{run['id']}/events"


def page(project: Project, run: Json, **params: Any) -> Json:
    return project.client.call("GET", path_of(run), include="children", **params)


def family(project: Project, run: Json) -> list[Json]:
    found = [run]
    for one in found:
        found += children(project, one)
    return found


def each_in_order(project: Project, run: Json, events: list[Json]) -> None:
    """Of every run of the family all events are there, once and in order."""
    for one in family(project, run):
        own = [event for event in events if event["run_id"] == one["id"]]
        assert own == project.client.events(one["id"])


# -- what they wait for ---------------------------------------------------------------------------


def test_a_run_shows_what_the_runs_below_it_wait_for(project: Project) -> None:
    run = paying(project)
    assert run["status"] == "requires_action"
    [action] = run["required_actions"]
    [clerk] = children(project, run)
    [cashier] = children(project, clerk)
    assert (action["type"], action["call_id"], action["agent"]) == ("approval", "cpay", "cashier")
    assert (action["run_id"], action["path"]) == (cashier["id"], ["clerk", "cashier"])
    [seen_by_clerk] = clerk["required_actions"]
    assert seen_by_clerk == action | {"path": ["cashier"]}
    [own] = cashier["required_actions"]
    assert own == action | {"path": []}


def test_a_nested_approval_is_decided_by_its_id_alone(project: Project) -> None:
    run = paying(project)
    [action] = run["required_actions"]
    decided = project.client.decide(action["approval_id"], "approve")
    assert (decided["run_id"], decided["path"]) == (action["run_id"], ["clerk", "cashier"])
    ended = project.settle(run)
    assert (ended["status"], ended["output"]) == ("completed", "done")
    assert ended["required_actions"] == []
    assert len(project.hits("pay")) == 1


def test_the_inbox_finds_an_approval_by_any_run_above_it(project: Project) -> None:
    run = paying(project)
    [clerk] = children(project, run)
    [cashier] = children(project, clerk)
    for one in (run, clerk, cashier):
        [found] = project.client.approvals(run_id=one["id"])
        assert (found["run_id"], found["path"]) == (cashier["id"], ["clerk", "cashier"])
        assert found["run"] == {
            "id": run["id"],
            "agent": None,
            "created_by": run["created_by"],
            "created_at": run["created_at"],
            "input": "go",
        }
    alone = project.run(model=project.script(text("hi"), name="alone"))
    assert project.client.approvals(run_id=alone["id"]) == []


def test_what_several_children_wait_for_is_one_list_in_the_order_of_asking(
    project: Project,
) -> None:
    project.tool("pay", approval="always")
    project.tool("broken", Behaviour("reset"), on_unknown="ask")
    agent(project, "first", calls(call(1, "pay"), call(2, "broken")), text("1"),
          tools=["pay", "broken"])  # fmt: skip
    agent(project, "second", calls(call(3, "pay")), text("2"), tools=["pay"])
    both = calls(asks("first"), asks("second"), call(4, "pay"))
    run = project.run(both, text("done"), tools=["ask_first", "ask_second", "pay"])
    shown = {(each["type"], each["call_id"], *each["path"]) for each in run["required_actions"]}
    assert shown == {
        ("approval", "c4"),
        ("approval", "c1", "first"),
        ("resolve", "c2", "first"),
        ("approval", "c3", "second"),
    }
    assert run["required_actions"][0]["call_id"] == "c4", "the run's own call was asked for first"
    assert len({each["run_id"] for each in run["required_actions"]}) == 3
    [broken] = [each for each in run["required_actions"] if each["type"] == "resolve"]
    project.client.resolve(broken["run_id"], "c2", resolution="completed", output="ok")
    project.retried_by_hand.add((broken["run_id"], "c2"))
    assert len(project.settle(run)["required_actions"]) == 3


# -- whose they are -------------------------------------------------------------------------------


def test_a_list_of_runs_has_no_child_runs_unless_it_is_theirs(project: Project) -> None:
    run = paying(project)
    listed = project.client.call("GET", "/v1/runs")["data"]
    assert [one["id"] for one in listed] == [run["id"]]
    assert listed[0]["required_actions"] == run["required_actions"]
    [clerk] = children(project, run)
    assert (clerk["parent_run_id"], clerk["agent"]) == (run["id"], "clerk")
    assert run["parent_run_id"] is None
    unknown = project.client.call("GET", "/v1/runs", parent_run_id="run_1")
    assert unknown["data"] == []


def test_a_call_names_the_run_that_was_started_for_it(project: Project) -> None:
    run = paying(project)
    [asked] = project.client.tool_calls(run["id"])
    [clerk] = children(project, run)
    assert (asked["phase"], asked["child_run_id"]) == ("awaiting_child", clerk["id"])
    project.client.decide(run["required_actions"][0]["approval_id"], "reject")
    project.settle(run)
    [asked] = project.client.tool_calls(run["id"])
    assert (asked["phase"], asked["output"]) == ("settled", "booked")
    assert asked["child_run_id"] == clerk["id"]


def test_a_run_shows_what_its_child_runs_used_too(project: Project) -> None:
    agent(project, "clerk", text("booked"))
    run = project.run(calls(asks("clerk")), text("done"), tools=["ask_clerk"])
    [clerk] = children(project, run)
    assert clerk["usage"]["total_tokens"] > 0
    assert run["usage"]["total_tokens"] == 3 * clerk["usage"]["total_tokens"]


def test_a_child_run_takes_no_message_and_is_not_continued(project: Project) -> None:
    agent(project, "clerk", calls(call(1, "nothing")), limits={"max_turns": 1})
    run = project.run(calls(asks("clerk")), text("done"), tools=["ask_clerk"])
    [clerk] = children(project, run)
    assert clerk["status"] == "incomplete"
    path = f"/v1/runs/{clerk['id']}/continue"
    problem = project.client.refused(409, "conflict", "POST", path, {})
    assert "child run" in problem["detail"]


# -- their events ---------------------------------------------------------------------------------


def test_events_of_a_whole_family_are_one_log(project: Project) -> None:
    run = paying(project)
    project.client.decide(run["required_actions"][0]["approval_id"], "approve")
    project.settle(run)
    found = page(project, run, limit=1000)
    assert not found["has_more"]
    assert (types_of(found["data"])[0], found["data"][0]["run_id"]) == ("run.created", run["id"])
    assert (types_of(found["data"])[-1], found["data"][-1]["run_id"]) == (
        "run.completed",
        run["id"],
    )
    assert len({event["run_id"] for event in found["data"]}) == 3
    each_in_order(project, run, found["data"])
    times = [event["created_at"] for event in found["data"]]
    assert times == sorted(times)
    assert len({event["id"] for event in found["data"]}) == len(found["data"])


@pytest.mark.parametrize("limit", [1, 3, 7])
def test_a_familys_events_are_read_in_pages_without_a_gap(project: Project, limit: int) -> None:
    run = paying(project)
    whole = page(project, run, limit=1000)["data"]
    seen: list[Json] = []
    after: str | None = None
    while True:
        found = page(project, run, limit=limit, after=after)
        seen += found["data"]
        if not found["has_more"]:
            break
        after = found["last_id"]
    assert seen == whole
    rest = page(project, run, after=found["last_id"] or after)
    assert (rest["data"], rest["first_id"], rest["last_id"]) == ([], None, None)


def test_a_page_waits_for_events_of_a_child_run_too(project: Project) -> None:
    hold = Hold()
    agent(project, "clerk", Answer(text="booked", hold=hold))
    run = project.start(calls(asks("clerk")), text("done"), tools=["ask_clerk"])
    hold.arrived()
    seen = page(project, run)
    waited = page(project, run, after=seen["last_id"], wait=0.2)
    assert waited["data"] == []
    hold.release()
    found = page(project, run, after=seen["last_id"], wait=PATIENCE_SECONDS)
    assert found["data"][0]["type"] in {"message.completed", "usage.updated"}
    assert found["data"][0]["run_id"] != run["id"]
    project.settle(run)


def streamed(project: Project, run: Json, after: str | None = None) -> list[tuple[str, Json]]:
    """Ids and events of the family's stream, to its end."""
    headers = {"Accept": "text/event-stream"} | ({"Last_Event_ID": after} if after else {})
    found: list[tuple[str, Json]] = []
    with project.client.streaming("GET", f"{path_of(run)}?{CHILDREN}", **headers) as response:
        assert response.status_code == 200
        id_ = ""
        for line in response.iter_lines():
            if line.startswith("id: "):
                id_ = line.removeprefix("id: ")
            elif line.startswith("data: ") and id_:
                [frame] = parsed(["event: x", line, ""])
                found.append((id_, frame.data))
                id_ = ""
    return found


def test_a_familys_stream_goes_on_wherever_it_was_left(project: Project) -> None:
    run = paying(project)
    project.client.decide(run["required_actions"][0]["approval_id"], "approve")
    project.settle(run)
    whole = streamed(project, run)
    assert [event for _, event in whole] == page(project, run, limit=1000)["data"]
    for at in (0, len(whole) // 2, len(whole) - 2):
        rest = streamed(project, run, whole[at][0])
        assert [event for _, event in rest] == [event for _, event in whole[at + 1 :]]
    over = project.client.request(
        "GET",
        f"{path_of(run)}?{CHILDREN}",
        headers={"Accept": "text/event-stream", "Last-Event-ID": whole[-1][0]},
    )
    assert over.status_code == 204


def test_a_familys_stream_shows_it_as_it_happens_and_ends_with_the_run(project: Project) -> None:
    project.tool("look")
    started, holds = Hold(), {"look": Hold(), "ask_clerk": Hold()}
    booked = Answer(text="booked", hold=holds["look"])
    agent(project, "clerk", calls(call(1, "look")), booked, tools=["look"])
    done = Answer(text="done", hold=holds["ask_clerk"])
    script = (Answer(calls=(asks("clerk"),), hold=started), done)
    run = project.start(*script, tools=["ask_clerk"])
    started.arrived()
    frames: list[Frame] = []
    headers = {"Accept": "text/event-stream"}
    with project.client.streaming("GET", f"{path_of(run)}?{CHILDREN}", **headers) as response:
        started.release()
        for frame in parsed(line for line in response.iter_lines() if not line.startswith("id: ")):
            frames.append(frame)
            if frame.type == "tool_call.completed":  # the answer to it waits for the reader
                holds[frame.data["data"]["tool"]].release()
    events = [frame.data for frame in frames if "sequence" in frame.data]
    said = {frame.data["run_id"] for frame in frames if frame.type == "message.delta"}
    assert (events[-1]["type"], events[-1]["run_id"]) == ("run.completed", run["id"])
    each_in_order(project, run, events)
    assert said == {one["id"] for one in family(project, run)}, "what each model says is passed on"


def test_a_familys_stream_ends_after_those_that_were_cancelled_with_it(project: Project) -> None:
    run = paying(project)
    project.client.cancel(run["id"])
    found = [event for _, event in streamed(project, run)]
    assert (found[-1]["type"], found[-1]["run_id"]) == ("run.cancelled", run["id"])
    assert len(of_type(found, "run.cancelled")) == 3
    each_in_order(project, run, found)


def test_a_familys_stream_can_end_where_someone_must_act(project: Project) -> None:
    run = paying(project)
    path = f"{path_of(run)}?{CHILDREN}&until=idle"
    with project.client.streaming("GET", path, Accept="text/event-stream") as response:
        lines = [line for line in response.iter_lines() if not line.startswith("id: ")]
    events = [frame.data for frame in parsed(lines)]
    each_in_order(project, run, events)
    assert types_of(events).count("run.waiting") == 3


def test_without_children_the_log_is_the_runs_own(project: Project) -> None:
    run = paying(project)
    own = project.client.events(run["id"])
    assert {event["run_id"] for event in own} == {run["id"]}
    [first, *_] = stored(list(project.client.stream(run["id"], until="idle")))
    assert first == own[0]


@pytest.mark.parametrize("cursor", ["last", "-1", "AAAA", "", "A" * 40_000, "_" * 16])
def test_a_cursor_that_nobody_gave_is_refused(project: Project, cursor: str) -> None:
    run = project.run(text("hi"))
    path = f"{path_of(run)}?{CHILDREN}&after={cursor}"
    problem = project.client.refused(422, "invalid_request", "GET", path)
    assert problem["errors"][0]["path"] == "query.after"


def test_a_family_of_another_project_is_unknown(project: Project, other: Project) -> None:
    run = paying(project)
    path = f"{path_of(run)}?{CHILDREN}"
    other.client.refused(404, "run_not_found", "GET", path)
    token = page(project, run)["last_id"]
    mine = other.run(text("hi"))
    found = page(other, mine, after=token)["data"]
    assert {event["run_id"] for event in found} == {mine["id"]}


# -- agents as tools ------------------------------------------------------------------------------


def agent_tool(project: Project, name: str, **fields: Any) -> None:
    """Changes the tool that runs the agent `name`."""
    project.client.call("PATCH", f"/v1/tools/ask_{name}", fields)


def answered(project: Project, run: Json) -> str:
    """What the model of the run was told by its clerk."""
    assert run["status"] == "completed"
    return result_of(project.asked(), "c_clerk")


def test_a_childs_answer_may_be_read_as_json(project: Project) -> None:
    agent(project, "clerk", text('{"sum": 2}'), text("two"))
    agent_tool(project, "clerk", output="json")
    again = Call("c_again", "ask_clerk", '{"input":"again"}')
    run = project.run(calls(asks("clerk")), calls(again), text("done"), tools=["ask_clerk"])
    assert json.loads(answered(project, run)) == {"sum": 2}
    [first, second] = project.client.tool_calls(run["id"])
    assert (first["output"], second["is_error"]) == ({"sum": 2}, True)
    assert "not valid JSON" in second["detail"]


def test_the_last_good_output_of_a_childs_tool_may_be_its_answer(project: Project) -> None:
    project.tool("look", Behaviour("return", value={"n": 1}), Behaviour("return", value={"n": 2}))
    agent(project, "clerk", calls(call(1, "look")), calls(call(2, "look", '{"x":"2"}')),
          text("I looked twice."), tools=["look"])  # fmt: skip
    agent_tool(project, "clerk", output={"tool": "look"})
    run = project.run(calls(asks("clerk")), text("done"), tools=["ask_clerk"])
    assert json.loads(answered(project, run)) == {"n": 2}


def test_a_child_that_never_used_the_tool_has_no_answer(project: Project) -> None:
    agent(project, "clerk", text("I did nothing."))
    agent_tool(project, "clerk", output={"tool": "look"})
    run = project.run(calls(asks("clerk")), text("done"), tools=["ask_clerk"])
    [asked] = project.client.tool_calls(run["id"])
    assert (asked["is_error"], asked["reason"]) == (True, "invalid_response")
    assert (run["status"], run["output"]) == ("completed", "done")


def test_a_childs_validated_output_is_its_answer(project: Project) -> None:
    schema = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
    agent(project, "clerk", text('{ "sum":  2 }'), output_schema=schema)
    run = project.run(calls(asks("clerk")), text("done"), tools=["ask_clerk"])
    [asked] = project.client.tool_calls(run["id"])
    assert asked["output"] == {"sum": 2}


def test_a_person_may_be_asked_before_a_child_run_starts(project: Project) -> None:
    agent(project, "clerk", text("booked"))
    agent_tool(project, "clerk", approval="always")
    run = project.run(calls(asks("clerk")), text("done"), tools=["ask_clerk"])
    [action] = run["required_actions"]
    assert (action["call_id"], action["path"], children(project, run)) == ("c_clerk", [], [])
    project.client.decide(action["approval_id"], "approve")
    assert answered(project, project.settle(run)) == "booked"
    assert len(children(project, run)) == 1


def test_guardrails_of_a_tool_see_what_a_child_is_asked_and_answers(project: Project) -> None:
    agent(project, "clerk", text("booked"))
    urls = [
        project.tools.tool(project.tool_key(name), Behaviour("return", value=value))
        for name, value in (
            ("before", {"action": "allow"}),
            ("after", {"action": "reject", "message": "Not for you."}),
        )
    ]
    stages = ("input", "output")
    rails = [
        {"stage": stage, "type": "webhook", "url": url}
        for stage, url in zip(stages, urls, strict=True)
    ]
    agent_tool(project, "clerk", guardrails=rails)
    run = project.run(calls(asks("clerk")), text("done"), tools=["ask_clerk"])
    assert answered(project, run) == "Not for you."
    keys = {project.tool_key("before"), project.tool_key("after")}
    asked = [hit.body for hit in project.tools.all_hits() if hit.key in keys]
    [clerk] = children(project, run)
    assert [(one["stage"], one.get("child_run_id")) for one in asked] == [
        ("input", None),
        ("output", clerk["id"]),
    ]


def test_a_child_has_the_time_that_its_tool_gives_it(project: Project) -> None:
    hold = Hold()
    agent(project, "clerk", Answer(text="late", hold=hold))
    agent_tool(project, "clerk", timeout_seconds=1)
    run = project.run(calls(asks("clerk")), text("done"), tools=["ask_clerk"])
    hold.release()
    [clerk] = children(project, run)
    assert (clerk["status"], clerk["incomplete_details"]["reason"]) == ("incomplete", "deadline")
    [asked] = project.client.tool_calls(run["id"])
    assert asked["is_error"]
    assert run["output"] == "done"


def test_a_child_of_an_agent_that_is_gone_is_an_error(project: Project) -> None:
    agent(project, "clerk", text("booked"))
    project.client.call("DELETE", "/v1/agents/clerk")
    run = project.run(calls(asks("clerk")), text("done"), tools=["ask_clerk"])
    [asked] = project.client.tool_calls(run["id"])
    assert (asked["is_error"], asked["child_run_id"], run["output"]) == (True, None, "done")
