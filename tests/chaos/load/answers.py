"""Faulty ways to end an HTTP response."""

import asyncio
import socket
import struct
from typing import Final

from aiohttp import web

DRIPS: Final = 200
DRIP_SECONDS: Final = 0.05
CUT_LENGTH: Final = 1000


def break_off(http: web.Request) -> None:
    """End the connection with RST, not FIN."""
    if http.transport is None:
        return
    connection: socket.socket = http.transport.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    http.transport.abort()


async def cut(http: web.Request) -> web.StreamResponse:
    """Send the beginning of a body and end the connection."""
    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    response.content_length = CUT_LENGTH
    await response.prepare(http)
    await response.write(b"only the beginning")
    break_off(http)
    return response


async def drip(http: web.Request) -> web.StreamResponse:
    """Send one byte at a time, for longer than the call may take."""
    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    await response.prepare(http)
    for _ in range(DRIPS):
        await response.write(b".")
        await asyncio.sleep(DRIP_SECONDS)
    return response
