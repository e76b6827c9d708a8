"""The example tools of a first run, when several processes serve one data folder."""

from pathlib import Path
from typing import Final

from runward.quickstart import example_tools
from tests.db.store import Store

KEY: Final = ["the key of this deployment, and no other one"]
URLS: Final = "SELECT string_agg(spec->>'url', ' ' ORDER BY name, version) FROM tool_versions"


async def test_a_second_process_leaves_the_tools_to_the_first(store: Store, tmp_path: Path) -> None:
    async with example_tools.serve_example_tools(store.url, KEY, tmp_path, prefer_port=0) as first:
        assert first is not None
        registered = await store.value(URLS)
        async with example_tools.serve_example_tools(
            store.url, KEY, tmp_path, prefer_port=0
        ) as second:
            assert second is None
        assert await store.value(URLS) == registered
    async with example_tools.serve_example_tools(store.url, KEY, tmp_path, prefer_port=0) as again:
        assert again == first
