"""Writing down what became of a call: its row, its event, and what a lost worker leaves."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from runward.domain.events.base import MAX_VALUE_BYTES
from runward.domain.events.values import CallReason
from runward.domain.ids import CallId
from runward.domain.run import texts
from runward.domain.run.bounds import truncate
from runward.domain.run.failures import AwaitResolution
from runward.domain.run.open_calls import close_open_calls, recover
from runward.domain.run.settle import AwaitCallback, Disposition, TryAgain, conclude, settle, start
from runward.domain.run.state import CallOutcome, CallPhase, Changes, Result
from tests.unit.domain_cases import call, event, row_of, state, tool, types

STARTED = call("c1", CallPhase.STARTED)


# Writing it down.


@pytest.mark.parametrize("outcome", CallOutcome)
def test_a_settled_call_has_its_row_and_the_event_of_its_outcome(outcome: CallOutcome) -> None:
    given = Result(outcome, "out", CallReason.RESOLVED, detail="why", metadata={"a": 1})
    changes = Changes()
    run = settle(state([STARTED]), changes, STARTED, given)
    one = run.calls[STARTED.id]
    assert (one.phase, one.result, one.attempt) == (CallPhase.SETTLED, given, 1)
    assert changes.updated == {one.id: one}
    assert changes.progress
    assert event(changes, f"tool_call.{outcome}") == {
        "call_id": "c1",
        "tool": "lookup",
        "attempt": 1,
        "output": "out",
        "is_error": outcome is not CallOutcome.COMPLETED,
        "reason": "resolved",
        "detail": "why",
        "metadata": {"a": 1},
    }


def test_a_plain_result_s_event_says_no_more_than_it_must() -> None:
    changes = Changes()
    settle(state([STARTED]), changes, STARTED, Result(CallOutcome.COMPLETED, None))
    told = event(changes, "tool_call.completed")
    assert told.keys() == {"call_id", "tool", "attempt", "output", "is_error"}


@pytest.mark.parametrize(
    "given",
    [
        Result(CallOutcome.COMPLETED, "x" * (MAX_VALUE_BYTES + 1)),
        Result(CallOutcome.COMPLETED, "cut", full="whole"),
    ],
)
def test_an_event_says_that_its_output_is_not_the_whole_one(given: Result) -> None:
    changes = Changes()
    settle(state([STARTED]), changes, STARTED, given)
    told = event(changes, "tool_call.completed")
    assert told["truncated"] is True
    assert isinstance(told["output"], str)
    assert len(told["output"]) < MAX_VALUE_BYTES + 100


def test_a_verdict_is_written_down_and_a_retry_writes_nothing() -> None:
    before = state([STARTED])
    changes = Changes()
    assert conclude(before, changes, STARTED, TryAgain(1)) is before
    assert changes.is_empty
    done = conclude(before, changes, STARTED, Result(CallOutcome.COMPLETED, 1))
    assert done.calls[STARTED.id].phase is CallPhase.SETTLED


@pytest.mark.parametrize(
    ("given", "phase", "told"),
    [
        (AwaitCallback(), CallPhase.AWAITING_CALLBACK, "tool_call.progress"),
        (AwaitResolution("why"), CallPhase.AWAITING_RESOLUTION, "tool_call.outcome_unknown"),
    ],
)
def test_a_call_that_waits_is_told_and_is_progress(
    given: Disposition, phase: CallPhase, told: str
) -> None:
    changes = Changes()
    run = conclude(state([STARTED]), changes, STARTED, given)
    assert run.calls[STARTED.id].phase is phase
    assert types(changes) == [told]
    assert changes.progress
    assert changes.updated.keys() == {STARTED.id}


def test_a_start_counts_the_attempt_and_bears_the_fence() -> None:
    ready = call("c1", attempt=1, fence=1)
    changes = Changes()
    run, one = start(state([ready], fence=4), changes, ready, seconds=2.5)
    assert run.calls[one.id] == one == changes.updated[one.id]
    assert (one.phase, one.attempt, one.fence) == (CallPhase.STARTED, 2, 4)
    assert event(changes, "tool_call.started") == {
        "call_id": "c1",
        "tool": "lookup",
        "attempt": 2,
        "digest": ready.digest,
        "webhook_id": f"call_{ready.uuid.hex}",
        "timeout_seconds": 2.5,
    }


# A worker that was lost, and a run that ends.


@pytest.mark.parametrize(
    ("spec", "phase"),
    [
        ({"idempotent": True}, CallPhase.READY),
        ({}, CallPhase.SETTLED),
        ({"on_unknown": "ask"}, CallPhase.AWAITING_RESOLUTION),
        (None, CallPhase.AWAITING_RESOLUTION),
    ],
)
def test_only_an_idempotent_call_is_repeated_after_its_worker_was_lost(
    spec: dict[str, Any] | None, phase: CallPhase
) -> None:
    changes = Changes()
    mine = call("c2", CallPhase.STARTED, position=1, fence=2)
    before = state([STARTED, mine, call("c3", position=2)], fence=2)
    run = recover(before, changes, lambda _: None if spec is None else tool(**spec))
    assert run.calls[STARTED.id].phase is phase
    assert run.calls[STARTED.id].attempt == 1
    assert changes.updated.keys() == {STARTED.id}
    assert run.calls[mine.id] == mine


def test_an_unknown_outcome_after_a_crash_is_truthful() -> None:
    changes = Changes()
    run = recover(state([STARTED], fence=2), changes, lambda _: tool())
    found = run.calls[STARTED.id].result
    assert found is not None
    assert (found.outcome, found.output) == (CallOutcome.OUTCOME_UNKNOWN, texts.INTERRUPTED)


@pytest.mark.parametrize(
    ("reason", "text"),
    [(CallReason.RUN_CANCELLED, texts.CANCELLED), (CallReason.RUN_ENDED, texts.RUN_ENDED)],
)
@pytest.mark.parametrize("phase", [phase for phase in CallPhase if phase != "settled"])
@pytest.mark.parametrize("attempt", [0, 1])
def test_an_ended_run_leaves_no_call_open_and_says_what_is_known_of_each(
    reason: CallReason, text: str, phase: CallPhase, attempt: int
) -> None:
    changes = Changes()
    done = call("done", CallPhase.SETTLED)
    one = call("c1", phase, attempt=attempt)
    run = close_open_calls(state([done, one]), changes, reason)
    found = run.calls[one.id].result
    assert found is not None
    assert (found.outcome, found.reason) == (CallOutcome.CANCELLED, reason)
    assert found.output == (f"{text} {texts.UNKNOWN_OUTCOME}" if attempt else text)
    assert run.open_calls == ()
    assert types(changes) == ["tool_call.cancelled"]
    asked = phase is CallPhase.AWAITING_APPROVAL
    assert changes.closed_approvals == ({one.approval_id: "cancelled"} if asked else {})


def test_an_approval_that_was_decided_is_not_cancelled() -> None:
    approved = call("c1", approval_id=call("x", CallPhase.AWAITING_APPROVAL).approval_id)
    changes = Changes()
    close_open_calls(state([approved]), changes, CallReason.RUN_ENDED)
    assert changes.closed_approvals == {}


# Cutting.


@given(st.text(max_size=600), st.integers(256, 400))
def test_a_cut_keeps_head_and_tail_within_the_limit(text: str, limit: int) -> None:
    size = len(text.encode())
    shown, full = truncate(text, limit)
    if size <= limit:
        assert (shown, full) == (text, None)
        return
    assert full == text
    assert isinstance(shown, str)
    head, tail = shown.split(f"\n… {size - limit} bytes omitted …\n", 1)
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len((head + tail).encode()) <= limit


def test_json_is_cut_as_its_text() -> None:
    rows: list[JsonValue] = [{"n": n} for n in range(100)]
    shown, full = truncate(rows, 256)
    assert full == rows
    assert isinstance(shown, str)
    assert shown.startswith('[{"n":0},')
    assert shown.endswith('{"n":99}]')


def test_settling_keeps_the_place_of_a_call() -> None:
    run = state(row_of(CallPhase.STARTED, CallPhase.STARTED))
    first = run.calls[CallId("c0")]
    after = settle(run, Changes(), first, Result(CallOutcome.COMPLETED, 1))
    assert list(after.calls) == ["c0", "c1"]
