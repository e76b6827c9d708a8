"""A scripted, strict stand-in for Amazon Bedrock's Converse API (see `scripted` and `spoken`);
`bedrock_rules` says what it refuses. Streams are binary, as the original's (`event_stream`)."""

import re
from collections import defaultdict
from collections.abc import Iterator

from aiohttp import web

from tests.support.models.chat_rules import Body
from tests.support.models.providers import bedrock_rules
from tests.support.models.providers.call_pairs import Signed
from tests.support.models.providers.event_stream import event
from tests.support.models.providers.provider_server import (
    ProviderRequest,
    ProviderServer,
    given_object,
)
from tests.support.models.spoken import (
    CACHED,
    INPUT,
    OUTPUT,
    Call,
    Said,
    Says,
    Text,
    Thought,
    split,
)

SIGNED = re.compile(
    r"^AWS4-HMAC-SHA256 Credential=[^/]+/\d{8}/[a-z0-9-]+/bedrock/aws4_request, "
    r"SignedHeaders=[a-z0-9;-]+, Signature=[0-9a-f]{64}$|^Bearer .+$"
)
ERRORS = {
    400: "ValidationException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    408: "ModelTimeoutException",
    424: "ModelErrorException",
    429: "ThrottlingException",
    500: "InternalServerException",
    503: "ServiceUnavailableException",
}
STOPS = {"done": "end_turn", "length": "max_tokens", "refused": "guardrail_intervened"}
USAGE: Body = {
    "inputTokens": INPUT - CACHED,
    "outputTokens": OUTPUT,
    "totalTokens": INPUT + OUTPUT,
    "cacheReadInputTokens": CACHED,
    "cacheWriteInputTokens": 0,
}
METRICS: Body = {"latencyMs": 1}


class BedrockServer(ProviderServer):
    stream_type = "application/vnd.amazon.eventstream"

    def __init__(self, port: int = 0) -> None:
        super().__init__(port)
        self._signed = defaultdict[str, Signed](Signed)

    def route(self, router: web.UrlDispatcher) -> None:
        router.add_post("/model/{model}/{method:converse|converse-stream}", self._converse)

    async def _converse(self, http: web.Request) -> web.StreamResponse:
        if not SIGNED.match(http.headers.get("Authorization", "")):
            return self.problem(403, "Missing Authentication Token")
        streamed = http.match_info["method"] == "converse-stream"
        return await self.answer(http, http.match_info["model"], streamed=streamed)

    def check(self, model: str, body: Body, http: web.Request) -> list[str]:
        return bedrock_rules.check(body, self._signed[model])

    def conversation(self, body: Body) -> tuple[int, list[tuple[str, Body]]]:
        answers = sum(message["role"] == "assistant" for message in body["messages"])
        return answers, [
            (block["toolResult"]["toolUseId"], block["toolResult"])
            for message in body["messages"]
            for block in message["content"]
            if "toolResult" in block
        ]

    def problem(self, status: int, message: str) -> web.Response:
        kind = ERRORS.get(status, "InternalServerException")
        headers = {"x-amzn-ErrorType": kind, "x-amzn-RequestId": "req-1"}
        return web.json_response({"message": message}, status=status, headers=headers)

    def message(self, request: ProviderRequest, says: Says) -> Body:
        blocks = [_block(part, self._signed[request.model]) for part in says.parts]
        signed = [block["reasoningContent"] for block in blocks if "reasoningContent" in block]
        calls = [str(block["toolUse"]["toolUseId"]) for block in blocks if "toolUse" in block]
        self._signed[request.model].remember(signed, calls)
        return {
            "output": {"message": {"role": "assistant", "content": blocks}},
            "stopReason": "tool_use" if calls and says.ending == "done" else STOPS[says.ending],
            "usage": USAGE,
            "metrics": METRICS,
        }

    def frames(self, whole: Body, says: Says) -> Iterator[bytes]:
        yield event("messageStart", {"role": "assistant"})
        said = zip(whole["output"]["message"]["content"], says.parts, strict=True)
        for index, (block, part) in enumerate(said):
            place = {"contentBlockIndex": index}
            if "toolUse" in block:
                start = {key: block["toolUse"][key] for key in ("toolUseId", "name")}
                yield event("contentBlockStart", place | {"start": {"toolUse": start}})
            for delta in _deltas(block, part, says.pieces):
                yield event("contentBlockDelta", place | {"delta": delta})
            yield event("contentBlockStop", place)
        yield event("messageStop", {"stopReason": whole["stopReason"]})
        yield event("metadata", {"usage": whole["usage"], "metrics": METRICS})


def _deltas(block: Body, part: Said, pieces: int) -> Iterator[Body]:
    match part:
        case Text(value=value):
            yield from ({"text": piece} for piece in split(value, pieces))
        case Thought(value=value):
            for piece in split(value, pieces):
                yield {"reasoningContent": {"text": piece}}
            signature = block["reasoningContent"]["reasoningText"]["signature"]
            yield {"reasoningContent": {"signature": signature}}
        case Call():
            written = "" if part.arguments == "{}" else part.arguments
            yield from ({"toolUse": {"input": piece}} for piece in split(written, pieces))


def _block(part: Said, signed: Signed) -> Body:
    match part:
        case Text(value=value):
            return {"text": value}
        case Thought(value=value):
            thought = {"text": value, "signature": signed.signature()}
            return {"reasoningContent": {"reasoningText": thought}}
        case Call():
            given = given_object(part.arguments)
            return {"toolUse": {"toolUseId": part.id, "name": part.name, "input": given}}
