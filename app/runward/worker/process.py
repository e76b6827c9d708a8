"""The process of a worker: renew leases, sweep, and give the runs back before it ends."""

import asyncio
from contextlib import suppress
from datetime import timedelta

import structlog

from runward.tools.signing import SignedPostClient
from runward.worker.cleaner import Cleaner
from runward.worker.deliveries import DeliveryWorker
from runward.worker.leases import Heartbeat
from runward.worker.main import Worker
from runward.worker.presence import Presence
from runward.worker.reaper import Reaper
from runward.worker.reencryption import Reencryption
from runward.worker.schedules import ScheduleWorker, StartSlot

log = structlog.get_logger()


async def run_worker(
    worker: Worker, stop: asyncio.Event, drain: timedelta, version: str, start_slot: StartSlot
) -> None:
    """Execute runs until `stop` is set. Then drain for up to `drain`, until all runs are given
    back, including runs that are being claimed or accepted. `version`: of Runward. `start_slot`:
    processes a slot of a schedule."""
    services, executions, lease = worker.services, worker.executions, worker.lease
    heartbeat = Heartbeat(
        services.open_direct,
        lease,
        list_held=executions.list_held,
        list_dropped=executions.list_dropped,
        on_lost=executions.mark_lost,
    )
    deliveries = DeliveryWorker(
        services.storage,
        SignedPostClient(services.registry.egress),
        services.registry.policies,
        services.engine.tracing,
    )
    schedules = ScheduleWorker(services.storage, start_slot)
    reaper = _build_reaper(worker, deliveries, schedules)
    presence = Presence(services.storage.autocommit, worker, version)
    claiming = asyncio.create_task(worker.claim_forever(), name="claim")
    delivering = asyncio.create_task(deliveries.run(), name="deliveries")
    scheduling = asyncio.create_task(schedules.run(), name="schedules")
    background = [
        asyncio.create_task(heartbeat.run(), name="heartbeat"),
        asyncio.create_task(reaper.run(), name="reaper"),
        asyncio.create_task(worker.watch.run(), name="watch"),
        asyncio.create_task(presence.run(), name="presence"),
        claiming,
        delivering,
        scheduling,
    ]
    stopping = asyncio.create_task(_until(stop))
    log.info("worker_started", concurrency=worker.concurrency)
    try:
        done, _ = await asyncio.wait([*background, stopping], return_when=asyncio.FIRST_COMPLETED)
        worker.failed = stopping not in done
        worker.drain()
        delivering.cancel()
        scheduling.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(drain.total_seconds()):
                await asyncio.wait([claiming])
                await worker.wait_until_idle()
                await deliveries.finish()
                await schedules.finish()
        for task in done:
            task.result()  # a background task ends only if it raises
    finally:
        deliveries.cancel()
        schedules.cancel()
        for task in [*background, stopping, *worker.tasks]:
            task.cancel()
        await asyncio.gather(*background, stopping, *worker.tasks, return_exceptions=True)
        await worker.failed_claims.give_back_last()
        await presence.end()
        log.info("worker_stopped")


def _build_reaper(worker: Worker, deliveries: DeliveryWorker, schedules: ScheduleWorker) -> Reaper:
    services = worker.services
    return Reaper(
        services.storage.database,
        services.storage.vault,
        services.queue.quarantine,
        worker.lease,
        Cleaner(services.storage.database, services.retention),
        Reencryption(services.storage.database, services.key_ring),
        enqueue_notices=services.queue.notify_tools,
        wake_deliveries=deliveries.wake,
        wake_schedules=schedules.wake,
    )


async def _until(stop: asyncio.Event) -> None:
    await stop.wait()
