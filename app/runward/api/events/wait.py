"""Holding an answer until a run settles."""

import asyncio
from typing import Final

from runward.domain.ids import ProjectId, RunId
from runward.domain.run.status import WAIT_ENDING
from runward.services import Live, Storage
from runward.store.live.events import StoredEvent
from runward.store.live.listener import Follower
from runward.store.runs import views

RECHECK_SECONDS: Final = 2.0
"""A hint may be lost, so it is looked at least so often."""


async def wait_until_settled(
    storage: Storage, live: Live, project_id: ProjectId, run_id: RunId, seconds: float
) -> None:
    """Returns when the run has ended or needs someone, after `seconds`, or when the process
    stops. Holds no database connection meanwhile."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    with live.follow(project_id, run_id) as follower:
        while not live.is_stopping():
            async with storage.read() as tx:
                found = await views.get_status(tx, project_id, run_id)
            if found is None or found[0] in WAIT_ENDING:
                return
            while (left := end - loop.time()) > 0:
                woken = await follower.wait(min(left, RECHECK_SECONDS))
                if not woken or _may_have_settled(follower):
                    break
            else:
                return


def _may_have_settled(follower: Follower) -> bool:
    """Whether what was pushed since could be worth a look; a hint without events is."""
    pushed = list(follower.pushed)
    follower.pushed.clear()
    return not pushed or any(
        isinstance(one, StoredEvent) and (one.is_last or one.type == "run.waiting")
        for one in pushed
    )
