"""A bash that reads one block of a page after the other, as a reader's terminal does."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.e2e.own_machine import needs
from tests.support.services.service import ROOT

END: Final = "---- the end of it"
FAILURE: Final = "---- a command failed"
ON_END: Final = f"trap \"printf '\\n%s\\n' '{FAILURE}'\" EXIT"
BEGINNING: Final = f"""
set -euo pipefail
{ON_END}
curl() {{ command curl --fail-with-body "$@"; }}
make() {{ command make --old-file .venv/.runtime --old-file .venv/.dev "$@"; }}
"""
"""What fails ends it, also an answer of 400 or above; and make installs nothing."""


class Shell:
    """`env` is all of its environment. It works in the project's folder."""

    def __init__(self, env: Mapping[str, str], folder: Path) -> None:
        needs("curl", "curl")
        self._folder = folder
        self._scripts = 0
        self._bash = subprocess.Popen(
            [needs("bash", "bash"), "--norc"],
            cwd=ROOT,
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._write(BEGINNING)

    def run(self, script: str) -> str:
        """What it printed. Fails if a command of it does."""
        self._write(f"source {self._saved(script)} </dev/null\nprintf '\\n%s\\n' '{END}'\n")
        shown = "".join(self._lines(END))
        return shown.removesuffix("\n")

    def begin(self, script: str, until: str) -> str:
        """Runs it beside what follows, until it has printed a line with `until`. What it printed
        before that."""
        self._write(f"({ON_END}; source {self._saved(script)} </dev/null) &\n")
        return "".join(self._lines(until))

    def _lines(self, last: str) -> Iterator[str]:
        """Until there is one with `last`, which is left out."""
        assert self._bash.stdout is not None
        shown = ""
        for line in self._bash.stdout:
            if last in line:
                return
            if FAILURE in line:
                break
            shown += line
            yield line
        raise AssertionError(f"a command failed:\n{shown}")

    def _saved(self, script: str) -> Path:
        self._scripts += 1
        file = self._folder / f"block-{self._scripts}.sh"
        file.write_text(script, "utf-8")
        return file

    def _write(self, commands: str) -> None:
        assert self._bash.stdin is not None
        self._bash.stdin.write(commands)
        self._bash.stdin.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Whatever it started ends with it."""
        os.killpg(self._bash.pid, signal.SIGKILL)
        self._bash.communicate()


def answers(printed: str) -> list[Any]:
    """The JSON objects that stand in what was printed."""
    found: list[Any] = []
    at = printed.find("{")
    while at >= 0:
        try:
            value, end = json.JSONDecoder().raw_decode(printed, at)
        except ValueError:  # something else in braces
            end = at + 1
        else:
            found.append(value)
        at = printed.find("{", end)
    return found
