"""An approval, as answers show it. What may be decided is in `runward.domain.run.approvals`."""

from datetime import datetime
from typing import Literal, Self

from pydantic import Field

from runward.api.http.models import (
    APPROVAL_ID,
    DIGEST,
    EXAMPLE_TIME,
    KEY_ID,
    RUN_ID,
    ResponseModel,
    with_example,
)
from runward.api.runs.call_models import OmittedArgument
from runward.api.runs.models import Actor
from runward.domain.events.values import ApprovalStatus, DecisionKind
from runward.domain.ids import Prefix, format_id
from runward.domain.json import JsonObject
from runward.domain.run.large_arguments import omit_large
from runward.store.runs import approvals


class StartedRun(ResponseModel):
    """The run that somebody started: the one that waits, or the first one above it."""

    id: str
    """The run's id."""
    agent: str | None
    """Whom it was started with; null for an inline one."""
    created_by: Actor | None
    """Who started it."""
    created_at: datetime
    """When it was accepted."""
    input: str | None
    """The last message that a user gave it, its text alone, up to 2,000 characters; null if there
    is none."""

    @classmethod
    def from_row(cls, run: approvals.RootRun) -> Self:
        return cls.from_attributes(
            run, id=format_id(Prefix.RUN, run.id), created_by=Actor.from_row(run.created_by)
        )


class Approval(ResponseModel):
    """One call that waits for a person, or that a person has decided about."""

    model_config = with_example(
        id=APPROVAL_ID,
        run_id=RUN_ID,
        call_id="call_1",
        tool="pay",
        tool_version=1,
        url="https://tools.example.com/pay",
        arguments={"amount": 500},
        digest=DIGEST,
        status="pending",
        allowed_decisions=["approve", "reject", "edit", "respond"],
        agent=None,
        run={
            "id": RUN_ID,
            "agent": None,
            "created_by": {"type": "key", "id": KEY_ID, "name": "shop"},
            "created_at": EXAMPLE_TIME,
            "input": "Please pay 500 euros to order A-1017.",
        },
        model_message="I will pay the invoice now.",
        requested_at=EXAMPLE_TIME,
        expires_at=EXAMPLE_TIME,
        decided_at=None,
        decided_by=None,
        message=None,
    )

    id: str
    """What decisions name."""
    object: Literal["approval"] = "approval"
    run_id: str
    """The run that waits."""
    call_id: str
    """The call's id in its run."""
    tool: str
    """The tool that would be called."""
    tool_version: int
    """Its version, as the model was shown it."""
    url: str | None = None
    """The full address that would be called."""
    arguments: JsonObject
    """The exact arguments that were asked about."""
    omitted_arguments: list[OmittedArgument] = Field(default_factory=list[OmittedArgument])
    """Arguments that were left out because of `max_arguments_bytes`."""
    edited_arguments: JsonObject | None = None
    """What a person put in their place, where the decision was `edit`."""
    digest: str
    """Of tool, version, target and arguments; a decision may carry it."""
    status: ApprovalStatus
    """`pending` until someone decides, time passes, the run ends, or the tool changes."""
    allowed_decisions: list[DecisionKind]
    """`approve`, `reject`, `edit`, `respond`."""
    path: list[str] = Field(default_factory=list[str])
    """The agents from the run that was started down to the one that asks; empty for its own."""
    agent: str | None
    """Whose call it is; null for an inline run."""
    run: StartedRun | None = None
    """Who started the run, and with what."""
    model_message: str | None = None
    """Text of the model response that requested the call, up to 2,000 characters. Null if it has
    none."""
    requested_at: datetime
    """When it was asked."""
    expires_at: datetime
    """When it counts as unanswered."""
    decided_at: datetime | None
    """When it was decided or closed."""
    decided_by: str | None
    """The id of the key that decided; null if nobody did."""
    decider: Actor | None = None
    """The same, with its name."""
    message: str | None
    """The decider's words."""

    @classmethod
    def from_row(cls, approval: approvals.Approval, max_arguments_bytes: int | None = None) -> Self:
        decision = approval.decision or {}
        arguments, omitted = omit_large(approval.arguments, max_arguments_bytes)
        message, edited = decision.get("message"), decision.get("arguments")
        return cls.from_attributes(
            approval,
            id=format_id(Prefix.APPROVAL, approval.id),
            run_id=format_id(Prefix.RUN, approval.run_id),
            arguments=arguments,
            omitted_arguments=[OmittedArgument(name=one.name, bytes=one.size) for one in omitted],
            edited_arguments=edited if isinstance(edited, dict) else None,
            run=approval.run and StartedRun.from_row(approval.run),
            decider=Actor(id=approval.decided_by, name=approval.decider_name)
            if approval.decided_by is not None and approval.decider_name is not None
            else None,
            message=message if isinstance(message, str) else None,
        )
