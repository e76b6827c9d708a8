"""What a scripted model answers in the Responses API, as items and as the events that stream them.

The shapes are those of the official client (`openai.types.responses`).
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from tests.support.models.chat_rules import Body


@dataclass(frozen=True, slots=True)
class Text:
    value: str
    phase: str | None = None
    annotations: tuple[Body, ...] = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    value: str


@dataclass(frozen=True, slots=True)
class Call:
    """`arguments` is raw text, as models write it."""

    id: str
    name: str
    arguments: str = "{}"


@dataclass(frozen=True, slots=True)
class Custom:
    """A call of a tool that takes free text."""

    id: str
    name: str
    input: str


@dataclass(frozen=True, slots=True)
class Shell:
    id: str
    commands: tuple[str, ...]
    timeout_ms: int | None = None
    max_output_length: int | None = None


@dataclass(frozen=True, slots=True)
class Patch:
    """`operation`: {"type": "create_file" | "update_file" | "delete_file", "path", "diff"}."""

    id: str
    operation: Body


@dataclass(frozen=True, slots=True)
class Computer:
    id: str
    actions: tuple[Body, ...]
    pending_safety_checks: tuple[Body, ...] = ()


@dataclass(frozen=True, slots=True)
class Reasoning:
    """`summaries` are for people; what the model thought is sealed by the server."""

    summaries: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Item:
    """Any other item as it is, but for its id: `body["type"]` is "web_search_call", say. `events`
    come between its added and its done, and get its id and place."""

    body: Body
    events: tuple[Body, ...] = field(default=())


def hosted_shell(command: str, stdout: str, call_id: str = "call_1") -> tuple[Item, Item]:
    """A command that OpenAI ran in a container, and what it printed."""
    where = {"environment": {"type": "container_reference", "container_id": "cntr_1"}}
    done = {"call_id": call_id, "status": "completed"}
    exited = {"stdout": stdout, "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
    return (
        Item({"type": "shell_call", "action": {"commands": [command]}, **where, **done}),
        Item({"type": "shell_call_output", "output": [exited], **done}),
    )


Output: TypeAlias = Text | Refusal | Call | Custom | Shell | Patch | Computer | Reasoning | Item

DECLARED_AS = {
    "shell_call": "shell",
    "apply_patch_call": "apply_patch",
    "computer_call": "computer",
}
"""The tool that a request must have for the model to answer with such an item."""
PREFIXES = {
    "message": "msg",
    "function_call": "fc",
    "custom_tool_call": "ctc",
    "shell_call": "sh",
    "apply_patch_call": "apc",
    "computer_call": "cu",
    "reasoning": "rs",
}


def make_item(output: Output, number: int) -> Body:
    """The whole item; its id has `number`. Reasoning is not sealed yet."""
    body = _item(output)
    prefix = PREFIXES.get(body["type"], "item")
    return {"id": f"{prefix}_{number:08x}", **body}


def _item(output: Output) -> Body:
    done = {"status": "completed"}
    match output:
        case Text() | Refusal():
            return _message(output) | done
        case Reasoning():
            summary = [{"type": "summary_text", "text": text} for text in output.summaries]
            return {"type": "reasoning", "summary": summary, "encrypted_content": None}
        case Item():
            return output.body
        case _:
            return _call(output) | {"call_id": output.id} | done


def _message(output: Text | Refusal) -> Body:
    message: Body = {"type": "message", "role": "assistant"}
    if isinstance(output, Refusal):
        return message | {"content": [{"type": "refusal", "refusal": output.value}]}
    notes = list(output.annotations)
    part = {"type": "output_text", "text": output.value, "annotations": notes, "logprobs": []}
    phase = {} if output.phase is None else {"phase": output.phase}
    return message | {"content": [part], **phase}


def _call(output: Call | Custom | Shell | Patch | Computer) -> Body:
    match output:
        case Call():
            return {"type": "function_call", "name": output.name, "arguments": output.arguments}
        case Custom():
            return {"type": "custom_tool_call", "name": output.name, "input": output.input}
        case Shell():
            action = {
                "commands": list(output.commands),
                "timeout_ms": output.timeout_ms,
                "max_output_length": output.max_output_length,
            }
            where = {"environment": {"type": "local"}, "created_by": "model"}
            return {"type": "shell_call", "action": action, **where}
        case Patch():
            said = {"operation": output.operation, "created_by": "model"}
            return {"type": "apply_patch_call", **said}
        case Computer():
            checks = list(output.pending_safety_checks)
            said = {"actions": list(output.actions), "pending_safety_checks": checks}
            return {"type": "computer_call", **said}


def events_of(output: Output, item: Body, index: int, pieces: int) -> Iterator[Body]:
    """The events of one item, without their sequence numbers."""
    place = {"output_index": index}
    yield {"type": "response.output_item.added", **place, "item": item | _opening(item)}
    yield from _inner(output, item, {"item_id": item["id"], **place}, pieces)
    yield {"type": "response.output_item.done", **place, "item": item}


def _opening(item: Body) -> Body:
    """How an item looks before anything of it has arrived."""
    empty: Body = {"content": [], "arguments": "", "input": "", "summary": []}
    known = {key: value for key, value in empty.items() if key in item}
    if item["type"] == "shell_call":
        known["action"] = item["action"] | {"commands": []}
    return known | ({"status": "in_progress"} if "status" in item else {})


def _inner(output: Output, item: Body, at: Body, pieces: int) -> Iterator[Body]:
    match output:
        case Text() | Refusal():
            yield from _part(item["content"][0], at | {"content_index": 0}, pieces)
        case Call() | Custom():
            yield from _written(output, at, pieces)
        case Shell():
            yield from _commands(output, {"output_index": at["output_index"]}, pieces)
        case Reasoning():
            yield from _summaries(output, at, pieces)
        case Item():
            yield from ({**event, **at} for event in output.events)
        case Patch() | Computer():
            return


def _written(output: Call | Custom, at: Body, pieces: int) -> Iterator[Body]:
    function = isinstance(output, Call)
    key, whole = ("arguments", output.arguments) if function else ("input", output.input)
    kind = "response.function_call_arguments" if function else "response.custom_tool_call_input"
    yield from _deltas(kind, whole, at, pieces)
    yield {"type": f"{kind}.done", **at, key: whole}


def _commands(output: Shell, at: Body, pieces: int) -> Iterator[Body]:
    kind = "response.shell_call_command"
    for number, command in enumerate(output.commands):
        place = at | {"command_index": number}
        yield {"type": f"{kind}.added", **place, "command": ""}
        yield from _deltas(kind, command, place, pieces)
        yield {"type": f"{kind}.done", **place, "command": command}


def _part(part: Body, at: Body, pieces: int) -> Iterator[Body]:
    key = "text" if part["type"] == "output_text" else "refusal"
    kind = f"response.{part['type']}"
    rest: Body = {"logprobs": []} if key == "text" else {}
    yield {"type": "response.content_part.added", **at, "part": part | {key: ""}}
    yield from _deltas(kind, part[key], at | rest, pieces)
    for number, note in enumerate(part.get("annotations", [])):
        place = at | {"annotation_index": number, "annotation": note}
        yield {"type": f"{kind}.annotation.added", **place}
    yield {"type": f"{kind}.done", **at, key: part[key], **rest}
    yield {"type": "response.content_part.done", **at, "part": part}


def _summaries(output: Reasoning, at: Body, pieces: int) -> Iterator[Body]:
    kind = "response.reasoning_summary"
    for number, text in enumerate(output.summaries):
        place = at | {"summary_index": number}
        part = {"type": "summary_text", "text": text}
        yield {"type": f"{kind}_part.added", **place, "part": part | {"text": ""}}
        yield from _deltas(f"{kind}_text", text, place, pieces)
        yield {"type": f"{kind}_text.done", **place, "text": text}
        yield {"type": f"{kind}_part.done", **place, "part": part}


def _deltas(kind: str, whole: str, at: Body, pieces: int) -> Iterator[Body]:
    size = max(1, -(-len(whole) // max(1, pieces)))
    for start in range(0, len(whole), size):
        yield {"type": f"{kind}.delta", **at, "delta": whole[start : start + size]}


def frame(event: Body) -> bytes:
    data = json.dumps(event, ensure_ascii=False)
    return f"event: {event['type']}\ndata: {data}\n\n".encode()
