"""A search among more runs than one request looks at."""

from typing import Final

from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from runward.store.runs.search import MAX_SEARCHED_RUNS
from tests.e2e.conftest import Processes
from tests.support.services.client import Json

RUNS: Final = 2 * MAX_SEARCHED_RUNS + 10
SEED: Final = text(
    """
INSERT INTO runs (project_id, id, status, config, output, ended_at)
SELECT id, CAST(lpad(to_hex(1764000000000 + n), 12, '0') || '70008000000000000000' AS uuid),
  'completed', '{"model": "offline:rules"}',
  to_json('run ' || n || CASE WHEN n = 2 THEN ' has the needle' ELSE '' END), now()
FROM projects, generate_series(1, :runs) n WHERE name = 'default'"""
)
"""The second oldest has what is sought."""


async def test_a_search_goes_on_where_its_last_request_left_off(start: Processes) -> None:
    client = start.client(start("api"))
    engine = create_async_engine(start.database_url)
    async with engine.begin() as tx:
        await tx.execute(SEED, {"runs": RUNS})
    await engine.dispose()

    pages: list[Json] = []
    after = None
    while not pages or pages[-1]["has_more"]:
        pages.append(client.call("GET", "/v1/runs", q="NEEDLE", limit=5, after=after))
        after = pages[-1]["last_id"]
    assert [len(page["data"]) for page in pages] == [0, 0, 1]
    assert pages[2]["data"][0]["output"] == "run 2 has the needle"
    assert pages[0]["first_id"] is None
    assert pages[0]["last_id"] > pages[1]["last_id"] > pages[2]["last_id"]
    whole = client.call("GET", "/v1/runs", q=pages[2]["last_id"])
    assert [run["id"] for run in whole["data"]] == [pages[2]["last_id"]]
