"""The start of child runs, and the results of those that a plugin function requests.

If a function requests child runs with `ctx.run_agent`, the row of the tool call stores the requests
that are still open, and the results of the others. When all requested child runs have ended, the
call is ready again, and its function runs again."""

from collections.abc import Sequence
from dataclasses import replace

from pydantic import JsonValue

from runward.domain.events.kinds import ToolCallProgressEvent
from runward.domain.ids import Prefix, format_id
from runward.domain.json import JsonObject
from runward.domain.run import texts
from runward.domain.run.bounds import MAX_RUN_BYTES, count_json_bytes
from runward.domain.run.family import Child, ChildRun
from runward.domain.run.outcomes import AgentRequest, InputRequest
from runward.domain.run.run_events import add_usage
from runward.domain.run.state import Call, CallPhase, Changes, RunState
from runward.domain.run.status import RunStatus


def read_agent_results(call: Call) -> tuple[JsonObject, ...]:
    """Return the results of the child runs that the call's function has requested so far. Each has
    the `digest` of its request, and an `output` or an `error`."""
    return _objects(call.exchange.state if call.exchange else None)


def start_children(
    state: RunState,
    changes: Changes,
    call: Call,
    children: Sequence[ChildRun],
    requests: Sequence[AgentRequest] = (),
) -> RunState:
    """Start the child runs of a call: one for an agent as a tool, or one for each of `requests`,
    which one attempt of a function made. The child runs execute in parallel."""
    first = min(child.id for child in children)
    waiting = replace(call, phase=CallPhase.AWAITING_CHILD, child_run_id=first)
    if requests:
        pending: list[JsonValue] = [
            {"run_id": str(child.id), "agent": request.agent, "digest": request.digest}
            for request, child in zip(requests, children, strict=True)
        ]
        number = (call.exchange.number if call.exchange else 0) + len(requests)
        results = list[JsonValue](read_agent_results(call))
        exchange = InputRequest(number, call.attempt, pending, results)
        waiting = replace(waiting, exchange=exchange)
    changes.put_call(waiting)
    changes.children += children
    changes.progress = True
    for child in children:
        changes.add(
            ToolCallProgressEvent(
                {
                    "call_id": call.id,
                    "status": "child_started",
                    "run_id": format_id(Prefix.RUN, child.id),
                    "agent": child.agent,
                }
            )
        )
    return state.with_call(waiting)


def find_ended(state: RunState, call: Call) -> tuple[Child, ...]:
    """Return the requested child runs of the call that have ended and are not recorded yet."""
    if call.phase is not CallPhase.AWAITING_CHILD or call.exchange is None:
        return ()
    awaited = {str(one["run_id"]) for one in _objects(call.exchange.requests)}
    return tuple(
        child
        for child in state.children.values()
        if child.has_ended and str(child.run_id) in awaited
    )


def record_results(state: RunState, changes: Changes, call: Call) -> RunState:
    """Record all requested child runs of the call that have ended."""
    for child in find_ended(state, call):
        state = record_result(state, changes, state.calls[call.id], child)
    return state


def record_result(state: RunState, changes: Changes, call: Call, child: Child) -> RunState:
    """Record the result and the usage of a requested child run that has ended. After the last one,
    the call is ready again: in its next attempt, the function reads the results."""
    assert call.exchange is not None
    pending = _objects(call.exchange.requests)
    [request] = [one for one in pending if one["run_id"] == str(child.run_id)]
    left: list[JsonValue] = [one for one in pending if one is not request]
    result: JsonObject = {"digest": request["digest"]}
    if child.status is RunStatus.COMPLETED:
        result["output"] = child.output if child.parsed is None else child.parsed
    else:
        result["error"] = describe_failed_child(request["agent"], child)
    size = count_json_bytes(result)
    if state.stored_bytes + size > MAX_RUN_BYTES:
        result = {"digest": request["digest"], "error": texts.INVALID_RESPONSE}
    results: list[JsonValue] = [*read_agent_results(call), result]
    recorded = replace(
        call,
        phase=CallPhase.AWAITING_CHILD if left else CallPhase.READY,
        exchange=replace(call.exchange, requests=left, state=results, answered=not left),
    )
    changes.put_call(recorded)
    changes.progress = True
    state = add_usage(state, changes, child.usage, call.id)
    return replace(state.with_call(recorded), stored_bytes=state.stored_bytes + size)


def describe_failed_child(agent: JsonValue, child: Child) -> str:
    detail = f"The run of agent '{agent}' ended with status {child.status}"
    reason = (child.error or {}).get("message")
    return f"{detail}: {reason}" if isinstance(reason, str) else f"{detail}."


def _objects(value: JsonValue) -> tuple[JsonObject, ...]:
    found = value if isinstance(value, list) else ()
    return tuple(one for one in found if isinstance(one, dict))
