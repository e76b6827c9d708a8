"""Tools that the client runs, tools that ask their caller, and calls that nobody waits for."""

from dataclasses import replace
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from runward.domain.events.values import CallReason
from runward.domain.run import texts
from runward.domain.run.abandoned import AbandonedCall, Closed, find_abandoned, merge_closed
from runward.domain.run.open_calls import close_open_calls, recover
from runward.domain.run.outcomes import Failed, FailureKind, InputRequest, Waits
from runward.domain.run.resolve import (
    MAX_INPUT_BYTES,
    Answer,
    Callback,
    CallbackCompleted,
    CallbackFailed,
    CallbackInputRequired,
    apply_callback,
    apply_client_input,
    apply_client_result,
    compare_with_earlier_answer,
    is_repeated_request,
)
from runward.domain.run.settle import (
    AwaitResult,
    TryAgain,
    classify_outcome,
    conclude,
    count_input_requests,
    settle,
    start,
)
from runward.domain.run.state import Call, CallOutcome, CallPhase, Changes, Result
from tests.unit.domain_cases import call, event, phase_of, reason_of, state, tool, types

CALLBACK: TypeAdapter[Callback] = TypeAdapter(Callback)
CLIENT = tool("measure", type="client", url=None)
STARTED = call("c1", CallPhase.STARTED, attempt=1, fence=1)
WAITING = call("c1", CallPhase.AWAITING_RESULT, attempt=1, fence=1)
CALLED = call("c1", CallPhase.AWAITING_CALLBACK)
ASKS = CallbackInputRequired(status="input_required", requests={"code": "?"}, state=7)


def done(output: Any) -> CallbackCompleted:
    return CallbackCompleted(status="completed", output=output)


def no(message: str = "no") -> CallbackFailed:
    return CallbackFailed(status="failed", message=message)


def asking(before: Call = CALLED, said: CallbackInputRequired = ASKS) -> Call:
    run = apply_callback(state([before]), Changes(), before, tool(), said)
    return run.calls[before.id]


def answered(output: Any = "42") -> Call:
    one = asking()
    return apply_client_input(state([one]), Changes(), one, done(output)).calls[one.id]


# -- the client's tools ---------------------------------------------------------------------------


def test_a_call_of_a_client_s_tool_waits_for_its_result() -> None:
    verdict = classify_outcome(CLIENT, STARTED, Waits(on="client"), seconds_left=9, jitter=0)
    assert verdict == AwaitResult()
    changes = Changes()
    run = conclude(state([STARTED]), changes, STARTED, verdict)
    assert phase_of(run) is CallPhase.AWAITING_RESULT
    assert event(changes, "tool_call.progress") == {"call_id": "c1", "status": "awaiting_result"}
    assert changes.progress


def test_a_call_without_a_time_limit_says_so() -> None:
    changes = Changes()
    _, one = start(state([call()]), changes, call(), seconds=None)
    assert (one.timeout_seconds, event(changes, "tool_call.started")["timeout_seconds"]) == (
        None,
        None,
    )


def test_a_client_s_call_that_had_started_when_its_worker_was_lost_is_ready_again() -> None:
    run = recover(state([STARTED], fence=2), Changes(), lambda _: CLIENT)
    assert phase_of(run) is CallPhase.READY


def test_a_client_s_call_that_waits_outlives_its_worker() -> None:
    run = state([WAITING], fence=2)
    assert recover(run, Changes(), lambda _: CLIENT) is run


@pytest.mark.parametrize(
    ("said", "outcome", "reason"),
    [
        (done(None), CallOutcome.COMPLETED, None),
        (done({"a": 1}), CallOutcome.COMPLETED, None),
        (no(), CallOutcome.FAILED, CallReason.TOOL_ERROR),
    ],
)
def test_the_result_of_a_client_is_kept_as_it_was_said(
    said: Answer, outcome: CallOutcome, reason: CallReason | None
) -> None:
    changes = Changes()
    run = apply_client_result(state([WAITING]), changes, WAITING, CLIENT, said)
    one = run.calls[WAITING.id]
    assert one.result is not None
    assert (one.result.outcome, one.result.reason) == (outcome, reason)
    assert compare_with_earlier_answer(one, said) is True
    assert compare_with_earlier_answer(one, done("else")) is False
    assert types(changes) == [f"tool_call.{outcome}"]


def test_a_client_that_has_said_nothing_is_not_repeating_itself() -> None:
    assert compare_with_earlier_answer(WAITING, done(1)) is None
    assert compare_with_earlier_answer(asking(), done(1)) is None


# -- tools that ask -------------------------------------------------------------------------------


def test_a_tool_may_ask_the_caller() -> None:
    changes = Changes()
    run = apply_callback(state([CALLED]), changes, CALLED, tool(), ASKS)
    one = run.calls[CALLED.id]
    assert (one.phase, count_input_requests(one), count_input_requests(CALLED)) == (
        CallPhase.AWAITING_INPUT,
        1,
        0,
    )
    assert one.exchange == InputRequest(1, 1, {"code": "?"}, 7)
    assert event(changes, "tool_call.progress") == {
        "call_id": "c1",
        "status": "input_required",
        "requests": {"code": "?"},
    }
    assert changes.progress


def test_the_same_question_again_is_recognised_while_it_is_open() -> None:
    assert is_repeated_request(asking(), ASKS, 9)
    assert not is_repeated_request(asking(), ASKS.model_copy(update={"state": 8}), 9)
    assert not is_repeated_request(asking(), done(1), 9)
    assert not is_repeated_request(CALLED, ASKS, 1)


def test_after_its_answer_the_same_question_is_known_from_the_attempt_that_asked() -> None:
    exchange = answered().exchange
    assert exchange is not None
    assert is_repeated_request(answered(), ASKS, exchange.attempt)
    assert not is_repeated_request(answered(), ASKS, exchange.attempt + 1)


def test_the_answer_makes_the_call_ready_with_its_input() -> None:
    changes, one = Changes(), asking()
    run = apply_client_input(state([one]), changes, one, done({"code": "42"}))
    ready = run.calls[one.id]
    assert ready.phase is CallPhase.READY
    assert ready.exchange is not None
    assert ready.exchange.input == {"responses": {"code": "42"}, "state": 7}
    assert event(changes, "tool_call.progress") == {"call_id": "c1", "status": "input_given"}
    assert compare_with_earlier_answer(ready, done({"code": "42"})) is True
    assert compare_with_earlier_answer(ready, done({"code": "43"})) is False
    assert compare_with_earlier_answer(ready, no()) is False


def test_an_answer_of_null_is_an_answer() -> None:
    assert compare_with_earlier_answer(answered(None), done(None)) is True
    assert compare_with_earlier_answer(answered(None), done(0)) is False


def test_a_caller_that_will_not_answer_fails_the_call() -> None:
    one = asking()
    run = apply_client_result(state([one]), Changes(), one, tool(), no("I do not know."))
    assert reason_of(run) is CallReason.TOOL_ERROR
    assert compare_with_earlier_answer(run.calls[one.id], no("I do not know.")) is True


def test_rounds_are_counted_and_each_has_its_own_attempts() -> None:
    """A retry's delay and number are those of the attempts since the tool last said anything."""
    again = asking(replace(answered(), phase=CallPhase.AWAITING_CALLBACK, attempt=4))
    assert (count_input_requests(again), again.recent_attempts) == (2, 0)
    once_more = replace(again, phase=CallPhase.STARTED, attempt=5)
    refused = Failed(FailureKind.NOT_SENT, "refused")
    retry = tool(retry={"max_attempts": 3, "initial_seconds": 1})
    assert classify_outcome(retry, once_more, refused, seconds_left=9, jitter=1) == TryAgain(1.0)


def test_a_tool_that_asked_and_cannot_be_reached_again_is_not_said_not_to_have_run() -> None:
    again = replace(answered(), phase=CallPhase.STARTED, attempt=2)
    refused = Failed(FailureKind.NOT_SENT, "refused", permanent=True)
    result = classify_outcome(tool(), again, refused, seconds_left=9, jitter=1)
    assert isinstance(result, Result)
    assert result.output == texts.NOT_REACHED


def test_what_is_asked_and_given_back_has_a_limit() -> None:
    fits = "x" * (MAX_INPUT_BYTES - 2)
    body = {"status": "input_required", "requests": fits, "state": fits}
    assert isinstance(CALLBACK.validate_python(body), CallbackInputRequired)
    for name in ("requests", "state"):
        with pytest.raises(ValidationError, match="at most 65536 bytes"):
            CALLBACK.validate_python(body | {name: fits + "x"})


# -- calls that nobody waits for ------------------------------------------------------------------


def test_what_was_sent_and_is_closed_without_an_answer_is_abandoned() -> None:
    calls = [
        STARTED,
        call("c2", CallPhase.AWAITING_CALLBACK, position=1),
        call("c3", CallPhase.READY, position=2),
        call("c4", CallPhase.SETTLED, position=3, attempt=1),
    ]
    run, changes = state(calls), Changes()
    close_open_calls(run, changes, CallReason.RUN_CANCELLED)
    found = find_abandoned(run, changes)
    assert [(one.call.id, one.reason) for one in found] == [
        ("c1", "run_cancelled"),
        ("c2", "run_cancelled"),
    ]
    assert {(one.project_id, one.run_id, one.agent) for one in found} == {
        (run.project_id, run.id, run.agent)
    }


@pytest.mark.parametrize("outcome", list(CallOutcome))
def test_only_calls_that_were_cancelled_or_took_too_long_are_abandoned(
    outcome: CallOutcome,
) -> None:
    changes = Changes()
    run = settle(state([STARTED]), changes, STARTED, Result(outcome, "x"))
    found = find_abandoned(run, changes)
    assert bool(found) == (outcome in (CallOutcome.CANCELLED, CallOutcome.TIMED_OUT))
    assert [one.reason for one in found] == [outcome] * len(found)


def test_closings_are_put_together_in_order() -> None:
    run = state([STARTED])
    one = AbandonedCall(run.project_id, run.id, None, STARTED, run.id, 1, None)
    two = replace(one, agent="clerk")
    assert merge_closed([Closed((one,)), Closed(), Closed((two,))]) == Closed((one, two))
