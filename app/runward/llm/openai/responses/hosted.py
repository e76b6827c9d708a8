"""Translation of calls that OpenAI runs itself. The whole item is kept."""

from collections.abc import Callable, Mapping
from typing import Final

from pydantic import JsonValue

from runward.domain.json import JsonObject
from runward.domain.run.items import HostedCall
from runward.llm.openai.responses.native import objects_in, parse_or_keep
from runward.llm.openai.responses.tools import PROVIDER, DeclaredTools

FAILED: Final = frozenset({"failed", "incomplete"})
KINDS: Final[Mapping[str, str]] = {
    "web_search_call": "web_search",
    "file_search_call": "file_search",
    "code_interpreter_call": "code_interpreter",
    "image_generation_call": "image_generation",
    "mcp_call": "mcp",
    "mcp_list_tools": "mcp",
}


def read_hosted_call(item: JsonObject, tools: DeclaredTools) -> HostedCall:
    """Return the item as a hosted call. An unknown kind is named after the item's type and has no
    arguments or output; `data` has them."""
    type_ = str(item.get("type"))
    kind = KINDS.get(type_, type_)
    arguments, output = _READ.get(type_, _unknown)(item)
    return HostedCall(
        call_id=str(item.get("id") or ""),
        name=tools.hosted_name(kind, item.get("server_label")),
        kind=kind,
        provider=PROVIDER,
        arguments=arguments,
        output=output,
        data=item,
        is_error=item.get("status") in FAILED or item.get("error") is not None,
    )


def _web_search(item: JsonObject) -> tuple[JsonObject, JsonValue]:
    action = item.get("action")
    said = dict(action) if isinstance(action, dict) else {}
    sources = said.pop("sources", None)
    return _without_nulls(said), {"sources": sources or []}


def _file_search(item: JsonObject) -> tuple[JsonObject, JsonValue]:
    return {"queries": item.get("queries")}, {"results": item.get("results") or []}


def _code_interpreter(item: JsonObject) -> tuple[JsonObject, JsonValue]:
    return {"code": item.get("code")}, {"outputs": item.get("outputs") or []}


def _image_generation(item: JsonObject) -> tuple[JsonObject, JsonValue]:
    """Return the arguments and the output without the image, which is large. `data` has it."""
    prompt = item.get("revised_prompt")
    about = {key: item.get(key) for key in ("output_format", "size", "quality", "background")}
    output: JsonObject = {**about, "error": item.get("error")}
    return _without_nulls({"prompt": prompt}), _without_nulls(output)


def _mcp_call(item: JsonObject) -> tuple[JsonObject, JsonValue]:
    said = {"server_label": item.get("server_label"), "name": item.get("name")}
    error = item.get("error")
    output: JsonValue = item.get("output") if error is None else {"error": error}
    return {**_without_nulls(said), "arguments": parse_or_keep(item.get("arguments"))}, output


def _mcp_list_tools(item: JsonObject) -> tuple[JsonObject, JsonValue]:
    output: JsonObject = {
        "tools": [one.get("name") for one in objects_in(item.get("tools"))],
        "error": item.get("error"),
    }
    return _without_nulls({"server_label": item.get("server_label")}), _without_nulls(output)


def _unknown(item: JsonObject) -> tuple[JsonObject, JsonValue]:
    return {}, _without_nulls({"status": item.get("status")})


def _without_nulls(said: JsonObject) -> JsonObject:
    return {key: value for key, value in said.items() if value is not None}


_READ: Final[Mapping[str, Callable[[JsonObject], tuple[JsonObject, JsonValue]]]] = {
    "web_search_call": _web_search,
    "file_search_call": _file_search,
    "code_interpreter_call": _code_interpreter,
    "image_generation_call": _image_generation,
    "mcp_call": _mcp_call,
    "mcp_list_tools": _mcp_list_tools,
}
