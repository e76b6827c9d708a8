"""The tables of the deployment and of registered resources: workers, projects, their keys, the
console's sessions, idempotency keys, secrets, tools, agents, MCP servers and policies. Only the
package `store` knows their columns. `runward.store.postgres.tables` contains all other tables."""

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
from sqlalchemy.dialects.postgresql import JSONB

from runward.store.postgres.columns import NOW, TIMESTAMP, metadata, project_column

projects = Table(
    "projects",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("name", Text, nullable=False),
    # The number of days of each class of data that the project has chosen. Null: forever.
    Column("retention", JSONB, nullable=False, server_default=text("'{}'")),
    Column("created_at", TIMESTAMP, nullable=False, server_default=NOW),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("project_id", Uuid, ForeignKey("projects.id"), nullable=False),
    Column("id", Uuid, nullable=False),
    Column("name", Text, nullable=False),
    Column("secret_hmac", LargeBinary, nullable=False),
    Column("scopes", ARRAY(Text), nullable=False),
    Column("created_at", TIMESTAMP, nullable=False, server_default=NOW),
    Column("expires_at", TIMESTAMP),
    Column("revoked_at", TIMESTAMP),
    Column("last_used_at", TIMESTAMP),
    PrimaryKeyConstraint("project_id", "id"),
    # The only look-up before the project is known.
    Index("api_keys_secret", "secret_hmac", unique=True),
)

console_sessions = Table(
    "console_sessions",
    metadata,
    project_column(),
    Column("token_hmac", LargeBinary, nullable=False),
    Column("key_id", Uuid, nullable=False),
    Column("created_at", TIMESTAMP, nullable=False, server_default=NOW),
    Column("expires_at", TIMESTAMP, nullable=False),
    PrimaryKeyConstraint("project_id", "token_hmac"),
    ForeignKeyConstraint(
        ["project_id", "key_id"], ["api_keys.project_id", "api_keys.id"], ondelete="CASCADE"
    ),
    # As for keys, this look-up is needed before the project is known.
    Index("console_sessions_token", "token_hmac", unique=True),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    project_column(),
    Column("key", Text, nullable=False),
    Column("route", Text, nullable=False),
    Column("body_digest", Text, nullable=False),
    Column("resource_id", Uuid),
    Column("status", SmallInteger),
    Column("answer", LargeBinary),
    Column("created_at", TIMESTAMP, nullable=False, server_default=NOW),
    Column("expires_at", TIMESTAMP, nullable=False),
    PrimaryKeyConstraint("project_id", "key"),
    Index("idempotency_keys_expiry", "expires_at"),
    Index(
        "idempotency_keys_answers",
        "project_id",
        "route",
        postgresql_ops={"route": "text_pattern_ops"},
        postgresql_where=text("answer IS NOT NULL"),
    ),
)

secrets = Table(
    "secrets",
    metadata,
    Column("project_id", Uuid, ForeignKey("projects.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("value", LargeBinary, nullable=False),
    Column("version", Integer, nullable=False),
    Column("created_at", TIMESTAMP, nullable=False, server_default=NOW),
    Column("updated_at", TIMESTAMP, nullable=False, server_default=NOW),
    PrimaryKeyConstraint("project_id", "name"),
)

tools = Table(
    "tools",
    metadata,
    Column("project_id", Uuid, ForeignKey("projects.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("id", Uuid, nullable=False),
    Column("version", Integer, nullable=False),
    Column("secret", LargeBinary, nullable=False),
    Column("former_secret", LargeBinary),
    Column("former_secret_until", TIMESTAMP),
    # The project's changes to the settings of a plugin's tool.
    Column("overrides", JSON),
    Column("created_at", TIMESTAMP, nullable=False, server_default=NOW),
    Column("updated_at", TIMESTAMP, nullable=False, server_default=NOW),
    Column("deleted_at", TIMESTAMP),
    PrimaryKeyConstraint("project_id", "name"),
)

tool_versions = Table(
    "tool_versions",
    metadata,
    project_column(),
    Column("name", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("spec", JSON, nullable=False),
    Column("created_at", TIMESTAMP, nullable=False, server_default=NOW),
    PrimaryKeyConstraint("project_id", "name", "version"),
    ForeignKeyConstraint(["project_id", "name"], ["tools.project_id", "tools.name"]),
)

agents = Table(
    "agents",
    metadata,
    Column("project_id", Uuid, ForeignKey("projects.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("spec", JSON, nullable=False),
    Column("created_at", TIMESTAMP, nullable=False, server_default=NOW),
    Column("updated_at", TIMESTAMP, nullable=False, server_default=NOW),
    Column("deleted_at", TIMESTAMP),
    PrimaryKeyConstraint("project_id", "name"),
)

agent_versions = Table(
    "agent_versions",
    metadata,
    project_column(),
    Column("name", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("spec", JSON, nullable=False),
    Column("created_at", TIMESTAMP, nullable=False, server_default=NOW),
    PrimaryKeyConstraint("project_id", "name", "version"),
    ForeignKeyConstraint(["project_id", "name"], ["agents.project_id", "agents.name"]),
)

mcp_servers = Table(
    "mcp_servers",
    metadata,
    Column("project_id", Uuid, ForeignKey("projects.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("id", Uuid, nullable=False),
    Column("version", Integer, nullable=False),
    Column("spec", JSON, nullable=False),
    Column("secret_headers", LargeBinary),
    Column("oauth", LargeBinary),
    # The newest refresh token of a server that replaces it at each use, the number of replacements,
    # and the end of the claim under which one process may use it.
    Column("refresh_token", LargeBinary),
    Column("refreshes", Integer, nullable=False, server_default=text("0")),
    Column("refresh_claimed_until", TIMESTAMP),
    # The tools that the server listed last.
    Column("listed", JSON, nullable=False),
    Column("listed_at", TIMESTAMP, nullable=False, server_default=NOW),
    Column("created_at", TIMESTAMP, nullable=False, server_default=NOW),
    Column("updated_at", TIMESTAMP, nullable=False, server_default=NOW),
    PrimaryKeyConstraint("project_id", "name"),
)

project_policies = Table(
    "project_policies",
    metadata,
    Column("project_id", Uuid, ForeignKey("projects.id"), primary_key=True),
    Column("hooks", JSON, nullable=False, server_default=text("'[]'")),
    Column("guardrails", JSON, nullable=False, server_default=text("'[]'")),
    Column("secret_generation", Integer, nullable=False, server_default=text("1")),
    Column("rotated_at", TIMESTAMP),
    Column("version", Integer, nullable=False, server_default=text("0")),
    Column("updated_at", TIMESTAMP, nullable=False, server_default=NOW),
)

workers = Table(
    "workers",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("version", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("concurrency", Integer, nullable=False),
    Column("runs", Integer, nullable=False),
    Column("started_at", TIMESTAMP, nullable=False, server_default=NOW),
    Column("heartbeat_at", TIMESTAMP, nullable=False, server_default=NOW),
)

deployment = Table(
    "deployment",
    metadata,
    Column("id", Boolean, primary_key=True, server_default=text("true")),
    Column("canary", LargeBinary, nullable=False),
    Column("transaction_offset", BigInteger, nullable=False, server_default=text("0")),
    CheckConstraint("id", name="one_row"),
)
"""The table has one row. `canary` is encrypted with a data key, so that each process can check
its keys. `transaction_offset` is added to the numbers of transactions, see
`runward.store.live.project_log`."""

data_keys = Table(
    "data_keys",
    metadata,
    # Precedes the ciphertexts of the key.
    Column("id", LargeBinary, primary_key=True),
    # The key in base64 for each ID of a key that has wrapped it.
    Column("wrapped", JSONB, nullable=False),
    Column("created_at", TIMESTAMP, nullable=False, server_default=NOW),
    # When all values of this key had been encrypted with a newer key.
    Column("drained_at", TIMESTAMP),
)
