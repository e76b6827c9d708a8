"""Clients of model providers that are closed with the last reference to their model."""

import asyncio
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import structlog

log = structlog.get_logger()

_CLOSING: Final[set[asyncio.Task[None]]] = set()


def close_with(model: object, close: Callable[[], Awaitable[None]]) -> None:
    """Await `close` when nothing refers to `model` any more: no project, and no request. `close`
    must not refer to it either, and may be called more than once."""
    loop = asyncio.get_running_loop()

    def collected() -> None:
        with suppress(RuntimeError):  # the loop is closed: the process is ending
            loop.call_soon_threadsafe(_begin, close)

    weakref.finalize(model, collected).atexit = False


def _begin(close: Callable[[], Awaitable[None]]) -> None:
    task = asyncio.create_task(_closed(close))
    _CLOSING.add(task)
    task.add_done_callback(_CLOSING.discard)


async def _closed(close: Callable[[], Awaitable[None]]) -> None:
    try:
        await close()
    except Exception:
        log.exception("model_client_not_closed")
