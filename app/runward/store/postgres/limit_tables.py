"""The table of the limits of projects. Only the package `store` knows its columns."""

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
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
    # The maximum number of running runs by the name of the agent.
    Column("agents", JSONB),
    Column("updated_at", TIMESTAMP, nullable=False, server_default=NOW),
    # The number of claims, so that a claim notices another one that was committed meanwhile.
    Column("claims", BigInteger, nullable=False, server_default=text("0")),
    # The requests in the current minute, and its beginning.
    Column("minute_at", TIMESTAMP, nullable=False, server_default=NOW),
    Column("requests", Integer, nullable=False, server_default=text("0")),
    PrimaryKeyConstraint("project_id"),
)
