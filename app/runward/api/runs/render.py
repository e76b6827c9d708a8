"""Runs and tool calls, from the store's views to the models of responses."""

from collections.abc import Sequence

from runward.api.runs.action_models import (
    ApprovalAction,
    CallbackWait,
    RequiredAction,
    ResolveAction,
    ResultAction,
)
from runward.api.runs.models import (
    Actor,
    IncompleteDetails,
    OmittedArgument,
    Run,
    RunError,
    ToolCall,
    Usage,
)
from runward.domain.ids import Prefix, RunId, format_id
from runward.domain.run.calls import CallPhase
from runward.domain.run.large_arguments import LargeArgument, omit_large
from runward.store.access import keys
from runward.store.runs import approvals
from runward.store.runs.views import CallView, RunView, WaitingCall


def run(view: RunView, waiting: Sequence[WaitingCall] = ()) -> Run:
    details, error = view.incomplete_details, view.error
    entries = [wait_entry(one) for one in waiting]
    return Run.model_construct(
        id=format_id(Prefix.RUN, view.id),
        status=view.status,
        agent=view.agent,
        model=view.config.get("model"),
        session_id=format_id(Prefix.SESSION, view.session_id) if view.session_id else None,
        continued_from=format_id(Prefix.RUN, view.continued_from) if view.continued_from else None,
        parent_run_id=format_id(Prefix.RUN, view.parent_run_id) if view.parent_run_id else None,
        created_by=actor(view.created_by),
        turn=view.turn,
        usage=Usage.model_construct(None, **view.usage),
        output=view.output,
        output_parsed=view.output_parsed,
        error=None if error is None else RunError.model_construct(None, **error),
        incomplete_details=None
        if details is None
        else IncompleteDetails.model_construct(None, **details),
        required_actions=[one for one in entries if not isinstance(one, CallbackWait)],
        waiting_for=[one for one in entries if isinstance(one, CallbackWait)],
        last_sequence=view.last_seq,
        created_at=view.created_at,
        started_at=view.started_at,
        ended_at=view.ended_at,
        context=view.context,
        metadata=view.metadata,
    )


def actor(key: keys.ActingKey | None) -> Actor | None:
    return key and Actor(id=format_id(Prefix.KEY, key.id), name=key.name)


def wait_entry(waiting: WaitingCall) -> RequiredAction | CallbackWait:
    run_id, path, one = format_id(Prefix.RUN, waiting.run_id), list(waiting.path), waiting.subject
    if isinstance(one, approvals.Approval):
        return ApprovalAction(
            approval_id=format_id(Prefix.APPROVAL, one.id),
            run_id=run_id,
            call_id=one.call_id,
            tool=one.tool,
            agent=one.agent,
            arguments=one.arguments,
            digest=one.digest,
            expires_at=one.expires_at,
            allowed_decisions=list(one.allowed_decisions),
            path=path,
        )
    if one.call.phase in (CallPhase.AWAITING_RESULT, CallPhase.AWAITING_INPUT):
        asks = one.call.phase is CallPhase.AWAITING_INPUT and one.call.exchange
        return ResultAction(
            run_id=run_id,
            call_id=one.call.id,
            tool=one.call.tool,
            arguments=one.call.arguments,
            requests=asks.requests if asks else None,
            path=path,
        )
    if one.call.phase is CallPhase.AWAITING_CALLBACK:
        return CallbackWait(
            run_id=run_id,
            call_id=one.call.id,
            tool=one.call.tool,
            arguments=one.call.arguments,
            deadline_at=one.deadline_at,
            path=path,
        )
    return ResolveAction(
        run_id=run_id,
        call_id=one.call.id,
        tool=one.call.tool,
        arguments=one.call.arguments,
        path=path,
    )


def omitted_arguments(omitted: Sequence[LargeArgument]) -> list[OmittedArgument]:
    return [OmittedArgument(name=one.name, bytes=one.size) for one in omitted]


def tool_call(run_id: RunId, view: CallView, max_arguments_bytes: int | None = None) -> ToolCall:
    call, result = view.call, view.call.result
    arguments, omitted = omit_large(call.arguments, max_arguments_bytes)
    asks = call.exchange if call.phase is CallPhase.AWAITING_INPUT else None
    return ToolCall(
        id=format_id(Prefix.CALL, call.uuid),
        call_id=call.id,
        run_id=format_id(Prefix.RUN, run_id),
        turn=call.turn,
        tool=call.tool,
        tool_version=call.version,
        arguments=arguments,
        omitted_arguments=omitted_arguments(omitted),
        original_arguments=call.original,
        digest=call.digest,
        requests=asks.requests if asks else None,
        phase=call.phase,
        attempt=call.attempt,
        approval_id=None
        if call.approval_id is None
        else format_id(Prefix.APPROVAL, call.approval_id),
        child_run_id=None if call.child is None else format_id(Prefix.RUN, call.child),
        outcome=result.outcome if result else None,
        reason=result.reason if result else None,
        output=(result.output if result.full is None else result.full) if result else None,
        is_error=result.is_error if result else False,
        detail=result.detail if result else None,
        metadata=result.metadata if result else None,
        timeout_seconds=call.timeout_seconds,
        created_at=view.created_at,
        started_at=view.started_at,
        deadline_at=view.deadline_at,
        ended_at=view.ended_at,
    )
