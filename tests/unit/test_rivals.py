"""The comparison with other projects: its programs, its environments and its published table."""

import re
from pathlib import Path

from bench.rivals import FOLDER, RIVALS
from bench.rivals.table import rows

PAGE = Path("docs/explanation/performance-comparison.md").read_text()
RESULTS = Path("bench/RIVALS.md").read_text()


def test_each_rival_has_a_program_and_a_lock_file() -> None:
    for entry in RIVALS:
        assert entry.program.exists()
        assert re.search(rf"^{entry.package}==", entry.lock.read_text(), re.MULTILINE)
    locked = {path.stem for path in (FOLDER / "requirements").glob("*.lock")}
    assert locked == {entry.name for entry in RIVALS}


def test_make_installs_each_rival() -> None:
    made = re.search(r"^RIVALS := (.*)$", Path("Makefile").read_text(), re.MULTILINE)
    assert made
    assert made[1].split() == [entry.name for entry in RIVALS]


def test_the_page_shows_the_results() -> None:
    assert rows(PAGE) == rows(RESULTS)
    assert len(rows(RESULTS)) == len(RIVALS) + 4  # the head, the floor and Runward


def test_the_page_describes_each_rival() -> None:
    for entry in RIVALS:
        name = entry.title.removesuffix(" + PostgreSQL checkpointer")
        name = name.removesuffix(" + SQLAlchemy session")
        described = re.findall(rf"^\| {re.escape(name)} \|", PAGE, re.MULTILINE)
        assert len(described) == 2, name
