"""The MCP protocol, as the MCP SDK implements it, in both generations: the handshake of 2025 and
before, and the stateless requests of 2026.

Only this module of the API imports the SDK. The import is slow, so the first request to /mcp runs
it on a thread.
"""

import asyncio
import logging
from collections.abc import Awaitable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import structlog
from starlette.types import Receive, Scope, Send

from runward.api.mcp.results import INTERNAL_ERROR, McpRequestError
from runward.api.mcp.subscriptions import McpSubscription
from runward.api.mcp.tasks import EXTENSION, METHODS_2025, METHODS_2026
from runward.api.mcp.wait import ProgressReport
from runward.domain.errors import AppError, UnavailableError
from runward.domain.json import JsonObject
from runward.store.postgres.db import is_outage
from runward.version import VERSION

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server
    from mcp.server.models import InitializationOptions
    from mcp_types import (
        CallToolRequestParams,
        CallToolResult,
        InputRequiredResult,
        ListToolsResult,
        PaginatedRequestParams,
        SubscriptionsListenRequestParams,
        SubscriptionsListenResult,
    )

log = structlog.get_logger()
T = TypeVar("T")

ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
NAME: Final = "runward"
INSTRUCTIONS: Final = (
    "Each call starts a run in Runward. The run is recorded, and it continues if "
    "the connection is lost. Some calls wait until a person approves them. If a "
    "call returns before its run has ended, the result contains the run's ID. Get the result "
    "later with runward_result, and do not make the call again."
)
_MODULES: Final = (
    "mcp.server.lowlevel",
    "mcp.server.streamable_http_manager",
    "mcp.server.subscriptions",
)


class McpHandlers(Protocol):
    """The handlers of one request. They return the protocol's JSON, and raise McpRequestError and
    AppErrors."""

    @property
    def modern(self) -> bool:
        """Return whether the request belongs to a protocol version without a handshake."""
        ...

    @property
    def creates_task(self) -> bool:
        """Return whether the request is a tool call of the protocol of 2025 that starts a task."""
        ...

    @property
    def input_schema(self) -> JsonObject | None:
        """Return the input schema of the tool that the request calls."""
        ...

    async def list_tools(self, cursor: str | None) -> JsonObject: ...

    async def call_tool(self, report: ProgressReport) -> JsonObject: ...

    async def create_task(self) -> JsonObject: ...

    async def answer_task(
        self, method: str, params: JsonObject, report: ProgressReport
    ) -> JsonObject: ...

    async def read(self, method: str, params: JsonObject) -> JsonObject:
        """Answer a method of `_reads`."""
        ...

    async def subscribe(self, wanted: JsonObject) -> McpSubscription:
        """Return the subscription for a filter of the protocol of 2026."""
        ...


async def is_modern(version: str | None) -> bool:
    """Return whether the header MCP-Protocol-Version names a version without a handshake."""
    await asyncio.to_thread(_load)
    from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS  # noqa: PLC0415

    return version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS


async def serve_request(
    scope: Scope, receive: Receive, send: Send, handlers: McpHandlers, *, max_bytes: int
) -> None:
    """Answer one request, after `is_modern` was checked. All its state ends with it: no other
    request, in this or another process, depends on this process's memory."""
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager  # noqa: PLC0415

    manager = StreamableHTTPSessionManager(
        _server(handlers), stateless=True, max_request_body_size=max_bytes
    )
    async with manager.run():
        await manager.handle_request(scope, receive, send)


def _load() -> None:
    for name in _MODULES:
        import_module(name)
    logging.getLogger("mcp").setLevel(logging.WARNING)  # The SDK would log every request.


def _server(handlers: McpHandlers) -> "Server[Any]":
    from mcp.server.lowlevel import NotificationOptions, Server  # noqa: PLC0415
    from mcp_types import (  # noqa: PLC0415
        CallToolRequestParams,
        CallToolResult,
        InputRequiredResult,
        ListToolsResult,
        PaginatedRequestParams,
        SubscriptionsListenRequestParams,
    )

    async def list_tools(
        _: "ServerRequestContext[Any, Any]", params: "PaginatedRequestParams"
    ) -> "ListToolsResult":
        return ListToolsResult.model_validate(
            await _translate_errors(handlers.list_tools(params.cursor))
        )

    async def call_tool(
        ctx: "ServerRequestContext[Any, Any]", _: "CallToolRequestParams"
    ) -> "CallToolResult | InputRequiredResult | JsonObject":
        result = await _translate_errors(handlers.call_tool(_reporter(ctx)))
        if result.get("resultType") == "task":
            return result
        if "inputRequests" in result:
            return InputRequiredResult.model_validate(result)
        return CallToolResult.model_validate(result)

    async def listen(
        ctx: "ServerRequestContext[Any, Any]", params: "SubscriptionsListenRequestParams"
    ) -> "SubscriptionsListenResult":
        return await _listen(ctx, params, handlers)

    server = Server[Any](
        NAME,
        version=VERSION,
        title="Runward",
        instructions=INSTRUCTIONS,
        get_tool_input_schema=lambda _: handlers.input_schema,
    )
    for method, (params_type, result_type) in _reads().items():
        server.add_request_handler(method, params_type, _reader(handlers, method, result_type))
    server.add_request_handler("tools/list", PaginatedRequestParams, list_tools)
    server.add_request_handler("tools/call", CallToolRequestParams, call_tool)
    server.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, listen)
    _add_tasks(server, handlers)
    options = server.create_initialization_options(NotificationOptions(tools_changed=True))
    if not handlers.modern:
        options = _declare_tasks(options)
    server.create_initialization_options = lambda: options  # pyright: ignore[reportAttributeAccessIssue]
    return server


def _add_tasks(server: "Server[Any]", handlers: McpHandlers) -> None:
    from mcp_types import RequestParams  # noqa: PLC0415

    async def answer(ctx: "ServerRequestContext[Any, Any]", _: Any) -> JsonObject:
        given = handlers.answer_task(ctx.method, dict(ctx.params or {}), _reporter(ctx))
        return await _translate_errors(given)

    async def call_as_task(ctx: "ServerRequestContext[Any, Any]", call_next: Any) -> Any:
        """Bypass the SDK's check of the result, which allows no CreateTaskResult."""
        if ctx.method == "tools/call" and handlers.creates_task:
            return await _translate_errors(handlers.create_task())
        return await call_next(ctx)

    for method in METHODS_2026 if handlers.modern else METHODS_2025:
        server.add_request_handler(method, RequestParams, answer)
    if handlers.modern:
        server.extensions = {EXTENSION: {}}
    server.middleware.append(call_as_task)


def _declare_tasks(options: "InitializationOptions") -> "InitializationOptions":
    """Declare the tasks of MCP 2025-11-25, which the SDK does not declare itself."""
    from mcp_types import ServerTasksCapability  # noqa: PLC0415

    about: JsonObject = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    tasks = {"tasks": ServerTasksCapability.model_validate(about)}
    capabilities = options.capabilities.model_copy(update=tasks)
    return options.model_copy(update={"capabilities": capabilities})


def _reporter(ctx: "ServerRequestContext[Any, Any]") -> ProgressReport:
    async def report(count: float, message: str) -> None:
        await ctx.session.report_progress(count, message=message)

    return report


def _reads() -> dict[str, tuple[Any, Any]]:
    """Return the methods that only read, with the types of their parameters and results."""
    import mcp_types as types  # noqa: PLC0415

    return {
        "resources/list": (types.PaginatedRequestParams, types.ListResourcesResult),
        "resources/templates/list": (
            types.PaginatedRequestParams,
            types.ListResourceTemplatesResult,
        ),
        "resources/read": (types.ReadResourceRequestParams, types.ReadResourceResult),
        "prompts/list": (types.PaginatedRequestParams, types.ListPromptsResult),
        "prompts/get": (types.GetPromptRequestParams, types.GetPromptResult),
        "completion/complete": (types.CompleteRequestParams, types.CompleteResult),
    }


def _reader(handlers: McpHandlers, method: str, result_type: Any) -> Any:
    async def read(_: Any, params: Any) -> Any:
        given = params.model_dump(mode="json", by_alias=True, exclude_none=True)
        return result_type.model_validate(await _translate_errors(handlers.read(method, given)))

    return read


async def _listen(
    ctx: "ServerRequestContext[Any, Any]",
    params: "SubscriptionsListenRequestParams",
    handlers: McpHandlers,
) -> "SubscriptionsListenResult":
    """Acknowledge the subscription, and send its notifications. The SDK's own handler knows no
    tasks."""
    from mcp.server.subscriptions import SUBSCRIPTION_ID_META_KEY  # noqa: PLC0415
    from mcp_types import Notification, SubscriptionsListenResult  # noqa: PLC0415

    meta = {"_meta": {SUBSCRIPTION_ID_META_KEY: ctx.request_id}}
    wanted = params.notifications.model_dump(mode="json", by_alias=True, exclude_none=True)
    subscription = await _translate_errors(handlers.subscribe(wanted))

    async def send(method: str, params: JsonObject) -> None:
        notification: Any = Notification[dict[str, Any], str](method=method, params=params | meta)
        await ctx.session.send_notification(notification, related_request_id=ctx.request_id)

    await send(ACKNOWLEDGED, {"notifications": subscription.honored})
    async for notice in subscription.follow():
        if notice is not None:
            await send(notice.method, notice.params)
    return SubscriptionsListenResult.model_validate(meta)


async def _translate_errors(answer: Awaitable[T]) -> T:
    """Convert all errors to the SDK's MCPError, whose text reaches the client."""
    from mcp import MCPError  # noqa: PLC0415

    try:
        return await answer
    except McpRequestError as error:
        raise MCPError(error.code, error.message, error.data) from None
    except AppError as error:
        raise MCPError(INTERNAL_ERROR, error.detail, {"code": error.code}) from None
    except Exception as error:
        if is_outage(error):
            refused = UnavailableError()
            raise MCPError(INTERNAL_ERROR, refused.detail, {"code": refused.code}) from None
        log.exception("mcp_request_failed")
        text = "Runward failed because of an internal error. See Runward's log."
        raise MCPError(INTERNAL_ERROR, text) from None
