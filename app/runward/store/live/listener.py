"""The one LISTEN connection of a process.

Notifications can be lost, duplicated or wrong, so readers read the log again when they are woken
and at named intervals. Correctness never depends on this module.
"""

import asyncio
from collections.abc import Callable, Mapping, Set
from typing import Any, Final, cast
from uuid import UUID

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
import structlog

from runward.store.postgres.addresses import read_url
from runward.store.postgres.db import log_fields

log = structlog.get_logger()

RECONNECT_SECONDS: Final = 0.5
KEEPALIVE_SECONDS: Final = 15.0
"""A LISTEN connection can be lost without an error. Therefore a keepalive query runs at this
interval, in seconds."""


class Listener:
    """Converts NOTIFY messages to calls. `on_run` is called with the ID of a run that changed, or
    with None if any run may have changed. The worker of the run wrote the change if it is a
    message to `runward_steps`, and another process if it is one to `runward_runs`. `on_tools` is
    called with the ID of a project or None. `on_work` is called with the payload, and so is the
    function of a channel in `on_payload`. Messages to a channel without a function do not wake the
    process. Messages from the backends in `own_backends` are ignored, because this process already
    has their content."""

    def __init__(
        self,
        url: str,
        *,
        on_run: Callable[[UUID | None], None],
        on_tools: Callable[[UUID | None], None],
        own_backends: Set[int],
        on_step: Callable[[UUID | None], None] | None = None,
        on_work: Callable[[str], None] | None = None,
        on_payload: Mapping[str, Callable[[str], None]] | None = None,
        keepalive: float = KEEPALIVE_SECONDS,
    ) -> None:
        self._address = read_url(url, "RUNWARD_LISTEN_URL or DATABASE_URL")
        self._keepalive = keepalive
        self._on_run = on_run
        self._on_work = on_work
        self._on_tools = on_tools
        self._ids = {"runward_runs": on_run, "runward_steps": on_step, "runward_tools": on_tools}
        self._payloads = {"runward_work": on_work, **(on_payload or {})}
        self._own = own_backends

    async def run(self) -> None:
        """Listen until cancelled, and reconnect after every error. After each connect, first LISTEN
        and then wake all readers, because notifications were lost before. A connection that is lost
        during a message makes the driver raise unusual errors. All errors are handled alike,
        because notifications are only hints."""
        while True:
            try:
                await self._listen()
            except Exception as error:
                log.warning("listen_lost", **log_fields(error))
            await asyncio.sleep(RECONNECT_SECONDS)

    async def _listen(self) -> None:
        address = self._address
        seconds, settings = address.seconds, address.server_settings
        connect = cast("Any", asyncpg.connect)  # pyright: ignore[reportUnknownMemberType]
        connection = await connect(
            address.dsn, timeout=seconds, command_timeout=seconds, server_settings=settings
        )
        closed = asyncio.Event()

        def lost(_: object) -> None:
            closed.set()

        try:
            connection.add_termination_listener(lost)
            for channel, tell in (self._ids | self._payloads).items():
                if tell is not None:
                    await connection.add_listener(channel, self._dispatch)
            self._on_run(None)
            self._on_tools(None)
            if self._on_work is not None:
                self._on_work("")
            while not await _wait_within(self._keepalive, closed):
                await connection.execute("SELECT 1")
            log.warning("listen_lost", error="closed")
        finally:
            connection.terminate()

    def _dispatch(self, _: object, sender: int, channel: str, payload: object) -> None:
        if sender in self._own:
            return
        if (receive := self._payloads.get(channel)) is not None:
            receive(str(payload))
        elif (tell := self._ids.get(channel)) is not None:
            for named in _parse_ids(str(payload)):
                tell(named)


def _parse_ids(hint: str) -> list[UUID | None]:
    """Return the IDs in a notification, or `[None]` if any run or project may have changed."""
    try:
        return [UUID(shown) for shown in hint.split(",")]
    except ValueError:
        return [None]


async def _wait_within(seconds: float, event: asyncio.Event) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False
