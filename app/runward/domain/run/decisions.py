"""Decisions about calls: the options of a person, and the decisions that Runward remembers."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, JsonValue

from runward.domain.events.values import ApprovalStatus
from runward.domain.immutable import immutable
from runward.domain.json import JsonObject
from runward.domain.registry.tools import Frozen


class RememberOptions(Frozen):
    """Options that apply the decision to later calls, too. The later calls must be for the same
    tool version and come from the same agent."""

    scope: Literal["run", "session"]
    """Calls to which the decision applies. `run`: later calls of this run. `session`: later calls
    of this run and of later runs of the session."""
    exact_arguments: bool = False
    """Whether the decision applies only to calls with identical arguments."""
    expires_seconds: Annotated[float, Field(ge=1, le=31_536_000)] | None = None
    """Number of seconds for which Runward remembers the decision. Null: the remembered decision
    does not expire."""


@immutable
class RememberedDecision:
    """A decision that also covers later calls of the same tool version."""

    decision: str
    tool: str
    version: int
    agent: str | None
    arguments_digest: str | None
    message: str | None
    seconds_left: float | None = None
    """Number of seconds until the decision expires, counted from the time when the run was loaded.
    None: the decision does not expire."""


class _Decision(Frozen):
    digest: Annotated[str, Field(max_length=128)] | None = None
    """Digest of the call that the approver saw. If the call has changed since then, Runward refuses
    the decision with 409. Null: Runward does not check the digest."""


class ApproveDecision(_Decision):
    """Approve the call."""

    decision: Literal["approve"]
    """`approve`: Runward sends the call unchanged."""
    remember: RememberOptions | None = None
    """How the approval applies to later calls. Null: it applies only to this call."""


class RejectDecision(_Decision):
    """Reject the call."""

    decision: Literal["reject"]
    """`reject`: Runward never sends the call."""
    message: Annotated[str, Field(max_length=4096)] | None = None
    """Message for the model. Null: the tool's `reject_message` or a built-in message."""
    remember: RememberOptions | None = None
    """How the rejection applies to later calls. Null: it applies only to this call."""


class EditDecision(_Decision):
    """Approve the call with other arguments."""

    decision: Literal["edit"]
    """`edit`: Runward sends the call with other arguments."""
    arguments: JsonObject
    """Complete new arguments. Runward validates them against the tool's schema."""
    message: Annotated[str, Field(max_length=4096)] | None = None
    """Reason for the edit. It is recorded in the event log."""


class RespondDecision(_Decision):
    """Set the result of the call without calling the tool."""

    decision: Literal["respond"]
    """`respond`: Runward does not call the tool and uses `output` as its result."""
    output: JsonValue
    """Result of the call: any JSON value."""


Decision: TypeAlias = Annotated[
    ApproveDecision | RejectDecision | EditDecision | RespondDecision,
    Field(discriminator="decision"),
]

STATUS_AFTER: Final[Mapping[str, ApprovalStatus]] = {
    "approve": ApprovalStatus.APPROVED,
    "reject": ApprovalStatus.REJECTED,
    "edit": ApprovalStatus.EDITED,
    "respond": ApprovalStatus.RESPONDED,
}


def encode_decision(decision: Decision) -> JsonObject:
    """Return the JSON that is stored for comparison with a second decision: all fields except the
    digest. The `output` of a response is included even if it is null."""
    kept: JsonObject = decision.model_dump(mode="json", exclude={"digest"}, exclude_none=True)
    return kept | {"output": decision.output} if isinstance(decision, RespondDecision) else kept
