"""Programs of others that tests run Runward against. Where one is missing the test is skipped with
the line that installs it; on CI that is a failure."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final, NoReturn

import pytest

from tests.support.services.service import ROOT

NODE_BINARIES: Final = Path(__file__).parents[1] / "node" / "node_modules" / ".bin"
CHROMIUMS: Final = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
)
"""The first has no windows and no profiles, and takes half the CPU time of the others."""
MCP_BINARIES: Final = Path(__file__).parents[2] / ".venv" / "mcp-servers" / "bin"


def node_program(name: str) -> str:
    """The path of a program of tests/node/package.json."""
    found = NODE_BINARIES / name
    if not found.exists():
        missing(f"{name} is not installed: make tests/node/node_modules/.installed")
    return str(found)


def node_package(name: str) -> Path:
    """The path of a file or folder of a package of tests/node/package.json."""
    found = NODE_BINARIES.parent / name
    if not found.exists():
        missing(f"{name} is not installed: make tests/node/node_modules/.installed")
    return found


def node_script(name: str) -> str:
    """The path of a script of our own in tests/node, which finds the packages there."""
    return str(NODE_BINARIES.parents[1] / name)


def mcp_program(name: str) -> str:
    """The path of a program of tests/mcp_servers.lock."""
    found = MCP_BINARIES / name
    if not found.exists():
        missing(f"{name} is not installed: make .venv/mcp-servers/.installed")
    return str(found)


def conformance(*args: str, seconds: float, **env: str) -> subprocess.CompletedProcess[str]:
    """The MCP project's own conformance suite; it names a function of Node 22."""
    return subprocess.run(
        ["node", "--import", node_script("fs_glob.mjs"), node_program("conformance"), *args],
        cwd=ROOT,
        env=os.environ | env,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )


def chromium() -> str:
    """Return the path of the first of `CHROMIUMS` that is on the PATH."""
    found = [path for name in CHROMIUMS if (path := shutil.which(name)) is not None]
    if not found:
        missing("Chromium is not installed: apt-get install chromium-headless-shell")
    return found[0]


def missing(message: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)
