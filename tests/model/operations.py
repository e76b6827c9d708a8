"""All operations on the database, by name. They run on the twin, and in `test_conformance.py` on
PostgreSQL through `runward.store`. The functions of `runward.store.runs.transitions`
and `decisions` are those of Runward.
"""

import asyncio
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from runward.domain.errors import AppError
from runward.domain.ids import ApprovalId, CallId, RunId
from runward.domain.run.decisions import Decision
from runward.domain.run.items import Message
from runward.domain.run.resolve import Answer, Callback, Resolution
from runward.domain.run.status import RunStatus
from runward.store.access import audit
from runward.store.access.vault import CallRef
from runward.store.runs import (
    approvals,
    client_results,
    decisions,
    family,
    queries,
    related_changes,
    sweep,
    transitions,
    views,
)
from runward.store.runs.gate import Step
from tests.db.store import APPROVER
from tests.model import twin as on_twin
from tests.model.rows import PROJECT
from tests.model.twin import Twin, run_now

Vault = Mapping[tuple[str, int], Any]


@dataclass(frozen=True, slots=True)
class Operation:
    """`arguments` are what both databases are given."""

    name: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """An AppError, whose transaction was rolled back."""

    code: str


def perform(twin: Twin, vault: Vault, operation: Operation) -> Any:
    """Do it on the twin. Returns the answer."""
    before = dict(twin.rows)
    try:
        return _ON_TWIN[operation.name](twin, vault, *operation.arguments)
    except AppError as error:
        twin.rows = before
        return Refused(error.code)


def _load(twin: Twin, _: Vault, run_id: RunId, fence: int) -> Any:
    row = twin.rows[run_id]
    held = row.status is RunStatus.IN_PROGRESS and row.fence == fence
    return twin.load(run_id) if held else None


def _decide(twin: Twin, vault: Vault, approval_id: ApprovalId, decision: Decision) -> str:
    """Like `runward.api.approvals.decision`, which closes what an ended run has left behind."""
    work = decisions.decide(_tx(twin), cast("Any", vault), APPROVER, approval_id, decision)
    return run_now(work).status


def _call_back(
    twin: Twin, vault: Vault, run_id: RunId, call_id: CallId, attempt: int, said: Callback
) -> Any:
    call = twin.rows[run_id].calls[call_id]
    ref = CallRef(PROJECT, run_id, call.uuid, attempt)
    return run_now(transitions.take_callback(_tx(twin), cast("Any", vault), ref, said))


def _give(twin: Twin, vault: Vault, run_id: RunId, call_id: CallId, said: Answer) -> None:
    tx = _tx(twin)
    run_now(client_results.submit_result(tx, cast("Any", vault), PROJECT, run_id, call_id, said))


def _resolve(twin: Twin, vault: Vault, run_id: RunId, call_id: CallId, how: Resolution) -> None:
    tx = _tx(twin)
    run_now(transitions.resolve_call(tx, cast("Any", vault), PROJECT, run_id, call_id, how))


def _cancel(twin: Twin, _: Vault, run_id: RunId, after_turn: bool) -> None:  # noqa: FBT001
    run_now(transitions.cancel(_tx(twin), PROJECT, run_id, after_turn=after_turn))


def _input(twin: Twin, _: Vault, run_id: RunId) -> None:
    said = [Message("user", "By the way.")]
    run_now(transitions.add_input(_tx(twin), PROJECT, run_id, said))


def _expire_answer(twin: Twin, vault: Vault, run_id: RunId, call_id: CallId) -> None:
    run_now(transitions.expire_callback(_tx(twin), cast("Any", vault), PROJECT, run_id, call_id))


def _pass_approval(twin: Twin, _: Vault, approval_id: ApprovalId) -> None:
    for row in twin.rows.values():
        if (one := row.approvals.get(approval_id)) is not None:
            after = {**row.approvals, approval_id: replace(one, due=True)}
            twin.put(row.id, approvals=after)
            return


def _pass_answer(twin: Twin, _: Vault, run_id: RunId, call_id: CallId) -> None:
    twin.put(run_id, due_calls=twin.rows[run_id].due_calls | {call_id})


def _cancel_below(twin: Twin, _: Vault, run_id: RunId) -> None:
    run_now(transitions.cancel_descendants(_tx(twin), PROJECT, run_id))


def _step(twin: Twin, _: Vault, step: Step, write_id: int) -> Any:
    return twin.step(step, write_id)


def _tx(twin: Twin) -> Any:
    return twin


def _claim(twin: Twin, _: Vault, run_id: RunId) -> Any:
    return twin.claim(run_id)


def _renew(twin: Twin, _: Vault, run_id: RunId, fence: int) -> bool:
    return twin.renew(run_id, fence)


def _forgive(twin: Twin, _: Vault, run_id: RunId, fence: int) -> None:
    twin.forgive(run_id, fence)


def _free(twin: Twin, _: Vault, run_id: RunId) -> None:
    twin.free(run_id)


def _quarantine(twin: Twin, _: Vault, run_id: RunId) -> None:
    run_now(transitions.quarantine(_tx(twin), PROJECT, run_id))


def _expire_run(twin: Twin, _: Vault, run_id: RunId) -> None:
    run_now(transitions.expire_run(_tx(twin), PROJECT, run_id))


def _expire_approval(twin: Twin, _: Vault, approval_id: ApprovalId) -> None:
    run_now(transitions.expire_approval(_tx(twin), PROJECT, approval_id))


def _end_lease(twin: Twin, _: Vault, run_id: RunId) -> None:
    twin.put(run_id, lease="expired")


def _pass_deadline(twin: Twin, _: Vault, run_id: RunId) -> None:
    twin.put(run_id, overdue=True)


_ON_TWIN: Final[dict[str, Callable[..., Any]]] = {
    "claim": _claim,
    "step": _step,
    "load": _load,
    "renew": _renew,
    "forgive": _forgive,
    "free": _free,
    "quarantine": _quarantine,
    "expire run": _expire_run,
    "expire approval": _expire_approval,
    "expire answer": _expire_answer,
    "cancel below": _cancel_below,
    "decide": _decide,
    "call back": _call_back,
    "give": _give,
    "resolve": _resolve,
    "cancel": _cancel,
    "input": _input,
    # What time alone does.
    "lease ends": _end_lease,
    "deadline passes": _pass_deadline,
    "approval ends": _pass_approval,
    "answer is late": _pass_answer,
}

_REPLACED: Final[list[tuple[Any, str, Any]]] = [
    (queries, "lock_and_load", on_twin.lock),
    (queries, "load", on_twin.load),
    (queries, "lock_runs", on_twin.lock_all),
    (queries, "list_open_descendants", on_twin.open_below),
    (queries, "change_run", on_twin.change),
    (approvals, "get", on_twin.get_approval),
    (approvals, "cancel", on_twin.cancel_approval),
    (approvals, "remember", on_twin.remember),
    (sweep, "is_overdue", on_twin.is_overdue),
    (sweep, "is_crash_loop", on_twin.is_crash_loop),
    (decisions, "load_tool", on_twin.tool_of),
    (transitions, "load_tool", on_twin.tool_of),
    (client_results, "load_tool", on_twin.tool_of),
    (family, "wake_parent", on_twin.ended),
    (family, "requeue_ancestors", on_twin.requeue_ancestors),
    (family, "mark_idle_ancestors", on_twin.settle_idle),
    (audit, "append", on_twin.record),
    (views, "store_late_callback", on_twin.keep_late_callback),
    (related_changes, "accept_values", on_twin.accept_values),
]


@contextmanager
def replacing(*replaced: tuple[Any, str, Any]) -> Generator[None]:
    """Have these attributes of modules and classes, or values of dicts, replaced meanwhile."""
    former: list[tuple[Any, str, Any]] = []
    try:
        for owner, name, value in replaced:
            if isinstance(owner, dict):
                table = cast("dict[str, Any]", owner)
                former.append((table, name, table[name]))
                table[name] = value
            else:
                former.append((owner, name, cast("Any", vars(owner))[name]))
                setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in reversed(former):
            if isinstance(owner, dict):
                owner[name] = value
            else:
                setattr(owner, name, value)


@contextmanager
def on_the_twin(loop: asyncio.AbstractEventLoop) -> Generator[None]:
    """Have the code of the store work on twins, and the executor run on `loop`."""
    former = asyncio._get_running_loop()
    asyncio._set_running_loop(loop)
    try:
        with replacing(*_REPLACED):
            yield
    finally:
        asyncio._set_running_loop(former)
