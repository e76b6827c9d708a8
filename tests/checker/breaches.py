"""The planted breaches: for each rule, a change of the evidence that only this rule finds."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from tests.checker import beyond
from tests.checker.evidence import ModelRequest
from tests.checker.history import Json
from tests.checker.spoiling import (
    CALLED_BACK,
    CANCELLED,
    CHILD,
    FIRST,
    GATED,
    LATER,
    PARENT,
    REJECTED,
    SECOND,
    Breach,
    Lines,
    at,
    ends_as,
    event,
    keep,
    of,
)
from tests.checker.story import START, shown, uuid

# Runs.


def a_run_is_left(lines: Lines) -> None:
    lines.events(REJECTED, lambda log: log.pop())
    lease = at(LATER)
    lines.set("tables/runs.jsonl", of(id=REJECTED), status="in_progress", lease_expires_at=lease)


def a_run_ends_late(lines: Lines) -> None:
    def delay(log: list[Json]) -> None:
        last, begun = log.pop(), datetime.fromisoformat(log[-1]["created_at"]).timestamp()
        log += [event(last, "model.retried", begun + 10 * n) for n in range(1, 8)]
        log.append(event(last, "run.completed", begun + 75, output="done"))
        lines.set("tables/runs.jsonl", of(id=REJECTED), ended_at=at(begun + 75))
        lines.set_settings(settled_at=LATER + 80.0)

    lines.events(REJECTED, delay)


def an_erased_run_keeps_content(lines: Lines) -> None:
    lines.set("tables/runs.jsonl", of(id=REJECTED), erased_at=at(LATER))


def a_run_is_forgotten(lines: Lines) -> None:
    lines.ask("/v1/runs", 202, {"id": shown("run", uuid("1", 99))})


def a_sound_run_is_quarantined(lines: Lines) -> None:
    ends_as(lines, REJECTED, "failed", error={"code": "crash_loop", "message": "x"})


def a_child_is_not_that_of_its_call(lines: Lines) -> None:
    lines.set("tables/tool_calls.jsonl", of(run_id=PARENT), child_run_id=None)


def a_tool_is_called_more_often_than_planned(lines: Lines) -> None:
    expects = {"statuses": ["completed"], "hits_at_most": {"charge": 0}}
    lines.set("runs.jsonl", of(kind="child"), expects=expects)


def a_run_ends_otherwise_than_planned(lines: Lines) -> None:
    ends_as(lines, REJECTED, "failed", error={"code": "internal_error", "message": "x"})


def a_cancelled_run_completes(lines: Lines) -> None:
    ends_as(lines, CANCELLED, "completed", output="done")
    lines.set("runs.jsonl", of(kind="cancel"), expects={"statuses": ["completed"]})


def a_call_starts_after_the_cancel(lines: Lines) -> None:
    path = f"/v1/runs/{shown('run', CANCELLED)}/cancel"
    lines.set("http.jsonl", of(path=path), at=START, ended_at=START + 0.1)


def runs_of_a_session_interleave(lines: Lines) -> None:
    lines.set("tables/runs.jsonl", of(id=FIRST), session_seq=3)


# Events.


def an_event_is_missing(lines: Lines) -> None:
    lines.forget_readers()
    where = of(run_id=REJECTED, type="run.waiting")
    lines.change("tables/run_events.jsonl", lambda rows: keep(rows, lambda row: not where(row)))
    lines.set("tables/runs.jsonl", of(id=REJECTED), last_seq=11)


def a_frame_differs(lines: Lines) -> None:
    frame = of(run_id=shown("run", CHILD), event="run.completed")

    def alter(rows: list[Json]) -> None:
        [found] = filter(frame, rows)
        found["data"] = found["data"].replace("done", "gone")

    lines.change("streams.jsonl", alter)


def a_frame_is_missing(lines: Lines) -> None:
    frame = of(run_id=shown("run", CHILD), event="tool_call.started")
    lines.change("streams.jsonl", lambda rows: keep(rows, lambda row: not frame(row)))


def a_stream_goes_on_too_late(lines: Lines) -> None:
    lines.set("streams.jsonl", of(run_id=shown("run", CHILD), after=3), after=2)


def a_page_differs(lines: Lines) -> None:
    path = f"/v1/runs/{shown('run', CHILD)}/events?after=0&limit=1000"

    def alter(rows: list[Json]) -> None:
        [found] = filter(of(path=path), rows)
        found["response"]["data"].pop(2)

    lines.change("http.jsonl", alter)


def a_counter_is_ahead(lines: Lines) -> None:
    lines.set("tables/runs.jsonl", of(id=PARENT), last_seq=99)


def a_get_differs_from_the_row(lines: Lines) -> None:
    path = f"/v1/runs/{shown('run', PARENT)}"
    answer = {"id": shown("run", PARENT), "status": "completed", "output": "other"}
    lines.set("http.jsonl", of(path=path), response=answer)


# Calls.


def hit_of(run: str, **fields: Any) -> Callable[[Json], bool]:
    shown_id = shown("run", run)
    return lambda line: (
        line["line"] == "hit"
        and line["body"]["run_id"] == shown_id
        and all(line["body"][name] == value for name, value in fields.items())
    )


def of_hit(run: str, body: Json | None = None, **fields: Any) -> Breach:
    """The hit differs, in its body or in its other fields."""

    def alter(rows: list[Json]) -> None:
        hit = next(row for row in reversed(rows) if hit_of(run)(row))
        hit.update(fields)
        hit["body"].update(body or {})

    return lambda lines: lines.change("tools.jsonl", alter)


def of_event(run: str, kind: str, **data: Any) -> Breach:
    """The events of a kind have other data."""

    def alter(log: list[Json]) -> None:
        for row in filter(of(type=kind), log):
            row["data"] |= data

    return lambda lines: lines.events(run, alter)


def twice(run: str, kind: str) -> Breach:
    """An event stands twice in the log."""

    def double(log: list[Json]) -> None:
        place = max(number for number, row in enumerate(log) if row["type"] == kind)
        log.insert(place, dict(log[place]))

    return lambda lines: lines.events(run, double)


def an_expired_call_is_sent(lines: Lines) -> None:
    row = {"id": uuid("3", 9), "run_id": CHILD, "call_id": "k1", "status": "expired"}
    lines.change("tables/approvals.jsonl", lambda rows: rows.append(row | {"decision": None}))


def a_call_is_repeated(lines: Lines) -> None:
    lines.set("runs.jsonl", lambda line: True, tools={"pay": {"idempotent": False}})


def an_outcome_differs(lines: Lines) -> None:
    result = {"outcome": "failed", "output": "ok"}
    lines.set("tables/tool_calls.jsonl", of(run_id=CHILD), result=result)


def a_callback_is_lost(lines: Lines) -> None:
    result = {"outcome": "timed_out", "output": "ok"}
    lines.set("tables/tool_calls.jsonl", of(run_id=CALLED_BACK), result=result)

    def time_out(log: list[Json]) -> None:
        for row in filter(of(type="tool_call.completed"), log):
            row["type"] = "tool_call.timed_out"

    lines.events(CALLED_BACK, time_out)


def results_are_out_of_order(lines: Lines) -> None:
    def swap(rows: list[Json]) -> None:
        items = rows[0]["items"]
        items[-1], items[-2] = items[-2], items[-1]

    lines.change("tables/session_items.jsonl", swap)


# Approvals and clients.

DECISION = f"/v1/approvals/{shown('apr', uuid('3', 1))}/decision"


def two_decisions_win(lines: Lines) -> None:
    body = {"decision": "approve", "remember": {"scope": "run"}}
    lines.ask(DECISION, 200, {"id": "x"}, request=body)


def a_refusal_names_another_decision(lines: Lines) -> None:
    won = {"id": shown("apr", uuid("3", 1)), "decision": {"decision": "reject"}}
    answer = {"code": "approval_already_decided", "approval": won}
    lines.set("http.jsonl", of(path=DECISION, status=409), response=answer)


def a_confirmed_decision_is_lost(lines: Lines) -> None:
    lines.set("tables/approvals.jsonl", of(run_id=REJECTED), status="expired")


def a_key_makes_two_runs(lines: Lines) -> None:
    key = "key-plan-000001"
    answer = {"id": shown("run", REJECTED)}
    lines.ask("/v1/runs", 202, answer, idempotency_key=key, plan="plan-000001")


def a_run_is_made_twice(lines: Lines) -> None:
    """The second one was never acknowledged."""
    lines.change("http.jsonl", lambda rows: keep(rows, lambda row: row["path"] != "/v1/runs"))
    answer, plan = {"id": shown("run", FIRST)}, "plan-000003"
    lines.ask("/v1/runs", 202, answer, idempotency_key="key", plan=plan)
    items = [{"role": "user", "content": plan}]
    lines.set("tables/run_items.jsonl", of(run_id=SECOND), items=items)
    lines.change("models.jsonl", lambda rows: rows.clear())


def a_result_is_lost(lines: Lines) -> None:
    path = f"/v1/runs/{shown('run', CHILD)}/tool_calls/k1/result"
    lines.ask(path, 200, {"id": "x"}, request={"output": "by the client"})


def a_message_is_lost(lines: Lines) -> None:
    lines.ask(f"/v1/runs/{shown('run', CHILD)}/input", 202, {"id": "x"})


# Models.


def a_turn_is_asked_again(lines: Lines) -> None:
    again = ModelRequest(LATER, 99, "chat", "main", "plan-000002", 0, "d", "answer", answered=False)
    lines.append("models.jsonl", again)


def a_response_is_counted_that_nobody_gave(lines: Lines) -> None:
    lines.set("models.jsonl", of(plan="plan-000003", turn=0), answered=False)


def a_child_is_counted_twice(lines: Lines) -> None:
    def double(log: list[Json]) -> None:
        places = [number for number, row in enumerate(log) if row["type"] == "usage.updated"]
        log.insert(places[1], dict(log[places[1]]))

    lines.events(PARENT, double)


PLANTED: list[tuple[str, Breach]] = [
    ("every_run_ends_once", a_run_is_left),
    ("every_run_ends_in_time", a_run_ends_late),
    ("an_erased_run_has_no_content", an_erased_run_keeps_content),
    ("every_accepted_run_is_kept", a_run_is_forgotten),
    ("a_crash_loop_has_lost_workers", a_sound_run_is_quarantined),
    ("a_child_ends_with_its_parent", a_child_is_not_that_of_its_call),
    ("expectations_hold", a_tool_is_called_more_often_than_planned),
    ("expectations_hold", a_run_ends_otherwise_than_planned),
    ("a_cancel_is_final", a_cancelled_run_completes),
    ("nothing_starts_after_a_cancel", a_call_starts_after_the_cancel),
    ("session_runs_take_turns", runs_of_a_session_interleave),
    ("events_have_no_gap", an_event_is_missing),
    ("readers_agree", a_frame_differs),
    ("readers_agree", a_frame_is_missing),
    ("readers_agree", a_stream_goes_on_too_late),
    ("readers_agree", a_page_differs),
    ("the_last_number_is_that_of_the_last_event", a_counter_is_ahead),
    ("tables_and_answers_agree", a_get_differs_from_the_row),
    ("a_call_is_started_before_it_is_sent", of_hit(CHILD, at=START - 1)),
    (
        "a_call_is_sent_as_it_was_started",
        of_event(CHILD, "tool_call.created", arguments={"amount": 9}),
    ),
    ("a_hit_has_the_digest_of_its_call", of_event(CHILD, "tool_call.started", digest="sha256:0")),
    ("nothing_is_sent_after_its_end", of_hit(CANCELLED, at=LATER)),
    ("a_refused_call_is_never_sent", an_expired_call_is_sent),
    ("a_call_has_one_id", of_hit(GATED, headers={"webhook-id": "w", "idempotency-key": "w"})),
    ("a_plain_call_is_sent_at_most_once", a_call_is_repeated),
    ("attempts_and_fences_rise", of_hit(GATED, {"fence": 0})),
    ("every_hit_is_signed", of_hit(CHILD, verified=False)),
    ("calls_complete_once", twice(CHILD, "tool_call.completed")),
    ("the_call_log_agrees_with_the_events", an_outcome_differs),
    ("a_callback_that_was_accepted_counts", a_callback_is_lost),
    ("results_stand_in_call_order", results_are_out_of_order),
    ("an_approval_is_decided_once", twice(REJECTED, "tool_call.approval_decided")),
    ("one_decision_wins", two_decisions_win),
    ("a_refused_decision_names_the_winner", a_refusal_names_another_decision),
    ("a_decision_that_was_confirmed_is_kept", a_confirmed_decision_is_lost),
    ("nothing_is_a_server_error", lambda lines: lines.ask("/v1/runs", 500)),
    ("nothing_is_a_server_error", lambda lines: lines.ask("/v1/runs", 503)),
    ("a_key_makes_one_run", a_key_makes_two_runs),
    ("a_key_makes_one_run", a_run_is_made_twice),
    ("a_result_that_was_accepted_counts", a_result_is_lost),
    ("a_message_that_was_accepted_is_kept", a_message_is_lost),
    ("no_committed_turn_is_asked_again", a_turn_is_asked_again),
    ("usage_adds_up", a_response_is_counted_that_nobody_gave),
    ("every_turn_is_counted", of_event(CALLED_BACK, "usage.updated", turn=9)),
    ("a_child_counts_for_its_parent", a_child_is_counted_twice),
    ("each_row_has_its_owner", beyond.a_row_is_orphaned),
    ("no_approval_waits_for_an_ended_run", beyond.an_approval_is_left_pending),
    ("no_call_is_open_in_an_ended_run", beyond.a_call_is_left_open),
    ("no_run_is_left_by_its_worker", beyond.a_lease_has_expired),
    ("no_session_waits_for_an_ended_run", beyond.a_session_is_stuck),
    ("no_process_ends_by_itself", beyond.a_process_ends),
    ("no_process_ends_by_itself", beyond.a_process_cannot_start),
    ("no_process_ends_by_itself", beyond.a_drained_process_fails),
    ("no_process_ends_by_itself", beyond.a_process_ends_too_early),
    ("every_stalled_process_ends", beyond.a_process_stays_stalled),
    ("no_lease_is_lost_without_a_fault", beyond.a_worker_loses_a_lease),
    ("a_stalled_worker_keeps_its_leases", beyond.a_stalled_worker_loses_a_lease),
    ("every_process_stops_when_asked", beyond.a_process_ignores_the_signal),
    ("no_process_hangs", beyond.work_stops),
    ("no_process_hangs", beyond.a_request_is_not_answered),
    ("no_run_stands_still", beyond.a_run_stands_still),
    ("memory_returns_to_its_level", beyond.at_the_end(rss_bytes=900 * 2**20)),
    ("connections_return_to_their_level", beyond.at_the_end(connections=200)),
    ("no_idle_process_spins", beyond.a_process_spins),
]
