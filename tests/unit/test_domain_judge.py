"""From how an attempt ended to what the model is told, and whether it is tried again."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.domain.events.values import CallReason
from runward.domain.registry.tools import RETRYABLE_STATUSES
from runward.domain.run import texts
from runward.domain.run.failures import AwaitResolution
from runward.domain.run.items import TextPart
from runward.domain.run.outcomes import Done, Failed, FailureKind, Waits
from runward.domain.run.settle import AwaitCallback, Disposition, TryAgain, classify_outcome
from runward.domain.run.state import CallOutcome, CallPhase, Result
from tests.unit.domain_cases import call, tool

STARTED = call("c1", CallPhase.STARTED)
LAST = call("c1", CallPhase.STARTED, attempt=3)


def verdict(
    outcome: Any, *, left: float = 60, jitter: float = 0.5, at: Any = STARTED, **spec: Any
) -> Disposition:
    return classify_outcome(tool(**spec), at, outcome, seconds_left=left, jitter=jitter)


def result(outcome: Any, **given: Any) -> Result:
    found = verdict(outcome, **given)
    assert isinstance(found, Result)
    return found


def problem(why: FailureKind, **fields: Any) -> Failed:
    return Failed(why, "detail for operators", **fields)


# Good results.


@pytest.mark.parametrize("output", ["text", "", None, 0, False, [], {"a": [1, 2.5, None]}])
def test_any_json_is_a_result_as_it_is(output: Any) -> None:
    found = result(Done(output, (TextPart("x"),), {"cost": 1}))
    assert found == Result(
        CallOutcome.COMPLETED, output, parts=(TextPart("x"),), metadata={"cost": 1}
    )
    assert not found.is_error


def test_a_202_waits_for_the_callback() -> None:
    assert verdict(Waits()) == AwaitCallback()


def test_what_postgres_cannot_hold_is_replaced_in_a_result() -> None:
    assert result(Done({"a\x00": "\ud800"})).output == {"a\ufffd": "\ufffd"}


def test_a_long_output_is_cut_for_the_model_and_kept_whole() -> None:
    found = result(Done("x" * 300 + "END"), max_output_bytes=256)
    assert found.full == "x" * 300 + "END"
    assert found.output == "x" * 128 + "\n… 47 bytes omitted …\n" + "x" * 125 + "END"


@pytest.mark.parametrize(
    ("on_error", "output", "fails"),
    [
        ("return_error", texts.INVALID_RESPONSE, False),
        ({"message": "Ask another."}, "Ask another.", False),
        ("fail_run", texts.INVALID_RESPONSE, True),
    ],
)
def test_an_output_that_does_not_match_its_schema_is_an_error(
    on_error: Any, output: str, *, fails: bool
) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    found = result(Done({"a": "1"}), output_schema=schema, on_error=on_error)
    assert (found.outcome, found.reason) == (CallOutcome.FAILED, CallReason.INVALID_OUTPUT)
    assert (found.output, found.fails_run) == (output, fails)
    assert found.detail == (
        'The output does not match output_schema: output.a must be an integer, but is the text "1"'
    )
    assert result(Done({"a": 1}), output_schema=schema).output == {"a": 1}


# When it is tried again.

STATUSES = [400, 404, 408, 409, 425, 429, 500, 502, 503, 504, 599]


def may_retry(
    why: FailureKind, status: int | None, *, idempotent: bool, on: tuple[int, ...]
) -> bool:
    """The table of retries, said once more in other words."""
    match why:
        case FailureKind.NOT_SENT:
            return True
        case FailureKind.UNKNOWN:
            return idempotent
        case (
            FailureKind.TIMEOUT
            | FailureKind.INVALID_RESPONSE
            | FailureKind.GUARDRAIL
            | FailureKind.WITHHELD
        ):
            return False
        case FailureKind.UNAVAILABLE | FailureKind.ERROR:
            return status in on or (idempotent and status in {408, 425, 429, 502, 503, 504})


FAILURES = [
    *((why, None) for why in FailureKind),
    *product((FailureKind.UNAVAILABLE, FailureKind.ERROR), STATUSES),
]


@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize("on", [(), (500, 503)])
@pytest.mark.parametrize(("why", "status"), FAILURES)
def test_a_failure_is_retried_only_where_that_is_safe_or_the_tool_says_so(
    why: FailureKind, status: int | None, on: tuple[int, ...], *, idempotent: bool
) -> None:
    spec: dict[str, Any] = {"idempotent": idempotent, "retry": {"on": on}}
    again = isinstance(verdict(problem(why, status=status), **spec), TryAgain)
    assert again is may_retry(why, status, idempotent=idempotent, on=on)
    assert not isinstance(verdict(problem(why, status=status), at=LAST, **spec), TryAgain)
    hopeless = problem(why, status=status, permanent=True)
    assert not isinstance(verdict(hopeless, **spec), TryAgain)


def test_the_statuses_that_pass_are_those_of_the_table() -> None:
    assert {408, 425, 429, 502, 503, 504} == RETRYABLE_STATUSES


@given(
    attempt=st.integers(1, 9),
    initial=st.floats(0.01, 60),
    longest=st.floats(0.01, 300),
    jitter=st.floats(0, 1, exclude_max=True),
    asked=st.none() | st.floats(0, 500),
    left=st.floats(0, 600),
)
def test_a_delay_has_full_jitter_honours_the_server_and_stays_within_the_call_s_time(
    attempt: int, initial: float, longest: float, jitter: float, asked: float | None, left: float
) -> None:
    retry = {"max_attempts": 10, "initial_seconds": initial, "max_seconds": longest}
    found = classify_outcome(
        tool(retry=retry),
        call(phase=CallPhase.STARTED, attempt=attempt),
        problem(FailureKind.NOT_SENT, retry_after=asked),
        seconds_left=left,
        jitter=jitter,
    )
    backoff = min(longest, initial * 2 ** (attempt - 1)) * jitter
    delay = max(backoff, asked or 0)
    if delay < left:
        assert found == TryAgain(delay)
        assert delay <= max(longest, asked or 0)
    else:
        assert isinstance(found, Result)


# What it means when it is not tried again.


@pytest.mark.parametrize(
    ("failure", "outcome", "reason", "text"),
    [
        (problem(FailureKind.NOT_SENT), "failed", CallReason.NOT_SENT, texts.NOT_SENT),
        (
            problem(FailureKind.INVALID_RESPONSE),
            "failed",
            CallReason.INVALID_RESPONSE,
            texts.INVALID_RESPONSE,
        ),
        (problem(FailureKind.UNAVAILABLE), "failed", CallReason.TOOL_ERROR, texts.TOOL_ERROR),
        (problem(FailureKind.ERROR), "failed", CallReason.TOOL_ERROR, texts.TOOL_ERROR),
        (
            problem(FailureKind.ERROR, message="No such order."),
            "failed",
            CallReason.TOOL_ERROR,
            "No such order.",
        ),
        (
            problem(FailureKind.TIMEOUT),
            "timed_out",
            None,
            f"Tool 'lookup' timed out after 30 seconds. {texts.UNKNOWN_OUTCOME}",
        ),
        (problem(FailureKind.UNKNOWN), "outcome_unknown", None, texts.INTERRUPTED),
    ],
)
def test_a_failure_is_an_error_result_with_details_for_operators_only(
    failure: Failed, outcome: str, reason: CallReason | None, text: str
) -> None:
    at = call("c1", CallPhase.STARTED, attempt=1)
    found = result(failure, at=at, left=0)
    assert (found.outcome, found.reason, found.output) == (outcome, reason, text)
    assert found.detail == "detail for operators"
    assert found.is_error
    assert not found.fails_run


GUARDED = {FailureKind.GUARDRAIL: CallOutcome.REJECTED, FailureKind.WITHHELD: CallOutcome.FAILED}
"""Only a call that was never sent is called rejected."""

POLICIES = [
    ("return_error", None, False),
    ({"message": "Custom."}, "Custom.", False),
    ("fail_run", None, True),
]


@pytest.mark.parametrize(("policy", "text", "fails"), POLICIES)
@pytest.mark.parametrize(
    "why", [why for why in FailureKind if why not in {FailureKind.UNKNOWN, *GUARDED}]
)
def test_a_tool_says_what_its_errors_and_timeouts_do(
    why: FailureKind, policy: Any, text: str | None, *, fails: bool
) -> None:
    own, other = (
        ("on_timeout", "on_error") if why is FailureKind.TIMEOUT else ("on_error", "on_timeout")
    )
    plain = result(problem(why), at=LAST)
    found = classify_outcome(tool(**{own: policy}), LAST, problem(why), seconds_left=9, jitter=0)
    assert isinstance(found, Result)
    assert (found.output, found.fails_run) == (text or plain.output, fails)
    others = classify_outcome(tool(**{other: policy}), LAST, problem(why), seconds_left=9, jitter=0)
    assert others == plain


@pytest.mark.parametrize("policy", ["return_error", {"message": "Custom."}, "fail_run"])
@pytest.mark.parametrize(("why", "outcome"), GUARDED.items())
def test_no_setting_of_a_tool_changes_what_a_guardrail_said(
    why: FailureKind, outcome: CallOutcome, policy: Any
) -> None:
    refused = problem(why, message="no cards")
    strict = tool(on_error=policy, on_timeout=policy)
    found = classify_outcome(strict, LAST, refused, seconds_left=9, jitter=0)
    assert isinstance(found, Result)
    assert (found.output, found.outcome, found.reason) == (
        "no cards",
        outcome,
        CallReason.GUARDRAIL,
    )
    assert not found.fails_run
    fails = classify_outcome(
        strict, LAST, replace(refused, fails_run=True), seconds_left=9, jitter=0
    )
    assert isinstance(fails, Result)
    assert fails.fails_run


@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize("on_unknown", ["return_error", "ask", "fail_run"])
def test_an_unknown_outcome_goes_by_on_unknown(on_unknown: str, *, idempotent: bool) -> None:
    found = verdict(
        problem(FailureKind.UNKNOWN),
        at=LAST,
        on_unknown=on_unknown,
        idempotent=idempotent,
        on_error="fail_run",
    )
    if on_unknown == "ask":
        assert found == AwaitResolution("detail for operators")
    else:
        assert isinstance(found, Result)
        assert found.outcome is CallOutcome.OUTCOME_UNKNOWN
        assert found.fails_run is (on_unknown == "fail_run")


@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize("on_unknown", ["return_error", "ask", "fail_run"])
def test_a_timeout_is_asked_about_only_where_that_is_wanted_and_matters(
    on_unknown: str, *, idempotent: bool
) -> None:
    found = verdict(problem(FailureKind.TIMEOUT), on_unknown=on_unknown, idempotent=idempotent)
    if on_unknown == "ask" and not idempotent:
        assert found == AwaitResolution("detail for operators")
        return
    assert isinstance(found, Result)
    assert (found.outcome, found.fails_run) == (CallOutcome.TIMED_OUT, False)
    text = "Tool 'lookup' timed out after 30 seconds."
    assert found.output == (text if idempotent else f"{text} {texts.UNKNOWN_OUTCOME}")


@pytest.mark.parametrize(
    ("spec", "attempt", "text"),
    [
        ({}, 3, texts.NOT_SENT),
        ({"idempotent": True, "retry": {"max_attempts": 1}}, 1, texts.NOT_SENT),
        ({"idempotent": True}, 3, texts.NOT_REACHED),
        ({"retry": {"on": [500]}}, 3, texts.NOT_REACHED),
    ],
)
def test_a_call_is_said_not_to_have_run_only_where_that_is_sure(
    spec: dict[str, Any], attempt: int, text: str
) -> None:
    """An earlier attempt may have reached a tool that is tried again after that."""
    at = call(phase=CallPhase.STARTED, attempt=attempt)
    assert result(problem(FailureKind.NOT_SENT), at=at, **spec).output == text


def test_a_tool_s_own_message_is_capped() -> None:
    found = result(problem(FailureKind.ERROR, message="m" * 10_000))
    assert isinstance(found.output, str)
    assert len(found.output.encode()) < 4200
