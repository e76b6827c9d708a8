"""Relatives of a run: its parent, its child runs, and the agents to which it can be handed over."""

from collections.abc import Mapping
from dataclasses import field

from pydantic import JsonValue

from runward.domain.ids import CallId, RunId
from runward.domain.immutable import immutable
from runward.domain.json import JsonObject
from runward.domain.run.config import AgentConfig
from runward.domain.run.items import Item
from runward.domain.run.response import Usage
from runward.domain.run.status import TERMINAL, RunStatus


@immutable
class Member:
    """An agent's configuration as it was when the run started."""

    config: AgentConfig
    version: int
    description: str | None = None


@immutable
class Child:
    """The state of a child run of an open call, at the time when the parent was loaded."""

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


@immutable
class Lineage:
    """The origin of a child run: the runs above it, and the agents from the topmost of these runs
    down to the child run."""

    parent: RunId
    call_id: CallId
    ancestors: tuple[RunId, ...]
    path: tuple[str, ...]


@immutable
class ChildRun:
    """A child run that is started in the same step that creates its call."""

    id: RunId
    call_id: CallId
    agent: str
    member: Member
    team: Mapping[str, Member]
    input: tuple[Item, ...]
    context: JsonObject | None
    deadline_seconds: float | None


def list_tool_names(config: AgentConfig, team: Mapping[str, Member]) -> tuple[str, ...]:
    """Return the registered tools that a run may use with any agent of its team."""
    named = [config.tools, *(member.config.tools for member in team.values())]
    return tuple(dict.fromkeys(name for names in named for name in names))
