"""Options that all commands share, their shell completion, and values that are text or files."""

import io
import json
import math
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, suppress
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn, TypeAlias

import httpx2
import typer
import yaml
from rich.markup import escape

from runward.cli.connection import connect
from runward.cli.exits import Exit, fail

TIMEOUT: Final = httpx2.Timeout(2)
"""In seconds. Short, because a user waits for the completion while typing."""
MAX_SUGGESTED: Final = 100
SAFE_WORD: Final = re.compile(r"[A-Za-z0-9_-]+")
"""Words that are safe to return to a shell, because a shell evaluates completions."""

Completion = Callable[[typer.Context, str], list[str]]


def complete_from(path: str, field: str = "name", **params: str) -> Completion:
    """Return a completion with the `field` of the resources at `path`. Suggest nothing if the
    request fails, because a completion cannot show an error. The command itself reports it."""

    def suggest(ctx: typer.Context, incomplete: str) -> list[str]:
        with redirect_stderr(io.StringIO()), suppress(typer.Exit):
            with connect(ctx.params.get("url"), ctx.params.get("key"), TIMEOUT) as runward:
                found = [str(one[field]) for one in runward.list_all(path, MAX_SUGGESTED, **params)]
            return [one for one in found if one.startswith(incomplete) and SAFE_WORD.fullmatch(one)]
        return []

    return suggest


Url: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--url",
        envvar="RUNWARD_URL",
        help="Address of the service. Default: this machine, port RUNWARD_PORT or 8080.",
        show_default=False,
    ),
]
KeyOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--key",
        envvar="RUNWARD_KEY",
        help="API key. Default: the key that `make run` stores in .runward/api-key.",
        show_default=False,
    ),
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON to standard output.")]
RunId: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="RUN", help="run_…", autocompletion=complete_from("/v1/runs", "id")),
]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
ApprovalArgument: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help=("When calls require approval: never, always, or a rule such as 'args.amount > 100'.")
    ),
]
Limit: TypeAlias = Annotated[
    int, typer.Option(min=1, max=10_000, help="Maximum number of results.")
]


def format_examples(*lines: str) -> str:
    """Return the examples at the end of a command's help."""
    return "\b\n" + escape("\n  ".join(["Examples:", *lines]))


def read_text(value: str) -> str:
    """Return standard input for `-`, the content of a file for `@file`, or the value itself."""
    if value == "-":
        return read_stdin()
    if value.startswith("@"):
        return read_file(Path(value[1:]))
    return value


def read_stdin() -> str:
    return _decode(sys.stdin.buffer.read(), "Standard input")


def read_file(path: Path) -> str:
    if str(path) == "-":
        return read_stdin()
    try:
        return _decode(path.read_bytes(), str(path))
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        fail(f"Cannot read {path}: {getattr(error, 'strerror', None) or error}", Exit.USAGE)


def _decode(content: bytes, source: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        byte = f"byte {error.start} is 0x{content[error.start]:02x}"
        fail(f"{source} is not valid UTF-8: {byte}.", Exit.USAGE)


def read_json(value: str, source: str) -> Any:
    """Parse JSON from a value in one of the forms of `read_text`."""
    text = read_text(value)
    try:
        return parse_json(text)
    except ValueError as error:
        fail(f"{source} must be valid JSON: {error}", Exit.USAGE)


def parse_json(text: str) -> Any:
    """Parse JSON. Raises ValueError, also for NaN and Infinity."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("the value is nested too deeply") from None


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")


def read_object(value: str, source: str) -> dict[str, Any]:
    return _ensure_object(read_json(value, source), source)


def read_yaml(path: Path) -> Any:
    """Parse a YAML or JSON file. Only JSON values are accepted. Dates are strings."""
    text = read_file(path)
    try:
        found = yaml.load(text, _Loader)  # noqa: S506  # a SafeLoader
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a number of thousands of digits
        fail(f"{path} is not valid YAML: {error}", Exit.USAGE)
    except RecursionError:
        fail(f"{path} is nested too deeply.", Exit.USAGE)
    try:
        problem = next(_find_non_json(found, ""), None)
    except RecursionError:
        problem = "the value is nested too deeply"
    if problem is not None:
        fail(f"{path}: {problem}.", Exit.USAGE)
    return found


class _Loader(yaml.SafeLoader):
    """Loads dates as strings, because JSON has no dates."""

    yaml_implicit_resolvers = {  # noqa: RUF012  # never changed
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def _find_non_json(value: Any, location: str) -> Iterator[str]:
    """Yield a message for each part of a YAML value that JSON cannot represent."""
    match value:
        case dict():
            for key, one in value.items():  # pyright: ignore[reportUnknownVariableType]
                if not isinstance(key, str):
                    yield (
                        f"the key {key} in {location or 'the file'} is not a string; "
                        "put the key in quotes"
                    )
                yield from _find_non_json(one, f"{location}.{key}".lstrip("."))
        case list():
            for place, one in enumerate(value):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
                yield from _find_non_json(one, f"{location}.{place}".lstrip("."))
        case float() if not math.isfinite(value):
            yield (f"{location} is {value}, which is not a JSON value; put the value in quotes")
        case None | bool() | int() | float() | str():
            pass
        case _:
            kind = type(value).__name__  # pyright: ignore[reportUnknownArgumentType]
            yield (
                f"{location} has the type {kind}, which is not a JSON type; put the value in quotes"
            )


def read_fields(file: Path | None, **named: Any) -> dict[str, Any]:
    """Return the fields of the file, overridden by the options that are set."""
    found = _ensure_object(read_yaml(file), str(file)) if file else {}
    return found | {name: value for name, value in named.items() if value is not None}


def parse_approval(value: str | None) -> Any:
    """Return the approval setting in the form of the API."""
    return value if value in {None, "never", "always"} else {"when": value}


def _ensure_object(value: Any, source: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        fail(f"{source} must be an object.", Exit.USAGE)
    return value  # pyright: ignore[reportUnknownVariableType]
