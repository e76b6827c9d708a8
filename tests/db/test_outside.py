"""What others than the worker do to a run: each is one transaction, and one of them wins."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID

import pytest
from prometheus_client import REGISTRY
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from runward.domain import errors as e
from runward.domain import not_found
from runward.domain.ids import ApprovalId, CallId, KeyId, Prefix, ProjectId, RunId, format_id
from runward.domain.registry.scopes import Principal
from runward.domain.retention import DataClass, RetentionLimits
from runward.domain.run.abandoned import AbandonedCall, Closed
from runward.domain.run.decisions import (
    ApproveDecision,
    Decision,
    EditDecision,
    RejectDecision,
    RememberOptions,
    RespondDecision,
)
from runward.domain.run.failures import AwaitResolution
from runward.domain.run.resolve import (
    CallbackCompleted,
    CallbackFailed,
    CallbackProgress,
    CompletedResolution,
    FailedResolution,
    RetryResolution,
)
from runward.domain.run.settle import AwaitCallback
from runward.domain.run.state import CallOutcome, CallPhase, RunState
from runward.domain.run.status import Move
from runward.store.access import keys
from runward.store.access.vault import CallRef
from runward.store.data_keys.key_ring import KeyRing
from runward.store.postgres.db import Tx, mint
from runward.store.runs import approvals, decisions, sweep, transitions, views
from runward.store.runs.approvals import Approval
from runward.store.runs.gate import Committed, Ending, VersionChanged
from runward.store.runs.quarantine import Quarantine
from runward.worker.cleaner import Cleaner
from runward.worker.reaper import Reaper
from runward.worker.reencryption import Reencryption
from tests.db.store import APPROVER, PROJECT, Store, pay, step
from tests.db.test_toolbox import statements

T = TypeVar("T")
RETENTION = RetentionLimits({DataClass.DELIVERIES: 30}, {})
APPROVE = ApproveDecision(decision="approve")
REJECT = RejectDecision(decision="reject")
C1 = CallId("c1")


def nobody(abandoned: Iterable[AbandonedCall]) -> None:
    """Hears whom to tell, and tells nobody."""
    list(abandoned)


def reaper(
    store: Store,
    wake_deliveries: Callable[[], None] = lambda: None,
    wake_schedules: Callable[[], None] = lambda: None,
) -> Reaper:
    quarantine = Quarantine(store.pool)
    return Reaper(
        store.database,
        store.vault,
        quarantine,
        timedelta(0),
        Cleaner(store.database, RETENTION),
        Reencryption(store.database, KeyRing(store.database, [])),
        enqueue_notices=nobody,
        wake_deliveries=wake_deliveries,
        wake_schedules=wake_schedules,
    )


async def clean(store: Store, limits: RetentionLimits = RETENTION) -> None:
    """A whole pass of the cleaner."""
    cleaner = Cleaner(store.database, limits)
    await cleaner.begin()
    while not cleaner.is_done:
        await cleaner.step()


async def alone(store: Store, act: Callable[[Tx], Awaitable[T]]) -> T:
    """As a transaction of its own."""
    async with store.pool.begin() as tx:
        return await act(tx)


async def decide(
    store: Store, approval: ApprovalId, what: Decision = APPROVE, by: Principal = APPROVER
) -> Approval:
    return await alone(store, lambda tx: decisions.decide(tx, store.vault, by, approval, what))


async def cancel(store: Store, state: RunState, *, after_turn: bool = False) -> None:
    await alone(store, lambda tx: transitions.cancel(tx, PROJECT, state.id, after_turn=after_turn))


async def resolve(store: Store, state: RunState, how: Any, call: str = "c1") -> None:
    await alone(
        store,
        lambda tx: transitions.resolve_call(tx, store.vault, PROJECT, state.id, CallId(call), how),
    )


async def call_back(store: Store, state: RunState, said: Any) -> Any:
    ref = CallRef(PROJECT, state.id, state.calls[C1].uuid, 1)
    return await alone(store, lambda tx: transitions.take_callback(tx, store.vault, ref, said))


async def status(store: Store, state: RunState) -> str:
    return (await store.head(state.id)).status


def key_of(principal: Principal) -> str:
    return format_id(Prefix.KEY, principal.key_id)


def named(error: e.AppError) -> Any:
    return error.extra["approval"]


# Deciding.


async def test_a_decision_is_written_with_who_made_it_and_wakes_the_run(store: Store) -> None:
    state = await store.waiting(pay("c1"))
    [approval] = await store.pending(state.id)
    decided = await decide(store, approval)
    assert (decided.status, decided.decided_by) == ("approved", key_of(APPROVER))
    assert decided.decision == {"decision": "approve"}
    head = await store.head(state.id)
    assert (head.status, head.version) == ("queued", 1)
    assert (await store.log(state.id))[-1] == "tool_call.approval_decided"
    [claimed] = await store.claim()
    assert claimed.calls[C1].phase is CallPhase.READY
    assert claimed.calls[C1].approved_digest == claimed.calls[C1].digest


async def test_an_approval_is_read_once_and_its_tool_is_not(store: Store) -> None:
    [approval] = await store.pending((await store.waiting(pay("c1"))).id)
    sent = statements(store)
    await decide(store, approval)
    assert sum("FROM approvals" in statement for statement in sent) == 1
    assert not any("FROM tool_versions" in statement for statement in sent)


async def test_of_many_who_decide_one_wins_and_the_others_are_told_who(store: Store) -> None:
    racers = 6

    def racer_with(number: Any) -> Principal:
        return replace(APPROVER, key_id=KeyId(UUID(int=number + 1)))

    states = [await store.waiting(*(pay(f"c{n}") for n in range(4))) for _ in range(4)]
    asked = [one for state in states for one in await store.pending(state.id)]

    async def race(approval: ApprovalId, racer: int) -> Approval | Any:
        answer = RespondDecision(decision="respond", output=racer)
        try:
            return await decide(store, approval, answer, racer_with(racer))
        except e.ApprovalAlreadyDecidedError as error:
            return named(error)

    results = await asyncio.gather(*(race(one, racer) for one in asked for racer in range(racers)))
    for n, approval in enumerate(asked):
        of_one = results[n * racers : (n + 1) * racers]
        [winner] = [one for one in of_one if isinstance(one, Approval)]
        assert winner.decision is not None
        assert winner.decided_by == key_of(racer_with(winner.decision["output"]))
        won = {
            "id": format_id(Prefix.APPROVAL, approval),
            "status": "responded",
            "decision": winner.decision,
            "decided_by": winner.decided_by,
        }
        assert [one for one in of_one if one is not winner] == [won] * (racers - 1)
    for state in states:
        log = await store.log(state.id)
        assert log.count("tool_call.approval_decided") == log.count("tool_call.completed") == 4


@pytest.mark.parametrize(
    "decision",
    [
        APPROVE,
        RejectDecision(decision="reject", message="too much"),
        EditDecision(decision="edit", arguments={"amount": 2**60}, message="more"),
        RespondDecision(decision="respond", output={"paid": [1.5, None]}),
    ],
    ids=lambda decision: decision.decision,
)
async def test_a_decision_returns_the_approval_as_it_is_stored(
    store: Store, decision: Decision
) -> None:
    async with store.pool.begin() as tx:
        key = await keys.add_key(
            tx, store.vault, PROJECT, name="ann", scopes=(), secret=keys.make_secret()
        )
    [approval] = await store.pending((await store.waiting(pay("c1"))).id)
    ann = replace(APPROVER, key_id=KeyId(key.id), key_name="ann")
    decided = await decide(store, approval, decision, ann)
    assert decided.decider_name == "ann"
    assert decided == await alone(store, lambda tx: approvals.get(tx, PROJECT, approval))


async def test_the_same_decision_again_is_answered_like_the_first(store: Store) -> None:
    state = await store.waiting(pay("c1"))
    [approval] = await store.pending(state.id)
    reject = RejectDecision(decision="reject", message="too much")
    await decide(store, approval, reject)
    first = await alone(store, lambda tx: approvals.get(tx, PROJECT, approval))
    other_key = replace(APPROVER, key_id=KeyId(mint()))
    again = await decide(store, approval, reject.model_copy(update={"digest": "x"}), other_key)
    assert again == first
    with pytest.raises(e.ApprovalAlreadyDecidedError) as other:
        await decide(store, approval, RejectDecision(decision="reject", message="too little"))
    assert named(other.value)["decided_by"] == key_of(APPROVER)
    assert (await store.log(state.id)).count("tool_call.approval_decided") == 1


async def test_true_is_not_the_same_as_one(store: Store) -> None:
    state = await store.waiting(pay("c1"))
    [approval] = await store.pending(state.id)
    await decide(store, approval, RespondDecision(decision="respond", output=1))
    with pytest.raises(e.ApprovalAlreadyDecidedError):
        await decide(store, approval, RespondDecision(decision="respond", output=True))


async def test_a_decision_on_other_arguments_than_were_shown_changes_nothing(
    store: Store,
) -> None:
    state = await store.waiting(pay("c1"))
    [approval] = await store.pending(state.id)
    with pytest.raises(e.DigestMismatchError):
        await decide(store, approval, ApproveDecision(decision="approve", digest="sha256:other"))
    assert await store.pending(state.id) == [approval]
    assert await status(store, state) == "requires_action"
    digest = state.calls[C1].digest
    await decide(store, approval, ApproveDecision(decision="approve", digest=digest))


async def test_an_edit_must_fit_the_tool_s_parameters(store: Store) -> None:
    state = await store.waiting(pay("c1", 700))
    [approval] = await store.pending(state.id)
    with pytest.raises(e.InvalidRequestError) as wrong:
        await decide(store, approval, EditDecision(decision="edit", arguments={"amount": "all"}))
    assert [path for path, _ in wrong.value.errors] == ["arguments.amount"]
    assert await store.pending(state.id) == [approval]

    await decide(store, approval, EditDecision(decision="edit", arguments={"amount": 7}))
    call = (await store.load(state.id)).calls[C1]
    assert (call.arguments, call.requested_arguments) == ({"amount": 7}, {"amount": 700})
    assert call.approved_digest == call.digest != state.calls[C1].digest


async def test_a_decision_that_is_not_allowed_changes_nothing(store: Store) -> None:
    state = await store.waiting(pay("c1"))
    [approval] = await store.pending(state.id)
    await store.sql("UPDATE approvals SET allowed_decisions = '{approve,reject}'")
    with pytest.raises(e.DecisionNotAllowedError):
        await decide(store, approval, RespondDecision(decision="respond", output="no"))
    assert await store.pending(state.id) == [approval]


@pytest.mark.parametrize(
    ("remember", "covered"),
    [
        (RememberOptions(scope="run"), {"c1", "c2", "c3"}),
        (RememberOptions(scope="run", exact_arguments=True), {"c1", "c2"}),
    ],
)
async def test_a_remembered_decision_covers_the_calls_that_wait_beside_it(
    store: Store, remember: RememberOptions, covered: set[str]
) -> None:
    state = await store.waiting(pay("c1", 7), pay("c2", 7), pay("c3", 8))
    first = (await store.pending(state.id))[0]
    await decide(store, first, ApproveDecision(decision="approve", remember=remember))
    after = await store.load(state.id)
    ready = {call.id for call in after.calls.values() if call.phase is CallPhase.READY}
    assert ready == covered
    assert len(await store.pending(state.id)) == 3 - len(covered)
    assert (await store.log(state.id)).count("tool_call.approval_decided") == len(covered)
    [memory] = after.remembered
    assert (memory.decision, memory.tool, memory.version) == ("approve", "pay", 1)
    assert (memory.arguments_digest is not None) == remember.exact_arguments


async def test_a_remembered_approval_does_not_cover_an_approval_that_has_expired(
    store: Store,
) -> None:
    state = await store.waiting(pay("c1", 7), pay("c2", 7))
    late, asked = await store.pending(state.id)
    await store.sql("UPDATE approvals SET expires_at = clock_timestamp() WHERE id = :id", id=late)
    remember = RememberOptions(scope="run")
    await decide(store, asked, ApproveDecision(decision="approve", remember=remember))
    calls = (await store.load(state.id)).calls
    assert calls[CallId("c2")].phase is CallPhase.READY
    assert calls[C1].phase is CallPhase.AWAITING_APPROVAL
    await reaper(store).sweep()
    assert (await store.load(state.id)).calls[C1].phase is CallPhase.SETTLED


async def test_the_latest_memory_is_the_latest_whatever_the_clocks_of_the_deciding_hosts(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """IDs begin with the time of the host that makes them, and the first host is ahead."""
    state = await store.waiting(pay("c1", 7), pay("c2", 8))
    first, second = await store.pending(state.id)
    behind, ahead = mint(), mint()
    monkeypatch.setattr(approvals, "mint", [behind, ahead].pop)
    exact = RememberOptions(scope="run", exact_arguments=True)
    await decide(store, first, ApproveDecision(decision="approve", remember=exact))
    await decide(
        store, second, RejectDecision(decision="reject", remember=RememberOptions(scope="run"))
    )
    memories = (await store.load(state.id)).remembered
    assert [memory.decision for memory in memories] == ["approve", "reject"]


async def test_a_memory_ends_when_its_time_is_over(store: Store) -> None:
    state = await store.waiting(pay("c1"))
    [approval] = await store.pending(state.id)
    remember = RememberOptions(scope="run", expires_seconds=60)
    await decide(store, approval, ApproveDecision(decision="approve", remember=remember))
    assert len((await store.load(state.id)).remembered) == 1
    await store.sql("UPDATE remembered_decisions SET expires_at = clock_timestamp()")
    assert (await store.load(state.id)).remembered == ()


async def test_an_approval_of_another_project_is_not_there(store: Store) -> None:
    state = await store.waiting(pay("c1"))
    [approval] = await store.pending(state.id)
    foreign = ProjectId(mint())
    for project, one in ((foreign, approval), (PROJECT, ApprovalId(mint()))):
        with pytest.raises(not_found.ApprovalNotFoundError):
            async with store.pool.begin() as tx:
                who = replace(APPROVER, project_id=project)
                await decisions.decide(tx, store.vault, who, one, APPROVE)


async def test_a_decision_while_a_worker_holds_the_run_is_seen_before_it_parks(
    store: Store,
) -> None:
    state = await store.asked(pay("c1"), pay("c2"))
    first, _ = await store.pending(state.id)
    await decide(store, first)
    assert await status(store, state) == "in_progress"
    park = step(state, "run.waiting", seen=state.version, ending=Ending(Move.PARK))
    assert await store.write(park) == [VersionChanged(1)]
    after = await store.load(state.id)
    assert [call.phase for call in after.calls.values()] == [
        CallPhase.READY,
        CallPhase.AWAITING_APPROVAL,
    ]
    await store.committed(step(after, "tool_call.started", seen=after.version))


async def test_a_decision_and_a_park_at_the_same_moment_never_miss_each_other(
    store: Store,
) -> None:
    """Whoever comes second sees the first: the run never waits for what was decided."""
    states = [await store.asked(pay("c1")) for _ in range(12)]
    asked = [(await store.pending(state.id))[0] for state in states]

    async def park(state: RunState) -> None:
        one = step(state, "run.waiting", seen=0, ending=Ending(Move.PARK))
        [written] = await store.write(one)
        assert isinstance(written, Committed | VersionChanged)

    await asyncio.gather(
        *(park(state) for state in states), *(decide(store, approval) for approval in asked)
    )
    assert {await status(store, state) for state in states} <= {"queued", "in_progress"}


# Nobody decides.


async def overdue(store: Store) -> None:
    await store.sql("UPDATE approvals SET expires_at = clock_timestamp()")


async def test_an_approval_expires_though_nobody_has_swept_it_up_yet(store: Store) -> None:
    state = await store.waiting(pay("c1"))
    [approval] = await store.pending(state.id)
    await overdue(store)
    with pytest.raises(e.ApprovalAlreadyDecidedError) as late:
        await decide(store, approval)
    assert named(late.value)["status"] == "expired"
    assert await store.phases(state.id) == {"c1": "awaiting_approval"}


async def test_a_swept_approval_is_a_rejected_call_and_a_run_that_goes_on(store: Store) -> None:
    state = await store.waiting(pay("c1"), pay("c2"))
    first, second = await store.pending(state.id)
    assert await alone(store, sweep.list_due_approvals) == []
    assert not await alone(store, lambda tx: transitions.expire_approval(tx, PROJECT, first))
    await overdue(store)
    due = await alone(store, sweep.list_due_approvals)
    assert set(due) == {(PROJECT, first), (PROJECT, second)}
    assert await alone(store, lambda tx: transitions.expire_approval(tx, PROJECT, first))
    assert not await alone(store, lambda tx: transitions.expire_approval(tx, PROJECT, first))
    call = (await store.load(state.id)).calls[C1]
    assert call.result is not None
    assert call.result.outcome is CallOutcome.REJECTED
    assert await status(store, state) == "queued"
    shown = await alone(store, lambda tx: approvals.get(tx, PROJECT, first))
    assert shown is not None
    assert (shown.status, shown.decided_by) == ("expired", None)


async def left_behind(store: Store) -> tuple[RunState, ApprovalId]:
    """A run that has ended while its approval stayed open, as an earlier version could write it."""
    state = await store.waiting(pay("c1"))
    [approval] = await store.pending(state.id)
    await cancel(store, state)
    await store.sql("UPDATE approvals SET status = 'pending', decided_at = NULL")
    return state, approval


async def test_an_approval_that_its_run_left_behind_is_cancelled_when_it_expires(
    store: Store,
) -> None:
    state, approval = await left_behind(store)
    other = await store.waiting(pay("c1"))
    await overdue(store)
    assert not await reaper(store).sweep()
    shown = await alone(store, lambda tx: approvals.get(tx, PROJECT, approval))
    assert shown is not None and shown.status == "cancelled"
    assert (await store.log(state.id))[-1] == "run.cancelled"
    assert await status(store, other) == "queued"


async def test_deciding_about_what_a_run_left_behind_is_refused(store: Store) -> None:
    state, approval = await left_behind(store)
    for decision in (APPROVE, REJECT, RespondDecision(decision="respond", output="paid")):
        with pytest.raises(e.ApprovalAlreadyDecidedError) as late:
            await decide(store, approval, decision)
        assert named(late.value)["status"] == "cancelled"
    assert (await store.load(state.id)).calls[C1].phase is CallPhase.SETTLED
    assert await alone(store, lambda tx: transitions.expire_approval(tx, PROJECT, approval))
    assert await store.pending(state.id) == []


# Cancelling.


async def test_cancel_takes_the_lease_and_gives_every_call_a_truthful_end(store: Store) -> None:
    state = await store.started(pay("c1"))
    await cancel(store, state)
    head = await store.head(state.id)
    assert (head.status, head.fence, head.lease_expires_at) == ("cancelled", state.fence + 1, None)
    result = (await store.load(state.id)).calls[C1].result
    assert result is not None
    assert result.outcome is CallOutcome.CANCELLED
    assert result.detail == "The tool call may have been sent."
    assert (await store.log(state.id))[-2:] == ["tool_call.cancelled", "run.cancelled"]
    assert await store.write(step(state, "tool_call.completed")) == ["lost"]
    assert await store.write(step(state, "tool_call.started", seen=0)) == ["lost"]


async def test_cancel_closes_pending_approvals_as_cancelled(store: Store) -> None:
    state = await store.waiting(pay("c1"), pay("c2"))
    first, second = await store.pending(state.id)
    await cancel(store, state)
    assert await store.pending(state.id) == []
    for approval in (first, second):
        with pytest.raises(e.ApprovalAlreadyDecidedError) as late:
            await decide(store, approval)
        assert named(late.value)["status"] == "cancelled"
    assert await status(store, state) == "cancelled"
    assert (await store.log(state.id))[-1] == "run.cancelled"


async def test_cancelling_twice_is_fine_and_of_what_has_ended_is_not(store: Store) -> None:
    state = await store.leased()
    await asyncio.gather(*(cancel(store, state) for _ in range(8)))
    assert (await store.log(state.id)).count("run.cancelled") == 1
    done = await store.leased()
    await store.committed(step(done, "run.completed", seen=0, ending=Ending(Move.COMPLETE)))
    with pytest.raises(e.RunEndedError):
        await cancel(store, done)
    with pytest.raises(not_found.RunNotFoundError):
        async with store.pool.begin() as tx:
            await transitions.cancel(tx, ProjectId(mint()), state.id, after_turn=False)


async def test_cancel_after_the_turn_lets_the_worker_end_it(store: Store) -> None:
    state = await store.started(pay("c1"))
    await cancel(store, state, after_turn=True)
    assert await status(store, state) == "in_progress"
    ending = Ending(Move.COMPLETE, output="unaware")
    assert await store.write(step(state, "run.completed", seen=0, ending=ending)) == [
        VersionChanged(1)
    ]
    after = await store.load(state.id)
    assert after.cancel_after_turn
    cancelled = Ending(Move.CANCEL)
    await store.committed(step(after, "run.cancelled", seen=after.version, ending=cancelled))


async def test_a_run_nobody_works_on_has_no_turn_to_wait_for(store: Store) -> None:
    state = await store.waiting(pay("c1"))
    await cancel(store, state, after_turn=True)
    assert await status(store, state) == "cancelled"


async def test_an_end_and_a_cancel_at_the_same_moment_are_one_end(store: Store) -> None:
    states = [await store.leased() for _ in range(12)]

    async def finish(state: RunState) -> None:
        await store.write(step(state, "run.completed", seen=0, ending=Ending(Move.COMPLETE)))

    async def cancel_it(state: RunState) -> None:
        try:
            await cancel(store, state)
        except e.RunEndedError:
            assert await status(store, state) == "completed"
        else:
            assert await status(store, state) == "cancelled"

    await asyncio.gather(*map(finish, states), *map(cancel_it, states))
    for state in states:
        assert len(await store.log(state.id)) == 3
        assert (await store.log(state.id))[-1] == f"run.{await status(store, state)}"


# Settling an unknown outcome.


async def unresolved(store: Store) -> RunState:
    state = await store.conclude(await store.started(pay("c1")), AwaitResolution("cut off"))
    await store.park(state)
    return state


@pytest.mark.parametrize(
    ("how", "outcome", "output"),
    [
        (CompletedResolution(resolution="completed", output={"id": 3}), "completed", {"id": 3}),
        (FailedResolution(resolution="failed", message="no"), "failed", "no"),
    ],
)
async def test_a_person_may_say_how_a_call_ended(
    store: Store, how: Any, outcome: str, output: Any
) -> None:
    state = await unresolved(store)
    await resolve(store, state, how)
    result = (await store.load(state.id)).calls[C1].result
    assert result is not None
    assert (result.outcome, result.output) == (outcome, output)
    assert await status(store, state) == "queued"
    with pytest.raises(e.CallNotWaitingError):
        await resolve(store, state, how)


async def test_a_person_may_have_it_sent_again(store: Store) -> None:
    state = await unresolved(store)
    await resolve(store, state, RetryResolution(resolution="retry"))
    [claimed] = await store.claim()
    assert claimed.calls[C1].phase is CallPhase.READY
    assert (await store.log(state.id))[-2:] == ["tool_call.progress", "run.resumed"]


async def test_of_many_who_settle_a_call_one_wins(store: Store) -> None:
    state = await unresolved(store)
    answers = [CompletedResolution(resolution="completed", output=n) for n in range(8)]
    results = await asyncio.gather(
        *(resolve(store, state, one) for one in answers), return_exceptions=True
    )
    assert results.count(None) == 1
    result = (await store.load(state.id)).calls[C1].result
    assert result is not None
    assert result.output == results.index(None)


async def test_there_must_be_such_a_call_and_it_must_wait(store: Store) -> None:
    state = await unresolved(store)
    with pytest.raises(not_found.CallNotFoundError):
        await resolve(store, state, RetryResolution(resolution="retry"), call="c9")
    other = await store.waiting(pay("c1"))
    with pytest.raises(e.CallNotWaitingError):
        await resolve(store, other, RetryResolution(resolution="retry"))


# Callbacks.


async def accepted_for_later(store: Store) -> RunState:
    state = await store.conclude(await store.started(pay("c1")), AwaitCallback())
    await store.park(state)
    return state


DONE = CallbackCompleted(status="completed", output={"paid": 7})


async def test_the_first_callback_wins_and_the_same_again_is_fine(store: Store) -> None:
    state = await accepted_for_later(store)
    assert await call_back(store, state, DONE) is None
    assert await status(store, state) == "queued"
    assert await call_back(store, state, DONE) is None
    for other in (
        CallbackCompleted(status="completed", output={"paid": 8}),
        CallbackFailed(status="failed", message="no"),
    ):
        with pytest.raises(e.ResultAlreadyGivenError):
            await call_back(store, state, other)
    result = (await store.load(state.id)).calls[C1].result
    assert result is not None
    assert result.output == {"paid": 7}
    assert (await store.log(state.id)).count("tool_call.completed") == 1


async def test_of_many_callbacks_at_once_one_wins(store: Store) -> None:
    state = await accepted_for_later(store)
    said = [CallbackCompleted(status="completed", output=n) for n in range(8)]
    results = await asyncio.gather(
        *(call_back(store, state, one) for one in said), return_exceptions=True
    )
    assert results.count(None) == 1
    assert (await store.log(state.id)).count("tool_call.completed") == 1


async def test_progress_is_told_and_wakes_nobody(store: Store) -> None:
    state = await accepted_for_later(store)
    await call_back(store, state, CallbackProgress(status="progress", progress=0.5, message="half"))
    assert await status(store, state) == "requires_action"
    assert (await store.log(state.id))[-1] == "tool_call.progress"


async def test_a_callback_before_the_202_is_asked_to_come_again(store: Store) -> None:
    state = await store.started(pay("c1"))
    assert await call_back(store, state, DONE) == transitions.EarlyCallback()
    assert await store.phases(state.id) == {"c1": "started"}


async def test_a_callback_before_the_retry_of_its_call_comes_too_early(store: Store) -> None:
    """Its first attempt may have reached the tool."""
    state = await store.started(pay("c1"))
    await store.sql("UPDATE tool_calls SET phase = 'ready' WHERE run_id = :id", id=state.id)
    assert await call_back(store, state, DONE) == transitions.EarlyCallback()


async def test_a_late_callback_is_kept_beside_the_run_and_changes_nothing(store: Store) -> None:
    state = await accepted_for_later(store)
    await cancel(store, state)
    before = await store.head(state.id), await store.log(state.id)
    assert await call_back(store, state, DONE) == transitions.LateCallback()
    assert (await store.head(state.id), await store.log(state.id)) == before
    [kept] = await store.sql("SELECT run_id, call_id, body FROM late_callbacks")
    assert (kept.run_id, kept.call_id) == (state.id, "c1")
    assert kept.body == {"status": "completed", "output": {"paid": 7}}


async def test_only_so_many_late_callbacks_are_kept(store: Store) -> None:
    state = await accepted_for_later(store)
    await cancel(store, state)
    keep = "INSERT INTO late_callbacks SELECT :p, gen_random_uuid(), :r, 'c1', '{}' FROM"
    many = f"{keep} generate_series(2, {views.MAX_LATE_CALLBACKS})"
    await store.sql(many, p=PROJECT, r=state.id)
    for _ in range(3):
        assert await call_back(store, state, DONE) == transitions.LateCallback()
    assert await store.value("SELECT count(*) FROM late_callbacks") == views.MAX_LATE_CALLBACKS


async def test_a_callback_for_no_call_is_not_found(store: Store) -> None:
    state = await accepted_for_later(store)
    other_run = RunId(state.calls[C1].uuid)
    for ref in (CallRef(PROJECT, state.id, mint(), 1), CallRef(PROJECT, other_run, mint(), 1)):
        with pytest.raises(not_found.CallbackNotFoundError):
            async with store.pool.begin() as tx:
                await transitions.take_callback(tx, store.vault, ref, DONE)


# Time.


async def test_a_callback_that_does_not_come_times_out(store: Store) -> None:
    state = await accepted_for_later(store)
    assert await alone(store, sweep.list_due_callbacks) == []
    await store.sql("UPDATE tool_calls SET deadline_at = clock_timestamp()")
    assert await alone(store, sweep.list_due_callbacks) == [sweep.DueAnswer(PROJECT, state.id, C1)]
    assert await expire_callback(store, state)
    assert not await expire_callback(store, state)
    result = (await store.load(state.id)).calls[C1].result
    assert result is not None
    assert result.outcome is CallOutcome.TIMED_OUT
    assert await status(store, state) == "queued"


async def expire_callback(store: Store, state: RunState) -> Closed | None:
    return await alone(
        store, lambda tx: transitions.expire_callback(tx, store.vault, PROJECT, state.id, C1)
    )


async def test_a_callback_that_has_time_again_does_not_time_out(store: Store) -> None:
    """A person had the call sent again since it was found to be due."""
    state = await accepted_for_later(store)
    assert not await expire_callback(store, state)
    assert await store.phases(state.id) == {"c1": "awaiting_callback"}


async def test_a_deadline_ends_runs_that_nobody_works_on(store: Store) -> None:
    limits = {"deadline_seconds": 60}
    working, parked = await store.leased(limits=limits), await store.waiting(pay("c1"))
    [queued] = await store.accept(limits=limits)
    [timeless] = await store.accept()
    assert await alone(store, sweep.list_due_deadlines) == []
    await store.sql("UPDATE runs SET deadline_at = clock_timestamp() WHERE id <> :id", id=timeless)
    due = {run for _, run in await alone(store, sweep.list_due_deadlines)}
    assert due == {queued, parked.id}
    for run in (*due, working.id, timeless):
        ended = await alone(store, lambda tx, run=run: transitions.expire_run(tx, PROJECT, run))
        assert (ended is not None) == (run in due)
        assert not await alone(store, lambda tx, run=run: transitions.expire_run(tx, PROJECT, run))
    head = await store.head(parked.id)
    assert (head.status, head.incomplete_details["reason"]) == ("expired", "deadline")
    assert (await store.log(parked.id))[-1] == "run.expired"
    assert await store.pending(parked.id) == []


async def test_sweeps_of_many_workers_settle_each_thing_once(store: Store) -> None:
    asked = [await store.waiting(pay("c1")) for _ in range(3)]
    later = [await accepted_for_later(store) for _ in range(3)]
    crashing = await store.leased()
    await store.sql(
        "UPDATE runs SET claims = 3, lease_expires_at = clock_timestamp() WHERE id = :id",
        id=crashing.id,
    )
    await overdue(store)
    await store.sql("UPDATE tool_calls SET deadline_at = clock_timestamp() WHERE attempt > 0")
    for _ in range(2):  # a lease that is freed may be found to be a crash loop one sweep later
        await asyncio.gather(*(reaper(store).sweep() for _ in range(4)))
    for state, last in ((asked, "tool_call.rejected"), (later, "tool_call.timed_out")):
        for one in state:
            assert (await store.log(one.id)).count(last) == 1
            assert await status(store, one) == "queued"
    assert (await store.log(crashing.id)).count("run.failed") == 1


async def test_a_large_harvest_is_brought_in_at_once(store: Store) -> None:
    """All runs of a dead worker wait for another one; so many that they are more than a batch."""
    runs = 2 * sweep.BATCH + 1
    await store.accept(runs)
    await store.claim(runs, timedelta(0))
    sweeper = reaper(store)
    assert [await sweeper.sweep() for _ in range(4)] == [True, True, False, False]
    assert len(await store.claim(runs)) == runs


async def test_a_row_that_no_sweep_can_change_stops_no_other_duty(store: Store) -> None:
    """It does not end the worker either."""
    lost, decided = await store.leased(lease=timedelta(0)), await store.waiting(pay("c1"))
    await store.sql(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$BEGIN IF NEW.id = '{lost.id}' THEN RAISE 'refused'; END IF; RETURN NEW; END$$"
    )
    await store.sql(
        "CREATE TRIGGER refuse BEFORE UPDATE ON runs FOR EACH ROW EXECUTE FUNCTION refuse()"
    )
    await store.sql("UPDATE approvals SET expires_at = clock_timestamp()")
    failures = ("runward_background_failures_total", {"kind": "lease"})
    before = REGISTRY.get_sample_value(*failures) or 0
    await reaper(store).sweep()
    assert await store.phases(decided.id) == {"c1": "settled"}
    assert await status(store, lost) == "in_progress"
    assert REGISTRY.get_sample_value(*failures) == before + 1


async def test_an_outage_of_the_database_is_no_failure_of_background_work(store: Store) -> None:
    async def lose_connection() -> bool:
        async with store.pool.begin() as tx:
            await tx.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))
        return False

    failures = ("runward_background_failures_total", {"kind": "session"})
    before = REGISTRY.get_sample_value(*failures)
    with pytest.raises(DBAPIError):
        await reaper(store)._isolate("session", lose_connection)  # pyright: ignore[reportPrivateUsage]
    assert REGISTRY.get_sample_value(*failures) == before


async def test_old_idempotency_keys_are_dropped_and_others_kept(store: Store) -> None:
    await store.sql(
        "INSERT INTO idempotency_keys (project_id, key, route, body_digest, expires_at)"
        " SELECT :project, n, 'POST /v1/runs', 'd', now() + make_interval(secs => n - 500)"
        " FROM generate_series(1, 600) n",
        project=PROJECT,
    )
    labels = {"data_class": "idempotency_keys"}
    before = REGISTRY.get_sample_value("runward_removed_rows_total", labels) or 0.0
    await clean(store)
    left = await store.value("SELECT count(*) FROM idempotency_keys")
    assert left in range(95, 101)
    removed = REGISTRY.get_sample_value("runward_removed_rows_total", labels)
    assert removed == before + 600 - left


async def test_a_sweep_waits_for_a_decision_that_is_just_being_made(store: Store) -> None:
    state = await store.waiting(pay("c1"))
    [approval] = await store.pending(state.id)
    async with store.pool.begin() as tx:
        await decisions.decide(tx, store.vault, APPROVER, approval, APPROVE)
        await tx.execute(text("UPDATE approvals SET expires_at = clock_timestamp()"))
        sweeping = asyncio.create_task(
            alone(store, lambda tx: transitions.expire_approval(tx, PROJECT, approval))
        )
        await store.until_blocked()
    assert not await sweeping
    assert await store.phases(state.id) == {"c1": "ready"}
