"""`runward` in an empty folder of its own: in this process, in a fork, or in a new process."""

import json
import os
import pty
import subprocess
import sys
import tempfile
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from typer.testing import CliRunner

from runward.__main__ import app
from runward.cli.connection import JsonBody
from tests.support.services.forks import inherited_environment, shared_forks
from tests.support.services.service import ROOT

SECONDS: Final = 120
PROGRAM: Final = "import sys; sys.argv[0] = 'runward'; from runward.__main__ import main; main()"
"""As the installed program is called."""


@dataclass(frozen=True, slots=True)
class Done:
    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class CommandLine:
    """With the address and the key in its environment, if they are given."""

    folder: Path
    url: str | None = None
    key: str | None = None

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-c", PROGRAM, *words]

    def environment(self, **env: str) -> dict[str, str]:
        kept = inherited_environment()
        given = {"RUNWARD_URL": self.url, "RUNWARD_KEY": self.key, "PYTHONPATH": str(ROOT / "app")}
        said = {name: value for name, value in given.items() if value is not None}
        return kept | {"RUNWARD_DATA_DIR": str(self.folder / "none"), "TZ": "UTC"} | said | env

    def __call__(self, *words: str, typed: str = "", **env: str) -> Done:
        """Run a command in this process. `typed` is the standard input."""
        nothing = dict.fromkeys(os.environ)
        with chdir(self.folder):
            done = CliRunner(env=nothing | self.environment(**env)).invoke(
                app, words, input=typed, catch_exceptions=False
            )
        return Done(done.exit_code, done.stdout, done.stderr)

    def run_fork(self, *words: str, **env: str) -> Done:
        """Run a command that changes its process: its signal handlers, logging or threads."""
        with tempfile.TemporaryFile("a+") as out, tempfile.TemporaryFile("a+") as err:
            process = shared_forks().start(
                "runward",
                *words,
                env=self.environment(**env),
                output=out.fileno(),
                errors=err.fileno(),
                folder=self.folder,
            )
            code = process.wait(SECONDS)
            out.seek(0)
            err.seek(0)
            done = Done(code, out.read(), err.read())
        assert "Traceback" not in done.err, done.err
        return done

    def run_process(self, *words: str, **env: str) -> Done:
        """Run a command in a process that is started from nothing."""
        done = subprocess.run(
            self.command(*words),
            cwd=self.folder,
            env=self.environment(**env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Done(done.returncode, done.stdout, done.stderr)

    def json(self, *words: str, code: int = 0, typed: str = "") -> Any:
        """Run a command with --json and parse its output."""
        done = self(*words, "--json", typed=typed)
        assert done.code == code, done.err
        return json.loads(done.out)

    def begin(self, *words: str) -> subprocess.Popen[str]:
        """Whoever calls ends it."""
        return subprocess.Popen(
            self.command(*words),
            cwd=self.folder,
            env=self.environment(PYTHONUNBUFFERED="1"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def in_a_terminal(runward: CommandLine, *words: str, typed: dict[str, str]) -> tuple[int, str]:
    """Its exit code and what the terminal shows. `typed`: what the person answers to which
    question."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        runward.command(*words),
        cwd=runward.folder,
        env=runward.environment(TERM="dumb", COLUMNS="120"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown, answered = "", 0
    try:
        while True:
            try:
                piece = os.read(ours, 65_536).decode()
            except OSError:  # Linux: the other side is closed
                break
            shown += piece
            for question, answer in typed.items():
                at = shown.find(question, answered)
                if at >= 0:
                    answered = at + len(question)
                    os.write(ours, f"{answer}\n".encode())
        return process.wait(60), shown.replace("\r\n", "\n")
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def editor(folder: Path, *steps: JsonBody | str) -> str:
    """An EDITOR that leaves the first of `steps` in the file, at its next start the second …; it
    keeps what it was given in `given-N`."""
    for at, step in enumerate(steps):
        (folder / f"step-{at}").write_text(step if isinstance(step, str) else json.dumps(step))
    script = folder / "editor.py"
    script.write_text(
        "import pathlib, shutil, sys\n"
        f"folder = pathlib.Path({str(folder)!r})\n"
        "at = len(list(folder.glob('given-*')))\n"
        "shutil.copy(sys.argv[1], folder / f'given-{at}')\n"
        "shutil.copy(folder / f'step-{at}', sys.argv[1])\n"
    )
    return f"{sys.executable} {script}"
