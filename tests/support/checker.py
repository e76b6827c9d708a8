"""The independent judge: from a tool server's own log, the event logs and what clients saw, it
says which promises of the service were broken. It knows the public API's words and nothing else.

`broken(evidence)` answers one `Violation` for each breach; an empty list is the only pass. The
rules are the functions of `RULES`, each named like the promise it guards.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

from tests.support.hits import Hit

Event: TypeAlias = dict[str, Any]
CallKey: TypeAlias = tuple[str, str]  # run id, call id

CLOCK_TOLERANCE_SECONDS = 0.005  # event times may be rounded; hits are not

TERMINAL = {
    "run.completed": "completed",
    "run.failed": "failed",
    "run.cancelled": "cancelled",
    "run.incomplete": "incomplete",
    "run.expired": "expired",
}
CLOSING = {
    f"tool_call.{end}"
    for end in ("completed", "failed", "timed_out", "rejected", "outcome_unknown", "cancelled")
}
REOPENABLE = {"tool_call.outcome_unknown"}  # a person may settle it with a new attempt
NEVER_SENT = {"rejected", "expired", "withdrawn", "responded", "reject", "respond"}


@dataclass(frozen=True, slots=True)
class Reader:
    """What one reader got, in the order in which it got it; `name` says who it was."""

    run_id: str
    name: str
    events: list[Event]


@dataclass(frozen=True, slots=True)
class Evidence:
    """`runs`: the last GET of every run that was accepted; `logs`: its polled events; `statuses`:
    (request, HTTP status) of everything clients sent; `idempotent`: names of such tools;
    `retried_by_hand`: calls of unknown outcome that a person had sent once more."""

    runs: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    logs: dict[str, list[Event]] = field(default_factory=dict[str, list[Event]])
    hits: list[Hit] = field(default_factory=list[Hit])
    readers: list[Reader] = field(default_factory=list[Reader])
    statuses: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    idempotent: frozenset[str] = frozenset()
    retried_by_hand: frozenset[CallKey] = frozenset()
    outage: bool = False
    may_be_unfinished: bool = False

    def of_call(self, hit: Hit) -> list[Event]:
        return [
            event
            for event in self.logs.get(hit.run_id, [])
            if event["data"].get("call_id") == hit.call_id
        ]

    def hits_by_call(self) -> dict[CallKey, list[Hit]]:
        found: dict[CallKey, list[Hit]] = defaultdict(list)
        for hit in self.hits:
            found[hit.run_id, hit.call_id].append(hit)
        return found


@dataclass(frozen=True, slots=True)
class Violation:
    rule: str
    where: str
    what: str


Found: TypeAlias = Iterator[tuple[str, str]]  # where, what
Rule: TypeAlias = Callable[[Evidence], Found]


def every_run_ends_once(evidence: Evidence) -> Found:
    for run_id, run in evidence.runs.items():
        types = [event["type"] for event in evidence.logs.get(run_id, [])]
        ends = [TERMINAL[kind] for kind in types if kind in TERMINAL]
        if not ends:
            if run["status"] in TERMINAL.values() or not evidence.may_be_unfinished:
                yield run_id, f"is {run['status']} without a terminal event"
        elif len(ends) > 1 or types[-1] not in TERMINAL:
            yield run_id, f"terminal events {ends}, last is {types[-1]}"
        elif ends[0] != run["status"]:
            yield run_id, f"GET says {run['status']}, its events say {ends[0]}"


def events_have_no_gap(evidence: Evidence) -> Found:
    for run_id, log in evidence.logs.items():
        numbers = [event["sequence"] for event in log]
        if numbers != list(range(1, len(log) + 1)):
            yield run_id, f"sequence numbers {numbers}"
    for run_id in evidence.runs.keys() - evidence.logs.keys():
        yield run_id, "no events at all"


def readers_agree(evidence: Evidence) -> Found:
    for reader in evidence.readers:
        where, log = f"{reader.run_id} ({reader.name})", evidence.logs[reader.run_id]
        numbers = [event["sequence"] for event in reader.events]
        if numbers and numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            yield where, f"saw {numbers}"
        for event in reader.events:
            if event not in log[event["sequence"] - 1 : event["sequence"]]:
                yield where, f"event {event['sequence']} differs from the polled one: {event}"


def a_call_is_started_before_it_is_sent(evidence: Evidence) -> Found:
    for hit in evidence.hits:
        started = _started(evidence, hit)
        if started is None:
            yield _name(hit), f"attempt {hit.attempt} was sent, no started event says so"
        elif _time(started) > hit.at + CLOCK_TOLERANCE_SECONDS or hit.started_seen is False:
            yield _name(hit), f"attempt {hit.attempt} was sent before its started event was there"


def a_call_is_sent_as_it_was_started(evidence: Evidence) -> Found:
    """The arguments of the hit are those that the events and a person's edit fixed."""
    for hit in evidence.hits:
        arguments = None
        digests: set[str] = set()
        for event in evidence.of_call(hit):
            arguments = event["data"].get("arguments", arguments)
            if event["type"] in ("tool_call.approval_decided", "tool_call.started"):
                digests |= {event["data"]["digest"]} if event["data"].get("digest") else set()
        if isinstance(arguments, dict) and arguments != hit.arguments:
            yield _name(hit), f"sent {hit.arguments}, decided on {arguments}"
        if len(digests) > 1:
            yield _name(hit), f"decided and started under different digests: {sorted(digests)}"


def nothing_is_sent_after_its_end(evidence: Evidence) -> Found:
    for hit in evidence.hits:
        started = _started(evidence, hit)
        for event in evidence.of_call(hit) if started is not None else []:
            if event["type"] not in CLOSING or started is None:
                continue
            if event["sequence"] > started["sequence"]:
                if _time(event) + CLOCK_TOLERANCE_SECONDS < hit.at:
                    yield _name(hit), f"attempt {hit.attempt} arrived after {event['type']}"
            elif event["type"] not in REOPENABLE:
                yield _name(hit), f"attempt {hit.attempt} was started after {event['type']}"


def a_refused_call_is_never_sent(evidence: Evidence) -> Found:
    for hit in evidence.hits:
        for event in evidence.of_call(hit):
            data = event["data"]
            decided = {data.get("decision"), data.get("status")} & NEVER_SENT
            if event["type"] == "tool_call.rejected" or (
                event["type"] == "tool_call.approval_decided" and decided
            ):
                yield _name(hit), f"was sent although {event['type']} {decided or ''}"


def a_call_has_one_id(evidence: Evidence) -> Found:
    owners: dict[str, set[CallKey]] = defaultdict(set)
    for (run_id, call_id), hits in evidence.hits_by_call().items():
        ids = {hit.webhook_id for hit in hits} | {
            hit.headers.get("idempotency-key") for hit in hits
        }
        if len(ids) != 1 or not all(ids):
            yield f"{run_id} {call_id}", f"was sent under the ids {ids}"
        for hit in hits:
            owners[hit.webhook_id].add((run_id, call_id))
    for webhook_id, calls in owners.items():
        if len(calls) > 1:
            yield webhook_id, f"is the id of {sorted(calls)}"


def a_plain_call_is_sent_at_most_once(evidence: Evidence) -> Found:
    for (run_id, call_id), hits in evidence.hits_by_call().items():
        allowed = 1 + ((run_id, call_id) in evidence.retried_by_hand)
        allowed += sum(_is_an_answer(event) for event in evidence.of_call(hits[0]))
        if len(hits) > allowed and hits[0].tool not in evidence.idempotent:
            yield f"{run_id} {call_id}", f"{hits[0].tool} is not idempotent, {len(hits)} hits"


def attempts_and_fences_rise(evidence: Evidence) -> Found:
    for (run_id, call_id), hits in evidence.hits_by_call().items():
        attempts, fences = [hit.attempt for hit in hits], [hit.fence for hit in hits]
        if attempts != sorted(set(attempts)) or fences != sorted(fences):
            yield f"{run_id} {call_id}", f"attempts {attempts}, fences {fences}"


def every_hit_is_signed(evidence: Evidence) -> Found:
    for hit in evidence.hits:
        if hit.verified is False:
            yield _name(hit), "has no valid signature"


def calls_complete_once(evidence: Evidence) -> Found:
    for run_id, log in evidence.logs.items():
        ended = [event for event in log if event["type"] in CLOSING]
        done = Counter(_call_id(event) for event in ended if event["type"] not in REOPENABLE)
        for call_id, count in done.items():
            if count > 1:
                yield f"{run_id} {call_id}", f"ended {count} times"
        if any(event["type"] == "run.completed" for event in log):
            made = {_call_id(event) for event in log if event["type"] == "tool_call.created"}
            for call_id in made - {_call_id(event) for event in ended}:
                yield f"{run_id} {call_id}", "has no result although its run completed"


def an_approval_is_decided_once(evidence: Evidence) -> Found:
    """A decision that was remembered decides calls that have no approval of their own."""
    for run_id, log in evidence.logs.items():
        decided = Counter(
            str(event["data"]["approval_id"])
            for event in log
            if event["type"] == "tool_call.approval_decided" and "approval_id" in event["data"]
        )
        for approval_id, count in decided.items():
            if count > 1:
                yield f"{run_id} {approval_id}", f"was decided {count} times"


def nothing_is_a_server_error(evidence: Evidence) -> Found:
    for request, status in evidence.statuses:
        if status >= 500 and not (status == 503 and evidence.outage):
            yield request, f"answered {status}"


RULES: tuple[Rule, ...] = (
    every_run_ends_once,
    events_have_no_gap,
    readers_agree,
    a_call_is_started_before_it_is_sent,
    a_call_is_sent_as_it_was_started,
    nothing_is_sent_after_its_end,
    a_refused_call_is_never_sent,
    a_call_has_one_id,
    a_plain_call_is_sent_at_most_once,
    attempts_and_fences_rise,
    every_hit_is_signed,
    calls_complete_once,
    an_approval_is_decided_once,
    nothing_is_a_server_error,
)


def broken(evidence: Evidence, rules: Iterable[Rule] = RULES) -> list[Violation]:
    return [
        Violation(rule.__name__, where, what) for rule in rules for where, what in rule(evidence)
    ]


def _is_an_answer(event: Event) -> bool:
    """The tool asked for input, and is sent the call again with it."""
    return event["type"] == "tool_call.progress" and event["data"]["status"] == "input_given"


def _call_id(event: Event) -> str:
    return str(event["data"].get("call_id"))


def _name(hit: Hit) -> str:
    return f"{hit.run_id} {hit.call_id}"


def _started(evidence: Evidence, hit: Hit) -> Event | None:
    for event in evidence.of_call(hit):
        if event["type"] == "tool_call.started" and event["data"].get("attempt") == hit.attempt:
            return event
    return None


def _time(event: Event) -> float:
    at = event["created_at"]
    return datetime.fromisoformat(at).timestamp() if isinstance(at, str) else float(at)
