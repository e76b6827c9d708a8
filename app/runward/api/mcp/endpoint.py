"""/mcp: the tools and agents of a project for MCP clients, over streamable HTTP. Each call starts a
run."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from fastapi import APIRouter, Request
from pydantic import JsonValue
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send
from structlog.contextvars import bind_contextvars

from runward.api.events.open_streams import count_stream, respond_with_stream
from runward.api.http.auth import add_origin, authenticate_key
from runward.api.http.body import read_bytes
from runward.api.http.requests import ApiRequest, get_services
from runward.api.mcp import prompts, protocol, resources
from runward.api.mcp.calls import (
    McpRunSession,
    McpToolCall,
    can_elicit,
    cancel_request,
    format_client,
)
from runward.api.mcp.elicitation import PREFIX, ClientQuestions, apply_answer
from runward.api.mcp.listing import find_target, list_page
from runward.api.mcp.results import McpRequestError
from runward.api.mcp.resume import ContinuedStream, StreamPosition
from runward.api.mcp.streams import EventInjector, encode_changes
from runward.api.mcp.subscriptions import McpSubscription, subscribe
from runward.api.mcp.tasks import EXTENSION, RESULT, UPDATE, McpTasks
from runward.api.mcp.wait import ProgressReport
from runward.domain import errors as e
from runward.domain import not_found, strict_json
from runward.domain.ids import Prefix, ProjectId, format_id
from runward.domain.json import JsonObject
from runward.domain.registry.scopes import READ_RUNS, Principal
from runward.domain.registry.scopes import Scope as KeyScope
from runward.services import Services, Storage

NOT_INSTALLED: Final = (
    "MCP support is not installed. The operator must install the extra `runward[mcp]`."
)
METADATA_PATH: Final = "/.well-known/oauth-protected-resource/mcp"
SESSION_HEADER: Final = "mcp-session-id"
VERSION_HEADER: Final = "mcp-protocol-version"
_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
_CLIENT_INFO: Final = "io.modelcontextprotocol/clientInfo"
Reader: TypeAlias = Callable[[Storage, ProjectId, JsonObject], Awaitable[JsonObject]]
"""Answers one method that only reads. Raises McpRequestError."""
_PARSE_ERROR: Final = -32_700
_WRITES: Final = frozenset({"tools/call", "tasks/cancel", "notifications/cancelled"})
_LONG_METHODS: Final = frozenset({"tools/call", RESULT, "subscriptions/listen"})
"""Methods that can take long. Each of their requests counts as a stream of the key."""


READERS: Final[Mapping[str, Reader]] = {
    "resources/list": resources.list_resources,
    "resources/templates/list": resources.list_templates,
    "resources/read": resources.read_resource,
    "prompts/list": prompts.list_prompts,
    "prompts/get": prompts.get_prompt,
    "completion/complete": prompts.complete,
}


class Endpoint:
    """The ASGI application. Raises AppErrors before anything is sent."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = ApiRequest(scope, receive)
        services = get_services(request)
        registry, access, limits = services.registry, services.access, services.limits
        if "mcp" not in registry.executors:
            raise not_found.NotFoundError(NOT_INSTALLED)
        check_origin(request, access.public_url)
        try:
            principal = add_origin(request, await authenticate_key(request))
        except e.UnauthenticatedError as error:
            error.resource_metadata = access.public_url + METADATA_PATH
            raise
        if not principal.may(READ_RUNS):
            raise e.InsufficientScopeError(READ_RUNS)
        modern = await protocol.is_modern(request.headers.get(VERSION_HEADER))
        if request.method == "GET" and not modern:
            await _open_stream(request, services, principal)(scope, receive, send)
            return
        raw = await read_bytes(request, limits.max_body_bytes)
        try:
            message = strict_json.parse_body(raw) if raw else None
        except (e.InvalidJsonError, e.InvalidRequestError) as error:
            await _refuse_body(error)(scope, receive, send)
            return
        exchange = await _read_exchange(request, services, principal, message, modern=modern)
        await exchange.serve(scope, _replay_body(raw, receive), send)


async def show_metadata(request: Request) -> Response:
    """Return the metadata of the endpoint as a protected resource (RFC 9728). It names no
    authorization server, because clients send API keys."""
    access = get_services(request).access
    about = {
        "resource": f"{access.public_url}/mcp",
        "resource_name": "Runward",
        "bearer_methods_supported": ["header"],
        "scopes_supported": [*READ_RUNS, KeyScope.APPROVALS_DECIDE],
    }
    return Response(to_json(about), media_type="application/json")


routes = APIRouter(
    redirect_slashes=False,
    routes=[
        Route("/mcp", Endpoint(), methods=["GET", "POST", "DELETE"]),
        Route(METADATA_PATH, show_metadata),
    ],
)


@dataclass(frozen=True, slots=True)
class McpExchange:
    """One message of a client. Implements `protocol.McpHandlers`."""

    services: Services
    principal: Principal
    method: str
    tasks: McpTasks
    call: McpToolCall | None
    new_session: McpRunSession | None
    elicits: bool
    """Whether the client can ask its user."""
    position: StreamPosition | None = None
    """The start of the response stream, if the client can continue it."""

    @property
    def modern(self) -> bool:
        return self.tasks.modern

    @property
    def creates_task(self) -> bool:
        return self.call is not None and self.call.is_task

    @property
    def input_schema(self) -> JsonObject | None:
        return self.call.target.schema if self.call and self.call.target else None

    async def list_tools(self, cursor: str | None) -> JsonObject:
        services = self.services
        limits, project_id = services.limits, self.principal.project_id
        return await list_page(
            services.storage, project_id, cursor, limits.mcp_seconds, elicits=self.elicits
        )

    async def read(self, method: str, params: JsonObject) -> JsonObject:
        try:
            return await READERS[method](self.services.storage, self.principal.project_id, params)
        except McpRequestError as error:
            if self.modern and error.code == resources.NOT_FOUND:
                raise McpRequestError(error.message, data=error.data) from None
            raise

    async def call_tool(self, report: ProgressReport) -> JsonObject:
        assert self.call is not None
        return await self.call.result(report)

    async def create_task(self) -> JsonObject:
        assert self.call is not None
        return await self.call.create_task()

    async def answer_task(
        self, method: str, params: JsonObject, report: ProgressReport
    ) -> JsonObject:
        return await self.tasks.answer(method, params, report)

    async def subscribe(self, wanted: JsonObject) -> McpSubscription:
        return await subscribe(self.services, self.tasks, wanted)

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        services = self.services
        limits, live = services.limits, services.live
        limit = limits.max_body_bytes
        if self.method not in _LONG_METHODS:
            sending = (
                send if self.new_session is None else _add_session_header(self.new_session, send)
            )
            await protocol.serve_request(scope, receive, sending, self, max_bytes=limit)
            return
        stream = EventInjector(send, self.position)
        if self.method == RESULT:
            self.tasks.send = stream.send_message
        if self.elicits:
            asking = None if self.modern else stream.send_question
            questions = ClientQuestions(
                services.storage, services.registry, self.principal, send=asking
            )
            self.tasks.questions = questions
            if self.call is not None and not self.call.is_task:
                self.call.questions = questions
        if self.call is not None and self.position is not None:
            self.call.on_accept = stream.send_run
        with count_stream(live, self.principal):
            await protocol.serve_request(scope, receive, stream, self, max_bytes=limit)
        if self.call is not None and self.call.run_id is not None:
            bind_contextvars(run=format_id(Prefix.RUN, self.call.run_id))
        left = self.call is not None and self.call.disconnected and self.modern
        if left and not live.is_stopping():
            assert self.call is not None
            await self.call.withdraw()


async def _read_exchange(
    request: Request, services: Services, principal: Principal, message: JsonValue, *, modern: bool
) -> McpExchange:
    """Return the exchange of the request. Raises InsufficientScopeError."""
    storage, queue = services.storage, services.queue
    said: JsonObject = message if isinstance(message, dict) else {}
    method, given = str(said.get("method")), said.get("params")
    params: JsonObject = given if isinstance(given, dict) else {}
    extensions = _read_capability(params, "extensions") if modern else None
    declared = isinstance(extensions, dict) and EXTENSION in extensions
    tasks = McpTasks(services, principal, modern, declared, request.headers.get("mcp-name"))
    call: McpToolCall | None = None
    begins: McpRunSession | None = None
    position: StreamPosition | None = None
    session = None if modern else McpRunSession.parse(request.headers.get(SESSION_HEADER))
    elicits = (
        session.elicits if session else modern and can_elicit(_read_meta(params, _CAPABILITIES))
    )
    if elicits or method == UPDATE:
        tasks.questions = ClientQuestions(services.storage, services.registry, principal)
    if method in _WRITES and not principal.may((KeyScope.RUNS_WRITE,)):
        raise e.InsufficientScopeError((KeyScope.RUNS_WRITE,))
    if method == "tools/call":
        name, limits = str(params.get("name")), services.limits
        info = _read_meta(params, _CLIENT_INFO) if modern else None
        found = await find_target(
            storage, principal.project_id, name, limits.mcp_seconds, elicits=elicits
        )
        call = McpToolCall(
            services=services,
            principal=principal,
            target=found,
            params=params,
            client=session.client if session else format_client(info),
            request=session.name_request(said.get("id")) if session else None,
            tasks=tasks,
        )
        if session and session.resumes and found and found.is_executable and not call.is_task:
            declared = "outputSchema" in found.definition
            position = StreamPosition(said.get("id"), _read_meta(params, "progressToken"), declared)
    elif method == "notifications/cancelled" and session is not None:
        with suppress(e.AppError):  # A notification has no response that could contain the error.
            await cancel_request(storage, queue, principal, session, params.get("requestId"))
    elif method == "initialize" and not modern:
        begins = McpRunSession.begin(params)
    elif "method" not in said and str(said.get("id")).startswith(PREFIX):
        await apply_answer(storage, queue, principal, str(said.get("id")), said.get("result"))
    return McpExchange(services, principal, method, tasks, call, begins, elicits, position)


def _read_meta(params: JsonObject, name: str) -> JsonValue:
    meta = params.get("_meta")
    return meta.get(name) if isinstance(meta, dict) else None


def _read_capability(params: JsonObject, name: str) -> JsonValue:
    capabilities = _read_meta(params, _CAPABILITIES)
    return capabilities.get(name) if isinstance(capabilities, dict) else None


def check_origin(request: Request, public_url: str) -> None:
    """Reject requests from a page whose name was made to resolve to this machine (MCP 2025-11-25,
    transports, security). IP addresses and `localhost` are accepted, because no name server answers
    for them. Raises ForbiddenError."""
    origin = request.headers.get("origin")
    if origin is None:
        return
    ours = urlsplit(public_url)
    if origin == f"{ours.scheme}://{ours.netloc}":
        return
    try:
        given = urlsplit(origin)
        same = given.netloc != "" and given.netloc == request.headers.get("host")
        fine = same and _is_no_name(given.hostname or "")
    except ValueError:  # Not a URL.
        fine = False
    if not fine:
        raise e.ForbiddenError(
            "The `Origin` header of this request does not match RUNWARD_PUBLIC_URL."
        )


def _is_no_name(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _open_stream(request: Request, services: Services, principal: Principal) -> Response:
    """Return the rest of a tool call's stream, or the stream of changes, for a client of the
    protocol of 2025. Raises TooManyRequestsError."""
    if "text/event-stream" not in request.headers.get("accept", ""):
        raise HTTPException(406)
    session = McpRunSession.parse(request.headers.get(SESSION_HEADER))
    position = StreamPosition.parse(request.headers.get("last-event-id"))
    if session is None or position is None:
        frames = encode_changes(services, principal)
    else:
        rest = ContinuedStream(services, principal, position, elicits=session.elicits)
        frames = rest.encode()
    return respond_with_stream(services.live, principal, frames)


def _refuse_body(error: e.AppError) -> Response:
    lines = [error.detail, *(f"{path}: {text}" for path, text in error.errors)]
    about = {"code": _PARSE_ERROR, "message": "Parse error", "data": lines}
    body = {"jsonrpc": "2.0", "id": None, "error": about}
    return Response(to_json(body), 400, media_type="application/json")


def _replay_body(raw: bytes, receive: Receive) -> Receive:
    """Return a `receive` that first returns the body, which was already read, and then the messages
    after it."""
    read = False

    async def replay() -> Message:
        nonlocal read
        if read:
            return await receive()
        read = True
        return {"type": "http.request", "body": raw, "more_body": False}

    return replay


def _add_session_header(session: McpRunSession, send: Send) -> Send:
    async def named(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] == 200:
            header = (SESSION_HEADER.encode(), str(session).encode())
            message = {**message, "headers": [*message.get("headers", ()), header]}
        await send(message)

    return named
