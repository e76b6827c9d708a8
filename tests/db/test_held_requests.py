"""A request that waits for the end of a run responds at its time limit, and the run continues."""

from typing import Any

import httpx2
import pytest

from runward.api.app import create_app
from runward.api.completions import routes as completions
from runward.api.responses import routes as responses
from runward.api.routers import ROUTERS
from runward.settings import Settings
from runward.store.access import keys
from runward.wiring import open_services
from tests.db.store import PROJECT, Store

MODEL = "offline:rules"
ASKED: Any = [
    ("/v1/responses", {"model": MODEL, "input": "Hi"}),
    ("/v1/chat/completions", {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}]}),
]


async def test_a_request_responds_when_its_time_is_over(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No worker executes the runs."""
    for module in (responses, completions):
        monkeypatch.setattr(module, "HOLD_SECONDS", 0.05)
    settings = Settings.model_validate({"secret_key": "a key for this test, and no other one"})
    async with open_services(settings, store.url) as services:
        secret = keys.make_secret()
        async with store.pool.begin() as tx:
            vault = services.storage.vault
            scopes = ("runs:write",)
            await keys.add_key(tx, vault, PROJECT, name="test", scopes=scopes, secret=secret)
        client = httpx2.AsyncClient(
            transport=httpx2.ASGITransport(create_app(services, ROUTERS)),
            base_url="http://127.0.0.1",
            headers={"Authorization": f"Bearer {secret}"},
        )
        async with client:
            response, completion = [await client.post(path, json=body) for path, body in ASKED]
            run_id = completion.headers["runward-run-id"]
            run = (await client.get(f"/v1/runs/{run_id}")).json()
    assert (response.status_code, response.json()["status"]) == (200, "queued")
    error = completion.json()["error"]
    assert (completion.status_code, error["code"]) == (409, "run_not_ended")
    assert run_id in error["message"]
    assert completion.headers["x-should-retry"] == "false"
    assert run["status"] == "queued"
