"""A cache of tool versions, which are parsed and compiled once and shared by runs."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from math import inf
from typing import Final
from uuid import UUID

from runward.domain.ids import ProjectId
from runward.domain.json import compact
from runward.domain.registry.tools import HostedToolKind, ToolSpec
from runward.domain.run import builtins, history
from runward.domain.run.config import Limits, get_inline_tools
from runward.domain.run.outcomes import Outcome
from runward.domain.run.state import Call, RunState
from runward.domain.run.tools import UNREGISTERED, CompiledTool, compile_tool
from runward.store.access.vault import Vault
from runward.store.postgres.engine import AsyncEngine
from runward.store.registry import tool_registry
from runward.tools import signing
from runward.tools.base import Invocation

SMALLEST_SECONDS: Final = 0.01
"""The minimum timeout of a call in seconds."""
MAX_KEPT: Final = 4096
"""Maximum number of cached tool versions."""
MAX_SCHEMA_CHARACTERS: Final = 8 * 1024 * 1024
"""Maximum total size of the schemas of all cached tool versions. A compiled schema takes up to 130
times as many bytes."""


@dataclass(frozen=True, slots=True)
class SignedTool:
    """A tool and the secrets that sign its requests, newest first. The first `current_secrets` also
    sign after the overlap."""

    tool: CompiledTool
    all_secrets: tuple[str, ...]
    overlap_ends: float = inf
    current_secrets: int = 1

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the signing secrets that are valid now."""
        return signing.valid_secrets(self.all_secrets, self.overlap_ends, self.current_secrets)


class ToolSet:
    """The tools that one run can show, and the tools of its open calls."""

    def __init__(self, signed_tools: Mapping[tuple[str, int], SignedTool]) -> None:
        self._armed = signed_tools

    def current(self, state: RunState) -> dict[str, CompiledTool]:
        """Return the current versions of the tools, in the order of the run's configuration."""
        keys = [(name, state.tool_versions.get(name)) for name in state.config.tools]
        keys += [(spec.name, UNREGISTERED) for spec in get_inline_tools(state.config)]
        found = [self._armed.get((name, version or UNREGISTERED)) for name, version in keys]
        return {one.tool.name: one.tool for one in found if one is not None}

    def get(self, name: str, version: int) -> SignedTool:
        """Return a version of a tool. Raises KeyError."""
        return self._armed[name, version]

    def find_version(self, name: str, version: int) -> SignedTool | None:
        return self._armed.get((name, version))

    def combine(self, other: "ToolSet") -> "ToolSet":
        """Return the tools of both."""
        return ToolSet({**self._armed, **other._armed})

    def find(self, call: Call) -> SignedTool | None:
        """Return the version of the tool that the call uses, or None if it is neither registered
        nor an inline tool."""
        return self._armed.get((call.tool, call.version or 0))


def _count_schema_characters(armed: SignedTool) -> int:
    """Return the size of the tool's schemas in characters of JSON."""
    spec = armed.tool.spec
    return len(compact(spec.parameters)) + len(compact(spec.output_schema or {}))


class Toolbox:
    def __init__(self, pool: AsyncEngine, vault: Vault) -> None:
        self._pool = pool
        self._vault = vault
        self._kept: OrderedDict[tuple[UUID, str, int], SignedTool] = OrderedDict()
        self.schema_characters = 0
        """Total size in characters of the schemas of the cached tool versions."""
        self._known: dict[UUID, dict[str, HostedToolKind | None]] = {}
        self._changes = 0
        self._watchers: dict[UUID, list[asyncio.Event]] = {}

    async def fetch(self, project_id: ProjectId, wanted: Iterable[tuple[str, int]]) -> ToolSet:
        """Return the tools with these names and versions. Versions that do not exist are
        omitted."""
        keys = {pair: (project_id, *pair) for pair in wanted}
        found = {pair: self._kept[key] for pair, key in keys.items() if key in self._kept}
        missing = [pair for pair in keys if pair not in found]
        if missing:
            found |= await self._read(project_id, missing)
        return ToolSet(found)

    async def _read(
        self, project_id: ProjectId, missing: Sequence[tuple[str, int]]
    ) -> dict[tuple[str, int], SignedTool]:
        changes = self._changes
        async with self._pool.connect() as tx:
            rows = await tool_registry.read_versions(tx, self._vault, project_id, missing)
        found = {
            (one.spec.name, one.version): SignedTool(
                compile_tool(one.spec, one.version),
                one.secrets,
                signing.end_of_overlap(one.former_seconds),
            )
            for one in rows
        }
        if changes == self._changes:  # otherwise the value may already be outdated
            for pair, armed in found.items():
                if (key := (project_id, *pair)) not in self._kept:
                    self._kept[key] = armed
                    self.schema_characters += _count_schema_characters(armed)
            while len(self._kept) > MAX_KEPT or self.schema_characters > MAX_SCHEMA_CHARACTERS:
                self.schema_characters -= _count_schema_characters(
                    self._kept.popitem(last=False)[1]
                )
        return found

    async def list_unregistered(self, project_id: ProjectId, names: Sequence[str]) -> list[str]:
        """Return the names that no registered tool has."""
        known = await self.find_kinds(project_id, names)
        return [name for name in names if name not in known]

    async def find_kinds(
        self, project_id: ProjectId, names: Sequence[str]
    ) -> Mapping[str, HostedToolKind | None]:
        """Return the kind of each hosted tool, and None for other registered tools. Tools that are
        not registered are omitted. The result is cached until the project's tools change."""
        known = self._known.setdefault(project_id, {})
        unsure = [name for name in names if name not in known]
        if unsure:
            async with self._pool.connect() as tx:
                known.update(await tool_registry.read_hosted_kinds(tx, project_id, unsure))
        return known

    def forget(self, project_id: UUID | None, *, tell: bool = True) -> None:
        """Drop the cached tools of a project whose tools, agents or secrets changed. None: of all
        projects. `tell`: whether to notify the watchers."""
        self._changes += 1
        for key in [key for key in self._kept if project_id in (None, key[0])]:
            self.schema_characters -= _count_schema_characters(self._kept.pop(key))
        if project_id is None:
            self._known.clear()
        else:
            self._known.pop(project_id, None)
        told = list(self._watchers) if project_id is None else [project_id]
        for watched in told if tell else ():
            for changed in self._watchers.get(watched, ()):
                changed.set()

    @contextmanager
    def watch(self, project_id: ProjectId) -> Generator[asyncio.Event]:
        """Yield an event that is set when the project's tools or agents may have changed."""
        changed = asyncio.Event()
        watchers = self._watchers.setdefault(project_id, [])
        watchers.append(changed)
        try:
            yield changed
        finally:
            watchers.remove(changed)
            if not watchers:
                del self._watchers[project_id]


class BuiltinTools:
    """Implements `ToolExecutor` for the built-in tools of one run, which read only the run's state
    in memory. `state` and `tools` are called for each call."""

    def __init__(
        self, state: Callable[[], RunState], tools: Callable[[], Mapping[str, ToolSpec]]
    ) -> None:
        self._state = state
        self._tools = tools

    async def invoke(self, call: Invocation) -> Outcome:
        state = self._state()
        return builtins.invoke(
            call.tool.name,
            call.arguments,
            state,
            tools=self._tools(),
            search_history=lambda query, limit: history.search(state.history, query, limit),
        )


def seconds_for(
    spec: ToolSpec, limits: Limits, default: timedelta, left: float | None
) -> float | None:
    """Return the timeout of the tool, of the run, or of the service, but at most the time that the
    run has `left`. For a client tool, only the tool's timeout applies, because a person may be
    involved."""
    general = limits.tool_timeout_seconds or default.total_seconds()
    seconds = spec.timeout_seconds or (None if spec.type == "client" else general)
    return seconds if left is None or seconds is None else max(SMALLEST_SECONDS, min(seconds, left))
