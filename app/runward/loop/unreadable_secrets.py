"""Runs whose secrets this process cannot decrypt."""

from contextlib import suppress
from datetime import timedelta
from typing import Final

import structlog

from runward.domain.ids import Prefix, format_id
from runward.domain.run.status import Move
from runward.loop.leased_run import LeasedRun, LeaseLostError
from runward.store.access.vault import SecretUnreadableError
from runward.store.runs.gate import Ending

log = structlog.get_logger()

UNREADABLE_DELAY: Final = timedelta(seconds=10)
"""Delay before the next claim of a run whose secrets this process could not decrypt, multiplied by
the number of its claims. All processes may have the wrong key, and each claim adds an event."""
LONGEST_UNREADABLE_DELAY: Final = timedelta(minutes=10)


async def return_unreadable(leased: LeasedRun, error: SecretUnreadableError) -> None:
    """Give the run back for another process that may have the key. The claim does not count as one
    that crashed."""
    run_id, fence = leased.state.id, leased.state.fence
    log.error("secret_unreadable", run=format_id(Prefix.RUN, run_id), reason=str(error))
    delay = min(UNREADABLE_DELAY * fence, LONGEST_UNREADABLE_DELAY)
    later = Ending(Move.RELEASE, delay=delay, keep_claim=True)
    with suppress(LeaseLostError):
        await leased.write(leased.state, leased.changes, expected_version=None, ending=later)
