"""Hints get lost: every two seconds, one query for all runs that somebody here follows."""

import asyncio
from typing import Final

import structlog

from runward.store.live import events
from runward.store.postgres.db import DATABASE_ERRORS, is_outage, log_fields
from runward.wiring import Services

log = structlog.get_logger()

INTERVAL_SECONDS: Final = 2.0
RUNS_PER_QUERY: Final = 1000
"""Runs asked about in one statement."""


async def wake_outdated_followers(services: Services) -> None:
    """Until cancelled. The streams themselves hold no connection and never poll."""
    while True:
        await asyncio.sleep(INTERVAL_SECONDS)
        followed = services.feed.followed_runs
        try:
            for start in range(0, len(followed), RUNS_PER_QUERY):
                async with services.autocommit.connect() as tx:
                    last = await events.last_sequences(tx, followed[start : start + RUNS_PER_QUERY])
                services.feed.wake_outdated(last)
        except DATABASE_ERRORS as error:
            if not is_outage(error):
                raise
            log.warning("follow_failed", **log_fields(error))
