"""The setup of `serve` before the service starts. Each slow step is printed.

Without DATABASE_URL, `serve` is for development on one machine: it starts the embedded PostgreSQL,
stores a secret key and an API key in the data folder, allows tools on this machine, and serves and
registers the tools of `examples/`. With DATABASE_URL, it only migrates that database."""

import asyncio
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_network
from typing import Final

from runward.api.http.address import check_address
from runward.quickstart import example_tools
from runward.quickstart.banner import Banner, ProgressPrinter, configured_providers
from runward.quickstart.local_secrets import load_or_create_secret, load_secret_key
from runward.settings import Settings
from runward.store import migrations
from runward.store.access import keys
from runward.store.postgres import embedded

LOOPBACK: Final = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
"""Private addresses of tools that are allowed by default with the embedded database."""


@dataclass(frozen=True, slots=True)
class Preparation:
    settings: Settings
    database_url: str
    banner: Banner


async def serve_everything(settings: Settings, *, examples: bool) -> None:
    """Serve until SIGTERM or SIGINT. Then stop everything that was started here."""
    check_address(settings.host, settings.port)  # before anything slow
    async with _exit_on_signals(), AsyncExitStack() as stack:
        with ProgressPrinter(sys.stdout) as progress:
            if settings.database_url is None:
                prepared = await _prepare_embedded(stack, settings, progress, examples=examples)
            else:
                prepared = await _prepare_server(
                    settings, settings.database_url.get_secret_value(), progress
                )
            progress.start_step("Loading the API and the worker")
            run_process = _load_run_process()
        await run_process(
            prepared.settings,
            prepared.database_url,
            with_api=True,
            with_worker=True,
            ready=partial(_print_banner, prepared.banner),
        )


async def _prepare_embedded(
    stack: AsyncExitStack, settings: Settings, progress: ProgressPrinter, *, examples: bool
) -> Preparation:
    data_dir = embedded.resolve_data_dir(settings.data_dir)
    server = await embedded.start(data_dir, report=progress.start_step)
    stack.push_async_callback(server.stop)
    progress.start_step("Migrating the database")
    secret_key = settings.secret_key or load_secret_key(data_dir)
    await migrations.upgrade(server.url, secret_key.get_secret_value())
    api_key = settings.bootstrap_key or load_or_create_secret(
        data_dir / "api-key", keys.make_secret
    )
    settings = settings.model_copy(
        update={
            "secret_key": secret_key,
            "bootstrap_key": api_key,
            "allow_private_targets": settings.allow_private_targets or LOOPBACK,
        }
    )
    tools_url = None
    if examples and example_tools.FOLDER.is_dir():
        progress.start_step("Registering the example tools")
        serving = example_tools.serve_example_tools(
            server.url,
            settings.list_secret_keys(),
            data_dir,
            prefer_port=settings.port + 1 if settings.port else 0,
        )
        tools_url = await stack.enter_async_context(serving)
    banner = Banner(
        address=settings.base_url,
        api_key=api_key.get_secret_value(),
        data_dir=data_dir,
        tools_url=tools_url,
        loopback_allowed=settings.allow_private_targets == LOOPBACK,
        providers=configured_providers(settings),
    )
    return Preparation(settings, server.url, banner)


async def _prepare_server(settings: Settings, url: str, progress: ProgressPrinter) -> Preparation:
    if settings.secret_key is None:
        raise SystemExit(
            "RUNWARD_SECRET_KEY is missing. Set the same value of 32 characters or "
            "more for every process.\n"
            "To create a value, run: openssl rand -hex 32"
        )
    direct = settings.listen_url.get_secret_value() if settings.listen_url else url
    if direct != url or not settings.pgbouncer:  # PgBouncer provides no session for migrations
        progress.start_step("Migrating the database")
        variable = "DATABASE_URL" if direct == url else "RUNWARD_LISTEN_URL"
        secret = settings.secret_key.get_secret_value()
        await migrations.upgrade(direct, secret, variable=variable)
    banner = Banner(settings.base_url, providers=configured_providers(settings))
    return Preparation(settings, url, banner)


def _load_run_process() -> "Callable[..., Awaitable[None]]":
    # These imports take a second, so the first progress lines are printed before.
    from runward.serve import run_process  # noqa: PLC0415

    return run_process


def _print_banner(banner: Banner, _: object) -> None:
    with suppress(OSError, ValueError):  # standard output is closed; the service still runs
        sys.stdout.write(banner.format())
        sys.stdout.flush()


@asynccontextmanager
async def _exit_on_signals() -> AsyncGenerator[None]:
    """Handle signals during startup. Later, `run_process` handles them.

    A second signal is ignored, because the cleanup of the first stops the embedded PostgreSQL.
    """
    task = asyncio.current_task()
    assert task is not None
    asked: signal.Signals | None = None

    def stop(number: signal.Signals) -> None:
        nonlocal asked
        if asked is None:
            asked = number
            task.cancel()

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, stop, number)
    try:
        yield
    except asyncio.CancelledError:
        if asked is not None:
            raise SystemExit(128 + asked) from None
        raise
