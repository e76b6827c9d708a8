"""Sessions of the console

This migration only expands the schema, so that the previous version still runs on it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "console_sessions",
        sa.Column("project_id", sa.Uuid(), nullable=False),
        sa.Column("token_hmac", sa.LargeBinary(), nullable=False),
        sa.Column("key_id", sa.Uuid(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["project_id", "key_id"],
            ["api_keys.project_id", "api_keys.id"],
            name=op.f("console_sessions_api_keys_fk"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("project_id", "token_hmac", name=op.f("console_sessions_pk")),
    )
    op.create_index("console_sessions_token", "console_sessions", ["token_hmac"], unique=True)
