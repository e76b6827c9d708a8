"""What the toolbox remembers between runs, so that accepting one need not ask again."""

from sqlalchemy import event

from app.loop.toolbox import Toolbox
from tests.db.store import PROJECT, Store


async def test_a_tool_that_was_found_is_not_looked_up_again_until_something_changes(
    store: Store,
) -> None:
    await store.register(name="pay")
    asked: list[str] = []

    def asks(_0: object, _1: object, statement: str, *_: object) -> None:
        asked.append(statement)

    event.listen(store.pool.sync_engine, "before_cursor_execute", asks)
    toolbox = Toolbox(store.pool, store.vault)
    assert await toolbox.missing(PROJECT, ["pay", "gone"]) == ["gone"]
    asked.clear()
    assert await toolbox.missing(PROJECT, ["pay"]) == []
    assert not asked
    toolbox.forget(PROJECT)
    assert await toolbox.missing(PROJECT, ["pay"]) == []
    assert len(asked) == 1
