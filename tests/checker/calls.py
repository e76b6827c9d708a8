"""The promises about tool calls: which requests reach a tool, when, how often, and the outcomes."""

import hashlib
import json
from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

from tests.checker.history import (
    CLOCK_TOLERANCE_SECONDS,
    CLOSING,
    REOPENABLE,
    CallKey,
    Event,
    Evidence,
    Found,
    Json,
    call_id_of,
    name_of,
    part_of,
    time_of,
)
from tests.support.tools.hits import Hit

NEVER_SENT = {"rejected", "expired", "cancelled", "responded", "reject", "respond"}
ANSWERED = {"completed", "failed"}
SEND_SECONDS = 5.0
"""From the commit of a start to its first byte, at most, in a process that has little time."""


def a_call_is_started_before_it_is_sent(evidence: Evidence) -> Found:
    """G4: the event is committed before the first byte is sent."""
    for hit in evidence.hits:
        started = evidence.started(hit)
        if started is None:
            yield name_of(hit), f"attempt {hit.attempt} was sent, no started event says so"
        elif time_of(started) > hit.at + CLOCK_TOLERANCE_SECONDS or hit.started_seen is False:
            yield name_of(hit), f"attempt {hit.attempt} was sent before its started event was there"


def a_call_is_sent_as_it_was_started(evidence: Evidence) -> Found:
    """G9: the arguments of the hit are those that the events and a person's edit fixed."""
    for hit in evidence.hits:
        arguments = None
        digests: set[str] = set()
        for event in evidence.of_call(hit):
            arguments = event["data"].get("arguments", arguments)
            if event["type"] in ("tool_call.approval_decided", "tool_call.started"):
                digests |= {event["data"]["digest"]} if event["data"].get("digest") else set()
        erased = hit.run_id in evidence.erased
        if isinstance(arguments, dict) and arguments != hit.arguments and not erased:
            yield name_of(hit), f"sent {hit.arguments}, decided on {arguments}"
        if len(digests) > 1:
            yield name_of(hit), f"decided and started under different digests: {sorted(digests)}"


def a_hit_has_the_digest_of_its_call(evidence: Evidence) -> Found:
    """G9: the digest is that of the tool, its version, its address and the arguments as sent."""
    addresses = {
        (row["project_id"], row["name"], row["version"]): row["spec"].get("url")
        for row in evidence.rows("tool_versions")
    }
    for hit in evidence.hits:
        row, started = evidence.calls.get((hit.run_id, hit.call_id)), evidence.started(hit)
        if row is None or started is None or hit.transport != "webhook":
            continue
        tool = (row["project_id"], hit.tool, hit.body.get("tool_version"))
        if tool in addresses:
            digest = call_digest(hit.tool, tool[2], addresses[tool], hit.arguments)
            if digest != started["data"].get("digest"):
                yield name_of(hit), f"sent {digest}, started {started['data'].get('digest')}"


def call_digest(tool: str, version: Any, url: Any, arguments: Json) -> str:
    """SHA-256 of the canonical JSON: sorted keys, no spaces, non-ASCII text as it is."""
    bound = {"tool": tool, "version": version, "url": url, "arguments": arguments}
    text = json.dumps(bound, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def nothing_is_sent_after_its_end(evidence: Evidence) -> Found:
    """G6: a finished call never starts again. A process that was frozen between its last check and
    the write may deliver a request late. G11: a cancel does not stop a call that has started."""
    for hit in evidence.hits:
        started = evidence.started(hit)
        for event in evidence.of_call(hit) if started is not None else []:
            if event["type"] not in CLOSING or started is None:
                continue
            if event["sequence"] > started["sequence"]:
                late = time_of(event) + evidence.lag_seconds < hit.at
                in_flight = hit.at - time_of(started) < SEND_SECONDS
                if event["type"] == "tool_call.cancelled" and in_flight:
                    continue
                if late and not evidence.was_frozen(time_of(started), hit.at):
                    yield name_of(hit), f"attempt {hit.attempt} arrived after {event['type']}"
            elif event["type"] not in REOPENABLE:
                yield name_of(hit), f"attempt {hit.attempt} was started after {event['type']}"


def a_refused_call_is_never_sent(evidence: Evidence) -> Found:
    """G8: a call that was rejected, that expired, or whose run ended before it was approved."""
    refused = {
        (row["run_id"], row["call_id"]): row["status"]
        for row in evidence.rows("approvals")
        if row["status"] in NEVER_SENT
    }
    for hit in evidence.hits:
        decided = {refused.get((hit.run_id, hit.call_id))} & NEVER_SENT
        for event in evidence.of_call(hit):
            data = event["data"]
            if event["type"] == "tool_call.approval_decided":
                decided |= {data.get("decision"), data.get("status")} & NEVER_SENT
            elif event["type"] == "tool_call.rejected":
                decided |= {"rejected"}
        if decided:
            yield name_of(hit), f"was sent although it is {', '.join(sorted(map(str, decided)))}"


def a_call_has_one_id(evidence: Evidence) -> Found:
    """G6: each attempt at a call has the same id, and no other call has it."""
    owners: dict[str, set[CallKey]] = defaultdict(set)
    for (run_id, call_id), hits in evidence.hits_by_call.items():
        sent = [hit for hit in hits if hit.transport == "webhook"]
        ids = {hit.webhook_id for hit in sent} | {
            hit.headers.get("idempotency-key") for hit in sent
        }
        if sent and (len(ids) != 1 or not all(ids)):
            yield f"{run_id} {call_id}", f"was sent under the ids {ids}"
        for hit in sent:
            owners[hit.webhook_id].add((run_id, call_id))
    for webhook_id, calls in owners.items():
        if len(calls) > 1:
            yield webhook_id, f"is the id of {sorted(calls)}"


def a_plain_call_is_sent_at_most_once(evidence: Evidence) -> Found:
    """G6: unless its tool is idempotent, or a person or the tool itself asked for another
    attempt."""
    for (run_id, call_id), hits in evidence.hits_by_call.items():
        allowed = 1 + ((run_id, call_id) in evidence.retried_by_hand)
        allowed += sum(_asks_again(event) for event in evidence.of_call(hits[0]))
        if len(hits) > allowed and hits[0].tool not in evidence.idempotent:
            yield f"{run_id} {call_id}", f"{hits[0].tool} is not idempotent, {len(hits)} hits"


def _asks_again(event: Event) -> bool:
    """The tool asked for input and is sent the call again with it, or a person retries it."""
    again = ("input_given", "retried_by_person")
    return event["type"] == "tool_call.progress" and event["data"]["status"] in again


def attempts_and_fences_rise(evidence: Evidence) -> Found:
    """G6: of two requests for one call, the later one has the higher attempt, and no lower fence.
    A process that was frozen may deliver an older one late."""
    for (run_id, call_id), hits in evidence.hits_by_call.items():
        sent = [hit for hit in hits if hit.transport == "webhook"]
        for one, other in pairwise(sent):
            rises = one.attempt < other.attempt and one.fence <= other.fence
            if not rises and not _was_late(evidence, other):
                numbers = [(hit.attempt, hit.fence) for hit in sent]
                yield f"{run_id} {call_id}", f"attempts and fences {numbers}"
                break


def _was_late(evidence: Evidence, hit: Hit) -> bool:
    started = evidence.started(hit)
    return started is not None and evidence.was_frozen(time_of(started), hit.at)


def every_hit_is_signed(evidence: Evidence) -> Found:
    """The signature of each webhook is valid."""
    for hit in evidence.hits:
        if hit.verified is False:
            yield name_of(hit), "has no valid signature"


def calls_complete_once(evidence: Evidence) -> Found:
    """G6: a call ends once, and a run that completed has a result for each call."""
    for run_id, log in evidence.logs.items():
        ended = [event for event in log if event["type"] in CLOSING]
        done = Counter(call_id_of(event) for event in ended if event["type"] not in REOPENABLE)
        for call_id, count in done.items():
            if count > 1:
                yield f"{run_id} {call_id}", f"ended {count} times"
        if any(event["type"] == "run.completed" for event in log):
            made = {call_id_of(event) for event in log if event["type"] == "tool_call.created"}
            for call_id in made - {call_id_of(event) for event in ended}:
                yield f"{run_id} {call_id}", "has no result although its run completed"


def the_call_log_agrees_with_the_events(evidence: Evidence) -> Found:
    """G6: the row of a settled call has the outcome of its last event. A run that continues another
    one begins with the calls of that one, without events."""
    last = {
        (run_id, call_id_of(event)): event["type"].removeprefix("tool_call.")
        for run_id, log in evidence.logs.items()
        for event in log
        if event["type"] in CLOSING
    }
    for key, row in evidence.calls.items():
        outcome = part_of(row, "result").get("outcome")
        taken_over = (
            evidence.run_rows.get(key[0], {}).get("continued_from") if key not in last else None
        )
        if row["phase"] == "settled" and taken_over is None and last.get(key) != outcome:
            yield " ".join(key), f"its row says {outcome}, its last event {last.get(key)}"


def a_callback_that_was_accepted_counts(evidence: Evidence) -> Found:
    """A result that was called back and answered with 200 is the call's result."""
    calls = {row["call_id"]: row for row in evidence.rows("tool_calls")}
    for sent in evidence.callbacks:
        key = (sent.run_id or "", sent.call_id)
        row = evidence.calls.get(key) or calls.get(sent.call_id)
        if sent.status != 200 or "progress" in sent.url_kind or row is None:
            continue
        outcome = part_of(row, "result").get("outcome")
        if row["received"] is None and outcome not in ANSWERED:
            yield f"{row['run_id']} {sent.call_id}", f"called back with 200, its row says {outcome}"


def results_stand_in_call_order(evidence: Evidence) -> Found:
    """The results of one turn stand in the order of its calls."""
    for row in evidence.rows("session_items"):
        yield from _out_of_order(row["run_id"], row["items"])
    places: dict[tuple[str, int], list[int]] = defaultdict(list)
    for row in evidence.rows("tool_calls"):
        places[row["run_id"], row["turn"]].append(row["position"])
    for (run_id, turn), numbers in places.items():
        if len(set(numbers)) != len(numbers):
            yield run_id, f"the calls of turn {turn} have the positions {sorted(numbers)}"


def _out_of_order(run_id: str, items: list[Json]) -> Found:
    asked: list[str] = []
    given: list[str] = []
    for item in [*items, {"type": "tool_call", "call_id": ""}]:
        if item.get("type") == "tool_result":
            given.append(item["call_id"])
        elif item.get("type") == "tool_call":
            if given and given != [call_id for call_id in asked if call_id in given]:
                yield run_id, f"called {asked}, the results are {given}"
            asked, given = ([], []) if given else (asked, given)
            asked.append(item["call_id"])
