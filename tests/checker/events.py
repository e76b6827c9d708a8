"""The promises about events."""

from tests.checker.history import ENDED, TERMINAL, Event, Evidence, Found, Json, part_of, seconds


def events_have_no_gap(evidence: Evidence) -> Found:
    """G10: the events of a run are 1 to n."""
    for run_id, log in evidence.logs.items():
        numbers = [event["sequence"] for event in log]
        if numbers != list(range(1, len(log) + 1)):
            yield run_id, f"sequence numbers {numbers}"
    for run_id in evidence.runs.keys() - evidence.logs.keys():
        yield run_id, "no events at all"


def readers_agree(evidence: Evidence) -> Found:
    """G10: each poll and each stream shows the same events, from where it began, without a gap."""
    for reader in evidence.readers:
        where, log = f"{reader.run_id} ({reader.name})", evidence.logs.get(reader.run_id, [])
        if reader.wrong is not None:
            yield where, reader.wrong
            continue
        numbers = [event["sequence"] for event in reader.events]
        first = numbers[0] if reader.after is None and numbers else (reader.after or 0) + 1
        if numbers and numbers != list(range(first, first + len(numbers))):
            yield where, f"saw {numbers} after {reader.after}"
        for event in reader.events:
            if not _equal(event, log[event["sequence"] - 1 : event["sequence"]]):
                yield where, f"event {event['sequence']} differs from the log's: {event}"


def _equal(event: Event, logged: list[Event]) -> bool:
    if event in logged:
        return True
    times = {seconds(each["created_at"]) for each in (event, *logged)}
    return (
        bool(logged)
        and len(times) == 1
        and event | {"created_at": 0} == logged[0] | {"created_at": 0}
    )


def the_last_number_is_that_of_the_last_event(evidence: Evidence) -> Found:
    """G10: the run's counter and its log were written in one commit."""
    for run_id, row in evidence.run_rows.items():
        count = len(evidence.logs.get(run_id, []))
        if row["last_seq"] != count:
            yield run_id, f"last_seq is {row['last_seq']}, the log has {count} events"


def tables_and_answers_agree(evidence: Evidence) -> Found:
    """G10: the row of a run, its GET and its final event say the same."""
    for run_id, row in evidence.run_rows.items():
        log = evidence.logs.get(run_id, [])
        if not log or log[-1]["type"] not in TERMINAL:
            continue
        final, answer = log[-1]["data"], evidence.runs.get(run_id, {})
        for name in ("output", "error", "incomplete_details"):
            if name in final and not final.get("truncated") and final[name] != row[name]:
                yield run_id, f"its final event says {name} {final[name]}, its row {row[name]}"
            if answer.get("status") in ENDED and answer.get(name, row[name]) != row[name]:
                yield run_id, f"GET says {name} {answer[name]}, its row {row[name]}"
        if answer.get("status") in ENDED:
            yield from _other_usage(run_id, row, part_of(answer, "usage"))


def _other_usage(run_id: str, row: Json, usage: Json) -> Found:
    for name in ("input_tokens", "output_tokens"):
        if usage.get(name, row[name]) != row[name]:
            yield run_id, f"GET says {name} {usage[name]}, its row {row[name]}"
