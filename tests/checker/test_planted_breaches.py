"""Each rule reads a folder in which only its promise was broken."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checker import RULES, beyond, check
from tests.checker.breaches import PLANTED
from tests.checker.evidence import Stall
from tests.checker.sample import write_sample
from tests.checker.spoiling import Breach, Lines
from tests.checker.story import START


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample") / "good"
    write_sample(folder)
    return folder


def test_a_good_folder_breaks_no_rule(sample: Path) -> None:
    assert check(sample) == []


@pytest.mark.parametrize(("rule", "breach"), PLANTED)
def test_a_planted_breach_is_caught_by_its_rule_alone(
    rule: str, breach: Breach, sample: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    shutil.copytree(sample, folder)
    breach(Lines(folder))
    violations = check(folder)
    assert {violation.rule for violation in violations} == {rule}, violations


def test_a_worker_does_not_lose_a_lease_that_it_had_lost_during_an_earlier_stall(
    sample: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    shutil.copytree(sample, folder)
    lines = Lines(folder)
    beyond.a_stalled_worker_loses_a_lease(lines)
    lines.append("stalls.jsonl", Stall(START + 14, "worker-0", 14, [], START + 15.9))
    assert check(folder) == []


def test_every_rule_has_a_planted_breach() -> None:
    assert {rule.__name__ for rule in RULES} == {rule for rule, _ in PLANTED}


def test_the_checker_imports_nothing_of_the_service() -> None:
    code = (
        "import sys, tests.checker; print([n for n in sys.modules if n.split('.')[0] == 'runward'])"
    )
    root = Path(__file__).parents[2]
    asked = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, check=True)
    assert asked.stdout == b"[]\n"
