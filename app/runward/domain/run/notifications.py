"""Notifications of webhook endpoints: their types, their payloads, and the schedule of their
attempts."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field

from runward.domain.events.erasure import drop_content
from runward.domain.events.kinds import (
    STORED,
    ToolCallApprovalDecidedEvent,
    ToolCallApprovalRequestedEvent,
    ToolCallOutcomeUnknownEvent,
    ToolCallRejectedEvent,
)
from runward.domain.events.values import CallReason
from runward.domain.json import JsonObject
from runward.domain.registry.guards import Frozen
from runward.domain.run.status import RUN_ENDINGS

ENDPOINT_TEST: Final = "webhook_endpoint.test"
ENDPOINT_DISABLED: Final = "webhook_endpoint.disabled"
_RUN_TYPES: Final = tuple(kind for kind in STORED if kind.startswith("run."))
_TYPES: Final[Mapping[str, str]] = {
    **{kind: kind for kind in _RUN_TYPES},
    ToolCallApprovalRequestedEvent.type: "approval.requested",
    ToolCallApprovalDecidedEvent.type: "approval.decided",
    ToolCallRejectedEvent.type: "approval.expired",
    ToolCallOutcomeUnknownEvent.type: ToolCallOutcomeUnknownEvent.type,
}
"""The type of the notification, by the type of the event."""
EVENT_TYPES: Final = tuple(_TYPES)
"""The types of events of which at least some cause notifications."""
NOTIFICATION_TYPES: Final = (*_TYPES.values(), ENDPOINT_DISABLED)
_ENDING_TYPES: Final = frozenset(kind.type for kind in RUN_ENDINGS.values())

NotificationPattern: TypeAlias = Literal[
    "*",
    "run.*",
    "run.created",
    "run.started",
    "run.waiting",
    "run.resumed",
    "run.completed",
    "run.failed",
    "run.cancelled",
    "run.incomplete",
    "run.expired",
    "approval.*",
    "approval.requested",
    "approval.decided",
    "approval.expired",
    "tool_call.outcome_unknown",
    "webhook_endpoint.disabled",
]
"""A type of notification, or all types with a prefix."""
Events = Annotated[tuple[NotificationPattern, ...], Field(min_length=1, max_length=32)]
Include = Annotated[tuple[Literal["output"], ...], Field(max_length=1)]

RETRY_SECONDS: Final = (5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)
"""The delays between the attempts: the schedule that Standard Webhooks recommends. The last attempt
is more than three days after the first."""
MAX_ATTEMPTS: Final = len(RETRY_SECONDS) + 1
MAX_FAILING: Final = timedelta(days=3)
"""How long every attempt must have failed until an endpoint is disabled."""


class DeliveryStatus(StrEnum):
    """Status of a delivery. `pending`: Runward will make an attempt. `delivered`: the endpoint
    responded with a 2xx status. `failed`: all attempts failed."""

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


class DisabledReason(StrEnum):
    """Why Runward disabled an endpoint. `gone`: it responded with status 410. `failing`: all
    attempts of three days failed."""

    GONE = "gone"
    FAILING = "failing"


class RunWebhook(Frozen):
    """The webhook of a single run. Runward signs its notifications with the project's signing
    secret."""

    url: Annotated[str, Field(max_length=2048)]
    """URL that receives the notifications. Runward checks its address before each attempt."""
    events: Events = ("*",)
    """Types of the notifications. `run.*` selects all types that begin with `run.`, and `*` selects
    all types."""
    include: Include = ()
    """Content that the notifications contain. `output`: the output or the error message of the
    run."""


def selects(patterns: Collection[str], type_: str) -> bool:
    """Return whether one of the patterns of an endpoint selects this type of notification."""
    family = f"{type_.partition('.')[0]}.*"
    return type_ in patterns or family in patterns or "*" in patterns


def find_notification_type(
    event_type: str, *, reason: str | None, has_approval: bool, is_child: bool
) -> str | None:
    """Return the type of the notification of an event. Returns None if the event causes none:
    events of child runs other than approvals and unknown outcomes, remembered decisions, and
    rejected calls whose approval did not expire. `reason` and `has_approval` are of its data."""
    match event_type:
        case ToolCallRejectedEvent.type if reason != CallReason.APPROVAL_EXPIRED:
            return None
        case ToolCallApprovalDecidedEvent.type if not has_approval:
            return None
        case _ if is_child and event_type in _RUN_TYPES:
            return None
        case _:
            return _TYPES.get(event_type)


def build_payload(
    type_: str, message_id: str, at: datetime, subject: JsonObject, data: JsonObject
) -> JsonObject:
    """Return the body of a notification, in the structure of Standard Webhooks. `subject`: the IDs
    of the resource that the notification is about."""
    timestamp = at.isoformat().replace("+00:00", "Z")
    return {"type": type_, "id": message_id, "timestamp": timestamp, "data": {**subject, **data}}


def select_data(event_type: str, data: JsonObject, include: Collection[str]) -> JsonObject:
    """Return the data of an event that a notification contains. By default, it has no content."""
    if "output" in include and event_type in _ENDING_TYPES:
        return data
    return drop_content(event_type, data)


def compute_retry_delay(
    type_: str, attempt: int, jitter: float, retry_after: float | None
) -> timedelta | None:
    """Return the delay after the failed attempt number `attempt`, or None if it was the last one.
    `jitter`: a random number from 0 to 1, which adds up to a tenth. `retry_after`: the seconds that
    the endpoint requested."""
    if attempt >= MAX_ATTEMPTS or type_ == ENDPOINT_TEST:
        return None
    seconds = RETRY_SECONDS[attempt - 1] * (1 + jitter / 10)
    return timedelta(seconds=max(seconds, retry_after or 0.0))


def is_success(status: int) -> bool:
    return 200 <= status < 300


def find_disabled_reason(status: int | None, failing_for: timedelta) -> DisabledReason | None:
    """Return why a failed attempt disables its endpoint. `status`: the HTTP status, if there was a
    response. `failing_for`: the time since the first failure in a row."""
    if status == 410:
        return DisabledReason.GONE
    return DisabledReason.FAILING if failing_for >= MAX_FAILING else None
