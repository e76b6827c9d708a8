"""Load the plugins of a process: the entry points `runward.tools`, and the modules in
RUNWARD_PLUGINS."""

import importlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any, Final, cast

from runward.domain.registry.guards import PluginGuardrail
from runward.tools.plugin.declarations import (
    BaseTool,
    FunctionTool,
    NamedCheck,
    NamedGuardrail,
    NamedHook,
)
from runward.tools.plugin.errors import PluginError
from runward.tools.plugin.tool import PluginTool, check_callable, make_tool

ENTRY_POINTS: Final = "runward.tools"
TOOLS: Final = "TOOLS"
"""Name of a module's list of tools. A module without this list provides all its decorated
functions."""
PLUGIN_NAME: Final = r"[A-Za-z][A-Za-z0-9_.-]{0,127}"
_NAMES: Final = "a letter, then up to 127 letters, digits, dots, dashes and underscores"


@dataclass(frozen=True, slots=True)
class Plugins:
    """The loaded tools, guardrails and hooks by name."""

    tools: Mapping[str, PluginTool] = field(default_factory=dict[str, PluginTool])
    guardrails: Mapping[str, NamedGuardrail] = field(default_factory=dict[str, NamedGuardrail])
    hooks: Mapping[str, NamedHook] = field(default_factory=dict[str, NamedHook])


def load_plugins(modules: Sequence[str]) -> Plugins:
    """Load the modules, given as `package.module` or `package.module:name`, and the installed entry
    points. Raises PluginError."""
    named = [*_installed(), *((module, "RUNWARD_PLUGINS") for module in modules)]
    wanted: dict[str, str] = {}
    for value, origin in named:
        wanted.setdefault(value, f"{value} ({origin})")
    collected = _PluginCollector()
    for value, origin in wanted.items():
        for item in _items(value, origin):
            collected.add(item, origin)
    return collected.checked()


def collect(items: Sequence[Any], origin: str = "the list") -> Plugins:
    """Collect tools, guardrails and hooks that are already loaded. Raises PluginError."""
    collected = _PluginCollector()
    for item in items:
        collected.add(item, origin)
    return collected.checked()


class _PluginCollector:
    def __init__(self) -> None:
        self._tools: dict[str, PluginTool] = {}
        self._guardrails: dict[str, NamedGuardrail] = {}
        self._hooks: dict[str, NamedHook] = {}
        self._origins: dict[tuple[str, str], str] = {}
        self._seen: list[Any] = []

    def add(self, item: Any, origin: str) -> None:
        """Add an item. The same object from two modules counts once."""
        if any(item is one for one in self._seen):
            return
        self._seen.append(item)
        if isinstance(item, NamedCheck):
            kind = "hook" if isinstance(item, NamedHook) else "guardrail"
            check_callable(f"Plugin {origin}", f"{kind} '{item.name}'", item.function, 2)
            into = self._hooks if isinstance(item, NamedHook) else self._guardrails
            self._put(into, kind, item.name, item, origin)
        else:
            try:
                tool = make_tool(item)
            except PluginError as error:
                raise PluginError(f"Plugin {origin}: {error}") from error.__cause__
            where = f"{tool.reference} in {origin}"
            self._put(self._tools, "tool", tool.spec.name, tool, where)

    def _put(self, into: dict[str, Any], kind: str, name: str, item: Any, origin: str) -> None:
        if kind != "tool" and not re.fullmatch(PLUGIN_NAME, name):
            raise PluginError(
                f"Plugin {origin}: '{name}' is not a valid name for a {kind}. A name is {_NAMES}."
            )
        if name in into:
            other = self._origins[kind, name]
            raise PluginError(f"Two plugins have a {kind} named '{name}': {other} and {origin}.")
        into[name] = item
        self._origins[kind, name] = origin

    def checked(self) -> Plugins:
        for name, tool in self._tools.items():
            for one in tool.spec.guardrails:
                if isinstance(one, PluginGuardrail) and one.name not in self._guardrails:
                    raise PluginError(
                        f"Plugin {self._origins['tool', name]}: the guardrail "
                        f"'{one.name}' of the tool is not loaded"
                    )
        return Plugins(self._tools, self._guardrails, self._hooks)


def _installed() -> Iterator[tuple[str, str]]:
    """Return the installed entry points, sorted, so that every process has the same order."""
    found = sorted(entry_points(group=ENTRY_POINTS), key=lambda one: (one.name, one.value))
    for point in found:
        of = f" of {point.dist.name}" if point.dist is not None else ""
        yield point.value.replace(" ", ""), f"entry point '{point.name}'{of}"


def _items(value: str, origin: str) -> list[Any]:
    name, _, attribute = value.partition(":")
    try:
        module = importlib.import_module(name)
    except Exception as error:
        raise PluginError(
            f"Plugin {origin}: {name} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    if not attribute:
        return _of_module(module, origin)
    found: Any = module
    for step in attribute.split("."):
        if not hasattr(found, step):
            raise PluginError(f"Plugin {origin}: {name} has no '{attribute}'.")
        found = getattr(found, step)
    return list(cast(list[Any], found)) if isinstance(found, list | tuple) else [found]


def _of_module(module: ModuleType, origin: str) -> list[Any]:
    own: list[Any] = [  # and not only imported; for an object, the module of its class counts
        one
        for one in vars(module).values()
        if isinstance(one, FunctionTool | BaseTool | NamedCheck)
        and one.__module__ == module.__name__
    ]
    listed = getattr(module, TOOLS, None)
    if listed is None:
        found = own
    elif isinstance(listed, list | tuple):
        others = [one for one in own if isinstance(one, NamedCheck)]
        found = [*cast(list[Any], listed), *others]
    else:
        raise PluginError(f"Plugin {origin}: {TOOLS} must be a list.")
    if not found:
        raise PluginError(
            f"Plugin {origin}: the module has no list {TOOLS} and no function decorated with @tool."
        )
    return found
