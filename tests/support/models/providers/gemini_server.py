"""A scripted, strict stand-in for Google's Gemini API (see `scripted` and `spoken`);
`gemini_rules` says what it refuses. A call's id is left out where it is empty, as older models do.
"""

import json
from base64 import b64encode
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress

from aiohttp import web
from pydantic import ValidationError

from tests.support.models.chat_rules import Body
from tests.support.models.providers import gemini_rules
from tests.support.models.providers.provider_server import ProviderRequest, ProviderServer
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

STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
FINISHES = {"done": "STOP", "length": "MAX_TOKENS", "refused": "SAFETY"}
USAGE: Body = {
    "promptTokenCount": INPUT,
    "cachedContentTokenCount": CACHED,
    "candidatesTokenCount": OUTPUT - THOUGHT,
    "thoughtsTokenCount": THOUGHT,
    "totalTokenCount": INPUT + OUTPUT,
}


class GeminiServer(ProviderServer):
    def __init__(self, port: int = 0) -> None:
        super().__init__(port)
        self._signatures = defaultdict[str, dict[str, str | None]](dict)
        self._signed = 0

    def route(self, router: web.UrlDispatcher) -> None:
        router.add_post(r"/v1beta/models/{model:[^:/]+}:{method}", self._generate)

    async def _generate(self, http: web.Request) -> web.StreamResponse:
        method = http.match_info["method"]
        if method not in ("generateContent", "streamGenerateContent"):
            return self.problem(404, f"{method} is not found")
        if not http.headers.get("x-goog-api-key"):
            return self.problem(403, "Method doesn't allow unregistered callers")
        streamed = method == "streamGenerateContent"
        if streamed and http.query.get("alt") != "sse":
            return self.refuse(400, "only alt=sse is scripted")
        return await self.answer(http, http.match_info["model"], streamed=streamed)

    def understood(self, body: Body) -> Body:
        with suppress(ValidationError):  # `check` says what is wrong
            return gemini_rules.understood(body)
        return body

    def check(self, model: str, body: Body, http: web.Request) -> list[str]:
        return gemini_rules.check(body, self._signatures[model])

    def conversation(self, body: Body) -> tuple[int, list[tuple[str, Body]]]:
        answers, results = 0, list[tuple[str, Body]]()
        for content in body["contents"]:
            answers += content["role"] == "model"
            results += [
                (part["functionResponse"].get("id", ""), part["functionResponse"])
                for part in content["parts"]
                if "functionResponse" in part
            ]
        return answers, results

    def problem(self, status: int, message: str) -> web.Response:
        error = {"code": status, "message": message, "status": STATUSES.get(status, "UNKNOWN")}
        return web.json_response({"error": error}, status=status)

    def message(self, request: ProviderRequest, says: Says) -> Body:
        """The first call of an answer is signed, and only that."""
        parts: list[Body] = []
        signing = True
        for said in says.parts:
            part = _part(said)
            if "functionCall" in part:
                key = gemini_rules.call_key(part["functionCall"])
                if signing:
                    part["thoughtSignature"] = self._signature()
                self._signatures[request.model][key] = part.get("thoughtSignature")
                signing = False
            parts.append(part)
        refused = says.ending == "refused"
        why = {"finishMessage": says.text} if refused and says.text else {}
        return {
            "candidates": [
                {
                    "content": {"role": "model", "parts": [] if refused else parts},
                    "finishReason": FINISHES[says.ending],
                    "index": 0,
                    **why,
                }
            ],
            "usageMetadata": USAGE,
            "modelVersion": request.model,
            "responseId": f"{request.model}-{request.number}",
        }

    def _signature(self) -> str:
        self._signed += 1
        return b64encode(f"signature {self._signed}".encode()).decode()

    def frames(self, whole: Body, says: Says) -> Iterator[bytes]:
        """Calls come whole; text and thoughts in pieces; the end is a chunk of its own."""
        [candidate] = whole["candidates"]
        rest = {key: whole[key] for key in ("modelVersion", "responseId")}
        for part in candidate["content"]["parts"]:
            for piece in split(part["text"], says.pieces) if "text" in part else [None]:
                shown = part if piece is None else part | {"text": piece}
                content = {"role": "model", "parts": [shown]}
                yield _event({"candidates": [{"content": content, "index": 0}], **rest})
        ended = {key: value for key, value in candidate.items() if key != "content"}
        yield _event({"candidates": [ended], "usageMetadata": USAGE, **rest})


def _part(said: Said) -> Body:
    match said:
        case Text(value=value):
            return {"text": value}
        case Thought(value=value):
            return {"text": value, "thought": True}
        case Call():
            call: Body = {"name": said.name, "args": json.loads(said.arguments)}
            return {"functionCall": ({"id": said.id} if said.id else {}) | call}


def _event(data: Body) -> bytes:
    return f"data: {json.dumps(data)}\r\n\r\n".encode()
