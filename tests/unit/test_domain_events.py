"""Every kind of event is written by something, and nothing else looks like an event type."""

import ast
import re
from collections.abc import Iterator

import pytest

from runward.domain.events.base import MAX_VALUE_BYTES, bounded_field
from runward.domain.events.kinds import STORED, TRANSIENT
from runward.domain.run.run_events import CALL_ENDINGS
from runward.domain.run.state import CallOutcome
from runward.domain.run.status import RUN_ENDINGS, TERMINAL
from tests.support.sources import PACKAGE, nodes_of, read_sources

PRODUCING = tuple(PACKAGE / folder for folder in ("domain/run", "loop", "store", "api"))
OPENAI_VALUES = (PACKAGE / "api/responses/models.py", PACKAGE / "api/responses/items.py")
"""Values of `include`, which look the same."""
TYPE = re.compile(r"(run|message|reasoning|tool_call|agent|state|input|usage|model)(\.[a-z_]+)+")
IN_SQL = re.compile(rf"'({TYPE.pattern})'")


def produced_nodes() -> Iterator[ast.AST]:
    for path, source in read_sources().items():
        if any(path.is_relative_to(each) for each in PRODUCING) and path not in OPENAI_VALUES:
            yield from nodes_of(source)


def named_kinds() -> Iterator[str]:
    for node in produced_nodes():
        if isinstance(node, ast.Name):
            yield node.id


def named_types() -> Iterator[str]:
    """Whatever looks like a type, alone or quoted in a statement."""
    for node in produced_nodes():
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if TYPE.fullmatch(node.value):
                yield node.value
            yield from (match[1] for match in IN_SQL.finditer(node.value))


def test_every_kind_that_is_stored_is_written_by_something() -> None:
    names = set(named_kinds())
    assert [kind.__name__ for kind in STORED.values() if kind.__name__ not in names] == []


def test_whatever_looks_like_an_event_type_is_one() -> None:
    assert set(named_types()) <= STORED.keys() | TRANSIENT.keys()


def test_what_ends_has_a_last_event_that_is_named_after_how_it_ends() -> None:
    assert {status: kind.type for status, kind in RUN_ENDINGS.items()} == {
        status: f"run.{status}" for status in TERMINAL
    }
    assert {outcome: kind.type for outcome, kind in CALL_ENDINGS.items()} == {
        outcome: f"tool_call.{outcome}" for outcome in CallOutcome
    }


def test_no_type_is_both_stored_and_transient() -> None:
    assert not STORED.keys() & TRANSIENT.keys()


@pytest.mark.parametrize(
    ("length", "whole"), [(MAX_VALUE_BYTES - 2, True), (MAX_VALUE_BYTES - 1, False)]
)
def test_an_event_repeats_a_value_only_where_it_is_small(length: int, *, whole: bool) -> None:
    value = "x" * length
    if whole:
        assert bounded_field("output", value) == {"output": value}
    else:
        assert bounded_field("output", value) == {
            "output": None,
            "output_bytes": length + 2,
            "truncated": True,
        }
