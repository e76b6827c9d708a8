from typing import Any

from tests.db.store import Store


async def test_types_of_postgresql_are_looked_up_once_and_not_by_each_connection(
    store: Store,
) -> None:
    queries: list[Any] = []
    async with store.pool.connect() as first, store.pool.connect() as second:
        for tx in (first, second):
            connection: Any = (await tx.get_raw_connection()).driver_connection
            queries.clear()
            with connection.query_logger(queries.append):
                assert await connection.fetchval("SELECT $1::float8[]", [1.5]) == [1.5]
        assert [query.query for query in queries] == ["SELECT $1::float8[]"]
