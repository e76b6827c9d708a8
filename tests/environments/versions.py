"""The previous version as its users have it: a wheel that is installed in a folder."""

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.support.services.service import ROOT

PREVIOUS = "RUNWARD_PREVIOUS"
"""The commit of the version before; the parent of this commit if it is not set."""
SECONDS = 120.0


def install_previous(folder: Path) -> Path:
    """Return the folder with the package `runward` of the version before. Skip where the history of
    this clone does not go back to it."""
    commit = os.environ.get(PREVIOUS, "HEAD~1")
    archive, source, target = folder / "source.tar", folder / "source", folder / "previous"
    done = subprocess.run(
        ["git", "archive", "--output", str(archive), commit],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    if done.returncode != 0:
        pytest.skip(f"git cannot read {commit}, as in a shallow clone: {done.stderr.strip()}")
    with tarfile.open(archive) as packed:
        packed.extractall(source, filter="data")
    _run([sys.executable, "-m", "hatchling", "build", "-t", "wheel"], source)
    [wheel] = (source / "dist").glob("*.whl")
    install = ["-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
    _run([sys.executable, *install, "--target", str(target), str(wheel)], folder)
    return target


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=SECONDS
    )
    assert done.returncode == 0, done.stdout + done.stderr
