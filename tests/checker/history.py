"""The evidence of a test or of a chaos folder, in memory.

A test fills the fields that it has. A rule finds nothing if its evidence is missing.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, TypeAlias

from tests.checker.evidence import (
    NETWORK,
    CallbackSent,
    Exchange,
    Fault,
    Level,
    ModelRequest,
    Plan,
    ProcessEvent,
    Settings,
    Stall,
    as_object,
)
from tests.support.tools.hits import Hit

Json: TypeAlias = dict[str, Any]
Event: TypeAlias = Json
CallKey: TypeAlias = tuple[str, str]  # run id, call id

CLOCK_TOLERANCE_SECONDS = 0.005  # event times may be rounded; hits are not

TERMINAL = {
    "run.completed": "completed",
    "run.failed": "failed",
    "run.cancelled": "cancelled",
    "run.incomplete": "incomplete",
    "run.expired": "expired",
}
ENDED = frozenset(TERMINAL.values())
CLOSING = {
    f"tool_call.{end}"
    for end in ("completed", "failed", "timed_out", "rejected", "outcome_unknown", "cancelled")
}
REOPENABLE = {"tool_call.outcome_unknown"}  # a person may settle it with a new attempt


@dataclass(frozen=True, slots=True)
class Reader:
    """The events that one reader received, in order. `after`: the sequence number behind which it
    began, `None` where that is not known. `wrong`: what is wrong with the frames themselves."""

    run_id: str
    name: str
    events: list[Event]
    after: int | None = None
    wrong: str | None = None


@dataclass(frozen=True)
class Evidence:
    """`runs`: the last GET of every run that was accepted; `logs`: its events, as polled;
    `statuses`: (request, HTTP status) of everything that clients sent; `idempotent`: names of such
    tools, and of those that are retried by their own `retry.on`; `retried_by_hand`: calls of
    unknown outcome that a person retried.

    The rest comes from a chaos folder. `tables`: rows by table, with ids as the API shows them.
    `plan_of`: the plan of each run. `lag_seconds`: how late a server of the load may log a request.
    `outage`: the database was away at any time."""

    runs: dict[str, Json] = field(default_factory=dict[str, Json])
    logs: dict[str, list[Event]] = field(default_factory=dict[str, list[Event]])
    hits: list[Hit] = field(default_factory=list[Hit])
    readers: Iterable[Reader] = field(default_factory=list[Reader])
    statuses: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    idempotent: frozenset[str] = frozenset()
    retried_by_hand: frozenset[CallKey] = frozenset()
    outage: bool = False
    may_be_unfinished: bool = False

    settings: Settings | None = None
    faults: list[Fault] = field(default_factory=list[Fault])
    processes: list[ProcessEvent] = field(default_factory=list[ProcessEvent])
    stalls: list[Stall] = field(default_factory=list[Stall])
    levels: list[Level] = field(default_factory=list[Level])
    plans: dict[str, Plan] = field(default_factory=dict[str, Plan])
    plan_of: dict[str, str] = field(default_factory=dict[str, str])
    exchanges: list[Exchange] = field(default_factory=list[Exchange])
    seen_ids: dict[str, str] = field(default_factory=dict[str, str])
    models: list[ModelRequest] = field(default_factory=list[ModelRequest])
    callbacks: list[CallbackSent] = field(default_factory=list[CallbackSent])
    tables: dict[str, list[Json]] = field(default_factory=dict[str, list[Json]])
    lag_seconds: float = CLOCK_TOLERANCE_SECONDS

    @cached_property
    def _by_call(self) -> dict[CallKey, list[Event]]:
        found: dict[CallKey, list[Event]] = defaultdict(list)
        for run_id, log in self.logs.items():
            for event in log:
                if "call_id" in event["data"]:
                    found[run_id, event["data"]["call_id"]].append(event)
        return found

    @cached_property
    def hits_by_call(self) -> dict[CallKey, list[Hit]]:
        found: dict[CallKey, list[Hit]] = defaultdict(list)
        for hit in self.hits:
            found[hit.run_id, hit.call_id].append(hit)
        return found

    @cached_property
    def run_rows(self) -> dict[str, Json]:
        return {row["id"]: row for row in self.rows("runs")}

    @cached_property
    def erased(self) -> set[str]:
        """The runs whose content was erased."""
        rows = [*self.runs.items(), *self.run_rows.items()]
        return {run_id for run_id, row in rows if row.get("erased_at")}

    @cached_property
    def calls(self) -> dict[CallKey, Json]:
        """The rows of the tool-call log."""
        return {(row["run_id"], row["call_id"]): row for row in self.rows("tool_calls")}

    @property
    def has_tables(self) -> bool:
        return "runs" in self.tables

    def rows(self, table: str) -> list[Json]:
        return self.tables.get(table, [])

    def of_call(self, hit: Hit) -> list[Event]:
        return self._by_call.get((hit.run_id, hit.call_id), [])

    def started(self, hit: Hit) -> Event | None:
        """The event of the hit's attempt. A request over MCP does not carry its number: then the
        last one before the hit."""
        started = [event for event in self.of_call(hit) if event["type"] == "tool_call.started"]
        if hit.attempt:
            started = [event for event in started if event["data"].get("attempt") == hit.attempt]
        else:
            started = [event for event in started if time_of(event) <= hit.at] or started[:1]
        return started[-1] if started else None

    def was_frozen(self, since: float, at: float) -> bool:
        """Whether a process that was authorized at `since` may have been frozen until `at`."""
        return any(
            since <= _end(fault) and fault.at <= at <= _last_arrival(fault) + self.lag_seconds
            for fault in self.faults
            if fault.kind == "freeze"
        )


def _end(fault: Fault) -> float:
    return fault.at if fault.until is None else fault.until


def _last_arrival(fault: Fault) -> float:
    """When the last of the requests arrives that a frozen process has sent. If its network was cut,
    TCP sends them again at intervals that double: the last interval is as long as the cut."""
    end = _end(fault)
    return 2 * end - fault.at if fault.detail == NETWORK else end


@dataclass(frozen=True, slots=True)
class Violation:
    rule: str
    where: str
    what: str


Found: TypeAlias = Iterator[tuple[str, str]]  # where, what
Rule: TypeAlias = Callable[[Evidence], Found]


def call_id_of(event: Event) -> str:
    return str(event["data"].get("call_id"))


def name_of(hit: Hit) -> str:
    return f"{hit.run_id} {hit.call_id}"


def time_of(event: Event) -> float:
    return seconds(event["created_at"])


def seconds(at: Any) -> float:
    """A time of the API or of a row, as seconds. `infinity` is one."""
    if isinstance(at, str):
        return float("inf") if at == "infinity" else datetime.fromisoformat(at).timestamp()
    return float(at)


def part_of(row: Json, name: str) -> Json:
    """The object under a name. Empty for null or a missing one."""
    return as_object(row.get(name))
