"""Settling from outside: a callback's result, and a person's word on an unknown outcome."""

from dataclasses import replace
from typing import Any

import pytest
from pydantic import TypeAdapter

from runward.domain.events.values import CallReason
from runward.domain.run import texts
from runward.domain.run.outcomes import Done, Failed, FailureKind, Outcome
from runward.domain.run.resolve import (
    Callback,
    CallbackCompleted,
    CallbackFailed,
    Resolution,
    apply_callback,
    apply_resolution,
    checks_results,
    keep_answer,
    matches_result,
    parse_kept_answer,
)
from runward.domain.run.state import CallOutcome, CallPhase, Changes, Result, RunState
from tests.unit.domain_cases import call, event, state, tool, types

RESOLUTION: TypeAdapter[Resolution] = TypeAdapter(Resolution)
CALLBACK: TypeAdapter[Callback] = TypeAdapter(Callback)
UNKNOWN = call("c1", CallPhase.AWAITING_RESOLUTION)
WAITING = call("c1", CallPhase.AWAITING_CALLBACK)


def resolved(body: dict[str, Any], **spec: Any) -> tuple[RunState, Changes]:
    changes = Changes()
    how = RESOLUTION.validate_python(body)
    return apply_resolution(state([UNKNOWN]), changes, UNKNOWN, tool(**spec), how), changes


def called_back(body: dict[str, Any], **spec: Any) -> tuple[RunState, Changes]:
    changes = Changes()
    said = CALLBACK.validate_python(body)
    return apply_callback(state([WAITING]), changes, WAITING, tool(**spec), said), changes


def result_of(run: RunState) -> Result:
    found = run.calls[UNKNOWN.id].result
    assert found is not None
    return found


@pytest.mark.parametrize("output", ["It was paid.", None, {"a": 1}])
def test_a_person_who_knows_the_outcome_gives_it(output: Any) -> None:
    run, changes = resolved({"resolution": "completed", "output": output})
    assert result_of(run) == Result(CallOutcome.COMPLETED, output, CallReason.RESOLVED)
    assert types(changes) == ["tool_call.completed"]


@pytest.mark.parametrize(
    ("message", "text"), [("It was refused.", "It was refused."), ("", texts.TOOL_ERROR)]
)
def test_a_person_who_knows_that_it_failed_says_why(message: str, text: str) -> None:
    run, changes = resolved({"resolution": "failed", "message": message}, on_error="fail_run")
    assert result_of(run) == Result(CallOutcome.FAILED, text, CallReason.RESOLVED)
    assert types(changes) == ["tool_call.failed"]


def test_a_person_who_knows_that_nothing_happened_has_it_sent_again() -> None:
    run, changes = resolved({"resolution": "retry"})
    one = run.calls[UNKNOWN.id]
    assert (one.phase, one.attempt) == (CallPhase.READY, 1)
    assert changes.updated == {one.id: one}


def test_progress_is_told_and_changes_nothing() -> None:
    run, changes = called_back({"status": "progress", "progress": 0.5, "message": "Half."})
    assert run.calls[WAITING.id] == WAITING
    assert changes.updated == {}
    assert event(changes, "tool_call.progress") == {
        "call_id": "c1",
        "status": "progress",
        "progress": 0.5,
        "message": "Half.",
    }


def test_a_callback_s_output_is_a_result_like_any_other() -> None:
    run, changes = called_back({"status": "completed", "output": {"a": 1}})
    assert result_of(run) == Result(CallOutcome.COMPLETED, {"a": 1})
    assert types(changes) == ["tool_call.completed"]
    schema = {"type": "string"}
    bad, _ = called_back({"status": "completed", "output": 5}, output_schema=schema)
    assert result_of(bad).reason is CallReason.INVALID_OUTPUT


@pytest.mark.parametrize(
    ("on_error", "text", "fails"),
    [
        ("return_error", "No stock.", False),
        ({"message": "Try later."}, "Try later.", False),
        ("fail_run", "No stock.", True),
    ],
)
def test_a_callback_s_failure_goes_by_on_error_and_is_not_sent_again(
    on_error: Any, text: str, *, fails: bool
) -> None:
    run, _ = called_back(
        {"status": "failed", "message": "No stock."},
        on_error=on_error,
        idempotent=True,
        retry={"on": [500]},
    )
    found = result_of(run)
    assert (found.outcome, found.reason) == (CallOutcome.FAILED, CallReason.TOOL_ERROR)
    assert (found.output, found.fails_run) == (text, fails)


def test_a_callback_s_failure_without_words_has_ours() -> None:
    run, _ = called_back({"status": "failed", "message": ""})
    assert result_of(run).output == texts.TOOL_ERROR


GIVEN: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
    ({"status": "completed", "output": 1}, {"status": "completed", "output": 1}, True),
    ({"status": "completed", "output": 1}, {"status": "completed", "output": True}, False),
    ({"status": "completed", "output": "No."}, {"status": "failed", "message": "No."}, False),
    ({"status": "failed", "message": "No."}, {"status": "failed", "message": "No."}, True),
    ({"status": "failed", "message": ""}, {"status": "failed", "message": "No."}, False),
    (
        {"status": "completed", "output": "x" * 900},
        {"status": "completed", "output": f"{'x' * 450}y{'x' * 449}"},
        False,
    ),
]


@pytest.mark.parametrize(("first", "again", "same"), GIVEN)
def test_a_callback_that_comes_again_is_compared_by_the_result_that_it_gives(
    first: dict[str, Any], again: dict[str, Any], *, same: bool
) -> None:
    run, _ = called_back(first, max_output_bytes=256)
    said = CALLBACK.validate_python(again)
    assert isinstance(said, CallbackCompleted | CallbackFailed)
    settled = run.calls[WAITING.id]
    assert matches_result(settled, tool(max_output_bytes=256), said) is same


def test_an_open_call_has_no_result_to_be_the_same_as() -> None:
    said = CALLBACK.validate_python({"status": "completed", "output": None})
    assert isinstance(said, CallbackCompleted | CallbackFailed)
    assert not matches_result(WAITING, tool(), said)


# An answer that guardrails and hooks have to see first.


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        (CallbackCompleted(status="completed", output={"a": [1]}), Done({"a": [1]})),
        (CallbackCompleted(status="completed", output=None), Done(None)),
        (
            CallbackFailed(status="failed", message="No money."),
            Failed(
                FailureKind.ERROR,
                "The client or the tool's callback reported that the call failed.",
                "No money.",
            ),
        ),
    ],
)
def test_an_answer_that_is_kept_says_the_same_when_the_loop_looks_at_it(
    said: CallbackCompleted | CallbackFailed, outcome: Outcome
) -> None:
    changes = Changes()
    keep_answer(changes, WAITING, said)
    kept = changes.updated[WAITING.id]
    assert (kept.phase, kept.result) == (CallPhase.AWAITING_CALLBACK, None)
    assert kept.received is not None
    assert parse_kept_answer(kept.received) == outcome
    assert event(changes, "tool_call.progress") == {"call_id": "c1", "status": "received"}


def test_the_same_answer_again_is_known_by_what_was_kept_of_it() -> None:
    changes = Changes()
    keep_answer(changes, WAITING, CallbackCompleted(status="completed", output=1))
    changed = Result(
        CallOutcome.REJECTED, "A guardrail rejected this content.", CallReason.GUARDRAIL
    )
    one = replace(changes.updated[WAITING.id], phase=CallPhase.SETTLED, result=changed)
    assert matches_result(one, tool(), CallbackCompleted(status="completed", output=1))
    assert not matches_result(one, tool(), CallbackCompleted(status="completed", output=True))
    assert not matches_result(one, tool(), CallbackFailed(status="failed", message=""))


OUTPUT: dict[str, Any] = {"stage": "output", "type": "plugin", "name": "g"}
AFTER: dict[str, Any] = {"on": "after_tool", "type": "plugin", "name": "h"}


@pytest.mark.parametrize(
    ("spec", "config", "checked"),
    [
        ({}, {}, False),
        ({"guardrails": [OUTPUT]}, {}, True),
        ({}, {"guardrails": [OUTPUT]}, True),
        ({}, {"hooks": [AFTER]}, True),
        ({"guardrails": [OUTPUT | {"stage": "input"}]}, {}, False),
        ({}, {"hooks": [AFTER | {"on": "before_tool"}]}, False),
    ],
)
def test_an_answer_waits_for_the_loop_only_where_somebody_sees_results(
    spec: dict[str, Any], config: dict[str, Any], *, checked: bool
) -> None:
    assert checks_results(state(config=config), tool(**spec)) == checked
