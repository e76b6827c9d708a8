"""The tables of the limits of projects and API keys. Only the package `store` knows their
columns."""

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from runward.store.postgres.columns import NOW, TIMESTAMP, metadata

project_limits = Table(
    "project_limits",
    metadata,
    Column("project_id", Uuid, ForeignKey("projects.id"), nullable=False),
    Column("running_runs", Integer),
    Column("queued_runs", Integer),
    Column("requests_per_minute", Integer),
    Column("event_streams", Integer),
    # The maximum number of running runs by the name of the agent.
    Column("agents", JSONB),
    # The maximum number of running runs that can call a tool, by its name.
    Column("tools", JSONB),
    # By the digest of its expression: the `key` (the expression) and `max` (running runs with the
    # same value).
    Column("concurrency_keys", JSONB),
    Column("updated_at", TIMESTAMP, nullable=False, server_default=NOW),
    # The number of claims, so that a claim notices another one that was committed meanwhile.
    Column("claims", BigInteger, nullable=False, server_default=text("0")),
    # The requests in the current minute, and its beginning.
    Column("minute_at", TIMESTAMP, nullable=False, server_default=NOW),
    Column("requests", Integer, nullable=False, server_default=text("0")),
    PrimaryKeyConstraint("project_id"),
)

key_limits = Table(
    "key_limits",
    metadata,
    Column("project_id", Uuid, nullable=False),
    Column("key_id", Uuid, nullable=False),
    Column("running_runs", Integer),
    Column("queued_runs", Integer),
    Column("requests_per_minute", Integer),
    Column("event_streams", Integer),
    # The requests in the current minute, and its beginning.
    Column("minute_at", TIMESTAMP, nullable=False, server_default=NOW),
    Column("requests", Integer, nullable=False, server_default=text("0")),
    PrimaryKeyConstraint("project_id", "key_id"),
    ForeignKeyConstraint(
        ["project_id", "key_id"], ["api_keys.project_id", "api_keys.id"], ondelete="CASCADE"
    ),
)
