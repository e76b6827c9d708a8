"""Wake followers that missed a notification."""

import asyncio
from typing import Final

import structlog

from runward.services import Storage
from runward.store.live import events
from runward.store.live.feed import Feed
from runward.store.postgres.db import DATABASE_ERRORS, is_outage, log_fields

log = structlog.get_logger()

CHECK_SECONDS: Final = 2.0
"""Number of seconds between two checks of the last events of all followed runs. The checks find
lost notifications."""
RUNS_PER_QUERY: Final = 1000


async def wake_outdated_followers(storage: Storage, feed: Feed) -> None:
    """Wake the readers that have not received the last event of their run, every CHECK_SECONDS
    until cancelled. One query covers all runs that this process follows."""
    while True:
        await asyncio.sleep(CHECK_SECONDS)
        followed = feed.followed_runs
        try:
            for start in range(0, len(followed), RUNS_PER_QUERY):
                async with storage.connect() as tx:
                    chunk = followed[start : start + RUNS_PER_QUERY]
                    feed.wake_outdated(await events.last_sequences(tx, chunk))
        except DATABASE_ERRORS as error:
            if not is_outage(error):
                raise
            log.warning("follow_failed", **log_fields(error))
