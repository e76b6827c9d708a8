"""Hints get lost: every two seconds, one query for all runs that somebody here follows."""

import asyncio
from typing import Final

import structlog

from runward.services import Storage
from runward.store.live import events
from runward.store.live.listener import Feed
from runward.store.postgres.db import DATABASE_ERRORS, is_outage, log_fields

log = structlog.get_logger()

INTERVAL_SECONDS: Final = 2.0
RUNS_PER_QUERY: Final = 1000
"""Runs asked about in one statement."""


async def wake_outdated_followers(storage: Storage, feed: Feed) -> None:
    """Until cancelled. The streams themselves hold no connection and never poll."""
    while True:
        await asyncio.sleep(INTERVAL_SECONDS)
        followed = feed.followed_runs
        try:
            for start in range(0, len(followed), RUNS_PER_QUERY):
                async with storage.read() as tx:
                    last = await events.last_sequences(tx, followed[start : start + RUNS_PER_QUERY])
                feed.wake_outdated(last)
        except DATABASE_ERRORS as error:
            if not is_outage(error):
                raise
            log.warning("follow_failed", **log_fields(error))
