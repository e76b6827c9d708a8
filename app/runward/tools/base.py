"""One attempt at one call, whatever executes it: a webhook now, a plugin or MCP server later."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias
from uuid import UUID

from pydantic import JsonValue

from runward.domain.ids import CallId, ProjectId, RunId
from runward.domain.json import JsonObject
from runward.domain.registry.tools import ToolSpec
from runward.domain.run.outcomes import Done, Failed, FailureKind, Outcome, Waits

__all__ = ["Done", "Failed", "FailureKind", "Invocation", "Outcome", "ToolInvoker", "Waits"]


Report: TypeAlias = Callable[[float | None, str | None], None]
"""Progress from 0 to 1 and a message, for those who watch."""


LEASE_LOST: Final = Failed(
    FailureKind.NOT_SENT,
    "The worker lost the lease of the run before it sent the call.",
    permanent=True,
)
DATABASE_UNAVAILABLE: Final = Failed(
    FailureKind.NOT_SENT,
    "The call was not sent. The database was unreachable, so the lease could not be checked.",
)


async def _always() -> bool:
    return True


def _unheard(progress: float | None, message: str | None) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Invocation:
    """Everything an attempt may know. `seconds` is what is left for it, DNS to last byte."""

    project_id: ProjectId
    run_id: RunId
    call_id: CallId
    call_uuid: UUID
    tool: ToolSpec
    tool_version: int
    agent: str | None
    arguments: JsonObject
    context: Mapping[str, JsonValue] | None
    attempt: int
    fence: int
    seconds: float
    callback_url: str
    callback_token: str
    secrets: tuple[str, ...]
    """The tool's `whsec_…` signing secrets that are valid now, newest first."""
    session_id: str | None = None
    state: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """The state of the session, or of the run where it has none, as it was when this began."""
    handoffs: tuple[str, ...] = ()
    """The agents that may take the run over."""
    report: Report = _unheard
    may_send: Callable[[], Awaitable[bool]] = _always
    """Await this before the first byte if anything was awaited since the call started. Another
    worker may have the run by now. If it returns False, return `LEASE_LOST`."""
    input: JsonObject | None = None
    """What the caller answered to what the tool asked, and the state that it gave for that."""


class ToolInvoker(Protocol):
    async def invoke(self, call: Invocation) -> Outcome:
        """One attempt, never more; returns within `call.seconds` + 1."""
        ...
