"""What a person may decide about one call, and what each decision does to it."""

from typing import Any
from uuid import UUID

import pytest
from pydantic import TypeAdapter, ValidationError

from runward.domain.events.values import ApprovalStatus, CallReason
from runward.domain.ids import ApprovalId, CallId
from runward.domain.json import compute_digest
from runward.domain.run import texts
from runward.domain.run.approvals import DecisionRecord, decide, expire
from runward.domain.run.decisions import Decision, RejectDecision
from runward.domain.run.remembered_decisions import find_remembered_decision, remember_decision
from runward.domain.run.state import (
    Call,
    CallOutcome,
    CallPhase,
    Changes,
    Result,
    RunState,
    compute_call_digest,
)
from tests.unit.domain_cases import AGENT, URL, call, event, state, tool, types

DECISION: TypeAdapter[Decision] = TypeAdapter(Decision)
PAY = tool("pay")


def gated(id_: str = "c1", **fields: Any) -> Call:
    asked = ApprovalId(UUID(int=100 + int(id_[1:])))
    values: dict[str, Any] = {"tool": "pay", "approval_id": asked, "arguments": {"amount": 5}}
    return call(id_, CallPhase.AWAITING_APPROVAL, **values | fields)


def deciding(
    what: dict[str, Any], *calls: Call, **spec: Any
) -> tuple[RunState, Changes, list[DecisionRecord]]:
    """Of the first of `calls`."""
    calls = calls or (gated(),)
    changes = Changes()
    decision = DECISION.validate_python(what)
    run, decided = decide(state(calls), changes, calls[0], tool("pay", **spec), decision, "key_1")
    return run, changes, decided


def result_of(run: RunState, id_: str = "c1") -> Result:
    found = run.calls[CallId(id_)].result
    assert found is not None
    return found


# The four decisions.


def test_an_approved_call_may_start_as_it_was_shown() -> None:
    run, changes, [decided] = deciding({"decision": "approve"})
    one = run.calls[CallId("c1")]
    assert (one.phase, one.approved_digest) == (CallPhase.READY, gated().digest)
    assert changes.updated == {one.id: one}
    assert decided == DecisionRecord(
        ApprovalId(UUID(int=101)), ApprovalStatus.APPROVED, {"decision": "approve"}, one
    )
    assert event(changes, "tool_call.approval_decided") == {
        "approval_id": f"apr_{UUID(int=101).hex}",
        "call_id": "c1",
        "tool": "pay",
        "decision": "approve",
        "status": "approved",
        "decided_by": "key_1",
    }


@pytest.mark.parametrize(
    ("message", "own", "text"),
    [
        ("Too much.", "Ask less.", "Too much."),
        (None, "Ask less.", "Ask less."),
        ("", None, texts.NOT_APPROVED),
        (None, None, "Tool execution was not approved."),
    ],
)
def test_a_rejection_is_an_error_result_in_the_person_s_words_first(
    message: str | None, own: str | None, text: str
) -> None:
    run, changes, [decided] = deciding(
        {"decision": "reject", "message": message}, reject_message=own
    )
    assert decided.status is ApprovalStatus.REJECTED
    assert result_of(run) == Result(CallOutcome.REJECTED, text, CallReason.DECLINED)
    assert types(changes) == ["tool_call.approval_decided", "tool_call.rejected"]
    assert ("message" in event(changes, "tool_call.approval_decided")) is bool(message)


def test_an_edit_of_a_strict_tool_is_sent_without_the_nulls_that_stand_for_nothing() -> None:
    optional = {"type": "object", "properties": {"amount": {"type": "number"}}}
    edit = {"decision": "edit", "arguments": {"amount": None}}
    run, changes, _ = deciding(edit, strict=True, parameters=optional)
    one = run.calls[CallId("c1")]
    assert one.arguments == event(changes, "tool_call.approval_decided")["arguments"] == {}
    assert one.digest == one.approved_digest == compute_call_digest("pay", 1, URL, {})


def test_an_edit_is_a_new_call_to_the_tool_and_both_are_kept() -> None:
    run, changes, [decided] = deciding(
        {"decision": "edit", "arguments": {"amount": 1}, "message": "Less."}
    )
    one = run.calls[CallId("c1")]
    assert (one.arguments, one.original, one.requested_arguments) == (
        {"amount": 1},
        {"amount": 5},
        {"amount": 5},
    )
    assert one.digest == one.approved_digest == compute_call_digest("pay", 1, URL, {"amount": 1})
    assert one.phase is CallPhase.READY
    assert decided.status is ApprovalStatus.EDITED
    told = event(changes, "tool_call.approval_decided")
    assert (told["arguments"], told["digest"]) == ({"amount": 1}, one.digest)


@pytest.mark.parametrize("original", [{}, {"amount": 7}])
def test_a_second_edit_keeps_what_the_model_asked_for(original: Any) -> None:
    """After the tool changed, an edited call is asked about again."""
    edited = gated(arguments={"amount": 1}, original=original)
    run, _, _ = deciding({"decision": "edit", "arguments": {"amount": 2}}, edited)
    assert run.calls[CallId("c1")].original == original


@pytest.mark.parametrize("output", ["Done by hand.", None, {"ok": True}])
def test_a_response_is_the_result_and_the_tool_never_runs(output: Any) -> None:
    run, changes, [decided] = deciding({"decision": "respond", "output": output})
    assert result_of(run) == Result(CallOutcome.COMPLETED, output, CallReason.RESPONDED)
    assert run.calls[CallId("c1")].attempt == 0
    assert decided.status is ApprovalStatus.RESPONDED
    assert types(changes) == ["tool_call.approval_decided", "tool_call.completed"]


def test_a_long_response_is_cut_for_the_model() -> None:
    run, _, _ = deciding({"decision": "respond", "output": "x" * 999}, max_output_bytes=256)
    assert result_of(run).full == "x" * 999


def test_what_was_decided_is_kept_without_the_digest_that_only_guarded_it() -> None:
    _, _, [decided] = deciding({"decision": "reject", "message": "No.", "digest": "sha256:1"})
    assert decided.decision == {"decision": "reject", "message": "No."}
    _, _, [edited] = deciding({"decision": "edit", "arguments": {"a": None}})
    assert edited.decision == {"decision": "edit", "arguments": {"a": None}}


@pytest.mark.parametrize(
    "body",
    [
        {"decision": "maybe"},
        {"decision": "approve", "arguments": {}},
        {"decision": "edit"},
        {"decision": "edit", "arguments": []},
        {"decision": "respond"},
        {"decision": "respond", "output": 1, "remember": {"scope": "run"}},
        {"decision": "approve", "remember": {"scope": "world"}},
        {"decision": "approve", "remember": {"scope": "run", "expires_seconds": 0}},
    ],
)
def test_a_decision_that_makes_no_sense_is_refused(body: Any) -> None:
    with pytest.raises(ValidationError):
        DECISION.validate_python(body)


# Remembering.

SIBLINGS = (
    gated(),
    gated("c2", position=1),
    gated("c3", position=2, arguments={"amount": 6}),
    gated("c4", position=3, version=2),
    gated("c5", position=4, tool="refund"),
    call("c6", CallPhase.READY, position=5, tool="pay", arguments={"amount": 5}),
)


@pytest.mark.parametrize(("exact", "covered"), [(False, ["c1", "c2", "c3"]), (True, ["c1", "c2"])])
@pytest.mark.parametrize(
    ("decision", "phase"),
    [("approve", CallPhase.READY), ("reject", CallPhase.SETTLED)],
)
def test_a_remembered_decision_covers_pending_siblings_of_the_same_tool_version(
    decision: str, phase: CallPhase, covered: list[str], *, exact: bool
) -> None:
    what = {"decision": decision, "remember": {"scope": "run", "exact_arguments": exact}}
    run, changes, decided = deciding(what, *SIBLINGS)
    assert [one.call.id for one in decided] == covered
    for one in SIBLINGS[:5]:
        now = run.calls[one.id]
        assert now.phase is (phase if one.id in covered else CallPhase.AWAITING_APPROVAL)
        if now.phase is CallPhase.READY:
            assert now.approved_digest == one.digest
    assert run.calls[CallId("c6")] == SIBLINGS[5]
    assert types(changes).count("tool_call.approval_decided") == len(covered)
    assert list(changes.updated) == covered


def test_a_decision_that_is_not_remembered_covers_its_call_alone() -> None:
    run, _, decided = deciding({"decision": "approve"}, *SIBLINGS)
    assert [one.call.id for one in decided] == ["c1"]
    assert run.calls[CallId("c2")].phase is CallPhase.AWAITING_APPROVAL


@pytest.mark.parametrize("exact", [False, True])
def test_what_is_remembered_covers_later_calls_of_the_same_agent(*, exact: bool) -> None:
    what = DECISION.validate_python(
        {
            "decision": "reject",
            "message": "No.",
            "remember": {"scope": "session", "exact_arguments": exact},
        }
    )
    assert isinstance(what, RejectDecision)
    memory = remember_decision(what, gated(), AGENT)
    assert (memory.decision, memory.message) == ("reject", "No.")
    assert memory.arguments_digest == (compute_digest({"amount": 5}) if exact else None)
    later, other = gated("c9"), gated("c8", arguments={"amount": 6})
    assert find_remembered_decision((memory,), later, AGENT) == memory
    assert find_remembered_decision((memory,), other, AGENT) == (None if exact else memory)
    assert find_remembered_decision((memory,), later, "someone else") is None


def test_a_remembered_approval_has_no_message() -> None:
    what = DECISION.validate_python({"decision": "approve", "remember": {"scope": "run"}})
    assert not isinstance(what, RejectDecision)
    assert remember_decision(what, gated(), AGENT).message is None  # pyright: ignore[reportArgumentType]


# Expiry.


def test_an_approval_that_nobody_answered_is_not_a_rejection() -> None:
    one = gated()
    changes = Changes()
    run = expire(state([one]), changes, one)
    assert changes.closed_approvals == {one.approval_id: ApprovalStatus.EXPIRED}
    assert result_of(run) == Result(
        CallOutcome.REJECTED, texts.NOBODY_ANSWERED, CallReason.APPROVAL_EXPIRED
    )
    assert types(changes) == ["tool_call.rejected"]
