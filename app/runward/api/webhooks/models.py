"""Request and response models of webhook endpoints and deliveries."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field

from runward.api.http.models import (
    EXAMPLE_TIME,
    RUN_ID,
    RequestModel,
    ResponseModel,
    create_request_model,
    make_optional,
    with_example,
)
from runward.domain.ids import Prefix, format_id, format_optional_id
from runward.domain.json import JsonObject
from runward.domain.registry.guards import TargetUrl
from runward.domain.run.notifications import DeliveryStatus, DisabledReason, Events, Include
from runward.store.webhooks.deliveries import Delivery
from runward.store.webhooks.endpoints import StoredEndpoint
from runward.tools import signing

ENDPOINT_ID: Final = "we_019a5f1e9c637f749e2f7d9dbd5f5f93"
DELIVERY_ID: Final = "wd_019a5f1e9d74708a8f308eaece6060a4"
_URL: Final = "https://example.com/runward"
_GIVEN: Final[dict[str, Any]] = {
    "url": _URL,
    "description": "Tells the chat when a person must act",
    "events": ["run.completed", "approval.*"],
    "include": [],
    "enabled": True,
}


class CreateWebhookEndpoint(RequestModel):
    """A webhook endpoint to create."""

    model_config = with_example(url=_URL, events=["run.completed", "approval.*"])

    url: TargetUrl
    """URL that receives the notifications. Runward checks its address before each attempt."""
    description: Annotated[str, Field(max_length=500)] = ""
    """Description for people."""
    events: Events = ("*",)
    """Types of the notifications. `run.*` selects all types that begin with `run.`, and `*` selects
    all types."""
    include: Include = ()
    """Content that the notifications contain. `output`: the output or the error message of a run
    that has ended."""
    enabled: bool = True
    """Whether the endpoint receives notifications."""


_PatchFields: Final = create_request_model(
    "_PatchFields", make_optional(CreateWebhookEndpoint, without=())
)


class UpdateWebhookEndpoint(_PatchFields):
    """The fields to update. `enabled: true` also enables an endpoint that Runward has disabled. All
    its pending deliveries are then due."""

    model_config = with_example(enabled=True)


_ENDPOINT: Final[dict[str, Any]] = {
    "id": ENDPOINT_ID,
    "object": "webhook_endpoint",
    **_GIVEN,
    "disabled_reason": None,
    "failing_since": None,
    "created_at": EXAMPLE_TIME,
    "updated_at": EXAMPLE_TIME,
}


class WebhookEndpoint(ResponseModel):
    """An address that receives notifications of the project's events."""

    model_config = with_example(**_ENDPOINT)

    id: str
    """ID of the webhook endpoint."""
    object: Literal["webhook_endpoint"] = "webhook_endpoint"
    url: str
    """URL that receives the notifications."""
    description: str
    """Description for people."""
    events: list[str]
    """Types of the notifications that the endpoint receives."""
    include: list[str]
    """Content that the notifications contain."""
    enabled: bool
    """Whether the endpoint receives notifications."""
    disabled_reason: DisabledReason | None
    """Why Runward disabled the endpoint. Null if it is enabled, or if a client disabled it."""
    failing_since: datetime | None
    """When the first of the latest attempts failed. Null if the last attempt was successful."""
    created_at: datetime
    """When the endpoint was created."""
    updated_at: datetime
    """When the endpoint was last updated."""

    @classmethod
    def from_row(cls, row: StoredEndpoint, **fields: Any) -> Self:
        return cls.from_attributes(row, id=format_id(Prefix.WEBHOOK_ENDPOINT, row.id), **fields)


class NewWebhookEndpoint(WebhookEndpoint):
    """A webhook endpoint that was just created, with its signing secret."""

    model_config = with_example(**_ENDPOINT, secret="whsec_…")  # noqa: S106  # an example

    secret: str
    """Signing secret of the notifications (`whsec_…`). Runward returns it only once."""


class WebhookEndpointSecret(ResponseModel):
    """The new signing secret of a webhook endpoint. The previous secret stays valid for 24
    hours."""

    model_config = with_example(secret="whsec_…")  # noqa: S106  # an example

    secret: str
    """The new signing secret (`whsec_…`). Runward returns it only once."""


class WebhookAttempt(ResponseModel):
    """One attempt of a delivery, with the endpoint's response."""

    sent_at: datetime
    """When Runward sent the request."""
    duration_ms: float
    """Milliseconds until the end of the response, or until the attempt failed."""
    status_code: int | None
    """HTTP status of the response. Null without a response."""
    response_body: str | None
    """First 4 KiB of the response as text. Null without a response, or after the content of the run
    was erased."""
    error: str | None
    """Why the attempt failed without a response, or what is wrong with the response."""


class WebhookRequest(ResponseModel):
    """The request that Runward sends for a delivery. Each attempt also has headers of its
    own, such as `webhook-timestamp` and `webhook-signature`."""

    url: str
    """URL that receives the notification."""
    headers: dict[str, str]
    """Headers that are the same for each attempt."""
    body: JsonObject
    """Body of the request."""


class WebhookDelivery(ResponseModel):
    """One notification to one endpoint, with all its attempts."""

    model_config = with_example(
        id=DELIVERY_ID,
        webhook_endpoint_id=ENDPOINT_ID,
        run_id=RUN_ID,
        event_id="evt_019a5f1e7d3c7b0e9a4f2c6d8e1b3a57_7",
        type="run.completed",
        status="delivered",
        request={
            "url": _URL,
            "headers": signing.fixed_headers("evt_019a5f1e7d3c7b0e9a4f2c6d8e1b3a57_7"),
            "body": {
                "type": "run.completed",
                "id": "evt_019a5f1e7d3c7b0e9a4f2c6d8e1b3a57_7",
                "timestamp": EXAMPLE_TIME,
                "data": {"run_id": RUN_ID, "sequence": 7},
            },
        },
        attempts=[
            {
                "sent_at": EXAMPLE_TIME,
                "duration_ms": 41.7,
                "status_code": 204,
                "response_body": "",
                "error": None,
            }
        ],
        next_attempt_at=None,
        created_at=EXAMPLE_TIME,
        ended_at=EXAMPLE_TIME,
    )

    id: str
    """ID of the delivery."""
    object: Literal["webhook_delivery"] = "webhook_delivery"
    webhook_endpoint_id: str | None
    """ID of the webhook endpoint. Null for the `webhook` of a run."""
    run_id: str | None
    """ID of the run. Null if the notification is about no run."""
    event_id: str
    """ID of the event. All attempts of all deliveries of an event have this ID as `webhook-id`."""
    type: str
    """Type of the notification."""
    status: DeliveryStatus
    """Status of the delivery."""
    request: WebhookRequest
    """Request that Runward sends."""
    attempts: list[WebhookAttempt]
    """The newest 20 attempts, oldest first."""
    next_attempt_at: datetime | None
    """When the next attempt is due. Null if there is none, or if it waits until the endpoint is
    enabled."""
    created_at: datetime
    """When the delivery was created. By default, Runward deletes it 30 days later."""
    ended_at: datetime | None
    """When the delivery ended. Null while it is pending."""

    @classmethod
    def from_row(cls, row: Delivery) -> Self:
        return cls.from_attributes(
            row,
            id=format_id(Prefix.WEBHOOK_DELIVERY, row.id),
            webhook_endpoint_id=format_optional_id(Prefix.WEBHOOK_ENDPOINT, row.endpoint_id),
            run_id=format_optional_id(Prefix.RUN, row.run_id),
            event_id=row.message_id,
            request=WebhookRequest(
                url=row.url, headers=signing.fixed_headers(row.message_id), body=row.payload
            ),
            attempts=[WebhookAttempt.model_validate(one) for one in row.attempts],
            next_attempt_at=None if row.is_held else row.next_attempt_at,
        )
