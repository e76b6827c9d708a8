"""Registered resources, from the store's rows to the models of responses."""

from runward.api.registry.agent_models import Agent
from runward.api.registry.key_models import Key, Project
from runward.api.registry.mcp_server_models import McpServer
from runward.api.registry.tool_history_models import CallError, RecentCall
from runward.api.registry.tool_models import Tool
from runward.domain.ids import Prefix, format_id
from runward.domain.registry.mcp_auth import Credentials
from runward.domain.registry.mcp_servers import offered_tools
from runward.domain.registry.scopes import Scope
from runward.domain.run.calls import CallOutcome
from runward.store.access import keys
from runward.store.registry.agents import RegisteredAgent
from runward.store.registry.mcp_servers import RegisteredServer
from runward.store.registry.tool_history import PastCall
from runward.store.registry.tool_registry import RegisteredTool


def recent_call(tool: str, one: PastCall) -> RecentCall:
    failed = one.outcome not in (None, CallOutcome.COMPLETED)
    code = str(one.reason or one.outcome)
    return RecentCall(
        id=format_id(Prefix.CALL, one.id),
        call_id=one.call_id,
        run_id=format_id(Prefix.RUN, one.run_id),
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
        error=CallError(code=code, message=one.message or "") if failed else None,
    )


def tool(one: RegisteredTool) -> Tool:
    return Tool.from_spec(one.spec, **tool_about(one))


def tool_about(tool: RegisteredTool) -> dict[str, object]:
    return {
        "id": format_id(Prefix.TOOL, tool.id),
        "version": tool.version,
        "created_at": tool.created_at,
        "updated_at": tool.updated_at,
    }


def mcp_server(server: RegisteredServer, credentials: Credentials) -> McpServer:
    made = offered_tools(server.spec, server.listed)
    return McpServer.from_spec(
        server.spec,
        credentials,
        [spec.name for spec in made.specs],
        made.skipped,
        id=format_id(Prefix.MCP_SERVER, server.id),
        version=server.version,
        listed_at=server.listed_at,
        created_at=server.created_at,
        updated_at=server.updated_at,
    )


def key(one: keys.Key) -> Key:
    return Key(
        id=format_id(Prefix.KEY, one.id),
        name=one.name,
        scopes=[Scope(scope) for scope in one.scopes],
        created_at=one.created_at,
        expires_at=one.expires_at,
        revoked_at=one.revoked_at,
        last_used_at=one.last_used_at,
    )


def project(one: keys.Project) -> Project:
    return Project(id=format_id(Prefix.PROJECT, one.id), name=one.name, created_at=one.created_at)


def agent(one: RegisteredAgent) -> Agent:
    return Agent.from_config(
        one.config,
        name=one.name,
        description=one.description,
        metadata=one.metadata,
        version=one.version,
        created_at=one.created_at,
        updated_at=one.updated_at,
    )
