"""The blocks of code of the project's pages, as a Markdown parser sees them."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt

ROOT: Final = Path(__file__).parents[2]
LANGUAGES: Final = frozenset(
    {
        "bash",
        "cel",
        "console",
        "go",
        "http",
        "js",
        "json",
        "php",
        "python",
        "ruby",
        "sh",
        "sql",
        "sse",
        "text",
        "ts",
        "yaml",
    }
)


@dataclass(frozen=True, slots=True)
class Block:
    """`line` is its first one's. `language` is empty where there is none, also of indented code."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@cache
def blocks(page: str) -> tuple[Block, ...]:
    """Of `page`, a path below the project's folder, from top to bottom."""
    found: list[Block] = []
    for token in MarkdownIt("commonmark").parse((ROOT / page).read_text("utf-8")):
        if token.type in ("fence", "code_block"):
            assert token.map is not None
            language = (token.info.split() or [""])[0]
            found.append(Block(page, token.map[0] + 1, language, token.content))
    return tuple(found)


def pages() -> list[str]:
    """Every page that people read, in the order of their names."""
    below = [(ROOT / folder).rglob("*.md") for folder in ("docs", "examples", "sdks")]
    found = [str(page.relative_to(ROOT)) for pages in (ROOT.glob("*.md"), *below) for page in pages]
    return sorted(page for page in found if not re.search(r"node_modules|\.venv", page))
