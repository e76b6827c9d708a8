"""Slow steps, shown as they happen: `Starting PostgreSQL … 0.6 s`."""

import time
from contextlib import suppress
from types import TracebackType
from typing import Self, TextIO


class ProgressPrinter:
    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._begun: float | None = None

    def start_step(self, text: str) -> None:
        """Start the step that `text` names, and end the step before it."""
        self._end_step()
        self._begun = time.monotonic()
        self._write(f"{text} … ")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self._end_step()
        elif self._begun is not None:
            self._write("\n")

    def _end_step(self) -> None:
        if self._begun is not None:
            self._write(f"{time.monotonic() - self._begun:.1f} s\n")
            self._begun = None

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError):  # nobody reads it
            self._out.write(text)
            self._out.flush()
