"""The MCP server of the load: the server of the `mcp` package, with the faults of the plan."""

import asyncio
import json
import re
import socket
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

from tests.chaos.load.plan import number_of, plan_id_in, plan_of
from tests.chaos.load.tools import HANG_SECONDS, SLOW_SECONDS, Tools

_CALL: Final = re.compile(rb'"method":\s*"tools/call"')
_CALL_ID: Final = re.compile(rb'"call":\s*"([^"]+)"')
MAX_BODY_BYTES: Final = 1_000_000


class Mcp:
    """Tools `deposit` (has an effect) and `lookup` (only reads), whose hits are written with the
    webhook tools' ones."""

    def __init__(self, tools: Tools, seed: int) -> None:
        self._tools = tools
        self._seed = seed
        self._attempts: Counter[tuple[str, str]] = Counter()
        self._server = MCPServer("box", log_level="CRITICAL")
        reads = ToolAnnotations(read_only_hint=True)
        self._server.add_tool(self._deposit, name="deposit")
        self._server.add_tool(self._lookup, name="lookup", annotations=reads)

    async def _deposit(self, plan: str, call: str, amount: int, ctx: Context) -> dict[str, str]:
        """Put something into the box."""
        return await self._called("deposit", plan, call, amount, ctx)

    async def _lookup(self, plan: str, call: str, amount: int, ctx: Context) -> dict[str, str]:
        """Look into the box."""
        return await self._called("lookup", plan, call, amount, ctx)

    async def _called(
        self, tool: str, plan: str, call: str, amount: int, ctx: Context
    ) -> dict[str, str]:
        self._attempts[(plan, call)] += 1
        behavior = self._behavior(plan, call)
        body = {
            "type": "tool_call",
            "tool": f"box_{tool}",
            "arguments": {"plan": plan, "call": call, "amount": amount},
        }
        headers = {name.lower(): value for name, value in (ctx.headers or {}).items()}
        number = self._tools.arrive(f"box_{tool}", headers, body, behavior, transport="mcp")
        outcome = "abandoned"
        try:
            await _behave(behavior)
            outcome = "abandoned" if behavior == "cut" else "answered"
        except ToolError:
            outcome = "answered"
            raise
        finally:
            self._tools.end(number, outcome)
        return {"box": call}

    def _behavior(self, plan_id: str, call_id: str) -> str:
        call = plan_of(self._seed, number_of(plan_id)).calls.get(call_id)
        return "answer" if call is None else call.behavior(self._attempts[(plan_id, call_id)])

    def _cut(self, raw: bytes) -> bool:
        """Whether the answer to this request is to be cut off."""
        plan_id, call = plan_id_in(raw.decode(errors="replace")), _CALL_ID.search(raw)
        if _CALL.search(raw) is None or plan_id is None or call is None:
            return False
        planned = plan_of(self._seed, number_of(plan_id)).calls.get(call[1].decode())
        return planned is not None and planned.behavior(1) == "cut"

    async def _app(self, inner: Any, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on; the answers that are cut announce more bytes than they have."""
        if scope["type"] != "http" or scope["method"] != "POST":
            await inner(scope, receive, send)
            return
        messages: list[Any] = []
        raw = b""
        while not messages or messages[-1].get("more_body"):
            messages.append(await receive())
            raw += messages[-1].get("body", b"")
            if messages[-1]["type"] != "http.request" or len(raw) > MAX_BODY_BYTES:
                break

        async def again() -> Any:
            return messages.pop(0) if messages else await receive()

        if not self._cut(raw):
            await inner(scope, again, send)
            return

        async def swallow(message: Any) -> None:
            """The effect counts, the answer does not leave."""

        await inner(scope, again, swallow)
        headers = [(b"content-type", b"application/json"), (b"content-length", b"1000")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b'{"jsonrpc"', "more_body": False})

    async def serve(self, listening: socket.socket, stop: asyncio.Event) -> None:
        host: str = listening.getsockname()[0]
        inner = self._server.streamable_http_app(json_response=True, host=host)

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await self._app(inner, scope, receive, send)

        config = uvicorn.Config(
            app, log_level="critical", lifespan="on", timeout_graceful_shutdown=1
        )
        server = _Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        await stop.wait()
        server.should_exit = True
        await serving


class _Server(uvicorn.Server):
    """The process handles its signals itself."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


async def _behave(behavior: str) -> None:
    match behavior:
        case "slow":
            await asyncio.sleep(SLOW_SECONDS)
        case "hang":
            await asyncio.sleep(HANG_SECONDS)
        case "is_error":
            raise ToolError(json.dumps({"error": "the box is full"}))
        case "error_500":
            raise ToolError("the box broke")
        case _:
            pass
