"""Measure the tests of this folder. `make environments` prints the results as a table. If
RUNWARD_FIGURES names a folder, it also writes them to `environments.json` in that folder.
"""

import json
import os
import resource
from collections.abc import Callable, Generator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.environments.processes import FULL, Measured

CPU = pytest.StashKey[float]()
COLUMNS = ("runs", "events", "hits", "refused", "seconds")
Figures: TypeAlias = dict[str, dict[str, float]]


def cpu_seconds() -> float:
    """Of this process, and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


@pytest.fixture
def measured(record_property: Callable[[str, object], None]) -> Measured:
    """Note the figures of a workload under the name of its environment."""

    def note(name: str, figures: Any) -> None:
        record_property("figures", {name: figures})

    return note


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    item.stash[CPU] = cpu_seconds()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.when == "teardown" and CPU in item.stash:
        report.user_properties.append(("cpu", round(cpu_seconds() - item.stash[CPU], 1)))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
    if os.environ.get(FULL) != "all":
        return
    figures: Figures = {}
    for report in torn_down(terminalreporter):
        noted: dict[str, Any] = dict(report.user_properties)
        terminalreporter.write_line(f"{noted['cpu']:6.1f} s of CPU  {report.nodeid}")
        figures |= noted.get("figures", {})
    terminalreporter.write_line(" ".join(f"{name:>8}" for name in COLUMNS))
    for name, found in figures.items():
        shown = " ".join(f"{found[column]:8g}" for column in COLUMNS)
        terminalreporter.write_line(f"{shown}  {name}")
    if exitstatus == 0 and (folder := os.environ.get("RUNWARD_FIGURES")):
        write(Path(folder) / "environments.json", figures)


def torn_down(reporter: pytest.TerminalReporter) -> Iterator[pytest.TestReport]:
    for report in reporter.stats.get("", ()):
        if isinstance(report, pytest.TestReport) and "cpu" in dict(report.user_properties):
            yield report


def write(path: Path, figures: Figures) -> None:
    flat = {
        f"{column} ({name})": found[column]
        for name, found in figures.items()
        for column in COLUMNS
        if column != "seconds"
    }
    whole = {
        "part": "environments",
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "command": "make environments",
        "figures": {"environments": len(figures), **flat},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(whole, indent=2) + "\n")
