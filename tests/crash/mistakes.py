"""Mistakes that are planted into the processes of the service, to show that the cells find each. A
process with CRASH_MISTAKE changes its own code in memory before it runs.
"""

import os
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import text

from runward.api.http import idempotency
from runward.loop import execution
from runward.store.runs import gate, sweep


def a_lost_call_is_sent_again() -> None:
    """Whether it may be repeated or not."""
    recover: Any = execution.recover

    def recovered(state: Any, changes: Any, tool_of: Any) -> Any:
        def idempotent(call: Any) -> Any:
            tool = tool_of(call)
            return replace(tool, spec=tool.spec.model_copy(update={"idempotent": True}))

        return recover(state, changes, idempotent)

    execution.recover = recovered


def a_step_is_written_twice() -> None:
    """The gate does not ask whether it has seen the write before."""
    for name in ("STEP", "STEP_ALONE"):
        statement = str(getattr(gate, name))
        changed = re.sub(r"AND \(l\.last_write_id IS NULL.*\)\n", "\n", statement)
        assert changed != statement
        setattr(gate, name, text(changed))


def a_lost_lease_is_never_freed() -> None:
    async def free_none(_: Any) -> list[Any]:
        return []

    sweep.free_expired_leases = free_none


def a_key_is_forgotten() -> None:
    """The same request again is another run."""
    made: Any = idempotency.IdempotentRequest.from_request

    def without_key(request: Any, project_id: Any, key: Any) -> Any:
        return replace(made(request, project_id, key), key=None)

    setattr(idempotency.IdempotentRequest, "from_request", without_key)  # noqa: B010 - pyright: a method is read-only


def an_unknown_outcome_is_a_failure() -> None:
    """The model is not told that the call may have taken effect."""
    recover: Any = execution.recover

    def recovered(state: Any, changes: Any, tool_of: Any) -> Any:
        found = recover(state, changes, tool_of)
        for call in found.calls.values():
            if call.result is not None and call.result.outcome == "outcome_unknown":
                result = replace(call.result, output="It failed.")
                found = found.with_call(replace(call, result=result))
        return found

    execution.recover = recovered


def plant() -> None:
    """That of this process, if there is one."""
    if name := os.environ.get("CRASH_MISTAKE"):
        MISTAKES[name][0]()


MISTAKES: Final[dict[str, tuple[Callable[[], None], str]]] = {
    mistake.__name__: (mistake, cell)
    for mistake, cell in (
        (a_lost_call_is_sent_again, "flush.result.unsent/kill/plain"),
        (a_step_is_written_twice, "flush.result.unanswered/cut/plain"),
        (a_lost_lease_is_never_freed, "model.first.answered/kill/plain"),
        (a_key_is_forgotten, "accept.committed/kill/plain"),
        (an_unknown_outcome_is_a_failure, "webhook.answered/kill/gated"),
    )
}
"""Each with a cell that finds it."""
