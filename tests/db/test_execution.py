"""One claim of a run, executed in this process, while others change the run."""

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from types import FrameType
from typing import Any, Final

import pytest

from runward.domain.events.values import CallReason, RunErrorCode
from runward.domain.ids import CallId
from runward.domain.registry.guards import Allow, GuardrailVerdict
from runward.domain.run.config import Limits
from runward.domain.run.family import Member
from runward.domain.run.outcomes import Done, Failed, FailureKind, Outcome, Waits
from runward.domain.run.response import Usage
from runward.domain.run.sessions import ConflictMode
from runward.domain.run.settle import start
from runward.domain.run.state import CallOutcome, Changes
from runward.llm import failures
from runward.llm.base import (
    Abilities,
    ModelError,
    ModelRequest,
    ModelResponse,
    OnDelta,
    TextDelta,
)
from runward.llm.offline.model import OfflineModel
from runward.loop import breaker
from runward.loop.execution import Execution
from runward.store.access import secrets
from runward.store.live.drafts import Delta
from runward.store.runs import queries, sessions
from runward.store.runs.gate import Step
from runward.tools.base import LEASE_LOST, Invocation
from tests.db.execution import Loop, OneModelForAll, loop_on
from tests.db.store import PROJECT, Store, pay, step, taken

UNAVAILABLE: Final = Failed(FailureKind.UNAVAILABLE, "503", status=503)
QUICKLY: Final = {"max_attempts": 4, "initial_seconds": 0.01, "max_seconds": 0.01}
SLOWLY: Final = {"max_attempts": 4, "initial_seconds": 60, "max_seconds": 300}
REPEATABLE: Final[dict[str, Any]] = {"idempotent": True, "retry": SLOWLY, "timeout_seconds": 3600}

THREE: Final = "pay(amount=1) pay(amount=2) pay(amount=3)"
TWO_AT_ONCE: Final[dict[str, Any]] = {"tools": ["pay"], "limits": {"max_parallel_tool_calls": 2}}


@pytest.fixture
async def loop(store: Store) -> AsyncIterator[Loop]:
    async with loop_on(store) as loop:
        yield loop


# Retries.


async def test_a_retry_that_meets_an_outside_change_is_decided_again(loop: Loop) -> None:
    await loop.store.register(idempotent=True, retry=QUICKLY)
    run = await loop.leased("pay(amount=7)", UNAVAILABLE, Done("paid"), tools=["pay"])
    loop.before_start(2, lambda: loop.change(run))
    assert await loop.execute(run) == "completed"
    log = await loop.store.log(run.id)
    assert log.count("tool_call.started") == len(loop.tool.calls) == 2


async def test_a_run_that_has_lost_track_of_a_call_fails_at_once(loop: Loop) -> None:
    tool = await loop.store.register()
    run = await loop.leased("hello", tools=["pay"])
    state, changes = taken(run, tool, pay("c1"))
    state, _ = start(state, changes, state.calls[CallId("c1")], seconds=30)
    await loop.engine.storage.commit(step(state, changes=changes))
    assert await loop.execute(await loop.store.load(run.id)) == "failed"
    assert (await loop.store.head(run.id)).error["code"] == "internal_error"
    assert set((await loop.store.phases(run.id)).values()) == {"settled"}


# A run that is about to stop starts nothing.


async def test_a_worker_that_drains_starts_no_ready_call(loop: Loop) -> None:
    await loop.store.register()

    async def drain(_: Invocation) -> Outcome:
        loop.current.leased.drain()
        return Done("paid")

    async def outlast(_: Invocation) -> Outcome:
        first = "SELECT phase FROM tool_calls WHERE run_id = :id AND call_id = 'call_1'"
        await loop.store.until(first, "settled", id=run.id)
        return Done("paid")

    run = await loop.leased(THREE, drain, outlast, Done("paid"), **TWO_AT_ONCE)
    assert await loop.execute(run) == "queued"
    assert len(loop.tool.calls) == 2
    assert (await loop.store.phases(run.id))["call_3"] == "ready"


async def test_a_worker_that_drains_retries_nothing_and_does_not_wait_for_a_retry(
    loop: Loop,
) -> None:
    await loop.store.register(**REPEATABLE)

    async def drain(_: Invocation) -> Outcome:
        loop.current.leased.drain()
        return UNAVAILABLE

    run = await loop.leased("pay(amount=7)", drain, Done("paid"), tools=["pay"])
    assert await loop.execute(run) == "queued"
    assert await loop.store.phases(run.id) == {"call_1": "ready"}
    [again] = await loop.store.claim(1)
    assert await loop.execute(again) == "completed"
    assert [call.attempt for call in loop.tool.calls] == [1, 2]


async def test_a_worker_that_drains_asks_no_model(loop: Loop) -> None:
    await loop.store.register()

    async def drain(step: Step) -> None:
        if any(call.result is not None for call in step.changes.updated.values()):
            loop.current.leased.drain()

    run = await loop.leased("pay(amount=7)", Done("paid"), tools=["pay"])
    loop.before_commit = drain
    assert await loop.execute(run) == "queued"
    assert len(loop.model.requests) == 1


async def test_a_run_that_is_cancelled_after_its_turn_retries_nothing(loop: Loop) -> None:
    await loop.store.register(**REPEATABLE)

    async def cancel(_: Invocation) -> Outcome:
        async with loop.store.locked(run.id) as tx:
            found = await queries.load(tx, PROJECT, run.id)
            assert found is not None
            await queries.change_run(tx, found[1], Changes(), cancel_requested=True)
        loop.current.leased.notify_changed()
        return UNAVAILABLE

    run = await loop.leased("pay(amount=7)", cancel, Done("paid"), tools=["pay"])
    assert await loop.execute(run) == "cancelled"
    assert len(loop.tool.calls) == 1


async def test_a_run_that_a_call_has_failed_retries_no_other_call(loop: Loop) -> None:
    await loop.store.register(**REPEATABLE)
    await loop.store.register(name="check", on_error="fail_run")
    broken = Failed(FailureKind.ERROR, "500", status=500)
    run = await loop.leased(
        "pay(amount=7) check(amount=7)", UNAVAILABLE, broken, tools=["pay", "check"]
    )
    assert await loop.execute(run) == "failed"
    assert len(loop.tool.calls) == 2


# Tools that change meanwhile.


async def test_a_deleted_tool_does_not_run_though_a_report_was_unwritten_when_the_notice_came(
    loop: Loop,
) -> None:
    await loop.store.register(concurrency={"limit": 1})

    async def delete(call: Invocation) -> Outcome:
        await loop.delete("pay")
        call.report(0.5, "half")
        loop.current.leased.notify_changed()
        return Done("paid")

    run = await loop.leased("pay(amount=1) pay(amount=2)", delete, Done("paid"), tools=["pay"])
    assert await loop.execute(run) == "completed"
    assert len(loop.tool.calls) == 1
    result = (await loop.store.load(run.id)).calls[CallId("call_2")].result
    assert result is not None
    assert result.reason is CallReason.UNKNOWN_TOOL


async def test_a_new_approval_rule_holds_though_a_report_was_unwritten_when_the_notice_came(
    loop: Loop,
) -> None:
    await loop.store.register()

    async def gate(call: Invocation) -> Outcome:
        await loop.store.register(approval="always")
        loop.engine.tools.toolbox.forget(PROJECT)
        call.report(0.5, "half")
        loop.current.leased.notify_changed()
        return Done("paid")

    config: dict[str, Any] = {"tools": ["pay"], "parallel_tool_calls": False}
    run = await loop.leased("pay(amount=1) pay(amount=2)", gate, Done("paid"), **config)
    assert await loop.execute(run) == "requires_action"
    assert len(loop.tool.calls) == 1


async def test_a_call_whose_tool_is_deleted_before_its_retry_is_not_reported_as_never_sent(
    loop: Loop,
) -> None:
    await loop.store.register(idempotent=True, retry=QUICKLY)

    async def delete(_: Invocation) -> Outcome:
        await loop.delete("pay")
        loop.current.leased.notify_changed()
        return UNAVAILABLE

    run = await loop.leased("pay(amount=1)", delete, Done("paid"), tools=["pay"])
    assert await loop.execute(run) == "completed"
    assert len(loop.tool.calls) == 1
    result = (await loop.store.load(run.id)).calls[CallId("call_1")].result
    assert result is not None
    assert result.outcome is CallOutcome.OUTCOME_UNKNOWN


async def test_a_call_is_made_in_the_turn_in_which_a_rule_showed_its_tool(loop: Loop) -> None:
    await loop.store.register(enabled={"when": "run.turn < 1"})
    run = await loop.leased("pay(amount=7)", Done("paid"), tools=["pay"])
    assert await loop.execute(run) == "completed"
    assert len(loop.tool.calls) == 1


# Progress.


async def test_progress_that_is_reported_while_a_step_commits_is_written(loop: Loop) -> None:
    await loop.store.register()
    third = asyncio.Event()

    async def wait(_: Invocation) -> Outcome:
        await third.wait()
        return Done("paid")

    async def release(_: Invocation) -> Outcome:
        third.set()
        return Done("paid")

    async def report(step: Step) -> None:
        if any(call.id == "call_3" and call.attempt for call in step.changes.updated.values()):
            loop.before_commit = None
            loop.tool.calls[1].report(0.5, "half")

    run = await loop.leased(THREE, Done("paid"), wait, release, **TWO_AT_ONCE)
    loop.before_commit = report
    assert await loop.execute(run) == "completed"
    assert (await loop.store.log(run.id)).count("tool_call.progress") == 1


# Time that passes within one claim.


async def test_a_remembered_approval_is_not_used_after_it_has_expired(loop: Loop) -> None:
    await loop.store.register(approval="always")
    config: dict[str, Any] = {"tools": ["pay"], "parallel_tool_calls": False}

    async def outlast(_: Invocation) -> Outcome:
        loop.let_pass(3601)
        return Done("paid")

    run = await loop.leased("pay(amount=1) pay(amount=2)", outlast, Done("paid"), **config)
    await loop.store.sql(
        "INSERT INTO remembered_decisions (id, project_id, run_id, decision, tool, tool_version,"
        " agent, expires_at) VALUES (gen_random_uuid(), :project, :run, 'approve', 'pay', 1, NULL,"
        " clock_timestamp() + interval '1 hour')",
        project=PROJECT,
        run=run.id,
    )
    assert await loop.execute(await loop.store.load(run.id)) == "requires_action"
    assert [call.arguments for call in loop.tool.calls] == [{"amount": 1}]
    assert len(await loop.store.pending(run.id)) == 1


async def test_a_handoff_does_not_restart_the_deadline(loop: Loop) -> None:
    await loop.store.register()

    async def hand_over(_: Invocation) -> Outcome:
        loop.let_pass(500)
        return Done("go on", transfer_to="helper")

    run = await loop.leased(
        "pay(amount=1) pay(amount=2)",
        hand_over,
        Done("paid"),
        tools=["pay"],
        parallel_tool_calls=False,
        limits={"deadline_seconds": 1000, "tool_timeout_seconds": 3600},
    )
    member = Member(run.config.model_copy(update={"limits": Limits()}), 1)
    assert await loop.execute(replace(run, team={"helper": member})) == "completed"
    first, second = loop.tool.calls
    assert 500 < first.seconds <= 1000
    assert second.seconds <= 500


# A lease that is lost while the process is frozen.


async def test_a_worker_that_was_frozen_after_its_claim_asks_no_model(loop: Loop) -> None:
    run = await loop.leased("hello")
    execution = Execution(loop.engine, run)
    await loop.steal(run)
    await execution.run()
    assert loop.model.requests == []


async def test_a_worker_that_was_frozen_does_not_repeat_a_model_request(loop: Loop) -> None:
    run = await loop.leased("hello")

    async def freeze() -> ModelResponse:
        await loop.steal(run)
        raise ModelError(RunErrorCode.MODEL_UNAVAILABLE, "503", transient=True)

    loop.model.answers.append(freeze)
    assert await loop.execute(run) == "in_progress"
    assert len(loop.model.requests) == 1


async def test_a_lease_that_is_still_held_is_renewed_before_the_next_model_request(
    loop: Loop,
) -> None:
    run = await loop.leased("hello")
    execution = Execution(loop.engine, run)
    loop.let_pass(2 * loop.engine.storage.lease_length.total_seconds())
    await execution.run()
    assert (await loop.store.head(run.id)).status == "completed"


async def test_a_call_that_waited_before_its_first_byte_may_not_be_sent_without_the_lease(
    loop: Loop,
) -> None:
    await loop.store.register()
    allowed: list[bool] = []

    async def wait_for_the_database(call: Invocation) -> Outcome:
        allowed.append(await call.may_send())
        await loop.steal(run)
        allowed.append(await call.may_send())
        return LEASE_LOST

    run = await loop.leased("pay(amount=7)", wait_for_the_database, tools=["pay"])
    assert await loop.execute(run) == "in_progress"
    assert allowed == [True, False]


async def test_a_lease_that_could_not_be_renewed_is_asked_for_again(loop: Loop) -> None:
    await loop.store.register()
    allowed: list[bool] = []

    async def outlast(call: Invocation) -> Outcome:
        loop.let_pass(2 * loop.engine.storage.lease_length.total_seconds())
        async with loop.store.pool.begin() as tx:
            await queries.lock_runs(tx, PROJECT, run.id)
            allowed.append(await call.may_send())
        await loop.store.sql("UPDATE runs SET fence = fence + 1 WHERE id = :id", id=run.id)
        allowed.append(await call.may_send())
        return LEASE_LOST

    run = await loop.leased("pay(amount=7)", outlast, tools=["pay"])
    assert await loop.execute(run) == "in_progress"
    assert allowed == [True, False]


# Usage.


async def test_the_usage_of_a_refused_response_is_kept_where_the_run_was_changed_meanwhile(
    loop: Loop,
) -> None:
    await loop.store.register()
    run = await loop.leased("hello", tools=["pay"])

    async def reuse_an_id() -> ModelResponse:
        calls = (pay("c1", 1), pay("c1", 2))
        return ModelResponse.of("", calls, usage=Usage(10_000, 1))

    async def change(step: Step) -> None:
        if step.ending is not None:
            loop.before_commit = None
            await loop.change(run)

    loop.model.answers.append(reuse_an_id)
    loop.before_commit = change
    assert await loop.execute(run) == "completed"
    head = await loop.store.head(run.id)
    assert head.input_tokens >= 10_000
    assert head.turn == 2
    assert (await loop.store.log(run.id)).count("usage.updated") == 2


async def test_the_usage_of_a_response_that_is_dropped_in_a_drain_is_kept(loop: Loop) -> None:
    await loop.store.register(approval="always")

    async def drain(*_: object) -> GuardrailVerdict:
        loop.current.leased.drain()
        await asyncio.Event().wait()
        raise AssertionError

    loop.judge_with(drain)
    rail = {"stage": "pre_approval", "type": "plugin", "name": "slow"}
    run = await loop.leased("pay(amount=7)", tools=["pay"], guardrails=[rail])
    assert await loop.execute(run) == "queued"
    assert (await loop.store.head(run.id)).input_tokens > 0
    assert await loop.store.phases(run.id) == {}


OUTPUT_RAIL: Final = {"stage": "run_output", "type": "plugin", "name": "slow"}


async def test_a_worker_that_drains_waits_for_no_guardrail_of_the_output(loop: Loop) -> None:
    async def drain(*_: Any) -> GuardrailVerdict:
        loop.current.leased.drain()
        await asyncio.Event().wait()
        raise AssertionError

    async def allow(*_: Any) -> GuardrailVerdict:
        return Allow()

    loop.judge_with(drain)
    run = await loop.leased("hello", guardrails=[OUTPUT_RAIL])
    assert await loop.execute(run) == "queued"
    loop.judge_with(allow)
    [again] = await loop.store.claim(1)
    assert await loop.execute(again) == "completed"
    assert len(loop.model.requests) == 1


async def test_the_deadline_passes_while_a_guardrail_looks_at_the_output(loop: Loop) -> None:
    async def outlast(*_: Any) -> GuardrailVerdict:
        await asyncio.Event().wait()
        raise AssertionError

    loop.judge_with(outlast)
    limits = {"deadline_seconds": 1}
    run = await loop.leased("hello", guardrails=[OUTPUT_RAIL], limits=limits)
    assert await loop.execute(run) == "incomplete"
    head = await loop.store.head(run.id)
    assert (head.incomplete_details["reason"], head.output) == ("deadline", None)


async def test_an_output_is_decided_about_again_if_the_run_changed_meanwhile(loop: Loop) -> None:
    seen: list[int] = []

    async def change(*_: Any) -> GuardrailVerdict:
        seen.append(1)
        if len(seen) == 1:
            await loop.change(run)
            loop.current.leased.notify_changed()
            await loop.store.until("SELECT version FROM runs WHERE id = :id", 1, id=run.id)
        return Allow()

    loop.judge_with(change)
    run = await loop.leased("hello", guardrails=[OUTPUT_RAIL])
    assert await loop.execute(run) == "completed"
    assert len(seen) == 2


async def test_a_worker_that_drains_waits_for_no_guardrail_of_a_workflow(loop: Loop) -> None:
    async def drain(*_: Any) -> GuardrailVerdict:
        loop.current.leased.drain()
        await asyncio.Event().wait()
        raise AssertionError

    loop.judge_with(drain)
    rail = {"stage": "run_input", "type": "plugin", "name": "slow"}
    steps: dict[str, Any] = {"kind": "sequential", "agents": ["clerk"], "model": None}
    run = await loop.leased("hello", guardrails=[rail], **steps)
    assert await loop.execute(run) == "queued"


# State that is shared in the last step.


async def test_a_run_that_ends_with_the_call_that_set_its_state_keeps_both(loop: Loop) -> None:
    await loop.store.register()
    paid = Done("paid", state={"total": 7})
    run = await loop.leased("pay(amount=7)", paid, tools=["pay"], limits={"max_turns": 1})
    assert await loop.execute(run) == "incomplete"
    head = await loop.store.head(run.id)
    assert (head.ended_at is not None, head.shared) == (True, {"total": 7})


# A model that is down.


async def test_waiting_for_another_run_to_try_the_model_is_no_attempt(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(breaker, "FIRST_SECONDS", 0.001)
    monkeypatch.setattr(breaker, "FIRST_DELAY", 0.001)
    breakers, key = loop.engine.models.breakers, (PROJECT, "offline:rules")
    for _ in range(breaker.FAILURES):
        breakers.record_failure(key, failures.unreachable())
    refusal, refused = breakers.refusal, 0
    while refusal(key) is not None:
        pass  # until this test has the request that tries the model

    def count(asked: breaker.BreakerKey) -> ModelError | None:
        nonlocal refused
        refused += 1
        if refused == 3 * breaker.ATTEMPTS:
            breakers.record_success(asked)
        return refusal(asked)

    monkeypatch.setattr(breakers, "refusal", count)
    assert await loop.execute(await loop.leased("hello")) == "completed"


async def test_a_session_keeps_what_became_of_the_calls_that_its_run_left_open(loop: Loop) -> None:
    """A later run would otherwise not know that the call was sent, and make it again."""
    await loop.store.register(on_error="fail_run")
    answers = Waits(), Failed(FailureKind.ERROR, "no", permanent=True)
    run = await loop.leased("pay(amount=1) pay(amount=2)", *answers, tools=["pay"])
    async with loop.store.pool.begin() as tx:
        session = await sessions.create(
            tx, PROJECT, name=None, metadata={}, state={}, on_conflict=ConflictMode.QUEUE
        )
    await loop.store.sql(
        "UPDATE runs SET session_id = :session, session_seq = 1 WHERE id = :id",
        session=session.id,
        id=run.id,
    )
    assert await loop.execute(await loop.store.load(run.id)) == "failed"
    kept = await loop.store.value("SELECT items FROM session_items WHERE run_id = :id", id=run.id)
    results = {one["call_id"]: one["output"] for one in kept if one.get("type") == "tool_result"}
    state = await loop.store.load(run.id)
    assert results == {id_: call.result and call.result.output for id_, call in state.calls.items()}
    assert len(results) == 2


class Echo(OfflineModel):
    """Says the secret of its hosted tool, in pieces."""

    @property
    def abilities(self) -> Abilities:
        return replace(super().abilities, hosted=frozenset({"mcp"}))

    async def respond(self, request: ModelRequest, on_delta: OnDelta) -> ModelResponse:
        [tool] = [one for one in request.tools if one.hosted is not None]
        assert tool.hosted is not None
        text = f"It is {tool.hosted.settings['authorization']}, and no sec"
        for at in range(0, len(text), 5):
            on_delta(TextDelta(text[at : at + 5]))
        return ModelResponse.of(text)


async def test_who_watches_a_run_sees_no_secret_of_a_hosted_tool(loop: Loop) -> None:
    store, hosted = loop.store, {"kind": "mcp", "settings": {"server_url": "https://a.example"}}
    async with store.pool.begin() as tx:
        vault = loop.services.storage.vault
        await secrets.put_secret(tx, vault, PROJECT, "TOKEN", "secret-0123456789")
    await store.register(
        name="box",
        type="hosted",
        url=None,
        parameters={"type": "object"},
        hosted={**hosted, "secrets": {"authorization": "TOKEN"}},
    )
    loop.engine = replace(
        loop.engine, models=replace(loop.engine.models, models=OneModelForAll(Echo()))
    )
    run = await loop.leased("hello", tools=["box"])
    said = "It is ***, and no sec"
    with loop.services.live.feed.follow(PROJECT, run.id) as follower:
        follower.live = True
        assert await loop.execute(run) == "completed"
        pieces = [one for one in follower.pushed if isinstance(one, Delta)]
    assert "".join(one.text for one in pieces) == said
    assert (await store.head(run.id)).output == said


async def test_a_call_is_parsed_reviewed_and_classified_once(loop: Loop) -> None:
    counted = {"parse_arguments", "needs_approval", "classify_outcome"}
    counts: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name in counted:
            counts[frame.f_code.co_name] += 1

    await loop.store.register()
    run = await loop.leased("pay(amount=7)", Done("paid"), tools=["pay"])
    sys.setprofile(count)
    try:
        assert await loop.execute(run) == "completed"
    finally:
        sys.setprofile(None)
    assert counts == dict.fromkeys(counted, 1)
