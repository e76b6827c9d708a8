"""Child runs: how one starts, what it hands back, and the state that runs share."""

from dataclasses import replace
from typing import Any

import pytest

from runward.domain.events.values import CallReason
from runward.domain.ids import CallId, RunId
from runward.domain.json import JsonObject
from runward.domain.run import texts
from runward.domain.run.child_runs import (
    find_ended,
    read_agent_results,
    record_result,
    start_children,
)
from runward.domain.run.decide import Finish, Park, RunTools, Wait, next_action
from runward.domain.run.family import Child, ChildRun
from runward.domain.run.items import Message
from runward.domain.run.open_calls import close_open_calls, recover
from runward.domain.run.outcomes import AgentRequest, Done, Failed, FailureKind, Outcome, Waits
from runward.domain.run.response import Usage
from runward.domain.run.sessions import MAX_STATE_BYTES, fits_limit
from runward.domain.run.settle import StartChild, classify_outcome, conclude
from runward.domain.run.state import Call, CallOutcome, CallPhase, Changes, Result
from runward.domain.run.status import TERMINAL, RunStatus
from runward.domain.run.team import (
    add_child_usage,
    build_child_input,
    build_step_tools,
    check_state_size,
    is_success,
    merge_state,
    read_child_outcome,
)
from runward.domain.run.tools import CompiledTool
from tests.unit.domain_cases import (
    Mint,
    call,
    child,
    event,
    member,
    output_of,
    phase_of,
    settled,
    state,
    tool,
)

AT_CHILD = CallPhase.AWAITING_CHILD
SALES = member(model="offline:other")
ASK = tool("ask_sales", type="agent", agent="sales", url=None)
HELPER = RunId(Mint()())


def opened(call_id: str = "c1") -> ChildRun:
    return ChildRun(
        HELPER, CallId(call_id), "sales", SALES, {}, build_child_input({"input": "x"}), None, 60.0
    )


def test_a_call_of_an_agent_waits_for_the_child_run_that_is_started_with_it() -> None:
    started = call("c1", CallPhase.STARTED, tool="ask_sales")
    verdict = classify_outcome(ASK, started, Waits(on="child"), seconds_left=9, jitter=0)
    assert verdict == StartChild()
    before, changes = state([started]), Changes()
    assert conclude(before, changes, started, verdict) is before
    assert changes.is_empty
    run = start_children(before, changes, started, [opened()])
    assert (phase_of(run), run.calls[started.id].child_run_id) == (AT_CHILD, HELPER)
    assert changes.children == [opened()]
    assert changes.updated == {started.id: run.calls[started.id]}
    assert changes.progress
    assert event(changes, "tool_call.progress") == {
        "call_id": "c1",
        "status": "child_started",
        "run_id": f"run_{HELPER.hex}",
        "agent": "sales",
    }
    assert next_action(run) == Park((started.id,))


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        ({"input": "Where is it?"}, "Where is it?"),
        ({"input": "Where?", "order": 7}, '{"input":"Where?","order":7}'),
        ({"input": 7}, '{"input":7}'),
        ({}, "{}"),
    ],
)
def test_a_child_is_asked_the_text_or_all_arguments_as_json(
    arguments: JsonObject, asked: str
) -> None:
    assert build_child_input(arguments) == (Message("user", asked),)


def asks(output: Any = "final", **fields: Any) -> CompiledTool:
    return tool("ask_sales", type="agent", agent="sales", url=None, output=output, **fields)


@pytest.mark.parametrize(
    ("output", "ended", "extracted", "expected"),
    [
        ("final", child(output="Tomorrow."), None, "Tomorrow."),
        ("final", child(output='{"a": 1}', parsed={"a": 1}), None, {"a": 1}),
        ("final", child(output=""), None, ""),
        ("json", child(output='{"a": [1]}'), None, {"a": [1]}),
        ("json", child(output={"a": 1}), None, {"a": 1}),
        ({"tool": "find"}, child(output="Found it."), {"id": 7}, {"id": 7}),
    ],
)
def test_a_child_that_completed_hands_back_what_the_tool_says(
    output: Any, ended: Child, extracted: Any, expected: Any
) -> None:
    assert read_child_outcome(asks(output), ended, extracted) == Done(expected)


@pytest.mark.parametrize(
    ("output", "detail"),
    [
        ("json", "The output of the agent is not valid JSON"),
        ({"tool": "find"}, "The agent's run has no output of the tool 'find'."),
    ],
)
def test_a_child_without_what_the_tool_wants_is_an_error(output: Any, detail: str) -> None:
    found = read_child_outcome(asks(output), child(output="Tomorrow."))
    assert isinstance(found, Failed)
    assert found.reason is FailureKind.INVALID_RESPONSE
    assert found.detail.startswith(detail)


@pytest.mark.parametrize("status", sorted(TERMINAL - {RunStatus.COMPLETED}))
@pytest.mark.parametrize(
    ("error", "end"), [(None, "."), ({"code": "x"}, "."), ({"message": "No money."}, ": No money.")]
)
def test_a_child_that_did_not_complete_is_an_error_that_says_how_it_ended(
    status: RunStatus, error: JsonObject | None, end: str
) -> None:
    ended = child(status, output="half", error=error)
    assert ended.has_ended
    found = read_child_outcome(asks(), ended)
    text = f"The run of agent 'sales' ended with status {status}{end}"
    assert found == Failed(FailureKind.ERROR, text, message=text)
    result = classify_outcome(
        asks(), call("c1", AT_CHILD, attempt=1), found, seconds_left=0, jitter=0
    )
    assert result == Result(CallOutcome.FAILED, text, CallReason.TOOL_ERROR, detail=text)


def test_a_child_that_is_at_work_or_waits_has_not_ended() -> None:
    assert not any(child(status).has_ended for status in set(RunStatus) - TERMINAL)


def test_only_a_step_s_escalation_reaches_the_run_above_it() -> None:
    [step] = build_step_tools(state(config={"kind": "loop", "agents": ["sales"]}).config).values()
    up = child(output="x", escalated=True)
    assert read_child_outcome(step, up) == Done("x", escalate=True)
    assert read_child_outcome(asks(), up) == Done("x")


def test_what_a_child_used_counts_for_the_run_above_it() -> None:
    one = call("c1", AT_CHILD, turn=2)
    before = state([one], usage=Usage(10, 5, 1, 1, cost=0.5))
    changes = Changes()
    run = add_child_usage(before, changes, one, child(usage=Usage(100, 50, 10, 5, cost=0.25)))
    assert run.usage == Usage(110, 55, 11, 6, cost=0.75)
    assert event(changes, "usage.updated") == {
        "turn": 2,
        "call_id": "c1",
        "input_tokens": 110,
        "output_tokens": 55,
        "cached_tokens": 11,
        "reasoning_tokens": 6,
        "total_tokens": 165,
        "cost_usd": 0.75,
    }


def test_a_run_waits_for_its_child_runs_when_it_is_cancelled_after_the_turn() -> None:
    calls: list[Call] = [
        call("c0", AT_CHILD),
        call("c1", CallPhase.AWAITING_APPROVAL, position=1),
        call("c2", position=2),
    ]
    run = state(calls, cancel_after_turn=True)
    assert next_action(run) == Park((CallId("c0"),))
    assert next_action(run, busy=True) == Wait(stopping=True)
    assert next_action(settled(run, "c0")) == Finish(RunStatus.CANCELLED)


def test_a_deadline_does_not_wait_for_child_runs() -> None:
    run = state([call("c0", AT_CHILD)], cancel_after_turn=True)
    action = next_action(run, overdue=True)
    assert isinstance(action, Finish)
    assert (action.status, action.code) == (RunStatus.INCOMPLETE, "deadline")
    after_it = close_open_calls(run, Changes(), CallReason.RUN_ENDED)
    assert output_of(after_it, "c0").startswith(texts.RUN_ENDED)


def test_what_came_back_is_looked_at_before_the_run_goes_on() -> None:
    run = state([call("c0", AT_CHILD), call("c1", position=1)])
    assert next_action(run, busy=True) == RunTools((CallId("c1"),))
    assert next_action(settled(run, "c1"), busy=True) == Wait()
    assert next_action(settled(run, "c1")) == Park((CallId("c0"),))


@pytest.mark.parametrize("kind", ["agent", "builtin"])
def test_a_call_that_had_not_started_its_child_when_its_worker_was_lost_is_made_again(
    kind: str,
) -> None:
    lost = call("c1", CallPhase.STARTED)
    run = recover(state([lost], fence=2), Changes(), lambda _: tool(type=kind, agent="sales"))
    assert phase_of(run) is CallPhase.READY


# The shared state.


def test_a_change_of_the_shared_state_is_merged_at_the_top_and_null_removes() -> None:
    changes = Changes()
    one = call("c1", CallPhase.STARTED)
    before = state([one], shared_state={"a": 1, "b": {"x": 1}, "kept": None})
    run = merge_state(before, changes, one, {"a": None, "b": {"y": 2}, "c": 3})
    assert run.shared_state == {"b": {"y": 2}, "c": 3, "kept": None}
    assert event(changes, "state.updated") == {
        "call_id": "c1",
        "changes": {"a": None, "b": {"y": 2}, "c": 3},
    }
    merge_state(run, changes, one, {"c": None, "d": 4})
    assert changes.shared_state == {"a": None, "b": {"y": 2}, "c": None, "d": 4}


def test_an_event_does_not_repeat_a_large_change() -> None:
    changes = Changes()
    one = call("c1", CallPhase.STARTED)
    merge_state(state([one]), changes, one, {"a": "x" * 40_000})
    assert event(changes, "state.updated")["changes"] is None


def test_only_a_good_result_changes_what_is_shared() -> None:
    assert is_success(Result(CallOutcome.COMPLETED, "x"))
    assert not is_success(Result(CallOutcome.FAILED, "x"))
    assert not is_success(StartChild())


def test_the_shared_state_has_a_limit_in_bytes() -> None:
    full = "é" * ((MAX_STATE_BYTES - len('{"a":""}')) // 2)
    run = state(shared_state={"b": 1})
    assert check_state_size(run, {"a": full, "b": None}) is None
    refused = check_state_size(run, {"a": full + "é", "b": None})
    told = texts.too_much_state(MAX_STATE_BYTES + 2, MAX_STATE_BYTES)
    assert refused is not None
    assert (refused.message, refused.permanent) == (told, True)
    assert check_state_size(run, {"a": full}) is not None
    assert check_state_size(state(shared_state={"a": full}), {"b": None, "c": None}) is None
    assert fits_limit({"a": full})
    assert not fits_limit({"a": full + "é"})


def test_a_function_is_ready_again_when_all_agents_that_it_requested_have_ended() -> None:
    requests = [AgentRequest("sales", text) for text in ("one", "two")]
    waits = Waits(on="child", agents=tuple(requests))
    started = call("c1", CallPhase.STARTED, attempt=1)
    verdict = classify_outcome(tool(), started, waits, seconds_left=9, jitter=0)
    assert verdict == StartChild(tuple(requests))
    mint = Mint()
    children = [replace(opened(), id=RunId(mint())) for _ in requests]
    changes = Changes()
    run = start_children(state([started]), changes, started, children, requests)
    assert (changes.children, len(changes.events)) == (children, 2)
    assert run.calls[started.id].child_run_id == children[0].id
    ended = [replace(child(output=f"{one.id}"), run_id=one.id) for one in children]
    run = replace(run, children={ended[1].run_id: ended[1]})
    assert find_ended(run, run.calls[started.id]) == (ended[1],)
    run = record_result(run, changes, run.calls[started.id], ended[1])
    waiting = run.calls[started.id]
    assert (waiting.phase, find_ended(run, waiting)) == (AT_CHILD, ())
    run = replace(run, children={one.run_id: one for one in ended})
    assert find_ended(run, waiting) == (ended[0],)
    run = record_result(run, changes, waiting, ended[0])
    ready = run.calls[started.id]
    assert (ready.phase, next_action(run)) == (CallPhase.READY, RunTools((started.id,)))
    assert [one["digest"] for one in read_agent_results(ready)] == [
        requests[1].digest,
        requests[0].digest,
    ]


def test_a_step_that_may_be_refused_leaves_the_changes_before_it_alone() -> None:
    changes = Changes()
    one = call("c1", CallPhase.STARTED)
    merge_state(state([one]), changes, one, {"a": 1})
    changes.progress = True
    copied = changes.copy()
    assert copied == changes
    start_children(state([one]), copied, one, [opened()])
    merge_state(state([one]), copied, one, {"b": 2})
    copied.approvals.clear()
    assert (changes.children, changes.shared_state, len(changes.events)) == ([], {"a": 1}, 1)


def outcomes() -> list[Outcome]:
    return [Done("ok", state={"a": 1}), Done("ok", transfer_to="sales", escalate=True)]


@pytest.mark.parametrize("outcome", outcomes())
def test_a_result_keeps_what_the_tool_asked_for(outcome: Done) -> None:
    found = classify_outcome(
        tool(), call("c1", CallPhase.STARTED), outcome, seconds_left=9, jitter=0
    )
    assert isinstance(found, Result)
    assert (found.transfer_to, found.escalate) == (outcome.transfer_to, outcome.escalate)


def test_an_output_that_does_not_match_its_schema_neither_hands_over_nor_ends_anything() -> None:
    picky = tool(output_schema={"type": "object"})
    done = Done("text", transfer_to="sales", escalate=True)
    found = classify_outcome(picky, call("c1", CallPhase.STARTED), done, seconds_left=9, jitter=0)
    assert isinstance(found, Result)
    assert (found.is_error, found.transfer_to, found.escalate) == (True, None, False)
