"""Pairs the tool calls of a conversation that a client sends with their results."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count

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
    order of its calls. If an ID occurs again after its call has a result, the later call and its
    result get a new ID. Raises UnpairedItemError."""
    calls: dict[int, ToolCall] = {}
    results: dict[int, ToolResult] = {}
    waiting: dict[CallId, int] = {}
    used = {item.call_id for item in items if isinstance(item, ToolCall)}
    seen: set[CallId] = set()
    for n, item in enumerate(items):
        if isinstance(item, ToolCall):
            if item.call_id in waiting:
                raise UnpairedItemError(n, "must be unique among the tool calls without a result")
            waiting[item.call_id] = n
            call_id = _make_unique(item.call_id, used) if item.call_id in seen else item.call_id
            seen.add(item.call_id)
            calls[n] = replace(item, call_id=call_id)
        elif isinstance(item, ToolResult):
            if item.call_id not in waiting:
                raise UnpairedItemError(
                    n, "must be the ID of an earlier tool call that has no result yet"
                )
            call = waiting.pop(item.call_id)
            results[call] = replace(item, call_id=calls[call].call_id)
    for call in waiting.values():
        raise UnpairedItemError(call, "must have a result after the tool call")
    return tuple(_order(items, calls, results))


def _make_unique(call_id: CallId, used: set[CallId]) -> CallId:
    unique = next(one for n in count(2) if (one := CallId(f"{call_id}_{n}")) not in used)
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
