"""The composition root: Settings in, open Services out. It chooses and connects; no logic."""

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from typing import Protocol, TypeVar
from uuid import UUID

from pydantic import SecretStr

from runward.domain.errors import McpUnreachableError, OperatorError, UnavailableError
from runward.domain.ids import ProjectId
from runward.domain.registry.mcp_servers import ListedTool
from runward.domain.retention import DataClass, RetentionLimits
from runward.domain.run.state import Call, RunState
from runward.egress.client import Egress
from runward.llm.catalog import ModelCatalog
from runward.llm.prices import Price, Prices
from runward.llm.providers.access import AwsKey, ProviderAccess, ProviderName
from runward.loop.children import Children
from runward.loop.engine import (
    Engine,
    Guards,
    ModelAccess,
    RunStorage,
    ToolAccess,
    ToolRules,
)
from runward.loop.inline_tools import InlineTools
from runward.loop.notices import Notices
from runward.loop.project_cache import AgentCache, PolicyCache, ProjectModels
from runward.loop.spans import Tracing
from runward.loop.toolbox import Toolbox
from runward.services import (
    Access,
    Live,
    Registry,
    RequestLimits,
    RunQueue,
    Services,
    Storage,
)
from runward.settings import Settings
from runward.store.access import console_sessions, keys
from runward.store.access.key_checks import KeyChecks
from runward.store.access.keys import Authenticator
from runward.store.access.secrets import read_secrets
from runward.store.access.vault import CallRef, SecretUnreadableError, Vault
from runward.store.data_keys.key_ring import KeyRing
from runward.store.data_keys.secret_keys import open_providers
from runward.store.live.feed import Feed
from runward.store.live.relay import Relay
from runward.store.postgres import project_scope, row_security
from runward.store.postgres.db import (
    Database,
    check_address,
    check_safety,
    open_database,
    retry_on_outage,
)
from runward.store.postgres.replica import open_replica
from runward.store.registry import mcp_credentials, mcp_servers
from runward.store.registry.mcp_credentials import StoredRefreshTokens
from runward.store.runs.gate import GroupCommit
from runward.store.runs.quarantine import Quarantine
from runward.store.runs.views import find_open_calls
from runward.store.runs.writers import AcceptWriter, StepWriter
from runward.tools import signing
from runward.tools.base import AGENT_INVOKER, CLIENT_INVOKER, HOSTED_INVOKER, ToolInvoker
from runward.tools.guards import GuardClient
from runward.tools.mcp import sdk
from runward.tools.mcp.invoker import McpInvoker
from runward.tools.mcp.open_calls import HeldCall
from runward.tools.mcp.session import ConnectableServer, ensure_valid_credentials
from runward.tools.plugin.loader import load_plugins
from runward.tools.plugin.registry import PluginHost
from runward.tools.rules import RuleEvaluator
from runward.tools.signing import SignedPostClient
from runward.tools.webhook.headers import ReadSecrets
from runward.tools.webhook.invoker import WebhookInvoker


@asynccontextmanager
async def open_services(settings: Settings, database_url: str) -> AsyncGenerator[Services]:
    async with AsyncExitStack() as stack:
        database = await _open_database(settings, database_url, stack)
        key_ring, vault = await _open_keys(settings, database)
        own_backends: set[int] = set()
        steps = StepWriter(database.pool, settings.lease_seconds, own_backends)
        stack.push_async_callback(steps.close)
        accepts = AcceptWriter(database.pool, settings.lease_seconds)
        stack.push_async_callback(accepts.close)
        egress = _close_with(stack, _build_egress(settings))
        models = _close_with(stack, _build_models(settings, egress))
        secrets, tracing = _build_secret_reader(database, vault), _build_tracing(settings)
        plugins = stack.enter_context(closing(_load_plugins(settings, os.environ)))
        mcp = _close_with(stack, _build_mcp(settings, database, vault, egress))
        feed, toolbox = Feed(Relay(database.autocommit)), Toolbox(database.pool, vault)
        posts, policies = SignedPostClient(egress), PolicyCache(database.pool, vault)
        webhook = WebhookInvoker(posts, _report_unreadable(secrets))
        project_models = ProjectModels(models, secrets, egress.check_target)
        key_ring.on_change = lambda: policies.forget(None)
        inline = InlineTools(vault, policies, secrets)
        engine = Engine(
            storage=RunStorage(
                database.pool,
                await stack.enter_async_context(GroupCommit(steps.write)),
                settings.lease_seconds,
                feed,
                await stack.enter_async_context(Notices(toolbox, inline, webhook, tracing)),
            ),
            models=ModelAccess(project_models, _build_prices(settings), secrets, feed),
            tracing=_close_with(stack, tracing),
            tools=ToolAccess(
                toolbox=toolbox,
                inline=inline,
                rules=ToolRules(plugins, _close_with(stack, RuleEvaluator())),
                invokers=_build_executors(webhook, plugins, mcp),
                callback=_build_callback_maker(vault, settings.base_url),
                timeout=settings.tool_timeout_seconds,
            ),
            guards=Guards(GuardClient(posts, plugins.run_guardrail, plugins.run_hook), policies),
            children=Children(database.pool),
        )
        yield Services(
            storage=Storage(database, vault, await _open_replica(settings, database, stack)),
            key_ring=key_ring,
            access=_build_access(database, vault, settings.base_url),
            retention=_build_retention(settings),
            limits=_build_limits(settings),
            registry=_build_registry(engine, AgentCache(database.pool), mcp, egress),
            queue=RunQueue(
                accept=await stack.enter_async_context(GroupCommit(accepts.write)),
                lease=settings.lease_seconds,
                quarantine=Quarantine(database.pool),
                notices=engine.storage.notices,
            ),
            live=Live(feed, KeyChecks(database.autocommit.connect), settings.streams_per_key),
            engine=engine,
            models=models,
            direct_url=_reveal(settings.listen_url) or database_url,
            own_backends=set() if database.through_pgbouncer else own_backends,  # shared there
        )


def _build_limits(settings: Settings) -> RequestLimits:
    return RequestLimits(settings.max_body_bytes, settings.mcp_wait_seconds.total_seconds())


def _build_retention(settings: Settings) -> RetentionLimits:
    default, maximum = (
        {DataClass(name): days for name, days in one}
        for one in (settings.retention_days, settings.retention_max_days)
    )
    return RetentionLimits(default, maximum)


def _build_access(database: Database, vault: Vault, public_url: str) -> Access:
    by_session = Authenticator(database.pool, vault.session_digests, console_sessions.authenticate)
    return Access(
        authenticate=Authenticator(database.pool, vault.key_digests, keys.authenticate),
        authenticate_session=by_session,
        forget_session=by_session.forget,
        public_url=public_url,
    )


def _build_registry(
    engine: Engine, agents: AgentCache, mcp: McpInvoker, egress: Egress
) -> Registry:
    tools = engine.tools
    return Registry(
        toolbox=tools.toolbox,
        agents=agents,
        policies=engine.guards.policies,
        models=engine.models.models,
        prices=engine.models.prices,
        plugins=tools.rules.plugins,
        mcp=mcp,
        executors=tools.invokers,
        rules=tools.rules.evaluator,
        egress=egress,
        read_secrets=engine.models.secrets,
        tool_seconds=tools.timeout.total_seconds(),
    )


class _Closable(Protocol):
    async def aclose(self) -> None: ...


C = TypeVar("C", bound=_Closable)


def _close_with(stack: AsyncExitStack, resource: C) -> C:
    stack.push_async_callback(resource.aclose)
    return resource


async def _open_database(settings: Settings, url: str, stack: AsyncExitStack) -> Database:
    database = open_database(
        url, pool_size=settings.database_connections, through_pgbouncer=settings.pgbouncer
    )
    stack.push_async_callback(database.close)
    await check_safety(database)
    await row_security.enforce(database)
    if settings.listen_url:  # leases are renewed there
        await check_address(settings.listen_url.get_secret_value(), "RUNWARD_LISTEN_URL")
    return database


async def _open_replica(
    settings: Settings, database: Database, stack: AsyncExitStack
) -> Database | None:
    """Return the connections to the replica. Nothing is read, because Runward also works without
    it."""
    if settings.replica_url is None:
        return None
    replica = open_replica(settings.replica_url.get_secret_value())
    stack.push_async_callback(replica.close)
    if project_scope.restricts_connections(database.pool):
        project_scope.restrict_connections(replica.pool)
    return replica


async def _open_keys(settings: Settings, database: Database) -> tuple[KeyRing, Vault]:
    ring = KeyRing(database, open_providers(settings.list_secret_keys()))
    return ring, await ring.open()


def _build_secret_reader(
    database: Database, vault: Vault
) -> Callable[[ProjectId, Collection[str]], Awaitable[Mapping[str, str]]]:
    async def read(project_id: ProjectId, names: Collection[str]) -> Mapping[str, str]:
        async with database.pool.connect() as tx:
            return await read_secrets(tx, vault, project_id, names)

    return lambda project_id, names: retry_on_outage(lambda: read(project_id, names))


def _report_unreadable(secrets: ReadSecrets) -> ReadSecrets:
    async def read(project_id: ProjectId, names: Collection[str]) -> Mapping[str, str]:
        try:
            return await secrets(project_id, names)
        except SecretUnreadableError as error:
            raise UnavailableError(str(error)) from error

    return read


def _build_executors(
    webhook: WebhookInvoker, plugins: PluginHost, mcp: McpInvoker
) -> Mapping[str, ToolInvoker]:
    """By type of tool."""
    made: dict[str, ToolInvoker] = {
        "webhook": webhook,
        "plugin": plugins,
        "agent": AGENT_INVOKER,
        "client": CLIENT_INVOKER,
        "hosted": HOSTED_INVOKER,
    }
    return {**made, "mcp": mcp} if sdk.is_installed() else made


def _build_models(settings: Settings, egress: Egress) -> ModelCatalog:
    return ModelCatalog(
        openai_api_key=_reveal(settings.openai_api_key),
        openai_base_url=settings.openai_base_url,
        providers=_build_providers(settings),
        connect=egress.connect,
    )


def _build_providers(settings: Settings) -> dict[ProviderName, ProviderAccess]:
    """Those that there is a key for, or, but for Bedrock, an address."""
    reached: dict[ProviderName, ProviderAccess] = {
        "anthropic": ProviderAccess(
            _reveal(settings.anthropic_api_key), settings.anthropic_base_url
        ),
        "gemini": ProviderAccess(_reveal(settings.gemini_api_key), settings.gemini_base_url),
    }
    bedrock = ProviderAccess(
        _reveal(settings.aws_bearer_token_bedrock),
        settings.bedrock_base_url,
        settings.aws_region,
        _read_aws_key(settings),
    )
    if bedrock.secret:
        reached["bedrock"] = bedrock
    return {name: one for name, one in reached.items() if one.secret or one.base_url}


def _read_aws_key(settings: Settings) -> AwsKey | None:
    key_id, secret = settings.aws_access_key_id, _reveal(settings.aws_secret_access_key)
    if key_id is None or secret is None:
        return None
    return AwsKey(key_id, secret, _reveal(settings.aws_session_token))


def _reveal(secret: SecretStr | None) -> str | None:
    return secret.get_secret_value() if secret else None


def _build_prices(settings: Settings) -> Prices:
    return Prices({name: Price(**dict(one)) for name, one in settings.model_prices.items()})


def _build_tracing(settings: Settings) -> Tracing:
    if not settings.exports_traces:
        return Tracing()
    try:
        from runward.loop import recorded_spans  # noqa: PLC0415  # the SDK takes 0.1 s
    except ImportError as error:
        raise OperatorError(
            "OTEL_EXPORTER_OTLP_ENDPOINT is set, but OpenTelemetry's SDK is not installed. Install "
            "`runward[tracing]`, or remove the variable."
        ) from error
    with_content = settings.otel_capture_content == "span_only"
    return recorded_spans.open_tracing(with_content=with_content)


def _build_egress(settings: Settings) -> Egress:
    return Egress(
        allow_private=settings.allow_private_targets, allowed_ports=settings.allowed_ports
    )


def _load_plugins(settings: Settings, environment: Mapping[str, str]) -> PluginHost:
    """Raises PluginError. Plugins may ask for the operator's secrets by name; the service's own
    key is none of them."""
    prefix = "RUNWARD_SECRET_"
    operators = {
        name.removeprefix(prefix): value
        for name, value in environment.items()
        if name.startswith(prefix) and name != "RUNWARD_SECRET_KEY"
    }
    loaded = load_plugins(settings.plugins)
    return PluginHost(loaded, threads=settings.plugin_threads, secrets=operators)


def _build_mcp(settings: Settings, database: Database, vault: Vault, egress: Egress) -> McpInvoker:
    async def read(project_id: ProjectId, name: str) -> ConnectableServer | None:
        async with database.pool.connect() as tx:
            found = await mcp_servers.get_server(tx, project_id, name)
            if found is None:
                return None
            try:
                given = found.credentials(vault)
                filled = await mcp_credentials.fill_secrets(tx, vault, project_id, name, given)
            except SecretUnreadableError as error:
                raise McpUnreachableError(f"MCP server '{name}': {error}.") from error
        ensure_valid_credentials(found.spec, filled)
        tokens = StoredRefreshTokens(database.pool, vault, project_id, name, found.id)
        return ConnectableServer(
            project_id,
            found.id,
            found.version,
            found.spec,
            filled.headers,
            filled.oauth,
            tokens,
        )

    async def take(server: ConnectableServer, listed: Sequence[ListedTool]) -> int:
        async with database.pool.begin() as tx:
            key = (server.project_id, server.spec.name, server.id, server.version)
            return await mcp_servers.store_session_list(tx, vault, key, listed, signing.make_secret)

    async def find_open(calls: Sequence[HeldCall]) -> set[UUID]:
        async with database.pool.connect() as tx:
            return await find_open_calls(
                tx, [(one.project_id, one.run_id, one.id) for one in calls]
            )

    return McpInvoker(
        egress,
        commands=settings.mcp_commands,
        load_server=lambda project_id, name: retry_on_outage(lambda: read(project_id, name)),
        store_tools=lambda server, listed: retry_on_outage(lambda: take(server, listed)),
        find_open_calls=lambda calls: retry_on_outage(lambda: find_open(calls)),
    )


def _build_callback_maker(
    vault: Vault, public_url: str
) -> Callable[[RunState, Call], tuple[str, str]]:
    def callback(state: RunState, call: Call) -> tuple[str, str]:
        ref = CallRef(state.project_id, state.id, call.uuid, call.attempt)
        token = vault.make_callback_token(ref)
        return f"{public_url}/v1/callbacks/{token}", token

    return callback
