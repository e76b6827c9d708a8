"""tools/list of /mcp: the tools of the project that Runward can run, its agents, and the tool that
returns the result of an earlier call."""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from runward.api.mcp.results import RESULT_TOOL, McpRequestError, output_schema
from runward.domain.ids import ProjectId
from runward.domain.json import JsonObject
from runward.domain.registry.tools import NAME_PATTERN, ToolSpec, closed_object
from runward.services import Storage
from runward.store.registry import agents, tool_registry
from runward.store.registry.agents import RegisteredAgent
from runward.store.registry.tool_registry import RegisteredTool

AGENT: Final = "agent_"
"""The prefix of an agent's name in the list of tools."""
PAGE: Final = 100
"""Maximum number of tools in one response."""
_RUNNABLE: Final = frozenset({"webhook", "plugin", "mcp", "agent"})
"""Types of tools that run without the client or a model provider."""
_OF_CLIENTS: Final = frozenset({"client"})
"""Types of tools whose results the user of the client gives."""
_EXECUTION: Final[JsonObject] = {"taskSupport": "optional"}
_HINTS: Final = frozenset({"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"})

_AGENT_INPUT: Final = closed_object(
    "input",
    input={"type": "string", "description": "The task or question for the agent."},
    session_id={
        "type": "string",
        "maxLength": 64,
        "description": "ID of the session (sess_…) whose conversation the agent continues.",
    },
)


@dataclass(frozen=True, slots=True)
class McpTarget:
    """What a call of this name runs: a tool in this version, an agent, or a read of an earlier
    result."""

    definition: JsonObject
    tool: RegisteredTool | None = None
    agent: RegisteredAgent | None = None

    @property
    def is_agent(self) -> bool:
        return self.agent is not None or (self.tool is not None and self.tool.spec.type == "agent")

    @property
    def is_executable(self) -> bool:
        """Return whether a call starts a run."""
        return self.tool is not None or self.agent is not None

    @property
    def schema(self) -> JsonObject:
        schema = self.definition["inputSchema"]
        assert isinstance(schema, dict)
        return schema


async def list_page(
    storage: Storage,
    project_id: ProjectId,
    cursor: str | None,
    max_wait: float,
    *,
    elicits: bool,
) -> JsonObject:
    """Return a page, ordered by name in code point order. For other pages, only the names are read.
    `max_wait`: the longest wait of the result tool, in seconds. `elicits`: whether the client can
    ask its user, so that it can call `client` tools. Raises McpRequestError if the cursor is
    invalid."""
    types = _RUNNABLE | _OF_CLIENTS if elicits else _RUNNABLE
    after = "" if cursor is None else _decode_cursor(cursor)
    async with storage.connect() as tx:
        of_tools = await tool_registry.list_names_by_type(tx, project_id, sorted(types)) - {
            RESULT_TOOL
        }
        of_agents = {
            AGENT + name for name in await agents.list_agent_names(tx, project_id)
        } - of_tools
        names = sorted(one for one in {RESULT_TOOL, *of_tools, *of_agents} if one > after)
        shown = names[:PAGE]
        tools = await tool_registry.find_tools(
            tx, project_id, [one for one in shown if one in of_tools]
        )
        asked = [one.removeprefix(AGENT) for one in shown if one in of_agents]
        found = {
            AGENT + one.name: _describe_agent(one)
            for one in await agents.find_agents(tx, project_id, asked)
        }
    found |= {RESULT_TOOL: _describe_result_tool(max_wait)} | {
        one.spec.name: _describe_tool(one) for one in tools
    }
    listed: list[JsonValue] = [found[name] for name in shown if name in found]
    more: JsonObject = {"nextCursor": _encode_cursor(shown[-1])} if len(names) > PAGE else {}
    return {"tools": listed, **more}


async def list_named(
    storage: Storage, project_id: ProjectId, cursor: JsonValue
) -> tuple[list[McpTarget], JsonObject]:
    """Return a page of the agents and of the tools of type `agent`, ordered by name, and the cursor
    of the next page. Raises McpRequestError if the cursor is invalid."""
    after = "" if cursor is None else _decode_cursor(str(cursor))
    async with storage.connect() as tx:
        of_tools = await tool_registry.list_names_by_type(tx, project_id, ["agent"])
        of_agents = {AGENT + name for name in await agents.list_agent_names(tx, project_id)}
        names = sorted(one for one in of_tools | of_agents if one > after)
        shown = names[:PAGE]
        tools = await tool_registry.find_tools(
            tx, project_id, [one for one in shown if one in of_tools]
        )
        asked = [one.removeprefix(AGENT) for one in shown if one not in of_tools]
        found = {
            AGENT + one.name: McpTarget(_describe_agent(one), agent=one)
            for one in await agents.find_agents(tx, project_id, asked)
        }
    found |= {one.spec.name: McpTarget(_describe_tool(one), tool=one) for one in tools}
    more: JsonObject = {"nextCursor": _encode_cursor(shown[-1])} if len(names) > PAGE else {}
    return [found[name] for name in shown if name in found], more


async def find_target(
    storage: Storage, project_id: ProjectId, name: str, max_wait: float, *, elicits: bool = False
) -> McpTarget | None:
    """Return the target with that name. None: the list contains no such name. `elicits`: as in
    `list_page`."""
    if name == RESULT_TOOL:
        return McpTarget(_describe_result_tool(max_wait))
    async with storage.connect() as tx:
        if re.fullmatch(NAME_PATTERN, name):
            tool = await tool_registry.get_tool(tx, project_id, name)
            if tool is not None and _is_runnable(tool.spec, elicits=elicits):
                return McpTarget(_describe_tool(tool), tool=tool)
        of_agent = name.removeprefix(AGENT)
        if of_agent == name or not re.fullmatch(NAME_PATTERN, of_agent):
            return None
        agent = await agents.get_agent(tx, project_id, of_agent)
    return None if agent is None else McpTarget(_describe_agent(agent), agent=agent)


def _describe_result_tool(max_wait: float) -> JsonObject:
    return {
        "name": RESULT_TOOL,
        "description": (
            "Waits for a run that an earlier call started and that has not ended yet. "
            "Returns the result that the earlier call would have returned."
        ),
        "inputSchema": closed_object(
            "run_id",
            run_id={"type": "string", "description": "ID of the run (run_…)."},
            wait_seconds={
                "type": "number",
                "minimum": 0,
                "maximum": max_wait,
                "default": max_wait,
                "description": "Maximum number of seconds to wait. 0 returns at once.",
            },
        ),
        "annotations": {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False},
    }


def _is_runnable(spec: ToolSpec, *, elicits: bool) -> bool:
    """Return whether the tool is listed. Rules of `enabled` are evaluated later, when there is a
    run."""
    runnable = spec.type in _RUNNABLE or (elicits and spec.type in _OF_CLIENTS)
    return runnable and spec.enabled is not False


def _describe_tool(tool: RegisteredTool) -> JsonObject:
    spec = tool.spec
    asks = spec.approval if isinstance(spec.approval, str) else "rule"
    said = spec.metadata.get("mcp")
    theirs: JsonObject = said if spec.type == "mcp" and isinstance(said, dict) else {}
    title, hints = theirs.get("title"), _hints(theirs.get("annotations"))
    if spec.idempotent:
        hints["idempotentHint"] = True
    schema = output_schema(spec.output_schema)
    return {
        "name": spec.name,
        **({"title": title} if title and isinstance(title, str) else {}),
        "description": spec.description,
        "inputSchema": spec.parameters,
        **({"outputSchema": schema} if schema else {}),
        **({"annotations": hints} if hints else {}),
        "execution": _EXECUTION,
        "_meta": {"runward/type": spec.type, "runward/approval": asks},
    }


def _hints(annotations: JsonValue) -> JsonObject:
    """Return the annotations that the protocol defines and that have the right types. A PATCH can
    set annotations of any type, and clients reject the whole list if an annotation has a wrong
    type."""
    if not isinstance(annotations, dict):
        return {}
    return {
        name: value
        for name, value in annotations.items()
        if (name == "title" and isinstance(value, str))
        or (name in _HINTS and isinstance(value, bool))
    }


def _describe_agent(agent: RegisteredAgent) -> JsonObject:
    schema = output_schema(agent.config.output_schema)
    return {
        "name": AGENT + agent.name,
        "description": agent.description or f"Runs the agent '{agent.name}'.",
        "inputSchema": _AGENT_INPUT,
        **({"outputSchema": schema} if schema else {}),
        "execution": _EXECUTION,
        "_meta": {"runward/type": "agent", "runward/agent": agent.name},
    }


def _encode_cursor(name: str) -> str:
    return urlsafe_b64encode(name.encode()).decode()


def _decode_cursor(cursor: str) -> str:
    try:
        return urlsafe_b64decode(cursor.encode()).decode()
    except ValueError:
        raise McpRequestError(
            "The cursor does not belong to this list. Request the first page again."
        ) from None
