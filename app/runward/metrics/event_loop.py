"""The lag of the event loop: how late its timers are."""

import asyncio
from typing import Final

from runward.metrics.definitions import LOOP_LAG_SECONDS

INTERVAL_SECONDS: Final = 1.0


async def measure_lag() -> None:
    """Measure the lag of the running event loop, until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + INTERVAL_SECONDS
        await asyncio.sleep(INTERVAL_SECONDS)
        LOOP_LAG_SECONDS.observe(max(0.0, loop.time() - due))
