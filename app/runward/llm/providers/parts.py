"""Parts of a response that only its provider can read. They are stored so that they can be sent
back unchanged.

`Reasoning.data` is {"text", "signature", "id", "details"}, without missing values. A `HostedCall`
stores its own parts and the parts before the next hosted call, in the form of pydantic-ai's message
histories. `Native.data` of a message or a call is {"details", "citations"}.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Final, cast

from pydantic import JsonValue, TypeAdapter, ValidationError
from pydantic_ai import (
    ModelResponsePart,
    NativeToolCallPart,
    NativeToolReturnPart,
    TextPart,
    ThinkingPart,
)
from pydantic_ai.messages import Citation
from pydantic_ai.models import Model

from runward.domain.json import JsonObject
from runward.domain.registry.tools import ToolSpec
from runward.domain.run import texts
from runward.domain.run.items import HostedCall, Native, Reasoning
from runward.llm.providers.access import ProviderName

_PARTS: Final = TypeAdapter(list[ModelResponsePart])
_CITATIONS: Final = TypeAdapter(list[Citation])
KINDS: Final = {"web_search": "web_search", "code_execution": "code_interpreter"}
"""Runward's kinds of hosted tools, by pydantic-ai's names."""


def reasoning(part: ThinkingPart, provider: ProviderName) -> Reasoning:
    said: JsonObject = {
        "text": part.content,
        "signature": part.signature,
        "id": part.id,
        "details": cast(JsonValue, part.provider_details),
    }
    kept: JsonObject = {name: value for name, value in said.items() if value}
    return Reasoning(provider, kept)


def thinking_part(item: Reasoning, model: Model, provider: ProviderName) -> ThinkingPart | None:
    """Return the reasoning to send back, or None if it must not be sent. Anthropic and Bedrock
    accept no reasoning without a signature, and some of Bedrock's models accept no reasoning at
    all. pydantic-ai would send such reasoning as text."""
    match item.data:
        case {"signature": str(signature)}:
            pass
        case _ if provider != "gemini":
            return None
        case _:
            signature = None
    if provider == "bedrock" and not model.profile.get("bedrock_send_back_thinking_parts", False):
        return None
    text, told_id, details = (item.data.get(name) for name in ("text", "id", "details"))
    return ThinkingPart(
        text if isinstance(text, str) else "",
        id=told_id if isinstance(told_id, str) else None,
        signature=signature,
        provider_name=model.system,
        provider_details=details if isinstance(details, dict) else None,
    )


def native(part: ModelResponsePart, provider: ProviderName) -> Native | None:
    details = cast(JsonValue, getattr(part, "provider_details", None))
    kept: JsonObject = {"details": details} if details else {}
    if isinstance(part, TextPart) and part.citations:
        kept["citations"] = _CITATIONS.dump_python(part.citations, mode="json")
    return Native(provider, kept) if kept else None


def text_part(
    content: str, native_data: Native | None, model: Model, provider: ProviderName
) -> TextPart:
    if native_data is None or native_data.provider != provider:
        return TextPart(content)
    citations = None
    with suppress(ValidationError):
        citations = _CITATIONS.validate_python(native_data.data.get("citations") or [])
    return TextPart(
        content,
        provider_name=model.system,
        provider_details=provider_details_of(native_data, provider),
        citations=citations or None,
    )


def provider_details_of(
    native_data: Native | None, provider: ProviderName
) -> dict[str, JsonValue] | None:
    if native_data is None or native_data.provider != provider:
        return None
    details = native_data.data.get("details")
    return details if isinstance(details, dict) else None


def hosted_calls(
    parts: Iterable[NativeToolCallPart | NativeToolReturnPart],
    tools: Iterable[ToolSpec],
    provider: ProviderName,
) -> list[HostedCall]:
    """Return the hosted calls in adjacent parts. A result may be at any position of the answer.
    `parts` may begin with the result of a call in an earlier answer."""
    names = {tool.hosted.kind: tool.name for tool in tools if tool.hosted is not None}
    groups: list[list[NativeToolCallPart | NativeToolReturnPart]] = []
    returned: dict[str, NativeToolReturnPart] = {}
    for part in parts:
        if isinstance(part, NativeToolCallPart) or not groups:
            groups.append([])
        if isinstance(part, NativeToolReturnPart):
            returned[part.tool_call_id] = part
        groups[-1].append(part)
    return [_hosted_call(group, returned, names, provider) for group in groups]


def hosted_parts(item: HostedCall) -> list[ModelResponsePart]:
    """Return the parts that `hosted_calls` stored. If they cannot be read, return a text that
    describes the call."""
    try:
        return _PARTS.validate_python(item.data.get("parts"))
    except ValidationError:
        return [TextPart(texts.hosted_call(item))]


def _hosted_call(
    group: list[NativeToolCallPart | NativeToolReturnPart],
    returned: dict[str, NativeToolReturnPart],
    names: dict[str, str],
    provider: ProviderName,
) -> HostedCall:
    first = group[0]
    kind = KINDS.get(first.tool_name, first.tool_name)
    output = _output_of(returned.get(first.tool_call_id))
    kept: JsonObject = {"parts": _PARTS.dump_python([*group], mode="json")}
    return HostedCall(
        first.tool_call_id,
        names.get(kind, first.tool_name),
        kind,
        provider,
        first.args_as_dict() if isinstance(first, NativeToolCallPart) else {},
        output,
        kept,
        is_error=_is_failure(output),
    )


def _output_of(part: NativeToolReturnPart | None) -> JsonValue:
    if part is None:
        return None
    dumped = _PARTS.dump_python([part], mode="json")
    return cast(JsonValue, dumped[0].get("content"))


def _is_failure(output: JsonValue) -> bool:
    """Return whether the output reports a failure. For Anthropic, this is an error code or the
    output of a failed program. For Gemini, it is an outcome."""
    match output:
        case {"error_code": str()}:
            return True
        case {"return_code": int(code)}:
            return code != 0
        case {"outcome": str(outcome)}:
            return outcome != "OUTCOME_OK"
        case _:
            return False
