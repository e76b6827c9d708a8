"""The scripted server speaks Bedrock's Converse API as the official client reads it, and is as
strict as the original."""

from collections.abc import Iterator
from typing import Any, cast

import boto3  # pyright: ignore[reportMissingTypeStubs]
import botocore  # pyright: ignore[reportMissingTypeStubs]
import pytest
from botocore.config import Config  # pyright: ignore[reportMissingTypeStubs]
from botocore.exceptions import ClientError  # pyright: ignore[reportMissingTypeStubs]

from tests.support.models.providers import bedrock_rules
from tests.support.models.providers.bedrock_server import BedrockServer
from tests.support.models.providers.call_pairs import CHANGED, Signed
from tests.support.models.spoken import Call, Fails, Says, Text, Thought, says

USER: Any = {"role": "user", "content": [{"text": "go"}]}
SPEC: Any = {"name": "add", "inputSchema": {"json": {"type": "object"}}}
TOOLS: Any = {"tools": [{"toolSpec": SPEC}]}
ADDS = says(Thought("I add."), "Let me see.", Call("c1", "add", '{"x": 17}'))


@pytest.fixture(scope="module")
def server() -> Iterator[BedrockServer]:
    with BedrockServer() as server:
        yield server


@pytest.fixture(scope="module")
def sdk(server: BedrockServer) -> Any:
    keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret"}
    once = Config(retries={"total_max_attempts": 1})
    make = cast(Any, boto3).client
    return make(
        "bedrock-runtime", endpoint_url=server.url, region_name="us-east-1", config=once, **keys
    )


def ask(sdk: Any, model: str, *messages: Any, **options: Any) -> Any:
    asked = {"toolConfig": TOOLS, **options}
    return sdk.converse(modelId=model, messages=list(messages or (USER,)), **asked)


def streamed(sdk: Any, model: str) -> list[Any]:
    return list(sdk.converse_stream(modelId=model, messages=[USER])["stream"])


def use(call_id: str = "c1", **fields: Any) -> Any:
    return {"toolUse": {"toolUseId": call_id, "name": "add", "input": {}, **fields}}


def result(call_id: str = "c1", **fields: Any) -> Any:
    return {"toolResult": {"toolUseId": call_id, "content": [{"text": "18"}], **fields}}


def assistant(*blocks: Any) -> Any:
    return {"role": "assistant", "content": list(blocks)}


def user(*blocks: Any) -> Any:
    return {"role": "user", "content": list(blocks)}


def test_the_client_reads_an_answer_whole_and_from_the_stream(
    server: BedrockServer, sdk: Any
) -> None:
    server.script("read", ADDS, ADDS)
    whole = ask(sdk, "read")
    thought, said, call = whole["output"]["message"]["content"]
    assert thought["reasoningContent"]["reasoningText"]["text"] == "I add."
    assert (said["text"], call["toolUse"]["input"]) == ("Let me see.", {"x": 17})
    assert whole["stopReason"] == "tool_use"
    assert (whole["usage"]["inputTokens"], whole["usage"]["cacheReadInputTokens"]) == (40, 10)
    events = streamed(sdk, "read")
    deltas = [one["contentBlockDelta"]["delta"] for one in events if "contentBlockDelta" in one]
    assert "".join(delta.get("text", "") for delta in deltas) == "Let me see."
    written = [delta["toolUse"]["input"] for delta in deltas if "toolUse" in delta]
    assert "".join(written) == '{"x": 17}'
    assert events[-2]["messageStop"]["stopReason"] == "tool_use"
    assert events[-1]["metadata"]["usage"] == whole["usage"]


def test_an_answer_that_comes_back_as_it_was_is_taken_and_its_results_are_kept(
    server: BedrockServer, sdk: Any
) -> None:
    server.by_turn("back", ADDS, says("done"))
    given = ask(sdk, "back")["output"]["message"]
    answer = ask(sdk, "back", USER, given, user(result()))
    assert answer["output"]["message"]["content"] == [{"text": "done"}]
    assert server.requests("back")[-1].results == [("c1", result()["toolResult"])]
    with pytest.raises(ClientError, match="cannot be modified"):
        ask(sdk, "back", USER, assistant(*given["content"][1:]), user(result()))
    assert server.violations.pop() == CHANGED


def test_errors_refusals_and_broken_streams_come_as_amazon_sends_them(
    server: BedrockServer, sdk: Any
) -> None:
    server.script(
        "errors",
        Fails(429, retry_after="7"),
        Fails(503),
        Says((Text("I will not."),), ending="refused"),
        Says((Text("a long text"),), cut=True),
        Says((Call("c1", "add"),), ending="length"),
    )
    with pytest.raises(ClientError) as limit:
        ask(sdk, "errors")
    told = cast(Any, limit.value).response
    assert told["Error"] == {"Code": "ThrottlingException", "Message": "try again"}
    assert told["ResponseMetadata"]["HTTPHeaders"]["retry-after"] == "7"
    with pytest.raises(ClientError, match="ServiceUnavailableException"):
        ask(sdk, "errors")
    refused = ask(sdk, "errors")
    assert refused["stopReason"] == "guardrail_intervened"
    assert refused["output"]["message"]["content"] == [{"text": "I will not."}]
    with pytest.raises(Exception, match="Response ended prematurely"):
        streamed(sdk, "errors")
    assert streamed(sdk, "errors")[-2]["messageStop"]["stopReason"] == "max_tokens"


def test_a_key_and_a_known_model_are_asked_for(server: BedrockServer, sdk: Any) -> None:
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        ask(sdk, "nobody")
    with pytest.raises(ClientError, match="ValidationException"):
        ask(sdk, "any", USER, USER)
    assert len(server.violations) == 2
    server.violations.clear()
    unsigned = cast(Any, boto3).client(
        "bedrock-runtime",
        endpoint_url=server.url,
        region_name="us-east-1",
        config=Config(signature_version=cast(Any, botocore).UNSIGNED),
    )
    with pytest.raises(ClientError, match="AccessDeniedException"):
        ask(unsigned, "any")


def body(*messages: Any, **fields: Any) -> Any:
    return {"messages": list(messages or (USER,)), **fields}


IMAGE = {"image": {"format": "png", "source": {"bytes": "iVBORw0KGgo="}}}


@pytest.mark.parametrize(
    "request_body",
    [
        body(system=[{"text": "Be brief."}], inferenceConfig={"temperature": 0.5}),
        body(USER, assistant(use()), user(result()), toolConfig=TOOLS),
        body(USER, assistant({"text": "a"}, use()), user(result(), IMAGE), toolConfig=TOOLS),
        body(
            USER,
            assistant(use()),
            user(result(content=[IMAGE, {"json": {"a": 1}}], status="error")),
            toolConfig=TOOLS | {"toolChoice": {"tool": {"name": "add"}}},
        ),
    ],
)
def test_a_correct_request_is_taken(request_body: Any) -> None:
    assert bedrock_rules.check(request_body, Signed()) == []


@pytest.mark.parametrize(
    ("request_body", "complaint"),
    [
        (body(surprise=1), "surprise"),
        (body(messages=[]), "must start with a user message"),
        (body(assistant({"text": "a"}), USER), "must start with a user message"),
        (body(USER, USER), "alternate between user and assistant"),
        (body(USER, assistant({"text": "a"})), "must end with a user message"),
        (body(user()), "is empty"),
        (body(user({"text": " "})), "is blank"),
        (body(user({"text": "a", **IMAGE})), "more than 1 propert"),
        (body(user({"image": {"format": "bmp", "source": {"bytes": "AA=="}}})), "bmp"),
        (body(USER, assistant(use("c 1")), user(result("c 1")), toolConfig=TOOLS), "match"),
        (body(USER, assistant(use("c" * 65)), user(result()), toolConfig=TOOLS), "64"),
        (body(USER, assistant(use(input="{}")), user(result()), toolConfig=TOOLS), "json object"),
        (body(USER, assistant(use()), USER, toolConfig=TOOLS), "Expected toolResult blocks"),
        (body(user(result()), toolConfig=TOOLS), "exceeds the number of toolUse"),
        (
            body(USER, assistant(use(), use("d")), user(result("d"), result()), toolConfig=TOOLS),
            "out of the order",
        ),
        (body(USER, assistant(use()), user({"text": "a"}, result()), toolConfig=TOOLS), "first"),
        (
            body(USER, assistant(use()), user(result(content=[{"text": ""}])), toolConfig=TOOLS),
            "blank",
        ),
        (body(USER, assistant(use()), user(result())), "toolConfig field must be defined"),
        (body(toolConfig={"tools": []}), "less than 1 item"),
        (body(toolConfig={"tools": [*TOOLS["tools"], *TOOLS["tools"]]}), "not unique"),
        (body(toolConfig={"tools": [{"toolSpec": SPEC | {"name": "a b"}}]}), "a b"),
        (body(toolConfig=TOOLS | {"toolChoice": {"tool": {"name": "b"}}}), "not among"),
        (body(toolConfig=TOOLS | {"toolChoice": {"none": {}}}), "none"),
        (
            body(USER, assistant({"reasoningContent": {"reasoningText": {"text": "x"}}}), USER),
            "Invalid `signature`",
        ),
    ],
)
def test_a_wrong_request_is_complained_about(request_body: Any, complaint: str) -> None:
    assert complaint in "\n".join(bedrock_rules.check(request_body, Signed()))
