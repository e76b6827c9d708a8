"""Running processes: the API, the worker, or both, from open services to a clean end."""

import asyncio
import gc
import logging
import signal
from collections.abc import AsyncGenerator, Callable, Generator, Set
from contextlib import asynccontextmanager, contextmanager
from typing import Final
from uuid import UUID

import structlog
import uvicorn
from pydantic import SecretStr

from runward.api import probes
from runward.api.app import Application, create_app
from runward.api.events.outdated import wake_outdated_followers
from runward.api.http.address import check_address
from runward.api.http.connections import make_limited_protocol
from runward.api.http.response_sender import should_log
from runward.api.registry.key_models import Key
from runward.api.routers import ROUTERS
from runward.api.schedules.slot_starter import SlotStarter
from runward.console import pages, session
from runward.domain.audit import AuditAction
from runward.domain.errors import OperatorError
from runward.metrics.event_loop import measure_lag
from runward.services import NoWorker, Services
from runward.settings import Settings
from runward.store import readiness
from runward.store.access import audit, keys
from runward.store.access.audit import OPERATOR, AuditChange
from runward.store.live.listener import Listener
from runward.store.postgres.addresses import read_url
from runward.store.registry import plugin_sync
from runward.tools import signing
from runward.version import VERSION
from runward.wiring import open_services
from runward.worker.main import Worker
from runward.worker.process import run_worker
from runward.worker.watch import ChangeWatch

log = structlog.get_logger()

GARBAGE_THRESHOLD: Final = 20_000
"""New objects between two looks at the youngest ones; Python's own is 700 to 2,000."""
_HIDDEN_ENDINGS: Final = ("_url", "_endpoint", "_id", "_prices")
"""Endings of settings that can contain a secret, such as a password in a URL."""
STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
GRACE_SECONDS: Final = 5
"""How long open HTTP requests may take to end after SIGTERM; streams end at once."""


class TaskEndedError(OperatorError):
    """A task that runs as long as the process does has ended, so the process ends as well."""


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: ours stop the worker too."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


async def run_process(
    settings: Settings,
    database_url: str,
    *,
    with_api: bool,
    with_worker: bool,
    ready: Callable[[Services], None] | None = None,
) -> None:
    """Until SIGTERM or SIGINT. `ready` is called once requests are answered."""
    port = settings.port if with_api else settings.worker_port
    if port is not None:
        check_address(settings.host, port)
    async with open_services(settings, database_url) as services, handle_stop_signals() as stop:
        await _prepare_database(settings, services)
        log.info(
            "starting", serves=with_api, works=with_worker, **describe_start(settings, database_url)
        )
        _tune_garbage_collection()
        worker = None
        if with_worker:
            worker = Worker(
                services, concurrency=settings.worker_concurrency, lease=settings.lease_seconds
            )
            services.queue.worker = worker
        background = _start_background(services, worker, with_api=with_api)
        parts: set[asyncio.Task[None]] = set()
        if worker is not None:
            start_slot = build_slot_starter(services).start
            working = run_worker(worker, stop, settings.drain_seconds, VERSION, start_slot)
            parts.add(asyncio.create_task(working, name="worker"))
        if with_api:
            serve = _serve_http(settings, services, stop, ready)
            parts.add(asyncio.create_task(serve, name="api"))
        elif port is not None:
            probing = _serve_probes(settings, services, port)
            background.add(asyncio.create_task(probing, name="probes"))
        await supervise(parts, background, stop, lambda: _announce_stop(services))


def _start_background(
    services: Services, worker: Worker | None, *, with_api: bool
) -> set[asyncio.Task[None]]:
    """Start the tasks that run until they are cancelled."""
    storage, feed = services.storage, services.live.feed
    working = {
        "listener": build_listener(services, worker, with_api=with_api).run(),
        "relay": feed.run_relay(),
        "pool": storage.database.close_surplus_forever(),
        "lag": measure_lag(),
        "data_keys": services.key_ring.run(),
    }
    if with_api:
        working["following"] = wake_outdated_followers(storage, feed)
    if worker is None:
        working["watch"] = watch_projects(services).run()
    return {asyncio.create_task(task, name=name) for name, task in working.items()}


async def supervise(
    parts: Set[asyncio.Task[None]],
    background: Set[asyncio.Task[None]],
    stop: asyncio.Event,
    on_stop: Callable[[], None],
) -> None:
    """Wait until `stop` is set or a task ends, then let `parts` finish and cancel `background`.

    `parts` end by themselves once `stop` is set; `background` tasks run until they are cancelled.
    Raises the error of a task that failed, and TaskEndedError for one that returned early.
    """
    tasks = [*parts, *background]
    asked = asyncio.create_task(stop.wait(), name="stop")
    try:
        done, _ = await asyncio.wait([asked, *tasks], return_when=asyncio.FIRST_COMPLETED)
        early = [task for task in tasks if task in done] if asked not in done else []
        for task in early:
            log.error("task_ended", task=task.get_name(), error=repr(_get_failure(task)))
        stop.set()
        on_stop()
        if parts:
            await asyncio.wait(parts)
    finally:
        failed = [task for task in tasks if task.done() and _get_failure(task) is not None]
        for task in [asked, *tasks]:
            task.cancel()
        await asyncio.gather(asked, *tasks, return_exceptions=True)
    for task in [*early, *failed]:
        raise _get_failure(task) or TaskEndedError(
            f"The task '{task.get_name()}' ended unexpectedly."
        )


def _get_failure(task: asyncio.Task[None]) -> BaseException | None:
    if task.cancelled():
        return TaskEndedError(f"The task '{task.get_name()}' was cancelled.")
    return task.exception()


async def _prepare_database(settings: Settings, services: Services) -> None:
    """Check the database, and store in it what this process brings along."""
    async with services.storage.begin() as tx:
        await readiness.prepare_database(tx, services.storage.vault)
    if settings.bootstrap_key is not None:
        async with services.storage.begin() as tx:
            secret = settings.bootstrap_key.get_secret_value()
            created = await keys.ensure_bootstrap_key(
                tx, services.storage.vault, name="bootstrap", secret=secret
            )
            if created is not None:
                key = Key.from_row(created)
                change = AuditChange(
                    AuditAction.KEY_CREATED, key.id, after=key.model_dump(mode="json")
                )
                await audit.append(tx, keys.DEFAULT_PROJECT, OPERATOR, change)
    async with services.storage.begin() as tx:
        specs = services.registry.plugins.specs
        await plugin_sync.sync_plugins(tx, services.storage.vault, specs, signing.make_secret)


def describe_start(settings: Settings, database_url: str) -> dict[str, object]:
    """What a process is, for its log: version, schema, database and settings."""
    return {
        "version": VERSION,
        "schema": readiness.list_revisions()[-1],
        "database": read_url(database_url).location,
        "settings": describe_settings(settings),
    }


def describe_settings(settings: Settings) -> dict[str, object]:
    """Return the settings that differ from their defaults. Of secrets, and of URLs that may hold
    them, only that they are set."""
    given: dict[str, object] = {}
    shown = settings.model_dump(mode="json")
    for name, field in type(settings).model_fields.items():
        value: object = getattr(settings, name)
        if value != field.get_default(call_default_factory=True):
            hidden = isinstance(value, SecretStr) or name.endswith(_HIDDEN_ENDINGS)
            given[name] = "(set)" if hidden else shown[name]
    return given


def watch_projects(services: Services) -> ChangeWatch:
    """Poll the projects of the API's clients, as a worker does those of its runs."""
    forget = services.registry.forget
    watch = ChangeWatch(
        services.storage.database,
        carried=list,
        on_run=lambda _: None,
        on_project=forget,
        on_new=lambda project_id: forget(project_id, tell=False),
    )
    services.queue.worker = NoWorker(watch.carry)
    return watch


def build_slot_starter(services: Services) -> SlotStarter:
    """A worker also needs the API, which accepts the runs of schedules."""
    return SlotStarter(services.storage, services.registry, services.queue)


def build_listener(services: Services, worker: Worker | None, *, with_api: bool) -> Listener:
    """Only an API has readers of events, and only a worker executes runs."""

    def on_run(run_id: UUID | None) -> None:
        services.live.feed.notify_changed(run_id)
        if worker is not None:
            worker.executions.notify_changed(run_id)

    def on_tools(project_id: UUID | None) -> None:
        services.registry.forget(project_id)
        if worker is not None:
            worker.executions.notify_tools_changed(project_id)

    feed = services.live.feed
    on_payload: dict[str, Callable[[str], None]] = {}
    if worker is not None:
        on_payload |= {
            "runward_workers": worker.turns.receive,
            "runward_follow": feed.receive_follow,
        }
    if with_api:
        on_payload["runward_deltas"] = feed.receive_deltas
    return Listener(
        services.direct_url,
        on_run=on_run,
        on_tools=on_tools,
        on_step=on_run if with_api else None,
        on_work=worker.wake_for if worker is not None else None,
        on_payload=on_payload,
        own_backends=services.own_backends,
    )


def _announce_stop(services: Services) -> None:
    """To all whose requests are held or streamed."""
    services.live.stopping.set()
    services.live.feed.notify_changed(None)
    services.registry.toolbox.forget(None)


def _tune_garbage_collection() -> None:
    """Exclude all existing objects from garbage collection, and collect less often.

    They live as long as the process. A collection before would take a tenth of a second to free
    2,000 of 300,000 objects.
    """
    gc.freeze()
    gc.set_threshold(GARBAGE_THRESHOLD, 10, 10)


async def _serve_http(
    settings: Settings,
    services: Services,
    stop: asyncio.Event,
    ready: Callable[[Services], None] | None,
) -> None:
    app = create_app(
        services,
        (*ROUTERS, session.router(), pages.router()),
        hosts=settings.hosts,
        logs_requests=settings.access_log,
    )
    server = _make_server(settings, app, settings.port)
    serving = asyncio.create_task(server.serve())
    stopping = asyncio.create_task(stop.wait())
    try:
        while not (server.started or serving.done()):  # noqa: ASYNC110  # uvicorn has no event
            await asyncio.sleep(0.01)
        if server.started and ready is not None:
            ready(services)
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        _announce_stop(services)
        server.should_exit = True
        await serving
    finally:
        stopping.cancel()


async def _serve_probes(settings: Settings, services: Services, port: int) -> None:
    """Serve the health and the metrics of a worker until cancelled, also while it drains."""
    app = Application(services, (probes.routes,), settings.hosts)
    server = _make_server(settings, app, port)
    serving = asyncio.create_task(server.serve())
    try:
        await asyncio.shield(serving)
    finally:
        server.should_exit = True
        await serving


def _make_server(settings: Settings, app: Application, port: int) -> _Server:
    logging.getLogger("uvicorn.error").addFilter(should_log)
    return _Server(
        uvicorn.Config(
            app,
            http=make_limited_protocol(settings.max_connections),
            host=settings.host,
            port=port,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            proxy_headers=bool(settings.trusted_proxies),
            forwarded_allow_ips=[str(network) for network in settings.trusted_proxies],
            server_header=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
            timeout_keep_alive=75,
        )
    )


@asynccontextmanager
async def handle_stop_signals() -> AsyncGenerator[asyncio.Event]:
    """Set at the first SIGTERM, SIGINT or SIGHUP; a second Ctrl-C ends the process at once.

    Afterwards these signals are ignored, so that the embedded PostgreSQL is stopped in any case.
    """
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def ask(number: signal.Signals) -> None:
        if stop.is_set() and number is signal.SIGINT:
            raise SystemExit(128 + number)
        stop.set()
        log.info("stopping", signal=number.name)

    hang_up = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN  # it is, under nohup
    numbers = [one for one in STOP_SIGNALS if hang_up or one is not signal.SIGHUP]
    for number in numbers:
        loop.add_signal_handler(number, ask, number)
    try:
        yield stop
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)
