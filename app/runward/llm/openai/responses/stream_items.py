"""The items of a streamed response, which arrive twice: one by one, and all of them at the end.

Some servers number them with gaps, number all alike or not at all, or give them other IDs at the
end.
"""

from collections import defaultdict, deque
from collections.abc import Hashable, Iterable
from typing import Any, cast

from runward.llm.frames import Frame


def merge_items(streamed_items: list[Frame], final_items: Iterable[Any]) -> list[Frame]:
    """Return every item once, in the order of `final_items`. If an item is in both lists, the
    streamed one is used. Entries of `final_items` that are not objects are dropped."""
    at_end = [cast(Frame, item) for item in final_items if isinstance(item, dict)]
    pairs = _pairs(streamed_items, at_end)
    paired = {*pairs.values()}
    left = deque(at for at in range(len(streamed_items)) if at not in paired)
    items: list[Frame] = []
    for place, item in enumerate(at_end):
        pair = pairs.get(place)
        while pair is not None and left and left[0] < pair:
            items.append(streamed_items[left.popleft()])
        items.append(item if pair is None else streamed_items[pair])
    return [*items, *(streamed_items[at] for at in left)]


def _pairs(streamed: list[Frame], listed: list[Frame]) -> dict[int, int]:
    """Map the position of each final item to the position of the same streamed item: the one with
    its ID, or else the next one of its type."""
    pairs: dict[int, int] = {}
    for name in (_id, _type):
        taken = {*pairs.values()}
        waiting: defaultdict[Hashable, deque[int]] = defaultdict(deque)
        for at, item in enumerate(streamed):
            if at not in taken:
                waiting[name(item)].append(at)
        for at, item in enumerate(listed):
            named = name(item)
            if at not in pairs and named is not None and waiting[named]:
                pairs[at] = waiting[named].popleft()
    return pairs


def _id(item: Frame) -> Hashable:
    known = item.get("id") or item.get("call_id")
    return known if isinstance(known, str) else None


def _type(item: Frame) -> Hashable:
    return str(item.get("type"))
