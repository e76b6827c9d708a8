"""The checks of `doctor`: the settings; the database, its migrations, its clock and its secret key;
and whether the registered tools answer."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Final

from runward.domain.errors import OperatorError
from runward.egress.addresses import Network, parse_ports
from runward.egress.client import Egress
from runward.egress.responses import NoAnswer
from runward.operating.finding import Finding, create_failure
from runward.operating.key_findings import check_keys, check_secret_key
from runward.quickstart.banner import configured_providers
from runward.quickstart.example_tools import METADATA_MARK
from runward.quickstart.local_secrets import load_secret_key
from runward.quickstart.main import LOOPBACK
from runward.settings import Settings
from runward.store import readiness
from runward.store.postgres import embedded, row_security
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
from runward.store.postgres.replica import MAX_LAG, is_current, open_replica
from runward.store.readiness import UnmigratedDatabaseError
from runward.store.registry import tool_registry
from runward.store.registry.tool_registry import WebhookToolAddress
from runward.tools.plugin.errors import PluginError
from runward.tools.plugin.loader import load_plugins
from runward.tools.plugin.registry import PluginHost

METADATA_ADDRESSES: Final = tuple(
    ip_address(one) for one in ("169.254.169.254", "168.63.129.16", "fd00:ec2::254")
)
"""Addresses at which clouds provide a machine's credentials."""
MIN_PREFIX_LENGTHS: Final = {4: 8, 6: 32}
"""A shorter prefix is wider than one organization's private network."""
WEB_PORTS: Final = frozenset({80, 443})
SYSTEM_PORTS: Final = range(1, 1024)


def check_settings(settings: Settings) -> Iterator[Finding]:
    yield _check_ports(settings)
    yield _check_targets(settings)
    yield _check_models(settings)
    yield from _check_plugins(settings)


def _check_ports(settings: Settings) -> Finding:
    try:
        ports = parse_ports(settings.allowed_ports)
    except ValueError as error:
        return Finding(
            "ports", "fail", f"RUNWARD_ALLOWED_PORTS: {error}", "Write it as 80,443,1024-65535"
        )
    if not ports:
        return Finding(
            "ports", "fail", "RUNWARD_ALLOWED_PORTS allows no port", "Write it as 80,443,1024-65535"
        )
    others = {port for one in ports for port in one if port in SYSTEM_PORTS} - WEB_PORTS
    if others:
        shown = ", ".join(str(port) for port in sorted(others)[:5])
        return Finding(
            "ports",
            "warn",
            f"Runward may call tools at ports that other services use: {shown}"
            + (" …" if len(others) > 5 else ""),
            "Remove the ports that no tool uses from RUNWARD_ALLOWED_PORTS.",
        )
    return Finding("ports", "ok", f"Runward may call tools at the ports {settings.allowed_ports}")


def _check_targets(settings: Settings) -> Finding:
    opened = settings.allow_private_targets
    if not opened:
        where = "public addresses"
        if settings.database_url is None:
            where += (
                " and addresses of this machine, which is the default with the embedded database"
            )
        return Finding("targets", "ok", f"Runward may call tools at {where}")
    shown = ", ".join(str(network) for network in opened)
    if bad := [network for network in opened if _is_dangerous(network)]:
        return Finding(
            "targets",
            "fail",
            f"RUNWARD_ALLOW_PRIVATE_TARGETS includes {', '.join(map(str, bad))}. "
            "Anyone who can register a tool can then read the credentials that "
            "clouds provide at these addresses",
            "List only the networks in which tools run, such as 10.20.0.0/16.",
        )
    if wide := [one for one in opened if one.prefixlen < MIN_PREFIX_LENGTHS[one.version]]:
        return Finding(
            "targets",
            "warn",
            f"RUNWARD_ALLOW_PRIVATE_TARGETS includes more than one private network: {wide[0]}",
            "List only the networks in which tools run, such as 10.20.0.0/16.",
        )
    own = settings.database_url is not None and any(one in LOOPBACK for one in opened)
    note = ", which includes every port of this machine" if own else ""
    return Finding("targets", "ok", f"Runward may also call tools in {shown}{note}")


def _is_dangerous(network: Network) -> bool:
    return any(one.version == network.version and one in network for one in METADATA_ADDRESSES)


def _check_plugins(settings: Settings) -> Iterator[Finding]:
    """Load the plugins in the same way as a worker at startup."""
    try:
        plugins = load_plugins(settings.plugins)
    except PluginError as error:
        yield Finding("plugins", "fail", str(error), "A worker stops at startup with this error.")
        return
    if names := sorted(spec.name for spec in PluginHost(plugins, threads=1, secrets={}).specs):
        yield Finding("plugins", "ok", f"loaded: {', '.join(names)}")


def _check_models(settings: Settings) -> Finding:
    pair = (settings.aws_access_key_id, settings.aws_secret_access_key)
    if (pair[0] is None) != (pair[1] is None):
        return Finding(
            "models",
            "fail",
            "only one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is set",
            "Set both, or AWS_BEARER_TOKEN_BEDROCK.",
        )
    bedrock = pair[0] is not None or settings.aws_bearer_token_bedrock is not None
    if bedrock and settings.aws_region is None:
        return Finding(
            "models",
            "fail",
            "a key for Amazon Bedrock is set, but AWS_REGION is not",
            "Set AWS_REGION, such as eu-central-1.",
        )
    names = [name for name in configured_providers(settings) if name != "openai-responses"]
    if not names:
        return Finding(
            "models",
            "warn",
            "no API key of a model provider is set: only offline:rules and "
            "projects with their own keys can be used",
            "Set OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY or the "
            "variables of Amazon Bedrock.",
        )
    return Finding(
        "models",
        "ok",
        f"credentials are set for {', '.join(names)}; no request was sent to check them",
    )


WARN_SECONDS: Final = 2.0
FAIL_SECONDS: Final = 60.0
"""Clock difference that fails the check. Webhook libraries reject signatures that are minutes
old."""
MAX_TOOLS: Final = 200
MAX_CONCURRENT: Final = 20
TOOL_SECONDS: Final = 5.0


async def _inspect_nothing(_: Database) -> None:
    pass


async def check_database(
    settings: Settings, inspect: Callable[[Database], Awaitable[None]] = _inspect_nothing
) -> AsyncIterator[Finding]:
    """Check the database. `inspect` is called with the database if it is reachable."""
    async with AsyncExitStack() as stack:
        if settings.database_url is None:
            data_dir = embedded.resolve_data_dir(settings.data_dir)
            if not (data_dir / "postgres" / "data" / "PG_VERSION").exists():
                yield Finding(
                    "database",
                    "warn",
                    f"DATABASE_URL is not set, and {data_dir} has no embedded database yet",
                    "`make run` and `runward serve` create an embedded database. "
                    "On a server, set DATABASE_URL.",
                )
                return
            try:
                server = await embedded.start(data_dir, report=lambda _: None)
            except EmbeddedError as error:
                yield Finding(
                    "database",
                    "fail",
                    str(error),
                    "Follow the instructions in the message, or see the log of the database.",
                )
                return
            stack.push_async_callback(server.stop)
            settings = settings.model_copy(
                update={
                    "secret_key": settings.secret_key or load_secret_key(data_dir),
                    "allow_private_targets": settings.allow_private_targets or LOOPBACK,
                }
            )
            url, shown = server.url, f"the embedded database in {data_dir}"
        else:
            url = settings.database_url.get_secret_value()
            try:
                shown = read_url(url).location
            except OperatorError as error:
                yield create_failure("database", error)
                return
        database = open_database(url, pool_size=1, through_pgbouncer=settings.pgbouncer)
        stack.push_async_callback(database.close)
        try:
            async for finding in _check_reachable(settings, database, shown):
                yield finding
            await inspect(database)
        except OperatorError as error:
            yield create_failure("database", error)
            yield check_secret_key(settings)
        except DATABASE_ERRORS as error:
            yield Finding(
                "database",
                "fail",
                f"{shown} failed: {describe_error(error)}",
                "See the log of the database.",
            )
            yield check_secret_key(settings)


async def _check_reachable(
    settings: Settings, database: Database, shown: str
) -> AsyncIterator[Finding]:
    await check_safety(database)
    yield Finding(
        "database", "ok", f"{shown} answers, and its settings keep every acknowledged write"
    )
    try:
        async with database.pool.connect() as tx:
            yield await _check_clock(tx)
            await readiness.check_schema(tx)
    except UnmigratedDatabaseError as error:
        yield create_failure("migrations", error)
        yield check_secret_key(settings)
        return
    yield Finding("migrations", "ok", "the schema has the revision of this version or a newer one")
    async for finding in check_keys(settings, database):
        yield finding
    async with database.pool.connect() as tx:
        if await row_security.is_enabled(tx):
            yield await check_row_security(tx)
        if settings.replica_url is not None:
            yield await check_replica(settings.replica_url.get_secret_value())
        known = await tool_registry.list_webhook_tools(tx, MAX_TOOLS)
    async for finding in _check_tools(settings, known):
        yield finding


async def check_row_security(tx: Tx) -> Finding:
    name = "row-level security"
    if unprotected := await row_security.find_unprotected(tx):
        return Finding(
            name,
            "fail",
            f"{len(unprotected)} tables have no policy: {', '.join(unprotected)}",
            "Run `python -m runward row-level-security enable` as the owner of the tables.",
        )
    if await row_security.is_bypassed(tx):
        return Finding(
            name,
            "warn",
            "PostgreSQL ignores the policies for the role of this process",
            row_security.BYPASS_HINT,
        )
    return Finding(name, "ok", "PostgreSQL restricts each connection to the rows of one project")


async def check_replica(url: str) -> Finding:
    try:
        replica = open_replica(url, pool_size=1)
    except OperatorError as error:
        return create_failure("replica", error)
    hint = "Check RUNWARD_REPLICA_URL, and the replication of the server."
    try:
        async with replica.autocommit.connect() as tx:
            current = await is_current(tx)
    except DATABASE_ERRORS as error:
        return Finding("replica", "warn", f"does not answer: {describe_error(error)}", hint)
    finally:
        await replica.close()
    if current:
        return Finding("replica", "ok", "the standby has replayed the commits of the last seconds")
    lag = f"has replayed no commit of the last {MAX_LAG.seconds} seconds"
    return Finding("replica", "warn", f"is no standby, or {lag}. The primary is read instead", hint)


async def _check_clock(tx: Tx) -> Finding:
    before = datetime.now(UTC)
    there = await read_clock(tx)
    after = datetime.now(UTC)
    ahead, behind = (before - there).total_seconds(), (there - after).total_seconds()
    apart = max(ahead, behind)
    if apart < WARN_SECONDS:
        return Finding("clock", "ok", "the clocks of this machine and the database agree")
    way = "ahead of" if ahead > behind else "behind"
    return Finding(
        "clock",
        "fail" if apart > FAIL_SECONDS else "warn",
        f"the clock of this machine is {apart:.0f} seconds {way} the clock of the database",
        "Synchronize both clocks with NTP (with systemd: `timedatectl set-ntp "
        "true`). Tools reject signatures with a wrong time.",
    )


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
        return  # the check of the ports has reported this
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
        yield Finding("tools", "ok", f"these tools answer: {', '.join(names[:10])}{more}")
    for finding in bad:
        yield finding


async def _check_tool(egress: Egress, tool: WebhookToolAddress) -> Finding | None:
    """Send OPTIONS, which is safe (RFC 9110, section 9.2.1). Return None if the tool answers in any
    way."""
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
            "Allow the address if the tool runs there. Otherwise, correct the URL of the tool.",
        )
    if tool.metadata.get(METADATA_MARK) is True:
        return Finding(
            "tools",
            "warn",
            f"the example tool {tool.name} does not answer: {answer.detail}",
            "`runward serve` runs the example tools.",
        )
    return Finding(
        "tools",
        "fail",
        f"{tool.name} at {tool.url.partition('?')[0]} does not answer: {answer.detail}",
        f"Start the tool, or correct its URL: runward tools update {tool.name} --to URL",
    )


def describe_error(error: BaseException) -> str:
    """Return the error's first line, or its type if it has no text, such as a TimeoutError."""
    return str(getattr(error, "orig", None) or error).partition("\n")[0] or type(error).__name__
