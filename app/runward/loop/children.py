"""Child runs: the agent that a child run starts with, and the result that it returns."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from runward.domain.ids import ProjectId, RunId
from runward.domain.registry.tools import ChildToolOutput
from runward.domain.run import texts
from runward.domain.run.abandoned import Closed
from runward.domain.run.config import SelectionTooLargeError, add_trace, get_trace
from runward.domain.run.family import Child, ChildRun, Member
from runward.domain.run.outcomes import AgentRequest, Failed, FailureKind, Outcome
from runward.domain.run.resolve import ANSWERABLE_PHASES, parse_kept_answer
from runward.domain.run.state import Call, CallPhase, RunState
from runward.domain.run.team import MAX_DEPTH, build_child_input, read_child_outcome
from runward.domain.run.tools import CompiledTool
from runward.loop.toolbox import SignedTool
from runward.store.postgres.db import mint, retry_on_outage
from runward.store.postgres.engine import AsyncEngine
from runward.store.registry import agents
from runward.store.registry.agents import TeamTooLargeError
from runward.store.registry.tool_registry import expand_team
from runward.store.runs import transitions, views


class Children:
    def __init__(self, pool: AsyncEngine) -> None:
        self._pool = pool

    async def opened(
        self,
        state: RunState,
        call: Call,
        tool: CompiledTool,
        seconds_left: float | None,
        request: AgentRequest | None = None,
    ) -> ChildRun | Failed:
        """Return a child run of the agent's current version. `seconds_left`: until the deadline of
        the parent run. `request`: the request of a plugin function, None for an agent as a tool."""
        name = tool.spec.agent if request is None else request.agent
        assert name is not None
        if len(state.lineage.ancestors if state.lineage else ()) >= MAX_DEPTH:
            return _make_start_failure(
                f"The agent would start more than {MAX_DEPTH} levels of child runs.", texts.TOO_DEEP
            )
        try:
            found = await retry_on_outage(lambda: self._find(state.project_id, name))
        except TeamTooLargeError:
            why = f"The handoffs of agent '{name}' lead to too many agents."
            return _make_start_failure(why, texts.NO_SUCH_AGENT)
        except SelectionTooLargeError:
            why = f"The patterns in the tools of agent '{name}' select too many tools."
            return _make_start_failure(why, texts.NO_SUCH_AGENT)
        if found is None:
            return _make_start_failure(
                f"This project has no agent named '{name}'.", texts.NO_SUCH_AGENT
            )
        member, team = found
        own = member.config.limits.deadline_seconds
        if trace := get_trace(state.config):
            member = replace(member, config=add_trace(member.config, trace))
        # The timeout of a plugin's tool limits each attempt of its function, not the child run.
        timeout = tool.spec.timeout_seconds if request is None else None
        bounds = [one for one in (own, timeout, seconds_left) if one is not None]
        return ChildRun(
            id=RunId(mint()),
            call_id=call.id,
            agent=name,
            member=member if request is None else _override(member, request),
            team=team,
            input=build_child_input(
                call.arguments if request is None else {"input": request.input}
            ),
            context=state.context,
            deadline_seconds=max(1.0, min(bounds)) if bounds else None,
        )

    async def _find(
        self, project_id: ProjectId, name: str
    ) -> tuple[Member, dict[str, Member]] | None:
        async with self._pool.connect() as tx:
            agent = await agents.get_agent(tx, project_id, name)
            if agent is None:
                return None
            team, _ = await agents.find_team(tx, project_id, agent.config.handoffs)
            config, team, _ = await expand_team(tx, project_id, agent.config, team)
        member = replace(agents.make_member(agent), config=config)
        if team:
            team[name] = member
        return member, team

    async def result_of(self, state: RunState, tool: CompiledTool, child: Child) -> Outcome:
        """Return the outcome of a child run that has ended."""
        if not isinstance(tool.spec.output, ChildToolOutput):
            return read_child_outcome(tool, child)
        name = tool.spec.output.tool

        async def read() -> views.LastOutput | None:
            async with self._pool.connect() as tx:
                return await views.find_last_output(tx, state.project_id, child.run_id, name)

        return read_child_outcome(tool, child, await retry_on_outage(read))

    async def cancel(self, state: RunState) -> Closed:
        """Cancel the open child runs of a run that has ended. If this process ends first, a sweep
        cancels them."""

        async def write() -> Closed | None:
            async with self._pool.begin() as tx:
                return await transitions.cancel_descendants(tx, state.project_id, state.id)

        return await retry_on_outage(write) or Closed()


async def open_all(
    children: Children,
    state: RunState,
    call: Call,
    tool: CompiledTool,
    seconds_left: float | None,
    requests: Sequence[AgentRequest],
) -> list[ChildRun] | Failed:
    """Return the child run of an agent as a tool, or those that a plugin function requests. If one
    of them cannot start, return the failure of the call."""
    opened: list[ChildRun] = []
    for request in requests or (None,):
        child = await children.opened(state, call, tool, seconds_left, request)
        if isinstance(child, Failed):
            return child
        opened.append(child)
    return opened


def find_ended_child(state: RunState, call: Call) -> Child | None:
    """Return the child run that executes the call, if it has ended."""
    if call.phase is not CallPhase.AWAITING_CHILD or call.child_run_id is None:
        return None
    child = state.children.get(call.child_run_id)
    return child if child is not None and child.has_ended else None


async def find_late_outcome(
    children: Children, state: RunState, call: Call, sign: Callable[[Call], SignedTool]
) -> Outcome | None:
    """Return the output of a child run that has ended, or a stored callback."""
    child = find_ended_child(state, call)
    if child is not None:
        return await children.result_of(state, sign(call).tool, child)
    if call.phase in ANSWERABLE_PHASES and call.received is not None:
        return parse_kept_answer(call.received)
    return None


def _override(member: Member, request: AgentRequest) -> Member:
    """Return the agent with the options of a plugin function's request."""
    changes: dict[str, object] = {}
    if request.max_turns is not None:
        limits = member.config.limits
        changes["limits"] = limits.model_copy(update={"max_turns": request.max_turns})
    if request.output_schema is not None:
        changes["output_schema"] = request.output_schema
    return replace(member, config=member.config.model_copy(update=changes))


def _make_start_failure(detail: str, told: str) -> Failed:
    return Failed(FailureKind.ERROR, detail, message=told, permanent=True)
