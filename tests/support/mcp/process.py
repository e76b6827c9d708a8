"""A real MCP server, made with the SDK's server side: over streamable HTTP on loopback (`PORT
[legacy] [WITHOUT,…] [change:WHAT,…]`), or over standard input and output (`stdio [WITHOUT,…]`).

What it was asked, and with which headers, is at `GET /seen`, which with `what` and `count` waits
until that was asked so often; `POST /release` lets `slow` end.
"""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

import uvicorn
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from opentelemetry.propagate import inject
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

PIXEL = b"\x89PNG\r\n\x1a\nno real picture"
READING = ("add", "picture", "environment", "pid", "change")
SEEN: list[dict[str, Any]] = []
NOTED: set[asyncio.Event] = set()
"""Of those who wait for the next one."""
RELEASED = asyncio.Event()
SERVER = MCPServer("test", warn_on_duplicate_tools=False)


def note(what: str, ctx: Context, **more: Any) -> None:
    headers = {name.lower(): value for name, value in (ctx.headers or {}).items()}
    trace: dict[str, str] = {}
    inject(trace)  # the SDK has read it from `_meta`
    about = {"headers": headers, "version": ctx.protocol_version, "trace": trace}
    SEEN.append({"what": what, **about, **more})
    for waiting in NOTED:
        waiting.set()


async def echo(text: str, ctx: Context) -> str:
    """Say it again."""
    note("echo", ctx, text=text)
    return text


async def shout(text: str, volume: int, ctx: Context) -> str:
    """Say it again, with a volume."""
    note("shout", ctx, text=text, volume=volume)
    return text.upper()


async def add(a: int, b: int, ctx: Context) -> dict[str, int]:
    """Add two numbers."""
    note("add", ctx)
    return {"sum": a + b}


async def fail(ctx: Context) -> str:
    """Fail."""
    note("fail", ctx)
    raise ToolError("The till is closed.")


async def slow(ctx: Context) -> str:
    """Report, and wait until it is released."""
    note("slow", ctx)
    await ctx.report_progress(1, 4, "a quarter")
    try:
        await RELEASED.wait()
    except asyncio.CancelledError:
        note("cancelled", ctx)
        raise
    return "done"


async def picture() -> Image:
    """Draw."""
    return Image(data=PIXEL, format="png")


async def environment() -> list[str]:
    """The names of the process's environment."""
    return sorted(os.environ)


async def pid() -> dict[str, int]:
    """The process."""
    return {"pid": os.getpid()}


async def die(ctx: Context) -> str:
    """End the process in the middle of the call."""
    note("die", ctx)
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


async def change(what: str, ctx: Context) -> str:
    """Change the list of tools, and say so."""
    CHANGES[what]()
    await ctx.notify_tools_changed()
    await ctx.session.send_tool_list_changed()
    return "changed"


def reword() -> None:
    SERVER.remove_tool("echo")
    SERVER.add_tool(shout, name="echo")


def describe() -> None:
    SERVER.remove_tool("echo")
    SERVER.add_tool(echo, name="echo", description="Say it once more.")


CHANGES: dict[str, Callable[[], None]] = {
    "grow": lambda: SERVER.add_tool(environment, name="grown"),
    "shrink": lambda: SERVER.remove_tool("picture"),
    "reword": reword,
    "describe": describe,
}


def build(options: list[str]) -> None:
    without = {name for one in options for name in one.split(",")}
    for function in (echo, add, fail, slow, picture, environment, pid, die, change):
        name = function.__name__
        if name not in without:
            reads = ToolAnnotations(read_only_hint=True) if name in READING else None
            SERVER.add_tool(function, annotations=reads)
    for one in options:
        for what in one.removeprefix("change:").split(",") if one.startswith("change:") else ():
            CHANGES[what]()


@SERVER.custom_route("/seen", ["GET"])
async def get_seen(request: Request) -> Response:
    what, count = request.query_params.get("what"), int(request.query_params.get("count", 0))
    noted = asyncio.Event()
    NOTED.add(noted)
    while sum(one["what"] == what for one in SEEN) < count:
        await noted.wait()
        noted.clear()
    NOTED.remove(noted)
    return JSONResponse(SEEN)


@SERVER.custom_route("/release", ["POST"])
async def release(request: Request) -> Response:
    RELEASED.set()
    return JSONResponse({})


def of_2025(app: Any) -> Any:
    """Refuses whatever a server of that year would not know."""

    async def older(scope: Any, receive: Any, send: Any) -> None:
        headers: dict[bytes, bytes] = dict(scope.get("headers") or ())
        if headers.get(b"mcp-protocol-version", b"").startswith(b"2026"):
            error = {"code": -32601, "message": "Method not found"}
            answer = JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, 400)
            await answer(scope, receive, send)
        else:
            await app(scope, receive, send)

    return older


async def serve(port: int, *, legacy: bool) -> None:
    app = SERVER.streamable_http_app()
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    listening.listen(128)
    print("listening", flush=True)
    config = uvicorn.Config(of_2025(app) if legacy else app, log_level="warning")
    await uvicorn.Server(config).serve(sockets=[listening])


def main() -> None:
    where, *options = sys.argv[1:]
    build([option for option in options if option != "legacy"])
    if where == "stdio":
        asyncio.run(SERVER.run_stdio_async())
    else:
        asyncio.run(serve(int(where), legacy="legacy" in options))


if __name__ == "__main__":
    main()
