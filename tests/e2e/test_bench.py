"""The benchmark itself: it runs from end to end and writes its table. No figure is judged."""

import os
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[2]
SIZES = "--clients=1,2 --seconds=0.2 --repeats=1 --parked=5 --readers=3"
STREAMS = "--streams=2 --words=100 --firsts=2"
PARTS = "--parts=runs,approvals,streams,parked,readers"


def test_the_benchmark_measures_both_sides_and_writes_its_table(
    database_url: str, tmp_path: Path
) -> None:
    output = tmp_path / "results.md"
    subprocess.run(
        [
            sys.executable,
            "-m",
            "bench",
            *SIZES.split(),
            *STREAMS.split(),
            PARTS,
            f"--output={output}",
        ],
        cwd=PROJECT,
        env={**os.environ, "BENCH_PG": database_url},
        check=True,
        timeout=50,
    )
    lines = output.read_text().splitlines()
    measured = {line.split(" | ")[0].removeprefix("| ") for line in lines if "| P" in line}
    assert measured >= {"P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8"}
    assert [line for line in lines if line.startswith("| 2 | Runward |")]
