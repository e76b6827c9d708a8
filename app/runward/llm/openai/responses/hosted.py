"""The translation of tools that OpenAI runs. Complete items become hosted calls. Later requests
contain these items unchanged."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from pydantic import JsonValue

from runward.domain.json import JsonObject
from runward.domain.run.items import HostedCall
from runward.llm.openai.responses.native import objects_in, parse_or_keep
from runward.llm.openai.responses.tools import PROVIDER, DeclaredTools

SHELL_CALL: Final = "shell_call"
SHELL_OUTPUT: Final = "shell_call_output"
FAILED: Final = frozenset({"failed", "incomplete"})
_OWN_FIELDS: Final = "created_by"
"""A field of items that OpenAI does not accept in requests."""


def read_hosted_call(item: JsonObject, tools: DeclaredTools) -> HostedCall:
    """Return the item as a hosted call. If its kind is unknown, the name is the item's type, and
    only `data` contains the arguments and the output."""
    type_ = str(item.get("type"))
    kind, read = _HOSTED.get(type_, (type_, _unknown))
    arguments, output = read(item)
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


def pair_shell_calls(items: Iterable[JsonObject], tools: DeclaredTools) -> list[JsonObject]:
    """Return the items, with each call of a hosted shell and its output as one object with the
    fields `id` and `items`."""
    given = [*items]
    outputs = {one.get("call_id"): one for one in given if one.get("type") == SHELL_OUTPUT}
    paired: list[JsonObject] = []
    for item in given:
        if item.get("type") != SHELL_CALL or not tools.is_hosted_shell(item):
            paired.append(item)
            continue
        output = outputs.pop(item.get("call_id"), None)
        pair: list[JsonValue] = [item] if output is None else [item, output]
        paired.append({"id": item.get("id"), "items": pair})
    unpaired = {id(one) for one in outputs.values()}
    return [one for one in paired if one.get("type") != SHELL_OUTPUT or id(one) in unpaired]


def read_shell_call(pair: JsonObject, tools: DeclaredTools) -> HostedCall:
    """Return a call of a hosted shell and its output as one hosted call."""
    call, *outputs = objects_in(pair["items"])
    action = call.get("action")
    return HostedCall(
        call_id=str(call.get("id") or call.get("call_id") or ""),
        name=tools.hosted_name("shell"),
        kind="shell",
        provider=PROVIDER,
        arguments=_without_nulls(action if isinstance(action, dict) else {}),
        output={"output": [_without_author(chunk) for chunk in _chunks(outputs)]},
        data=pair,
        is_error=not outputs or any(one.get("status") in FAILED for one in (call, *outputs)),
    )


def hosted_items(data: JsonObject) -> list[JsonObject]:
    """Return the items to send back for a hosted call, or none if OpenAI would reject them, because
    the call has no output."""
    if "type" in data:
        return [_without_author(data)]
    items = objects_in(data.get("items"))
    if len(items) < 2:
        return []
    call, output = items
    answer = _without_author(output)
    answer["output"] = [_without_author(one) for one in _chunks([output])]
    return [_without_author(call), answer]


def _chunks(outputs: list[JsonObject]) -> list[JsonObject]:
    return [chunk for output in outputs for chunk in objects_in(output.get("output"))]


def _without_author(item: JsonObject) -> JsonObject:
    return {key: value for key, value in item.items() if key != _OWN_FIELDS}


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
    """Return the arguments and the output without the large image. `data` contains the image."""
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


def _without_nulls(fields: JsonObject) -> JsonObject:
    return {key: value for key, value in fields.items() if value is not None}


_HOSTED: Final[Mapping[str, tuple[str, Callable[[JsonObject], tuple[JsonObject, JsonValue]]]]] = {
    "web_search_call": ("web_search", _web_search),
    "file_search_call": ("file_search", _file_search),
    "code_interpreter_call": ("code_interpreter", _code_interpreter),
    "image_generation_call": ("image_generation", _image_generation),
    "mcp_call": ("mcp", _mcp_call),
    "mcp_list_tools": ("mcp", _mcp_list_tools),
}
"""The kind of each type of item, and the function that reads its arguments and output."""
