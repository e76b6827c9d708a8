"""Values are encrypted again after a new data key: all of them, by any number of workers."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import LargeBinary, text

from runward.domain.registry.mcp_auth import Credentials, OAuth
from runward.domain.registry.mcp_servers import McpServerSpec
from runward.domain.registry.tools import InlineToolSpec, SecretReference, ToolSpec
from runward.domain.run.config import RunConfig, get_inline_tools
from runward.store import readiness
from runward.store.access import idempotency
from runward.store.access.secrets import put_secret, read_secrets
from runward.store.access.vault import DataKey, Vault
from runward.store.data_keys import reencryption
from runward.store.data_keys.key_ring import KeyRing, list_keys, list_outdated
from runward.store.data_keys.reencryption import BATCH, TABLES, SealedTable
from runward.store.data_keys.wrapping import LocalKey
from runward.store.postgres.columns import metadata
from runward.store.registry import agents, mcp_credentials, mcp_servers, tool_registry
from runward.store.registry.mcp_credentials import SealedCredentials, StoredRefreshTokens
from runward.store.schedules import schedules
from runward.store.webhooks import endpoints
from runward.worker.reencryption import PASS_EVERY, Reencryption
from tests.db.store import PROJECT, Store

SECRET: Final = LocalKey("k" * 32)
HEADERS: Final[dict[str, Any]] = {"Authorization": "Bearer x", "X-Key": SecretReference(secret="s")}
LOGIN: Final = Credentials(HEADERS, OAuth(client_id="me", client_secret="x", refresh_token="r"))
OTHER_COLUMNS: Final = {
    ("api_keys", "secret_hmac"),
    ("console_sessions", "token_hmac"),
    ("data_keys", "id"),
}


async def open_ring(store: Store) -> KeyRing:
    ring = KeyRing(store.database, [SECRET])
    store.vault = await ring.open()
    async with store.pool.begin() as tx:
        await readiness.prepare_database(tx, store.vault)
    return ring


async def rotate(store: Store, *rings: KeyRing, settled: bool = True) -> DataKey:
    """Add a data key that is active. `settled`: all processes have used it for some time."""
    key = await rings[0].add_key()
    age = timedelta(minutes=3) if settled else timedelta(seconds=61)
    await store.sql(
        "UPDATE data_keys SET created_at = created_at - CAST(:age AS interval)",
        age=timedelta(hours=1),
    )
    await store.sql(
        "UPDATE data_keys SET created_at = now() - CAST(:age AS interval) WHERE id = :id",
        age=age,
        id=key.id,
    )
    for ring in rings:
        await ring.refresh()
    return key


async def outdated(store: Store) -> list[bytes]:
    async with store.pool.connect() as tx:
        return [one.id for one in list_outdated(await list_keys(tx))]


async def counts(store: Store) -> dict[bytes, int]:
    async with store.pool.connect() as tx:
        ids = [one.id for one in await list_keys(tx)]
        return dict(await reencryption.count_by_key(tx, ids))


async def run_pass(*all_workers: Reencryption) -> None:
    """A whole pass of each worker, in turns."""
    for _ in range(PASS_EVERY):
        for one in all_workers:
            await one.step()


async def put_secrets(store: Store, names: Iterable[str], value: str = "x") -> None:
    async with store.pool.begin() as tx:
        for name in names:
            await put_secret(tx, store.vault, PROJECT, name, value)


async def read(store: Store, vault: Vault, *names: str) -> dict[str, str]:
    async with store.pool.connect() as tx:
        return await read_secrets(tx, vault, PROJECT, names)


async def plant_everywhere(store: Store) -> tuple[UUID, UUID]:
    """A value in each encrypted column. Return the IDs of the endpoint and of the schedule."""
    vault = store.vault
    spec = ToolSpec(name="pay", parameters={}, url="https://a.example/x", headers=HEADERS)
    inline = tool_registry.seal_headers(
        vault, PROJECT, InlineToolSpec(name="own", parameters={}, url=spec.url, headers=HEADERS)
    )
    config = RunConfig.model_validate({"model": "offline:rules", "inline_tools": (inline,)})
    server = McpServerSpec(name="box", url="https://a.example/mcp")
    sealed = mcp_credentials.seal_credentials(vault, PROJECT, "box", LOGIN)
    endpoint = {"url": spec.url, "description": "", "events": ["*"], "include": [], "enabled": True}
    async with store.pool.begin() as tx:
        await put_secret(tx, vault, PROJECT, "s", "a secret")
        await tool_registry.add_tool(tx, vault, PROJECT, spec, "whsec_1")
        await tool_registry.rotate_secret(tx, vault, PROJECT, "pay", "whsec_2")
        await agents.put_agent(
            tx, PROJECT, "clerk", config, description=None, metadata={}, replace=False
        )
        made = await mcp_servers.add_server(tx, PROJECT, server, sealed, ())
        assert made is not None
        hook = await endpoints.add_endpoint(tx, vault, PROJECT, endpoint, "whsec_1")
        await endpoints.rotate_secret(tx, vault, PROJECT, hook.id, "whsec_2")
        schedule = await schedules.add_schedule(
            tx,
            vault,
            PROJECT,
            {
                "name": "nightly",
                "cron": "0 0 * * *",
                "time_zone": "UTC",
                "run": {},
                "overlap": "skip",
                "misfires": "all",
                "enabled": True,
                "created_by": UUID(int=1),
                "next_at": await schedules.read_clock(tx),
            },
            "a run",
        )
        await idempotency.reserve(tx, PROJECT, "once", "route", "digest")
        await idempotency.store_answer(
            tx, vault, PROJECT, "once", 201, "an answer", resource_id=None
        )
    tokens = StoredRefreshTokens(store.pool, vault, PROJECT, "box", made.id)
    claim = await tokens.claim("r")
    assert claim is not None
    await tokens.replace(claim, "r", "r2")
    return hook.id, schedule.id


async def expect_everything(store: Store, vault: Vault, hook: UUID, schedule: UUID) -> None:
    """Read each value with `vault`, as Runward reads it."""
    async with store.pool.connect() as tx:
        assert await read_secrets(tx, vault, PROJECT, ["s"]) == {"s": "a secret"}
        [tool] = await tool_registry.read_versions(tx, vault, PROJECT, [("pay", 1)])
        assert tool.spec.headers == HEADERS
        assert tool.secrets == ("whsec_2", "whsec_1")
        for row in await tx.execute(
            text("SELECT spec FROM agents UNION ALL SELECT spec FROM agent_versions").columns(
                spec=agents.agents.c.spec.type
            )
        ):
            config = RunConfig.model_validate(row.spec["config"], strict=False)
            [inline] = get_inline_tools(config)
            assert tool_registry.open_headers(vault, PROJECT, inline).headers == HEADERS
        row = (await tx.execute(text("SELECT secret_headers, oauth FROM mcp_servers"))).one()
        opened = SealedCredentials(row.secret_headers, row.oauth).open(vault, PROJECT, "box")
        assert opened.headers == HEADERS
        assert opened.oauth is not None
        row = (await tx.execute(text("SELECT secret, former_secret FROM webhook_endpoints"))).one()
        assert [endpoints.open_secret(vault, PROJECT, hook, one) for one in row] == [
            "whsec_2",
            "whsec_1",
        ]
        sealed = (await tx.execute(text("SELECT sealed_run FROM schedules"))).scalar_one()
        assert schedules.open_run(vault, PROJECT, schedule, sealed) == "a run"
        kept = await idempotency.read(tx, PROJECT, "once")
        assert kept is not None
        assert kept.answer is not None
        assert idempotency.open_answer(vault, PROJECT, "once", kept.answer) == "an answer"
        await readiness.check_database(tx, vault)
        server = (await tx.execute(text("SELECT id FROM mcp_servers"))).scalar_one()
    await store.sql("UPDATE mcp_servers SET refresh_claimed_until = NULL")
    claim = await StoredRefreshTokens(store.pool, vault, PROJECT, "box", server).claim("r")
    assert claim is not None
    assert claim.token == "r2"


def test_every_binary_column_is_encrypted_again_or_contains_no_ciphertext() -> None:
    binary = {
        (table.name, column.name)
        for table in metadata.tables.values()
        for column in table.columns
        if isinstance(column.type, LargeBinary)
    }
    sealed = {
        (one.name, name) for one in TABLES if isinstance(one, SealedTable) for name in one.columns
    }
    assert binary - OTHER_COLUMNS == sealed


async def test_every_value_is_encrypted_with_the_new_key_only(store: Store) -> None:
    ring = await open_ring(store)
    hook, schedule = await plant_everywhere(store)
    await expect_everything(store, store.vault, hook, schedule)
    [before] = await counts(store)
    new = await rotate(store, ring)
    assert await outdated(store) == [before]
    total = (await counts(store))[before]
    await run_pass(Reencryption(store.database, ring))
    assert await counts(store) == {new.id: total}
    assert await outdated(store) == []
    await expect_everything(store, Vault(new), hook, schedule)


async def test_a_worker_sends_no_statement_without_an_outdated_key(store: Store) -> None:
    ring = await open_ring(store)
    await rotate(store, ring)
    worker = Reencryption(store.database, ring)
    await run_pass(worker)
    await ring.refresh()
    await store.sql("ALTER TABLE secrets RENAME TO gone")
    await run_pass(worker)


async def test_two_workers_share_the_rows_and_leave_a_locked_one(store: Store) -> None:
    first, second = await open_ring(store), await open_ring(store)
    names = [f"S{number:04}" for number in range(2 * BATCH + 1)]
    await put_secrets(store, names)
    new = await rotate(store, first, second)
    two = Reencryption(store.database, first), Reencryption(store.database, second)
    async with store.pool.begin() as tx:
        await tx.execute(text("SELECT FROM secrets WHERE name = 'S0003' FOR UPDATE"))
        await run_pass(*two)
        assert len(await outdated(store)) == 1
        with_new = "SELECT count(*) FROM secrets WHERE substring(value FROM 1 FOR 8) = :id"
        assert await store.value(with_new, id=new.id) == len(names) - 1
    await run_pass(*two)
    await run_pass(*two)
    assert await outdated(store) == []
    assert await read(store, Vault(new), *names) == dict.fromkeys(names, "x")


async def test_a_concurrent_change_of_a_secret_is_not_lost(store: Store) -> None:
    """The writer still has the old key. Its value is encrypted again in the next pass."""
    ring = await open_ring(store)
    late = (await open_ring(store)).vault
    await put_secrets(store, ["TOKEN"], "first")
    new = await rotate(store, ring)
    worker = Reencryption(store.database, ring)
    async with store.pool.begin() as tx:
        await put_secret(tx, late, PROJECT, "TOKEN", "second")
        await run_pass(worker)
    assert await read(store, store.vault, "TOKEN") == {"TOKEN": "second"}
    await run_pass(worker)
    await run_pass(worker)
    assert await read(store, Vault(new), "TOKEN") == {"TOKEN": "second"}


async def test_a_key_is_not_drained_before_every_process_uses_the_new_one(store: Store) -> None:
    ring = await open_ring(store)
    await put_secrets(store, ["TOKEN"])
    new = await rotate(store, ring, settled=False)
    await run_pass(Reencryption(store.database, ring))
    assert len(await outdated(store)) == 1
    assert await read(store, Vault(new), "TOKEN") == {"TOKEN": "x"}


async def test_a_value_of_an_unknown_key_does_not_hold_up_the_others(store: Store) -> None:
    ring = await open_ring(store)
    await put_secrets(store, ["A", "B", "C"])
    await store.sql("UPDATE secrets SET value = 'of a key that was lost' WHERE name = 'B'")
    new = await rotate(store, ring)
    await run_pass(Reencryption(store.database, ring))
    assert await outdated(store) == []
    assert await read(store, Vault(new), "A", "C") == {"A": "x", "C": "x"}


async def test_a_process_can_decrypt_with_a_key_before_any_process_encrypts_with_it(
    store: Store,
) -> None:
    ring, other = await open_ring(store), await open_ring(store)
    first = other.vault.current_id
    changes: list[bytes] = []
    other.on_change = lambda: changes.append(other.vault.current_id)
    key = await ring.add_key()
    await other.refresh()
    assert changes == [first]
    store.vault = Vault(key)
    await put_secrets(store, ["TOKEN"])
    assert await read(store, other.vault, "TOKEN") == {"TOKEN": "x"}
    await store.sql("UPDATE data_keys SET created_at = created_at - interval '61 seconds'")
    await other.refresh()
    await other.refresh()
    assert changes == [first, key.id]


async def test_a_row_that_cannot_be_processed_does_not_stop_the_other_tables(store: Store) -> None:
    ring = await open_ring(store)
    hook, schedule = await plant_everywhere(store)
    broken = '{"name": "pay", "headers": {"X": {"sealed": "%%%"}}}'
    former = await store.value("SELECT CAST(spec AS text) FROM tool_versions")
    change = "UPDATE tool_versions SET spec = CAST(:spec AS json)"
    await store.sql(change, spec=broken)
    new = await rotate(store, ring)
    worker = Reencryption(store.database, ring)
    assert not await worker.run_pass()
    assert len(await outdated(store)) == 1
    await store.sql(change, spec=former)
    assert await worker.run_pass()
    await expect_everything(store, Vault(new), hook, schedule)


async def test_a_row_that_cannot_be_read_does_not_hold_up_the_rest_of_its_table(
    store: Store,
) -> None:
    ring = await open_ring(store)
    await plant_everywhere(store)
    deep = "[" * 400 + "]" * 400
    change = (
        "UPDATE tool_versions SET spec = CAST(left(CAST(spec AS text), -1)"
        " || ', \"x\": ' || CAST(:deep AS text) || '}' AS json)"
    )
    await store.sql(change, deep=deep)
    spec = ToolSpec(name="send", parameters={}, url="https://a.example/x", headers=HEADERS)
    async with store.pool.begin() as tx:
        await tool_registry.add_tool(tx, store.vault, PROJECT, spec, "whsec_3")
    before = await counts(store)
    new = await rotate(store, ring)
    await Reencryption(store.database, ring).run_pass()
    assert sum((await counts(store)).values()) == sum(before.values())
    assert (await counts(store))[new.id] == sum(before.values()) - 1
