"""The translation of OpenAI's native tools that Runward executes. Items are converted to calls, and
results to the outputs that OpenAI expects.

A result in OpenAI's format is sent unchanged. Other results of a shell or a patch are converted to
this format. The output of a computer call must be an image. If the result has no image, an empty
image is sent, and a user message explains the result.
"""

import shlex
from collections.abc import Iterable, Mapping
from typing import Final, cast

from pydantic import JsonValue

from runward.domain.json import JsonObject, compact, parse
from runward.domain.registry.tools import ExecutorKind
from runward.domain.run.items import (
    MediaPart,
    Part,
    TextPart,
    ToolCall,
    ToolResult,
    join_text,
)
from runward.llm.openai.request_parts import data_url

KINDS: Final[Mapping[str, ExecutorKind]] = {
    "shell_call": "shell",
    "local_shell_call": "shell",
    "apply_patch_call": "apply_patch",
    "computer_call": "computer",
}
APPROVAL: Final = "mcp_approval_request"
EMPTY_PICTURE: Final = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAAC0lEQVR42mNgAAIAAAUA"
    "Aen63NgAAAAASUVORK5CYII="
)
"""One transparent pixel."""
SCREENSHOT: Final = "computer_screenshot"


def arguments_of(item: JsonObject) -> str:
    """Return the item's arguments in the form of its kind
    (`runward.domain.registry.provider_tools`)."""
    match item:
        case {"type": "shell_call", "action": dict(action)}:
            return compact({key: value for key, value in action.items() if value is not None})
        case {"type": "local_shell_call", "action": dict(action)}:
            limit = action.get("timeout_ms")
            said: JsonObject = {"commands": [_command(action)]}
            return compact(said | ({} if limit is None else {"timeout_ms": limit}))
        case {"type": "apply_patch_call", "operation": operation}:
            return compact({"operation": operation})
        case {"type": "computer_call"}:
            checks = item.get("pending_safety_checks")
            return compact(
                {"actions": _actions(item)} | ({"pending_safety_checks": checks} if checks else {})
            )
        case {"type": "mcp_approval_request"}:
            shown = {key: item[key] for key in ("server_label", "name") if key in item}
            return compact({**shown, "arguments": parse_or_keep(item.get("arguments"))})
        case _:
            return compact({})


def native_call(item: JsonObject, call: ToolCall) -> JsonObject:
    """Return the item to send back, with the current ID and arguments of the call."""
    said = {key: value for key, value in item.items() if key != "created_by"}
    if said["type"] == APPROVAL:
        return said | {"id": call.call_id}
    said["call_id"] = call.call_id
    arguments = parse_or_keep(call.arguments)
    if call.arguments == arguments_of(item) or not isinstance(arguments, dict):
        return said
    match item:
        case {"type": "shell_call"}:
            said["action"] = arguments
        case {"type": "local_shell_call", "action": dict(action)}:
            commands = cast(list[str], arguments.get("commands") or [])
            said["action"] = {**action, "command": ["bash", "-c", "\n".join(commands)]}
        case {"type": "apply_patch_call"}:
            said["operation"] = arguments.get("operation")
        case _:
            said.pop("action", None)
            said["actions"] = arguments.get("actions")
    return said


def native_output(item: JsonObject, result: ToolResult) -> tuple[JsonObject, tuple[Part, ...]]:
    """Return the output item of a call's result, and the parts that the item does not support. The
    caller sends these parts in a message after it."""
    kind = item["type"]
    if kind == APPROVAL:
        answer: JsonObject = {
            "type": "mcp_approval_response",
            "approval_request_id": result.call_id,
            "approve": not result.is_error,
        }
        return answer | ({"reason": result.text} if result.is_error else {}), ()
    said: JsonObject = {"type": f"{kind}_output", "call_id": result.call_id}
    if kind == "computer_call":
        return _screenshot(said, item, result)
    notes, output = _without_notes(result)
    match kind:
        case "shell_call":
            said["output"] = _chunks(notes, output, result)
            action = item.get("action")
            limit = action.get("max_output_length") if isinstance(action, dict) else None
            said |= {} if limit is None else {"max_output_length": limit}
        case "local_shell_call":
            del said["call_id"]
            said |= {"id": result.call_id, "output": _text(result)}
        case _:
            said |= _patch_output(notes, output, result)
    return said, tuple(part for part in result.parts if isinstance(part, MediaPart))


def text_in(content: Iterable[JsonValue]) -> str:
    """Return the text of the parts of a message."""
    return "".join(
        text
        for part in content
        if isinstance(part, dict) and isinstance(text := part.get("text"), str)
    )


def objects_in(value: JsonValue) -> list[JsonObject]:
    """Return the objects of an array, or none if the value is not an array."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def parse_or_keep(arguments: JsonValue) -> JsonValue:
    """Return the JSON value of a text, or the text itself if it is not JSON."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return parse(arguments)
    except ValueError:
        return arguments


def _command(action: JsonObject) -> str:
    """Return a shell command line for the program, its environment and its directory."""
    match action.get("command"):
        case list(words):
            line = shlex.join(map(str, words))
        case other:
            line = str(other or "")
    match action.get("env"):
        case dict(env) if env:
            line = (
                shlex.join(["env", *(f"{key}={value}" for key, value in env.items())]) + f" {line}"
            )
        case _:
            pass
    place = action.get("working_directory")
    return f"cd {shlex.quote(place)} && {line}" if isinstance(place, str) and place else line


def _actions(item: JsonObject) -> JsonValue:
    """Return the actions of a computer call. Older models send a single action instead of a
    list."""
    actions = item.get("actions")
    if actions is not None:
        return actions
    return [item["action"]] if item.get("action") is not None else []


def _text(result: ToolResult) -> str:
    return join_text(result.parts) if result.parts else result.text


def _without_notes(result: ToolResult) -> tuple[str, JsonValue]:
    """Return the lines in parentheses that Runward added before the tool's output, and that output.
    The output is parsed if it is JSON."""
    if result.parts or not isinstance(result.output, str):
        return "", join_text(result.parts) if result.parts else result.output
    lines = result.output.split("\n")
    count = 0
    while count < len(lines) and lines[count].startswith("(") and lines[count].endswith(")"):
        count += 1
    rest = parse_or_keep("\n".join(lines[count:]))
    return "".join(f"{line}\n" for line in lines[:count]), rest


def _chunks(notes: str, output: JsonValue, result: ToolResult) -> list[JsonValue]:
    given = output.get("output") if isinstance(output, dict) else output
    if not result.is_error and isinstance(given, list) and given:
        chunks = [_chunk(one) for one in given]
        whole = [chunk for chunk in chunks if chunk is not None]
        if len(whole) == len(chunks):
            whole[0]["stdout"] = f"{notes}{whole[0]['stdout']}"
            return [*whole]
    text = _text(result)
    stdout, stderr = ("", text) if result.is_error else (text, "")
    outcome: JsonObject = {"type": "exit", "exit_code": int(result.is_error)}
    return [{"stdout": stdout, "stderr": stderr, "outcome": outcome}]


def _chunk(given: JsonValue) -> JsonObject | None:
    """Return the output and the exit status of one command, or None if the value has another
    format."""
    match given:
        case {"outcome": {"type": "timeout"}}:
            outcome: JsonObject = {"type": "timeout"}
        case {"outcome": {"type": "exit", "exit_code": int(code)}}:
            outcome = {"type": "exit", "exit_code": code}
        case _:
            return None
    stdout, stderr = given.get("stdout", ""), given.get("stderr", "")
    if not isinstance(stdout, str) or not isinstance(stderr, str):
        return None
    return {"stdout": stdout, "stderr": stderr, "outcome": outcome}


def _patch_output(notes: str, output: JsonValue, result: ToolResult) -> JsonObject:
    match output:
        case {"status": ("completed" | "failed") as status} if not result.is_error:
            log = output.get("output")
            text = log if isinstance(log, str) else ""
            text = f"{notes}{text}"
        case _:
            status, text = "failed" if result.is_error else "completed", _text(result)
    return {"status": status, **({"output": text} if text else {})}


def _screenshot(
    output_item: JsonObject, item: JsonObject, result: ToolResult
) -> tuple[JsonObject, tuple[Part, ...]]:
    """Return the output item with the image, and the parts for a message after it. The provider's
    safety checks are acknowledged, because the approver has seen them."""
    checks = item.get("pending_safety_checks")
    if checks:
        output_item["acknowledged_safety_checks"] = checks
    pictures = [p for p in result.parts if isinstance(p, MediaPart) and p.type == "image"]
    rest = [part for part in result.parts if part not in pictures[:1]]
    notes, output = _without_notes(result)
    shown = _first_picture(pictures, output)
    if shown is not None and not result.parts and notes:
        rest = [TextPart(notes.strip())]
    elif shown is None and not rest:
        rest = [TextPart(result.text)]
    output_item["output"] = {"type": SCREENSHOT, **(shown or {"image_url": EMPTY_PICTURE})}
    if not rest:
        return output_item, ()
    label = f"About the computer call {result.call_id}"
    label += ":" if shown is not None else " (there is no picture, the one above is empty):"
    return output_item, (TextPart(label), *rest)


def _first_picture(pictures: list[MediaPart], output: JsonValue) -> JsonObject | None:
    if pictures:
        return {"image_url": pictures[0].url or data_url(pictures[0], "image/png")}
    if isinstance(output, dict) and isinstance(inner := output.get("output"), dict):
        output = inner
    match output:
        case {"image_url": str(url)}:
            return {"image_url": url}
        case {"file_id": str(file_id)}:
            return {"file_id": file_id}
        case _:
            return None
