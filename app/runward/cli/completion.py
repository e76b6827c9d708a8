"""What a shell completes beside commands and options: names and ids that Runward has."""

import io
import re
from collections.abc import Callable
from contextlib import redirect_stderr, suppress
from typing import Final

import httpx2
import typer

from runward.cli.connection import connect

TIMEOUT: Final = httpx2.Timeout(2)
"""Seconds: somebody is typing."""
MAX_SUGGESTED: Final = 100
SAFE_WORD: Final = re.compile(r"[A-Za-z0-9_-]+")
"""What a shell may be given, which evaluates it."""

Completion = Callable[[typer.Context, str], list[str]]


def complete_from(path: str, field: str = "name", **params: str) -> Completion:
    """The `field` of the things at `path`. Nothing where Runward cannot be asked: a shell has no
    place for the reason, and the command itself will say it."""

    def suggest(ctx: typer.Context, incomplete: str) -> list[str]:
        with redirect_stderr(io.StringIO()), suppress(typer.Exit):
            with connect(ctx.params.get("url"), ctx.params.get("key"), TIMEOUT) as runward:
                found = [str(one[field]) for one in runward.list_all(path, MAX_SUGGESTED, **params)]
            return [one for one in found if one.startswith(incomplete) and SAFE_WORD.fullmatch(one)]
        return []

    return suggest
