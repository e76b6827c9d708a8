"""Counting how much a piece of code does, so that tests need no clock."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Operations:
    """`lines`: executed lines of Python in all functions that were entered meanwhile."""

    lines: int = 0


@contextmanager
def counted_operations() -> Generator[Operations]:
    """Count what this thread does inside the block."""
    count, lines = Operations(), 0

    def trace(_frame: Any, event: str, _arg: Any) -> Any:
        nonlocal lines
        if event == "line":
            lines += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield count
    finally:
        sys.settrace(before)
        count.lines = lines


@contextmanager
def counted_calls(function: Callable[..., Any]) -> Generator[list[int]]:
    """Count how often this thread calls a function that is written in C."""
    with _weighed(lambda called: int(called is function)) as count:
        yield count


@contextmanager
def counted_scans() -> Generator[list[int]]:
    """Count the characters and bytes of all texts whose methods this thread calls."""
    with _weighed(_text_length) as count:
        yield count


def _text_length(called: Any) -> int:
    text = called.__self__
    return len(text) if isinstance(text, str | bytes | bytearray) else 0


@contextmanager
def _weighed(weight: Callable[[Any], int]) -> Generator[list[int]]:
    """Add up the weights of the C functions that this thread calls."""
    count = [0]

    def profile(_frame: Any, event: str, arg: Any) -> None:
        if event == "c_call":
            count[0] += weight(arg)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield count
    finally:
        sys.setprofile(before)


class CountedText(str):
    """A text whose comparisons are lines of Python, so that a search through a list is counted."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other)
