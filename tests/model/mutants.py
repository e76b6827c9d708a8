"""Mistakes to plant in the code, in one of its tables, or in a guard of the gate. The model checker
must catch each.

The mistakes of the first group were once in Runward.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from runward.domain.events.values import ApprovalStatus
from runward.domain.run import approvals, child_runs, decide, failures, open_calls, settle, team
from runward.domain.run import decisions as decision_models
from runward.domain.run.decide import Park, RunTools, Wait
from runward.domain.run.settle import AwaitCallback
from runward.domain.run.state import WAITING, CallPhase, Changes
from runward.domain.run.status import MOVES, Edge, Move, RunStatus
from runward.loop import execution
from runward.loop.execution import Execution
from runward.loop.leased_run import LeasedRun, LeaseLostError
from runward.store.runs import approvals as approvals_store
from runward.store.runs import decisions, family, records, sweep, transitions
from runward.store.runs import locked_run as locked_module
from runward.store.runs.gate import Ending, VersionChanged
from tests.model import twin
from tests.model.operations import replacing
from tests.model.rows import RunRow
from tests.model.twin import ALREADY, CLAIMABLE, DUE, GATE, ON_CLAIM, Twin

Plant = tuple[Any, str, Any]


@dataclass(frozen=True)
class Mutant:
    """`scope`: where it is caught. `caught_by`: the property, which the violation begins with."""

    name: str
    area: str
    scope: str
    caught_by: str
    plants: Callable[[], list[Plant]]


def planted(mutant: Mutant) -> Any:
    return replacing(*mutant.plants())


def _always(*_: Any, **__: Any) -> bool:
    return True


def _never(*_: Any) -> bool:
    return False


def _fence_of(row: RunRow) -> int:
    return row.fence


def _last_write_of(row: RunRow) -> Any:
    return row.last_write


def _is_leased(row: RunRow) -> bool:
    return row.status is RunStatus.IN_PROGRESS


# Mistakes that Runward had.


async def _step_that_starts_while_draining(it: Any) -> bool:
    if it.leased.has_signal:
        await it.leased.catch_up()
    if it.leased.draining and not it._calls:
        return await it.leased.end(Ending(Move.RELEASE, keep_claim=True), it.leased.changes)
    await it._launch_answers()
    return await it._do(it._decide())


async def _collect_that_starts_retries_itself(it: Any) -> None:
    leased = it.leased
    await leased.wait(it._calls.tasks, None)
    if leased.has_signal:
        await leased.catch_up()
    again: list[Any] = []
    for call_id, end in it._calls.take_done():
        call = leased.state.calls[call_id]
        if end == "retry":
            again.append(call)
        elif call.phase is not CallPhase.SETTLED:
            await it._conclude(call, end)
    if again:
        await it._start(again)


async def _catch_up_without_reading(it: Any) -> None:
    it._signaled = False
    if it.lost:
        raise LeaseLostError
    if it.changes.is_empty:
        await it.reload()
    else:
        await it.record()


async def _await_calls_unguarded(it: Any, *, stopping: bool) -> bool:
    if it._calls and await it.leased.record():
        await it._collect()
    return False


async def _unchecked(_: Any) -> None: ...


def _records_that_close_later(it: Any, run: Any, changes: Changes) -> None:
    _ADD(it, run, changes)
    for row in it.approvals:
        row["status"] = "pending"


_ADD: Final = records.Records.add


# The gate and the executor.


async def _start_believing(it: Any, calls: Any) -> None:
    leased = it.leased
    state, changes = leased.state, leased.changes.copy()
    started: list[Any] = []
    for call in calls:
        state, one = settle.start(state, changes, call, seconds=it._seconds_for(call))
        started.append(one)
    await leased.write(state, changes, expected_version=leased.state.version)
    leased.state, leased.changes = state, Changes()
    for call in started:
        it._calls.launch(state, call, it._tools.sign(call))


async def _start_unseen(it: Any, calls: Any) -> None:
    write = it.leased.write

    async def unseen(state: Any, changes: Any, *, expected_version: Any) -> Any:
        del expected_version
        return await write(state, changes, expected_version=None)

    it.leased.write = unseen
    try:
        await _START(it, calls)
    finally:
        del it.leased.write


_START: Final = vars(Execution)["_start"]


async def _end_believing(it: Any, ending: Any, changes: Any) -> bool:
    written = await it.write(it.state, changes, expected_version=it.state.version, ending=ending)
    return isinstance(written, VersionChanged) or bool(written)


async def _launch_before_commit(it: Any, calls: Any) -> None:
    leased = it.leased
    state, changes = leased.state, leased.changes.copy()
    for call in calls:
        state, one = settle.start(state, changes, call, seconds=it._seconds_for(call))
        it._calls.launch(state, one, it._tools.sign(call))
    if calls:
        await leased.write(state, changes, expected_version=leased.state.version)
        leased.state, leased.changes = state, Changes()


# Recover, settle and decide.


def _recover_all(state: Any, changes: Any, tool_of: Any) -> Any:
    for call in state.open_calls:
        if call.phase is CallPhase.STARTED and call.fence != state.fence:
            state = settle.put_back(state, changes, call)
    return state


def _recover_none(state: Any, changes: Any, tool_of: Any) -> Any:
    return state


def _recover_unknown(state: Any, changes: Any, tool_of: Any) -> Any:
    for call in state.open_calls:
        if call.phase is CallPhase.STARTED and call.fence != state.fence:
            verdict = failures.classify_unknown_outcome(tool_of(call).spec, "lost")
            state = settle.conclude(state, changes, call, verdict)
    return state


def _start_uncounted(state: Any, changes: Any, call: Any, *, seconds: Any) -> Any:
    started = replace(call, phase=CallPhase.STARTED, fence=state.fence, timeout_seconds=seconds)
    changes.put_call(started)
    return state.with_call(started), started


def _start_unfenced(state: Any, changes: Any, call: Any, *, seconds: Any) -> Any:
    _, started = settle.start(state, Changes(), call, seconds=seconds)
    started = replace(started, fence=1)
    changes.put_call(started)
    return state.with_call(started), started


def _put_back_nothing(state: Any, changes: Any, call: Any) -> Any:
    return state


def _close_calls_alone(state: Any, changes: Any, reason: Any) -> Any:
    after = open_calls.close_open_calls(state, changes, reason)
    changes.closed_approvals.clear()
    return after


def _close_nothing(state: Any, changes: Any, reason: Any) -> Any:
    return state


def _delay_always(spec: Any, call: Any, failed: Any, jitter: Any) -> float:
    return 0.0


def _conclude_callbacks_ready(state: Any, changes: Any, call: Any, verdict: Any) -> Any:
    if isinstance(verdict, AwaitCallback):
        return settle.put_back(state, changes, call)
    return _CONCLUDE(state, changes, call, verdict)


_CONCLUDE: Final = settle.conclude


def _next_despite_cancel(state: Any, **values: Any) -> Any:
    return decide.next_action(replace(state, cancel_after_turn=False), **values)


def _next_parks_early(state: Any, **values: Any) -> Any:
    action = decide.next_action(state, **values)
    waiting = tuple(call.id for call in state.turn_calls if call.phase in WAITING)
    return Park(waiting) if isinstance(action, Wait) and waiting else action


def _next_starts_twice(state: Any, **values: Any) -> Any:
    action = decide.next_action(state, **values)
    flying = tuple(c.id for c in state.turn_calls if c.phase is CallPhase.STARTED)
    return RunTools(flying) if isinstance(action, Wait) and flying else action


def _recheck_nothing(state: Any, *_: Any) -> Any:
    return state


def _expire_quietly(state: Any, changes: Any, call: Any) -> Any:
    after = _EXPIRE(state, changes, call)
    changes.closed_approvals.clear()
    return after


_EXPIRE: Final = approvals.expire


# Sweeps and what others do.


async def _go_on_asleep(
    tx: Any, status: Any, state: Any, changes: Any, *, closed: Any = ()
) -> None:
    await twin.change(tx, state, changes, closed=closed)


async def _get_pending(tx: Any, project: Any, approval_id: Any) -> Any:
    found = await twin.get_approval(tx, project, approval_id)
    return found and replace(found, status=ApprovalStatus.PENDING)


async def _nothing(*_: Any) -> None: ...


def _record_and_go_on(state: Any, changes: Changes, call: Any, child: Any) -> Any:
    after = _RECORD(state, changes, call, child)
    ready = replace(after.calls[call.id], phase=CallPhase.READY)
    changes.put_call(ready)
    return after.with_call(ready)


_RECORD: Final = child_runs.record_result


def _record_nothing(state: Any, changes: Changes, call: Any, child: Any) -> Any:
    after = _RECORD(state, changes, call, child)
    recorded = after.calls[call.id]
    exchange: Any = recorded.exchange
    lost = replace(recorded, exchange=replace(exchange, state=call.exchange.state))
    changes.put_call(lost)
    return after.with_call(lost)


def _start_children_afresh(
    state: Any, changes: Changes, call: Any, children: Any, requests: Any
) -> Any:
    forgetful = replace(call, exchange=None)
    return child_runs.start_children(state, changes, forgetful, children, requests)


def _start_children_unawaited(
    state: Any, changes: Changes, call: Any, children: Any, requests: Any
) -> Any:
    after = child_runs.start_children(state, changes, call, children, requests)
    ready = replace(after.calls[call.id], phase=CallPhase.READY)
    changes.put_call(ready)
    return after.with_call(ready)


def _first_children(it: Any, row: RunRow) -> Any:
    awaited = {one.child_run_id for one in row.calls.values()}
    return {id_: one for id_, one in _CHILDREN(it, row).items() if id_ in awaited}


_CHILDREN: Final = vars(Twin)["_children"]


async def _overdue(*_: Any) -> bool:
    return True


def _free_unavailable(it: Twin, run_id: Any) -> None:
    it.put(run_id, status=RunStatus.QUEUED, lease=None, available=False)


def _guard(table: dict[str, Any], name: str) -> Callable[[], list[Plant]]:
    return lambda: [(table, name, _always)]


def _code(owner: Any, name: str, value: Any) -> Callable[[], list[Plant]]:
    return lambda: [(owner, name, value)]


def _edge(move: Move, *sources: RunStatus) -> Callable[[], list[Plant]]:
    return lambda: [(MOVES, move, Edge(frozenset(sources), MOVES[move].target))]


_STALE = "a stale worker writes nothing"
_BELIEF = "no worker believes in a step that was not written"
_ONCE = "a call that is not idempotent is sent once"
_WAY_ON = "from every state there is a way on"
_TRACK = "no run loses track of a call"
_PENDING = "a pending approval for each call that waits for one, and no other"
_VIEW = "nothing starts or ends on an outdated view"

_OLD: Final = [
    Mutant(
        "a step takes another claim's write for its own",
        "gate",
        "freeze",
        _BELIEF,
        _guard(ALREADY, "fence"),
    ),
    Mutant(
        "an approval stays pending whose run ends in the same commit",
        "gate",
        "ends",
        "no pending approval of an ended run",
        _code(records.Records, "add", _records_that_close_later),
    ),
    Mutant(
        "no lease is checked before a model request",
        "executor",
        "freeze",
        "no model is asked for a committed turn",
        _code(LeasedRun, "check_lease", _unchecked),
    ),
    Mutant(
        "a worker that drains goes on starting calls",
        "executor",
        "queue",
        "nothing starts while a worker drains",
        _code(Execution, "_step", _step_that_starts_while_draining),
    ),
    Mutant(
        "a changed tool is overlooked while something is unwritten",
        "executor",
        "notice",
        "no call of a changed tool starts after the notice",
        _code(LeasedRun, "catch_up", _catch_up_without_reading),
    ),
    Mutant(
        "a refused retry leaves a started call without a task",
        "executor",
        "retry",
        "no loop without a write or a wait",
        lambda: [
            (Execution, "_collect", _collect_that_starts_retries_itself),
            (Execution, "_await_calls", _await_calls_unguarded),
        ],
    ),
    Mutant(
        "the same, in a worker that fails such a run",
        "executor",
        "retry",
        _TRACK,
        _code(Execution, "_collect", _collect_that_starts_retries_itself),
    ),
]
_NEW: Final = [
    Mutant("the gate lets another fence through", "gate", "freeze", _STALE, _guard(GATE, "fence")),
    Mutant(
        "the gate lets an expired lease through",
        "gate",
        "freeze",
        "nothing is written without a lease",
        _guard(GATE, "lease"),
    ),
    Mutant(
        "the gate writes a step again",
        "gate",
        "commit",
        "a step is written once",
        _guard(GATE, "write id"),
    ),
    Mutant(
        "the gate lets a step through that was decided on an older version",
        "gate",
        "mixed",
        _VIEW,
        _guard(GATE, "seen version"),
    ),
    Mutant(
        "a claim keeps the fence",
        "gate",
        "freeze",
        _TRACK,
        _code(ON_CLAIM, "fence", _fence_of),
    ),
    Mutant(
        "a claim keeps the last write id",
        "gate",
        "drain",
        _BELIEF,
        _code(ON_CLAIM, "last_write", _last_write_of),
    ),
    Mutant(
        "a run that is leased is claimed",
        "gate",
        "freeze",
        "only a run that is due is claimed",
        _guard(CLAIMABLE, "status"),
    ),
    Mutant(
        "a run that waits is claimed",
        "gate",
        "callback",
        "only a run that is due is claimed",
        _guard(CLAIMABLE, "available"),
    ),
    Mutant(
        "calls start whose step was refused",
        "executor",
        "retry",
        "nothing is sent before its start is committed",
        _code(Execution, "_start", _start_believing),
    ),
    Mutant(
        "calls start without the version that was decided on",
        "executor",
        "mixed",
        _VIEW,
        _code(Execution, "_start", _start_unseen),
    ),
    Mutant(
        "calls are sent while their start is being committed",
        "executor",
        "freeze",
        "nothing is sent before its start is committed",
        _code(Execution, "_start", _launch_before_commit),
    ),
    Mutant(
        "a claim ends although its end was refused",
        "executor",
        "mixed",
        "a claim ends with a step that was written",
        _code(LeasedRun, "end", _end_believing),
    ),
    Mutant(
        "every call of a lost worker is sent again",
        "recover",
        "answers",
        _ONCE,
        _code(execution, "recover", _recover_all),
    ),
    Mutant(
        "no call of a lost worker is recovered",
        "recover",
        "answers",
        _TRACK,
        _code(execution, "recover", _recover_none),
    ),
    Mutant(
        "an idempotent call of a lost worker is not repeated",
        "recover",
        "commit",
        "an idempotent call is repeated",
        _code(execution, "recover", _recover_unknown),
    ),
    Mutant(
        "an unknown outcome is retried",
        "settle",
        "answers",
        _ONCE,
        _code(settle, "find_retry_delay", _delay_always),
    ),
    Mutant(
        "a start counts no attempt",
        "settle",
        "answers",
        "each attempt is sent once",
        _code(execution, "start", _start_uncounted),
    ),
    Mutant(
        "a start notes no fence",
        "settle",
        "commit",
        "nothing is sent before its start is committed",
        _code(execution, "start", _start_unfenced),
    ),
    Mutant(
        "a call whose pause is over stays started",
        "settle",
        "retry",
        _TRACK,
        _code(execution, "put_back", _put_back_nothing),
    ),
    Mutant(
        "an end leaves approvals open",
        "settle",
        "gate",
        "no pending approval of an ended run",
        lambda: [(locked_module, "close_open_calls", _close_calls_alone)],
    ),
    Mutant(
        "an end leaves calls open",
        "settle",
        "gate",
        "no pending approval of an ended run",
        lambda: [(locked_module, "close_open_calls", _close_nothing)],
    ),
    Mutant(
        "a call that is answered later is ready again",
        "settle",
        "callback",
        "attempts are limited",
        _code(team, "conclude", _conclude_callbacks_ready),
    ),
    Mutant(
        "a cancel after the turn is overlooked",
        "decide",
        "cancel",
        "nothing starts after a cancel",
        _code(execution, "next_action", _next_despite_cancel),
    ),
    Mutant(
        "a run parks while a call is in flight",
        "decide",
        "mixed",
        "nothing can run while someone's action is required",
        _code(execution, "next_action", _next_parks_early),
    ),
    Mutant(
        "a call in flight is started again",
        "decide",
        "commit",
        "no loop without a write or a wait",
        _code(execution, "next_action", _next_starts_twice),
    ),
    Mutant(
        "a run that waits for an approval goes on",
        "decide",
        "gate",
        "no model is asked while a call is open",
        _code(decide, "WAITING", WAITING - {CallPhase.AWAITING_APPROVAL}),
    ),
    Mutant(
        "an approval is taken for another tool version",
        "decide",
        "changed",
        "an approval covers one version of a tool",
        _code(execution, "recheck", _recheck_nothing),
    ),
    Mutant(
        "an approved call is written down as rejected",
        "decide",
        "gate",
        "only an approved call starts",
        lambda: [(decision_models.STATUS_AFTER, "approve", ApprovalStatus.REJECTED)],
    ),
    Mutant(
        "a second decision takes effect",
        "decide",
        "gate",
        "a settled call stays as it is",
        lambda: [
            (approvals_store, "get", _get_pending),
            (decisions, "is_abandoned", _never),
        ],
    ),
    Mutant(
        "an expiry does not close its approval",
        "sweep",
        "gate",
        _PENDING,
        _code(approvals, "expire", _expire_quietly),
    ),
    Mutant(
        "a callback does not wake its run",
        "sweep",
        "callback",
        _WAY_ON,
        _code(transitions, "resume_run", _go_on_asleep),
    ),
    Mutant(
        "what waits is not woken",
        "decide",
        "gate",
        "nothing can run while someone's action is required",
        _edge(Move.WAKE, RunStatus.QUEUED),
    ),
    Mutant(
        "a sweep times a call out that was sent again",
        "sweep",
        "callback",
        "no call times out before its time",
        _code(sweep, "is_overdue", _overdue),
    ),
    Mutant(
        "a sweep ends a run whose claim was taken back",
        "sweep",
        "callback",
        "only a run that ends its workers is quarantined",
        _code(sweep, "is_crash_loop", _overdue),
    ),
    Mutant(
        "a sweep frees leases that are held",
        "sweep",
        "retry",
        "",
        _code(DUE, "lease", _is_leased),
    ),
    Mutant(
        "a sweep frees a run that nobody may claim",
        "sweep",
        "freeze",
        _WAY_ON,
        _code(Twin, "free", _free_unavailable),
    ),
    Mutant(
        "a child run's end does not wake its parent",
        "sweep",
        "child",
        _WAY_ON,
        _code(family, "wake_parent", _nothing),
    ),
    Mutant(
        "a function runs again after the first of its agents",
        "settle",
        "agents",
        "the parent waits for its open child run",
        _code(child_runs, "record_result", _record_and_go_on),
    ),
    Mutant(
        "a function forgets the results of its earlier agents",
        "settle",
        "agents again",
        "a child run belongs to the call that names it",
        _code(execution, "start_children", _start_children_afresh),
    ),
    Mutant(
        "a result of an agent is lost",
        "settle",
        "agents",
        "a child run belongs to the call that names it",
        _code(child_runs, "record_result", _record_nothing),
    ),
    Mutant(
        "only the first of a function's agents is read",
        "gate",
        "agents",
        _WAY_ON,
        _code(Twin, "_children", _first_children),
    ),
    Mutant(
        "a function that is not idempotent is repeated after a crash",
        "recover",
        "agents lost",
        _ONCE,
        _code(open_calls, "_REPEATABLE_TYPES", frozenset({"plugin"})),
    ),
    Mutant(
        "a function's agents start, but its call does not wait for them",
        "settle",
        "agents",
        "the parent waits for its open child run",
        _code(execution, "start_children", _start_children_unawaited),
    ),
]
MUTANTS: Final[Mapping[str, Mutant]] = {one.name: one for one in [*_OLD, *_NEW]}
