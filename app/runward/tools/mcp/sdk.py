"""The only module that imports the MCP SDK. The import is slow, so it happens at the first
connection to a server. The extra `mcp` installs the SDK."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, TextIO

import httpx2

from runward.domain.json import (
    JsonObject,
    UnstorableError,
    clean_json,
    clean_text,
    holds_too_many_values,
)
from runward.domain.registry.mcp_servers import MAX_TOOLS, ListedTool, McpServerSpec
from runward.egress.client import Egress
from runward.tools.mcp.http import MAX_MESSAGE_BYTES, TOO_MANY_VALUES, AnsweringTransport
from runward.tools.mcp.process import LongLineError, StandardError, process_streams

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult, ElicitResult, Tool

    from runward.tools.mcp.oauth import AccessTokens

MAX_PAGES: Final = 64
_MODULES: Final = (
    "mcp",
    "mcp.client.auth.utils",
    "mcp.client.stdio",
    "mcp.client.streamable_http",
    "mcp.client.subscriptions",
)
_LIST_CHANGED: Final = "notifications/tools/list_changed"


def is_installed() -> bool:
    return find_spec("mcp") is not None


async def load() -> None:
    """Import the SDK on a thread. It takes seconds and would block the event loop. Call this
    before `connect`."""
    for name in _MODULES:
        await asyncio.to_thread(import_module, name)
    streams: Any = import_module("mcp.client.streamable_http")
    if not isinstance(streams.jsonrpc_message_adapter, _BoundedMessages):
        streams.jsonrpc_message_adapter = _BoundedMessages(streams.jsonrpc_message_adapter)


class _BoundedMessages:
    """A parser of HTTP messages for the SDK, also of event streams. It refuses a message with too
    many values, because the SDK parses on the event loop."""

    def __init__(self, adapter: Any) -> None:
        self._adapter = adapter

    def validate_json(self, data: str | bytes, **options: Any) -> Any:
        """Parse a message. Raises ValueError."""
        if holds_too_many_values(data.encode() if isinstance(data, str) else data):
            raise ValueError(TOO_MANY_VALUES)
        return self._adapter.validate_json(data, **options)


class TooManyToolsError(ValueError):
    pass


@asynccontextmanager
async def connect(
    spec: McpServerSpec,
    headers: dict[str, str],
    egress: Egress,
    tokens: "AccessTokens | None",
    *,
    on_list_change: Callable[[], None],
    on_end: Callable[[str], None],
    on_question: Callable[[JsonObject], Awaitable["ElicitResult | None"]],
    errors: StandardError,
) -> "AsyncGenerator[Client]":
    """Open a session. The task that enters the block must leave it.

    `on_list_change` is called when the list of tools changed. `on_end` is called when the server's
    stream ends, with the reason or "". `on_question` returns the answer to an elicitation, or None
    if nobody can answer. `errors` takes the standard error of a command. Raises the errors of
    connecting."""
    from mcp import Client  # noqa: PLC0415
    from mcp.types import ElicitResult  # noqa: PLC0415

    async def heard(message: Any) -> None:
        if getattr(message, "method", None) == _LIST_CHANGED:
            on_list_change()

    async def answer(context: Any, params: Any) -> ElicitResult:
        question = params.model_dump(mode="json", by_alias=True, exclude_none=True)
        return await on_question(question) or ElicitResult(action="cancel")

    async with AsyncExitStack() as stack:
        if spec.command is not None:
            transport = _process(spec, stack.enter_context(errors.open_file()))
        else:
            http = await stack.enter_async_context(_http(headers, egress, tokens))
            transport = _streams(spec, http)
        client = Client(
            _watch(transport, on_end),
            message_handler=heard,
            elicitation_callback=answer,
            cache=None,
        )
        session = await stack.enter_async_context(client)
        session.session.validate_tool_result = _skip_result_check
        yield session


async def _skip_result_check(name: str, result: "CallToolResult") -> None:
    """Replace the SDK's check of a result against the server's schema. That check runs on the event
    loop without a limit, and a pattern can block it for years. Runward checks the result later."""


async def list_all_tools(client: "Client") -> tuple[ListedTool, ...]:
    """Return all tools of the server. Raises TooManyToolsError, and the SDK's errors."""
    found: list[ListedTool] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        if len(found) + len(page.tools) > MAX_TOOLS:
            raise TooManyToolsError(f"the server lists more than {MAX_TOOLS} tools")
        found += [_listed_tool(tool) for tool in page.tools]
        if (cursor := page.next_cursor) is None:
            return tuple(found)
    raise TooManyToolsError(f"the server's list of tools has more than {MAX_PAGES} pages")


async def listen(
    client: "Client", *, on_ready: Callable[[], None], on_list_change: Callable[[], None]
) -> bool:
    """Subscribe to changes of the server's list. `on_ready` is called when the subscription is
    active. Return True when the subscription ends, and False if the server does not support
    subscriptions. Older servers report changes without a subscription."""
    from mcp import MCPError  # noqa: PLC0415
    from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost  # noqa: PLC0415

    heard = False
    try:
        async with client.listen(tools_list_changed=True) as events:
            heard = True
            on_ready()
            async for _ in events:
                on_list_change()
    except (ListenNotSupportedError, SubscriptionLost, MCPError, TimeoutError):
        pass
    return heard


def rpc_error(error: BaseException) -> tuple[int, str, Any] | None:
    """Return the code, message and data of a JSON-RPC error, or None for another error."""
    from mcp import MCPError  # noqa: PLC0415

    return (error.code, error.message, error.data) if isinstance(error, MCPError) else None


def _listed_tool(tool: "Tool") -> ListedTool:
    said: JsonObject = {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description or "",
        "parameters": tool.input_schema,
        "output_schema": tool.output_schema,
        "annotations": tool.annotations.model_dump(mode="json", by_alias=True, exclude_none=True)
        if tool.annotations
        else {},
        "only_as_task": tool.execution is not None and tool.execution.task_support == "required",
    }
    try:
        return ListedTool.model_validate(clean_json(said)[0])
    except UnstorableError:
        name = clean_text(tool.name)
        return ListedTool(name=name, parameters={}, too_deep=True)


def _http(
    headers: dict[str, str], egress: Egress, tokens: "AccessTokens | None"
) -> httpx2.AsyncClient:
    from runward.tools.mcp.oauth import AuthorizingTransport  # noqa: PLC0415

    transport: httpx2.AsyncBaseTransport = egress.transport()
    if tokens is not None:
        transport = AuthorizingTransport(transport, tokens)
    return httpx2.AsyncClient(
        transport=AnsweringTransport(transport),
        headers={**headers, "Accept-Encoding": "identity"},
        timeout=httpx2.Timeout(10.0, read=None),
        trust_env=False,
        follow_redirects=False,
    )


def _streams(spec: McpServerSpec, client: httpx2.AsyncClient) -> Any:
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415

    assert spec.url is not None
    return streamable_http_client(
        spec.url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES
    )


def _process(spec: McpServerSpec, errors: TextIO) -> Any:
    """Return the transport of a command. Its environment has only HOME, LOGNAME, PATH, SHELL, TERM
    and USER."""
    from mcp.client.stdio import get_default_environment  # noqa: PLC0415

    assert spec.command is not None
    return process_streams(spec.command, spec.args, get_default_environment(), errors)


@asynccontextmanager
async def _watch(transport: Any, ended: Callable[[str], None]) -> AsyncGenerator[Any]:
    async with transport as (read, write):
        yield _Watched(read, ended), write


class _Watched:
    """A stream of messages that reports its end."""

    def __init__(self, stream: Any, ended: Callable[[str], None]) -> None:
        self._stream = stream
        self._ended = ended

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __aiter__(self) -> "_Watched":
        return self

    async def __anext__(self) -> Any:
        try:
            return self._checked(await self._stream.__anext__())
        except Exception:
            self._ended("")
            raise

    async def receive(self) -> Any:
        try:
            return self._checked(await self._stream.receive())
        except Exception:
            self._ended("")
            raise

    def _checked(self, item: Any) -> Any:
        if isinstance(item, LongLineError):
            self._ended(str(item))
        return item

    async def __aenter__(self) -> "_Watched":
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *about: Any) -> Any:
        return await self._stream.__aexit__(*about)
