"""Before a call starts: is it still the call that was shown, and that was approved?"""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from runward.domain.events.values import ApprovalStatus, CallReason
from runward.domain.ids import ApprovalId
from runward.domain.run import texts
from runward.domain.run.recheck import recheck
from runward.domain.run.state import (
    Call,
    CallOutcome,
    CallPhase,
    Changes,
    Result,
    RunState,
    compute_call_digest,
)
from runward.domain.run.tools import CompiledTool
from tests.unit.domain_cases import (
    URL,
    Mint,
    call,
    event,
    memory,
    output_of,
    phase_of,
    reason_of,
    state,
    tool,
    types,
)

APPROVAL = ApprovalId(UUID(int=900))
FREE = call("c1")
APPROVED = call(
    "c1",
    tool="pay",
    approval_id=APPROVAL,
    arguments={"amount": 5},
    approved_digest=compute_call_digest("pay", 1, URL, {"amount": 5}),
)
STRICT = {"type": "object", "properties": {"amount": {"type": "string"}}}


def rechecked(one: Call, *now: CompiledTool, **fields: Any) -> tuple[RunState, Changes]:
    changes = Changes()
    run = state([one], **fields)
    return recheck(run, changes, one, {tool.name: tool for tool in now}, Mint()), changes


@pytest.mark.parametrize(
    ("one", "now"),
    [(FREE, tool()), (FREE, tool(version=2)), (APPROVED, tool("pay", approval="always"))],
)
def test_a_call_that_is_still_the_same_may_start(one: Call, now: CompiledTool) -> None:
    run, changes = rechecked(one, now)
    assert run.calls[one.id] == one
    assert changes.is_empty


@pytest.mark.parametrize("policy", ["always", {"when": "args.amount > 100"}])
@pytest.mark.parametrize("attempt", [0, 1])
def test_a_rule_that_is_new_holds_for_calls_that_were_not_sent(policy: Any, attempt: int) -> None:
    one, changes = replace(FREE, attempt=attempt), Changes()
    now = {FREE.tool: tool(version=2, approval=policy)}
    run = recheck(state([one]), changes, one, now, Mint(), former_tool=tool())
    asked = run.calls[one.id]
    assert (asked.phase is CallPhase.AWAITING_APPROVAL) == (attempt == 0)
    assert asked.version == (2 if attempt == 0 else 1)
    assert types(changes) == (["tool_call.approval_requested"] if attempt == 0 else [])


def test_a_call_is_not_asked_about_because_of_a_rule_that_stays_or_asks_nobody() -> None:
    for before, after in (("always", "always"), ("always", "never")):
        changes, now = Changes(), {FREE.tool: tool(version=2, approval=after)}
        made_for = tool(approval=before)
        assert recheck(state([FREE]), changes, FREE, now, Mint(), made_for).calls[FREE.id] == FREE
        assert changes.is_empty


@pytest.mark.parametrize("one", [FREE, APPROVED])
def test_a_call_whose_tool_is_gone_is_settled_and_never_sent(one: Call) -> None:
    run, changes = rechecked(one, tool("other"))
    assert reason_of(run) is CallReason.UNKNOWN_TOOL
    assert output_of(run) == texts.tool_gone(one.tool)
    assert "other" not in texts.tool_gone(one.tool)  # the model may not be shown it
    assert types(changes) == ["tool_call.failed"]


@pytest.mark.parametrize(
    "now", [tool("pay", version=2), tool("pay", url="https://elsewhere.example/x")]
)
def test_the_approval_of_a_tool_that_changed_is_void_and_asked_again(now: CompiledTool) -> None:
    run, changes = rechecked(APPROVED, now)
    one = run.calls[APPROVED.id]
    assert changes.closed_approvals == {APPROVAL: ApprovalStatus.SUPERSEDED}
    assert (one.phase, one.approved_digest) == (CallPhase.AWAITING_APPROVAL, None)
    assert one.version == now.version
    assert one.digest == compute_call_digest("pay", now.version, now.spec.url, {"amount": 5})
    [asked] = changes.approvals
    assert asked.id == one.approval_id != APPROVAL
    assert (asked.url, asked.call) == (now.spec.url, one)
    assert event(changes, "tool_call.approval_requested")["digest"] == one.digest
    assert changes.updated == {one.id: one}


def test_an_edited_call_is_asked_about_again_as_it_was_edited() -> None:
    edited = replace(APPROVED, original={"amount": 50})
    run, changes = rechecked(edited, tool("pay", version=2))
    assert changes.approvals[0].call.arguments == {"amount": 5}
    assert run.calls[edited.id].original == {"amount": 50}


def test_nobody_is_asked_again_about_arguments_that_the_new_version_refuses() -> None:
    run, changes = rechecked(APPROVED, tool("pay", version=2, parameters=STRICT))
    assert reason_of(run) is CallReason.INVALID_ARGUMENTS
    assert "arguments.amount: must be text, but is 5" in output_of(run)
    assert changes.closed_approvals == {APPROVAL: ApprovalStatus.SUPERSEDED}
    assert changes.approvals == []


def test_a_decision_remembered_for_the_old_version_does_not_cover_the_new_one() -> None:
    by_memory = replace(APPROVED, approval_id=None)
    run, changes = rechecked(by_memory, tool("pay", version=2), remembered=(memory(),))
    assert phase_of(run) is CallPhase.AWAITING_APPROVAL
    assert changes.closed_approvals == {}


def test_a_decision_remembered_for_the_new_version_covers_it() -> None:
    run, changes = rechecked(APPROVED, tool("pay", version=2), remembered=(memory(version=2),))
    one = run.calls[APPROVED.id]
    assert (one.phase, one.approved_digest) == (CallPhase.READY, one.digest)
    assert changes.approvals == []
    assert recheck(run, Changes(), one, {"pay": tool("pay", version=2)}, Mint()) is run


def test_a_call_that_was_declined_in_its_new_form_is_declined() -> None:
    no = Result(CallOutcome.REJECTED, "No.", CallReason.DECLINED)
    new = compute_call_digest("pay", 2, URL, {"amount": 5})
    other = call("c0", CallPhase.SETTLED, tool="pay", digest=new, result=no)
    changes = Changes()
    run = state([other, APPROVED])
    after = recheck(run, changes, APPROVED, {"pay": tool("pay", version=2)}, Mint())
    assert reason_of(after) is CallReason.DECLINED_BEFORE


@pytest.mark.parametrize("policy", ["return_error", "fail_run"])
def test_a_call_that_was_sent_before_its_tool_was_disabled_has_an_unknown_outcome(
    policy: str,
) -> None:
    sent = call("c1", attempt=1)
    made_for = tool(idempotent=True, on_unknown=policy)
    run = recheck(state([sent]), Changes(), sent, {}, Mint(), made_for)
    result = run.calls[sent.id].result
    assert result is not None
    assert result.outcome is CallOutcome.OUTCOME_UNKNOWN
    assert result.fails_run is (policy == "fail_run")
    assert result.output == texts.INTERRUPTED


def test_a_person_settles_it_where_the_tool_says_so() -> None:
    sent = call("c1", attempt=1)
    run = recheck(state([sent]), Changes(), sent, {}, Mint(), tool(on_unknown="ask"))
    assert phase_of(run) is CallPhase.AWAITING_RESOLUTION


def test_a_call_that_was_sent_and_whose_arguments_are_refused_now_has_an_unknown_outcome() -> None:
    sent = replace(APPROVED, attempt=1)
    now = tool("pay", 2, approval="always", parameters=STRICT)
    run, changes = rechecked(sent, now)
    result = run.calls[sent.id].result
    assert result is not None
    assert result.outcome is CallOutcome.OUTCOME_UNKNOWN
    assert changes.closed_approvals == {APPROVAL: ApprovalStatus.SUPERSEDED}
