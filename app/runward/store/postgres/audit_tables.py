"""The tables of the audit log. Only the package `store` knows their columns."""

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    Uuid,
    text,
)

from runward.domain.audit import ActorType
from runward.store.postgres.columns import TIMESTAMP, enum_check, metadata, partial_index

audit_chains = Table(
    "audit_chains",
    metadata,
    Column("project_id", Uuid, ForeignKey("projects.id"), primary_key=True),
    # The last entry. Each writer locks this row until its transaction ends.
    Column("number", BigInteger, nullable=False),
    Column("hash", Text),
    # The last entry that retention has removed.
    Column("removed_number", BigInteger, nullable=False, server_default=text("0")),
    Column("removed_hash", Text),
)

audit_entries = Table(
    "audit_entries",
    metadata,
    Column("project_id", Uuid, ForeignKey("projects.id"), nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("id", Uuid, nullable=False),
    Column("created_at", TIMESTAMP, nullable=False),
    Column("action", Text, nullable=False),
    Column("actor_type", Text, nullable=False),
    Column("actor_id", Uuid),
    Column("actor_name", Text),
    Column("ip_address", Text),
    Column("request_id", Text),
    Column("resource_type", Text, nullable=False),
    Column("resource_id", Text, nullable=False),
    Column("resource_version", Integer),
    # The run whose erasure also erases the content of the entry.
    Column("run_id", Uuid),
    Column("before", JSON(none_as_null=True)),
    Column("after", JSON(none_as_null=True)),
    Column("salt", Text),
    Column("before_digest", Text),
    Column("after_digest", Text),
    Column("previous_hash", Text),
    Column("hash", Text, nullable=False),
    PrimaryKeyConstraint("project_id", "number"),
    enum_check("actor_type", ActorType),
    CheckConstraint("(previous_hash IS NULL) = (number = 1)", name="chained"),
    CheckConstraint(
        "salt IS NOT NULL OR (before IS NULL AND after IS NULL)", name="content_has_salt"
    ),
    Index("audit_entries_created", "project_id", "created_at", "number"),
    Index("audit_entries_action", "project_id", "action", "number"),
    Index("audit_entries_actor", "project_id", "actor_id", "number"),
    Index("audit_entries_resource", "project_id", "resource_type", "resource_id", "number"),
    partial_index("audit_entries_run", "project_id", "run_id", where="run_id IS NOT NULL"),
)
