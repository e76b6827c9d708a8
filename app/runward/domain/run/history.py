"""The items of a session's earlier runs: which of them are stored, which of them a model reads, and
a search.

A history contains one sequence of items for each earlier run, oldest run first.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, assert_never

from pydantic import JsonValue

from runward.domain.ids import CallId
from runward.domain.immutable import immutable
from runward.domain.json import as_text, compact
from runward.domain.run.bounds import truncate
from runward.domain.run.config import HistoryLimits, RunKind
from runward.domain.run.items import (
    HostedCall,
    Item,
    Message,
    MessageContent,
    Part,
    Reasoning,
    TextPart,
    ToolCall,
    ToolResult,
    join_text,
)

BYTES_A_TOKEN: Final = 4
MEDIA_BYTES: Final = 4_000
"""The size in bytes that an image or a file counts as, whatever its real size."""
ITEM_BYTES: Final = 16
"""The size in bytes that each item counts as, in addition to its text."""

MAX_WORDS: Final = 16
"""Maximum number of words of a query. Further words are ignored."""
MAX_WORD: Final = 64
"""Maximum number of characters of a word in a query. In repetitive texts, the search time is
proportional to the product of the lengths of the text and the word."""
MAX_FOUND: Final = 50
MAX_EXCERPT: Final = 400
"""Maximum number of characters of an excerpt."""
MAX_SEARCHED: Final = 4_194_304
"""Maximum number of characters that one search reads, newest first."""
_BEFORE: Final = 120
"""Number of characters of an excerpt that precede the match."""


def select_history(items: Sequence[Item], output: JsonValue, kind: RunKind) -> tuple[Item, ...]:
    """Return the items of an ended run that later runs can read: each call with one result. For a
    workflow, `items` is its input, and its output follows. Its child runs contain the inner
    conversations."""
    asked = tuple(_pair_calls(items))
    if kind == "llm":
        return asked
    text = as_text(output)
    answered = (Message("assistant", text),) if output is not None and text else ()
    return asked + answered


def trimmed_history(
    history: Sequence[Sequence[Item]], limits: HistoryLimits, taken: Iterable[CallId] = ()
) -> tuple[Item, ...]:
    """Return the items that a model reads before the run's own conversation. System messages are
    always included. Every call has its result, every result has its call, and call IDs are unique.
    `taken`: the IDs of the run's own calls."""
    items = list(_make_ids_distinct((_pair_calls(run) for run in history), taken))
    if limits.trim_tool_outputs is not None:
        items = [_trim(item, limits.trim_tool_outputs) for item in items]
    begins = [n for n, item in enumerate(items) if _has_role(item, "user")]
    first = 0
    if limits.max_exchanges == 0:
        first = len(items)
    elif limits.max_exchanges is not None and limits.max_exchanges < len(begins):
        first = begins[-limits.max_exchanges]
    if limits.max_tokens is not None:
        first = max(first, _find_first_fitting(items, begins, limits.max_tokens * BYTES_A_TOKEN))
    return tuple(item for n, item in enumerate(items) if n >= first or _has_role(item, "system"))


def _find_first_fitting(items: Sequence[Item], begins: Sequence[int], budget: int) -> int:
    """Return the index of the first item of the newest exchanges that fit into `budget` bytes,
    together with all system messages."""
    left = budget - sum(_estimate_item(item) for item in items if _has_role(item, "system"))
    first, end = len(items), len(items)
    for begin in reversed([0, *begins]):
        left -= sum(
            _estimate_item(item) for item in items[begin:end] if not _has_role(item, "system")
        )
        if left < 0:
            break
        first, end = begin, begin
    return first


def drop_oldest_items(items: Sequence[Item], budget: int) -> tuple[Item, ...]:
    """Return the newest exchanges that fit into `budget` bytes, and all system messages. The newest
    exchange is always included, even if it does not fit."""
    begins = [n for n, item in enumerate(items) if _has_role(item, "user")]
    first = min(_find_first_fitting(items, begins, budget), begins[-1] if begins else 0)
    return tuple(item for n, item in enumerate(items) if n >= first or _has_role(item, "system"))


def _has_role(item: Item, role: str) -> bool:
    return isinstance(item, Message) and item.role == role


def _pair_calls(items: Iterable[Item]) -> Iterator[Item]:
    """Yield the items, without calls that have no result in their turn. Only one result of each
    call is kept."""
    whole = tuple(items)
    waiting: dict[CallId, int] = {}
    kept: set[int] = set()
    answered: set[CallId] = set()
    for n, item in enumerate(whole):
        match item:
            case Message(role="user"):
                waiting.clear()
            case ToolCall(call_id=call_id) if call_id not in answered:
                waiting.setdefault(call_id, n)
            case ToolResult(call_id=call_id) if call_id in waiting:
                kept |= {waiting.pop(call_id), n}
                answered.add(call_id)
            case _:
                pass
    for n, item in enumerate(whole):
        if n in kept or not isinstance(item, ToolCall | ToolResult):
            yield item


def _make_ids_distinct(
    history: Iterable[Iterable[Item]], used_ids: Iterable[CallId]
) -> Iterator[Item]:
    """Yield the items with unique call IDs. An ID is unique only within its run, so duplicates in
    later runs are replaced."""
    used = set(used_ids)
    counts: Counter[CallId] = Counter()
    for run in history:
        here: dict[CallId, CallId] = {}
        for item in run:
            if not isinstance(item, ToolCall | ToolResult):
                yield item
                continue
            if item.call_id not in here:
                here[item.call_id] = _unused(item.call_id, used, counts)
            yield replace(item, call_id=here[item.call_id])


def _unused(call_id: CallId, used: set[CallId], counts: Counter[CallId]) -> CallId:
    """Return the ID, with a number appended if it is already used. `counts`: the last number that
    was tried for each ID."""
    unique = call_id
    while unique in used:
        counts[call_id] += 1
        unique = CallId(f"{call_id}_{counts[call_id] + 1}")
    used.add(unique)
    return unique


def _trim(item: Item, max_bytes: int) -> Item:
    if not isinstance(item, ToolResult):
        return item
    if item.parts and sum(map(_part_bytes, item.parts)) > max_bytes:
        item = replace(item, parts=())
    # A limit below two bytes has no space for a beginning and an end.
    if max_bytes < 2 and (size := len(item.text.encode())) > max_bytes:
        return replace(item, output=f"… {size} bytes omitted …")
    return replace(item, output=truncate(item.output, max_bytes)[0])


def estimate_bytes(items: Iterable[Item]) -> int:
    """Estimate the size of the items in a request to a provider."""
    return sum(map(_estimate_item, items))


def _estimate_item(item: Item) -> int:
    """Return an estimate of an item's size in bytes in a request to a provider."""
    match item:
        case Message(content=content):
            size = _content_bytes(content)
        case ToolCall(name=name, arguments=arguments):
            size = len(name) + len(arguments.encode())
        case ToolResult(parts=parts):
            size = sum(map(_part_bytes, parts)) if parts else len(item.text.encode())
        case Reasoning(data=data) | HostedCall(data=data):
            size = len(compact(data).encode())
        case _:
            assert_never(item)
    return ITEM_BYTES + size


def _content_bytes(content: MessageContent) -> int:
    if isinstance(content, str):
        return len(content.encode())
    return sum(map(_part_bytes, content))


def _part_bytes(part: Part) -> int:
    return len(part.text.encode()) if isinstance(part, TextPart) else MEDIA_BYTES


# Search.


@immutable
class _Match:
    runs_ago: int
    role: str
    text: str
    words: int
    at: int


def search(history: Sequence[Sequence[Item]], query: str, limit: int) -> JsonValue:
    """Return the items that contain all words of the query, ignoring case, newest first. If there
    are none, return those that contain any of the words. `runs_ago` 1 is the previous run."""
    words = list(dict.fromkeys(word[:MAX_WORD] for word in query.lower().split()))[:MAX_WORDS]
    found = list(_matches(history, words))
    whole = [one for one in found if one.words == len(words)]
    best = (whole or found)[: max(1, min(limit, MAX_FOUND))]
    results: list[JsonValue] = [
        {"runs_ago": one.runs_ago, "role": one.role, "text": _excerpt(one)} for one in best
    ]
    return {"results": results, "found": len(whole or found)}


def _matches(history: Sequence[Sequence[Item]], words: Sequence[str]) -> Iterator[_Match]:
    left = MAX_SEARCHED
    for runs_ago, run in enumerate(reversed(history), start=1):
        for item in reversed(run):
            role, text = _read_searchable(item)
            if len(text) > left:
                return
            left -= len(text)
            lowered = text.lower()
            places = [at for word in words if (at := lowered.find(word)) >= 0]
            if places:
                yield _Match(runs_ago, role, text, len(places), min(places))


def _read_searchable(item: Item) -> tuple[str, str]:
    """Return the author and the text of an item. A provider's reasoning is not searched."""
    match item:
        case Message(role=role, content=content):
            return role, join_text(content)
        case ToolCall(name=name, arguments=arguments):
            return "tool_call", f"{name} {arguments}"
        case ToolResult():
            return "tool_result", item.text
        case HostedCall(name=name, arguments=arguments, output=output):
            return "hosted_call", f"{name} {compact(arguments)} {compact(output)}"
        case Reasoning():
            return "reasoning", ""
        case _:
            assert_never(item)


def _excerpt(match: _Match) -> str:
    """Return at most MAX_EXCERPT characters that contain the matches."""
    if len(match.text) <= MAX_EXCERPT:
        return match.text
    begin = max(0, min(match.at - _BEFORE, len(match.text) - MAX_EXCERPT + 1))
    head = "…" if begin else ""
    room = MAX_EXCERPT - len(head)
    rest = match.text[begin:]
    return head + (rest if len(rest) <= room else rest[: room - 1] + "…")
