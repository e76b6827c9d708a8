"""What the toolbox remembers between runs, so that accepting one need not ask again."""

from collections.abc import Callable
from time import monotonic

import pytest
from sqlalchemy import event

from runward.loop.toolbox import Toolbox
from runward.store.registry import tool_registry
from runward.tools import signing
from tests.db.store import PROJECT, Store


def statements(store: Store) -> list[str]:
    """Those from now on."""
    asked: list[str] = []

    def asks(_0: object, _1: object, statement: str, *_: object) -> None:
        asked.append(statement)

    event.listen(store.pool.sync_engine, "before_cursor_execute", asks)
    return asked


async def test_a_tool_that_was_found_is_not_looked_up_again_until_something_changes(
    store: Store,
) -> None:
    await store.register(name="pay")
    asked = statements(store)
    toolbox = Toolbox(store.pool, store.vault)
    assert await toolbox.list_unregistered(PROJECT, ["pay", "gone"]) == ["gone"]
    asked.clear()
    assert await toolbox.list_unregistered(PROJECT, ["pay"]) == []
    assert not asked
    toolbox.forget(PROJECT)
    assert await toolbox.list_unregistered(PROJECT, ["pay"]) == []
    assert len(asked) == 1


def once_after_the_next_statement(store: Store, change: Callable[[], None]) -> None:
    changes = [change]

    def meanwhile(*_: object) -> None:
        if changes:
            changes.pop()()

    event.listen(store.pool.sync_engine, "after_cursor_execute", meanwhile)


async def test_a_tool_that_is_known_already_is_not_lost_while_another_is_read(
    store: Store,
) -> None:
    for name in ("known", "new"):
        await store.register(name=name)
    toolbox = Toolbox(store.pool, store.vault)
    await toolbox.fetch(PROJECT, [("known", 1)])
    once_after_the_next_statement(store, lambda: toolbox.forget(PROJECT))
    tools = await toolbox.fetch(PROJECT, [("known", 1), ("new", 1)])
    assert [tools.get(name, 1).tool.name for name in ("known", "new")] == ["known", "new"]


async def test_what_was_read_before_a_change_is_not_kept_after_it(store: Store) -> None:
    await store.register(name="pay")
    toolbox = Toolbox(store.pool, store.vault)
    once_after_the_next_statement(store, lambda: toolbox.forget(PROJECT))
    await toolbox.fetch(PROJECT, [("pay", 1)])
    asked = statements(store)
    await toolbox.fetch(PROJECT, [("pay", 1)])
    assert len(asked) == 1


async def test_tools_are_not_lost_where_more_are_wanted_than_are_kept(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runward.loop.toolbox.MAX_KEPT", 1)
    for name in ("a", "b"):
        await store.register(name=name)
    tools = await Toolbox(store.pool, store.vault).fetch(PROJECT, [("a", 1), ("b", 1)])
    assert [tools.get(name, 1).tool.name for name in ("a", "b")] == ["a", "b"]


async def test_large_schemas_leave_the_memory_before_there_are_many(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        await store.register(name=name)
    asked, toolbox = statements(store), Toolbox(store.pool, store.vault)
    await toolbox.fetch(PROJECT, [("a", 1)])
    monkeypatch.setattr("runward.loop.toolbox.MAX_SCHEMA_CHARACTERS", 2 * toolbox.schema_characters)
    await toolbox.fetch(PROJECT, [("b", 1)])
    await toolbox.fetch(PROJECT, [("c", 1)])
    asked.clear()
    await toolbox.fetch(PROJECT, [("b", 1), ("c", 1)])
    assert not asked
    await toolbox.fetch(PROJECT, [("a", 1)])
    assert len(asked) == 1
    toolbox.forget(None)
    assert toolbox.schema_characters == 0


async def test_a_secret_that_was_replaced_signs_for_a_day_though_nothing_is_read_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The project is quiet, so nobody tells the toolbox to forget its tools."""
    await store.register(name="pay")
    async with store.pool.begin() as tx:
        assert await tool_registry.rotate_secret(tx, store.vault, PROJECT, "pay", "whsec_new")
    armed = (await Toolbox(store.pool, store.vault).fetch(PROJECT, [("pay", 1)])).get("pay", 1)
    read_at = monotonic()
    assert armed.secrets == ("whsec_new", "whsec_secret")
    for seconds, secrets in ((86_340, ("whsec_new", "whsec_secret")), (86_401, ("whsec_new",))):
        monkeypatch.setattr(signing, "monotonic", lambda at=read_at + seconds: at)
        assert armed.secrets == secrets
