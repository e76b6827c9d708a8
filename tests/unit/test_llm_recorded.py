"""Recorded responses of model providers, each with the result that Runward must read from it."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from runward.domain.registry.tools import HostedTool, ToolSpec
from runward.domain.run.items import HostedCall, Message, Native, Reasoning, join_text
from runward.domain.run.response import ModelResponse, Output, RequestedCall, Usage
from runward.llm.base import ModelDelta, ModelError, ModelRequest, TextDelta
from runward.llm.capabilities import fit_request
from runward.llm.frames import EventLines
from runward.llm.openai.chat.chat_completions import OpenAIChat
from runward.llm.openai.chat.response import ChatMerge
from runward.llm.openai.request_parts import Functions
from runward.llm.openai.responses.response import ResponseMerge
from runward.llm.openai.responses.responses_api import OpenAIResponses
from runward.llm.openai.responses.tools import DeclaredTools, function_tool
from runward.llm.providers.models import ProviderModel
from runward.loop.breaker import compute_delay
from tests.support.models.recorded import (
    PROTOCOLS,
    Json,
    RecordedServer,
    Recording,
    read_recordings,
)
from tests.unit.provider_models import KEY, NAMES, access

AnyModel: TypeAlias = OpenAIChat | OpenAIResponses | ProviderModel

EVIDENCE = Path("docs/explanation/evidence.md")
RECORDINGS = [one for protocol in PROTOCOLS for one in read_recordings(protocol)]
MERGED = [one for one in RECORDINGS if one.protocol.startswith("openai") and one.is_one_stream]
ANYTHING: Json = {"type": "object", "properties": {}, "additionalProperties": True}
TOOLS = tuple(ToolSpec(name=name, parameters=ANYTHING, strict=False) for name in ("look", "sum"))
OTHER_TOOLS = {
    "shell": ToolSpec(name="terminal", parameters=ANYTHING, strict=False, implements="shell"),
    "web_search": ToolSpec(
        name="search", parameters={}, type="hosted", hosted=HostedTool(kind="web_search")
    ),
    "hosted_shell": ToolSpec(
        name="sandbox", parameters={}, type="hosted", hosted=HostedTool(kind="shell")
    ),
    "code_interpreter": ToolSpec(
        name="python", parameters={}, type="hosted", hosted=HostedTool(kind="code_interpreter")
    ),
}


@pytest.fixture(scope="module")
async def models() -> AsyncIterator[dict[str, AnyModel]]:
    with RecordedServer() as server:
        opened: dict[str, AnyModel] = {
            "openai": OpenAIChat(KEY, f"{server.url}/v1"),
            "openai-responses": OpenAIResponses(KEY, f"{server.url}/v1"),
            **{name: ProviderModel(name, access(name, server.url)) for name in NAMES},
        }
        yield opened
        for model in opened.values():
            await model.aclose()


@pytest.mark.filterwarnings("ignore:.* is not a valid FinishReason")  # of google-genai
@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda one: f"{one.protocol}-{one.id}")
async def test_a_recorded_response_is_read_as_stated(
    models: dict[str, AnyModel], recording: Recording
) -> None:
    deltas: list[ModelDelta] = []
    expected: Json = recording.expect
    request = request_for(recording, models[recording.protocol])
    try:
        response = await models[recording.protocol].respond(request, deltas.append)
    except ModelError as error:
        assert shown_error(error) == expected.get("error"), error.message
        return
    assert "error" not in expected, response
    assert shown_response(response, expected.get("output", [])) == stated_response(expected)
    shows = recording.ask.get("deltas", recording.is_streamed)
    if shows and not response.refusal and "stream" in recording.replies[0]:
        assert "".join(one.text for one in deltas if isinstance(one, TextDelta)) == response.text


@pytest.mark.parametrize("recording", MERGED, ids=lambda one: f"{one.protocol}-{one.id}")
def test_a_stream_is_read_in_the_same_way_byte_by_byte(recording: Recording) -> None:
    merge = merge_for(recording)
    lines = EventLines()
    try:
        for byte in b"".join(recording.content(recording.replies[0])):
            for data in lines.feed(bytes([byte])):
                merge.feed(data)
        for data in lines.end():
            merge.feed(data)
        response = merge.result()
    except ModelError as error:
        assert error.code == recording.expect["error"]["code"]
        return
    expected = recording.expect
    assert shown_response(response, expected.get("output", [])) == stated_response(expected)


def test_there_are_as_many_recordings_as_the_documentation_says() -> None:
    stated = re.search(r"more than (\d+) recorded responses", EVIDENCE.read_text())
    assert stated is not None
    assert len(RECORDINGS) > int(stated[1])


def request_for(recording: Recording, model: AnyModel) -> ModelRequest:
    settings = {} if recording.is_streamed else {"stream": False}
    request = ModelRequest(
        NAMES.get(recording.protocol, "recorded"),  # type: ignore[call-overload]
        "Be brief.",
        (Message("user", recording.prompt),),
        tools=tools_of(recording),
        settings=settings,
        timeout_seconds=30.0,
    )
    return fit_request(request, model.abilities)[0]


def tools_of(recording: Recording) -> tuple[ToolSpec, ...]:
    return (*TOOLS, *(OTHER_TOOLS[name] for name in recording.ask.get("tools", ())))


def merge_for(recording: Recording) -> ChatMerge | ResponseMerge:
    if recording.protocol == "openai":
        return ChatMerge(lambda _: None)
    return ResponseMerge(
        lambda _: None, DeclaredTools(tools_of(recording), Functions(function_tool))
    )


def stated_response(expected: Json) -> Json:
    """Return what a recording states, with the defaults of the fields that it leaves out."""
    usage = {"input": 0, "output": 0, "cached_input": 0, "reasoning": 0}
    return {
        "output": expected.get("output", []),
        "finish": expected.get("finish", "stop"),
        "usage": usage | expected.get("usage", {}),
    }


def shown_response(response: ModelResponse, stated: list[Json]) -> Json:
    usage: Usage = response.usage
    like = [*stated, *({} for _ in response.output)]
    return {
        "output": [shown(one, like[at]) for at, one in enumerate(response.output)],
        "finish": response.finish,
        "usage": {
            "input": usage.input,
            "output": usage.output,
            "cached_input": usage.cached_input,
            "reasoning": usage.reasoning,
        },
    }


def shown(output: Output, stated: Json) -> Json:
    """Return the output in the format of the recordings. Provider-specific data is only compared
    if the recording states it."""
    value: Any
    match output:
        case Message(refusal=True):
            return {"refusal": join_text(output.content)}
        case Message(content=str(text), native=native):
            return {"text": text} | with_native(native, stated)
        case Message(content=parts):
            return {"media": [getattr(part, "media_type", None) for part in parts]}
        case Reasoning(data=data):
            text = isinstance(stated.get("reasoning"), str)
            return {"reasoning": data.get("text", "") if text else data}
        case RequestedCall():
            value = [output.call_id, output.name, output.arguments]
            if isinstance(stated.get("call"), list) and stated["call"][:1] == [None]:
                assert output.call_id  # the library creates an ID
                value[0] = None
            told = {"truncated": True} if output.truncated else {}
            return {"call": value} | told | with_native(output.native, stated)
        case HostedCall():
            value = {"kind": output.kind, "name": output.name, "arguments": output.arguments}
            value |= {"is_error": True} if output.is_error else {}
            value |= {"output": output.output} if "output" in stated.get("hosted", {}) else {}
            return {"hosted": value}


def with_native(native: Native | None, stated: Json) -> Json:
    return {"native": native.data if native else None} if "native" in stated else {}


def shown_error(error: ModelError) -> Json:
    """Return the error with the decision about the next request: `retry` is false, or true if the
    first of the attempts is followed by another one to the same model."""
    assert KEY not in error.message
    made: Json = {
        "code": error.code.value,
        "retry": compute_delay(error, attempt=1) is not None,
        "message": error.message,
    }
    if error.retry_after is not None:
        made["after"] = error.retry_after
    if error.status is not None:
        made["status"] = error.status
    return made
