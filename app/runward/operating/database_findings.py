"""What `doctor` finds in the database: is it there, migrated, in time, and this key's; and whether
the tools that it knows answer."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Final

from runward.domain.errors import OperatorError
from runward.egress.client import Egress
from runward.egress.responses import NoAnswer
from runward.operating.findings import Finding, check_secret_key
from runward.quickstart.example_tools import METADATA_MARK
from runward.quickstart.local_secrets import load_secret_key
from runward.quickstart.main import LOOPBACK
from runward.settings import Settings
from runward.store import readiness
from runward.store.access.vault import Vault
from runward.store.postgres import embedded
from runward.store.postgres.addresses import read_url
from runward.store.postgres.db import (
    DATABASE_ERRORS,
    Database,
    Tx,
    check_safety,
    open_database,
    read_clock,
)
from runward.store.postgres.embedded_home import EmbeddedError
from runward.store.readiness import UnmigratedDatabaseError, WrongSecretKeyError
from runward.store.registry import tool_registry
from runward.store.registry.tool_registry import WebhookToolAddress

WARN_SECONDS: Final = 2.0
FAIL_SECONDS: Final = 60.0
"""A tool's library refuses a signature that is minutes old."""
MAX_TOOLS: Final = 200
MAX_CONCURRENT: Final = 20
TOOL_SECONDS: Final = 5.0


async def check_database(settings: Settings) -> AsyncIterator[Finding]:
    async with AsyncExitStack() as stack:
        if settings.database_url is None:
            data_dir = embedded.resolve_data_dir(settings.data_dir)
            if not (data_dir / "postgres" / "data" / "PG_VERSION").exists():
                yield Finding(
                    "database",
                    "warn",
                    f"DATABASE_URL is not set, and there is no embedded database in {data_dir} yet",
                    "`make run` or `runward serve` makes one. On a server set DATABASE_URL.",
                )
                return
            try:
                server = await embedded.start(data_dir, report=lambda _: None)
            except EmbeddedError as error:
                yield Finding("database", "fail", str(error), "Do what it says, or see its log.")
                return
            stack.push_async_callback(server.stop)
            settings = settings.model_copy(
                update={
                    "secret_key": settings.secret_key or load_secret_key(data_dir),
                    "allow_private_targets": settings.allow_private_targets or LOOPBACK,
                }
            )
            url, shown = server.url, f"the embedded one in {data_dir}"
        else:
            url = settings.database_url.get_secret_value()
            try:
                shown = read_url(url).location
            except OperatorError as error:
                yield _create_failure("database", error)
                return
        database = open_database(url, pool_size=1, through_pgbouncer=settings.pgbouncer)
        stack.push_async_callback(database.close)
        try:
            async for finding in _check_reachable(settings, database, shown):
                yield finding
        except OperatorError as error:
            yield _create_failure("database", error)
            yield check_secret_key(settings)
        except DATABASE_ERRORS as error:
            yield Finding(
                "database", "fail", f"{shown} failed: {describe_error(error)}", "See its log."
            )
            yield check_secret_key(settings)


async def _check_reachable(
    settings: Settings, database: Database, shown: str
) -> AsyncIterator[Finding]:
    await check_safety(database)
    yield Finding("database", "ok", f"{shown} answers and keeps what it acknowledges")
    try:
        async with database.pool.connect() as tx:
            yield await _check_clock(tx)
            await readiness.check_schema(tx)
    except UnmigratedDatabaseError as error:
        yield _create_failure("migrations", error)
        yield check_secret_key(settings)
        return
    yield Finding("migrations", "ok", "the schema is this version's, or a newer one's")
    async with database.pool.connect() as tx:
        yield await _check_secret_key(settings, tx)
    async with database.pool.connect() as tx:
        known = await tool_registry.list_webhook_tools(tx, MAX_TOOLS)
    async for finding in _check_tools(settings, known):
        yield finding


async def _check_clock(tx: Tx) -> Finding:
    before = datetime.now(UTC)
    there = await read_clock(tx)
    after = datetime.now(UTC)
    ahead, behind = (before - there).total_seconds(), (there - after).total_seconds()
    apart = max(ahead, behind)
    if apart < WARN_SECONDS:
        return Finding("clock", "ok", "this machine and the database agree")
    way = "ahead of" if ahead > behind else "behind"
    return Finding(
        "clock",
        "fail" if apart > FAIL_SECONDS else "warn",
        f"this machine is {apart:.0f} seconds {way} the database",
        "Synchronise both with NTP (`timedatectl set-ntp true`, where there is systemd): tools "
        "refuse signatures with a wrong time.",
    )


async def _check_secret_key(settings: Settings, tx: Tx) -> Finding:
    finding = check_secret_key(settings)
    if settings.secret_key is None:
        return finding
    try:
        await readiness.check_database(tx, Vault(settings.secret_key.get_secret_value()))
    except WrongSecretKeyError as error:
        return _create_failure("secret key", error)
    except UnmigratedDatabaseError:  # no process has been started on it yet
        pass
    if settings.database_url is None:
        return Finding("secret key", "ok", "the one that is kept with the data opens its secrets")
    return finding


async def _check_tools(
    settings: Settings, known: list[WebhookToolAddress]
) -> AsyncIterator[Finding]:
    if not known:
        yield Finding("tools", "ok", "no tool with a URL is registered")
        return
    try:
        egress = Egress(
            allow_private=settings.allow_private_targets, allowed_ports=settings.allowed_ports
        )
    except ValueError:
        return  # said of the ports already
    turn = asyncio.Semaphore(MAX_CONCURRENT)

    async def ask(tool: WebhookToolAddress) -> Finding | None:
        async with turn:
            return await _check_tool(egress, tool)

    try:
        findings = await asyncio.gather(*(ask(tool) for tool in known))
    finally:
        await egress.aclose()
    bad = [finding for finding in findings if finding is not None]
    if len(bad) < len(known):
        names = [tool.name for tool, found in zip(known, findings, strict=True) if found is None]
        more = f" and {len(names) - 10} more" if len(names) > 10 else ""
        yield Finding("tools", "ok", f"answer: {', '.join(names[:10])}{more}")
    for finding in bad:
        yield finding


async def _check_tool(egress: Egress, tool: WebhookToolAddress) -> Finding | None:
    """OPTIONS is safe (RFC 9110, 9.2.1): it does nothing there. Any answer will do. None: fine."""
    answer = await egress.send(
        "OPTIONS", tool.url, {}, b"", seconds=TOOL_SECONDS, max_response_bytes=1024
    )
    if not isinstance(answer, NoAnswer):
        return None
    if answer.permanent:
        return Finding(
            "tools",
            "fail",
            f"{tool.name}: {answer.detail}",
            "Do so if it belongs there; otherwise correct its URL.",
        )
    if tool.metadata.get(METADATA_MARK) is True:
        return Finding(
            "tools",
            "warn",
            f"the example {tool.name} does not answer: {answer.detail}",
            "`serve` serves the examples while it runs.",
        )
    return Finding(
        "tools",
        "fail",
        f"{tool.name} at {tool.url} does not answer: {answer.detail}",
        f"Start it, or correct its URL: runward tools change {tool.name} --to URL",
    )


def _create_failure(check: str, error: OperatorError) -> Finding:
    """Its first sentence is the detail, and what follows is the remedy."""
    detail, _, remedy = str(error).partition(". ")
    return Finding(check, "fail", detail, remedy)


def describe_error(error: BaseException) -> str:
    """Its first line. Some errors, such as a TimeoutError, have no text."""
    return str(getattr(error, "orig", None) or error).partition("\n")[0] or type(error).__name__
