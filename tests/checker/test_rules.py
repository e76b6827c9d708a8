"""Each rule that tests use reads a history that breaks it, and one that does not."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.checker import Evidence, Reader, broken
from tests.checker.evidence import NETWORK, Fault
from tests.checker.history import CLOSING, Event
from tests.support.tools.hits import Hit

RUN = "run_1"
START = 1_800_000_000.0


def event(sequence: int, kind: str, **data: Any) -> Event:
    at = datetime.fromtimestamp(START + sequence, UTC).isoformat()
    return {
        "id": f"evt_{sequence}",
        "type": kind,
        "sequence": sequence,
        "run_id": RUN,
        "created_at": at,
        "data": data,
    }


def log() -> list[Event]:
    call = {"call_id": "c1", "tool": "pay"}
    decided = {"approval_id": "apr_1", "status": "approved", "digest": "d1"}
    return [
        event(1, "run.created"),
        event(2, "tool_call.created", **call, arguments={"x": "1"}),
        event(3, "tool_call.approval_requested", **call, approval_id="apr_1"),
        event(4, "tool_call.approval_decided", **call, **decided),
        event(5, "tool_call.started", **call, attempt=1, digest="d1"),
        event(6, "tool_call.completed", **call),
        event(7, "run.completed"),
    ]


def hit(number: int = 1, at: float = START + 5.5, **body: Any) -> Hit:
    sent = {"run_id": RUN, "call_id": "c1", "tool": "pay", "arguments": {"x": "1"}}
    headers = {"webhook-id": "w1", "idempotency-key": "w1"}
    return Hit(number, at, "pay", headers, {**sent, "attempt": 1, "fence": 1, **body}, 1, True)


def sound() -> Evidence:
    return Evidence(
        runs={RUN: {"status": "completed"}},
        logs={RUN: log()},
        hits=[hit()],
        readers=[Reader(RUN, "sse", log()[3:])],
        statuses=[("POST /v1/runs", 202), ("POST /v1/x", 409)],
    )


def edited(change: Callable[[list[Event]], Any]) -> Evidence:
    evidence = sound()
    events = deepcopy(evidence.logs[RUN])
    change(events)
    return replace(evidence, logs={RUN: events}, readers=[])


def with_hits(*hits: Hit, **fields: Any) -> Evidence:
    return replace(sound(), hits=list(hits), **fields)


def read(*numbers: int) -> Evidence:
    events = [log()[number - 1] for number in numbers]
    return replace(sound(), readers=[Reader(RUN, "sse", events)])


def changed(event: Event, **data: Any) -> Event:
    return {**event, "data": {**event["data"], **data}}


def reader_of(event: Event) -> Evidence:
    return replace(sound(), readers=[Reader(RUN, "sse", [event])])


ENDED: dict[str, Any] = {"status": "completed"}
ERASED = {"erased_at": "2027-01-15T08:00:00Z"}

PLANTED: list[tuple[str, Evidence]] = [
    ("every_run_ends_once", edited(lambda log: log.pop())),
    ("every_run_ends_once", edited(lambda log: log.append(event(8, "run.failed")))),
    ("every_run_ends_once", edited(lambda log: log.append(event(8, "model.retried")))),
    ("every_run_ends_once", replace(sound(), runs={RUN: {"status": "failed"}})),
    ("an_erased_run_has_no_content", replace(sound(), runs={RUN: ENDED | ERASED})),
    (
        "an_erased_run_has_no_content",
        replace(sound(), logs={}, runs={RUN: ENDED | ERASED | {"output": "left"}}),
    ),
    ("events_have_no_gap", edited(lambda log: log.pop(2))),
    ("events_have_no_gap", edited(lambda log: log.insert(2, log[2]))),
    ("events_have_no_gap", edited(lambda log: log.reverse())),
    ("events_have_no_gap", replace(sound(), logs={}, readers=[])),
    ("readers_agree", read(1, 2, 4)),
    ("readers_agree", read(1, 2, 2, 3)),
    ("readers_agree", reader_of(changed(log()[1], arguments={"x": "2"}))),
    ("readers_agree", reader_of({**event(8, "run.failed")})),
    ("a_call_is_started_before_it_is_sent", edited(lambda log: log.pop(4))),
    ("a_call_is_started_before_it_is_sent", with_hits(hit(attempt=2))),
    ("a_call_is_started_before_it_is_sent", with_hits(hit(at=START + 4.5))),
    ("a_call_is_started_before_it_is_sent", with_hits(replace(hit(), started_seen=False))),
    ("a_call_is_started_before_it_is_sent", with_hits(hit(run_id="run_of_nobody"))),
    ("a_call_is_sent_as_it_was_started", with_hits(hit(arguments={"x": "2"}))),
    (
        "a_call_is_sent_as_it_was_started",
        edited(lambda log: log.__setitem__(3, changed(log[3], arguments={"x": "9"}))),
    ),
    (
        "a_call_is_sent_as_it_was_started",
        edited(lambda log: log.__setitem__(4, changed(log[4], digest="d2"))),
    ),
    ("nothing_is_sent_after_its_end", with_hits(hit(at=START + 6.5))),
    (
        "nothing_is_sent_after_its_end",
        edited(lambda log: log.insert(4, event(4, "tool_call.failed", call_id="c1"))),
    ),
    (
        "a_refused_call_is_never_sent",
        edited(lambda log: log.__setitem__(3, changed(log[3], status="rejected"))),
    ),
    (
        "a_refused_call_is_never_sent",
        edited(lambda log: log.__setitem__(3, event(4, "tool_call.rejected", call_id="c1"))),
    ),
    ("a_call_has_one_id", with_hits(replace(hit(), headers={}))),
    (
        "a_call_has_one_id",
        with_hits(replace(hit(), headers={"webhook-id": "w1", "idempotency-key": "w2"})),
    ),
    ("a_call_has_one_id", with_hits(hit(), hit(call_id="c2"))),
    ("a_plain_call_is_sent_at_most_once", with_hits(hit(1), hit(2, attempt=2))),
    ("attempts_and_fences_rise", with_hits(hit(1), hit(2))),
    ("attempts_and_fences_rise", with_hits(hit(1, fence=2), hit(2, attempt=2, fence=1))),
    ("every_hit_is_signed", with_hits(replace(hit(), verified=False))),
    ("calls_complete_once", edited(lambda log: log.insert(5, log[5]))),
    ("calls_complete_once", edited(lambda log: log.pop(5))),
    ("an_approval_is_decided_once", edited(lambda log: log.insert(4, log[3]))),
    ("nothing_is_a_server_error", replace(sound(), statuses=[("GET /v1/runs", 500)])),
    ("nothing_is_a_server_error", replace(sound(), statuses=[("GET /v1/runs", 503)])),
]


@pytest.mark.parametrize(("rule", "evidence"), PLANTED)
def test_a_planted_violation_is_caught(rule: str, evidence: Evidence) -> None:
    assert rule in {violation.rule for violation in broken(evidence)}


def test_a_sound_history_breaks_no_rule() -> None:
    assert broken(sound()) == []


def test_an_idempotent_call_may_be_sent_again_under_its_one_id() -> None:
    again = edited(
        lambda log: log.__setitem__(slice(5, 5), [changed(log[4], attempt=2) | {"sequence": 6}])
    )
    numbered = [{**each, "sequence": at} for at, each in enumerate(again.logs[RUN], 1)]
    second = hit(2, attempt=2, fence=2)
    evidence = replace(again, logs={RUN: numbered}, hits=[hit(), second])
    assert broken(replace(evidence, idempotent=frozenset({"pay"}))) == []
    assert broken(evidence) != []


def test_an_unknown_outcome_may_be_tried_again_by_a_person() -> None:
    first = log()[:5]
    retried = [
        event(6, "tool_call.outcome_unknown", call_id="c1"),
        event(7, "tool_call.started", call_id="c1", attempt=2, digest="d1"),
        event(8, "tool_call.completed", call_id="c1"),
        event(9, "run.completed"),
    ]
    hits = [hit(), hit(2, START + 7.5, attempt=2)]
    evidence = with_hits(*hits, logs={RUN: first + retried}, readers=[])
    assert broken(replace(evidence, retried_by_hand=frozenset({(RUN, "c1")}))) == []
    assert [violation.rule for violation in broken(evidence)] == [
        "a_plain_call_is_sent_at_most_once"
    ]


def test_a_remembered_decision_may_cover_many_calls() -> None:
    covered = [
        event(1, "run.created"),
        event(2, "tool_call.approval_decided", call_id="c1", decision="approve", remembered=True),
        event(3, "tool_call.approval_decided", call_id="c2", decision="approve", remembered=True),
        event(4, "run.completed"),
    ]
    assert broken(replace(sound(), logs={RUN: covered}, hits=[], readers=[])) == []


def test_503_is_fine_during_an_outage_and_only_503() -> None:
    statuses = [("GET /v1/runs", 503), ("GET /v1/runs", 500)]
    evidence = replace(sound(), statuses=statuses, outage=True)
    assert [violation.what for violation in broken(evidence)] == ["answered 500"]


def test_a_waiting_run_has_not_ended_and_need_not() -> None:
    waiting = Evidence(runs={RUN: {"status": "requires_action"}}, logs={RUN: log()[:3]})
    assert broken(replace(waiting, may_be_unfinished=True)) == []
    assert [violation.rule for violation in broken(waiting)] == ["every_run_ends_once"]


def test_closing_events_are_those_that_the_api_documents() -> None:
    assert len(CLOSING) == 6


def test_requests_can_arrive_for_as_long_as_the_network_was_cut() -> None:
    frozen = Fault(START, "freeze", "worker-0", START + 12)
    cut = replace(frozen, detail=NETWORK)
    assert Evidence(faults=[cut]).was_frozen(START + 5, START + 23)
    assert not Evidence(faults=[frozen]).was_frozen(START + 5, START + 23)
    assert not Evidence(faults=[cut]).was_frozen(START + 5, START + 25)
    assert not Evidence(faults=[cut]).was_frozen(START + 13, START + 14)
