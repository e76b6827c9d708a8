"""An earlier revision of the repository, as files in a temporary folder."""

import io
import subprocess
import tarfile
from pathlib import Path

from bench.processes import PROJECT, Version


class RevisionError(Exception):
    """git cannot export a revision. The message contains git's output."""


def check_out(revision: str, folder: Path) -> Version:
    """Export a revision to a new folder. It uses this environment's packages. Raises RevisionError.

    The name of the version contains the short hash of the commit.
    """
    commit = _git("rev-parse", "--short", "--verify", f"{revision}^{{commit}}").decode().strip()
    with tarfile.open(fileobj=io.BytesIO(_git("archive", "--format=tar", commit))) as archive:
        archive.extractall(folder, filter="data")
    return Version(f"Runward at {commit}", folder)


def _git(*arguments: str) -> bytes:
    done = subprocess.run(["git", *arguments], cwd=PROJECT, capture_output=True, check=False)
    if done.returncode:
        raise RevisionError(done.stderr.decode(errors="replace").strip())
    return done.stdout
