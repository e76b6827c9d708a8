"""What a worker shows of itself: its heartbeat, and its own port."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import httpx2
import pytest

from runward.serve import STOP_SIGNALS, run_process
from runward.settings import Settings
from tests.db.store import Store
from tests.support.services.service import free_port

COUNT = "SELECT count(*) FROM workers"


@pytest.fixture
async def worker(store: Store) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the port of a worker, which has ended when the test has."""
    port = free_port()
    settings = Settings.model_validate({"secret_key": "k" * 32, "worker_port": port})
    former = {one: signal.getsignal(one) for one in STOP_SIGNALS}
    running = asyncio.create_task(
        run_process(settings, store.url, with_api=False, with_worker=True)
    )
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
        await store.until(COUNT, 1)
        yield client
        os.kill(os.getpid(), signal.SIGTERM)
        await running
    for number, handler in former.items():
        signal.signal(number, handler)
    await store.until(COUNT, 0)


async def until_served(client: httpx2.AsyncClient, path: str) -> httpx2.Response:
    while True:
        try:
            return await client.get(path, headers={"Host": "10.0.0.1"})
        except httpx2.ConnectError:
            await asyncio.sleep(0.01)  # there is nothing to wait on before it listens


async def test_a_worker_with_a_port_serves_its_health_and_metrics_and_nothing_else(
    store: Store, worker: httpx2.AsyncClient
) -> None:
    assert (await until_served(worker, "/livez")).json() == {"status": "ok"}
    assert (await worker.get("/readyz")).json() == {"status": "ready"}
    metrics = (await worker.get("/metrics")).text
    assert "runward_workers 1.0" in metrics
    assert "runward_lease_expiries_total" in metrics
    for path in ("/v1/runs", "/docs", "/openapi.json", "/"):
        assert (await worker.get(path)).status_code == 404
    await store.sql("UPDATE alembic_version SET version_num = '0003'")
    assert (await worker.get("/readyz")).status_code == 503
    assert (await worker.get("/livez")).status_code == 200
