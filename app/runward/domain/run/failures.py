"""Failed attempts: whether Runward retries them, and the results that the model reads."""

from dataclasses import replace
from typing import assert_never

from runward.domain.events.values import CallReason
from runward.domain.immutable import immutable
from runward.domain.registry.guards import Fail, Reject
from runward.domain.registry.tools import (
    RETRYABLE_STATUSES,
    FailureFunction,
    FailureMessage,
    OnError,
    ToolSpec,
)
from runward.domain.run import texts
from runward.domain.run.bounds import truncate
from runward.domain.run.outcomes import Failed, FailureKind
from runward.domain.run.state import Call, CallOutcome, Result


@immutable
class AwaitResolution:
    """A disposition for a call with an unknown outcome. A person must record the outcome."""

    detail: str


def find_retry_delay(spec: ToolSpec, call: Call, failed: Failed, jitter: float) -> float | None:
    """Return the number of seconds until the next attempt, or None if the call must not be retried.
    `jitter`: a factor from 0 to 1."""
    if failed.permanent or call.recent_attempts >= spec.retry.max_attempts:
        return None
    match failed.reason:
        case FailureKind.NOT_SENT:
            allowed = True
        case FailureKind.UNKNOWN:
            allowed = spec.idempotent
        case FailureKind.UNAVAILABLE | FailureKind.ERROR:
            temporary = failed.status in RETRYABLE_STATUSES
            allowed = (spec.idempotent and temporary) or failed.status in spec.retry.on
        case (
            FailureKind.TIMEOUT
            | FailureKind.INVALID_RESPONSE
            | FailureKind.GUARDRAIL
            | FailureKind.WITHHELD
        ):
            allowed = False
        case _:
            assert_never(failed.reason)
    if not allowed:
        return None
    ceiling = min(
        spec.retry.max_seconds, spec.retry.initial_seconds * 2 ** (call.recent_attempts - 1)
    )
    return max(ceiling * jitter, failed.retry_after or 0.0)


def classify_failure(spec: ToolSpec, call: Call, failed: Failed) -> Result | AwaitResolution:
    match failed.reason:
        case FailureKind.TIMEOUT:
            return classify_timeout(spec, call, failed.detail)
        case FailureKind.UNKNOWN:
            return classify_unknown_outcome(spec, failed.detail)
        case FailureKind.GUARDRAIL | FailureKind.WITHHELD:
            return make_guardrail_result(failed)
        case FailureKind.NOT_SENT:
            before = call.exchange is not None  # The call was sent, and its tool requested input.
            # An earlier attempt may have taken effect.
            before |= call.attempt > 1 and bool(spec.idempotent or spec.retry.on)
            text = texts.NOT_REACHED if before else texts.NOT_SENT
            result = Result(CallOutcome.FAILED, text, CallReason.NOT_SENT)
        case FailureKind.INVALID_RESPONSE:
            result = Result(CallOutcome.FAILED, texts.INVALID_RESPONSE, CallReason.INVALID_RESPONSE)
        case FailureKind.UNAVAILABLE | FailureKind.ERROR:
            text = failed.message or texts.TOOL_ERROR
            result = Result(CallOutcome.FAILED, truncate(text, 4096)[0], CallReason.TOOL_ERROR)
        case _:
            assert_never(failed.reason)
    return apply_failure_mode(
        spec.on_error, replace(result, detail=failed.detail, fails_run=failed.fails_run)
    )


def make_guardrail_failure(verdict: Reject | Fail) -> Failed:
    """Return the failure of a call that a guardrail rejected."""
    return Failed(
        FailureKind.GUARDRAIL,
        verdict.detail or "",
        message=verdict.message,
        permanent=True,
        fails_run=isinstance(verdict, Fail),
    )


def make_guardrail_result(failed: Failed) -> Result:
    """Return the result of a call that a guardrail rejected. No setting of the tool changes it. The
    outcome is `rejected` only if the call was never sent."""
    text = truncate(failed.message or texts.GUARDED, 4096)[0]
    return Result(
        CallOutcome.FAILED if failed.reason is FailureKind.WITHHELD else CallOutcome.REJECTED,
        text,
        CallReason.GUARDRAIL,
        detail=failed.detail,
        fails_run=failed.fails_run,
    )


def classify_timeout(spec: ToolSpec, call: Call, detail: str) -> Result | AwaitResolution:
    if spec.on_unknown == "ask" and not spec.idempotent:
        return AwaitResolution(detail)
    text = texts.timed_out(call.tool, call.timeout_seconds or 0, idempotent=spec.idempotent)
    return apply_failure_mode(spec.on_timeout, Result(CallOutcome.TIMED_OUT, text, detail=detail))


def classify_unknown_outcome(spec: ToolSpec, detail: str) -> Result | AwaitResolution:
    """Return the disposition of a call that was sent and has no complete response. The call may
    have taken effect."""
    result = Result(CallOutcome.OUTCOME_UNKNOWN, texts.INTERRUPTED, detail=detail)
    match spec.on_unknown:
        case "ask":
            return AwaitResolution(detail)
        case "fail_run":
            return replace(result, fails_run=True)
        case "return_error":
            return result
        case _:
            assert_never(spec.on_unknown)


def apply_failure_mode(mode: OnError, result: Result) -> Result:
    """Return the result as the tool's setting defines it. The executor of plugins has already
    called a `FailureFunction`."""
    match mode:
        case "return_error" | FailureFunction():
            return result
        case "fail_run":
            return replace(result, fails_run=True)
        case FailureMessage(message=message):
            return replace(result, output=message)
        case _:
            assert_never(mode)
