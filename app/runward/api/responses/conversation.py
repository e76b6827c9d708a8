"""Convert the items that a client sends to the conversation that the model reads."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from runward.api.registry.namespaces import join_name
from runward.api.responses import inputs
from runward.api.responses.inputs import InputContent, InputIn, ResponseInputItem, ResponseInputPart
from runward.api.responses.sealed_reasoning import OpenedReasoning, place_reasoning
from runward.domain.errors import FieldError, InvalidRequestError
from runward.domain.ids import CallId
from runward.domain.json import compact
from runward.domain.run.items import (
    Item,
    MediaPart,
    Message,
    Part,
    TextPart,
    ToolCall,
    ToolResult,
    join_text,
)
from runward.domain.run.pairing import UnpairedItemError, pair_results
from runward.domain.schema.validator import parse_arguments

_REFUSALS: Final = {
    "mcp_approval_response": "answers an approval request that is not part of the conversation; "
    "set previous_response_id to the response that contains the approval request",
    "item_reference": "refers to an item; send the item itself",
}
_DATA_URL: Final = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,([A-Za-z0-9+/]+={0,2})")
_URL: Final = re.compile(r"https?://\S{1,2040}")


@dataclass(frozen=True, slots=True)
class Unsealer:
    """The functions that convert `encrypted_content`. `compaction`: to the items of a compacted
    conversation; raises InvalidRequestError. `reasoning`: to reasoning, or to None if it is not
    Runward's."""

    compaction: Callable[[str], Sequence[Item]]
    reasoning: Callable[[str], OpenedReasoning | None]


def parameter_error(path: str, message: str) -> InvalidRequestError:
    """Return the error of a parameter. `message`: a sentence, or the rest of a sentence that begins
    with the parameter's name."""
    detail = message if message[0].isupper() else f"{path.removeprefix('query.')} {message}"
    return InvalidRequestError(detail, errors=[FieldError(path, message)])


def parse_conversation(
    given: InputIn, unsealer: Unsealer, before: Sequence[Item] = ()
) -> tuple[Item, ...]:
    """Return the conversation. Each call is directly followed by its result, in the order of the
    calls. Raises InvalidRequestError for calls without results and results without calls."""
    if isinstance(given, str):
        return (*before, Message("user", given))
    read = parse_items(given, "input", unsealer)
    try:
        return (*before, *pair_results(read))
    except UnpairedItemError as error:
        item = read[error.index]
        if isinstance(item, ToolResult):
            raise missing_call_error(item.call_id) from None
        assert isinstance(item, ToolCall)
        raise missing_output_error(item.call_id) from None


def parse_items(given: Sequence[ResponseInputItem], at: str, unsealer: Unsealer) -> list[Item]:
    """Return the items in the same order, except reasoning, which precedes the item that followed
    it. `at`: the name of the parameter. Raises InvalidRequestError."""
    return place_reasoning(
        [one for n, item in enumerate(given) for one in _parse_item(item, f"{at}.{n}", unsealer)]
    )


def _parse_item(
    item: ResponseInputItem, at: str, unsealer: Unsealer
) -> Iterator[Item | OpenedReasoning]:
    match item:
        case inputs.ResponseInputMessage():
            yield parse_message(item, at)
        case inputs.ResponseInputFunctionCall():
            name = item.name if item.namespace is None else join_name(item.namespace, item.name)
            yield _parse_call(item.call_id, name, item.arguments)
        case inputs.ResponseInputFunctionCallOutput():
            yield _parse_result(item, at)
        case inputs.ResponseInputMcpCall():
            yield from _parse_mcp_call(item, at)
        case inputs.ResponseInputCompaction() | inputs.ResponseInputReasoning():
            yield from _decrypt(item, unsealer)
        case inputs.ResponseInputMcpApprovalRequest():
            pass
        case inputs.ResponseInputMcpApprovalResponse() | inputs.ResponseInputItemReference():
            raise parameter_error(at, _REFUSALS[item.type])
        case _:
            assert_never(item)


def _decrypt(
    item: inputs.ResponseInputCompaction | inputs.ResponseInputReasoning, unsealer: Unsealer
) -> Iterator[Item | OpenedReasoning]:
    if isinstance(item, inputs.ResponseInputCompaction):
        yield from unsealer.compaction(item.encrypted_content)
    elif item.encrypted_content is not None:
        opened = unsealer.reasoning(item.encrypted_content)
        if opened is not None:
            yield opened


def _parse_mcp_call(item: inputs.ResponseInputMcpCall, at: str) -> Iterator[Item]:
    if item.id is None:
        raise parameter_error(f"{at}.id", "is required")
    yield _parse_call(item.id, item.name, item.arguments)
    failed = item.error is not None
    output = compact(item.error) if failed else item.output or ""
    yield ToolResult(CallId(item.id), output, is_error=failed)


def _parse_call(call_id: str, name: str, arguments: str) -> ToolCall:
    parsed = parse_arguments(arguments)
    if isinstance(parsed, dict):
        return ToolCall(CallId(call_id), name, compact(parsed))
    return ToolCall(CallId(call_id), name, "{}", raw=arguments)


def _parse_result(item: inputs.ResponseInputFunctionCallOutput, at: str) -> ToolResult:
    content = _parse_content(item.output, f"{at}.output")
    text = join_text(content)
    media = not isinstance(content, str) and any(isinstance(one, MediaPart) for one in content)
    parts = content if media and not isinstance(content, str) else ()
    return ToolResult(CallId(item.call_id), text, parts=parts)


def parse_message(item: inputs.ResponseInputMessage, at: str) -> Message:
    role = "system" if item.role == "developer" else item.role
    content = _parse_content(item.content, f"{at}.content")
    refuses = not isinstance(item.content, str) and any(
        isinstance(part, inputs.ResponseInputRefusal) for part in item.content
    )
    if role == "assistant":
        return Message(role, join_text(content), refusal=refuses)
    return Message(role, content)


def parse_output(item: inputs.ResponseInputFunctionCallOutput) -> str:
    """Return the result that a client submits for a function of a waiting run."""
    content = _parse_content(item.output, "input")
    if not isinstance(content, str):
        raise parameter_error(
            "input",
            "has a function output with an image or a file; the output of a pending "
            "function call must be text",
        )
    return content


def _parse_content(given: InputContent, at: str) -> str | tuple[Part, ...]:
    if isinstance(given, str):
        return given
    parts = tuple(_parse_part(part, f"{at}.{n}") for n, part in enumerate(given))
    if all(isinstance(part, TextPart) for part in parts):
        return join_text(parts)
    return parts


def _parse_part(part: ResponseInputPart, at: str) -> Part:
    match part:
        case inputs.ResponseInputText(text=text):
            return TextPart(text)
        case inputs.ResponseInputRefusal(refusal=text):
            return TextPart(text)
        case inputs.ResponseInputImage(image_url=url):
            return _parse_media("image", url, f"{at}.image_url")
        case inputs.ResponseInputFile(file_url=url, file_data=data, filename=name):
            if (url is None) == (data is None):
                raise parameter_error(at, "must have either file_url or file_data")
            place = f"{at}.file_url" if data is None else f"{at}.file_data"
            return _parse_media("file", url or data or "", place, name)
        case _:
            assert_never(part)


def _parse_media(kind: str, url: str, at: str, filename: str | None = None) -> MediaPart:
    type_ = "image" if kind == "image" else "file"
    if found := _DATA_URL.fullmatch(url):
        return MediaPart(type_, data=found[2], media_type=found[1], filename=filename)
    if _URL.fullmatch(url):
        return MediaPart(type_, url=url, filename=filename)
    raise parameter_error(
        at, "must be an http or https URL, or a base64 data URL with a media type"
    )


def missing_output_error(call_id: str) -> InvalidRequestError:
    return parameter_error("input", f"No tool output found for function call {call_id}.")


def missing_call_error(call_id: str) -> InvalidRequestError:
    why = f"No tool call found for function call output with call_id {call_id}."
    return parameter_error("input", why)
