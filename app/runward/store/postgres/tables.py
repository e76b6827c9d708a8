"""The tables of runs. Only the package `store` and migrations/ know their columns.

In every table of a tenant, `project_id` is the first column of the primary key. JSON that is only
stored and returned has the type `json`, which keeps the exact text. `jsonb` is for JSON that is
searched. The events, items and calls of a run have no foreign key: only statements that have locked
the run's row insert them, and a trigger deletes them together with the run. The triggers are in
migrations/versions/: 0001_spine.py for final statuses, 0024_run_foreign_keys.py for deleted runs.
"""

from typing import Final

from sqlalchemy import (
    ARRAY,
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from runward.domain.events.values import ApprovalStatus
from runward.domain.run.state import ACTION_PHASES, CallPhase, SegmentKind
from runward.domain.run.status import OPEN, TERMINAL, RunStatus
from runward.store.postgres.audit_tables import audit_chains, audit_entries
from runward.store.postgres.budget_tables import budgets
from runward.store.postgres.columns import (
    NOW,
    TIMESTAMP,
    TRANSACTION_ID,
    enum_check,
    list_values,
    metadata,
    partial_index,
    project_column,
    run_foreign_key,
)
from runward.store.postgres.limit_tables import key_limits, project_limits
from runward.store.postgres.registry_tables import (
    agent_versions,
    agents,
    api_keys,
    console_sessions,
    deployment,
    idempotency_keys,
    mcp_servers,
    project_policies,
    projects,
    secrets,
    tool_versions,
    tools,
    workers,
)
from runward.store.postgres.retention_tables import erasures, legal_holds, retention_cursors
from runward.store.postgres.schedule_tables import INDEXES_OF_RUNS, schedule_slots, schedules
from runward.store.postgres.session_tables import session_items, sessions
from runward.store.postgres.webhook_tables import webhook_deliveries, webhook_endpoints

__all__ = [
    "OPEN_STATUSES",
    "agent_versions",
    "agents",
    "api_keys",
    "approvals",
    "audit_chains",
    "audit_entries",
    "budgets",
    "console_sessions",
    "deployment",
    "erasures",
    "idempotency_keys",
    "key_limits",
    "late_callbacks",
    "legal_holds",
    "mcp_servers",
    "metadata",
    "project_limits",
    "project_policies",
    "projects",
    "remembered_decisions",
    "retention_cursors",
    "run_events",
    "run_items",
    "runs",
    "schedule_slots",
    "schedules",
    "secrets",
    "session_items",
    "sessions",
    "tool_calls",
    "tool_versions",
    "tools",
    "webhook_deliveries",
    "webhook_endpoints",
    "workers",
]

OPEN_STATUSES: Final = list_values(OPEN)
"""Statuses of runs that have not ended, for `status IN (…)`."""

runs = Table(
    "runs",
    metadata,
    Column("project_id", Uuid, ForeignKey("projects.id"), nullable=False),
    Column("id", Uuid, nullable=False),
    Column("status", Text, nullable=False),
    Column("agent", Text),
    Column("config", JSON, nullable=False),
    Column("tool_versions", JSON, nullable=False, server_default=text("'{}'")),
    Column("context", JSON),
    Column("metadata", JSONB, nullable=False, server_default=text("'{}'")),
    Column("created_by", Uuid),
    # The agent that started the run, the current agent, and all agents that it can be handed to.
    Column("agent_version", Integer),
    Column("active_agent", Text),
    Column("team", JSON, nullable=False, server_default=text("'{}'")),
    Column("tool_names", ARRAY(Text)),
    Column("continued_from", Uuid),
    # There is no foreign key, because its check would lock the schedule's row.
    Column("schedule_id", Uuid),
    # For a child run: the tool call of its parent, and the runs and agents above it, topmost first.
    Column("parent_run_id", Uuid),
    Column("parent_call_id", Text),
    Column("ancestors", ARRAY(Uuid), nullable=False, server_default=text("'{}'")),
    Column("path", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    Column("escalated", Boolean, nullable=False, server_default=text("false")),
    # The run's session and its place in it. A run without a session has its own state.
    Column("session_id", Uuid),
    Column("session_seq", BigInteger),
    Column("shared", JSON),
    # The lease.
    Column("fence", BigInteger, nullable=False, server_default=text("0")),
    Column("lease_expires_at", TIMESTAMP),
    Column("claims", SmallInteger, nullable=False, server_default=text("0")),
    Column("lost_leases", SmallInteger, nullable=False, server_default=text("0")),
    Column("available_at", TIMESTAMP, nullable=False, server_default=NOW),
    # The client's wishes about the start: runs with a higher priority are claimed first.
    Column("priority", SmallInteger, nullable=False, server_default=text("0")),
    Column("start_at", TIMESTAMP),
    # The groups of runs with the same values of concurrency keys, see `domain.limits`.
    Column("concurrency_groups", ARRAY(Text)),
    # Changes by anyone other than the worker, and the event log.
    Column("version", BigInteger, nullable=False, server_default=text("0")),
    Column("last_seq", Integer, nullable=False, server_default=text("0")),
    Column("last_write_id", Uuid),
    Column("cancel_requested_at", TIMESTAMP),
    # Counters.
    Column("turn", Integer, nullable=False, server_default=text("0")),
    Column("input_tokens", BigInteger, nullable=False, server_default=text("0")),
    Column("output_tokens", BigInteger, nullable=False, server_default=text("0")),
    Column("cached_tokens", BigInteger, nullable=False, server_default=text("0")),
    Column("reasoning_tokens", BigInteger, nullable=False, server_default=text("0")),
    Column("cost_usd", Double, nullable=False, server_default=text("0")),
    # The end of the run.
    Column("output", JSON),
    Column("output_parsed", JSON),
    Column("error", JSON),
    Column("incomplete_details", JSON),
    Column("deadline_at", TIMESTAMP),
    Column("created_at", TIMESTAMP, nullable=False, server_default=NOW),
    Column("started_at", TIMESTAMP),
    Column("ended_at", TIMESTAMP),
    # Whether the content is erased after the end, and when it was erased.
    Column("erase_at_end", Boolean, nullable=False, server_default=text("false")),
    Column("erased_at", TIMESTAMP),
    PrimaryKeyConstraint("project_id", "id"),
    enum_check("status", RunStatus),
    CheckConstraint(
        "(status = 'in_progress') = (lease_expires_at IS NOT NULL)", name="leased_iff_in_progress"
    ),
    CheckConstraint(
        f"(status IN ({list_values(TERMINAL)})) = (ended_at IS NOT NULL)",
        name="ended_iff_terminal",
    ),
    partial_index("runs_queued", "available_at", where="status = 'queued'"),
    partial_index(
        "runs_project_queue",
        "project_id",
        "priority",
        "available_at",
        where="status = 'queued' AND available_at < 'infinity'",
    ),
    partial_index("runs_running", "project_id", "id", where="status = 'in_progress'"),
    partial_index(
        "runs_deadline",
        "deadline_at",
        where="deadline_at IS NOT NULL AND status IN ('queued', 'requires_action')",
    ),
    partial_index("runs_parent", "project_id", "parent_run_id", where="parent_run_id IS NOT NULL"),
    partial_index(
        "runs_open_children",
        "project_id",
        "parent_run_id",
        where=f"parent_run_id IS NOT NULL AND status IN ({OPEN_STATUSES})",
    ),
    Index(
        "runs_ancestors",
        "ancestors",
        postgresql_using="gin",
        postgresql_where=text("parent_run_id IS NOT NULL"),
    ),
    partial_index(
        "runs_session", "project_id", "session_id", "session_seq", where="session_seq IS NOT NULL"
    ),
    partial_index("runs_status", "project_id", "status", "id", where="parent_run_id IS NULL"),
    partial_index("runs_agent", "project_id", "agent", "id", where="parent_run_id IS NULL"),
    partial_index(
        "runs_parked",
        "project_id",
        "id",
        where="status = 'queued' AND available_at = 'infinity' AND started_at IS NOT NULL",
    ),
    *INDEXES_OF_RUNS,
    partial_index("runs_erasure", "ended_at", where="erase_at_end AND erased_at IS NULL"),
    partial_index(
        "runs_ended",
        "project_id",
        "ended_at",
        "id",
        where="parent_run_id IS NULL AND ended_at IS NOT NULL",
    ),
    # A step changes no indexed column, so the new row version stays on the same page if there is
    # space (HOT).
    postgresql_with={"fillfactor": 60},
)

run_events = Table(
    "run_events",
    metadata,
    project_column(),
    Column("run_id", Uuid, nullable=False),
    Column("seq", Integer, nullable=False),
    Column("type", Text, nullable=False),
    Column("data", JSON, nullable=False),
    Column("created_at", TIMESTAMP, nullable=False),
    # The place in the log of the project, see `runward.store.live.project_log`.
    Column("transaction_id", BigInteger, server_default=TRANSACTION_ID),
    PrimaryKeyConstraint("project_id", "run_id", "seq"),
    CheckConstraint("seq > 0", name="seq_from_one"),
    Index("run_events_log", "project_id", "transaction_id"),
)

run_items = Table(
    "run_items",
    metadata,
    project_column(),
    Column("run_id", Uuid, nullable=False),
    Column("seq", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("turn", Integer, nullable=False),
    Column("agent", Text),
    Column("items", JSON, nullable=False),
    # For a response: the number of segments that the model had read.
    Column("seen", Integer),
    PrimaryKeyConstraint("project_id", "run_id", "seq"),
    enum_check("kind", SegmentKind),
)

tool_calls = Table(
    "tool_calls",
    metadata,
    project_column(),
    Column("run_id", Uuid, nullable=False),
    Column("call_id", Text, nullable=False),
    Column("id", Uuid, nullable=False),
    Column("turn", Integer, nullable=False),
    Column("position", Integer, nullable=False),
    Column("tool", Text, nullable=False),
    Column("tool_version", Integer),
    Column("arguments", JSON, nullable=False),
    Column("digest", Text, nullable=False),
    Column("phase", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("approval_id", Uuid),
    Column("approved_digest", Text),
    Column("original_arguments", JSON),
    Column("raw_arguments", Text),
    Column("timeout_seconds", Double),
    Column("result", JSON),
    # The child run that executes the call; a result that guardrails may still have to check; the
    # tool's last input request.
    Column("child_run_id", Uuid),
    Column("received", JSON),
    Column("exchange", JSON),
    Column("created_at", TIMESTAMP, nullable=False),
    Column("started_at", TIMESTAMP),
    Column("deadline_at", TIMESTAMP),
    Column("ended_at", TIMESTAMP),
    PrimaryKeyConstraint("project_id", "run_id", "call_id"),
    enum_check("phase", CallPhase),
    CheckConstraint("(phase = 'settled') = (result IS NOT NULL)", name="result_iff_settled"),
    CheckConstraint("phase <> 'started' OR attempt > 0", name="attempt_counted"),
    Index("tool_calls_tool", "project_id", "tool", "id"),
    partial_index(
        "tool_calls_inbox",
        "project_id",
        "id",
        where=f"phase IN ({list_values(ACTION_PHASES)})",
    ),
    partial_index(
        "tool_calls_callback_deadline", "deadline_at", where="phase = 'awaiting_callback'"
    ),
    partial_index("tool_calls_result_deadline", "deadline_at", where="phase = 'awaiting_result'"),
    postgresql_with={"fillfactor": 80},
)

approvals = Table(
    "approvals",
    metadata,
    project_column(),
    Column("id", Uuid, nullable=False),
    Column("run_id", Uuid, nullable=False),
    Column("call_id", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("tool_version", Integer, nullable=False),
    Column("agent", Text),
    Column("url", Text),
    Column("arguments", JSON, nullable=False),
    Column("digest", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("allowed_decisions", ARRAY(Text), nullable=False),
    Column("requested_at", TIMESTAMP, nullable=False),
    Column("expires_at", TIMESTAMP, nullable=False),
    Column("decided_at", TIMESTAMP),
    Column("decided_by", Text),
    Column("decision", JSON),
    PrimaryKeyConstraint("project_id", "id"),
    run_foreign_key(),
    enum_check("status", ApprovalStatus),
    CheckConstraint("(status = 'pending') = (decided_at IS NULL)", name="decided_iff_not_pending"),
    Index("approvals_run", "project_id", "run_id"),
    Index("approvals_status", "project_id", "status", "id"),
    Index("approvals_tool", "project_id", "tool", "id"),
    partial_index("approvals_expiry", "expires_at", where="status = 'pending'"),
)

remembered_decisions = Table(
    "remembered_decisions",
    metadata,
    project_column(),
    Column("id", Uuid, nullable=False),
    Column("run_id", Uuid, nullable=False),
    # Set if the decision also covers later runs of the session.
    Column("session_id", Uuid),
    Column("decision", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("tool_version", Integer, nullable=False),
    Column("agent", Text),
    Column("arguments_digest", Text),
    Column("message", Text),
    Column("created_at", TIMESTAMP, nullable=False, server_default=NOW),
    Column("expires_at", TIMESTAMP),
    PrimaryKeyConstraint("project_id", "id"),
    run_foreign_key(),
    Index("remembered_decisions_run", "project_id", "run_id"),
    partial_index(
        "remembered_decisions_session", "project_id", "session_id", where="session_id IS NOT NULL"
    ),
)

late_callbacks = Table(
    "late_callbacks",
    metadata,
    project_column(),
    Column("id", Uuid, nullable=False),
    Column("run_id", Uuid, nullable=False),
    Column("call_id", Text, nullable=False),
    Column("body", JSON, nullable=False),
    Column("received_at", TIMESTAMP, nullable=False, server_default=NOW),
    PrimaryKeyConstraint("project_id", "id"),
    run_foreign_key(),
    Index("late_callbacks_run", "project_id", "run_id"),
)
