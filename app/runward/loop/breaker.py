"""A circuit breaker (M. Nygard, Release It!, 2007) for each project and model. While a provider is
down, runs do not send requests to it, and runs with a fallback model use that model immediately.

Each process counts failures separately. HTTP statuses from 500, interrupted streams and timeouts
count as failures. A rejected key or request and a rate limit do not count."""

import random
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias
from uuid import UUID

from runward.domain.events.values import RunErrorCode
from runward.llm.base import ModelError

ATTEMPTS: Final = 4
"""Number of requests to one model before Runward uses the next fallback model."""
FIRST_DELAY, LONGEST_DELAY = 0.5, 30.0
"""Seconds between attempts. If a provider's Retry-After exceeds the longest delay, Runward uses the
next model."""
FAILURES: Final = 5
"""Number of consecutive failures after which the breaker opens."""
FIRST_SECONDS, LONGEST_SECONDS = 5.0, 30.0
"""Seconds for which the breaker stays open. The time doubles each time the model fails again."""
MAX_KEPT: Final = 4096
OPEN: Final = RunErrorCode.MODEL_CIRCUIT_OPEN
_DOWN: Final = frozenset(
    {
        RunErrorCode.MODEL_UNAVAILABLE,
        RunErrorCode.MODEL_UNREACHABLE,
        RunErrorCode.MODEL_STREAM_BROKEN,
        RunErrorCode.MODEL_TIMEOUT,
        RunErrorCode.MODEL_FAILED,
    }
)

BreakerKey: TypeAlias = tuple[UUID, str]
"""A project, and `provider:model`."""


@dataclass(slots=True)
class _Circuit:
    failures: int = 0
    open_seconds: float = 0.0
    until: float = 0.0
    probing: bool = False


class Breakers:
    """The circuit breakers of a process. `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._now = clock
        self._circuits: OrderedDict[BreakerKey, _Circuit] = OrderedDict()

    def refusal(self, key: BreakerKey) -> ModelError | None:
        """Return the reason not to send a request to the model now, or None. `retry_after` is the
        number of seconds to wait. After this time, one request probes the model, and the others
        wait for its result."""
        circuit = self._circuits.get(key)
        if circuit is None or circuit.failures < FAILURES:
            return None
        left = circuit.until - self._now()
        if left <= 0 and not circuit.probing:
            circuit.probing = True
            return None
        wait = max(left, FIRST_SECONDS if circuit.probing else 0.0)
        text = (
            f"{key[1]} failed {circuit.failures} times in a row, so Runward is not "
            "sending requests to it for a short time."
        )
        return ModelError(OPEN, text, transient=True, retry_after=wait)

    def is_probing(self, key: BreakerKey) -> bool:
        """Return whether a request is probing the model and other requests wait for its result."""
        circuit = self._circuits.get(key)
        return circuit is not None and circuit.probing

    def record_failure(self, key: BreakerKey, error: ModelError) -> None:
        if error.code not in _DOWN:
            self.end_probe(key)
            return
        circuit = self._circuits.setdefault(key, _Circuit())
        self._circuits.move_to_end(key)
        if len(self._circuits) > MAX_KEPT:
            self._circuits.popitem(last=False)
        circuit.failures += 1
        circuit.probing = False
        if circuit.failures >= FAILURES and circuit.until <= self._now():
            doubled = circuit.open_seconds * 2 or FIRST_SECONDS
            circuit.open_seconds = min(doubled, LONGEST_SECONDS)
            circuit.until = self._now() + circuit.open_seconds

    def record_success(self, key: BreakerKey) -> None:
        self._circuits.pop(key, None)

    def end_probe(self, key: BreakerKey) -> None:
        """End a probe that did not show whether the provider is available."""
        if (circuit := self._circuits.get(key)) is not None:
            circuit.probing = False


def compute_delay(error: ModelError, attempt: int) -> float | None:
    """Return the seconds until the next request to the same model, or None if the request must
    not be repeated."""
    wish = error.retry_after or 0.0
    if not error.transient or attempt >= ATTEMPTS or wish > LONGEST_DELAY:
        return None
    backoff = min(LONGEST_DELAY, FIRST_DELAY * 2 ** (attempt - 1))
    return max(wish, backoff * random.random())  # noqa: S311  # jitter, not a secret
