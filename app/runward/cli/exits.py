"""Exit codes of the commands."""

from enum import IntEnum
from typing import NoReturn

import typer

from runward.cli.escaping import escape_text


class Exit(IntEnum):
    """The exit codes that docs/reference/cli.md documents."""

    OK = 0
    FAILED = 1
    """The run failed, the resource does not exist, or a check failed."""
    USAGE = 2
    """The command line or a file is not valid. With `agents apply --check`: the plan has
    changes."""
    UNREACHABLE = 3
    """Runward or its database did not answer."""
    REFUSED = 4
    """Runward rejected the request: because of the key, its scopes, the request, or a conflict."""


def fail(message: str, code: Exit) -> NoReturn:
    """Print the message to standard error and end the command. Raises typer.Exit."""
    typer.echo(escape_text(message), err=True)
    raise typer.Exit(int(code))
