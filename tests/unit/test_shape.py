"""The code's shape: no file and no function that a reader cannot hold in mind."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import runward.tools
from tests.support.sources import nodes_of, read_sources

MAX_FILE = 400
MAX_FUNCTION = 60
"""Lines."""
WIRE = Path("app/runward/api")
"""A model of the API may have the name of the domain type that it represents."""
FOR_PLUGINS = {*runward.tools.__all__, "ToolResult"}
"""Names that authors of plugins import from `runward.tools` and `runward.tools.testing`."""


def functions(source: str) -> Iterator[tuple[str, int]]:
    """Names and lengths."""
    for node in nodes_of(source):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
            yield node.name, node.end_lineno - node.lineno + 1


def test_no_file_is_longer_than_a_reader_s_patience() -> None:
    modules = [(path, path.read_text()) for path in Path("app/runward/console/static").glob("*.js")]
    assert modules
    lengths = {
        str(path): len(source.splitlines()) for path, source in [*read_sources().items(), *modules]
    }
    assert {path: length for path, length in lengths.items() if length > MAX_FILE} == {}


def test_every_function_fits_on_a_screen() -> None:
    lengths = {
        f"{path}: {name}": length
        for path, source in read_sources().items()
        for name, length in functions(source)
    }
    assert lengths
    assert {name: length for name, length in lengths.items() if length > MAX_FUNCTION} == {}


def module_of(source: str) -> ast.Module:
    module = nodes_of(source)[0]
    assert isinstance(module, ast.Module)
    return module


def public_types(source: str) -> Iterator[str]:
    """Return the names of the classes and type aliases of a module."""
    for node in module_of(source).body:
        match node:
            case ast.ClassDef(name=name):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id="TypeAlias")):
                pass
            case _:
                continue
        if not name.startswith("_"):
            yield name


def test_no_public_type_has_the_name_of_another() -> None:
    names = [
        (WIRE in path.parents, name)
        for path, text in read_sources().items()
        for name in public_types(text)
    ]
    assert names
    twice = {name for (_, name), count in Counter(names).items() if count > 1}
    assert twice - FOR_PLUGINS == set()


SERVICE_PARTS = {"access", "limits", "live", "queue", "registry", "services", "storage"}
"""Names under which functions of the API take a part of `runward.services`."""
WHOLE_SERVICES = {
    "app.py",
    "http/requests.py",
    "mcp/calls.py",
    "mcp/endpoint.py",
    "mcp/resume.py",
    "mcp/streams.py",
    "mcp/subscriptions.py",
    "mcp/tasks.py",
}
"""Modules of the API that hold all parts: two hand them out, and /mcp is one route."""


def deep_reaches(source: str) -> Iterator[str]:
    """Return the attributes of a part's attributes, such as `storage.database.pool`."""
    for node in nodes_of(source):
        match node:
            case ast.Attribute(
                value=ast.Attribute(value=ast.Name(id=name) | ast.Attribute(attr=name))
            ) if name in SERVICE_PARTS:
                yield ast.unparse(node)
            case _:
                pass


def test_the_api_reaches_for_nothing_through_two_dots() -> None:
    assert list(deep_reaches("storage.database.pool.begin()")) == ["storage.database.pool"]
    assert list(deep_reaches("self.services.live.feed")) == ["self.services.live.feed"]
    api = {
        path: text for path, text in read_sources().items() if {"api", "console"} & set(path.parts)
    }
    assert {path: found for path, text in api.items() if (found := [*deep_reaches(text)])} == {}


def imported_names(source: str) -> set[str]:
    nodes = [node for node in module_of(source).body if isinstance(node, ast.ImportFrom)]
    return {alias.name for node in nodes for alias in node.names}


def test_functions_of_the_api_take_single_parts() -> None:
    whole = {
        str(path.relative_to(WIRE))
        for path, text in read_sources().items()
        if WIRE in path.parents and "Services" in imported_names(text)
    }
    assert whole == WHOLE_SERVICES


def is_log_call(call: ast.Call) -> bool:
    """Return whether it is `log.info(…)`, or a method of what one of the logger's returned."""
    root: ast.AST = call.func
    while isinstance(root, ast.Attribute | ast.Call):
        root = root.value if isinstance(root, ast.Attribute) else root.func
    return isinstance(root, ast.Name) and root.id == "log"


def test_log_lines_show_ids_as_the_api_does() -> None:
    """As `run=show(Prefix.RUN, run_id)`, so that a line can be found by what a client has."""
    calls = [
        node
        for source in read_sources().values()
        for node in nodes_of(source)
        if isinstance(node, ast.Call) and is_log_call(node)
    ]
    values = {
        ast.unparse(word.value)
        for call in calls
        for word in call.keywords
        if word.arg not in {"request_id", "id", "why"}
    }
    assert len(calls) > 30
    plain = re.compile(r"str\((?!error\))|.*(\b|_|\.)u?u?id$")
    assert not [value for value in values if plain.match(value)]
