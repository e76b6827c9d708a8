"""Decisions that also cover later calls of the same tool."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from runward.domain.json import compute_digest
from runward.domain.registry.tools import Frozen
from runward.domain.run.calls import Call


class Remember(Frozen):
    """The decision also covers later calls of the same tool version by the same agent."""

    scope: Literal["run", "session"]
    """`run`: the rest of this run; `session`: its session's later runs too."""
    exact_arguments: bool = False
    """Only calls with the very same arguments."""
    expires_seconds: Annotated[float, Field(ge=1, le=31_536_000)] | None = None
    """For how long."""


@dataclass(frozen=True, slots=True)
class RememberedDecision:
    """A decision that also covers later calls of the same tool version."""

    decision: str
    tool: str
    version: int
    agent: str | None
    arguments_digest: str | None
    message: str | None
    seconds_left: float | None = None
    """Until it expires, when the run was loaded. None: it does not expire."""


def find_remembered_decision(
    remembered: tuple[RememberedDecision, ...], call: Call, agent: str | None
) -> RememberedDecision | None:
    """The latest remembered decision that covers `call`, if one does."""
    covering = (one for one in reversed(remembered) if one.agent == agent and covers(one, call))
    return next(covering, None)


def covers(memory: RememberedDecision, call: Call) -> bool:
    """Whether the decision is about the call's tool version and, if it says so, its arguments."""
    same_tool = (memory.tool, memory.version) == (call.tool, call.version)
    return same_tool and memory.arguments_digest in (None, compute_digest(call.arguments))
