"""Write docs/explanation/guarantees.md and evidence.md from guarantees.toml and the results of the
last long tests.

make guarantees
python -m tests.guarantees --check
"""

import argparse
import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

Json: TypeAlias = dict[str, Any]

ROOT: Final = Path(__file__).parents[1]
SOURCE: Final = ROOT / "docs/explanation/guarantees.toml"
PAGE: Final = ROOT / "docs/explanation/guarantees.md"
EVIDENCE: Final = ROOT / "docs/explanation/evidence.md"
FIGURES: Final = ROOT / "docs/figures"
RULES: Final = "tests/checker"


@dataclass(frozen=True, slots=True)
class Part:
    """The results of one long test."""

    name: str
    date: str
    command: str
    figures: Json


def read_source() -> Json:
    return tomllib.loads(SOURCE.read_text(encoding="utf-8"))


def read_promises() -> list[Json]:
    return [promise for group in read_source()["group"] for promise in group["promise"]]


def read_parts() -> dict[str, Part]:
    found = [
        json.loads(path.read_text(encoding="utf-8")) for path in sorted(FIGURES.glob("*.json"))
    ]
    return {
        each["part"]: Part(each["part"], each["date"], each["command"], each["figures"])
        for each in found
    }


def page() -> str:
    """Return the page of guarantees as it should be."""
    source = read_source()
    lines = [source["introduction"].strip("\n"), ""]
    for group in source["group"]:
        lines += [f"## {group['title']}\n"]
        for promise in group["promise"]:
            lines += _describe(promise)
    return "\n".join([*lines, source["end"].strip("\n"), ""])


def evidence() -> str:
    """Return the page of evidence as it should be."""
    parts, source = read_parts(), read_source()
    lines = [source["evidence"].strip("\n"), ""]
    for group in source["group"]:
        lines += [
            f"## {group['title']}\n",
            "| guarantee | tests | results of the last long tests |",
            "|---|---|---|",
            *(_row(promise, parts) for promise in group["promise"]),
            "",
        ]
    return "\n".join([*lines, *_last_runs(parts)])


def _name(promise: Json) -> str:
    number = promise.get("id")
    return f"{promise['title']} ({number})" if number else promise["title"]


def _describe(promise: Json) -> list[str]:
    lines = [f"### {_name(promise)}\n", f"{promise['promise']}\n"]
    if "note" in promise:
        lines.append(f"*Note:* {promise['note']}\n")
    if promise["limit"] != "None.":
        lines.append(f"*Limit:* {promise['limit']}\n")
    return lines


def _row(promise: Json, parts: dict[str, Part]) -> str:
    figures = "<br>".join(show_figures(promise, parts)) or "No results yet."
    return f"| {_name(promise)} | {_evidence(promise)} | {figures} |"


def _evidence(promise: Json) -> str:
    tests = [_link(test) for test in promise["tests"]]
    rules = [f"`{rule}`" for rule in promise.get("rules", ())]
    checked = [f"rules of the checker: {', '.join(rules)}"] if rules else []
    return "<br>".join([*tests, *checked]) or "No test yet."


def _link(test: str) -> str:
    """Return a link to the file of a test. Its text is the name of the test as a sentence."""
    path, _, name = test.partition("::")
    return f"[{name.removeprefix('test_').replace('_', ' ')}](../../{path})"


def show_figures(promise: Json, parts: dict[str, Part]) -> list[str]:
    """Return the results that a promise names, as far as a long test has measured them."""
    found: list[str] = []
    for figure in promise.get("figures", ()):
        part, _, name = figure.partition(": ")
        if part in parts and name in parts[part].figures:
            found.append(f"{name}: {parts[part].figures[name]:,} ({part})")
    return found


def _last_runs(parts: dict[str, Part]) -> list[str]:
    if not parts:
        return []
    rows = [
        f"| {part.name} | {part.date} | `{part.command}` |"
        f" [{len(part.figures)} results](../figures/{part.name}.json) |"
        for part in parts.values()
    ]
    return [
        "## Last long tests\n",
        "| test | date | command | results |",
        "|---|---|---|---|",
        *rows,
        "",
    ]


def missing(promises: list[Json], rules: set[str], parts: dict[str, Part]) -> list[str]:
    """Return the names of tests, rules and figures that promises contain but that do not exist."""
    found: list[str] = []
    for promise in promises:
        found += [test for test in promise["tests"] if not _exists(test)]
        found += [rule for rule in promise.get("rules", ()) if rule not in rules]
        for figure in promise.get("figures", ()):
            part, _, name = figure.partition(": ")
            if part in parts and name not in parts[part].figures:
                found.append(figure)
    return found


def _exists(test: str) -> bool:
    path, _, name = test.partition("::")
    file = ROOT / path
    defined = rf"^\s*(?:async )?def {name}\("
    return file.exists() and re.search(defined, file.read_text(), re.MULTILINE) is not None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail if a page is not up to date")
    if parser.parse_args().check:
        for path, text in ((PAGE, page()), (EVIDENCE, evidence())):
            if path.read_text(encoding="utf-8") != text:
                name = path.relative_to(ROOT)
                raise SystemExit(f"{name} is not up to date: run `make guarantees`")
    else:
        PAGE.write_text(page(), encoding="utf-8")
        EVIDENCE.write_text(evidence(), encoding="utf-8")


if __name__ == "__main__":
    main()
