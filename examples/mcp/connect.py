"""Call a tool of Runward as an MCP client, and approve the call over the REST API while it waits.

    RUNWARD_KEY=rw_… python3 examples/mcp/connect.py refund '{"order": "A-1017", "amount": 500}'

It needs the MCP SDK (pip install mcp). The key needs runs:write for the call and approvals:decide
for the decision. A real client has only the first scope.
"""

import asyncio
import json
import os
import re
import sys

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

URL = os.environ.get("RUNWARD_URL", "http://127.0.0.1:8080")
KEY = os.environ["RUNWARD_KEY"]


async def main(tool: str, arguments: dict[str, object]) -> None:
    headers = {"Authorization": f"Bearer {KEY}"}
    timeout = httpx2.Timeout(30, read=None)
    async with httpx2.AsyncClient(headers=headers, timeout=timeout, trust_env=False) as http:
        decided: set[str] = set()

        async def progress(_: float, __: float | None, message: str | None) -> None:
            """Approve the call. A person would first read it, in GET /v1/approvals/{id}."""
            for approval in set(re.findall(r"apr_[0-9a-f]{32}", message or "")) - decided:
                decided.add(approval)
                path = f"{URL}/v1/approvals/{approval}/decision"
                answer = await http.post(path, json={"decision": "approve"})
                print("approved", answer.json()["tool"])

        async with Client(streamable_http_client(f"{URL}/mcp", http_client=http)) as mcp:
            listed = (await mcp.list_tools()).tools
            print("tools", *(one.name for one in listed))
            result = await mcp.call_tool(tool, arguments, progress_callback=progress)
        print("error" if result.is_error else "result")
        for block in result.content:
            print(block.text if block.type == "text" else block.type)
        assert result.meta is not None
        run = (await http.get(f"{URL}/v1/runs/{result.meta['runward/run_id']}")).json()
        print("run", run["status"])


asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
