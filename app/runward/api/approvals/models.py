"""Approvals, as responses show them. `runward.domain.run.approvals` applies decisions."""

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


class RootRun(ResponseModel):
    """The run that a client started. If a child run requested the call, this is the topmost
    ancestor of that child run."""

    id: str
    """ID of the run."""
    agent: str | None
    """Name of the agent that the run was started with. Null if the run uses no registered agent."""
    created_by: Actor | None
    """API key that started the run."""
    created_at: datetime
    """When the run was accepted."""
    input: str | None
    """Text of the last user message of the run, up to 2,000 characters. Null if the run has no user
    message."""

    @classmethod
    def from_row(cls, run: approvals.RootRun) -> Self:
        return cls.from_attributes(
            run, id=format_id(Prefix.RUN, run.id), created_by=Actor.from_row(run.created_by)
        )


class Approval(ResponseModel):
    """A request for a person's decision on one tool call. The tool `exceed_budget` stands for a
    model request that would exceed a budget."""

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
    """ID of the approval. Use it to submit the decision."""
    object: Literal["approval"] = "approval"
    run_id: str
    """ID of the run that made the call."""
    call_id: str
    """ID of the tool call. Unique within its run."""
    tool: str
    """Name of the tool that the call is for."""
    tool_version: int
    """Version of the tool that the model saw."""
    url: str | None = None
    """Full URL to which Runward sends the call after an approval. Null for tools without a URL."""
    arguments: JsonObject
    """Exact arguments of the tool call that needs the decision."""
    omitted_arguments: list[OmittedArgument] = Field(default_factory=list[OmittedArgument])
    """Arguments that Runward omitted from `arguments` because of `max_arguments_bytes`."""
    edited_arguments: JsonObject | None = None
    """Arguments that the approver set. Null for all decisions other than `edit`."""
    digest: str
    """Digest of the tool, its version, its target URL, and the arguments. A decision can include
    the digest. If the call has changed, Runward then refuses the decision."""
    status: ApprovalStatus
    """Status of the approval. It is `pending` until a person decides, the approval expires, the run
    ends, or the tool changes."""
    allowed_decisions: list[DecisionKind]
    """Decisions that this approval allows."""
    path: list[str] = Field(default_factory=list[str])
    """Names of the agents of the child runs that lead from the run that a client started to the run
    that made the call. Empty if the client started the run that made the call."""
    agent: str | None
    """Name of the agent that requested the call. Null if the run uses no registered agent."""
    run: RootRun | None = None
    """The run that a client started. If a child run requested the call, this is the topmost
    ancestor of that child run."""
    model_message: str | None = None
    """Text of the model response that requested the call, up to 2,000 characters. Null if the
    response has no text."""
    requested_at: datetime
    """When the approval was created."""
    expires_at: datetime
    """When the approval expires if nobody decides."""
    decided_at: datetime | None
    """When the approval was decided or closed. Null while the approval is pending."""
    decided_by: str | None
    """ID of the API key that decided the approval. Null if nobody has decided."""
    decider: Actor | None = None
    """API key that decided the approval, with its name. Null if nobody has decided."""
    message: str | None
    """Message that the approver sent with the decision. Null if the approver sent no message."""

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
            run=approval.run and RootRun.from_row(approval.run),
            decider=Actor(id=approval.decided_by, name=approval.decider_name)
            if approval.decided_by is not None and approval.decider_name is not None
            else None,
            message=message if isinstance(message, str) else None,
        )
