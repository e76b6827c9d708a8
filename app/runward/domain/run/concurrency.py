"""The limits of concurrent tool calls: those of the run, of a tool and of a group."""

from collections import Counter
from collections.abc import Mapping
from itertools import takewhile
from typing import Final

from runward.domain.ids import CallId
from runward.domain.registry.tools import Concurrency
from runward.domain.run.state import Call, CallPhase, RunState

DEFAULT_CONCURRENCY: Final = Concurrency(limit=64)


def select_startable(
    calls: tuple[Call, ...], state: RunState, caps: Mapping[str, Concurrency]
) -> tuple[CallId, ...]:
    """Return the ready calls that fit the limits of the run, of their tool and of its group. The
    limit of a group is the lowest limit of its calls that run, and of the call to start. A serial
    call waits for all earlier calls, and all later calls wait for it."""
    unsettled = [call for call in calls if call.phase is not CallPhase.SETTLED]
    in_flight = [call for call in unsettled if call.phase is CallPhase.STARTED]
    serial = {tool for tool in {call.tool for call in unsettled} if _get_cap(tool, caps).serial}
    if unsettled and unsettled[0].tool in serial:
        first = unsettled[0]
        return (first.id,) if first.phase is CallPhase.READY and not in_flight else ()
    if serial:
        unsettled = list(takewhile(lambda call: call.tool not in serial, unsettled))
    used, limits = Counter[tuple[str, str]](), dict[tuple[str, str], int]()
    for tool, count in Counter([call.tool for call in in_flight]).items():
        key, limit = _concurrency_key(tool, caps), _get_cap(tool, caps).limit
        used[key] += count
        limits[key] = min(limit, limits.get(key, limit))
    room = state.config.limits.max_parallel_tool_calls - len(in_flight)
    start: list[CallId] = []
    for call in [one for one in unsettled if one.phase is CallPhase.READY]:
        if room <= 0:
            break
        key, limit = _concurrency_key(call.tool, caps), _get_cap(call.tool, caps).limit
        limit = min(limit, limits.get(key, limit))
        if used[key] < limit:
            used[key] += 1
            limits[key] = limit
            room -= 1
            start.append(call.id)
    return tuple(start)


def _get_cap(tool: str, caps: Mapping[str, Concurrency]) -> Concurrency:
    return caps.get(tool, DEFAULT_CONCURRENCY)


def _concurrency_key(tool: str, caps: Mapping[str, Concurrency]) -> tuple[str, str]:
    group = _get_cap(tool, caps).group
    return ("tool", tool) if group is None else ("group", group)
