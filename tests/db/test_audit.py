"""The audit log in the database: one chain for each project, in which every change is noticed."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from pydantic_core import from_json
from sqlalchemy import text

from runward.api.audit import routes
from runward.domain.audit import AuditAction, BrokenChainError, verify_chain
from runward.domain.ids import KeyId, RunId
from runward.domain.json import JsonObject, compact
from runward.domain.registry.scopes import Principal
from runward.domain.retention import DataClass, HoldKind, RetentionLimits
from runward.services import Storage
from runward.store.access import audit, holds, keys
from runward.store.access.audit import AuditActor, AuditChange, AuditEntry, AuditFilter
from runward.store.postgres.db import mint
from runward.store.retention import cleaner
from runward.store.retention.cleaner import Removed
from runward.store.runs import erasure
from tests.db.store import PROJECT, Store
from tests.db.test_outside import alone
from tests.db.test_retention import A_DAY, ended

PRINCIPAL = Principal(
    PROJECT, KeyId(mint()), "ci", frozenset(), address="192.0.2.7", request_id="req_1"
)
ACTOR = AuditActor.from_principal(PRINCIPAL)
CHANGE = AuditChange(
    AuditAction.AGENT_UPDATED, "clerk", 2, {"model": "a", "tools": []}, {"model": "b", "tools": []}
)


async def append(store: Store, change: AuditChange = CHANGE) -> None:
    async with store.pool.begin() as tx:
        await audit.append(tx, PROJECT, ACTOR, change)


async def entries(store: Store, filter_: AuditFilter | None = None) -> list[AuditEntry]:
    async with store.pool.begin() as tx:
        return await audit.list_entries(
            tx, PROJECT, filter_ or AuditFilter(), after=None, limit=200, descending=False
        )


async def exported(store: Store) -> list[JsonObject]:
    """The entries as lines of an export contain them."""
    return [from_json(compact(audit.render(one))) for one in await entries(store)]


async def test_an_entry_contains_the_changed_fields_and_who_changed_them(store: Store) -> None:
    await append(store)
    [entry] = await exported(store)
    assert (entry["before"], entry["after"]) == ({"model": "a"}, {"model": "b"})
    assert entry["actor"] == {"type": "key", "id": f"key_{ACTOR.key_id.hex}", "name": "ci"}  # type: ignore[union-attr]
    assert (entry["ip_address"], entry["request_id"]) == ("192.0.2.7", "req_1")
    assert entry["resource"] == {"type": "agent", "id": "clerk", "version": 2}


async def test_concurrent_writers_append_to_one_chain(store: Store) -> None:
    await asyncio.gather(*(append(store) for _ in range(50)))
    verified = verify_chain(await exported(store))
    assert verified is not None
    assert (verified.entries, verified.first, verified.last) == (50, 1, 50)
    async with store.pool.begin() as tx:
        chain = await audit.get_chain(tx, PROJECT)
    assert (chain.number, chain.hash) == (50, verified.last_hash)


async def test_the_chains_of_projects_do_not_wait_for_each_other(store: Store) -> None:
    async with store.pool.begin() as tx:
        await audit.append(tx, PROJECT, ACTOR, CHANGE)
        async with store.pool.begin() as other:
            made = await keys.add_project(other, "other")
            await audit.append(other, keys.ProjectId(made.id), ACTOR, CHANGE)


async def test_a_rollback_leaves_no_gap(store: Store) -> None:
    await append(store)
    with pytest.raises(ZeroDivisionError):
        async with store.pool.begin() as tx:
            await audit.append(tx, PROJECT, ACTOR, CHANGE)
            raise ZeroDivisionError
    await append(store)
    verified = verify_chain(await exported(store))
    assert verified is not None
    assert (verified.entries, verified.last) == (2, 2)


def tamper(value: Any) -> Any:
    match value:
        case None:
            return "x"
        case int():
            return value + 7
        case str():
            return value + "x"
        case _:
            return {**value, next(iter(value)): tamper(next(iter(value.values())))}


async def test_a_change_of_each_field_is_noticed(store: Store) -> None:
    for _ in range(3):
        await append(store)
    found = await exported(store)
    for name, value in found[1].items():
        with pytest.raises(BrokenChainError) as broken:
            verify_chain([found[0], {**found[1], name: tamper(value)}, found[2]])
        assert broken.value.number == (9 if name == "number" else 2), name
        # Without a field, an entry does not verify either.
        with pytest.raises(BrokenChainError):
            verify_chain([found[0], {n: one for n, one in found[1].items() if n != name}])


@pytest.mark.parametrize(
    "numbers",
    [
        pytest.param((1, 3), id="removed"),
        pytest.param((1, 3, 2), id="reordered"),
        pytest.param((1, 1, 2), id="repeated"),
    ],
)
async def test_missing_and_moved_entries_are_noticed(
    store: Store, numbers: tuple[int, ...]
) -> None:
    for _ in range(3):
        await append(store)
    found = await exported(store)
    with pytest.raises(BrokenChainError):
        verify_chain(found[number - 1] for number in numbers)


async def test_equal_content_has_different_digests(store: Store) -> None:
    await append(store)
    await append(store)
    assert len({one.after_digest for one in await entries(store)}) == 2


async def test_the_chain_verifies_after_the_erasure_of_a_run(store: Store) -> None:
    [run_id] = await ended(store)
    about = AuditChange(
        AuditAction.APPROVAL_EDITED, "apr_1", after={"arguments": "sha256:1"}, run_id=run_id
    )
    await append(store)
    await append(store, about)
    await append(store)
    async with store.pool.begin() as tx:
        assert await erasure.erase(tx, PROJECT, run_id)
    first, second, third = await entries(store)
    assert (second.before, second.after, second.salt) == (None, None, None)
    assert second.after_digest is not None
    assert first.after and third.after
    verified = verify_chain(await exported(store))
    assert verified is not None
    assert verified.entries == 3


async def age(store: Store, count: int) -> None:
    """Let the first entries be three days old. Their hashes no longer match."""
    async with store.pool.begin() as tx:
        aged = "UPDATE audit_entries SET created_at = created_at - interval '3 days'"
        await tx.execute(text(f"{aged} WHERE number <= {count}"))


async def remove(store: Store, limits: RetentionLimits = A_DAY) -> Removed:
    return await alone(store, lambda tx: cleaner.remove_batch(tx, limits, PROJECT, DataClass.AUDIT))


async def test_retention_removes_the_oldest_entries_and_keeps_an_anchor(store: Store) -> None:
    for _ in range(4):
        await append(store)
    await age(store, 2)
    anchor = (await entries(store))[1]
    async with store.pool.begin() as tx:
        preview = await cleaner.preview(tx, PROJECT, DataClass.AUDIT, 1)
    assert preview.rows == 2
    assert await remove(store) == Removed(2)
    async with store.pool.begin() as tx:
        chain = await audit.get_chain(tx, PROJECT)
    assert (chain.removed_number, chain.removed_hash) == (2, anchor.hash)
    verified = verify_chain(await exported(store))
    assert verified is not None
    assert (verified.first, verified.previous_hash) == (3, anchor.hash)
    await age(store, 4)
    assert await remove(store) == Removed(2)
    await append(store)
    [last] = await entries(store)
    assert last.number == 5
    assert last.previous_hash == verified.last_hash


async def test_an_old_entry_after_a_newer_one_is_kept(store: Store) -> None:
    """A new primary's clock can be behind."""
    for _ in range(3):
        await append(store)
    async with store.pool.begin() as tx:
        aged = "UPDATE audit_entries SET created_at = created_at - interval '3 days'"
        await tx.execute(text(f"{aged} WHERE number <> 2"))
    assert await remove(store) == Removed(1)


async def test_retention_stops_before_an_entry_that_an_erasure_changes(store: Store) -> None:
    """The erasure has not appended its own entry yet. If retention waited for it, neither could
    continue."""
    [run_id] = await ended(store)
    await append(store)
    await append(store, replace(CHANGE, run_id=run_id))
    await append(store)
    await age(store, 3)
    async with store.pool.begin() as tx:
        assert await erasure.erase(tx, PROJECT, run_id)
        async with asyncio.timeout(10):
            assert await remove(store) == Removed(1)
        await audit.append(tx, PROJECT, ACTOR, AuditChange(AuditAction.RUN_ERASED, "run_1"))
    assert await remove(store) == Removed(2)


async def test_nothing_is_removed_while_the_project_has_a_legal_hold(store: Store) -> None:
    await append(store)
    await age(store, 1)
    [run_id] = await ended(store)
    async with store.pool.begin() as tx:
        key = await keys.add_key(tx, store.vault, PROJECT, name="k", scopes=(), secret="s")
        await holds.put_hold(tx, PROJECT, run_id, HoldKind.RUN, "", KeyId(key.id))
        assert (await cleaner.preview(tx, PROJECT, DataClass.AUDIT, 1)).rows == 0
    assert await remove(store) == Removed()
    async with store.pool.begin() as tx:
        await holds.delete_hold(tx, PROJECT, run_id)
    assert await remove(store) == Removed(1)


async def test_entries_are_kept_forever_by_default(store: Store) -> None:
    await append(store)
    await age(store, 1)
    assert await remove(store, RetentionLimits({}, {})) == Removed()


async def test_entries_are_found_by_their_fields(store: Store) -> None:
    await append(store)
    await append(store, AuditChange(AuditAction.RUN_CANCELLED, "run_1", run_id=RunId(mint())))
    created = [one.created_at for one in await entries(store)]
    for filter_, numbers in (
        (AuditFilter(action=AuditAction.RUN_CANCELLED), [2]),
        (AuditFilter(actor=ACTOR.key_id), [1, 2]),
        (AuditFilter(actor=mint()), []),
        (AuditFilter(resource_type="agent", resource_id="clerk"), [1]),
        (AuditFilter(created_from=created[1]), [2]),
        (AuditFilter(created_before=created[1]), [1]),
    ):
        assert [one.number for one in await entries(store, filter_)] == numbers


async def test_an_address_that_is_no_address_is_not_recorded() -> None:
    for address, shown in (("unknown", None), ("2001:DB8::1", "2001:db8::1")):
        actor = AuditActor.from_principal(replace(PRINCIPAL, address=address))
        assert actor.ip_address == shown


async def test_an_export_reads_one_batch_at_a_time(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "BATCH", 3)
    for _ in range(7):
        await append(store)
    pieces = routes.export_entries(Storage(store.database, store.vault), PROJECT, 1)
    lines = [[from_json(line)["number"] for line in piece.splitlines()] async for piece in pieces]
    assert lines == [[2, 3, 4], [5, 6, 7], []]


async def test_a_batch_of_retention_is_bounded(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "REMOVAL_BATCH", 2)
    for _ in range(4):
        await append(store)
    await age(store, 3)
    assert await remove(store) == Removed(2, more=True)
    assert await remove(store) == Removed(1)
    assert [one.number for one in await entries(store)] == [4]
