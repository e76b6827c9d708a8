"""Response models of the audit log."""

from datetime import datetime
from typing import Final, Literal, Self

from runward.api.http.models import (
    DIGEST,
    EXAMPLE_TIME,
    KEY_ID,
    ResponseModel,
    with_example,
)
from runward.domain.audit import ActorType, AuditAction
from runward.domain.json import JsonObject
from runward.store.access import audit
from runward.store.access.audit import Chain

PROJECT_ID: Final = "proj_00000000000000000000000000000000"


class AuditActor(ResponseModel):
    """Who changed the resource."""

    type: ActorType
    """`key`: a request with an API key. `console_session`: a person in the console. `operator`: a
    command on the database, or the configuration of the deployment."""
    id: str | None
    """ID of the API key. For a console session, the key that the person signed in with. Null for
    operators."""
    name: str | None
    """Name of the API key. Null for operators."""


class AuditedResource(ResponseModel):
    """The resource that was changed."""

    type: str
    """Type of the resource, such as `agent` or `webhook_endpoint`."""
    id: str
    """ID of the resource, or its name if it has no ID."""
    version: int | None
    """Version of the resource after the change. After a deletion, the last version. Null for
    resources without versions."""


class AuditEntry(ResponseModel):
    """A change of a resource of the project. The entries form a chain: each hash covers the hash of
    the entry before it."""

    model_config = with_example(
        id="aud_019a5f1e7d3c7b0e9a4f2c6d8e1b3a57",
        object="audit_entry",
        project_id=PROJECT_ID,
        number=42,
        created_at=EXAMPLE_TIME,
        actor={"type": "key", "id": KEY_ID, "name": "deploy"},
        ip_address="192.0.2.7",
        request_id="req_5c0e3f6a7b9d4e1f8a2b3c4d5e6f7a8b",
        action=AuditAction.AGENT_UPDATED,
        resource={"type": "agent", "id": "clerk", "version": 2},
        run_id=None,
        before={"model": "openai:gpt-5", "version": 1},
        after={"model": "openai:gpt-5-mini", "version": 2},
        salt="9f86d081884c7d659a2feaa0c55ad015",
        before_digest=DIGEST,
        after_digest=DIGEST,
        previous_hash=DIGEST,
        hash=DIGEST,
    )

    id: str
    """ID of the entry."""
    object: Literal["audit_entry"] = "audit_entry"
    project_id: str
    """ID of the project."""
    number: int
    """Number of the entry in the chain of the project. It starts at 1 and has no gaps."""
    created_at: datetime
    """When the resource was changed."""
    actor: AuditActor
    """Who changed the resource."""
    ip_address: str | None
    """IP address of the client. Null outside of requests."""
    request_id: str | None
    """ID of the request, as in its `X-Request-Id` header. Null outside of requests."""
    action: str
    """Type of the resource, and what happened to it, such as `agent.updated`. Later
    versions add actions."""
    resource: AuditedResource
    """The resource that was changed."""
    run_id: str | None
    """ID of the run that the entry belongs to. If the content of the run is erased, `before`,
    `after` and `salt` become null."""
    before: JsonObject | None
    """The resource before the change, without secrets. For an update, only the fields that changed.
    A field of more than 16 KiB is replaced by its digest. Null for a creation, or if it was
    erased."""
    after: JsonObject | None
    """The resource after the change, like `before`. Null for a deletion, or if it was erased."""
    salt: str | None
    """Random text in the digests of `before` and `after`. Null if they are null."""
    before_digest: str | None
    """SHA-256 of the canonical JSON of `[salt, before]`. Null if there was no `before`."""
    after_digest: str | None
    """SHA-256 of the canonical JSON of `[salt, after]`. Null if there was no `after`."""
    previous_hash: str | None
    """`hash` of the previous entry of the project. Null for the first entry."""
    hash: str
    """SHA-256 of the canonical JSON of this entry without `before`, `after`, `salt` and `hash`."""

    @classmethod
    def from_row(cls, entry: audit.AuditEntry) -> Self:
        return cls.model_validate(audit.render(entry))


class AuditHead(ResponseModel):
    """The ends of the project's chain. Compare them with an export to notice that entries are
    missing at its end or at its beginning."""

    model_config = with_example(
        object="audit_head", number=42, hash=DIGEST, removed_number=0, removed_hash=None
    )

    object: Literal["audit_head"] = "audit_head"
    number: int
    """Number of the last entry. 0 if there are no entries."""
    hash: str | None
    """`hash` of the last entry. Null if there are no entries."""
    removed_number: int
    """Number of the last entry that retention has removed. 0 if it has removed none."""
    removed_hash: str | None
    """`hash` of the last entry that retention has removed. It is the `previous_hash` of the oldest
    entry. Null if retention has removed none."""

    @classmethod
    def from_row(cls, chain: Chain) -> Self:
        return cls.from_attributes(chain)
