"""Approvals, from the store's rows to the models of responses."""

from runward.api.approvals.models import Approval, StartedRun
from runward.api.runs.models import Actor
from runward.api.runs.render import actor, omitted_arguments
from runward.domain.ids import Prefix, format_id
from runward.domain.run.large_arguments import omit_large
from runward.store.runs import approvals


def approval(one: approvals.Approval, max_arguments_bytes: int | None = None) -> Approval:
    decision = one.decision or {}
    arguments, omitted = omit_large(one.arguments, max_arguments_bytes)
    message, edited = decision.get("message"), decision.get("arguments")
    return Approval(
        id=format_id(Prefix.APPROVAL, one.id),
        run_id=format_id(Prefix.RUN, one.run_id),
        call_id=one.call_id,
        tool=one.tool,
        tool_version=one.tool_version,
        url=one.url,
        arguments=arguments,
        omitted_arguments=omitted_arguments(omitted),
        edited_arguments=edited if isinstance(edited, dict) else None,
        digest=one.digest,
        status=one.status,
        allowed_decisions=list(one.allowed_decisions),
        path=list(one.path),
        agent=one.agent,
        run=one.run and _render_started_run(one.run),
        model_message=one.model_message,
        requested_at=one.requested_at,
        expires_at=one.expires_at,
        decided_at=one.decided_at,
        decided_by=one.decided_by,
        decider=_render_decider(one),
        message=message if isinstance(message, str) else None,
    )


def _render_decider(approval: approvals.Approval) -> Actor | None:
    if approval.decided_by is None or approval.decider_name is None:
        return None
    return Actor(id=approval.decided_by, name=approval.decider_name)


def _render_started_run(run: approvals.RootRun) -> StartedRun:
    return StartedRun(
        id=format_id(Prefix.RUN, run.id),
        agent=run.agent,
        created_by=actor(run.created_by),
        created_at=run.created_at,
        input=run.input,
    )
