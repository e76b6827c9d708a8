"""The process with the model servers, the tool servers and the MCP server:

    python -m tests.chaos.load.servers --folder DIR --seed S

It prints one line of JSON when it is ready: `openai_base_url`, `tools_url`, `mcp_url`, `pid`. Model
servers, tool servers and MCP servers are never stopped by a fault, since a plan's faults come from
them. SIGTERM ends the process.
"""

import argparse
import asyncio
import json
import os
import signal
import socket
from pathlib import Path
from typing import Final

import uvloop
from aiohttp import web

from tests.chaos.load.mcp_server import Mcp
from tests.chaos.load.models import Models
from tests.chaos.load.tools import Tools
from tests.checker.evidence import Log

BACKLOG: Final = 1024
MAX_BODY_BYTES: Final = 8 * 1024 * 1024
SHUTDOWN_SECONDS: Final = 0.5


async def serve(folder: Path, seed: int, host: str) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    tools = Tools(Log(folder, "tools.jsonl"), folder, seed)
    app = web.Application(client_max_size=MAX_BODY_BYTES)
    Models(folder, seed).add_routes(app.router)
    tools.add_routes(app.router)
    runner = web.AppRunner(
        app, access_log=None, handler_cancellation=True, shutdown_timeout=SHUTDOWN_SECONDS
    )
    await runner.setup()
    listening, box = (socket.create_server((host, 0), backlog=BACKLOG) for _ in range(2))
    await web.SockSite(runner, listening, backlog=BACKLOG).start()
    serving = asyncio.create_task(Mcp(tools, seed).serve(box, stop))
    url = f"http://{host}:{listening.getsockname()[1]}"
    ready = {
        "openai_base_url": f"{url}/v1",
        "tools_url": f"{url}/tools",
        "mcp_url": f"http://{host}:{box.getsockname()[1]}/mcp",
        "pid": os.getpid(),
    }
    print(json.dumps(ready), flush=True)
    await stop.wait()
    await serving
    await tools.close()
    await runner.cleanup()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    options = parser.parse_args()
    uvloop.run(serve(options.folder, options.seed, options.host))


if __name__ == "__main__":
    main()
