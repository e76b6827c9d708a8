"""The systemd units are valid, restricted, and fit the code."""

import os
import re
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from runward.__main__ import app
from runward.settings import Settings, find_unknown_variables
from tests.support.programs import missing
from tests.support.services.service import ROOT

FOLDER = ROOT / "deploy" / "systemd"
INSTANCE = "runward-worker@8081.service"
UNITS = ("runward-migrate.service", "runward-api.service", INSTANCE)
MAX_EXPOSURE = 15
"""In tenths. `systemd-analyze security` rates a unit without restrictions with 96."""


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """Copy the units, with a program that exists, and return the environment that finds them."""
    shutil.copytree(FOLDER, tmp_path, dirs_exist_ok=True)
    for unit in tmp_path.glob("*.service"):
        text = unit.read_text("utf-8").replace("/opt/runward/bin/runward", sys.executable)
        unit.write_text(text, "utf-8")
    # With a colon at the end, systemd also reads its own folders.
    return os.environ | {"SYSTEMD_UNIT_PATH": f"{tmp_path}:", "SYSTEMD_LOG_LEVEL": "info"}


def analyze(env: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("systemd-analyze")
    if program is None:
        missing("systemd-analyze is not installed: apt-get install systemd")
    return subprocess.run(
        [program, *arguments], env=env, capture_output=True, text=True, check=False, timeout=30
    )


@pytest.mark.parametrize("unit", UNITS)
def test_systemd_finds_no_error(unit: str, installed: dict[str, str]) -> None:
    done = analyze(installed, "verify", "--man=no", "--recursive-errors=no", unit)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_an_error_is_found(installed: dict[str, str]) -> None:
    unit = Path(installed["SYSTEMD_UNIT_PATH"].rstrip(":")) / "runward-api.service"
    unit.write_text(unit.read_text("utf-8").replace("Restart=", "Restarts="), "utf-8")
    done = analyze(installed, "verify", "--man=no", unit.name)
    assert "Restarts" in done.stderr


@pytest.mark.parametrize("unit", UNITS)
def test_each_unit_is_restricted(unit: str, installed: dict[str, str]) -> None:
    done = analyze(
        installed, "security", "--offline=yes", "--no-pager", f"--threshold={MAX_EXPOSURE}", unit
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Overall exposure level" in done.stdout


def test_the_units_run_the_commands_and_wait_for_the_drain() -> None:
    commands = {
        one.name or one.callback.__name__ for one in app.registered_commands if one.callback
    }
    units = {path.name: path.read_text("utf-8") for path in FOLDER.glob("*.service")}
    assert len(units) == len(UNITS)
    started = {name: read(text, "ExecStart").split() for name, text in units.items()}
    for program, *arguments in started.values():
        assert program == "/opt/runward/bin/runward"
        assert commands.issuperset(arguments)
    stop = timedelta(seconds=int(read(units["runward-worker@.service"], "TimeoutStopSec")))
    assert stop > Settings.model_fields["drain_seconds"].default + timedelta(seconds=5)


def test_the_variables_exist() -> None:
    files = [*FOLDER.rglob("*.conf"), *FOLDER.glob("*.service")]
    text = "\n".join(path.read_text("utf-8") for path in files)
    given = re.findall(r"^Environment=(.*)$", text, re.MULTILINE)
    example = re.findall(
        r"^(?:# )?(\w+)=", (FOLDER / "runward.env").read_text("utf-8"), re.MULTILINE
    )
    names = [one.partition("=")[0] for line in given for one in line.split()] + example
    assert "RUNWARD_WORKER_PORT" in names
    assert "RUNWARD_SECRET_KEY" in names
    assert find_unknown_variables(names) == []


def read(unit: str, key: str) -> str:
    [value] = re.findall(rf"^{key}=(.*)$", unit, re.MULTILINE)
    return value
