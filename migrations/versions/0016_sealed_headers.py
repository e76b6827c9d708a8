"""Encrypt the header values of webhook tools and MCP servers

The schema does not change. A process of the previous version cannot read a tool whose header values
are encrypted. If any tool or MCP server has headers, stop such processes first.
"""

import json
from typing import Any

import sqlalchemy as sa
from alembic import context, op

from runward.domain.ids import ProjectId
from runward.domain.json import compact
from runward.domain.registry.mcp_auth import Credentials
from runward.domain.registry.tools import ToolSpec
from runward.store.access.vault import DataKey, Vault
from runward.store.readiness import check_canary
from runward.store.registry.mcp_credentials import SealedCredentials, seal_credentials
from runward.store.registry.tool_registry import SecretKeyNeededError, seal_headers

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

_TOOLS = sa.text(
    "SELECT project_id, name, version, CAST(spec AS text) AS spec FROM tool_versions"
    " WHERE EXISTS (SELECT FROM json_each(spec -> 'headers') AS h"
    "   WHERE json_typeof(h.value) = 'string')"
)
_SERVERS = sa.text(
    "SELECT project_id, name, secret_headers, CAST(spec -> 'headers' AS text) AS headers"
    " FROM mcp_servers WHERE spec -> 'headers' IS NOT NULL"
)


def upgrade() -> None:
    connection = op.get_bind()
    tools, servers = connection.execute(_TOOLS).all(), connection.execute(_SERVERS).all()
    if not tools and not servers:
        return
    vault = _vault(connection)
    for row in tools:
        fields = json.loads(row.spec)
        if kind := fields.pop("executes", None):  # The field had this name until revision 0020.
            fields["implements"] = kind
        spec = ToolSpec.model_validate(fields, strict=False)
        sealed = seal_headers(vault, row.project_id, spec).model_dump(
            mode="json", exclude_defaults=True
        )
        connection.execute(
            sa.text(
                "UPDATE tool_versions SET spec = CAST(:spec AS json)"
                " WHERE project_id = :project_id AND name = :name AND version = :version"
            ),
            {"spec": compact(sealed), **_key(row), "version": row.version},
        )
    for row in servers:
        project_id = ProjectId(row.project_id)
        former = SealedCredentials(row.secret_headers).open(vault, project_id, row.name)
        given = Credentials({**json.loads(row.headers), **former.headers})
        connection.execute(
            sa.text(
                "UPDATE mcp_servers SET secret_headers = :sealed,"
                " spec = CAST(CAST(spec AS jsonb) - 'headers' AS json)"
                " WHERE project_id = :project_id AND name = :name"
            ),
            {"sealed": seal_credentials(vault, project_id, row.name, given).headers, **_key(row)},
        )


def _key(row: Any) -> dict[str, Any]:
    return {"project_id": row.project_id, "name": row.name}


def _vault(connection: sa.Connection) -> Vault:
    secret_key = context.config.attributes.get("secret_key")
    if secret_key is None:
        raise SecretKeyNeededError
    vault = Vault(DataKey.from_secret_key(secret_key))
    canary = connection.execute(sa.text("SELECT canary FROM deployment")).scalar()
    if canary is not None:
        check_canary(vault, canary)
    return vault
