"""Tool versions ready for use, kept between runs: parsed and compiled once."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from math import inf
from typing import Final
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncEngine

from runward.domain.ids import ProjectId
from runward.domain.json import compact
from runward.domain.registry.tools import HostedToolKind, ToolSpec
from runward.domain.run import builtins, history
from runward.domain.run.config import Limits
from runward.domain.run.outcomes import Outcome
from runward.domain.run.state import Call, RunState
from runward.domain.run.tools import (
    CompiledTool,
    compile_tool,
)
from runward.store.access.vault import Vault
from runward.store.registry import tool_registry
from runward.tools import signing
from runward.tools.base import Invocation

SMALLEST_SECONDS: Final = 0.01
"""The least time of a call."""
MAX_KEPT: Final = 4096
"""Tool versions in memory."""
MAX_SCHEMA_CHARACTERS: Final = 8 * 1024 * 1024
"""Of the schemas of all tool versions in memory. A compiled schema takes up to 130 times as many
bytes."""


@dataclass(frozen=True, slots=True)
class SignedTool:
    """A tool and the secrets that sign its requests, newest first."""

    tool: CompiledTool
    all_secrets: tuple[str, ...]
    overlap_ends: float = inf

    @property
    def secrets(self) -> tuple[str, ...]:
        """Those that are valid now."""
        return signing.valid_secrets(self.all_secrets, self.overlap_ends)


class ToolSet:
    """The tools that one run may show, and those that it has open calls of."""

    def __init__(self, signed_tools: Mapping[tuple[str, int], SignedTool]) -> None:
        self._armed = signed_tools

    def current(self, state: RunState) -> dict[str, CompiledTool]:
        """As they are now, in the order in which the run names them."""
        return {
            name: self._armed[name, state.tool_versions[name]].tool
            for name in state.config.tools
            if (name, state.tool_versions.get(name)) in self._armed
        }

    def get(self, name: str, version: int) -> SignedTool:
        """Raises KeyError."""
        return self._armed[name, version]

    def find(self, call: Call) -> SignedTool | None:
        """The version that the call was made for. None: it was never registered."""
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
        """Of the tool versions in memory."""
        self._known: dict[UUID, dict[str, HostedToolKind | None]] = {}
        self._changes = 0
        self._watchers: dict[UUID, list[asyncio.Event]] = {}

    async def fetch(self, project_id: ProjectId, wanted: Iterable[tuple[str, int]]) -> ToolSet:
        """By name and version; versions that do not exist are left out."""
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
        if changes == self._changes:  # else it may be what was just forgotten
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
        """The names under which no tool is registered."""
        known = await self.find_kinds(project_id, names)
        return [name for name in names if name not in known]

    async def find_kinds(
        self, project_id: ProjectId, names: Sequence[str]
    ) -> Mapping[str, HostedToolKind | None]:
        """The kind of those that a provider runs, None for others; what is not registered is not
        among them. Remembered until something about the project's tools changes."""
        known = self._known.setdefault(project_id, {})
        unsure = [name for name in names if name not in known]
        if unsure:
            async with self._pool.connect() as tx:
                known.update(await tool_registry.read_hosted_kinds(tx, project_id, unsure))
        return known

    def forget(self, project_id: UUID | None, *, tell: bool = True) -> None:
        """Something about the project's tools or agents changed (a secret, say); None: of any
        project. `tell`: those who watch it."""
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
        """It is set when something about the project's tools or agents may have changed."""
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
    """Implements `ToolExecutor` for one run: built-in tools read only what it has in memory.
    `state` and `tools` are called for each call."""

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
    """Return the tool's own timeout, the run's, or the service's, but no more than the run has
    `left`. The run's and the service's do not hold for a client, which may be a person."""
    general = limits.tool_timeout_seconds or default.total_seconds()
    seconds = spec.timeout_seconds or (None if spec.type == "client" else general)
    return seconds if left is None or seconds is None else max(SMALLEST_SECONDS, min(seconds, left))
