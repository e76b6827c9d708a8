"""Abandoned calls: calls that were sent and whose result is no longer needed. Runward notifies
their tools."""

from collections.abc import Iterable
from typing import Final

from runward.domain.ids import ProjectId, RunId
from runward.domain.immutable import immutable
from runward.domain.registry.tools import InlineToolSpec
from runward.domain.run.config import get_inline_tools, get_trace
from runward.domain.run.state import Call, CallOutcome, Changes, RunState
from runward.domain.run.tools import UNREGISTERED

_WITHOUT_ANSWER: Final = frozenset({CallOutcome.CANCELLED, CallOutcome.TIMED_OUT})


@immutable
class AbandonedCall:
    project_id: ProjectId
    run_id: RunId
    agent: str | None
    call: Call
    root_run_id: RunId
    fence: int
    trace: dict[str, str] | None
    """See `RunConfig.trace`."""
    inline_tool: InlineToolSpec | None = None
    """The definition of the call's tool. None if the tool is not an inline tool."""

    @property
    def reason(self) -> str:
        """Return the reason that the tool receives: `run_cancelled`, `run_ended` or `timed_out`."""
        assert self.call.result is not None
        return self.call.result.reason or self.call.result.outcome


@immutable
class Closed:
    """The effects of a result that was submitted from outside the loop. After the result is
    committed, Runward notifies the tools of `abandoned`."""

    abandoned: tuple[AbandonedCall, ...] = ()


def find_abandoned(state: RunState, changes: Changes) -> tuple[AbandonedCall, ...]:
    """Return the abandoned calls among the calls that this step settles. Each call is returned only
    once, because it is settled only once."""
    inline_tools = {spec.name: spec for spec in get_inline_tools(state.config)}
    return tuple(
        AbandonedCall(
            state.project_id,
            state.id,
            state.agent,
            call,
            state.lineage.ancestors[0] if state.lineage else state.id,
            state.fence,
            get_trace(state.config),
            inline_tools.get(call.tool) if call.version == UNREGISTERED else None,
        )
        for call in changes.updated.values()
        if call.result is not None
        and call.result.outcome in _WITHOUT_ANSWER
        and call.attempt > 0
        and call.version is not None
    )


def merge_closed(closed: Iterable[Closed]) -> Closed:
    return Closed(tuple(call for one in closed for call in one.abandoned))
