"""How a command ends when it cannot do what was asked."""

from enum import IntEnum
from typing import NoReturn

import typer

from runward.cli.escaping import escape_text


class Exit(IntEnum):
    """`docs/reference/cli.md` lists the same."""

    OK = 0
    FAILED = 1
    """The run failed, the thing does not exist, a check failed."""
    USAGE = 2
    """The command line or a file is not right; with `agents apply --check` there are changes."""
    UNREACHABLE = 3
    """Runward, or its database, does not answer."""
    REFUSED = 4
    """Runward understood and refused: the key, its scopes, the request, or who was first."""


def fail(message: str, code: Exit) -> NoReturn:
    """Says why on standard error and ends the command. Raises typer.Exit."""
    typer.echo(escape_text(message), err=True)
    raise typer.Exit(int(code))
