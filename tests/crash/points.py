"""The crash points: each names a function of the service and the moment before or after it.

They exist only in test builds (see `build`). `when` receives the arguments and the result of the
function, and returns whether this is the moment that the point means.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Values: TypeAlias = tuple[Any, ...]
When: TypeAlias = Callable[[Values, Any], bool]
"""The positional arguments, `self` among them, and the result (None before the function)."""

Stage: TypeAlias = Literal["unstarted", "unsent", "sent", "recorded"]
"""How far the effect of the run is where a process ends at the point: its start is not committed;
it is, and nothing was sent; it has happened, and no result is committed; its result is."""
Story: TypeAlias = Literal[
    "plain", "session", "held", "sweep", "expire_approval", "expire_call", "expire_run", "cancel"
]
"""What the test does to the run so that the point is reached."""


def always(_values: Values, _result: Any) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Point:
    """`target` is `module:attribute`. `answered`: what was asked of PostgreSQL is committed, so a
    cut connection loses the answer. `locks`: a transaction that has locked the run is open."""

    name: str
    target: str
    moment: Literal["before", "after"]
    stage: Stage
    when: When = always
    process: Literal["worker", "api"] = "worker"
    story: Story = "plain"
    answered: bool = False
    locks: bool = False


def _entries(values: Values) -> list[tuple[Any, Any]]:
    """Steps with their write ids, of a batch: `(self, entries)`, or `(entries, rows)`."""
    return values[1] if hasattr(values[0], "write") else values[0]


def _writes(kind: str) -> Callable[[Any], bool]:
    """A step that commits a call's start or result, a park, a run's end, or a child run."""

    def writes(step: Any) -> bool:
        types = {event.type for event in step.changes.events}
        move = step.ending.move if step.ending else None
        return {
            "start": "tool_call.started" in types,
            "result": bool({"tool_call.completed", "tool_call.outcome_unknown"} & types),
            "park": move in ("park", "defer"),
            "end": "run.completed" in types,
            "child": bool(step.changes.children),
        }[kind]

    return writes


def _flushes(kind: str) -> When:
    """A batch on the committer's own connection."""
    writes = _writes(kind)
    return lambda values, found: any(
        writes(step) and step.related is None and _is_written(found, write_id)
        for step, write_id in _entries(values)
    )


def _alone(kind: str) -> When:
    """A step in a transaction of its own."""
    writes = _writes(kind)
    return lambda values, found: any(
        writes(step) and step.related is not None and _is_written(found, write_id)
        for step, write_id in _entries(values)
    )


def _is_written(found: Any, write_id: Any) -> bool:
    """Whether the gate let the step through, where it was asked already. It may have skipped a row
    that somebody else had locked."""
    return found is None or type(found[write_id]).__name__ == "Committed"


def _of_turn(turn: int) -> When:
    """`(engine, key, model, request, on_delta)`. The request shows so many results of tools."""
    return lambda values, _: (
        turn == sum(type(item).__name__ == "ToolResult" for item in values[3].items)
    )


def _claims(fences: range) -> When:
    return lambda _, claimed: any(state.fence in fences for state in claimed.states)


def _holds(values: Values, _: Any) -> bool:
    return bool(values[0]._read_held())


def _ids(_values: Values, found: Any) -> bool:
    """The runs whose leases have expired; the other sweeps find pairs."""
    return bool(found) and type(found).__name__ == "list" and type(found[0]).__name__ == "UUID"


def _found(_values: Values, found: Any) -> bool:
    return bool(found)


COMMIT = "runward.store.runs.writers:StepWriter"
FIRST, LATER = range(1, 2), range(2, 10_000)


def _flush(kind: str, before: Stage, after: Stage) -> list[Point]:
    return [
        Point(f"flush.{kind}.unsent", f"{COMMIT}._send_on_own_connection", "before", before,
              _flushes(kind)),
        Point(f"flush.{kind}.unanswered", f"{COMMIT}._send_on_own_connection", "after", after,
              _flushes(kind), answered=True),
    ]  # fmt: skip


def _lone(kind: str, before: Stage, after: Stage, story: Story = "plain") -> list[Point]:
    return [
        Point(f"lone.{kind}.unsent", f"{COMMIT}._send_in_transaction", "before", before,
              _alone(kind), story=story),
        Point(f"lone.{kind}.uncommitted", "runward.store.runs.gate:read_outcomes", "after", before,
              _alone(kind), story=story, locks=True),
        Point(f"lone.{kind}.unanswered", f"{COMMIT}._send_in_transaction", "after", after,
              _alone(kind), story=story, answered=True),
    ]  # fmt: skip


def _outside(
    name: str, function: str, committed: str, stages: tuple[Stage, Stage], story: Story
) -> list[Point]:
    """What another than the worker does to a run, in one transaction of an API process."""
    before, after = stages
    return [
        Point(f"{name}.before", function, "before", before, process="api", story=story),
        Point(f"{name}.uncommitted", function, "after", before, process="api", story=story,
              locks=True),
        Point(f"{name}.committed", committed, "after", after, process="api", story=story),
    ]  # fmt: skip


def _due(name: str, function: str, stage: Stage, story: Story) -> list[Point]:
    """What the sweep does to one row."""
    return [
        Point(f"{name}.before", function, "before", stage, story=story),
        Point(f"{name}.uncommitted", function, "after", stage, _found, story=story, locks=True),
        Point(f"{name}.committed", "runward.worker.reaper:Reaper._alone", "after", stage,
              lambda _, closed: type(closed).__name__ == "Closed", story=story),
    ]  # fmt: skip


POINTS: tuple[Point, ...] = (
    Point("claim.before", "runward.store.runs.queue:claim", "before", "unstarted"),
    Point("claim.committed", "runward.store.runs.queue:claim", "after", "unstarted", _claims(FIRST),
          answered=True),
    Point("claim_again.committed", "runward.store.runs.queue:claim", "after", "unstarted", _claims(LATER),
          answered=True),
    Point("heartbeat.before", "runward.worker.leases:Heartbeat._renew", "before", "sent", _holds,
          story="held"),
    Point("heartbeat.uncommitted", "runward.store.runs.sweep:renew_leases", "after", "sent", story="held"),
    Point("heartbeat.committed", "runward.worker.leases:Heartbeat._renew", "after", "sent", _holds,
          story="held"),
    Point("model.first.before", "runward.loop.turn:_attempt", "before", "unstarted", _of_turn(0)),
    Point("model.first.answered", "runward.loop.turn:_attempt", "after", "unstarted", _of_turn(0)),
    Point("model.last.before", "runward.loop.turn:_attempt", "before", "recorded", _of_turn(1)),
    Point("model.last.answered", "runward.loop.turn:_attempt", "after", "recorded", _of_turn(1)),
    *_flush("start", "unstarted", "unsent"),
    *_flush("park", "unstarted", "unstarted"),
    *_flush("result", "sent", "recorded"),
    *_flush("end", "recorded", "recorded"),
    *_lone("child", "unstarted", "unsent"),
    *_lone("park", "unstarted", "unsent"),
    *_lone("end", "recorded", "recorded", story="session"),
    Point("webhook.before", "runward.tools.signing:SignedPostClient.send", "before", "unsent"),
    Point("webhook.sent", "runward.egress.client:Egress._exchange", "after", "sent"),
    Point("webhook.answered", "runward.tools.webhook.invoker:WebhookInvoker.invoke", "after", "sent"),
    Point("plugin.before", "runward.tools.plugin.registry:PluginHost.invoke", "before", "unsent"),
    Point("plugin.answered", "runward.tools.plugin.registry:PluginHost.invoke", "after", "sent"),
    Point("mcp.before", "runward.tools.mcp.invoker:McpInvoker._call", "before", "unsent"),
    Point("mcp.answered", "runward.tools.mcp.invoker:McpInvoker._call", "after", "sent"),
    Point("accept.before", "runward.store.runs.writers:AcceptWriter.write", "before", "unstarted",
          process="api"),
    Point("accept.committed", "runward.store.runs.writers:AcceptWriter.write", "after", "unstarted",
          process="api", answered=True),
    *_outside("decision", "runward.store.runs.decisions:decide", "runward.api.approvals.decision:respond_once",
              ("unstarted", "unstarted"), "plain"),
    *_outside("callback", "runward.store.runs.transitions:take_callback", "runward.api.runs.call_routes:CallbackReceipt",
              ("sent", "recorded"), "plain"),
    *_outside("client_result", "runward.store.runs.client_results:submit_result", "runward.api.runs.call_routes:respond_once",
              ("sent", "recorded"), "plain"),
    *_outside("cancel", "runward.store.runs.transitions:cancel", "runward.api.runs.routes:cancel",
              ("sent", "sent"), "cancel"),
    Point("notice.before", "runward.loop.notices:Notices._send", "before", "sent", process="api",
          story="cancel"),
    Point("notice.sent", "runward.loop.notices:Notices._send", "after", "sent", process="api",
          story="cancel"),
    Point("sweep.before", "runward.store.runs.sweep:free_expired_leases", "before", "sent", story="sweep"),
    Point("sweep.uncommitted", "runward.store.runs.sweep:free_expired_leases", "after", "sent", _found,
          story="sweep", locks=True),
    Point("sweep.committed", "runward.worker.reaper:Reaper._alone", "after", "sent",
          _ids, story="sweep"),
    *_due("expire_approval", "runward.store.runs.transitions:expire_approval", "unstarted", "expire_approval"),
    *_due("expire_call", "runward.store.runs.transitions:expire_callback", "sent", "expire_call"),
    *_due("expire_run", "runward.store.runs.transitions:expire_run", "unstarted", "expire_run"),
)  # fmt: skip
BY_NAME = {point.name: point for point in POINTS}
