"""The circuit breaker of a project and a model."""

from collections.abc import Callable
from uuid import UUID

from runward.domain.events.values import RunErrorCode
from runward.llm import failures
from runward.llm.base import ModelError
from runward.loop.breaker import (
    FAILURES,
    FIRST_SECONDS,
    LONGEST_SECONDS,
    MAX_KEPT,
    OPEN,
    BreakerKey,
    Breakers,
)

KEY: BreakerKey = (UUID(int=1), "openai:gpt")
OTHER: BreakerKey = (UUID(int=2), "openai:gpt")
LIMITED = ModelError(RunErrorCode.MODEL_RATE_LIMITED, "Slow down.", transient=True)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def broken(clock: Clock, times: int = FAILURES) -> Breakers:
    breakers = Breakers(clock)
    for _ in range(times):
        breakers.record_failure(KEY, failures.unreachable())
    return breakers


def test_it_opens_after_so_many_failures_in_a_row_for_that_project_and_model_alone() -> None:
    clock = Clock()
    assert broken(clock, FAILURES - 1).refusal(KEY) is None
    breakers = broken(clock)
    refusal = breakers.refusal(KEY)
    assert refusal is not None
    assert (refusal.code, refusal.transient) == (OPEN, True)
    assert refusal.retry_after == FIRST_SECONDS
    assert "failed 5 times in a row" in refusal.message
    assert breakers.refusal(OTHER) is None


def test_one_success_closes_it() -> None:
    breakers = broken(Clock(), FAILURES - 1)
    breakers.record_success(KEY)
    breakers.record_failure(KEY, failures.broken_stream())
    assert breakers.refusal(KEY) is None


def test_what_is_no_sign_of_an_outage_does_not_count() -> None:
    breakers = Breakers(Clock())
    for _ in range(FAILURES):
        breakers.record_failure(KEY, LIMITED)
    assert breakers.refusal(KEY) is None


def test_after_its_time_one_request_goes_first_and_the_others_wait_for_it() -> None:
    clock = Clock()
    breakers = broken(clock)
    clock.now += FIRST_SECONDS
    assert breakers.refusal(KEY) is None
    waiting = breakers.refusal(KEY)
    assert waiting is not None
    assert waiting.retry_after == FIRST_SECONDS
    breakers.record_success(KEY)
    assert breakers.refusal(KEY) is None


def test_it_stays_open_longer_each_time_up_to_a_limit() -> None:
    clock = Clock()
    breakers = broken(clock)
    waits: list[float | None] = []
    for _ in range(5):
        refusal = breakers.refusal(KEY)
        assert refusal is not None
        waits.append(refusal.retry_after)
        clock.now += refusal.retry_after or 0
        assert breakers.refusal(KEY) is None
        breakers.record_failure(KEY, failures.timed_out(1))
    assert waits == [FIRST_SECONDS, 10.0, 20.0, LONGEST_SECONDS, LONGEST_SECONDS]


def test_failures_of_requests_that_were_under_way_do_not_make_it_longer() -> None:
    breakers = broken(Clock(), FAILURES + 10)
    refusal = breakers.refusal(KEY)
    assert refusal is not None
    assert refusal.retry_after == FIRST_SECONDS


def test_a_probe_that_was_cancelled_or_refused_leaves_the_way_to_the_next() -> None:
    clock = Clock()
    ends: list[Callable[[Breakers], None]] = [
        lambda one: one.end_probe(KEY),
        lambda one: one.record_failure(KEY, LIMITED),
    ]
    for end in ends:
        breakers = broken(clock)
        clock.now += FIRST_SECONDS
        assert breakers.refusal(KEY) is None
        end(breakers)
        assert breakers.refusal(KEY) is None
    Breakers(clock).end_probe(KEY)


def test_only_so_many_are_kept() -> None:
    breakers = broken(Clock())
    for number in range(MAX_KEPT):
        breakers.record_failure((UUID(int=1), f"openai:{number}"), failures.unreachable())
    assert breakers.refusal(KEY) is None


def test_it_says_whether_a_request_tries_the_model() -> None:
    clock = Clock()
    breakers = broken(clock)
    assert not breakers.is_probing(KEY)
    clock.now += FIRST_SECONDS
    assert breakers.refusal(KEY) is None
    assert breakers.is_probing(KEY)
    breakers.record_failure(KEY, failures.unreachable())
    assert not breakers.is_probing(KEY)
