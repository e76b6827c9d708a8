"""prompts/* and completion/complete of /mcp: a prompt for each agent, with the agent's inputs as
its arguments."""

from typing import Final, cast

from pydantic import JsonValue

from runward.api.mcp import resources
from runward.api.mcp.listing import AGENT, McpTarget, find_target, list_named
from runward.api.mcp.results import McpRequestError
from runward.domain.ids import ProjectId
from runward.domain.json import JsonObject, clean_text, compact
from runward.services import Storage

MAX_VALUES: Final = 100
"""Maximum number of values in a completion (MCP 2025-11-25, completion)."""


async def list_prompts(storage: Storage, project_id: ProjectId, params: JsonObject) -> JsonObject:
    """Return a page of the prompts, ordered by name. Raises McpRequestError if the cursor is
    invalid."""
    targets, more = await list_named(storage, project_id, params.get("cursor"))
    listed: list[JsonValue] = [_describe(target) for target in targets]
    return {"prompts": listed, **more}


async def get_prompt(storage: Storage, project_id: ProjectId, params: JsonObject) -> JsonObject:
    """Return messages that ask a model to call the agent. Raises McpRequestError."""
    target = await _find(storage, project_id, str(params.get("name")))
    given = params.get("arguments")
    arguments: dict[str, str] = cast(dict[str, str], given) if isinstance(given, dict) else {}
    required = cast(list[str], target.schema.get("required", []))
    if missing := [name for name in required if name not in arguments]:
        raise McpRequestError(f"Missing required arguments: {', '.join(missing)}")
    messages: list[JsonValue] = []
    for value in arguments.values():
        if value.startswith(resources.SCHEME):
            resource = await resources.read_contents(storage, project_id, value)
            messages.append(_message({"type": "resource", "resource": resource}))
    messages.append(_message({"type": "text", "text": _write(target, arguments)}))
    return {"description": target.definition["description"], "messages": messages}


async def complete(storage: Storage, project_id: ProjectId, params: JsonObject) -> JsonObject:
    """Return values for an argument of a prompt, or for the run of a resource template. Raises
    McpRequestError if the prompt does not exist."""
    reference = cast(JsonObject, params.get("ref"))
    argument = cast(dict[str, str], params.get("argument"))
    begun = argument.get("value", "")
    values: list[str] = []
    if reference.get("type") == "ref/prompt":
        target = await _find(storage, project_id, str(reference.get("name")))
        schema = _properties(target).get(argument.get("name", ""))
        choices = schema.get("enum") if isinstance(schema, dict) else None
        found = choices if isinstance(choices, list) else []
        values = [one for one in found if isinstance(one, str) and one.startswith(begun)]
    elif argument.get("name") == "run_id":
        values = await resources.complete_run_id(storage, project_id, begun)
    shown: list[JsonValue] = list(values[:MAX_VALUES])
    return {"completion": {"values": shown, "hasMore": len(values) > MAX_VALUES}}


async def _find(storage: Storage, project_id: ProjectId, name: str) -> McpTarget:
    target = await find_target(storage, project_id, name, 0)
    if target is None or not target.is_agent:
        raise McpRequestError(f"Unknown prompt: {clean_text(name)[:128]}")
    return target


def _describe(target: McpTarget) -> JsonObject:
    required = target.schema.get("required")
    needed = required if isinstance(required, list) else []
    arguments: list[JsonValue] = []
    for name, schema in _properties(target).items():
        said = schema.get("description") if isinstance(schema, dict) else None
        about: JsonObject = {"description": said} if isinstance(said, str) else {}
        arguments.append({"name": name, **about, "required": name in needed})
    kept = {name: target.definition[name] for name in ("name", "description")}
    return {**kept, "arguments": arguments}


def _properties(target: McpTarget) -> JsonObject:
    properties = target.schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _write(target: McpTarget, arguments: dict[str, str]) -> str:
    name = str(target.definition["name"])
    if name.startswith(AGENT) and set(arguments) <= {"input"}:
        return f"Call the tool '{name}' with this input:\n\n{arguments.get('input', '')}"
    if not arguments:
        return f"Call the tool '{name}'."
    return f"Call the tool '{name}' with these arguments: {compact(dict(arguments))}"


def _message(content: JsonObject) -> JsonObject:
    return {"role": "user", "content": content}
