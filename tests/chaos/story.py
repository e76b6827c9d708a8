"""Select the lines of evidence that help most to understand a violation."""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Final
from uuid import UUID

from tests.checker import Violation
from tests.checker.evidence import Folder

RUN: Final = re.compile(r"run_([0-9a-f]{32})")
MARGIN_SECONDS: Final = 1.0


def lines_about(folder: Folder, violation: Violation) -> list[str]:
    """Return the events of the run that is named, and the faults meanwhile, in order."""
    named = RUN.search(f"{violation.where} {violation.what}")
    if named is None:
        return []
    lines = sorted(_events(folder, str(UUID(named[1]))))
    if lines:
        first, last = lines[0][0] - MARGIN_SECONDS, lines[-1][0] + MARGIN_SECONDS
        lines += [line for line in _faults(folder) if first <= line[0] <= last]
    return [f"{at % 10_000:9.3f}  {text}" for at, text in sorted(lines)]


def _events(folder: Folder, run_id: str) -> Iterator[tuple[float, str]]:
    for row in folder.rows("run_events"):
        if row["run_id"] == run_id:
            at = datetime.fromisoformat(row["created_at"]).timestamp()
            call = row["data"].get("call_id") or ""
            yield at, f"{row['seq']:4} {row['type']} {call}"


def _faults(folder: Folder) -> Iterator[tuple[float, str]]:
    for fault in folder.faults():
        lasted = f" for {fault.until - fault.at:.1f} s" if fault.until else ""
        yield fault.at, f"     FAULT {fault.kind} {fault.target} {fault.detail or ''}{lasted}"
