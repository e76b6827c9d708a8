"""Mistakes that are planted into a copy of the service, to show that a story finds each. A process
that is forked with STATEFUL_MISTAKE changes its own code in memory before it runs.
"""

import asyncio
import os
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Final

from runward.api.http import idempotency
from runward.domain.run import approvals as rules
from runward.domain.run.decisions import ApproveDecision, EditDecision
from runward.loop import execution
from runward.loop.toolbox import Toolbox
from runward.store.runs import approvals, decisions, queries, transitions
from tests.support.services.nursery import Order, Report

RACE_SECONDS = 0.1


def decision_is_read_and_then_written() -> None:
    """Without the run's lock: two decisions at once are both the first."""

    async def lock_run(tx: Any, project_id: Any, run_id: Any) -> Any:
        found = await queries.load(tx, project_id, run_id)
        await asyncio.sleep(RACE_SECONDS)
        return found

    _replace(decisions, "lock_run", lock_run)


def edit_is_ignored() -> None:
    decide: Any = rules.decide

    def ignoring(
        state: Any, changes: Any, call: Any, tool: Any, decision: Any, by: str, **others: Any
    ) -> Any:
        if isinstance(decision, EditDecision):
            decision = ApproveDecision(decision="approve")
        return decide(state, changes, call, tool, decision, by, **others)

    _replace(rules, "decide", ignoring)


def replay_makes_a_second_run() -> None:
    made: Any = idempotency.IdempotentRequest.from_request

    def without_key(request: Any, project_id: Any, key: Any) -> Any:
        return replace(made(request, project_id, key), key=None)

    _replace(idempotency.IdempotentRequest, "from_request", without_key)


def expired_approval_still_decides() -> None:
    deciding: ContextVar[bool] = ContextVar("deciding", default=False)
    get: Any = approvals.get
    decide: Any = decisions.decide

    async def never_expired(*args: Any) -> Any:
        found = await get(*args)
        return replace(found, expired=False) if found and deciding.get() else found

    async def patient(*args: Any) -> Any:
        deciding.set(True)
        return await decide(*args)

    _replace(approvals, "get", never_expired)
    _replace(decisions, "decide", patient)


def callback_counts_twice() -> None:
    """The second one, with another result, is accepted like the first."""

    async def answer_late(*_: Any) -> None:
        return None

    _replace(transitions, "_answer_late", answer_late)


def unknown_outcome_is_sent_again() -> None:
    recover: Any = execution.recover

    def recovered(state: Any, changes: Any, tool_of: Any) -> Any:
        def idempotent(call: Any) -> Any:
            tool = tool_of(call)
            spec = tool.spec.model_copy(update={"idempotent": True})
            return replace(tool, spec=spec)

        return recover(state, changes, idempotent)

    _replace(execution, "recover", recovered)


def changed_tool_is_not_asked_about_again() -> None:
    def unchanged(state: Any, *_: Any) -> Any:
        return state

    _replace(execution, "recheck", unchanged)


def rotated_secret_is_not_noticed() -> None:
    forget: Any = Toolbox.forget

    def remembered(self: Any, *args: Any, **kwargs: Any) -> None:
        kept = dict(self._kept)
        forget(self, *args, **kwargs)
        self._kept.update(kept)

    _replace(Toolbox, "forget", remembered)


MISTAKES: Final[dict[str, Callable[[], None]]] = {
    plant.__name__: plant
    for plant in (
        decision_is_read_and_then_written,
        edit_is_ignored,
        replay_makes_a_second_run,
        expired_approval_still_decides,
        callback_counts_twice,
        unknown_outcome_is_sent_again,
        changed_tool_is_not_asked_about_again,
        rotated_secret_is_not_noticed,
    )
}


def prepare(_order: Order, _report: Callable[[Report], None]) -> None:
    """For `Forks`."""
    if name := os.environ.get("STATEFUL_MISTAKE"):
        MISTAKES[name]()


def _replace(owner: Any, name: str, changed: Any) -> None:
    assert hasattr(owner, name), f"{owner} has no {name} any more"
    setattr(owner, name, changed)
