"""The MCP SDK's own client against Runward's /mcp, in either of the protocol's generations."""

from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Literal, TypeAlias

import httpx2
from mcp import Client
from mcp.client.extension import ClientExtension
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, ElicitResult, Implementation

from tests.support.services.client import NO_TLS

Generation: TypeAlias = Literal["2025", "2026"]
BOTH: Final[tuple[Generation, ...]] = ("2025", "2026")
CLIENT: Final = Implementation(name="test-client", version="7.1")


@asynccontextmanager
async def mcp_client(
    url: str,
    key: str,
    generation: Generation = "2026",
    *,
    heard: Callable[[Any], Coroutine[Any, Any, None]] | None = None,
    elicited: Callable[[Any, Any], Coroutine[Any, Any, ElicitResult]] | None = None,
    extensions: Sequence[ClientExtension] = (),
) -> AsyncGenerator[Client]:
    """`url`: of the service. `heard` gets what the server says unasked, and `elicited` answers in
    place of the client's user. That the newer generation
    is spoken is not left to chance."""
    headers = {"Authorization": f"Bearer {key}"}
    timeout = httpx2.Timeout(30.0, read=None)
    async with httpx2.AsyncClient(
        headers=headers, timeout=timeout, trust_env=False, verify=NO_TLS
    ) as http:
        client = Client(
            streamable_http_client(f"{url}/mcp", http_client=http),
            mode="legacy" if generation == "2025" else "auto",
            client_info=CLIENT,
            elicitation_callback=elicited,  # pyright: ignore[reportArgumentType]
            extensions=extensions,
            message_handler=heard,  # pyright: ignore[reportArgumentType]
            cache=None,
        )
        async with client:
            assert client.protocol_version.startswith(generation)
            yield client


def said(result: CallToolResult) -> str:
    """Its texts."""
    return "\n".join(block.text for block in result.content if block.type == "text")


def run_of(result: CallToolResult) -> str:
    """The id of the run behind it."""
    assert result.meta is not None
    return str(result.meta["runward/run_id"])
