"""Secrets at rest: a dump of the database shows none of them, also after a migration."""

import base64
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import NullPool, text
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from runward.domain.registry.mcp_auth import Credentials, OAuth
from runward.domain.registry.mcp_servers import McpServerSpec
from runward.domain.registry.tools import SecretReference, ToolSpec
from runward.store import migrations
from runward.store.access import keys
from runward.store.access.secrets import put_secret
from runward.store.access.vault import DataKey, Vault
from runward.store.registry import mcp_servers, tool_registry
from runward.store.registry.mcp_credentials import seal_credentials
from runward.store.registry.tool_registry import SecretKeyNeededError, open_headers
from tests.db.store import PROJECT, Store

CANARY = "c4nary-in-a-coal-mine"
REFERENCE = SecretReference(secret="token")
KEY = "k" * 32


def forms(canary: str) -> Iterator[str]:
    """As a dump would show it: as text, as bytes, or encoded at any offset."""
    yield canary
    yield canary.encode().hex()
    for padding in ("", "x", "xx"):
        encoded = base64.b64encode((padding + canary).encode()).decode()
        yield encoded[4:-4]


async def dump(connection: AsyncConnection) -> str:
    """Every row of every table, as text."""
    tables = await connection.scalars(
        text("SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = 'public'")
    )
    rows: list[str] = []
    for table in tables.all():
        rows += (await connection.scalars(text(f"SELECT CAST(t AS text) FROM {table} t"))).all()
    return "\n".join(rows)


def shows(dumped: str) -> list[str]:
    return [form for form in forms(CANARY) if form in dumped]


async def test_a_dump_of_the_database_shows_no_secret(store: Store) -> None:
    headers: dict[str, Any] = {"Authorization": f"Bearer {CANARY}", "X-Key": REFERENCE}
    spec = ToolSpec(name="pay", parameters={}, url="https://tools.example/x", headers=headers)
    login = Credentials(headers, OAuth(client_id="me", client_secret=CANARY, refresh_token=CANARY))
    server = McpServerSpec(name="box", url="https://tools.example/mcp")
    async with store.pool.begin() as tx:
        made = await tool_registry.add_tool(tx, store.vault, PROJECT, spec, CANARY)
        assert made is not None
        changed = made.spec.model_copy(update={"description": "Pays."})
        await tool_registry.update_tool(tx, store.vault, PROJECT, made, changed)
        await tool_registry.rotate_secret(tx, store.vault, PROJECT, "pay", f"{CANARY}-2")
        sealed = seal_credentials(store.vault, PROJECT, "box", login)
        await mcp_servers.add_server(tx, PROJECT, server, sealed, ())
        await put_secret(tx, store.vault, PROJECT, "token", CANARY)
        await keys.ensure_bootstrap_key(tx, store.vault, name="bootstrap", secret=CANARY * 2)
    async with store.pool.connect() as connection:
        dumped = await dump(connection)
        wanted = [("pay", 1), ("pay", 2)]
        versions = await tool_registry.read_versions(connection, store.vault, PROJECT, wanted)
    assert "tools.example" in dumped
    assert shows(dumped) == []
    assert [version.spec.headers for version in versions] == [headers, headers]


PLANT = (
    """INSERT INTO projects (id, name) VALUES (:project, 'p')""",
    """INSERT INTO tools (project_id, name, id, version, secret)
       VALUES (:project, 'pay', :project, 1, '')""",
    """INSERT INTO tool_versions (project_id, name, version, spec) VALUES (:project, 'pay', 1,
       '{"name": "pay", "parameters": {}, "headers": {"X-Key": "c4nary-in-a-coal-mine"}}')""",
    """INSERT INTO mcp_servers (project_id, name, id, version, spec, secret_headers, listed)
       VALUES (:project, 'box', :project, 1,
       '{"name": "box", "url": "http://x", "headers": {"X-Key": "c4nary-in-a-coal-mine"}}',
       :sealed, '[]')""",
)


async def test_a_migration_encrypts_what_was_stored_in_clear_text(empty_database_url: str) -> None:
    vault = Vault(DataKey.from_secret_key(KEY))
    sealed = seal_credentials(
        vault, PROJECT, "box", Credentials({"X-Other": "sealed before"})
    ).headers
    await migrations.upgrade(empty_database_url, revision="0012")
    engine = create_async_engine(empty_database_url, poolclass=NullPool)
    async with engine.connect() as connection:
        for statement in PLANT:
            values = {"project": PROJECT, "sealed": sealed}
            known = {name: values[name] for name in values if f":{name}" in statement}
            await connection.execute(text(statement), known)
        await connection.commit()
        assert shows(await dump(connection)) == [CANARY]
        await connection.rollback()

        with pytest.raises(SecretKeyNeededError):
            await migrations.upgrade(empty_database_url)
        await migrations.upgrade(empty_database_url, KEY)

        assert shows(await dump(connection)) == []
        spec = (await connection.execute(text("SELECT spec FROM tool_versions"))).scalar_one()
        server = await mcp_servers.get_server(connection, PROJECT, "box")
    await engine.dispose()
    tool = open_headers(vault, PROJECT, ToolSpec.model_validate(spec, strict=False))
    assert tool.headers == {"X-Key": CANARY}
    assert server is not None
    assert server.credentials(vault) == Credentials({"X-Key": CANARY, "X-Other": "sealed before"})
