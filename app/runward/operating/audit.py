"""`runward audit verify`: verify an export of the audit log without a running service."""

import json
from collections.abc import Generator
from math import isfinite
from pathlib import Path
from typing import Any, BinaryIO, Final, NoReturn, cast

from runward.cli.exits import Exit, fail
from runward.cli.printing import print_result
from runward.domain.audit import BrokenChainError, Verified, verify_chain
from runward.domain.json import MAX_DEPTH, JsonObject, is_nested_deeper

MAX_LINE_BYTES: Final = 8 * 1024 * 1024
"""Maximum length of a line. An entry is shorter, because its fields are."""


class _Lines:
    """Reads entries. `number`: the line that was read last."""

    def __init__(self, file: BinaryIO) -> None:
        self.number = 0
        self._file = file

    def read(self) -> Generator[JsonObject]:
        """Raises ValueError for a line that is not a JSON object."""
        while line := self._file.readline(MAX_LINE_BYTES + 1):
            self.number += 1
            if len(line) > MAX_LINE_BYTES:
                raise ValueError(f"it is longer than {MAX_LINE_BYTES:,} bytes")
            yield _parse(line)


def verify_file(path: Path, *, head: str | None, previous_hash: str | None, as_json: bool) -> None:
    """End the command with exit code 1 if an entry does not verify."""
    try:
        with path.open("rb") as file:
            lines = _Lines(file)
            verified = _verify(lines, head)
    except OSError as error:
        fail(f"Cannot read {path}: {error.strerror}.", Exit.USAGE)
    if verified is None:
        fail("The file contains no entries.", Exit.FAILED)
    if previous_hash is not None and verified.previous_hash != previous_hash:
        text = f"its `previous_hash` is {verified.previous_hash}, not {previous_hash}"
        _fail(1, verified.first, f"{text}. Entries before it are missing")
    if head is not None and verified.head is None:
        text = f"it is the last entry, and no entry has the `hash` {head}"
        _fail(lines.number, verified.last, f"{text}. Entries were removed or computed again")
    found = {
        "project_id": verified.project_id,
        "entries": verified.entries,
        "erased": verified.erased,
        "first": verified.first,
        "last": verified.last,
        "previous_hash": verified.previous_hash,
        "last_hash": verified.last_hash,
        "head": verified.head,
    }
    text = "\n".join([_describe(verified), *_describe_unchecked(verified, previous_hash)])
    print_result(found, text, as_json=as_json)


def _verify(lines: _Lines, head: str | None) -> Verified | None:
    try:
        return verify_chain(lines.read(), head)
    except BrokenChainError as error:
        _fail(lines.number, error.number, str(error))
    except ValueError as error:
        _fail(lines.number, None, str(error))


def _parse(line: bytes) -> JsonObject:
    """Raises ValueError, also for an object that has a member twice, because programs differ in
    which of them they read."""
    try:
        found: Any = json.loads(
            line,
            object_pairs_hook=_read_members,
            parse_constant=_refuse_constant,
            parse_float=_read_number,
        )
    except RecursionError:
        found = None
    if not isinstance(found, dict) or is_nested_deeper(cast(JsonObject, found), MAX_DEPTH):
        raise ValueError("it is not an entry of an audit log")
    return cast(JsonObject, found)


def _read_members(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(members)
    if len(found) < len(members):
        raise ValueError("it has a member twice")
    return found


def _read_number(text: str) -> float:
    """Raises ValueError for a number like 1e999, whose canonical JSON would be that of null."""
    if not isfinite(number := float(text)):
        raise ValueError(f"it contains {text}")
    return number


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"it contains {constant}")


def _fail(line: int, number: Any, reason: str) -> NoReturn:
    entry = f", entry {number}" if isinstance(number, int) else ""
    fail(f"Line {line}{entry} does not verify: {reason}.", Exit.FAILED)


def _describe(verified: Verified) -> str:
    lines = [
        f"{_count(verified.entries)} verified, with the numbers {verified.first} to"
        f" {verified.last}.",
        f"The project is {verified.project_id}.",
        f"The last hash is {verified.last_hash}.",
    ]
    if verified.previous_hash is not None:
        lines.append(f"The hash of the entry before the first one is {verified.previous_hash}.")
    if verified.erased:
        lines.append(f"The content of {_count(verified.erased)} was erased.")
    return "\n".join(lines)


def _describe_unchecked(verified: Verified, previous_hash: str | None) -> Generator[str]:
    """Describe the changes that the chain alone cannot show."""
    if verified.first > 1 and previous_hash is None:
        yield "Earlier entries may be missing. To check this, use --previous-hash."
    if verified.head is None:
        yield (
            "Later entries may be missing, or all hashes may have been computed again. To check"
            " this, use --head."
        )
    elif verified.head < verified.last:
        yield (
            f"The hash of --head is the one of entry {verified.head}. The entries after it may have"
            " been removed or computed again."
        )


def _count(entries: int) -> str:
    return "1 entry" if entries == 1 else f"{entries} entries"
