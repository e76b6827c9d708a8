"""The table of the drill, made of a small evidence folder."""

from itertools import pairwise
from pathlib import Path
from typing import Final
from uuid import UUID

import pytest

from tests.checker.breaches import PLANTED, a_call_is_repeated
from tests.checker.sample import write_sample
from tests.checker.spoiling import Breach, Lines
from tests.checker.story import START, shown
from tests.drill.phases import Phase
from tests.drill.table import CHECKED, HEAD, WITHOUT_EVIDENCE, judge

TIMES: Final = (START - 60, START + 2, START + 600)
PHASES: Final = [Phase("a phase", began, ended) for began, ended in pairwise(TIMES)]
OUTAGE: Final = (START + 1, START + 4)


def read_columns(folder: Path) -> tuple[dict[str, list[float]], set[str]]:
    """Return the figures of each column, and the rules that were violated."""
    table, broken = judge(folder, PHASES, [OUTAGE])
    head, _, *rows = [line.strip("| ").split(" | ") for line in table.splitlines()]
    assert tuple(head) == HEAD
    columns = {
        name: [float(row[place]) for row in rows] for place, name in enumerate(head) if place
    }
    return columns, {violation.rule for violation in broken}


def lose_a_run(lines: Lines) -> None:
    """A run was accepted in the second phase, and is in no table."""
    minted = UUID(int=int((START + 5) * 1000) << 80 | 7 << 76)
    lines.ask("/v1/runs", 202, {"id": shown("run", str(minted))})


def test_each_figure_belongs_to_its_phase(tmp_path: Path) -> None:
    write_sample(tmp_path)
    columns, broken = read_columns(tmp_path)
    assert not broken
    assert columns["without PostgreSQL (s)"] == [1, 2]
    ended = [columns[name] for name in ("completed", "failed", "other ends")]
    for runs in (columns["runs started"], [sum(row) for row in zip(*ended, strict=True)]):
        assert sum(runs) == 8
        assert all(runs)
    assert columns["repeated effects"] == columns["lost runs"] == [0, 0]


@pytest.mark.parametrize(
    ("breach", "column", "counts"),
    [(lose_a_run, "lost runs", [0, 1]), (a_call_is_repeated, "repeated effects", [1, 0])],
)
def test_a_planted_breach_is_counted(
    breach: Breach, column: str, counts: list[float], tmp_path: Path
) -> None:
    write_sample(tmp_path)
    breach(Lines(tmp_path))
    columns, broken = read_columns(tmp_path)
    assert columns[column] == counts
    assert len(broken) == 1


def test_each_rule_is_checked_unless_the_drill_has_no_evidence_for_it() -> None:
    assert {rule.__name__ for rule in CHECKED + WITHOUT_EVIDENCE} == {rule for rule, _ in PLANTED}
