"""/v1/webhook_endpoints and /v1/webhook_deliveries."""

from typing import Annotated, Final
from uuid import UUID

from fastapi import Query, Response

from runward.api.http.audit import AuditDep
from runward.api.http.auth import Admin
from runward.api.http.dependencies import RegistryDep, StorageDep
from runward.api.http.idempotency import RequestKey, respond_once
from runward.api.http.paging import Page, Pagination
from runward.api.http.params import WebhookDeliveryPath, WebhookEndpointPath
from runward.api.http.routes import make_router
from runward.api.webhooks.checks import ensure_webhook_target
from runward.api.webhooks.models import (
    CreateWebhookEndpoint,
    NewWebhookEndpoint,
    UpdateWebhookEndpoint,
    WebhookDelivery,
    WebhookEndpoint,
    WebhookEndpointSecret,
)
from runward.domain import errors as e
from runward.domain import not_found
from runward.domain.audit import AuditAction
from runward.domain.errors import FieldError
from runward.domain.ids import Prefix, ProjectId, format_id, parse_id
from runward.domain.run.notifications import ENDPOINT_TEST, DeliveryStatus
from runward.store.access import holds
from runward.store.postgres.db import Tx
from runward.store.webhooks import deliveries, endpoints, outbox
from runward.store.webhooks.deliveries import Delivery
from runward.store.webhooks.endpoints import StoredEndpoint
from runward.tools import signing

MAX_ENDPOINTS: Final = 50
"""Maximum number of webhook endpoints of a project."""

routes = make_router("Webhook endpoints")


@routes.post("/webhook_endpoints", status_code=201, response_model=NewWebhookEndpoint)
async def create_webhook_endpoint(
    principal: Admin,
    storage: StorageDep,
    registry: RegistryDep,
    request_key: RequestKey,
    audit: AuditDep,
    endpoint: CreateWebhookEndpoint,
) -> Response:
    """Create a webhook endpoint. The response contains its signing secret, which Runward returns
    only once."""
    await ensure_webhook_target(registry, endpoint.url)
    secret = signing.make_secret()

    async def create(tx: Tx) -> NewWebhookEndpoint:
        made = await endpoints.add_endpoint(
            tx, storage.vault, principal.project_id, dict(endpoint), secret
        )
        if await endpoints.count_endpoints(tx, principal.project_id) > MAX_ENDPOINTS:
            raise e.ConflictError(
                f"A project can have at most {MAX_ENDPOINTS} webhook endpoints. Delete one first."
            )
        created = WebhookEndpoint.from_row(made)
        await audit.record(tx, AuditAction.WEBHOOK_ENDPOINT_CREATED, created.id, after=created)
        return NewWebhookEndpoint.from_row(made, secret=secret)

    return await respond_once(
        storage, request_key, create, status=201, collection_path="/v1/webhook_endpoints"
    )


@routes.get("/webhook_endpoints")
async def list_webhook_endpoints(
    principal: Admin, storage: StorageDep, pagination: Pagination
) -> Page[WebhookEndpoint]:
    """List webhook endpoints, without their secrets."""
    window = pagination.by_id(Prefix.WEBHOOK_ENDPOINT)
    async with storage.connect() as tx:
        found = await endpoints.list_endpoints(tx, principal.project_id, **window)
    return pagination.page(found, WebhookEndpoint.from_row, lambda one: one.id)


@routes.get("/webhook_endpoints/{endpoint_id}")
async def get_webhook_endpoint(
    principal: Admin, storage: StorageDep, endpoint_id: WebhookEndpointPath
) -> WebhookEndpoint:
    """Get a webhook endpoint, without its secret."""
    async with storage.connect() as tx:
        found = await _get_endpoint(tx, principal.project_id, endpoint_id)
    return WebhookEndpoint.from_row(found)


@routes.patch("/webhook_endpoints/{endpoint_id}")
async def update_webhook_endpoint(
    principal: Admin,
    storage: StorageDep,
    registry: RegistryDep,
    audit: AuditDep,
    endpoint_id: WebhookEndpointPath,
    patch: UpdateWebhookEndpoint,
) -> WebhookEndpoint:
    """Update a webhook endpoint. A new URL also applies to its pending deliveries. While an
    endpoint is disabled, new events cause no deliveries, and pending deliveries wait."""
    fields = {name: getattr(patch, name) for name in patch.model_fields_set}
    nulls = [name for name, value in fields.items() if value is None]
    if nulls:
        raise e.InvalidRequestError(errors=[FieldError(one, "must not be null") for one in nulls])
    if "url" in fields:
        await ensure_webhook_target(registry, fields["url"])
    async with storage.begin() as tx:
        former = await _get_endpoint(tx, principal.project_id, endpoint_id, lock=True)
        found = await endpoints.update_endpoint(tx, principal.project_id, endpoint_id, fields)
        assert found is not None
        before, after = WebhookEndpoint.from_row(former), WebhookEndpoint.from_row(found)
        await audit.record(
            tx, AuditAction.WEBHOOK_ENDPOINT_UPDATED, after.id, before=before, after=after
        )
    return after


@routes.delete("/webhook_endpoints/{endpoint_id}", status_code=204)
async def delete_webhook_endpoint(
    principal: Admin, storage: StorageDep, audit: AuditDep, endpoint_id: WebhookEndpointPath
) -> None:
    """Delete a webhook endpoint and its deliveries. While the project has a legal hold, Runward
    refuses the request with 409 `legal_hold`. Disable the endpoint instead."""
    async with storage.begin() as tx:
        await holds.ensure_no_holds(tx, principal.project_id)
        found = await _get_endpoint(tx, principal.project_id, endpoint_id, lock=True)
        await endpoints.delete_endpoint(tx, principal.project_id, endpoint_id)
        former = WebhookEndpoint.from_row(found)
        await audit.record(tx, AuditAction.WEBHOOK_ENDPOINT_DELETED, former.id, before=former)


@routes.post(
    "/webhook_endpoints/{endpoint_id}/rotate_secret",
    response_model=WebhookEndpointSecret,
    summary="Rotate a webhook endpoint's signing secret",
)
async def rotate_webhook_secret(
    principal: Admin,
    storage: StorageDep,
    request_key: RequestKey,
    audit: AuditDep,
    endpoint_id: WebhookEndpointPath,
) -> Response:
    """Create a new signing secret for a webhook endpoint. For 24 hours, Runward signs notifications
    with the new secret and with the previous one."""
    secret = signing.make_secret()

    async def rotate(tx: Tx) -> WebhookEndpointSecret:
        if not await endpoints.rotate_secret(
            tx, storage.vault, principal.project_id, endpoint_id, secret
        ):
            raise not_found.WebhookEndpointNotFoundError
        id_ = format_id(Prefix.WEBHOOK_ENDPOINT, endpoint_id)
        await audit.record(tx, AuditAction.WEBHOOK_ENDPOINT_SECRET_ROTATED, id_)
        return WebhookEndpointSecret(secret=secret)

    return await respond_once(storage, request_key, rotate)


@routes.post(
    "/webhook_endpoints/{endpoint_id}/test",
    status_code=202,
    response_model=WebhookDelivery,
    summary="Send a test notification",
)
async def test_webhook_endpoint(
    principal: Admin,
    storage: StorageDep,
    request_key: RequestKey,
    endpoint_id: WebhookEndpointPath,
) -> Response:
    """Send a notification of the type `webhook_endpoint.test`. Runward makes one attempt. Get the
    delivery to see the response of the endpoint. A disabled endpoint cannot be tested."""

    async def enqueue(tx: Tx) -> WebhookDelivery:
        found = await _get_endpoint(tx, principal.project_id, endpoint_id)
        _ensure_enabled(found)
        [made] = await outbox.enqueue_notification(
            tx, principal.project_id, [endpoint_id], ENDPOINT_TEST, {}
        )
        return WebhookDelivery.from_row(await _get_delivery(tx, principal.project_id, made))

    return await respond_once(storage, request_key, enqueue, status=202)


@routes.get("/webhook_deliveries")
async def list_webhook_deliveries(
    principal: Admin,
    storage: StorageDep,
    pagination: Pagination,
    webhook_endpoint_id: Annotated[
        str | None,
        Query(max_length=64, description="Return only deliveries to this webhook endpoint."),
    ] = None,
    run_id: Annotated[
        str | None, Query(max_length=64, description="Return only deliveries about this run.")
    ] = None,
    status: Annotated[
        DeliveryStatus | None, Query(description="Return only deliveries with this status.")
    ] = None,
) -> Page[WebhookDelivery]:
    """List the deliveries of all notifications, newest first, with their requests and the responses
    of the endpoints. By default, Runward keeps a delivery for 30 days."""
    window = pagination.by_id(Prefix.WEBHOOK_DELIVERY)
    async with storage.connect() as tx:
        found = await deliveries.list_deliveries(
            tx,
            principal.project_id,
            endpoint_id=_parse_filter(
                Prefix.WEBHOOK_ENDPOINT, "webhook_endpoint_id", webhook_endpoint_id
            ),
            run_id=_parse_filter(Prefix.RUN, "run_id", run_id),
            status=status,
            **window,
        )
    return pagination.page(found, WebhookDelivery.from_row, lambda one: one.id)


@routes.get("/webhook_deliveries/{delivery_id}")
async def get_webhook_delivery(
    principal: Admin, storage: StorageDep, delivery_id: WebhookDeliveryPath
) -> WebhookDelivery:
    """Get a delivery with its request and all its attempts."""
    async with storage.connect() as tx:
        found = await _get_delivery(tx, principal.project_id, delivery_id)
    return WebhookDelivery.from_row(found)


@routes.post(
    "/webhook_deliveries/{delivery_id}/redeliver",
    status_code=202,
    response_model=WebhookDelivery,
    summary="Send a notification again",
)
async def redeliver_webhook(
    principal: Admin,
    storage: StorageDep,
    request_key: RequestKey,
    delivery_id: WebhookDeliveryPath,
) -> Response:
    """Send a notification again, with the same ID and a new schedule of attempts. If the delivery
    is pending, its next attempt is due now. If its endpoint is disabled, enable the endpoint
    first."""

    async def restart(tx: Tx) -> WebhookDelivery:
        found = await _get_delivery(tx, principal.project_id, delivery_id)
        if found.endpoint_id is not None:
            _ensure_enabled(await _get_endpoint(tx, principal.project_id, found.endpoint_id))
        await deliveries.redeliver(tx, principal.project_id, delivery_id)
        return WebhookDelivery.from_row(await _get_delivery(tx, principal.project_id, delivery_id))

    return await respond_once(storage, request_key, restart, status=202)


async def _get_endpoint(
    tx: Tx, project_id: ProjectId, endpoint_id: UUID, *, lock: bool = False
) -> StoredEndpoint:
    found = await endpoints.get_endpoint(tx, project_id, endpoint_id, lock=lock)
    if found is None:
        raise not_found.WebhookEndpointNotFoundError
    return found


async def _get_delivery(tx: Tx, project_id: ProjectId, delivery_id: UUID) -> Delivery:
    found = await deliveries.get_delivery(tx, project_id, delivery_id)
    if found is None:
        raise not_found.WebhookDeliveryNotFoundError
    return found


def _ensure_enabled(endpoint: StoredEndpoint) -> None:
    if not endpoint.enabled:
        raise e.ConflictError(
            'The webhook endpoint is disabled. Enable it with PATCH and {"enabled": true} first.'
        )


def _parse_filter(prefix: Prefix, name: str, given: str | None) -> UUID | None:
    """Return the ID of a query parameter. Raises InvalidRequestError."""
    if given is None:
        return None
    value = parse_id(prefix, given)
    if value is None:
        wrong = FieldError(f"query.{name}", f"must be an ID like {prefix}_…")
        raise e.InvalidRequestError(errors=[wrong])
    return value
