"""Print results: tables for people, JSON for programs. Colors are used only on a terminal, and not
with NO_COLOR (https://no-color.org)."""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from runward.cli.connection import JsonBody
from runward.cli.escaping import escape_line, escape_text

Columns: TypeAlias = Mapping[str, Callable[[JsonBody], str]]
"""The columns of a table: the title, and a function that returns the cell of a resource."""
MAX_UNWRAPPED: Final = 20
"""Maximum length in characters of a cell that is never wrapped."""
UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
"""Units of times in tables: the seconds and the name."""
PIPED_WIDTH: Final = 160
"""Width of a table in characters if the output is not a terminal."""
STYLES: Final = {
    "completed": "green",
    "approved": "green",
    "edited": "green",
    "responded": "green",
    "active": "green",
    "ok": "green",
    "requires_action": "yellow",
    "pending": "yellow",
    "incomplete": "yellow",
    "warn": "yellow",
    "failed": "red",
    "rejected": "red",
    "fail": "red",
    "expired": "red",
    "revoked": "dim",
    "cancelled": "dim",
    "superseded": "dim",
}


def create_console(*, stderr: bool = False) -> Console:
    piped = not (sys.stderr if stderr else sys.stdout).isatty()
    return Console(
        stderr=stderr,
        width=PIPED_WIDTH if piped else None,
        markup=False,
        highlight=False,
        emoji=False,
    )


def print_json(value: Any) -> None:
    """Print JSON in one line, in ASCII only, so that no value can control the terminal."""
    typer.echo(json.dumps(value))


def print_list(
    found: Sequence[JsonBody], columns: Columns, *, empty_text: str, as_json: bool
) -> None:
    """Print a table. If there are no resources, print `empty_text` to standard error."""
    if as_json:
        print_json(found)
    elif found:
        print_table(columns, found)
    else:
        typer.echo(empty_text, err=True)


def print_table(columns: Columns, found: Iterable[JsonBody]) -> None:
    """Print one row for each resource. The first column and short cells are never wrapped."""
    rows = [[escape_line(cell(one)) for cell in columns.values()] for one in found]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for at, title in enumerate(columns):
        short_one = at == 0 or max((len(row[at]) for row in rows), default=0) <= MAX_UNWRAPPED
        table.add_column(title, no_wrap=short_one, overflow="ellipsis" if short_one else "fold")
    for row in rows:
        table.add_row(*(Text(cell, style=STYLES.get(cell, "none")) for cell in row))
    create_console().print(table)


def print_resource(resource: JsonBody, *, as_json: bool) -> None:
    """Print all fields that have a value."""
    if as_json:
        print_json(resource)
    else:
        print_fields(
            (field, format_value(value)) for field, value in resource.items() if field != "object"
        )


def print_result(result: Any, text: str, *, as_json: bool) -> None:
    """Print what was done: `result` for programs, `text` for people."""
    if as_json:
        print_json(result)
    else:
        print_text(text)


def print_fields(fields: Iterable[tuple[str, str]]) -> None:
    """Print one name and value per line. A value of several lines is printed below its name."""
    found = [(name, escape_text(value)) for name, value in fields if value]
    width = max((len(name) for name, _ in found), default=0)
    out = create_console()
    for name, value in found:
        indented = value.replace("\n", "\n" + " " * (width + 2))
        line = Text.assemble((f"{name:{width}}  ", "bold"), (indented, STYLES.get(value, "none")))
        out.print(line, soft_wrap=True)


def print_text(text: str, style: str = "none") -> None:
    """Print a line for people. Only the terminal wraps the line."""
    create_console().print(Text(escape_text(text), style=style), soft_wrap=True)


def show_spinner(text: str) -> AbstractContextManager[object]:
    """Show a spinner on a terminal during a slow operation."""
    return create_console(stderr=True).status(Text(escape_line(text)))


def format_json(value: Any) -> str:
    """Return indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def format_short(value: Any) -> str:
    """Return a string unchanged, and other values as JSON in one line."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def format_value(value: Any) -> str:
    """Return a field's value as text. None becomes an empty string."""
    if value is None or value in ({}, []):
        return ""
    return format_json(value) if isinstance(value, dict | list) else format_short(value)


def format_time(moment: str | None) -> str:
    """Return a time of the API in the local time zone, in seconds."""
    if moment is None:
        return ""
    return datetime.fromisoformat(moment).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def format_age(moment: str | None) -> str:
    """Return the approximate age of a time for a table, such as `5 min ago` or `in 23 h`."""
    if moment is None:
        return ""
    seconds = (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()
    size, unit = next((one for one in UNITS if abs(seconds) >= one[0]), UNITS[-1])
    number = f"{abs(seconds) // size:.0f} {unit}"
    return f"in {number}" if seconds < 0 else f"{number} ago"
