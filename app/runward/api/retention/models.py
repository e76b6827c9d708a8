"""Request and response models of retention, legal holds and erasures."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self
from uuid import UUID

from pydantic import Field

from runward.api.http.models import (
    EXAMPLE_TIME,
    KEY_ID,
    RUN_ID,
    Metadata,
    RequestModel,
    ResponseModel,
    with_example,
)
from runward.api.runs.models import Actor
from runward.domain.ids import Prefix, format_id, parse_id
from runward.domain.retention import MAX_DAYS, DataClass, ErasureStatus, HoldKind, RetentionLimits
from runward.store.access import holds
from runward.store.retention import cleaner, erasures

ERASURE_ID: Final = "era_019a5f1e7d3c7b0e9a4f2c6d8e1b3a57"
_HOLD_PREFIXES: Final = {
    HoldKind.RUN: Prefix.RUN,
    HoldKind.SESSION: Prefix.SESSION,
    HoldKind.PROJECT: Prefix.PROJECT,
}


def parse_held_id(text: str) -> tuple[HoldKind, UUID]:
    """Return the kind and the UUID of the resource. `text`: a valid path parameter."""
    [found] = [(kind, id_) for kind, one in _HOLD_PREFIXES.items() if (id_ := parse_id(one, text))]
    return found


Days = Annotated[int, Field(ge=1, le=MAX_DAYS)] | None


class PutRetention(RequestModel):
    """The complete retention of the project: the number of days for which Runward keeps each class
    of data. A class that is left out has the default of the deployment. Null keeps its data
    forever."""

    model_config = with_example(runs=365, events=90, tool_call_content=30)

    runs: Days = None
    """All content of runs, after the end of the run: input, output, conversation, tool calls,
    approvals and metadata. A record without content stays."""
    events: Days = None
    """The event log of runs, after the end of the run."""
    tool_call_content: Days = None
    """Arguments and results of tool calls, and reasoning of models, after the end of the run."""
    deliveries: Days = None
    """Webhook deliveries, after their creation."""
    audit: Days = None
    """Entries of the audit log, after their creation."""

    def get_choice(self) -> dict[DataClass, int | None]:
        """Return the given classes and their days."""
        return {DataClass(name): getattr(self, name) for name in sorted(self.model_fields_set)}


class ClassRetention(ResponseModel):
    """The retention of one class of data."""

    model_config = with_example(days=90, is_default=False, default_days=365, max_days=730)

    days: int | None
    """Number of days for which Runward keeps the data. Null: forever."""
    is_default: bool
    """Whether the project has not chosen a number of days."""
    default_days: int | None
    """Number of days in projects that have not chosen one. Null: forever."""
    max_days: int | None
    """Largest number of days that the project can choose. Null: any number, and forever."""


_CLASS: Final[dict[str, Any]] = {
    "days": 90,
    "is_default": False,
    "default_days": 365,
    "max_days": 730,
}


class Retention(ResponseModel):
    """How long Runward keeps each class of data of the project."""

    model_config = with_example(object="retention", **{name: _CLASS for name in DataClass})

    object: Literal["retention"] = "retention"
    runs: ClassRetention
    """All content of runs, after the end of the run."""
    events: ClassRetention
    """The event log of runs, after the end of the run."""
    tool_call_content: ClassRetention
    """Arguments and results of tool calls, and reasoning of models, after the end of the run."""
    deliveries: ClassRetention
    """Webhook deliveries, after their creation."""
    audit: ClassRetention
    """Entries of the audit log, after their creation."""

    @classmethod
    def from_choice(cls, limits: RetentionLimits, choice: dict[str, int | None]) -> Self:
        return cls.model_validate(
            {
                name: ClassRetention(
                    days=limits.find_days(name, choice),
                    is_default=name not in choice,
                    default_days=limits.find_days(name, {}),
                    max_days=limits.find_maximum(name),
                )
                for name in DataClass
            }
        )


class ClassPreview(ResponseModel):
    """The rows of one class that Runward would remove now."""

    model_config = with_example(rows=120, more=False, oldest_at=EXAMPLE_TIME)

    rows: int
    """Number of runs, events, tool calls, deliveries or audit entries."""
    more: bool
    """Whether there are more rows than were counted. Runward counts about 10,000."""
    oldest_at: datetime | None
    """End of the oldest of these runs, or creation of the oldest of these deliveries or audit
    entries. Null if there are none."""

    @classmethod
    def from_row(cls, preview: cleaner.Preview) -> Self:
        return cls(rows=preview.rows, more=preview.more, oldest_at=preview.oldest)


_PREVIEW: Final[dict[str, Any]] = {"rows": 120, "more": False, "oldest_at": EXAMPLE_TIME}


class RetentionPreview(ResponseModel):
    """The rows of each class that Runward would remove now. Runs under a legal hold are not
    included."""

    model_config = with_example(
        object="retention_preview", **{name: _PREVIEW for name in DataClass}
    )

    object: Literal["retention_preview"] = "retention_preview"
    runs: ClassPreview
    """Runs that would lose their content."""
    events: ClassPreview
    """Events that would be deleted."""
    tool_call_content: ClassPreview
    """Tool calls that would lose their arguments and results."""
    deliveries: ClassPreview
    """Webhook deliveries that would be deleted."""
    audit: ClassPreview
    """Entries of the audit log that would be deleted."""


class PutLegalHold(RequestModel):
    """Options of a legal hold."""

    model_config = with_example(reason="Case 2026-17")

    reason: Annotated[str, Field(max_length=200)] = ""
    """Reason for the hold, for people."""


class LegalHold(ResponseModel):
    """A legal hold. While it exists, Runward does not erase the data of its run, session or
    project."""

    model_config = with_example(
        id=RUN_ID,
        object="legal_hold",
        kind="run",
        reason="Case 2026-17",
        created_by={"type": "key", "id": KEY_ID, "name": "legal"},
        created_at=EXAMPLE_TIME,
    )

    id: str
    """ID of the run, the session or the project under the hold."""
    object: Literal["legal_hold"] = "legal_hold"
    kind: HoldKind
    """Kind of the resource."""
    reason: str
    """Reason for the hold, for people. Empty if none was given."""
    created_by: Actor | None
    """API key that created the hold."""
    created_at: datetime
    """When the hold was created."""

    @classmethod
    def from_row(cls, hold: holds.LegalHold) -> Self:
        return cls.from_attributes(
            hold,
            id=format_id(_HOLD_PREFIXES[hold.kind], hold.subject_id),
            created_by=Actor.from_row(hold.created_by),
        )


class CreateErasure(RequestModel):
    """The data to erase."""

    model_config = with_example(metadata={"user": "u1"})

    metadata: Annotated[Metadata, Field(min_length=1)]
    """Metadata of the runs and sessions to erase. Their metadata has all of these keys with exactly
    these values, and can have other keys."""


class Erasure(ResponseModel):
    """An erasure of all runs and sessions with the same metadata. It does not show this metadata,
    and Runward deletes it at the end of the erasure."""

    model_config = with_example(
        id=ERASURE_ID,
        object="erasure",
        status="completed",
        runs_erased=12,
        sessions_deleted=2,
        held=0,
        created_at=EXAMPLE_TIME,
        ended_at=EXAMPLE_TIME,
    )

    id: str
    """ID of the erasure."""
    object: Literal["erasure"] = "erasure"
    status: ErasureStatus
    """Status of the erasure."""
    runs_erased: int
    """Number of erased runs, without their child runs."""
    sessions_deleted: int
    """Number of deleted sessions."""
    held: int
    """Number of runs and sessions that were not erased because of a legal hold. Delete the hold and
    create another erasure."""
    created_at: datetime
    """When the erasure was requested."""
    ended_at: datetime | None
    """When all runs and sessions had been processed. Null before."""

    @classmethod
    def from_row(cls, erasure: erasures.Erasure) -> Self:
        return cls.from_attributes(
            erasure,
            id=format_id(Prefix.ERASURE, erasure.id),
            status=ErasureStatus.IN_PROGRESS
            if erasure.ended_at is None
            else ErasureStatus.COMPLETED,
        )
