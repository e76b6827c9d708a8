"""The options that every command has, and values that are given as text or as a file."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer
import yaml
from rich.markup import escape

from app.cli.exits import Exit, fail
from app.cli.suggesting import suggested

Url: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--url",
        envvar="RUNWARD_URL",
        help="Where Runward answers. Default: this machine, at RUNWARD_PORT or 8080.",
        show_default=False,
    ),
]
Key: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--key",
        envvar="RUNWARD_KEY",
        help="An API key. Default: the one that `make run` keeps in .runward/api-key.",
        show_default=False,
    ),
]
AsJson: TypeAlias = Annotated[
    bool, typer.Option("--json", help="JSON on standard output, for programs.")
]
RunId: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="RUN", help="run_…", autocompletion=suggested("/v1/runs", "id")),
]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Approval: TypeAlias = Annotated[
    str | None, typer.Option(help="never, always, or a rule such as 'args.amount > 100'.")
]
Limit: TypeAlias = Annotated[int, typer.Option(min=1, max=10_000, help="How many at most.")]


def examples(*lines: str) -> str:
    """The end of a command's help."""
    return "\b\n" + escape("\n  ".join(["Examples:", *lines]))


def read_text(given: str) -> str:
    """`-` is standard input, `@file` a file, anything else itself."""
    if given == "-":
        return sys.stdin.read()
    if given.startswith("@"):
        return read_file(Path(given[1:]))
    return given


def read_file(path: Path) -> str:
    try:
        return sys.stdin.read() if str(path) == "-" else path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fail(f"Cannot read {path}: {getattr(error, 'strerror', None) or error}", Exit.USAGE)


def read_json(given: str, what: str) -> Any:
    """`given` as `read_text` takes it."""
    try:
        return json.loads(read_text(given))
    except ValueError as error:
        fail(f"{what} must be JSON: {error}", Exit.USAGE)


def read_object(given: str, what: str) -> dict[str, Any]:
    return _object(read_json(given, what), what)


def read_yaml(path: Path) -> Any:
    """JSON is YAML too."""
    try:
        return yaml.safe_load(read_file(path))
    except yaml.YAMLError as error:
        fail(f"{path} is not YAML: {error}", Exit.USAGE)


def read_fields(file: Path | None, **named: Any) -> dict[str, Any]:
    """What the file says, if there is one, and what options say, whose word counts."""
    found = _object(read_yaml(file), str(file)) if file else {}
    return found | {name: value for name, value in named.items() if value is not None}


def approval_rule(given: str | None) -> Any:
    """As the API takes it."""
    return given if given in {None, "never", "always"} else {"when": given}


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        fail(f"{what} must be an object.", Exit.USAGE)
    return value  # pyright: ignore[reportUnknownVariableType]
