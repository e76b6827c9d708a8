"""`runward audit`: the audit log of the project."""

import json
import re
import sys
from pathlib import Path
from typing import Annotated, BinaryIO, Final

import typer

from runward.cli.connection import Runward, connect
from runward.cli.exits import Exit, fail
from runward.cli.options import AsJson, KeyOption, Url, format_examples
from runward.cli.printing import print_result

app = typer.Typer(no_args_is_help=True, help="Export and verify the audit log of the project.")
PATH: Final = "/v1/audit_log"
_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]")


@app.command(
    epilog=format_examples(
        "runward audit export --output audit.jsonl", "runward audit export --after 1000"
    )
)
def export(
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write to this file, not to standard output."
        ),
    ] = None,
    after: Annotated[
        int,
        typer.Option(
            min=0, metavar="NUMBER", help="Export only the entries after the one with this number."
        ),
    ] = 0,
    url: Url = None,
    key: KeyOption = None,
) -> None:
    """Export the audit log as JSON Lines in ASCII, oldest entry first.

    The API key must have the scope `admin`.
    """
    with connect(url, key) as runward:
        if output is None:
            _copy(runward, after, sys.stdout.buffer)
            return
        try:
            with output.open("wb") as file:
                _copy(runward, after, file)
        except OSError as error:
            fail(f"Cannot write {output}: {error.strerror}.", Exit.USAGE)


def _copy(runward: Runward, after: int, file: BinaryIO) -> None:
    with runward.stream(f"{PATH}/export", after=after) as response:
        for text in response.iter_text():
            file.write(_NOT_ASCII.sub(_escape, text).encode())


def _escape(found: re.Match[str]) -> str:
    """Return the character as JSON writes it in ASCII."""
    return json.dumps(found[0])[1:-1]


@app.command()
def head(url: Url = None, key: KeyOption = None, as_json: AsJson = False) -> None:
    """Print the hash of the last entry, for `audit verify --head`.

    Store it in another place than the export. The API key must have the scope `admin`.
    """
    with connect(url, key) as runward:
        found = runward.get(f"{PATH}/head")
    if found["hash"] is None:
        fail("The audit log has no entries.", Exit.FAILED)
    print_result(found, found["hash"], as_json=as_json)
