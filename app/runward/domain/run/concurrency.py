"""The limits of concurrent tool calls: those of the run, of a tool and of a group."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from runward.domain.ids import CallId
from runward.domain.registry.tools import Concurrency
from runward.domain.run.state import Call, CallPhase, RunState

DEFAULT_CONCURRENCY: Final = Concurrency(limit=64)


def select_startable(
    calls: tuple[Call, ...], state: RunState, caps: Mapping[str, Concurrency]
) -> tuple[CallId, ...]:
    """Return the ready calls that fit the limits of the run, of their tool and of its group. A
    serial call waits for all earlier calls, and all later calls wait for it."""
    in_flight = [call for call in calls if call.phase is CallPhase.STARTED]
    used = Counter(_concurrency_key(call, caps) for call in in_flight)
    room = state.config.limits.max_parallel_tool_calls - len(in_flight)
    start: list[CallId] = []
    unsettled_before = False
    for call in calls:
        cap = caps.get(call.tool, DEFAULT_CONCURRENCY)
        if cap.serial and call.phase is not CallPhase.SETTLED:
            if call.phase is CallPhase.READY and not unsettled_before and not in_flight:
                start.append(call.id)
            break
        if (
            call.phase is CallPhase.READY
            and room > 0
            and used[_concurrency_key(call, caps)] < cap.limit
        ):
            used[_concurrency_key(call, caps)] += 1
            room -= 1
            start.append(call.id)
        unsettled_before |= call.phase is not CallPhase.SETTLED
    return tuple(start)


def _concurrency_key(call: Call, caps: Mapping[str, Concurrency]) -> tuple[str, str]:
    group = caps.get(call.tool, DEFAULT_CONCURRENCY).group
    return ("tool", call.tool) if group is None else ("group", group)
