"""Decisions about calls: what a person may decide, and what of it is remembered."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, JsonValue

from runward.domain.events.values import ApprovalStatus
from runward.domain.json import JsonObject
from runward.domain.registry.tools import Frozen


class Remember(Frozen):
    """The decision also covers later calls of the same tool version by the same agent."""

    scope: Literal["run", "session"]
    """`run`: the rest of this run; `session`: its session's later runs too."""
    exact_arguments: bool = False
    """Only calls with the very same arguments."""
    expires_seconds: Annotated[float, Field(ge=1, le=31_536_000)] | None = None
    """For how long."""


@dataclass(frozen=True, slots=True)
class RememberedDecision:
    """A decision that also covers later calls of the same tool version."""

    decision: str
    tool: str
    version: int
    agent: str | None
    arguments_digest: str | None
    message: str | None
    seconds_left: float | None = None
    """Until it expires, when the run was loaded. None: it does not expire."""


class _Decision(Frozen):
    digest: Annotated[str, Field(max_length=128)] | None = None
    """Of the call as it was shown; another one is refused with 409."""


class Approve(_Decision):
    decision: Literal["approve"]
    """`approve`: the call is sent as it is."""
    remember: Remember | None = None
    """Decide likewise about later calls."""


class Reject(_Decision):
    decision: Literal["reject"]
    """`reject`: the call is never sent."""
    message: Annotated[str, Field(max_length=4096)] | None = None
    """What the model is told."""
    remember: Remember | None = None
    """Decide likewise about later calls."""


class Edit(_Decision):
    decision: Literal["edit"]
    """`edit`: the call is sent with other arguments."""
    arguments: JsonObject
    """The new arguments, whole; the tool's schema checks them."""
    message: Annotated[str, Field(max_length=4096)] | None = None
    """Why, for the log."""


class Respond(_Decision):
    decision: Literal["respond"]
    """`respond`: the tool is not called; this is its result."""
    output: JsonValue
    """The result, any JSON."""


Decision: TypeAlias = Annotated[Approve | Reject | Edit | Respond, Field(discriminator="decision")]

STATUS_AFTER: Final[Mapping[str, ApprovalStatus]] = {
    "approve": ApprovalStatus.APPROVED,
    "reject": ApprovalStatus.REJECTED,
    "edit": ApprovalStatus.EDITED,
    "respond": ApprovalStatus.RESPONDED,
}


def encode_decision(decision: Decision) -> JsonObject:
    """What two decisions are compared by: all but the digest, an output of null included."""
    kept: JsonObject = decision.model_dump(mode="json", exclude={"digest"}, exclude_none=True)
    return kept | {"output": decision.output} if isinstance(decision, Respond) else kept
