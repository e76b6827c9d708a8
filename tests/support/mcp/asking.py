"""`tests.support.mcp.process` of the protocol of 2025, with tools that ask while their call is
open: `python -m tests.support.mcp.asking PORT`."""

import asyncio
import sys
from typing import Any

from mcp.server.mcpserver import Context

from tests.support.mcp.process import SERVER, add, note, serve, slow

PETS = [{"const": "c", "title": "Cat"}, {"const": "d", "title": "Dog"}]
FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "pet": {"type": "string", "title": "Pet", "oneOf": PETS},
    },
}


async def ask(questions: list[str], ctx: Context) -> str:
    """Ask the questions one after the other, on the stream of the call."""
    return await _ask(questions, ctx, related=True)


async def ask_anywhere(questions: list[str], ctx: Context) -> str:
    """The same, on the stream of the session. So do servers of the SDK in TypeScript."""
    return await _ask(questions, ctx, related=False)


async def _ask(questions: list[str], ctx: Context, *, related: bool) -> str:
    note("call", ctx, questions=questions)
    names: list[str] = []
    try:
        for question in questions:
            request_id = ctx.request_id if related else None
            answer = await ctx.session.elicit_form(question, FORM, request_id)
            names.append(str((answer.content or {}).get("name", answer.action)))
    except asyncio.CancelledError:
        note("cancelled", ctx)
        raise
    note("answered", ctx, names=names)
    return " and ".join(names)


if __name__ == "__main__":
    for tool in (add, ask, ask_anywhere, slow):
        SERVER.add_tool(tool)
    asyncio.run(serve(int(sys.argv[1]), legacy=True))
