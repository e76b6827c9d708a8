"""The tables of webhook endpoints and their deliveries. Only the package `store` knows their
columns."""

from sqlalchemy import (
    ARRAY,
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    Uuid,
    text,
)

from runward.domain.run.notifications import DeliveryStatus
from runward.store.postgres.columns import (
    NOW,
    TIMESTAMP,
    enum_check,
    metadata,
    partial_index,
    project_column,
)

webhook_endpoints = Table(
    "webhook_endpoints",
    metadata,
    Column("project_id", Uuid, ForeignKey("projects.id"), nullable=False),
    Column("id", Uuid, nullable=False),
    Column("url", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("events", ARRAY(Text), nullable=False),
    Column("include", ARRAY(Text), nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("disabled_reason", Text),
    # Earlier events cause no deliveries.
    Column("enabled_at", TIMESTAMP, nullable=False, server_default=NOW),
    # The first failed attempt since the last successful one.
    Column("failing_since", TIMESTAMP),
    Column("secret", LargeBinary, nullable=False),
    Column("former_secret", LargeBinary),
    Column("former_secret_until", TIMESTAMP),
    Column("created_at", TIMESTAMP, nullable=False, server_default=NOW),
    Column("updated_at", TIMESTAMP, nullable=False, server_default=NOW),
    PrimaryKeyConstraint("project_id", "id"),
    CheckConstraint("NOT enabled OR disabled_reason IS NULL", name="reason_iff_disabled"),
)

webhook_cursors = Table(
    "webhook_cursors",
    metadata,
    Column("project_id", Uuid, ForeignKey("projects.id"), primary_key=True),
    # All events of the project up to this transaction have their deliveries.
    Column("transaction_id", BigInteger, nullable=False),
)
"""The projects that have or had webhook endpoints or runs with a `webhook`. Rows are never
deleted, so that a process can remember that a project has one."""

webhook_deliveries = Table(
    "webhook_deliveries",
    metadata,
    project_column(),
    Column("id", Uuid, nullable=False),
    # Null for the `webhook` of a run, whose address and options are in this row.
    Column("endpoint_id", Uuid),
    Column("url", Text),
    Column("include", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    # Deliveries with the same target share a limit of concurrent requests.
    Column("target", Uuid, nullable=False),
    Column("message_id", Text, nullable=False),
    Column("type", Text, nullable=False),
    # The event, or the data of a notification that is about no run. There is no foreign key to
    # runs, because its lock would delay the steps of the run.
    Column("run_id", Uuid),
    Column("seq", Integer),
    Column("data", JSON),
    Column("status", Text, nullable=False, server_default=text("'pending'")),
    # Attempts since the delivery was created or redelivered, all claims, and what was answered.
    Column("attempt", SmallInteger, nullable=False, server_default=text("0")),
    Column("claims", Integer, nullable=False, server_default=text("0")),
    Column("attempts", JSON, nullable=False, server_default=text("'[]'")),
    Column("next_attempt_at", TIMESTAMP),
    Column("created_at", TIMESTAMP, nullable=False, server_default=NOW),
    Column("ended_at", TIMESTAMP),
    PrimaryKeyConstraint("project_id", "id"),
    ForeignKeyConstraint(
        ["project_id", "endpoint_id"],
        ["webhook_endpoints.project_id", "webhook_endpoints.id"],
        ondelete="CASCADE",
    ),
    enum_check("status", DeliveryStatus),
    CheckConstraint("(status = 'pending') = (ended_at IS NULL)", name="ended_iff_not_pending"),
    CheckConstraint("(status = 'pending') = (next_attempt_at IS NOT NULL)", name="due_iff_pending"),
    CheckConstraint("(endpoint_id IS NULL) = (url IS NOT NULL)", name="one_address"),
    # An event is enqueued at most once for each target.
    Index("webhook_deliveries_event", "project_id", "run_id", "seq", "target", unique=True),
    Index("webhook_deliveries_endpoint", "project_id", "endpoint_id", "id"),
    partial_index(
        "webhook_deliveries_due", "target", "next_attempt_at", where="status = 'pending'"
    ),
    partial_index(
        "webhook_deliveries_next_attempt",
        "next_attempt_at",
        where="status = 'pending' AND next_attempt_at < 'infinity'",
    ),
    Index("webhook_deliveries_created", "project_id", "created_at"),
    partial_index(
        "webhook_deliveries_unsuccessful",
        "project_id",
        "id",
        where="ended_at IS NULL OR status = 'failed'",
    ),
)
