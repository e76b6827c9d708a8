"""Edit arguments in the user's editor, and show the changes."""

import difflib
import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import typer

from runward.cli.exits import Exit, fail
from runward.cli.options import parse_json
from runward.cli.printing import format_json, print_text

EDITOR_VARIABLES: Final = ("VISUAL", "EDITOR")
DIFF_STYLES: Final = {"+": "green", "-": "red", "@": "cyan"}


def edit_json(value: Any) -> Any:
    """Open `value` in the editor and return the edited object. If the text is not a JSON object,
    offer to edit it again."""
    command = next((os.environ[name] for name in EDITOR_VARIABLES if os.environ.get(name)), "vi")
    with tempfile.TemporaryDirectory(prefix="runward-") as folder:
        path = Path(folder) / "arguments.json"
        path.write_text(format_json(value) + "\n", "utf-8")
        while True:
            try:
                code = subprocess.run([*shlex.split(command), str(path)], check=False).returncode
            except (OSError, ValueError) as error:
                fail(
                    f"The editor {command} could not be started: {error}. Set EDITOR to an editor.",
                    Exit.USAGE,
                )
            if code != 0:
                fail(
                    f"The editor {command} ended with exit code {code}. No decision was sent.",
                    Exit.FAILED,
                )
            problem = "The text is not a JSON object."
            try:
                if isinstance(found := parse_json(path.read_text("utf-8")), dict):
                    return found  # pyright: ignore[reportUnknownVariableType]
            except OSError as error:
                told = (
                    f"The editor {command} did not save the file: {error.strerror}. No "
                    "decision was sent."
                )
                fail(told, Exit.FAILED)
            except ValueError as error:
                problem = f"The text is not valid JSON: {error}."
            typer.echo(problem, err=True)
            if not typer.confirm("Edit the text again?", default=True, err=True):
                raise typer.Abort


def print_difference(before: Any, after: Any) -> bool:
    """Print a unified diff. Return False if the values are equal."""
    lines = list(diff_lines(before, after))
    for line in lines:
        print_text(line, DIFF_STYLES.get(line[:1], "none"))
    return bool(lines)


def print_changed_lines(before: Any, after: Any, indent: str) -> None:
    """Print a diff without the header, with one line of context around each change."""
    for line in list(diff_lines(before, after, context=1))[2:]:
        if not line.startswith("@"):
            print_text(indent + line, DIFF_STYLES.get(line[:1], "none"))


def diff_lines(before: Any, after: Any, context: int = 3) -> Iterator[str]:
    yield from difflib.unified_diff(
        _split_lines(before), _split_lines(after), "requested", "edited", lineterm="", n=context
    )


def _split_lines(value: Any) -> list[str]:
    return (value if isinstance(value, str) else format_json(value)).splitlines()
