"""Relatives of a run: its parent and its child runs, and the agents that carry it on."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from runward.domain.ids import CallId, RunId
from runward.domain.json import JsonObject
from runward.domain.run.config import AgentConfig
from runward.domain.run.items import Item
from runward.domain.run.response import Usage
from runward.domain.run.status import TERMINAL, RunStatus


@dataclass(frozen=True, slots=True)
class Member:
    """An agent as it was when the run started."""

    config: AgentConfig
    version: int
    description: str | None = None


@dataclass(frozen=True, slots=True)
class Child:
    """How far the child run of an open call is, when it was loaded."""

    run_id: RunId
    status: RunStatus
    output: JsonValue = None
    parsed: JsonValue = None
    error: JsonObject | None = None
    usage: Usage = field(default_factory=Usage)
    escalated: bool = False

    @property
    def has_ended(self) -> bool:
        return self.status in TERMINAL


@dataclass(frozen=True, slots=True)
class Lineage:
    """Where a child run comes from: the runs above it, and the agents from the first of them down
    to it."""

    parent: RunId
    call_id: CallId
    ancestors: tuple[RunId, ...]
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChildRun:
    """A run that is started with the step that needs its output."""

    id: RunId
    call_id: CallId
    agent: str
    member: Member
    team: Mapping[str, Member]
    input: tuple[Item, ...]
    context: JsonObject | None
    deadline_seconds: float | None


def list_tool_names(config: AgentConfig, team: Mapping[str, Member]) -> tuple[str, ...]:
    """The registered tools that a run may use, whoever of its team carries it on."""
    named = [config.tools, *(member.config.tools for member in team.values())]
    return tuple(dict.fromkeys(name for names in named for name in names))
