"""Which calls wait for a person, and which a decision made before covers."""

from dataclasses import replace
from typing import Any

import pytest

from runward.domain.events.values import CallReason
from runward.domain.json import compute_digest
from runward.domain.registry.guards import Allow, Fail, GuardrailVerdict, Reject
from runward.domain.run import texts
from runward.domain.run.decide import Finish, next_action
from runward.domain.run.plan import parse_response
from runward.domain.run.remembered_decisions import find_remembered_decision
from runward.domain.run.response import RequestedCall
from runward.domain.run.state import CallOutcome, CallPhase, Changes, Result, RunState
from runward.domain.run.status import RunStatus
from runward.domain.run.tools import CompiledTool, make_request_key
from tests.unit.domain_cases import (
    AGENT,
    call,
    event,
    memory,
    only,
    output_of,
    phase_of,
    reason_of,
    response,
    settled,
    state,
    take_response,
    taken,
    tool,
    turn_with,
    types,
    wants,
)

GATED = tool("pay", approval="always", approval_expires_seconds=60)
NO = Result(CallOutcome.REJECTED, "No.", CallReason.DECLINED)


def test_a_gated_call_waits_for_a_person_who_sees_the_exact_call() -> None:
    run, changes = taken(wants("pay", '{"amount": 5}'), tools=[GATED])
    one = only(run)
    assert one.phase is CallPhase.AWAITING_APPROVAL
    [request] = changes.approvals
    assert (request.id, request.call, request.agent) == (one.approval_id, one, AGENT)
    assert (request.url, request.expires_seconds) == (GATED.spec.url, 60)
    told = event(changes, "tool_call.approval_requested")
    assert (told["arguments"], told["digest"]) == ({"amount": 5}, one.digest)
    assert changes.inserted[one.id] == one


def test_a_remembered_approval_covers_later_calls_and_is_told() -> None:
    before = state(remembered=(memory(),))
    run, changes = taken(wants("pay"), tools=[GATED], before=before)
    one = only(run)
    assert (one.phase, one.approved_digest) == (CallPhase.READY, one.digest)
    assert event(changes, "tool_call.approval_decided")["remembered"] is True
    assert changes.approvals == []
    assert changes.inserted[one.id] == one


@pytest.mark.parametrize(
    ("said", "own", "text"),
    [("Never.", "No.", "Never."), (None, "No.", "No."), (None, None, texts.NOT_APPROVED)],
)
def test_a_remembered_rejection_rejects_later_calls(
    said: str | None, own: str | None, text: str
) -> None:
    before = state(remembered=(memory("reject", message=said),))
    gated = tool("pay", approval="always", reject_message=own)
    run, _ = taken(wants("pay"), tools=[gated], before=before)
    result = only(run).result
    assert result is not None
    assert (result.outcome, result.reason) == (CallOutcome.REJECTED, CallReason.DECLINED)
    assert result.output == text


@pytest.mark.parametrize(
    "other",
    [
        {"tool": "refund"},
        {"version": 2},
        {"agent": "someone else"},
        {"arguments_digest": compute_digest({"amount": 1})},
    ],
)
def test_a_remembered_decision_covers_nothing_else(other: dict[str, Any]) -> None:
    one = call(tool="pay")
    assert find_remembered_decision((memory(**other),), one, AGENT) is None


def test_exact_arguments_are_covered_and_the_latest_decision_wins() -> None:
    one = call(tool="pay", arguments={"amount": 1})
    exact = memory(arguments_digest=compute_digest({"amount": 1}))
    later = memory("reject")
    assert find_remembered_decision((exact,), one, AGENT) == exact
    assert find_remembered_decision((exact, later), one, AGENT) == later
    assert find_remembered_decision((later, exact), one, AGENT) == exact


@pytest.mark.parametrize("reason", [CallReason.DECLINED, CallReason.DECLINED_BEFORE])
def test_an_identical_rejected_call_is_rejected_by_itself(reason: CallReason) -> None:
    first, _ = taken(wants("pay", '{"amount": 5}', "old"), tools=[GATED])
    before = settled(first, "old", replace(NO, reason=reason))
    run, changes = taken(wants("pay", '{"amount":5}'), tools=[GATED], before=before)
    assert reason_of(run) is CallReason.DECLINED_BEFORE
    assert output_of(run) == texts.DECLINED_BEFORE
    assert types(changes)[:2] == ["tool_call.created", "tool_call.rejected"]


@pytest.mark.parametrize(
    ("arguments", "version", "reason"),
    [
        ('{"amount": 6}', 1, CallReason.DECLINED),
        ('{"amount": 5}', 2, CallReason.DECLINED),
        ('{"amount": 5}', 1, CallReason.APPROVAL_EXPIRED),
    ],
)
def test_any_other_call_is_asked_about(arguments: str, version: int, reason: CallReason) -> None:
    first, _ = taken(wants("pay", '{"amount": 5}', "old"), tools=[GATED])
    before = settled(first, "old", replace(NO, reason=reason))
    now = tool("pay", version, approval="always")
    run, _ = taken(wants("pay", arguments), tools=[now], before=before)
    assert phase_of(run) is CallPhase.AWAITING_APPROVAL


# What plugins and guardrails say before a person is asked.


BY_CALLABLE = tool("pay", approval={"callable": "shop.rules:dear"})
FIVE = '{"amount": 5}'
KEY = make_request_key("pay", {"amount": 5})


def gated(
    wanted: RequestedCall,
    *tools: CompiledTool,
    verdict: GuardrailVerdict | None = None,
    answer: bool | None = None,
) -> tuple[RunState, Changes]:
    """`verdict` and `answer` are about a payment of five."""
    shown = turn_with(*(tools or (GATED,)))
    verdicts = {} if verdict is None else {KEY: verdict}
    answered = {} if answer is None else {KEY: answer}
    return take_response(state(), response(wanted), shown, answered, verdicts)


@pytest.mark.parametrize(
    ("answer", "arguments", "phase"),
    [
        (False, FIVE, CallPhase.READY),
        (True, FIVE, CallPhase.AWAITING_APPROVAL),
        (None, FIVE, CallPhase.AWAITING_APPROVAL),
        (False, '{"amount": 6}', CallPhase.AWAITING_APPROVAL),
    ],
)
def test_a_callable_decides_about_the_very_call_it_was_asked_about_and_else_a_person_does(
    arguments: str, phase: CallPhase, *, answer: bool | None
) -> None:
    run, changes = gated(wants("pay", arguments), BY_CALLABLE, answer=answer)
    assert only(run).phase is phase
    assert bool(changes.approvals) == (phase is CallPhase.AWAITING_APPROVAL)


def test_nobody_is_asked_about_a_call_that_a_guardrail_rejects() -> None:
    no = Reject("Not so much.", detail="limit: over 4")
    run, changes = gated(wants("pay", FIVE), verdict=no)
    result = only(run).result
    assert result == Result(
        CallOutcome.REJECTED, "Not so much.", CallReason.GUARDRAIL, detail="limit: over 4"
    )
    assert changes.approvals == []
    assert "tool_call.approval_requested" not in types(changes)


def test_a_guardrail_that_says_fail_fails_the_run_before_anybody_is_asked() -> None:
    run, changes = gated(wants("pay", FIVE), verdict=Fail("Never."))
    assert changes.approvals == []
    action = next_action(run)
    assert isinstance(action, Finish)
    assert (action.status, action.code) == (RunStatus.FAILED, "guardrail")


@pytest.mark.parametrize("arguments", [FIVE, '{"amount": 6}'])
def test_a_call_that_its_guardrail_allows_or_was_not_asked_about_waits_for_a_person(
    arguments: str,
) -> None:
    verdict = Allow() if arguments == FIVE else Reject("No.")
    run, _ = gated(wants("pay", arguments), verdict=verdict)
    assert only(run).phase is CallPhase.AWAITING_APPROVAL


def test_a_guardrail_for_approvals_says_nothing_about_a_call_that_needs_none() -> None:
    run, _ = gated(wants("pay", FIVE), BY_CALLABLE, verdict=Reject("No."), answer=False)
    assert only(run).phase is CallPhase.READY


def test_only_calls_that_can_be_read_and_have_a_tool_can_be_shown_to_guardrails() -> None:
    optional = {"type": "object", "properties": {"a": {"type": "integer"}}}
    shown = tool("pay", parameters=optional, strict=True)
    wanted = [wants("pay", '{"a": null}', "c1"), wants("pay", "{", "c2"), wants("nope", id_="c3")]
    calls = parse_response(state(), response(*wanted), turn_with(shown)).calls
    assert [(one.arguments, one.raw, one.tool) for one in calls] == [
        ({}, None, shown),
        ({}, "{", shown),
        ({}, None, None),
    ]
