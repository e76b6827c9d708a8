"""A scripted, strict stand-in for Anthropic's Messages API (see `scripted` and `spoken`);
`anthropic_rules` says what it refuses."""

import json
from collections import defaultdict
from collections.abc import Iterator

from aiohttp import web

from tests.support.models.chat_rules import Body
from tests.support.models.providers import anthropic_rules
from tests.support.models.providers.call_pairs import Signed
from tests.support.models.providers.provider_server import (
    ProviderRequest,
    ProviderServer,
    given_object,
)
from tests.support.models.spoken import (
    CACHED,
    INPUT,
    OUTPUT,
    THOUGHT,
    Call,
    Said,
    Says,
    Text,
    Thought,
    split,
)

KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
STOPS = {"done": "end_turn", "length": "max_tokens", "refused": "refusal"}
USAGE: Body = {
    "input_tokens": INPUT - CACHED,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": CACHED,
    "output_tokens": OUTPUT,
    "output_tokens_details": {"thinking_tokens": THOUGHT},
}


class AnthropicServer(ProviderServer):
    def __init__(self, port: int = 0) -> None:
        super().__init__(port)
        self._signed = defaultdict[str, Signed](Signed)

    def route(self, router: web.UrlDispatcher) -> None:
        router.add_post("/v1/messages", self._messages)

    async def _messages(self, http: web.Request) -> web.StreamResponse:
        bearer = http.headers.get("Authorization", "").removeprefix("Bearer ")
        if not (bearer or http.headers.get("x-api-key")):
            return self.problem(401, "an API key is required")
        return await self.answer(http, None, streamed=None)

    def check(self, model: str, body: Body, http: web.Request) -> list[str]:
        missing = [] if "anthropic-version" in http.headers else ["anthropic-version: is required"]
        return missing + anthropic_rules.check(body, self._signed[model])

    def conversation(self, body: Body) -> tuple[int, list[tuple[str, Body]]]:
        answers, results = 0, list[tuple[str, Body]]()
        for message in body["messages"]:
            answers += message["role"] == "assistant"
            if not isinstance(message["content"], str):
                results += [
                    (block["tool_use_id"], block)
                    for block in message["content"]
                    if block["type"] == "tool_result"
                ]
        return answers, results

    def problem(self, status: int, message: str) -> web.Response:
        error = {"type": KINDS.get(status, "api_error"), "message": message}
        whole = {"type": "error", "error": error, "request_id": "req_1"}
        return web.json_response(whole, status=status, headers={"request-id": "req_1"})

    def message(self, request: ProviderRequest, says: Says) -> Body:
        blocks = [_block(part, self._signed[request.model]) for part in says.parts]
        signed = [block for block in blocks if block["type"] == "thinking"]
        calls = [str(block["id"]) for block in blocks if block["type"] == "tool_use"]
        self._signed[request.model].remember(signed, calls)
        refused = says.ending == "refused"
        details = {"type": "refusal", "category": None, "explanation": says.text or None}
        return {
            "id": f"msg_{request.model}_{request.number}",
            "type": "message",
            "role": "assistant",
            "model": request.model,
            "content": [] if refused else blocks,
            "stop_reason": "tool_use" if calls and says.ending == "done" else STOPS[says.ending],
            "stop_sequence": None,
            "stop_details": details if refused else None,
            "usage": USAGE,
        }

    def frames(self, whole: Body, says: Says) -> Iterator[bytes]:
        empty: Body = {"content": [], "stop_reason": None, "stop_details": None}
        begun = whole | empty | {"usage": USAGE | {"output_tokens": 1}}
        yield _event({"type": "message_start", "message": begun})
        yield _event({"type": "ping"})
        said = zip(whole["content"], says.parts, strict=False)  # of a refusal, nothing is left
        for index, (block, part) in enumerate(said):
            opening, deltas = _streamed(block, part, says.pieces)
            place = {"index": index}
            yield _event({"type": "content_block_start", **place, "content_block": opening})
            for delta in deltas:
                yield _event({"type": "content_block_delta", **place, "delta": delta})
            yield _event({"type": "content_block_stop", **place})
        ended = {key: whole[key] for key in ("stop_reason", "stop_sequence", "stop_details")}
        yield _event({"type": "message_delta", "delta": ended, "usage": USAGE})
        yield _event({"type": "message_stop"})


def _streamed(block: Body, part: Said, pieces: int) -> tuple[Body, list[Body]]:
    """How a block looks before anything of it has arrived, and what makes it whole."""
    match part:
        case Text(value=value):
            deltas = [{"type": "text_delta", "text": text} for text in split(value, pieces)]
            return block | {"text": ""}, deltas
        case Thought(value=value):
            deltas = [{"type": "thinking_delta", "thinking": text} for text in split(value, pieces)]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
            return block | {"thinking": "", "signature": ""}, deltas
        case Call():
            written = "" if part.arguments == "{}" else part.arguments
            texts = ["", *split(written, pieces)]
            deltas = [{"type": "input_json_delta", "partial_json": text} for text in texts]
            return block | {"input": {}}, deltas


def _event(data: Body) -> bytes:
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode()


def _block(part: Said, signed: Signed) -> Body:
    match part:
        case Text(value=value):
            return {"type": "text", "text": value, "citations": None}
        case Thought(value=value):
            signature = signed.signature()
            return {"type": "thinking", "thinking": value, "signature": signature}
        case Call():
            given = given_object(part.arguments)
            return {"type": "tool_use", "id": part.id, "name": part.name, "input": given}
