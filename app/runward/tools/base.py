"""The interface between the loop and the executors of tools: one attempt of one call."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import Final, Protocol, TypeAlias
from uuid import UUID

from pydantic import JsonValue

from runward.domain.ids import CallId, ProjectId, RunId
from runward.domain.immutable import immutable
from runward.domain.json import JsonObject
from runward.domain.registry.tools import ToolSpec
from runward.domain.run.outcomes import Done, Failed, FailureKind, Outcome, Waits
from runward.domain.run.response import ReportedUsage

Report: TypeAlias = Callable[[float | None, str | None], None]
"""Reports progress from 0 to 1, and a message."""
AddUsage: TypeAlias = Callable[[ReportedUsage], None]
"""Adds the usage of a model to the usage of the run, when the attempt ends."""


LEASE_LOST: Final = Failed(
    FailureKind.NOT_SENT,
    "The worker lost the lease of the run before it sent the call.",
    permanent=True,
)
DATABASE_UNAVAILABLE: Final = Failed(
    FailureKind.NOT_SENT,
    "The call was not sent, because the database was unreachable and the lease "
    "could not be checked.",
)


async def _always() -> bool:
    return True


def _ignore_report(progress: float | None, message: str | None) -> None:
    pass


def _ignore_usage(usage: ReportedUsage) -> None:
    pass


@immutable
class Invocation:
    """The input of one attempt. `seconds` is the remaining time for everything from the DNS look-up
    to the last byte."""

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
    """The state of the session, or of the run if it has no session, at the start of the call."""
    handoffs: tuple[str, ...] = ()
    """The agents to which the call can hand off the run."""
    report: Report = _ignore_report
    add_usage: AddUsage = _ignore_usage
    may_send: Callable[[], Awaitable[bool]] = _always
    """Await this before the first byte if anything was awaited since the call started. Another
    worker may have the run by now. If it returns False, return `LEASE_LOST`."""
    input: JsonObject | None = None
    """The caller's answer to the tool's request for input, and the state that the request
    contained."""
    agent_results: tuple[JsonObject, ...] | None = None
    """The results of the child runs that a plugin function has requested in this call. None: the
    function cannot run agents."""


class ToolInvoker(Protocol):
    async def invoke(self, call: Invocation) -> Outcome:
        """Make one attempt. Return within `call.seconds` + 1."""
        ...


class FixedInvoker:
    """Ends each attempt with the same outcome, without a request."""

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome

    async def invoke(self, call: Invocation) -> Outcome:
        del call
        return self._outcome


AGENT_INVOKER: Final = FixedInvoker(Waits(on="child"))
"""Suspends the call of an agent. The loop starts a child run in its next step."""
CLIENT_INVOKER: Final = FixedInvoker(Waits(on="client"))
"""Suspends the call of a tool that the client runs. The run lists the call in its
`required_actions`."""
HOSTED_INVOKER: Final = FixedInvoker(Done({"approved": True}))
"""Completes the approved call of a hosted tool. The next model request contains the approval, and
the provider then runs the tool."""
