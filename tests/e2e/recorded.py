"""Recordings in docs/reference/cli.md: a comment with a name, then what a program printed.

A test prints it anew and compares. With RUNWARD_RECORD=1 in its environment it writes the page
instead (one test at a time), for somebody to read and commit.
"""

import os
import re
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).parents[2] / "docs" / "reference/cli.md"
CHANGING: Final = (
    (re.compile(r"\b(run|apr|key|req)_[0-9a-f]{32}"), r"\1_…"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"), "2026-11-02 09:30:00"),
)
"""What is another one each time."""


def steady(printed: str, **names: str) -> str:
    """Without what changes; `names` are further texts, by what stands for them."""
    for shown, text in names.items():
        printed = printed.replace(text, shown)
    for pattern, shown in CHANGING:
        printed = pattern.sub(shown, printed)
    return "\n".join(line.rstrip() for line in printed.splitlines()).strip("\n")


def compare(name: str, printed: str) -> None:
    """With the recording of that name."""
    page = PAGE.read_text("utf-8")
    block = re.compile(rf"(<!-- recorded: {name} -->\n\n```\w*\n)(.*?)(\n```\n)", re.S)
    found = block.search(page)
    assert found is not None, f"{PAGE} has no recording {name}"
    if os.environ.get("RUNWARD_RECORD"):
        PAGE.write_text(block.sub(lambda it: it[1] + printed + it[3], page), "utf-8")
    else:
        assert printed == found[2], (
            "docs/reference/cli.md is not what is printed; tests/e2e/recorded.py"
        )
