"""The options that every command has, and values that are given as text or as a file."""

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeAlias

import typer
import yaml
from rich.markup import escape

from runward.cli.completion import suggested
from runward.cli.exits import Exit, fail

Url: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--url",
        envvar="RUNWARD_URL",
        help="Where Runward answers. Default: this machine, at RUNWARD_PORT or 8080.",
        show_default=False,
    ),
]
KeyOption: TypeAlias = Annotated[
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
ApprovalArgument: TypeAlias = Annotated[
    str | None, typer.Option(help="never, always, or a rule such as 'args.amount > 100'.")
]
Limit: TypeAlias = Annotated[int, typer.Option(min=1, max=10_000, help="How many at most.")]


def examples(*lines: str) -> str:
    """The end of a command's help."""
    return "\b\n" + escape("\n  ".join(["Examples:", *lines]))


def read_text(given: str) -> str:
    """`-` is standard input, `@file` a file, anything else itself."""
    if given == "-":
        return read_stdin()
    if given.startswith("@"):
        return read_file(Path(given[1:]))
    return given


def read_stdin() -> str:
    return _decoded(sys.stdin.buffer.read(), "Standard input")


def read_file(path: Path) -> str:
    if str(path) == "-":
        return read_stdin()
    try:
        return _decoded(path.read_bytes(), str(path))
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        fail(f"Cannot read {path}: {getattr(error, 'strerror', None) or error}", Exit.USAGE)


def _decoded(content: bytes, what: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        byte = f"byte {error.start} is 0x{content[error.start]:02x}"
        fail(f"{what} is not UTF-8: {byte}.", Exit.USAGE)


def read_json(given: str, what: str) -> Any:
    """`given` as `read_text` takes it."""
    text = read_text(given)
    try:
        return parse_json(text)
    except ValueError as error:
        fail(f"{what} must be JSON: {error}", Exit.USAGE)


def parse_json(text: str) -> Any:
    """Raises ValueError, for NaN and Infinity too."""
    try:
        return json.loads(text, parse_constant=_no_number)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _no_number(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")


def read_object(given: str, what: str) -> dict[str, Any]:
    return _object(read_json(given, what), what)


def read_yaml(path: Path) -> Any:
    """JSON is YAML too. Only values that JSON has are taken; dates are text."""
    text = read_file(path)
    try:
        found = yaml.load(text, _Loader)  # noqa: S506  # a SafeLoader
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a number of thousands of digits
        fail(f"{path} is not YAML: {error}", Exit.USAGE)
    except RecursionError:
        fail(f"{path} is nested too deeply.", Exit.USAGE)
    try:
        problem = next(_not_json(found, ""), None)
    except RecursionError:
        problem = "it is nested too deeply"
    if problem is not None:
        fail(f"{path}: {problem}.", Exit.USAGE)
    return found


class _Loader(yaml.SafeLoader):
    """Without dates, which JSON does not have."""

    yaml_implicit_resolvers = {  # noqa: RUF012  # never changed
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def _not_json(value: Any, at: str) -> Iterator[str]:
    """Where a value of YAML is none of JSON."""
    match value:
        case dict():
            for key, one in value.items():  # pyright: ignore[reportUnknownVariableType]
                if not isinstance(key, str):
                    yield f"the key {key} in {at or 'the file'} is not text; put it in quotes"
                yield from _not_json(one, f"{at}.{key}".lstrip("."))
        case list():
            for place, one in enumerate(value):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
                yield from _not_json(one, f"{at}.{place}".lstrip("."))
        case float() if not math.isfinite(value):
            yield f"{at} is {value}, which JSON does not have; put it in quotes"
        case None | bool() | int() | float() | str():
            pass
        case _:
            kind = type(value).__name__  # pyright: ignore[reportUnknownArgumentType]
            yield f"{at} is {kind}, which JSON does not have; put it in quotes"


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
