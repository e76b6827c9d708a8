"""One session with one MCP server, shared by all runs of the process.

The SDK's scopes must be left by the task that entered them, so a separate task holds each session.
The calls come from the runs' tasks.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import UUID

import structlog

from runward.domain.errors import FieldError, McpUnreachableError
from runward.domain.ids import ProjectId
from runward.domain.registry.mcp_auth import (
    OAuthClient,
    RefreshTokens,
    ResolvedCredentials,
    UnstoredRefreshTokens,
    oauth_problems,
)
from runward.domain.registry.mcp_servers import ListedTool, McpServerSpec
from runward.egress.client import Egress
from runward.tools.mcp import sdk
from runward.tools.mcp.open_calls import AskingCalls
from runward.tools.mcp.process import StandardError
from runward.tools.webhook.headers import check_headers

if TYPE_CHECKING:
    from mcp import Client

log = structlog.get_logger()

CONNECT_SECONDS: Final = 15.0
"""Time limit in seconds for the start or the connection, the initialization, and the list of
tools."""
LIST_SECONDS: Final = 15.0
CLOSE_SECONDS: Final = 8.0
"""The SDK gives a process two seconds to end, and two after SIGTERM."""
MAX_CALLS: Final = 64
"""Concurrent calls in one session. More calls wait."""
FIRST_LISTEN_DELAY_SECONDS: Final = 0.5
MAX_LISTEN_DELAY_SECONDS: Final = 30.0
"""The first and the maximum delay in seconds before Runward renews a subscription to list
changes."""


@dataclass(frozen=True, slots=True)
class ConnectableServer:
    """A registered server with the values of its credentials."""

    project_id: ProjectId
    id: UUID
    version: int
    spec: McpServerSpec
    headers: dict[str, str] = field(repr=False)
    oauth: OAuthClient | None = None
    refresh_tokens: RefreshTokens = field(default_factory=UnstoredRefreshTokens, compare=False)


class McpSession:
    """A session that starts to connect when it is created. `on_change` is called when the server
    reports that its list of tools changed."""

    def __init__(
        self,
        server: ConnectableServer,
        egress: Egress,
        *,
        idle_seconds: float,
        on_open: Callable[["McpSession"], None],
        on_change: Callable[["McpSession"], None],
    ) -> None:
        self.server = server
        self.listed: tuple[ListedTool, ...] = ()
        self.listed_at = monotonic()
        self._egress = egress
        self._idle_seconds = idle_seconds
        self._on_open = on_open
        self._on_change = on_change
        self.asking = AskingCalls(on_unmatched=self.retire)
        self._calls = 0
        self.used_at = monotonic()
        self._over = False
        self._lost = False
        self.loss = ""
        """The reason why Runward ended the session, for operators. Empty if Runward did not end
        it."""
        self._errors = StandardError()
        self._wake = asyncio.Event()
        self._slots = asyncio.Semaphore(MAX_CALLS)
        self._client: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self.task = asyncio.create_task(self._run(), name=f"mcp {server.spec.name}")

    @property
    def usable(self) -> bool:
        return not (self._over or self.task.done())

    @property
    def is_open(self) -> bool:
        """Whether the session has listed its tools. It may have ended since."""
        return self._client.done()

    @property
    def idle(self) -> bool:
        return self._calls == 0

    async def wait_until_open(self) -> None:
        """Wait until the session is open. Raises McpUnreachableError."""
        await asyncio.shield(self._client)

    @asynccontextmanager
    async def use_client(self) -> "AsyncGenerator[Client]":
        """Keep the session open inside the block. Raises McpUnreachableError."""
        self._calls += 1
        try:
            client = await asyncio.shield(self._client)
            async with self._slots:
                if self._lost:
                    raise McpUnreachableError(
                        "The session with the MCP server ended before Runward could send the call."
                    )
                yield client
        finally:
            self._calls -= 1
            self.used_at = monotonic()
            if self._over:
                self._wake.set()

    async def refresh_list(self) -> tuple[ListedTool, ...]:
        """List the tools again. Raises the SDK's errors."""
        self.listed_at = monotonic()  # also on failure: the next call refreshes the list
        async with self.use_client() as client, asyncio.timeout(LIST_SECONDS):
            self.listed = await sdk.list_all_tools(client)
        return self.listed

    def retire(self) -> None:
        """Accept no more calls, and close when the current ones have ended."""
        self._over = True
        self._wake.set()

    async def aclose(self) -> None:
        self._lost = True
        self.retire()
        _, late = await asyncio.wait({self.task}, timeout=CLOSE_SECONDS)
        for task in late:
            task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def _run(self) -> None:
        name = self.server.spec.name
        try:
            async with AsyncExitStack() as stack:
                await sdk.load()
                async with asyncio.timeout(CONNECT_SECONDS):
                    client = await stack.enter_async_context(self._connect())
                    await self._start_listening(client, stack)
                    self.listed = await sdk.list_all_tools(client)
                self.listed_at = self.used_at = monotonic()
                self._client.set_result(client)
                self._on_open(self)
                await self._wait_until_unused()
            if self.loss:
                log.warning("mcp_session_lost", server=name, detail=self.loss)
        except Exception as error:
            detail, permanent = _error_detail(error)
            detail = self.loss or detail
            if self._client.done():
                log.info("mcp_session_lost", server=name, detail=detail)
            else:
                if last_line := self._errors.last_line:
                    detail = f"{detail} The last line of the server's standard error: {last_line}"
                detail = f"MCP server '{name}': {detail}"
                self._client.set_exception(McpUnreachableError(detail, permanent=permanent))
                self._client.exception()  # marks it as retrieved: there may be no waiting caller
        finally:
            self._over = True
            self._client.cancel()

    def _connect(self) -> "AbstractAsyncContextManager[Client]":
        from runward.tools.mcp.oauth import AccessTokens  # noqa: PLC0415  # loads the SDK

        server = self.server
        tokens = None
        if server.oauth is not None and server.spec.url is not None:
            tokens = AccessTokens(
                server.spec.url, server.oauth, server.refresh_tokens, self._egress
            )
        return sdk.connect(
            server.spec,
            server.headers,
            self._egress,
            tokens,
            on_list_change=lambda: self._on_change(self),
            on_end=self._end,
            on_question=self.asking.ask,
            errors=self._errors,
        )

    def _end(self, reason: str) -> None:
        self.loss = self.loss or reason
        self._lost = True
        self.retire()

    async def _wait_until_unused(self) -> None:
        while not self._lost and not (self._over and self._calls == 0):
            self._wake.clear()
            try:
                async with asyncio.timeout(self._idle_seconds):
                    await self._wake.wait()
            except TimeoutError:
                if self._calls == 0 and monotonic() - self.used_at >= self._idle_seconds:
                    self._over = True

    async def _start_listening(self, client: "Client", stack: AsyncExitStack) -> None:
        """Start to listen for changes of the list. Returns when the subscription is active, so that
        no change between it and the list is missed."""
        hears = asyncio.Event()
        listening = asyncio.create_task(self._listen(client, hears.set))

        async def stop() -> None:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

        stack.push_async_callback(stop)
        await hears.wait()

    async def _listen(self, client: "Client", hears: Callable[[], None]) -> None:
        def changed() -> None:
            self._on_change(self)

        heard = await sdk.listen(client, on_ready=hears, on_list_change=changed)
        hears()
        wait = FIRST_LISTEN_DELAY_SECONDS if heard else MAX_LISTEN_DELAY_SECONDS
        while True:
            await asyncio.sleep(wait)
            began = monotonic()
            # After the new subscription, read the changes that were missed in the meantime.
            await sdk.listen(client, on_ready=changed, on_list_change=changed)
            lasted = monotonic() - began >= MAX_LISTEN_DELAY_SECONDS
            wait = FIRST_LISTEN_DELAY_SECONDS if lasted else min(2 * wait, MAX_LISTEN_DELAY_SECONDS)


def _error_detail(error: BaseException) -> tuple[str, bool]:
    """Return the first cause for operators, and whether a retry cannot help."""
    while isinstance(error, BaseExceptionGroup):
        causes: tuple[BaseException, ...] = cast(Any, error).exceptions
        error = causes[0]
    if isinstance(error, TimeoutError):
        return f"the server did not answer within {CONNECT_SECONDS:g} seconds.", False
    if (said := sdk.rpc_error(error)) is not None:
        _, message, data = said
        return message[:500], isinstance(data, dict) and cast(Any, data).get("permanent") is True
    return " ".join(f"{type(error).__name__}: {error}".split())[:500], False


_RESERVED_PREFIX: Final = "mcp-"
_RESERVED: Final = frozenset({"accept", "last-event-id"})


def credential_problems(credentials: ResolvedCredentials) -> list[FieldError]:
    """Return the problems of the credentials. The messages never contain a value."""
    errors: list[FieldError] = []
    errors += check_headers(credentials.headers)
    for name in credentials.headers:
        path = f"headers.{name[:128]}"
        if name.lower() in _RESERVED or name.lower().startswith(_RESERVED_PREFIX):
            errors.append(FieldError(path, "is reserved for the MCP protocol"))
        if name.lower() == "authorization" and credentials.oauth is not None:
            errors.append(FieldError(path, "must not be set together with oauth"))
    return errors + ([] if credentials.oauth is None else oauth_problems(credentials.oauth))


def ensure_valid_credentials(spec: McpServerSpec, credentials: ResolvedCredentials) -> None:
    """Check the credentials of a registered server, because the values of its secrets may have
    changed. Raises McpUnreachableError."""
    if problems := credential_problems(credentials):
        raise McpUnreachableError(f"MCP server '{spec.name}': {' '.join(problems[0])}.")
