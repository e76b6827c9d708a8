"""Send notifications to webhook endpoints. Any number of workers can share the deliveries."""

import asyncio
import random
from collections import Counter, OrderedDict
from datetime import UTC, datetime
from time import perf_counter
from typing import Final
from uuid import UUID

import structlog
from structlog.contextvars import bind_contextvars

from runward.domain.ids import Prefix, format_id
from runward.domain.run.notifications import is_success
from runward.egress.responses import EgressOutcome, EgressResponse
from runward.loop.project_cache import PolicyCache
from runward.loop.spans import Tracing
from runward.metrics.definitions import (
    BACKGROUND_FAILURES,
    WEBHOOK_ENDPOINTS_DISABLED,
    WEBHOOK_SECONDS,
)
from runward.services import Storage
from runward.store.access.vault import SecretUnreadableError
from runward.store.postgres.db import DATABASE_ERRORS, is_outage, log_fields
from runward.store.postgres.project_scope import restrict_to
from runward.store.webhooks import deliveries
from runward.store.webhooks.deliveries import Attempt, ClaimedDelivery, ClaimLimit, Delivery
from runward.tools.signing import SignedPostClient
from runward.tools.webhook.response import read_retry_after

log = structlog.get_logger()

MAX_AT_ONCE: Final = 128
"""Maximum number of concurrent requests of one worker."""
MAX_PER_TARGET: Final = 8
"""Maximum number of concurrent requests of one worker to one endpoint. If the last request to the
endpoint failed, the maximum is 1."""
MAX_PER_PROJECT: Final = 64
"""Maximum number of concurrent requests of one worker to all endpoints of one project."""
MAX_FAILING: Final = 10_000
"""Maximum number of endpoints whose last failure is remembered."""
TIMEOUT_SECONDS: Final = 15.0
MAX_RESPONSE_BYTES: Final = 4096
"""Number of bytes that are read and stored of a response."""


class DeliveryWorker:
    """Claims deliveries that are due, and sends them."""

    def __init__(
        self, storage: Storage, posts: SignedPostClient, policies: PolicyCache, tracing: Tracing
    ) -> None:
        self._storage = storage
        self._posts = posts
        self._policies = policies
        self._tracing = tracing
        self._due = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._of_targets: Counter[UUID] = Counter()
        self._of_projects: Counter[UUID] = Counter()
        self._failing: OrderedDict[UUID, None] = OrderedDict()

    def wake(self) -> None:
        """Claim now, because a delivery may be due."""
        self._due.set()

    async def run(self) -> None:
        """Send deliveries whenever `wake` is called, until cancelled."""
        while True:
            await self._due.wait()
            self._due.clear()
            try:
                while await self._start_due():
                    pass
            except DATABASE_ERRORS as error:  # The next wake-up retries.
                if not is_outage(error):
                    raise
                log.warning("delivery_claim_failed", **log_fields(error))

    async def finish(self) -> None:
        """Wait for the requests in flight. Call it after `run` was cancelled."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    def cancel(self) -> None:
        """Cancel the requests in flight. Their deliveries are due again after the lease."""
        for task in self._tasks:
            task.cancel()

    async def _start_due(self) -> bool:
        room = MAX_AT_ONCE - len(self._tasks)
        if room <= 0:
            return False
        async with self._storage.connect() as tx:
            claimed = await deliveries.claim_deliveries(
                tx, room, self._limit_targets(), self._limit_projects()
            )
        for one in claimed:
            self._count(one.delivery, 1)
            task = asyncio.create_task(self._deliver(one), name=f"delivery {one.delivery.id}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return bool(claimed)

    def _count(self, delivery: Delivery, change: int) -> None:
        for running, one in (
            (self._of_targets, delivery.target),
            (self._of_projects, delivery.project_id),
        ):
            running[one] += change
            if not running[one]:
                del running[one]

    def _limit_targets(self) -> ClaimLimit:
        limits = dict.fromkeys(self._of_targets, MAX_PER_TARGET) | dict.fromkeys(self._failing, 1)
        free = {one: max(0, limit - self._of_targets[one]) for one, limit in limits.items()}
        return ClaimLimit(MAX_PER_TARGET, free)

    def _limit_projects(self) -> ClaimLimit:
        free = {one: MAX_PER_PROJECT - count for one, count in self._of_projects.items()}
        return ClaimLimit(MAX_PER_PROJECT, free)

    async def _deliver(self, claimed: ClaimedDelivery) -> None:
        delivery = claimed.delivery
        restrict_to(delivery.project_id)
        bind_contextvars(**_about(delivery))
        if claimed.claim is not None:
            self._tracing.enter(claimed.claim)
        try:
            if claimed.enabled:
                await self._attempt(claimed)
            else:
                async with self._storage.connect() as tx:
                    await deliveries.hold_delivery(tx, delivery)
        except DATABASE_ERRORS as error:  # The delivery is due again after the lease.
            log.warning("delivery_not_recorded", **log_fields(error))
        except Exception:
            BACKGROUND_FAILURES.count("delivery")
            log.exception("delivery_failed")
        finally:
            self._count(delivery, -1)
            self.wake()

    async def _attempt(self, claimed: ClaimedDelivery) -> None:
        delivery = claimed.delivery
        sent_at, started = datetime.now(UTC), perf_counter()
        outcome = await self._send(claimed)
        seconds = perf_counter() - started
        attempt = _describe(outcome, sent_at, seconds)
        delivered = attempt.status_code is not None and is_success(attempt.status_code)
        WEBHOOK_SECONDS.observe(seconds, "delivered" if delivered else "failed")
        if delivered:
            self._failing.pop(delivery.target, None)
            async with self._storage.begin() as tx:
                await deliveries.record_success(tx, delivery, attempt)
            return
        self._failing[delivery.target] = None
        while len(self._failing) > MAX_FAILING:
            self._failing.popitem(last=False)
        retry_after = read_retry_after(outcome) if isinstance(outcome, EgressResponse) else None
        jitter = random.random()  # noqa: S311  # no secret
        async with self._storage.begin() as tx:
            reason = await deliveries.record_failure(tx, delivery, attempt, jitter, retry_after)
        if reason is not None:
            WEBHOOK_ENDPOINTS_DISABLED.count(reason)
            log.warning("webhook_endpoint_disabled", reason=reason)

    async def _send(self, claimed: ClaimedDelivery) -> EgressOutcome | str:
        """Return the outcome of the request, or why there was none."""
        delivery = claimed.delivery
        try:
            if claimed.sealed_secrets is None:
                secrets = (await self._policies.of(delivery.project_id)).secrets
            else:
                secrets = claimed.open_secrets(self._storage.vault)
        except SecretUnreadableError as error:
            return str(error)
        return await self._posts.send(
            delivery.url,
            delivery.payload,
            message_id=delivery.message_id,
            secrets=secrets,
            seconds=TIMEOUT_SECONDS,
            max_response_bytes=MAX_RESPONSE_BYTES,
        )


def _describe(outcome: EgressOutcome | str, sent_at: datetime, seconds: float) -> Attempt:
    duration = round(seconds * 1000, 3)
    if isinstance(outcome, EgressResponse):
        body = outcome.body.decode(errors="replace").replace("\0", "\ufffd")
        error = None
        if 300 <= outcome.status < 400:
            error = "The endpoint redirects to another address. Runward does not follow redirects."
        return Attempt(sent_at, duration, outcome.status, body, error)
    detail = outcome if isinstance(outcome, str) else outcome.detail
    return Attempt(sent_at, duration, None, None, detail)


def _about(delivery: Delivery) -> dict[str, str]:
    """Return the IDs that all log lines of the delivery contain."""
    ids = {
        "project": (Prefix.PROJECT, delivery.project_id),
        "run": (Prefix.RUN, delivery.run_id),
        "delivery": (Prefix.WEBHOOK_DELIVERY, delivery.id),
        "endpoint": (Prefix.WEBHOOK_ENDPOINT, delivery.endpoint_id),
    }
    return {name: format_id(prefix, id_) for name, (prefix, id_) in ids.items() if id_ is not None}
