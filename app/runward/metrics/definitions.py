"""The counters and histograms of a process, which `/metrics` shows.

They are module-level, unlike all other state, because a process has only one `/metrics`. Steps of
leased runs are counted after their commit. Changes without a lease, such as cancellations, are
counted before it, so a change whose commit fails is counted too. Labels never contain IDs.
`runward.store.runs.backlog` reads the gauges about the whole deployment.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from runward.domain.events.kinds import ToolCallOutcomeUnknownEvent
from runward.domain.retention import DataClass, FixedClass
from runward.domain.run.notifications import DisabledReason
from runward.domain.run.response import ReportedUsage, Usage
from runward.domain.run.state import Changes
from runward.domain.run.status import TERMINAL, RunStatus
from runward.domain.schedules import SlotStatus
from runward.metrics.recorders import Counter, Histogram

NO_AGENT: Final = ""
"""The label `agent` of runs without a registered agent."""
_SHORT: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_REQUEST: Final = (
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
    120.0,
    300.0,
    600.0,
)
_RUN: Final = (0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0)

RUNS_ENDED: Final = Counter(
    "runward_runs_ended", "Runs that ended, by final status and agent.", ["status", "agent"]
)
RUN_SECONDS: Final = Histogram(
    "runward_run_duration_seconds",
    "Time from the creation of a run until a worker ended it.",
    _RUN,
    ["status"],
)
TURN_SECONDS: Final = Histogram(
    "runward_turn_duration_seconds",
    "Duration of a model response and its tool calls, without turns that wait for a person, a"
    " callback or a child run.",
    _REQUEST,
)
MODEL_SECONDS: Final = Histogram(
    "runward_model_request_duration_seconds",
    "Duration of model requests, including failed ones.",
    _REQUEST,
    ["provider"],
)
MODEL_ERRORS: Final = Counter(
    "runward_model_request_errors",
    "Failed model requests, by error code.",
    ["provider", "code"],
)
TOKENS: Final = Counter(
    "runward_tokens",
    "Tokens of model responses: input that was not cached, cached input, and output.",
    ["provider", "model", "type"],
)
COST: Final = Counter(
    "runward_cost_usd",
    "Cost of model responses in US dollars, as far as prices are known.",
    ["provider", "model"],
)
TOOL_SECONDS: Final = Histogram(
    "runward_tool_call_duration_seconds",
    "Duration of attempts of tool calls that Runward sends or executes, including failed ones.",
    _REQUEST,
    ["tool"],
)
TOOL_ERRORS: Final = Counter(
    "runward_tool_call_errors",
    "Failed attempts of tool calls, by the kind of failure.",
    ["tool", "reason"],
)
RETRIES: Final = Counter(
    "runward_retries",
    "Repeated model requests and tool calls.",
    ["kind"],
    initial=[("model",), ("tool",)],
)
UNKNOWN_OUTCOMES: Final = Counter(
    "runward_unknown_outcomes",
    "Tool calls that were sent and whose outcome is unknown.",
)
LEASE_EXPIRIES: Final = Counter(
    "runward_lease_expiries", "Leases that expired, because their worker was lost or too slow."
)
QUARANTINED_RUNS: Final = Counter(
    "runward_quarantined_runs",
    "Runs that Runward ended because they crash workers or cannot be read.",
    ["reason"],
    initial=[("crash_loop",), ("unreadable",)],
)
REMOVED_ROWS: Final = Counter(
    "runward_removed_rows",
    "Rows that retention deleted, and runs whose content it erased.",
    ["data_class"],
    initial=[(one,) for one in (*DataClass, *FixedClass)],
)
SCHEDULE_SLOTS: Final = Counter(
    "runward_schedule_slots",
    "Slots of schedules that workers processed, by their status.",
    ["status"],
    initial=[(status,) for status in SlotStatus],
)
WEBHOOK_SECONDS: Final = Histogram(
    "runward_webhook_attempt_duration_seconds",
    "Duration of the requests that deliver notifications, by their result.",
    _REQUEST,
    ["result"],
)
WEBHOOK_ENDPOINTS_DISABLED: Final = Counter(
    "runward_webhook_endpoints_disabled",
    "Webhook endpoints that Runward disabled, by the reason.",
    ["reason"],
    initial=[(reason,) for reason in DisabledReason],
)
BACKGROUND_FAILURES: Final = Counter(
    "runward_background_failures",
    "Background work of workers that failed and is retried, by its kind.",
    ["kind"],
)
COMMIT_SECONDS: Final = Histogram(
    "runward_commit_duration_seconds", "Duration of commits of steps of runs.", _SHORT
)
COMMITTED_STEPS: Final = Counter(
    "runward_committed_steps", "Steps of runs that were committed. Several can share a commit."
)
POOL_WAIT_SECONDS: Final = Histogram(
    "runward_database_pool_wait_seconds",
    "Time until the pool provides a database connection, including the time to connect.",
    _SHORT,
)
LOOP_LAG_SECONDS: Final = Histogram(
    "runward_event_loop_lag_seconds",
    "Delay of a timer of the event loop, measured once a second.",
    _SHORT,
)


def count_changes(changes: Changes, status: RunStatus | None, agent: str | None) -> None:
    """Count the changes of a run. `status`: its new status, if it changes."""
    for event in changes.events:
        if isinstance(event, ToolCallOutcomeUnknownEvent):
            UNKNOWN_OUTCOMES.count()
    if status is not None and status in TERMINAL:
        RUNS_ENDED.count(status, agent or NO_AGENT)


def count_usage(model: str, usage: Usage) -> None:
    """Count the tokens and the cost of a response of `provider:model`."""
    provider, _, name = model.partition(":")
    cached = min(usage.cached_input, usage.input)
    TOKENS.count(provider, name, "input", by=usage.input - cached)
    TOKENS.count(provider, name, "cached_input", by=cached)
    TOKENS.count(provider, name, "output", by=usage.output)
    COST.count(provider, name, by=usage.cost)


def count_reported_usage(
    reported: Iterable[ReportedUsage], find_cost: Callable[[str, Usage], float | None]
) -> None:
    """Count the usage that a tool reported. `find_cost`: the cost of a model's usage, or None if
    its price is unknown."""
    for one in reported:
        cost = one.usage.cost if one.priced else find_cost(one.model, one.usage) or 0.0
        count_usage(one.model, replace(one.usage, cost=cost))
