"""The tables of sessions."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    PrimaryKeyConstraint,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from runward.domain.run.sessions import ConflictMode
from runward.store.postgres.columns import NOW, TIMESTAMP, enum_check, metadata, project_column

sessions = Table(
    "sessions",
    metadata,
    Column("project_id", Uuid, ForeignKey("projects.id"), nullable=False),
    Column("id", Uuid, nullable=False),
    Column("name", Text),
    Column("metadata", JSONB, nullable=False, server_default=text("'{}'")),
    Column("state", JSONB, nullable=False, server_default=text("'{}'")),
    Column("on_conflict", Text, nullable=False, server_default=text("'queue'")),
    Column("last_seq", BigInteger, nullable=False, server_default=text("0")),
    Column("forked_from", Uuid),
    Column("created_at", TIMESTAMP, nullable=False, server_default=NOW),
    Column("updated_at", TIMESTAMP, nullable=False, server_default=NOW),
    PrimaryKeyConstraint("project_id", "id"),
    enum_check("on_conflict", ConflictMode),
)

session_items = Table(
    "session_items",
    metadata,
    project_column(),
    Column("session_id", Uuid, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("run_id", Uuid, nullable=False),
    Column("items", JSON, nullable=False),
    Column("created_at", TIMESTAMP, nullable=False, server_default=NOW),
    PrimaryKeyConstraint("project_id", "session_id", "seq"),
    ForeignKeyConstraint(
        ["project_id", "session_id"], ["sessions.project_id", "sessions.id"], ondelete="CASCADE"
    ),
    Index("session_items_run", "project_id", "run_id"),
)
