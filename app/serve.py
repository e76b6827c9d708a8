"""Running processes: the API, the worker, or both, from open services to a clean end."""

import asyncio
import gc
import signal
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Final
from uuid import UUID

import structlog
import uvicorn

from app.api.app import create_app
from app.api.following import wake_those_behind
from app.api.routers import ROUTERS
from app.console import pages, session
from app.settings import Settings
from app.store import keys, plugin_sync
from app.store.notify import Listener
from app.tools import signing
from app.wiring import Services, open_services
from app.worker.main import Worker

log = structlog.get_logger()

GARBAGE_THRESHOLD: Final = 20_000
"""New objects between two looks at the youngest ones; Python's own is 700 to 2,000."""
GRACE_SECONDS: Final = 5
"""How long open HTTP requests may take to end after SIGTERM; streams end at once."""


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: ours stop the worker too."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


async def run_process(
    settings: Settings,
    database_url: str,
    *,
    serves: bool,
    works: bool,
    ready: Callable[[Services], None] | None = None,
) -> None:
    """Until SIGTERM or SIGINT. `ready` is called once requests are answered."""
    async with open_services(settings, database_url) as services, _stop_signal() as stop:
        services.mcp_wait = settings.mcp_wait_seconds
        if settings.bootstrap_key is not None:
            async with services.database.pool.begin() as tx:
                secret = settings.bootstrap_key.get_secret_value()
                await keys.ensure_key(tx, services.vault, name="bootstrap", secret=secret)
        async with services.database.pool.begin() as tx:
            specs = services.plugins.specs
            await plugin_sync.sync_plugins(tx, services.vault, specs, signing.make_secret)
        _settle_memory()
        worker = None
        if works:
            worker = Worker(
                services,
                concurrency=settings.worker_concurrency,
                lease=settings.lease_seconds,
                drain=settings.drain_seconds,
            )
            services.reserve_slot = worker.reserve
            services.free_slot = worker.free
            services.adopt = worker.adopt
            services.wake_worker = worker.wake
        listener = _listener(services, worker)
        background = [
            asyncio.create_task(listener.run(), name="listener"),
            asyncio.create_task(services.feed.relay(), name="relay"),
        ]
        opening = asyncio.create_task(services.models.open(), name="models")
        parts = [asyncio.create_task(worker.run(stop), name="worker")] if worker else []
        if serves:
            background.append(asyncio.create_task(wake_those_behind(services), name="following"))
            serve = _serve(settings, services, stop, ready)
            parts.append(asyncio.create_task(serve, name="api"))
        elif ready is not None:
            ready(services)
        try:
            await asyncio.wait([*parts, *background], return_when=asyncio.FIRST_COMPLETED)
            stop.set()
            _say_that_it_stops(services)
            await asyncio.gather(*parts)
        finally:
            for task in [*background, opening]:
                task.cancel()
            await asyncio.gather(*background, opening, return_exceptions=True)


def _listener(services: Services, worker: Worker | None) -> Listener:
    def on_run(run_id: UUID | None) -> None:
        services.feed.hint(run_id)
        if worker is not None:
            worker.nudge(run_id)

    def on_work() -> None:
        if worker is not None:
            worker.wake()

    def on_tools(project_id: UUID | None) -> None:
        services.toolbox.forget(project_id)
        services.policies.forget(project_id)
        services.engine.models.forget(project_id)
        services.mcp.forget(project_id)
        if worker is not None:
            worker.tools_changed(project_id)

    feed = services.feed
    return Listener(
        services.direct_url,
        on_run=on_run,
        on_work=on_work,
        on_tools=on_tools,
        on_follow=feed.asked,
        on_deltas=feed.relayed,
        own=services.own_backends,
    )


def _say_that_it_stops(services: Services) -> None:
    """To all whose requests are held or streamed."""
    services.stopping.set()
    services.feed.hint(None)
    services.toolbox.forget(None)


def _settle_memory() -> None:
    """What was made until now stays for the life of the process: the collector need not look at
    it again and again, and at the rest less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE_THRESHOLD, 10, 10)


async def _serve(
    settings: Settings,
    services: Services,
    stop: asyncio.Event,
    ready: Callable[[Services], None] | None,
) -> None:
    server = _Server(
        uvicorn.Config(
            create_app(services, (*ROUTERS, session.router(), pages.router())),
            host=settings.host,
            port=settings.port,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
            timeout_keep_alive=75,
        )
    )
    serving = asyncio.create_task(server.serve())
    stopping = asyncio.create_task(stop.wait())
    try:
        while not (server.started or serving.done()):  # noqa: ASYNC110  # uvicorn has no event
            await asyncio.sleep(0.01)
        if server.started and ready is not None:
            ready(services)
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        _say_that_it_stops(services)
        server.should_exit = True
        await serving
    finally:
        stopping.cancel()


@asynccontextmanager
async def _stop_signal() -> AsyncGenerator[asyncio.Event]:
    """Set at the first SIGTERM or SIGINT; a second Ctrl-C ends the process at once."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def ask(number: signal.Signals) -> None:
        if stop.is_set() and number is signal.SIGINT:
            raise SystemExit(128 + number)
        log.info("stopping", signal=number.name)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ask, number)
    try:
        yield stop
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
