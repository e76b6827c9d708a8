"""Tool versions ready for use, kept between runs: parsed and compiled once."""

import asyncio
import copy
from collections import OrderedDict
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from typing import Final, Protocol
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncEngine

from runward.domain.ids import Prefix, ProjectId, format_id
from runward.domain.json import JsonObject, compact
from runward.domain.registry.tools import ByCallable, HostedKind, When
from runward.domain.run.calls import Call
from runward.domain.run.state import RunState
from runward.domain.run.tools import (
    CompiledTool,
    RequestKey,
    build_rule_values,
    compile_tool,
    is_enabled,
    make_request_key,
)
from runward.store.access.vault import Vault
from runward.store.registry import tool_registry
from runward.tools import signing
from runward.tools.plugin.context import PolicyContext
from runward.tools.plugin.registry import PluginHost
from runward.tools.rules import RuleEvaluator, RuleQuestion

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
            name: self._armed[name, state.pinned[name]].tool
            for name in state.config.tools
            if (name, state.pinned.get(name)) in self._armed
        }

    def get(self, name: str, version: int) -> SignedTool:
        """Raises KeyError."""
        return self._armed[name, version]

    def find(self, call: Call) -> SignedTool | None:
        """The version that the call was made for. None: it was never registered."""
        return self._armed.get((call.tool, call.version or 0))


class ToolPolicies(Protocol):
    """Evaluate the rules and callables of tools."""

    @property
    def plugins(self) -> PluginHost: ...
    @property
    def rules(self) -> RuleEvaluator: ...


async def find_enabled_tools(
    tools: ToolSet, state: RunState, deciders: ToolPolicies
) -> dict[str, CompiledTool]:
    """The tools that are shown in this turn. A tool of a plugin that this process has not loaded
    is not shown."""
    current = tools.current(state)
    by_callable = [t for t in current.values() if isinstance(t.spec.enabled, ByCallable)]
    by_rule = {t.name: t.spec.enabled for t in current.values() if isinstance(t.spec.enabled, When)}
    plugins, about = deciders.plugins, _build_policy_context(state)
    answers = await asyncio.gather(*(plugins.is_enabled(t.spec, about) for t in by_callable))
    answered = {tool.name: answer for tool, answer in zip(by_callable, answers, strict=True)}
    questions = [
        RuleQuestion(r.when, build_rule_values(current[name], {})) for name, r in by_rule.items()
    ]
    decided = await deciders.rules.decide(state.project_id, questions, _build_shared_values(state))
    answered |= {name: one is True for name, one in zip(by_rule, decided, strict=True)}
    return {
        name: tool
        for name, tool in current.items()
        if is_enabled(tool, answered) and (tool.spec.type != "plugin" or tool.name in plugins)
    }


async def evaluate_approvals(
    tools: Mapping[str, CompiledTool],
    calls: Iterable[tuple[str, JsonObject]],
    state: RunState,
    deciders: ToolPolicies,
) -> dict[RequestKey, bool]:
    """The answers of rules and callables about calls, each a tool's name and its arguments; for
    `needs_approval`. Names that are not among `tools`, and calls that their schema refuses, are
    not asked about."""
    wanted = {
        make_request_key(name, arguments): (tools[name], arguments)
        for name, arguments in calls
        if name in tools
        and isinstance(tools[name].spec.approval, When | ByCallable)
        and not tools[name].arguments.problems(arguments)
    }
    by_callable = {
        key: one for key, one in wanted.items() if isinstance(one[0].spec.approval, ByCallable)
    }
    by_rule = {
        key: RuleQuestion(tool.spec.approval.when, build_rule_values(tool, arguments))
        for key, (tool, arguments) in wanted.items()
        if isinstance(tool.spec.approval, When)
    }
    plugins, about = deciders.plugins, _build_policy_context(state)
    answers = await asyncio.gather(
        *(plugins.needs_approval(t.spec, arguments, about) for t, arguments in by_callable.values())
    )
    decided = await deciders.rules.decide(
        state.project_id, list(by_rule.values()), _build_shared_values(state)
    )
    answered = dict(zip(by_callable, answers, strict=True))
    return answered | {key: one is not False for key, one in zip(by_rule, decided, strict=True)}


def _build_shared_values(state: RunState) -> JsonObject:
    """The values of the variables that all rules of a turn see."""
    run: JsonObject = {
        "id": format_id(Prefix.RUN, state.id),
        "agent": state.agent,
        "turn": state.turn,
    }
    return {"context": state.context, "run": run}


def _build_policy_context(state: RunState) -> PolicyContext:
    return PolicyContext(
        run_id=format_id(Prefix.RUN, state.id),
        agent=state.agent,
        turn=state.turn,
        context=copy.deepcopy(state.context or {}),
        state=copy.deepcopy(state.shared),
    )


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
        self._known: dict[UUID, dict[str, HostedKind | None]] = {}
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
    ) -> Mapping[str, HostedKind | None]:
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
