"""The scripted server speaks the Gemini API as the official client reads it, and is as strict as
the original."""

from collections.abc import Iterator
from typing import Any, cast

import pytest
from google import genai
from google.genai import errors, types

from tests.support.models.providers import gemini_rules
from tests.support.models.providers.gemini_server import GeminiServer
from tests.support.models.spoken import Call, Fails, Says, Text, Thought, says

USER: Any = {"role": "user", "parts": [{"text": "go"}]}
TOOL: Any = {"functionDeclarations": [{"name": "add", "parameters": {"type": "OBJECT"}}]}
ADDS = says(Thought("I add."), "Let me see.", Call("c1", "add", '{"x": 17}'), Call("c2", "add"))


@pytest.fixture(scope="module")
def server() -> Iterator[GeminiServer]:
    with GeminiServer() as server:
        yield server


@pytest.fixture
def sdk(server: GeminiServer) -> Iterator[Any]:
    options = types.HttpOptions(base_url=server.url)
    with genai.Client(api_key="key", http_options=options) as client:
        yield client


def ask(sdk: Any, model: str, *contents: Any, **config: Any) -> Any:
    given = {"tools": [TOOL], **config}
    return sdk.models.generate_content(
        model=model, contents=list(contents or (USER,)), config=given
    )


def streamed(sdk: Any, model: str) -> list[Any]:
    return list(sdk.models.generate_content_stream(model=model, contents=[USER]))


def call(call_id: str = "c1", signature: str | None = None, **fields: Any) -> Any:
    part: Any = {"functionCall": {"id": call_id, "name": "add", "args": {}, **fields}}
    return part if signature is None else part | {"thoughtSignature": signature}


def response(call_id: str = "c1", **fields: Any) -> Any:
    given = {"id": call_id, "name": "add", "response": {"result": 18}, **fields}
    return {"functionResponse": given}


def user(*parts: Any) -> Any:
    return {"role": "user", "parts": list(parts)}


def model(*parts: Any) -> Any:
    return {"role": "model", "parts": list(parts)}


def test_the_client_reads_an_answer_whole_and_from_the_stream(
    server: GeminiServer, sdk: Any
) -> None:
    server.script("read", ADDS, ADDS)
    whole = ask(sdk, "read")
    thought, said, first, second = whole.candidates[0].content.parts
    assert (thought.thought, thought.text, said.text) == (True, "I add.", "Let me see.")
    assert (first.function_call.id, first.function_call.args) == ("c1", {"x": 17})
    assert (first.thought_signature, second.thought_signature) == (b"signature 1", None)
    usage = whole.usage_metadata
    assert (usage.prompt_token_count, usage.cached_content_token_count) == (50, 10)
    assert (usage.candidates_token_count, usage.thoughts_token_count) == (15, 5)
    chunks = streamed(sdk, "read")
    parts = [part for chunk in chunks[:-1] for part in chunk.candidates[0].content.parts]
    assert "".join(part.text or "" for part in parts) == "I add.Let me see."
    assert [part.function_call.id for part in parts if part.function_call] == ["c1", "c2"]
    assert chunks[-1].candidates[0].finish_reason == types.FinishReason.STOP
    assert chunks[-1].usage_metadata.total_token_count == 70


def test_an_answer_that_comes_back_as_it_was_is_taken_and_its_results_are_kept(
    server: GeminiServer, sdk: Any
) -> None:
    server.by_turn("back", says(Call("", "add", '{"x": 17}')), says("done"))
    given = ask(sdk, "back").candidates[0].content
    answered = user(response("", response={"result": 18}))
    del answered["parts"][0]["functionResponse"]["id"]
    assert ask(sdk, "back", USER, given, answered).text == "done"
    assert server.requests("back")[-1].results == [("", answered["parts"][0]["functionResponse"])]
    given.parts[0].thought_signature = None
    with pytest.raises(errors.ClientError, match="missing a thought_signature"):
        ask(sdk, "back", USER, given, answered)
    given.parts[0].thought_signature = b"another"
    with pytest.raises(errors.ClientError, match="was c2ln"):
        ask(sdk, "back", USER, given, answered)
    assert len(server.violations) == 2
    server.violations.clear()


def test_errors_refusals_and_broken_streams_come_as_google_sends_them(
    server: GeminiServer, sdk: Any
) -> None:
    server.script(
        "errors",
        Fails(429, retry_after="7"),
        Fails(503),
        Says((Text("I will not."),), ending="refused"),
        Says((Text("a long text"),), cut=True),
        Says((Text("a long"),), ending="length"),
    )
    with pytest.raises(errors.ClientError, match="RESOURCE_EXHAUSTED") as limit:
        ask(sdk, "errors")
    told = cast(Any, limit.value)
    assert told.response.headers["retry-after"] == "7"
    with pytest.raises(errors.ServerError, match="UNAVAILABLE"):
        ask(sdk, "errors")
    refused = ask(sdk, "errors").candidates[0]
    assert (refused.finish_reason, refused.content.parts) == ("SAFETY", [])
    with pytest.raises(Exception, match=r"peer closed|incomplete"):
        streamed(sdk, "errors")
    assert streamed(sdk, "errors")[-1].candidates[0].finish_reason == "MAX_TOKENS"


def test_a_key_and_a_known_model_are_asked_for(server: GeminiServer, sdk: Any) -> None:
    with pytest.raises(errors.ClientError, match="PERMISSION_DENIED"):
        ask(sdk, "any", http_options={"headers": {"x-goog-api-key": ""}})
    with pytest.raises(errors.ClientError, match="NOT_FOUND"):
        ask(sdk, "nobody")
    with pytest.raises(errors.ClientError, match="surprise"):
        ask(sdk, "any", http_options={"extra_body": {"surprise": 1}})
    assert len(server.violations) == 2
    server.violations.clear()


def body(*contents: Any, **fields: Any) -> Any:
    return {"contents": list(contents or (USER,)), **fields}


def declaring(schema: Any) -> Any:
    return {"functionDeclarations": [{"name": "add", "parametersJsonSchema": schema}]}


def calling(**fields: Any) -> Any:
    return {"functionCallingConfig": fields}


OWN, SKIPPED = "c2lnbmF0dXJl", gemini_rules.SKIPPED[0]
GIVEN = {"own": OWN}
IMAGE = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}


@pytest.mark.parametrize(
    "request_body",
    [
        body(systemInstruction={"parts": [{"text": "Be brief."}]}, generationConfig={"topP": 1}),
        body(USER, model(call("own", OWN), call()), user(response("own"), response())),
        body(USER, model(call("c1", SKIPPED)), user(response()), tools=[TOOL]),
        body(USER, model(call()), user(response()), model({"text": "a"}), USER),
        body(user({"text": "what is this?"}, IMAGE)),
        body(USER, model(call("c1", SKIPPED)), user(response(parts=[IMAGE]), {"text": "b"})),
        body(tools=[TOOL], toolConfig=calling(mode="ANY", allowedFunctionNames=["add"])),
        body(tools=[declaring({"type": "object", "properties": {"x": {"minimum": 1}}})]),
        body(
            generationConfig={
                "responseMimeType": "application/json",
                "responseJsonSchema": {"type": "object", "additionalProperties": False},
            }
        ),
    ],
)
def test_a_correct_request_is_taken(request_body: Any) -> None:
    assert gemini_rules.check(request_body, dict(GIVEN)) == []


@pytest.mark.parametrize(
    ("request_body", "complaint"),
    [
        (body(surprise=1), "surprise"),
        (body({"role": "user", "parts": [{"text": "a", "extra": 1}]}), "extra"),
        (body(contents=[]), "contents is not specified"),
        (body({"role": "assistant", "parts": [{"text": "a"}]}), "valid role"),
        (body(user()), "must not be empty"),
        (body(user({"text": ""})), "must have a text parameter"),
        (body(user({"text": "a", **IMAGE})), "oneof field 'data'"),
        (body(USER, model({"text": "a"})), "last turn is the user's"),
        (
            body(USER, model(call("c1", SKIPPED, args="{}")), user(response())),
            "should be an object",
        ),
        (body(USER, model(call("c1", SKIPPED)), USER), "number of function response parts"),
        (body(user(response())), "number of function response parts"),
        (
            body(USER, model(call("own", OWN), call()), user(response("c1"), response("own"))),
            "is not that of",
        ),
        (
            body(USER, model(call("c1", SKIPPED)), user(response(name="sub"))),
            "is not that of",
        ),
        (
            body(USER, model({"text": "a"}), model(call("c1", SKIPPED)), user(response())),
            "turn comes",
        ),
        (body(USER, model(call()), user(response())), "missing a thought_signature"),
        (body(USER, model(call("c1", "bWluZQ==")), user(response())), "was None, not"),
        (body(USER, model(call("own", SKIPPED)), user(response("own"))), f"was {OWN}"),
        (body(tools=[TOOL, TOOL]), "Duplicate function declaration"),
        (body(tools=[{"functionDeclarations": [{"name": "a b"}]}]), "Invalid function name"),
        (body(tools=[{}]), "a tool is empty"),
        (body(tools=[declaring({"type": "object", "$schema": "x"})]), 'Unknown name "$schema"'),
        (body(tools=[declaring({"properties": {"x": {"const": 1}}})]), 'Unknown name "const"'),
        (body(toolConfig=calling(mode="ANY")), "without function_declarations"),
        (
            body(tools=[TOOL], toolConfig=calling(mode="ANY", allowedFunctionNames=["b"])),
            "b, which",
        ),
        (
            body(tools=[TOOL], toolConfig=calling(mode="AUTO", allowedFunctionNames=["add"])),
            "ANY or",
        ),
        (body(generationConfig={"responseJsonSchema": {}}), "response_mime_type"),
        (body(generationConfig={"audioTimestamp": True}), "audioTimestamp"),
    ],
)
def test_a_wrong_request_is_complained_about(request_body: Any, complaint: str) -> None:
    assert complaint in "\n".join(gemini_rules.check(request_body, dict(GIVEN)))
