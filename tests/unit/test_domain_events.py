"""Every event that the code emits is documented, and every documented one is emitted."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from runward.domain.events.event_types import MAX_VALUE_BYTES, STORED, TRANSIENT, bounded_field
from runward.domain.run.calls import ENDING_EVENTS, CallOutcome
from runward.domain.run.status import TERMINAL, format_ending_event

EMITTING = ("app/runward/domain", "app/runward/loop", "app/runward/store", "app/runward/api")
TYPE = re.compile(r"(run|message|reasoning|tool_call|agent|state|input|usage|model)(\.[a-z_]+)+")
IN_SQL = re.compile(rf"'({TYPE.pattern})'")


@cache
def sources() -> tuple[ast.Module, ...]:
    paths = (path for folder in EMITTING for path in sorted(Path(folder).rglob("*.py")))
    listing = Path("app/runward/domain/events/event_types.py")
    return tuple(ast.parse(path.read_text()) for path in paths if path != listing)


def added() -> Iterator[str]:
    """The types given to `changes.add`, where they are written out."""
    for tree in sources():
        for node in ast.walk(tree):
            match node:
                case ast.Call(
                    func=ast.Attribute(attr="add"), args=[ast.Constant(value=str(type_)), *_]
                ) if "." in type_:
                    yield type_
                case _:
                    pass


def named() -> Iterator[str]:
    """Whatever looks like a type, alone or quoted in a statement."""
    for tree in sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                if TYPE.fullmatch(node.value):
                    yield node.value
                yield from (match[1] for match in IN_SQL.finditer(node.value))


def computed() -> set[str]:
    return {*ENDING_EVENTS.values(), *(format_ending_event(status) for status in TERMINAL)}


def test_every_event_that_is_added_is_listed() -> None:
    found = set(added())
    assert {"run.waiting", "tool_call.started", "message.completed"} <= found
    assert found <= STORED.keys() | TRANSIENT.keys()


def test_whatever_looks_like_an_event_type_is_one() -> None:
    assert set(named()) <= STORED.keys() | TRANSIENT.keys()


def test_computed_types_are_listed() -> None:
    assert computed() <= STORED.keys()
    assert ENDING_EVENTS.keys() == set(CallOutcome)


def test_every_listed_type_is_emitted_somewhere() -> None:
    assert STORED.keys() | TRANSIENT.keys() <= set(named()) | computed()


def test_no_type_is_both_stored_and_transient() -> None:
    assert not STORED.keys() & TRANSIENT.keys()


@pytest.mark.parametrize(
    ("length", "whole"), [(MAX_VALUE_BYTES - 2, True), (MAX_VALUE_BYTES - 1, False)]
)
def test_an_event_repeats_a_value_only_where_it_is_small(length: int, *, whole: bool) -> None:
    value = "x" * length
    if whole:
        assert bounded_field("arguments", value) == {"arguments": value}
    else:
        assert bounded_field("arguments", value) == {
            "arguments": None,
            "arguments_bytes": length + 2,
            "truncated": True,
        }
