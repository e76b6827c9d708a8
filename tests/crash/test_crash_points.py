"""Processes are killed, frozen and cut off from PostgreSQL at commits and effects. Another process
continues, and the run ends as required. `make crash` tests every combination.
"""

import os
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from tests.crash.build import found
from tests.crash.cells import FAULTS, KINDS, Cell, Kind, all_cells, meaningless
from tests.crash.playing import play_all
from tests.crash.points import POINTS
from tests.support.postgres import Databases

LANES = 3
PARTS = 8
DAY = int(os.environ.get("RUNWARD_CRASH_DAY", datetime.now(UTC).toordinal()))
"""Each day other points are chosen, with another kind of call and another fault."""


def test_every_point_is_in_the_code_and_has_a_name_of_its_own() -> None:
    for point in POINTS:
        found(point.target)
    assert len({point.name for point in POINTS}) == len(POINTS)


def test_a_point_whose_function_is_gone_stops_the_build() -> None:
    for target in ("runward.store.runs.queue:gone", "runward.store.runs.gate:Gone.write"):
        with pytest.raises(SystemExit, match="is gone"):
            found(target)


def test_a_cut_leaves_no_copy_of_a_descriptor_open() -> None:
    """The reader of a pipe waits until every copy of its other end is closed."""
    code = """
import os
from tests.crash.build import cut_connections

reading, writing = os.pipe()
cut_connections("postgresql://localhost:1/nothing")
os.close(writing)
os.set_blocking(reading, False)
assert os.read(reading, 1) == b""
"""
    # In a process of its own: the connections of this one belong to the other tests.
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)


def test_every_combination_is_played_or_has_a_reason() -> None:
    played = {(cell.point.name, cell.kind) for cell in all_cells()}
    for point in POINTS:
        for kind in KINDS:
            assert ((point.name, kind) in played) != bool(meaningless(point, kind))
        assert any((point.name, kind) in played for kind in KINDS), point.name


def cells_of(day: int) -> list[Cell]:
    """Choose one combination for one point in eight. Within 24 times as many days as a point has
    kinds, each of its combinations is chosen."""
    turn, part = divmod(day, PARTS)
    chosen: list[Cell] = []
    for number, point in enumerate(POINTS[part::PARTS]):
        kinds: list[Kind] = [kind for kind in KINDS if meaningless(point, kind) is None]
        fault = FAULTS[(number + turn) % len(FAULTS)]
        chosen.append(Cell(point, fault, kinds[(number + turn // len(FAULTS)) % len(kinds)]))
    return chosen


def test_within_some_months_every_combination_is_played() -> None:
    days = PARTS * len(FAULTS) * len(KINDS)
    assert {cell for day in range(days) for cell in cells_of(day)} == set(all_cells())


@pytest.mark.timeout(300)
def test_a_process_may_be_lost_at_every_point(migrated_databases: Databases) -> None:
    outcomes = play_all(migrated_databases, cells_of(DAY), LANES)
    assert len(outcomes) >= len(POINTS) // PARTS
    failed = [outcome for outcome in outcomes if not outcome.fine]
    assert failed == [], "\n".join(f"{one.cell}: {one.problems}" for one in failed)
    assert {outcome.cell.fault for outcome in outcomes} == set(FAULTS)
