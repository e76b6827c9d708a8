"""Build a response in OpenAI's format from the run's configuration and its log."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, cast

from pydantic import JsonValue

from runward.api.registry.namespaces import join_name
from runward.api.responses.items import JsonItem
from runward.api.responses.models import SERVER, CreateResponse, ResponseNamespaceTool
from runward.api.responses.parts import ResponseId, ResponseSnapshot
from runward.domain.ids import Prefix, format_id
from runward.domain.json import JsonObject, as_text
from runward.store.runs.views import RunView

_ECHOED_DEFAULTS: Final[JsonObject] = {
    "previous_response_id": None,
    "tool_choice": "auto",
    "truncation": "disabled",
    "temperature": 1.0,
    "top_p": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "user": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "background": False,
    "service_tier": "default",
    "safety_identifier": None,
    "prompt_cache_key": None,
}
"""The fields that a response repeats from its request, with the values for fields that the request
did not set."""
_KEPT_FIELDS: Final = {
    *_ECHOED_DEFAULTS,
    "conversation",
    "include",
    "model",
    "parallel_tool_calls",
    "reasoning",
    "text",
}
"""The fields of the request that a run stores only for its responses."""

NAMESPACES: Final = "namespaces"
"""The field that a run stores with the namespaces of its functions."""


def select_kept_fields(body: CreateResponse) -> JsonObject:
    """Return the fields of the request to store with the run. The instructions are stored here only
    for an agent, whose configuration combines them with its own."""
    names = _KEPT_FIELDS if ":" in body.model else {*_KEPT_FIELDS, "instructions"}
    kept: JsonObject = body.model_dump(
        mode="json", include=names, exclude_unset=True, exclude_none=True, by_alias=True
    )
    namespaces: list[JsonValue] = [
        {
            "name": one.name,
            "description": one.description,
            "functions": {
                join_name(one.name, tool.name): {
                    "name": tool.name,
                    "description": tool.description,
                }
                for tool in one.tools
            },
        }
        for one in body.tools or ()
        if isinstance(one, ResponseNamespaceTool)
    ]
    return {**kept, NAMESPACES: namespaces} if namespaces else kept


def map_namespaces(kept: Mapping[str, Any]) -> dict[str, JsonItem]:
    """Return the `name` and the `namespace` of each function in a namespace, by the name of its
    tool. `kept`: the stored fields of the request."""
    return {
        tool: {"name": function["name"], "namespace": namespace["name"]}
        for namespace in kept.get(NAMESPACES, ())
        for tool, function in namespace["functions"].items()
    }


def make_shape(view: RunView, id_: ResponseId) -> Callable[[ResponseSnapshot], dict[str, Any]]:
    """Return the function that builds the response from its known state."""
    fixed = _list_fixed_fields(view, id_)

    def shape(found: ResponseSnapshot) -> dict[str, Any]:
        created, ended = found.created_at, found.ended_at
        done = ended is not None
        before = ResponseId(id_.run_id, found.before)
        return fixed | {
            "previous_response_id": str(before) if id_.after else fixed["previous_response_id"],
            "created_at": int(view.created_at.timestamp()) if created is None else _unix(created),
            "completed_at": _unix(ended) if ended and found.status == "completed" else None,
            "status": found.status,
            "error": found.error,
            "incomplete_details": found.incomplete,
            "output": found.output,
            "usage": found.usage.usage if done else None,
        }

    return shape


def _unix(at: str) -> int:
    return int(datetime.fromisoformat(at).timestamp())


def _list_fixed_fields(view: RunView, id_: ResponseId) -> dict[str, Any]:
    config = cast("dict[str, Any]", view.config)
    asked: dict[str, Any] = config.get("request") or {}
    inline = view.agent is None
    model = config.get("model")
    effort = asked.get("reasoning")
    return {
        "id": str(id_),
        "object": "response",
        **{name: asked.get(name, default) for name, default in _ECHOED_DEFAULTS.items()},
        "model": asked.get("model") or view.agent or (model if isinstance(model, str) else ""),
        "instructions": config.get("instructions") if inline else asked.get("instructions"),
        "tools": list(_tools(config, inline=inline)),
        "parallel_tool_calls": config.get("parallel_tool_calls", True),
        "text": {"format": {"type": "text"}, **asked.get("text", {})},
        "top_logprobs": 0,
        "reasoning": {"effort": None, "summary": None, **effort} if effort else None,
        "store": not view.erase_at_end,
        "metadata": {name: as_text(value) for name, value in view.metadata.items()},
        "conversation": _conversation(view, asked),
    }


def _conversation(view: RunView, asked: dict[str, Any]) -> JsonObject | None:
    """Return the session with the ID that the request contained."""
    if view.session_id is None:
        return None
    match asked.get("conversation"):
        case str(shown) | {"id": str(shown)}:
            return {"id": shown}
        case _:
            return {"id": format_id(Prefix.SESSION, view.session_id)}


def _tools(config: dict[str, Any], *, inline: bool) -> Iterator[dict[str, Any]]:
    """Return the client's functions and the registered tools of the request, without the tools of
    an agent."""
    functions = {spec["name"]: _function(spec) for spec in config.get("inline_tools", ())}
    kept: dict[str, Any] = config.get("request") or {}
    for one in kept.get(NAMESPACES, ()):
        named: dict[str, JsonItem] = one["functions"]
        tools = [functions.pop(tool) | about for tool, about in named.items() if tool in functions]
        about = {"name": one["name"], "description": one["description"]}
        yield {"type": "namespace", **about, "tools": tools}
    yield from functions.values()
    if inline and (names := config.get("tools")):
        yield {"type": "mcp", "server_label": SERVER, "allowed_tools": names}


def _function(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "function",
        "name": spec["name"],
        "description": spec.get("description"),
        "parameters": spec["parameters"],
        "strict": spec.get("strict", True),
        **({"defer_loading": True} if spec.get("defer") else {}),
    }
