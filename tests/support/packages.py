"""Runward and the packages of examples/, installed by pip as a user would, without a network."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
OFFLINE = ("--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check")


def install(target: Path, sources: Path, *names: str) -> None:
    """Installs examples/NAME into the folder `target`; `sources` is for copies to build from."""
    for name in names:
        subprocess.run(["cp", "-r", str(EXAMPLES / name), str(sources / name)], check=True)
    copies = [str(sources / name) for name in names]
    command = [sys.executable, "-m", "pip", "install", *OFFLINE, "--target", str(target), *copies]
    _checked(command)


def install_runward(target: Path) -> Path:
    """Installs Runward itself into the folder `target`, and returns that."""
    _checked([sys.executable, "-m", "pip", "install", *OFFLINE, "--target", str(target), str(ROOT)])
    return target


def run_own_tests(site: Path, name: str) -> None:
    """The package's own tests pass with what is installed in `site`."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."]
    _checked(command, cwd=EXAMPLES / name / "tests", path=f"{site}{os.pathsep}{EXAMPLES.parent}")


def _checked(command: list[str], *, cwd: Path | None = None, path: str | None = None) -> None:
    env = dict(os.environ) if path is None else os.environ | {"PYTHONPATH": path}
    done = subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
