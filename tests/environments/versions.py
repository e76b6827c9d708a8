"""The previous version as its users have it: a wheel that is installed in a folder."""

import os
import subprocess
import sys
import tarfile
from pathlib import Path

from tests.support.services.service import ROOT

PREVIOUS = "RUNWARD_PREVIOUS"
"""The commit or tag of the previous version. Without it, the last commit before the newest
migration, so that the previous version has the schema before it."""
SECONDS = 120.0


class HistoryError(Exception):
    """The history of this clone does not go back to the previous version."""


def install_previous(folder: Path) -> Path:
    """Return the folder with the package `runward` of the previous version. Its dependencies are
    those of this version. Raises HistoryError in a shallow clone."""
    archive, source, target = folder / "source.tar", folder / "source", folder / "previous"
    _git("archive", "--output", str(archive), previous_commit())
    with tarfile.open(archive) as packed:
        packed.extractall(source, filter="data")
    _run([sys.executable, "-m", "hatchling", "build", "-t", "wheel"], source)
    [wheel] = (source / "dist").glob("*.whl")
    install = ["-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
    _run([sys.executable, *install, "--target", str(target), str(wheel)], folder)
    return target


def previous_commit() -> str:
    """Raises HistoryError in a shallow clone."""
    if commit := os.environ.get(PREVIOUS):
        return commit
    newest = ("--first-parent", "--diff-merges=first-parent", "--diff-filter=A", "-1")
    return _git("log", *newest, "--no-patch", "--format=%H^", "--", "migrations/versions").strip()


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False, timeout=SECONDS
    )
    if done.returncode != 0:
        raise HistoryError(f"git {arguments[0]} failed, as in a shallow clone: {done.stderr}")
    return done.stdout


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=SECONDS
    )
    assert done.returncode == 0, done.stdout + done.stderr
