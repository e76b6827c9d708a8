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


def run_own_tests(site: Path, name: str, **env: str) -> None:
    """Run the package's own tests with the packages that are installed in `site`."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."]
    path = f"{site}{os.pathsep}{EXAMPLES.parent}"
    _checked(command, folder=EXAMPLES / name / "tests", PYTHONPATH=path, **env)


def _checked(command: list[str], *, folder: Path | None = None, **env: str) -> None:
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | env,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
