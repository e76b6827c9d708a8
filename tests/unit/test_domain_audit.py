"""The hashes of the audit log, and `runward audit verify`: each change of an export is found."""

import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from runward.__main__ import app
from runward.cli.exits import Exit
from runward.domain.audit import (
    MAX_FIELD_BYTES,
    digest_content,
    hash_entry,
    make_portable,
    select_changes,
)
from runward.domain.json import JsonObject, canonical, compact

ENTRIES = 6
PROJECT = f"proj_{'0' * 32}"
VERIFIED = f"{ENTRIES} entries verified, with the numbers 1 to {ENTRIES}."
EARLIER = "Earlier entries may be missing."
LATER = "Later entries may be missing, or all hashes may have been computed again."


def make_entries(count: int, actor: str = "ci") -> Iterator[JsonObject]:
    previous: str | None = None
    for number in range(1, count + 1):
        before: JsonObject | None = None if number % 3 == 0 else {"model": "a", "limit_usd": 0.5}
        after: JsonObject = {"model": f"größer {number}", "limit_usd": 2, "tools": ["x", None]}
        entry: JsonObject = {
            "id": f"aud_{number:032x}",
            "object": "audit_entry",
            "project_id": PROJECT,
            "number": number,
            "created_at": "2026-11-02T10:00:00Z",
            "actor": {"type": "key", "id": f"key_{'1' * 32}", "name": actor},
            "ip_address": "192.0.2.7",
            "request_id": None,
            "action": "agent.updated",
            "resource": {"type": "agent", "id": "clerk", "version": number},
            "run_id": f"run_{number:032x}" if number % 2 == 0 else None,
            "before": before,
            "after": after,
            "salt": "00ff",
            "before_digest": digest_content("00ff", before),
            "after_digest": digest_content("00ff", after),
            "previous_hash": previous,
        }
        previous = hash_entry(entry)
        yield {**entry, "hash": previous}


def verify(path: Path, entries: list[JsonObject], *options: str) -> Result:
    path.write_text("".join(compact(entry) + "\n" for entry in entries), encoding="utf-8")
    return CliRunner().invoke(app, ["audit", "verify", str(path), *options])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


@pytest.fixture
def entries() -> list[JsonObject]:
    return list(make_entries(ENTRIES))


def check_broken(result: Result, line: int) -> None:
    assert result.exit_code == Exit.FAILED, result.output
    assert result.output.startswith(f"Line {line}"), result.output
    assert "does not verify" in result.output


def spoil(value: Any) -> Iterator[Any]:
    """Return other values, one for each place inside the value."""
    match value:
        case dict():
            members = cast(JsonObject, value)
            for name in members:
                yield from ({**members, name: other} for other in spoil(members[name]))
                yield {key: one for key, one in members.items() if key != name}
            yield {**members, "more": 1}
        case list():
            items = cast(list[Any], value)
            for at in range(len(items)):
                yield from ([*items[:at], other, *items[at + 1 :]] for other in spoil(items[at]))
                yield items[:at] + items[at + 1 :]
        case str():
            yield from (value + "x", None, 7)
        case None:
            yield from ("x", 0, {})
        case _:
            yield from (value + 1, str(value), float(value) + 0.25, None)


def test_an_export_verifies(file: Path, entries: list[JsonObject]) -> None:
    head = str(entries[-1]["hash"])
    result = verify(file, entries, "--head", head)
    text = f"{VERIFIED}\nThe project is {PROJECT}.\nThe last hash is {head}.\n"
    assert (result.exit_code, result.output) == (0, text)
    assert json.loads(verify(file, entries, "--json").output) == {
        "project_id": PROJECT,
        "entries": ENTRIES,
        "erased": 0,
        "first": 1,
        "last": ENTRIES,
        "previous_hash": None,
        "last_hash": head,
        "head": None,
    }


def test_a_change_of_each_place_of_an_entry_is_found(file: Path, entries: list[JsonObject]) -> None:
    changed = list(spoil(entries[2]))
    assert len(changed) > 60
    for other in changed:
        check_broken(verify(file, [*entries[:2], other, *entries[3:]]), 3)


def test_a_changed_entry_with_a_new_hash_breaks_the_next_one(
    file: Path, entries: list[JsonObject]
) -> None:
    changed = {**entries[2], "ip_address": "192.0.2.8"}
    changed["hash"] = hash_entry(changed)
    check_broken(verify(file, [*entries[:2], changed, *entries[3:]]), 4)


@pytest.mark.parametrize("at", range(1, ENTRIES - 1))
def test_a_missing_a_moved_and_a_repeated_entry_are_found(
    file: Path, entries: list[JsonObject], at: int
) -> None:
    check_broken(verify(file, entries[:at] + entries[at + 1 :]), at + 1)
    check_broken(
        verify(file, [*entries[:at], entries[at + 1], entries[at], *entries[at + 2 :]]), at + 1
    )
    check_broken(verify(file, [*entries[: at + 1], *entries[at:]]), at + 2)


def test_an_export_that_was_cut_is_found_with_the_hashes_of_its_ends(
    file: Path, entries: list[JsonObject]
) -> None:
    head, anchor = str(entries[-1]["hash"]), str(entries[1]["hash"])
    shortened = verify(file, entries[:-1])
    assert shortened.exit_code == 0, "the file alone cannot show it"
    assert LATER in shortened.output
    assert EARLIER in verify(file, entries[2:]).output
    check_broken(verify(file, entries[:-1], "--head", head), ENTRIES - 1)
    rest = verify(file, entries[2:], "--head", head, "--previous-hash", anchor)
    assert rest.exit_code == 0
    assert f"The hash of the entry before the first one is {anchor}." in rest.output
    assert EARLIER not in rest.output
    assert LATER not in rest.output
    check_broken(verify(file, entries[3:], "--previous-hash", anchor), 1)
    assert verify(file, []).exit_code == Exit.FAILED


def test_a_chain_that_was_computed_again_does_not_have_the_stored_hash(file: Path) -> None:
    whole = list(make_entries(ENTRIES))
    stored = str(whole[2]["hash"])
    since = verify(file, whole, "--head", stored)
    assert since.exit_code == 0
    assert "The hash of --head is the one of entry 3. The entries after it may" in since.output
    forged = list(make_entries(ENTRIES, actor="mallory"))
    assert LATER in verify(file, forged).output
    check_broken(verify(file, forged, "--head", stored), ENTRIES)


def test_a_line_that_was_cut_is_found(file: Path, entries: list[JsonObject]) -> None:
    verify(file, entries)
    whole = file.read_bytes()
    last = len(whole[:-1].rpartition(b"\n")[2])
    for missing in range(2, last, 25):
        file.write_bytes(whole[:-missing])
        check_broken(CliRunner().invoke(app, ["audit", "verify", str(file)]), ENTRIES)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"[1]", id="array"),
        pytest.param(b"", id="empty"),
        pytest.param(b"[" * 200_000, id="nested"),
        pytest.param(b'{"a":' * 100 + b"1" + b"}" * 100, id="deep"),
        pytest.param(b'{"number":' + b"9" * 10_000 + b"}", id="digits"),
        pytest.param(b'{"number":1,"hash":"\\ud800","previous_hash":null}', id="surrogate"),
        pytest.param(b"\xff", id="not UTF-8"),
        pytest.param(b'"' + b"x" * 9_000_000 + b'"', id="long"),
    ],
)
def test_a_line_that_is_no_entry_is_found(file: Path, line: bytes) -> None:
    [entry] = make_entries(1)
    file.write_bytes(compact(entry).encode() + b"\n" + line + b"\n")
    check_broken(CliRunner().invoke(app, ["audit", "verify", str(file)]), 2)


@pytest.mark.parametrize(
    "other",
    ['"request_id":"x","request_id":null', '"request_id":NaN', '"request_id":1e999'],
)
def test_json_that_programs_read_in_different_ways_is_refused(file: Path, other: str) -> None:
    [entry] = make_entries(1)
    line = compact(entry)
    assert line.count('"request_id":null') == 1
    file.write_text(line.replace('"request_id":null', other))
    check_broken(CliRunner().invoke(app, ["audit", "verify", str(file)]), 1)


def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["audit", "verify", str(tmp_path / "none")])
    assert (result.exit_code, "Cannot read" in result.output) == (Exit.USAGE, True)


def test_erased_content_still_verifies(file: Path, entries: list[JsonObject]) -> None:
    erased: JsonObject = {**entries[3], "before": None, "after": None, "salt": None}
    result = verify(file, [*entries[:3], erased, *entries[4:]])
    assert result.exit_code == 0
    assert "The content of 1 entry was erased." in result.output


def test_content_that_no_erasure_could_erase_is_missed(
    file: Path, entries: list[JsonObject]
) -> None:
    """Erasures erase only the content of entries that belong to a run."""
    erased: JsonObject = {"before": None, "after": None, "salt": None}
    check_broken(verify(file, [*entries[:2], {**entries[2], **erased}, *entries[3:]]), 3)


def test_a_salt_without_content_is_found(file: Path) -> None:
    [entry] = make_entries(1)
    bare = {**entry, "before_digest": None, "after_digest": None}
    bare |= {"before": None, "after": None, "salt": None, "hash": hash_entry(bare)}
    assert verify(file, [bare]).exit_code == 0
    check_broken(verify(file, [{**bare, "salt": "00ff"}]), 1)


def test_an_entry_of_another_project_is_found(file: Path, entries: list[JsonObject]) -> None:
    other = {**entries[-1], "project_id": f"proj_{'1' * 32}"}
    check_broken(verify(file, [*entries[:-1], {**other, "hash": hash_entry(other)}]), ENTRIES)


def test_a_long_file_is_read_once_and_not_kept(file: Path) -> None:
    peaks = list[int]()
    for count in (500, 500, 4_000):  # the first one fills caches
        verify(file, list(make_entries(count)))
        tracemalloc.start()
        try:
            result = CliRunner().invoke(app, ["audit", "verify", str(file)])
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        assert result.output.startswith(f"{count} entries verified")
    assert peaks[2] < peaks[1] + 100_000, peaks


texts = st.text(st.characters(exclude_categories=["Cs"]))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=20,
)


@given(json_values)
def test_the_standard_library_writes_the_same_canonical_json(value: Any) -> None:
    """Therefore, a program without Runward computes the same digests."""
    portable = make_portable(value)
    text = json.dumps(portable, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    assert canonical(portable) == text
    assert make_portable(json.loads(text)) == portable


@pytest.mark.parametrize(
    ("number", "portable"),
    [
        (30.0, 30),
        (-0.0, 0),
        (0.5, 0.5),
        (0.0001, 0.0001),
        (0.00001, "0.00001"),
        (2**53 - 1, 2**53 - 1),
        (2**53, "9007199254740992"),
        (1e300, "1e+300"),
        (True, True),
    ],
)
def test_numbers_that_libraries_write_in_different_ways_become_texts(
    number: float, portable: Any
) -> None:
    assert select_changes(None, {"a": [{"b": number}]}) == (None, {"a": [{"b": portable}]})
    assert type(make_portable(number)) is type(portable)


def test_a_long_field_is_replaced_by_its_digest() -> None:
    _, after = select_changes(None, {"short": "x", "long": "x" * MAX_FIELD_BYTES})
    assert after is not None
    assert after["short"] == "x"
    assert str(after["long"]).startswith("sha256:")
