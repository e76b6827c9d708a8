"""From what the store has read to what answers show."""

from collections.abc import Sequence

from app.api.models.actions import (
    ApprovalAction,
    CallbackWait,
    RequiredAction,
    ResolveAction,
    ResultAction,
)
from app.api.models.agents import Agent
from app.api.models.approvals import Approval, StartedRun
from app.api.models.keys import Key, Project
from app.api.models.mcp_servers import McpServer
from app.api.models.runs import (
    Actor,
    IncompleteDetails,
    OmittedArgument,
    Run,
    RunError,
    ToolCall,
    Usage,
)
from app.api.models.tool_history import CallError, RecentCall
from app.api.models.tools import Tool
from app.domain.calls import CallOutcome, CallPhase
from app.domain.ids import Prefix, RunId, show
from app.domain.mcp_auth import Credentials
from app.domain.mcp_servers import offered
from app.domain.omitted import Omitted, omit_large
from app.domain.scopes import Scope
from app.store import approvals, keys
from app.store.agents import RegisteredAgent
from app.store.mcp_servers import RegisteredServer
from app.store.registry import RegisteredTool
from app.store.tool_history import PastCall
from app.store.views import CallView, RunView, Waiting


def run(view: RunView, waiting: Sequence[Waiting] = ()) -> Run:
    details, error = view.incomplete_details, view.error
    entries = [wait_entry(one) for one in waiting]
    return Run.model_construct(
        id=show(Prefix.RUN, view.id),
        status=view.status,
        agent=view.agent,
        model=view.config.get("model"),
        session_id=show(Prefix.SESSION, view.session_id) if view.session_id else None,
        continued_from=show(Prefix.RUN, view.continued_from) if view.continued_from else None,
        parent_run_id=show(Prefix.RUN, view.parent_run_id) if view.parent_run_id else None,
        created_by=_actor(view.created_by),
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


def _actor(one: keys.Actor | None) -> Actor | None:
    return one and Actor(id=show(Prefix.KEY, one.id), name=one.name)


def wait_entry(waiting: Waiting) -> RequiredAction | CallbackWait:
    run_id, path, one = show(Prefix.RUN, waiting.run_id), list(waiting.path), waiting.what
    if isinstance(one, approvals.Approval):
        return ApprovalAction(
            approval_id=show(Prefix.APPROVAL, one.id),
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


def approval(one: approvals.Approval, max_arguments_bytes: int | None = None) -> Approval:
    decision = one.decision or {}
    arguments, omitted = omit_large(one.arguments, max_arguments_bytes)
    message, edited = decision.get("message"), decision.get("arguments")
    return Approval(
        id=show(Prefix.APPROVAL, one.id),
        run_id=show(Prefix.RUN, one.run_id),
        call_id=one.call_id,
        tool=one.tool,
        tool_version=one.tool_version,
        url=one.url,
        arguments=arguments,
        omitted_arguments=_omitted(omitted),
        edited_arguments=edited if isinstance(edited, dict) else None,
        digest=one.digest,
        status=one.status,
        allowed_decisions=list(one.allowed_decisions),
        path=list(one.path),
        agent=one.agent,
        run=one.run and _started(one.run),
        model_message=one.model_message,
        requested_at=one.requested_at,
        expires_at=one.expires_at,
        decided_at=one.decided_at,
        decided_by=one.decided_by,
        decider=_decider(one),
        message=message if isinstance(message, str) else None,
    )


def _decider(one: approvals.Approval) -> Actor | None:
    if one.decided_by is None or one.decider_name is None:
        return None
    return Actor(id=one.decided_by, name=one.decider_name)


def _started(run: approvals.Started) -> StartedRun:
    return StartedRun(
        id=show(Prefix.RUN, run.id),
        agent=run.agent,
        created_by=_actor(run.created_by),
        created_at=run.created_at,
        input=run.input,
    )


def _omitted(omitted: Sequence[Omitted]) -> list[OmittedArgument]:
    return [OmittedArgument(name=one.name, bytes=one.size) for one in omitted]


def tool_call(run_id: RunId, view: CallView, max_arguments_bytes: int | None = None) -> ToolCall:
    call, result = view.call, view.call.result
    arguments, omitted = omit_large(call.arguments, max_arguments_bytes)
    asks = call.exchange if call.phase is CallPhase.AWAITING_INPUT else None
    return ToolCall(
        id=show(Prefix.CALL, call.uuid),
        call_id=call.id,
        run_id=show(Prefix.RUN, run_id),
        turn=call.turn,
        tool=call.tool,
        tool_version=call.version,
        arguments=arguments,
        omitted_arguments=_omitted(omitted),
        original_arguments=call.original,
        digest=call.digest,
        requests=asks.requests if asks else None,
        phase=call.phase,
        attempt=call.attempt,
        approval_id=None if call.approval_id is None else show(Prefix.APPROVAL, call.approval_id),
        child_run_id=None if call.child is None else show(Prefix.RUN, call.child),
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


def recent_call(tool: str, one: PastCall) -> RecentCall:
    failed = one.outcome not in (None, CallOutcome.COMPLETED)
    code = str(one.reason or one.outcome)
    return RecentCall(
        id=show(Prefix.CALL, one.id),
        call_id=one.call_id,
        run_id=show(Prefix.RUN, one.run_id),
        agent=one.agent,
        tool=tool,
        tool_version=one.tool_version,
        phase=one.phase,
        outcome=one.outcome,
        attempt=one.attempt,
        created_at=one.created_at,
        started_at=one.started_at,
        ended_at=one.ended_at,
        duration_ms=one.duration_ms,
        error=CallError(code=code, message=one.said or "") if failed else None,
    )


def tool(one: RegisteredTool) -> Tool:
    return Tool.of(one.spec, **tool_about(one))


def tool_about(one: RegisteredTool) -> dict[str, object]:
    return {
        "id": show(Prefix.TOOL, one.id),
        "version": one.version,
        "created_at": one.created_at,
        "updated_at": one.updated_at,
    }


def mcp_server(one: RegisteredServer, given: Credentials) -> McpServer:
    made = offered(one.spec, one.listed)
    return McpServer.of(
        one.spec,
        given,
        [spec.name for spec in made.specs],
        made.skipped,
        id=show(Prefix.MCP_SERVER, one.id),
        version=one.version,
        listed_at=one.listed_at,
        created_at=one.created_at,
        updated_at=one.updated_at,
    )


def key(one: keys.Key) -> Key:
    return Key(
        id=show(Prefix.KEY, one.id),
        name=one.name,
        scopes=[Scope(scope) for scope in one.scopes],
        created_at=one.created_at,
        expires_at=one.expires_at,
        revoked_at=one.revoked_at,
        last_used_at=one.last_used_at,
    )


def project(one: keys.Project) -> Project:
    return Project(id=show(Prefix.PROJECT, one.id), name=one.name, created_at=one.created_at)


def agent(one: RegisteredAgent) -> Agent:
    return Agent.of(
        one.config,
        name=one.name,
        description=one.description,
        metadata=one.metadata,
        version=one.version,
        created_at=one.created_at,
        updated_at=one.updated_at,
    )
