from collections.abc import AsyncIterator

import pytest

from tests.db.store import Store


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[Store]:
    store = Store(database_url)
    await store.open()
    yield store
    await store.close()
