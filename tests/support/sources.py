"""The service's code as syntax trees. A test process parses each file once."""

import ast
from functools import cache
from pathlib import Path
from typing import Final

PACKAGE: Final = Path("app/runward")


def read_sources() -> dict[Path, str]:
    """Return the text of each file of the service."""
    return {path: path.read_text("utf-8") for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def nodes_of(source: str) -> tuple[ast.AST, ...]:
    """Return all nodes of a file's syntax tree. The first one is its module."""
    return tuple(ast.walk(ast.parse(source)))
