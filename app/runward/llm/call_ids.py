"""Call IDs in requests. A conversation can contain IDs of clients and of other providers, and some
providers reject their characters or their length. Only the request contains the replaced IDs."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from hashlib import sha256
from string import ascii_letters, digits
from typing import Final

from runward.domain.ids import CallId
from runward.domain.run.items import Item, ToolCall, ToolResult

MAX_REPLACED: Final = 64
"""Number of characters of a replaced ID."""
_DIGITS: Final = 16
_SHORT: Final = 9
_LETTERS: Final = ascii_letters + digits
_NOT_ALLOWED: Final = re.compile(r"[^A-Za-z0-9_-]")


def replaced_id(call_id: str) -> CallId:
    """Return the beginning of the ID and a digest, so that different IDs stay different. The same
    ID is always replaced by the same ID."""
    digest = sha256(call_id.encode(errors="surrogatepass")).hexdigest()[:_DIGITS]
    readable = _NOT_ALLOWED.sub("_", call_id)[: MAX_REPLACED - _DIGITS - 1]
    return CallId(f"{readable}_{digest}")


def short_id(call_id: str) -> CallId:
    """Return 9 letters and digits that depend only on the ID."""
    number = int.from_bytes(sha256(call_id.encode(errors="surrogatepass")).digest())
    letters: list[str] = []
    for _ in range(_SHORT):
        number, digit = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[digit])
    return CallId("".join(letters))


def with_accepted_ids(
    items: Iterable[Item],
    accepted: re.Pattern[str],
    replacement: Callable[[str], CallId] = replaced_id,
) -> Iterator[Item]:
    """Yield the items. The IDs of calls and results that do not match are replaced."""
    for item in items:
        if isinstance(item, ToolCall | ToolResult) and not accepted.fullmatch(item.call_id):
            yield replace(item, call_id=replacement(item.call_id))
        else:
            yield item
