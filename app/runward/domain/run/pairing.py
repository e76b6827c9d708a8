"""Pairs the tool calls of a conversation that a client sends with their results."""

from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import replace

from runward.domain.ids import CallId
from runward.domain.run.items import Item, Message, ToolCall, ToolResult


class UnpairedItemError(ValueError):
    """A call has no result, or a result has no call. `index`: the position of the item. The text is
    the rest of a sentence about its call ID."""

    def __init__(self, index: int, message: str) -> None:
        super().__init__(message)
        self.index = index


def pair_results(items: Sequence[Item]) -> tuple[Item, ...]:
    """Return the conversation with the results of each response directly after the response, in the
    order of its calls. If two calls have the same ID, they get the results in order, and the later
    call and its result get a new ID. Raises UnpairedItemError."""
    calls: dict[int, ToolCall] = {}
    results: dict[int, ToolResult] = {}
    waiting: dict[CallId, deque[int]] = defaultdict(deque)
    used = {item.call_id for item in items if isinstance(item, ToolCall)}
    counts: Counter[CallId] = Counter()
    for n, item in enumerate(items):
        if isinstance(item, ToolCall):
            waiting[item.call_id].append(n)
            calls[n] = replace(item, call_id=_make_unique(item.call_id, used, counts))
        elif isinstance(item, ToolResult):
            if not waiting[item.call_id]:
                raise UnpairedItemError(
                    n, "must be the ID of an earlier tool call that has no result yet"
                )
            call = waiting[item.call_id].popleft()
            results[call] = replace(item, call_id=calls[call].call_id)
    if open_calls := calls.keys() - results.keys():
        raise UnpairedItemError(min(open_calls), "must have a result after the tool call")
    return tuple(_order(items, calls, results))


def _make_unique(call_id: CallId, used: set[CallId], counts: Counter[CallId]) -> CallId:
    """Return the ID for its first call, and an unused ID for later calls. `counts`: the last number
    that was tried for each ID."""
    counts[call_id] += 1
    if counts[call_id] == 1:
        return call_id
    while (unique := CallId(f"{call_id}_{counts[call_id]}")) in used:
        counts[call_id] += 1
    used.add(unique)
    return unique


def _order(
    items: Sequence[Item], calls: dict[int, ToolCall], results: dict[int, ToolResult]
) -> Iterator[Item]:
    """Yield each response, which begins with a message or after results, and then its results."""
    open_results: list[ToolResult] = []
    answered = False
    for n, item in enumerate(items):
        if isinstance(item, ToolResult):
            answered = True
            continue
        if answered or isinstance(item, Message):
            yield from open_results
            open_results, answered = [], False
        if n in calls:
            open_results.append(results[n])
        yield calls.get(n, item)
    yield from open_results
