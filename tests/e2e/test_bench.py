"""The benchmark itself: it runs from end to end and writes its table. No figure is judged."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(120)
PROJECT = Path(__file__).parents[2]
SIZES = "--clients=1,16 --seconds=0.2 --parked=5 --readers=3"
STREAMS = "--streams=2 --words=100 --firsts=2"
PARTS = "--parts=runs,approvals,streams,parked,readers,memory"


def run_benchmark(database_url: str, output: Path, *options: str) -> list[str]:
    """Return the lines of its report."""
    subprocess.run(
        [sys.executable, "-m", "bench", f"--output={output}", "--repeats=1", *options],
        cwd=PROJECT,
        env={**os.environ, "BENCH_PG": database_url},
        check=True,
        timeout=100,
    )
    return output.read_text().splitlines()


def list_measured(lines: list[str]) -> set[str]:
    goals = [line.split(" | ") for line in lines if line.startswith("| P")]
    return {cells[0].removeprefix("| ") for cells in goals if "not measured" not in cells}


def test_the_benchmark_measures_both_sides_and_writes_its_table(
    database_url: str, tmp_path: Path
) -> None:
    sizes = [*SIZES.split(), *STREAMS.split(), PARTS]
    lines = run_benchmark(database_url, tmp_path / "results.md", *sizes)
    expected = {"P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P12", "P14"}
    assert list_measured(lines) == expected
    assert [line for line in lines if line.startswith("| 16 | Runward |")]


def test_the_benchmark_fills_a_database_and_draws_its_growth(
    database_url: str, tmp_path: Path
) -> None:
    options = ("--parts=growth", "--stored=100", "--seconds=0.2")
    lines = run_benchmark(database_url, tmp_path / "results.md", *options)
    assert list_measured(lines) == {"P9", "P14"}
    assert "## Growth: 100 finished runs and 10 parked runs" in lines
    assert len(list((tmp_path / "charts").glob("growth-*.svg"))) == 5
