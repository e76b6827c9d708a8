"""The tables of retention, legal holds and erasures. Only the package `store` knows their
columns."""

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from runward.domain.retention import HoldKind
from runward.store.postgres.columns import NOW, TIMESTAMP, enum_check, metadata, partial_index

retention_cursors = Table(
    "retention_cursors",
    metadata,
    Column("project_id", Uuid, ForeignKey("projects.id"), nullable=False),
    Column("data_class", Text, nullable=False),
    # The last run, in the order of their ends, whose data of this class was removed.
    Column("ended_at", TIMESTAMP, nullable=False),
    Column("run_id", Uuid, nullable=False),
    PrimaryKeyConstraint("project_id", "data_class"),
)

legal_holds = Table(
    "legal_holds",
    metadata,
    Column("project_id", Uuid, ForeignKey("projects.id"), nullable=False),
    # The run, the session or the project. A trigger rejects changes of runs that have ended, so the
    # hold has its own row.
    Column("subject_id", Uuid, nullable=False),
    Column("kind", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("created_by", Uuid, nullable=False),
    Column("created_at", TIMESTAMP, nullable=False, server_default=NOW),
    PrimaryKeyConstraint("project_id", "subject_id"),
    enum_check("kind", HoldKind),
)

erasures = Table(
    "erasures",
    metadata,
    Column("project_id", Uuid, ForeignKey("projects.id"), nullable=False),
    Column("id", Uuid, nullable=False),
    # Null after the end, because it is about a person.
    Column("metadata", JSONB),
    # The erasure reads all runs in the order of their IDs, and then all sessions.
    Column("in_sessions", Boolean, nullable=False, server_default=text("false")),
    Column("position", Uuid, nullable=False),
    Column("runs_erased", Integer, nullable=False, server_default=text("0")),
    Column("sessions_deleted", Integer, nullable=False, server_default=text("0")),
    Column("held", Integer, nullable=False, server_default=text("0")),
    Column("created_at", TIMESTAMP, nullable=False, server_default=NOW),
    Column("ended_at", TIMESTAMP),
    PrimaryKeyConstraint("project_id", "id"),
    CheckConstraint("(metadata IS NULL) = (ended_at IS NOT NULL)", name="metadata_iff_open"),
    partial_index("erasures_open", "project_id", "id", where="ended_at IS NULL"),
)
