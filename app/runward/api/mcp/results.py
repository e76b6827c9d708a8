"""Write the result of a run as the result of an MCP tool call (`CallToolResult` of the protocol, as
JSON). `runward.tools.mcp.outcome` reads such results."""

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import Any, Final, assert_never
from urllib.parse import quote, urlsplit

from pydantic import JsonValue

from runward.api.mcp.elicitation import Question
from runward.api.runs.call_models import render_wait
from runward.domain.ids import Prefix, RunId, format_id
from runward.domain.json import JsonObject, as_text
from runward.domain.registry.tools import closed_object
from runward.domain.run.items import MediaPart, Part, TextPart
from runward.domain.run.state import Result
from runward.domain.run.status import RunStatus
from runward.store.runs.approvals import Approval
from runward.store.runs.views import CallView, RunView, WaitingCall

INVALID_PARAMS: Final = -32_602
INTERNAL_ERROR: Final = -32_603


class McpRequestError(Exception):
    """An error that the response returns as a protocol error."""

    def __init__(
        self, message: str, code: int = INVALID_PARAMS, data: JsonObject | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


RUN_ID: Final = "runward/run_id"
"""The key of the run's ID in `_meta` of a result."""
RESULT_TOOL: Final = "runward_result"
STRUCTURED: Final = "runward"
"""The key in structured content under which Runward describes the run if the result is not an
object."""
_LOCAL: Final = ("#/$defs/", "#/definitions/")
_ANY_TYPE: Final = "application/octet-stream"


def build_run_result(
    run: RunView, calls: Sequence[CallView], *, declared: bool = False
) -> JsonObject:
    """Return the result of a run that has ended. `calls`: its tool calls if it is of kind `call`.
    `declared`: the client knows an output schema, so the result must have structured content."""
    result = _find_result(calls)
    if run.status is not RunStatus.COMPLETED:
        refused = result is not None and result.is_error and run.status is not RunStatus.CANCELLED
        text = as_text(result.output) if result is not None and refused else _explain_end(run)
        return _build_result(run.id, [_text_block(text)], is_error=True)
    output, parts = find_output(run, calls)
    structured: JsonObject | None = output if isinstance(output, dict) else None
    if structured is None and declared:
        about: JsonObject = {"run_id": format_id(Prefix.RUN, run.id), "status": run.status}
        structured = {STRUCTURED: {**about, "output": output}}
    return _build_result(run.id, build_content(output, parts, run.id), structured)


def find_output(run: RunView, calls: Sequence[CallView]) -> tuple[JsonValue, tuple[Part, ...]]:
    """Return the output of a run, and its parts. `calls`: as in `build_run_result`."""
    result = _find_result(calls)
    if result is not None:
        return result.whole, result.parts
    return run.output if run.output_parsed is None else run.output_parsed, ()


def _find_result(calls: Sequence[CallView]) -> Result | None:
    return calls[0].call.result if calls else None


def build_file(part: Part, uri: str) -> JsonObject:
    """Return a part of an output as the contents of a resource."""
    if isinstance(part, TextPart):
        return {"uri": uri, "mimeType": "text/plain", "text": part.text}
    if part.data is None:
        return {"uri": uri, "mimeType": "text/uri-list", "text": part.url or ""}
    return {"uri": uri, "mimeType": part.media_type or _ANY_TYPE, "blob": part.data}


def build_waiting_result(
    run_id: RunId, status: RunStatus, waiting: Sequence[WaitingCall]
) -> JsonObject:
    """Return the result of a call whose run continues after the response."""
    shown = format_id(Prefix.RUN, run_id)
    lines = [f"The run {shown} has not ended. Its status is {status}."]
    lines += [f"It is waiting for {describe_wait(one)}." for one in waiting]
    lines.append(
        f'To get the result, call the tool {RESULT_TOOL} later with {{"run_id": '
        f'"{shown}"}}. Do not make this call again, because that would start '
        "another run."
    )
    actions: list[JsonValue] = [render_wait(one).model_dump(mode="json") for one in waiting]
    about: JsonObject = {"run_id": shown, "status": status, "waiting_for": actions}
    return _build_result(run_id, [_text_block("\n".join(lines))], {STRUCTURED: about})


def build_input_required(run_id: RunId, questions: Sequence[Question]) -> JsonObject:
    """Return an InputRequiredResult of the protocol of 2026. Its state names the run."""
    shown = format_id(Prefix.RUN, run_id)
    requests = build_input_requests(questions)
    return {"inputRequests": requests, "requestState": shown, "_meta": {RUN_ID: shown}}


def build_input_requests(questions: Sequence[Question]) -> JsonObject:
    return {one.id: {"method": "elicitation/create", "params": one.params} for one in questions}


def build_error(text: str) -> JsonObject:
    """Return an error without a run. The model reads the reason and can correct its call."""
    return {"content": [_text_block(text)], "isError": True}


def describe_wait(one: WaitingCall) -> str:
    """Describe why the run waits, and where the wait can be resolved."""
    run, what = format_id(Prefix.RUN, one.run_id), one.subject
    if isinstance(what, Approval):
        approval = format_id(Prefix.APPROVAL, what.id)
        return (
            f"a person's decision about the call of '{what.tool}', approval "
            f"{approval} (POST /v1/approvals/{approval}/decision)"
        )
    path = f"POST /v1/runs/{run}/tool_calls/{what.call.id}"
    match render_wait(one).type:
        case "tool_result":
            return f"the result of '{what.call.tool}' ({path}/result)"
        case "callback":
            return f"the callback of '{what.call.tool}'"
        case _:
            return (
                f"a person's review of the call of '{what.call.tool}', whose outcome is "
                f"unknown ({path}/resolve)"
            )


def build_content(output: JsonValue, parts: Iterable[Part], run_id: RunId) -> list[JsonValue]:
    """Return the content: the parts of the result, or its text."""
    found: list[JsonValue] = [_block(part, run_id, n) for n, part in enumerate(parts, start=1)]
    return found or [_text_block(as_text(output))]


def output_schema(schema: JsonObject | None) -> JsonObject | None:
    """Return the declared schema of a result: an object that matches `schema`, or the description
    of a run that continues. None if MCP cannot express it: MCP allows only objects (2025-11-25,
    tools, output schema), and references to the root of `schema` would point to the wrong place."""
    if schema is None or schema.get("type") != "object" or not _is_movable(schema):
        return None
    kept = {name: schema[name] for name in ("$schema", "$defs", "definitions") if name in schema}
    own = {name: value for name, value in schema.items() if name not in kept}
    plain: JsonObject = {"type": "object"}
    about = closed_object(STRUCTURED, **{STRUCTURED: plain})
    return {**kept, "type": "object", "anyOf": [own, about]}


def _is_movable(value: JsonValue) -> bool:
    match value:
        case dict():
            reference, rest = value.get("$ref", _LOCAL[0]), value.values()
            local = isinstance(reference, str) and reference.startswith(_LOCAL)
            named = any(
                name in value for name in ("$id", "$anchor", "$dynamicRef", "$recursiveRef")
            )
            return local and not named and all(map(_is_movable, rest))
        case list():
            return all(map(_is_movable, value))
        case _:
            return True


def _build_result(
    run_id: RunId,
    content: list[JsonValue],
    structured: JsonObject | None = None,
    *,
    is_error: bool = False,
) -> JsonObject:
    said: JsonObject = {} if structured is None else {"structuredContent": structured}
    meta: JsonObject = {RUN_ID: format_id(Prefix.RUN, run_id)}
    return {"content": content, **said, "isError": is_error, "_meta": meta}


def describe_end(run: RunView) -> str:
    """Describe why a run has no result."""
    about: dict[str, Any] = run.error or run.incomplete_details or {}
    reason = about.get("message") or about.get("code") or about.get("reason")
    return f"The run ended with status {run.status}{f': {reason}' if reason else '.'}"


def _explain_end(run: RunView) -> str:
    """Describe why a run has no result, and quote its last text."""
    lines = [describe_end(run)]
    if run.output not in (None, ""):
        lines.append(as_text(run.output))
    return "\n".join(lines)


def _block(part: Part, run_id: RunId, number: int) -> JsonObject:
    match part:
        case TextPart(text=text):
            return _text_block(text)
        case MediaPart(url=str(url)):
            name = part.filename or PurePosixPath(urlsplit(url).path).name or url
            typed: JsonObject = {"mimeType": part.media_type} if part.media_type else {}
            return {"type": "resource_link", "uri": url, "name": name, **typed}
        case MediaPart():
            return _embedded(part, run_id, number)
        case _:
            assert_never(part)


def _embedded(part: MediaPart, run_id: RunId, number: int) -> JsonObject:
    media_type, data = part.media_type or _ANY_TYPE, part.data or ""
    if part.type == "image" or media_type.startswith("audio/"):
        kind = "image" if part.type == "image" else "audio"
        return {"type": kind, "data": data, "mimeType": media_type}
    name = quote(part.filename or "file", safe="")
    uri = f"runward://runs/{format_id(Prefix.RUN, run_id)}/files/{number}/{name}"
    resource: JsonObject = {"uri": uri, "mimeType": media_type, "blob": data}
    return {"type": "resource", "resource": resource}


def _text_block(text: str) -> JsonObject:
    return {"type": "text", "text": text}
