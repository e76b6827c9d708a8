"""Call an agent as a tool of an MCP server, and ask the user for the approval (elicitation).

    pip install mcp
    RUNWARD_KEY=rw_… python3 examples/one_agent/mcp_client.py

The key needs the scopes runs:write and approvals:decide.
"""

import asyncio
import os
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult

URL = os.environ.get("RUNWARD_URL", "http://127.0.0.1:8080") + "/mcp"
KEY = os.environ["RUNWARD_KEY"]


async def ask(_: Any, question: Any) -> ElicitResult:
    answer = await asyncio.to_thread(input, f"{question.message} [y/n] ")
    decision = "approve" if answer == "y" else "reject"
    return ElicitResult(action="accept", content={"decision": decision})


async def main() -> None:
    headers = {"Authorization": f"Bearer {KEY}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=None) as http,
        Client(streamable_http_client(URL, http_client=http), elicitation_callback=ask) as runward,
    ):
        result = await runward.call_tool(
            "agent_refund_clerk", {"input": "Refund 500 euros for order A-1018."}
        )
        for block in result.content:
            print(block.text if block.type == "text" else block.type)


asyncio.run(main())
