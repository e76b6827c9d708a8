"""Plugins' tools in the registry: what the code says, under what projects set over it."""

import asyncio
from typing import Any
from uuid import UUID

from runward.domain.ids import ProjectId
from runward.domain.json import JsonObject
from runward.domain.registry.tools import ToolSpec
from runward.store.access import keys
from runward.store.postgres.db import Tx
from runward.store.registry import plugin_sync, tool_registry
from runward.tools import signing
from tests.db.store import PROJECT, Store

PARAMETERS: JsonObject = {"type": "object", "properties": {"b": {}, "a": {}}}


def spec(name: str = "pay", **fields: Any) -> ToolSpec:
    return ToolSpec(name=name, parameters=PARAMETERS, type="plugin", **fields)


async def sync(store: Store, *specs: ToolSpec) -> int:
    async with store.pool.begin() as tx:
        return await plugin_sync.sync_plugins(tx, store.vault, specs, signing.make_secret)


async def project(store: Store) -> ProjectId:
    async with store.pool.begin() as tx:
        return ProjectId((await keys.add_project(tx, "another")).id)


async def shown(store: Store, name: str = "pay", of: ProjectId = PROJECT) -> tuple[int, ToolSpec]:
    async with store.autocommit.connect() as tx:
        found = await tool_registry.get_tool(tx, of, name)
    assert found is not None
    return found.version, found.spec


async def override(store: Store, code: ToolSpec, **given: Any) -> None:
    async with store.pool.begin() as tx:
        await plugin_sync.override_settings(tx, PROJECT, code, given)


async def test_every_project_gets_every_tool_once(store: Store) -> None:
    other = await project(store)
    specs = [spec(), spec("look", description="Looks.")]
    assert await sync(store, *specs) == 4
    assert await sync(store, *specs) == 0
    for of in (PROJECT, other):
        assert await shown(store, "look", of) == (1, specs[1])
    _, found = await shown(store)
    assert list(found.parameters["properties"]) == ["b", "a"]  # type: ignore[arg-type]
    async with store.autocommit.connect() as tx:
        [version] = await tool_registry.read_versions(tx, store.vault, other, [("pay", 1)])
    assert version.secrets[0].startswith("whsec_")


async def test_changed_code_makes_the_next_version(store: Store) -> None:
    await sync(store, spec())
    assert await sync(store, spec(description="New.")) == 1
    assert await shown(store) == (2, spec(description="New."))


async def test_what_a_project_set_stays_over_changed_code(store: Store) -> None:
    other = await project(store)
    code = spec(approval="always", timeout_seconds=3)
    await sync(store, code)
    await override(store, code, approval="never", metadata={"a": 1})
    assert await sync(store, code) == 0
    newer = spec(approval="always", timeout_seconds=5)
    assert await sync(store, newer) == 2
    assert await shown(store) == (3, spec(timeout_seconds=5, metadata={"a": 1}))
    assert await shown(store, of=other) == (2, newer)
    await override(store, newer, approval=None, metadata=None)
    assert await shown(store) == (4, newer)
    async with store.autocommit.connect() as tx:
        assert await plugin_sync.override_settings(tx, PROJECT, spec("gone"), {}) is None


async def test_a_project_s_own_tool_stays_until_it_is_deleted(store: Store) -> None:
    mine = await store.register(name="pay")
    assert await sync(store, spec()) == 0
    version, found = await shown(store)
    assert (version, found.type) == (mine.version, "webhook")
    async with store.pool.begin() as tx:
        assert await tool_registry.delete_tool(tx, PROJECT, "pay")
    assert await sync(store, spec()) == 1
    assert await shown(store) == (mine.version + 1, spec())


async def test_a_new_project_gets_them_in_its_own_transaction(store: Store) -> None:
    await sync(store, spec())

    async def make(tx: Tx) -> UUID:
        made = await keys.add_project(tx, "new")
        synced = await plugin_sync.sync_plugins(
            tx, store.vault, [spec()], signing.make_secret, made.id
        )
        assert synced == 1
        return made.id

    async with store.pool.begin() as tx:
        made = await make(tx)
    assert await shown(store, of=ProjectId(made)) == (1, spec())


async def test_processes_that_start_at_once_make_one_version(store: Store) -> None:
    for _ in range(5):
        await project(store)
    changed = await asyncio.gather(*(sync(store, spec()) for _ in range(6)))
    assert sorted(changed) == [0, 0, 0, 0, 0, 6]
    assert (await shown(store))[0] == 1
