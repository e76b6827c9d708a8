"""The audit log of a project: entries whose hashes form a chain.

The hash of an entry covers everything except its content: the values `before` and `after`, and the
random `salt` of their digests. Therefore, content can be erased and the chain still verifies.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pydantic import JsonValue

from runward.domain.json import JsonObject, compute_digest, is_same_json, to_compact_json

UNHASHED: Final = frozenset({"before", "after", "salt", "hash"})
"""Members of an entry that its hash does not cover. `before_digest` and `after_digest` cover the
content."""
MAX_FIELD_BYTES: Final = 16_384
"""A longer field of a resource, as JSON in UTF-8, is replaced by its digest."""


class ActorType(StrEnum):
    """Who changed something. `key`: a request with an API key. `console_session`: a person in the
    console. `operator`: a command on the database, or the configuration of the deployment."""

    KEY = "key"
    CONSOLE_SESSION = "console_session"
    OPERATOR = "operator"


class BrokenChainError(ValueError):
    """An entry does not verify. `number`: its number in the chain, as far as it can be read."""

    def __init__(self, number: JsonValue, reason: str) -> None:
        super().__init__(reason)
        self.number = number


@dataclass(frozen=True, slots=True)
class Verified:
    """A part of a chain that verifies. `first` and `last`: numbers. `previous_hash`: the hash of
    the entry before the first one, or None if the chain begins here."""

    entries: int
    first: int
    last: int
    previous_hash: str | None
    last_hash: str


def select_changes(
    before: JsonObject | None, after: JsonObject | None
) -> tuple[JsonObject | None, JsonObject | None]:
    """Return the content of an entry. For an update, only the fields that differ."""
    if before is not None and after is not None:
        same = {n for n, one in before.items() if n in after and is_same_json(one, after[n])}
        before = {name: one for name, one in before.items() if name not in same}
        after = {name: one for name, one in after.items() if name not in same}
    return _shorten(before), _shorten(after)


def _shorten(content: JsonObject | None) -> JsonObject | None:
    return content and {
        name: compute_digest(value) if len(to_compact_json(value)) > MAX_FIELD_BYTES else value
        for name, value in content.items()
    }


def digest_content(salt: str, content: JsonObject | None) -> str | None:
    """Return the digest of `before` or `after`. None: there is no content."""
    return None if content is None else compute_digest([salt, content])


def hash_entry(entry: Mapping[str, JsonValue]) -> str:
    """Return the hash of an entry as the API shows it, with or without its own hash."""
    return compute_digest({name: one for name, one in entry.items() if name not in UNHASHED})


def verify_chain(entries: Iterable[JsonObject]) -> Verified | None:
    """Verify entries in the order of their numbers. Returns None if there are none. Raises
    BrokenChainError."""
    count, first, last = 0, None, None
    for entry in entries:
        link = _verify_entry(entry)
        if last is not None and link.number != last.number + 1:
            reason = f"the entry before it has the number {last.number}"
            raise BrokenChainError(link.number, reason)
        if last is not None and link.previous_hash != last.hash:
            reason = "its `previous_hash` is not the hash of the entry before it"
            raise BrokenChainError(link.number, reason)
        count, first, last = count + 1, first or link, link
    if first is None or last is None:
        return None
    return Verified(count, first.number, last.number, first.previous_hash, last.hash)


@dataclass(frozen=True, slots=True)
class _Link:
    number: int
    previous_hash: str | None
    hash: str


def _verify_entry(entry: JsonObject) -> _Link:
    """Verify the hash and the content of an entry. Raises BrokenChainError."""
    match entry:
        case {
            "number": int(number),
            "previous_hash": str() | None as previous,
            "hash": str(hash_),
        }:
            pass
        case _:
            raise BrokenChainError(entry.get("number"), "it is not an entry of an audit log")
    if hash_entry(entry) != hash_:
        raise BrokenChainError(number, "its `hash` does not match the entry")
    if (previous is None) != (number == 1):
        raise BrokenChainError(number, "only the first entry of a log has no `previous_hash`")
    _verify_content(number, entry)
    return _Link(number, previous, hash_)


def _verify_content(number: int, entry: JsonObject) -> None:
    """Erased content has no salt."""
    salt = entry.get("salt")
    for name in ("before", "after"):
        content, digest = entry.get(name), entry.get(f"{name}_digest")
        is_erased = salt is None and content is None
        if not is_erased and (
            not isinstance(salt, str)
            or not isinstance(content, dict | None)
            or digest_content(salt, content) != digest
        ):
            raise BrokenChainError(number, f"its `{name}` does not match `{name}_digest`")
