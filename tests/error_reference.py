"""Write docs/reference/errors.md from docs/reference/errors.toml and the error classes.

make errors
"""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from runward.api.http.problems import FRAMEWORK_ERRORS, get_status
from runward.domain.errors import AppError

Texts: TypeAlias = Mapping[str, Mapping[str, str]]
"""Code -> `cause` and `remedy`."""

ROOT: Final = Path(__file__).parents[1]
SOURCE: Final = ROOT / "docs/reference/errors.toml"
PAGE: Final = ROOT / "docs/reference/errors.md"


def read_source() -> dict[str, Any]:
    return tomllib.loads(SOURCE.read_text("utf-8"))


def list_error_classes(root: type[AppError] = AppError) -> Iterator[type[AppError]]:
    for kind in root.__subclasses__():
        yield kind
        yield from list_error_classes(kind)


def read_http_errors() -> dict[str, tuple[int, bool]]:
    """Return the HTTP status of each code, and whether the same request may succeed later."""
    found = {kind.code: (get_status(kind), kind.retry) for kind in list_error_classes()}
    for status, (code, _) in FRAMEWORK_ERRORS.items():
        found.setdefault(code, (status, status == 500))
    return found


def build_page() -> str:
    source, http = read_source(), read_http_errors()
    lines = [source["introduction"]]
    for group in source["group"]:
        lines += [
            f"### {group['title']}\n",
            "| code | status | retry | cause | what to do |",
            "|---|---|---|---|---|",
            *(_http_row(code, http[code], source["code"][code]) for code in group["codes"]),
            "",
        ]
    lines += [source["runs"].strip("\n"), "", *_table(source["run"])]
    lines += [source["calls"].strip("\n"), "", *_table(source["call"])]
    return "\n".join(lines).rstrip("\n").lstrip("\n") + "\n"


def _http_row(code: str, known: tuple[int, bool], texts: Mapping[str, str]) -> str:
    status, retry = known
    can_retry = "yes" if retry else "no"
    return f"| `{code}` | {status} | {can_retry} | {texts['cause']} | {texts['remedy']} |"


def _table(entries: Texts) -> list[str]:
    rows = [f"| `{code}` | {one['cause']} | {one['remedy']} |" for code, one in entries.items()]
    return ["| code | cause | what to do |", "|---|---|---|", *rows, ""]


def main() -> None:
    PAGE.write_text(build_page(), "utf-8")


if __name__ == "__main__":
    main()
