"""Completion as docs/reference/cli.md has it set up, in the shells themselves."""

import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.command_line import PROGRAM, SECONDS
from tests.support.services.service import ROOT

pytestmark = pytest.mark.timeout(120)

INTERACTIVE = {"bash": ["-i"], "zsh": ["-d", "-i"]}
STARTED = {
    "bash": "",
    "zsh": 'autoload -Uz compinit; compinit; eval "$(runward --show-completion)"\n',
}
"""What somebody wrote into ~/.bashrc and ~/.zshrc."""


def shell(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: apt-get install {name}")
    return found


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Of somebody whose PATH has `runward` and whose home is new."""
    program = tmp_path / "bin" / "runward"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{PROGRAM}" "$@"\n')
    program.chmod(0o755)
    return {
        "HOME": str(tmp_path),
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "app"),
        "TERM": "dumb",
    }


def install(found: str, env: dict[str, str]) -> None:
    done = run([found, "-c", "runward --install-completion && true"], env)
    assert done.returncode == 0, done.stderr
    assert f"{Path(found).name} completion installed" in done.stdout


def run(command: list[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=env["HOME"],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )


@pytest.mark.parametrize("name", ["bash", "zsh"])
def test_a_person_presses_the_tabulator(name: str, env: dict[str, str]) -> None:
    found = shell(name)
    if name == "bash":
        install(found, env)
    with (Path(env["HOME"]) / f".{name}rc").open("a") as started:
        started.write(f"{STARTED[name]}\nPS1='READY> '\n")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [found, *INTERACTIVE[name]],
        cwd=env["HOME"],
        env=env,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        shown = ""
        for awaited, typed in (("READY> ", "runward approvals de\t"), ("decide ", "--dec\t")):
            while awaited not in shown:
                shown += os.read(ours, 65_536).decode(errors="replace")
            os.write(ours, typed.encode())
        while "--decision" not in shown:
            shown += os.read(ours, 65_536).decode(errors="replace")
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_fish_completes(env: dict[str, str]) -> None:
    fish = shell("fish")
    install(fish, env)
    for line, words in {
        "runward approvals ": ["decide", "list"],
        "runward approvals decide --decision ": ["approve", "edit", "reject", "respond"],
    }.items():
        done = run([fish, "-c", f"complete -C '{line}'"], env)
        assert [one.split("\t")[0] for one in done.stdout.splitlines()] == words, done.stderr
