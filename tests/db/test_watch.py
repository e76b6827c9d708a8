"""What a worker looks at in case that a notification was lost, and what that costs."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import httpx2
import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import DBAPIError

from runward.domain.registry.mcp_servers import McpServerSpec
from runward.serve import watch_projects
from runward.store.live import changes
from runward.store.live.changes import SeenVersion
from runward.store.registry import mcp_servers
from runward.store.registry.mcp_credentials import SealedCredentials, StoredRefreshTokens
from runward.worker import watch as module
from runward.worker.watch import ChangeWatch
from tests.db.store import PROJECT, Store, with_option
from tests.hostile.inside import api


@contextmanager
def statements(store: Store) -> Generator[list[str]]:
    """Those that look at runs, and at projects."""
    texts = {changes._CHANGED_RUNS.text: "runs", changes._MARKS.text: "projects"}  # pyright: ignore[reportPrivateUsage]
    starts = {text.strip()[:20]: name for text, name in texts.items()}
    sent: list[str] = []

    def heard(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        sent.extend(name for start, name in starts.items() if statement.strip().startswith(start))

    engine = store.pool.sync_engine
    event.listen(engine, "before_cursor_execute", heard)
    try:
        yield sent
    finally:
        event.remove(engine, "before_cursor_execute", heard)


class Watched:
    def __init__(self, store: Store) -> None:
        self.carried: list[SeenVersion] = []
        self.changed: list[UUID] = []
        self.watch = ChangeWatch(
            store.database,
            carried=lambda: self.carried,
            on_run=lambda _: None,
            on_project=self.changed.append,
            on_new=self.changed.append,
        )


async def test_a_project_is_looked_at_while_its_runs_are_carried_and_for_a_while(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process without work asks nothing, however many projects it has worked for."""
    watched, run = Watched(store), await store.leased()
    watched.carried = [SeenVersion(run.project_id, run.id, run.fence, run.version)]
    monkeypatch.setattr(module, "MAX_SHARE", 1e9)
    with statements(store) as sent:
        await watched.watch.look()
        watched.carried = []
        await watched.watch.look()
        assert sent == ["runs", "projects"] * 2
        monkeypatch.setattr(module, "KEPT_SECONDS", 0.0)
        await watched.watch.look()
        await watched.watch.look()
        assert sent == ["runs", "projects"] * 2


async def test_projects_beyond_a_number_are_looked_at_only_while_they_are_carried(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched, run = Watched(store), await store.leased()
    monkeypatch.setattr(module, "MAX_PROJECTS", 0)
    watched.carried = [SeenVersion(run.project_id, run.id, run.fence, run.version)]
    await watched.watch.look()
    await watched.watch.look()
    assert watched.changed == [PROJECT, PROJECT]  # forgotten at first, and again with its mark
    watched.carried = []
    with statements(store) as sent:
        await watched.watch.look()
    assert sent == []


async def test_projects_with_many_tools_take_a_part_of_the_time(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look reads a row for every tool of these projects; changes of runs are found anyway."""
    watched = Watched(store)
    watched.watch.carry(PROJECT)
    monkeypatch.setattr(module, "MAX_SHARE", 1e-6)
    with statements(store) as sent:
        for _ in range(3):
            await watched.watch.look()
    assert sent == ["runs", "projects", "runs", "runs"]


async def test_a_list_of_mcp_tools_that_is_read_again_reports_no_change(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each change makes every process read all runs of the project again that it carries."""
    monkeypatch.setattr(module, "MAX_SHARE", 1e9)
    spec = McpServerSpec(name="box", url="http://127.0.0.1/mcp")
    async with store.pool.begin() as tx:
        server = await mcp_servers.add_server(tx, PROJECT, spec, SealedCredentials(), ())
    watched = Watched(store)
    watched.watch.carry(PROJECT)
    await watched.watch.look()
    watched.changed.clear()
    async with store.pool.begin() as tx:
        await mcp_servers.store_list(tx, server, ())
    tokens = StoredRefreshTokens(store.pool, store.vault, PROJECT, "box", server.id)
    assert await tokens.claim("token") is not None
    await watched.watch.look()
    assert watched.changed == []
    async with store.pool.begin() as tx:
        await mcp_servers.update_server(tx, server, spec, SealedCredentials(), ())
    await watched.watch.look()
    assert watched.changed == [PROJECT]


async def test_a_look_at_projects_that_fails_takes_a_part_of_the_time_too(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_SHARE", 1e-6)
    impatient = Store(with_option(store.url, "lock_timeout=50"))
    watched = Watched(impatient)
    watched.watch.carry(PROJECT)
    async with store.pool.begin() as tx:
        await tx.execute(text("LOCK TABLE tools"))
        with statements(impatient) as sent:
            with pytest.raises(DBAPIError):
                await watched.watch.look()
            await watched.watch.look()
    await impatient.close()
    assert sent == ["runs", "projects", "runs"]


async def test_an_api_process_sees_what_another_changed_though_no_notification_came(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_SHARE", 1e9)
    tool = {
        "name": "pay",
        "type": "client",
        "description": "Pays.",
        "parameters": {"type": "object"},
    }
    run = {"model": "offline:rules", "input": "hello", "tools": ["pay"]}

    async def seen_by(client: httpx2.AsyncClient) -> tuple[int, bool]:
        """The status of a run with the tool, and whether the project has Gemini."""
        started = await client.post("/v1/runs", json=run)
        told = (await client.get("/v1/capabilities")).json()
        return started.status_code, "gemini" in told["model_providers"]

    async with api(database_url) as (services, here), api(database_url) as (_, elsewhere):
        watch = watch_projects(services)
        with services.registry.toolbox.watch(PROJECT) as heard:
            services.queue.watch_project(PROJECT)
            await watch.look()
            assert not heard.is_set()
        assert (await elsewhere.post("/v1/tools", json=tool)).status_code == 201
        assert await seen_by(here) == (202, False)
        await watch.look()
        assert await seen_by(here) == (202, False)
        assert (await elsewhere.delete("/v1/tools/pay")).status_code == 204
        await elsewhere.put("/v1/secrets/GEMINI_API_KEY", json={"value": "k" * 32})
        await watch.look()
        assert await seen_by(here) == (422, True)
