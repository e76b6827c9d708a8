"""tools/list of /mcp, of a project with many tools."""

import tracemalloc
from types import SimpleNamespace
from typing import Any

from runward.api.mcp import listing
from runward.domain.json import JsonObject
from tests.db.store import PROJECT, Store

MANY = """
WITH made AS (SELECT 'tool_' || lpad(n::text, 4, '0') AS name FROM generate_series(1, :count) n),
t AS (
  INSERT INTO tools (project_id, name, id, version, secret)
  SELECT :project, name, gen_random_uuid(), 1, '' FROM made
  ON CONFLICT DO NOTHING RETURNING name
)
INSERT INTO tool_versions (project_id, name, version, spec)
SELECT :project, name, 1, json_build_object('name', name, 'enabled', name <> 'tool_0007',
  'parameters', json_build_object('type', 'object', 'description', repeat('x', 20000)))
FROM t"""


async def listed(store: Store, cursor: str | None = None) -> JsonObject:
    storage: Any = SimpleNamespace(connect=store.autocommit.connect)
    return await listing.list_page(storage, PROJECT, cursor, 300, elicits=False)


def names(page: Any) -> list[str]:
    return [tool["name"] for tool in page["tools"]]


async def peak_of_a_page(store: Store) -> int:
    await listed(store)
    tracemalloc.start()
    try:
        assert len(names(await listed(store))) == listing.PAGE
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


async def test_a_page_takes_no_more_memory_the_more_tools_there_are(store: Store) -> None:
    await store.sql(MANY, project=PROJECT, count=listing.PAGE)
    before = await peak_of_a_page(store)
    await store.sql(MANY, project=PROJECT, count=4 * listing.PAGE)
    assert await peak_of_a_page(store) < 1.5 * before


async def test_the_pages_hold_every_enabled_tool_once(store: Store) -> None:
    await store.sql(MANY, project=PROJECT, count=150)
    first: Any = await listed(store)
    second: Any = await listed(store, first["nextCursor"])
    tools = [f"tool_{n:04}" for n in range(1, 151) if n != 7]
    assert names(first) + names(second) == ["runward_result", *tools]
    assert "nextCursor" not in second
