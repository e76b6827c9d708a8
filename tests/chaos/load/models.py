"""A model server for Chat Completions and the Responses API. Each response follows the plan."""

import asyncio
import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import orjson
from aiohttp import web

from tests.chaos.load.answers import break_off
from tests.chaos.load.frames import Asked, Protocol, chat_frames, responses_frames
from tests.chaos.load.plan import (
    Call,
    Json,
    ModelFault,
    Turn,
    answer_of,
    number_of,
    plan_id_in,
    plan_of,
    usage_of,
)
from tests.checker.evidence import Log, ModelRequest

Place: TypeAlias = tuple[str | None, int]
"""The plan, and the number of the turn."""
FindPlace: TypeAlias = Callable[[Json], Place]

HANG_SECONDS: Final = 60.0
"""The client gives up long before."""
GAP_SECONDS: Final = 0.1
LAST_FRAMES: Final = 3
"""Of Chat Completions: the reason of the end, the usage, and `[DONE]`."""
STATUS: Final[dict[str, int]] = {"429": 429, "500": 500, "503": 503}


class Models:
    """Answers both protocols and writes `models.jsonl`. It counts how often each turn was asked
    for, so that a turn's faults come to an end."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._log = Log(folder, "models.jsonl")
        self._seed = seed
        self._number = 0
        self._asked: Counter[tuple[str, str, int]] = Counter()

    def add_routes(self, router: web.UrlDispatcher) -> None:
        router.add_post("/v1/chat/completions", self._chat)
        router.add_post("/v1/responses", self._responses)

    async def _chat(self, http: web.Request) -> web.StreamResponse:
        return await self._answer(http, "chat", place_in_chat)

    async def _responses(self, http: web.Request) -> web.StreamResponse:
        return await self._answer(http, "responses", place_in_responses)

    async def _answer(
        self, http: web.Request, protocol: Protocol, find_place: FindPlace
    ) -> web.StreamResponse:
        at, raw = time.time(), await http.read()
        body = orjson.loads(raw)
        plan_id, turn_number = find_place(body)
        self._number += 1
        asked = Asked(
            self._number,
            protocol,
            body["model"],
            plan_id or "",
            turn_number,
            body.get("stream") is True,
        )
        digest = hashlib.sha256(raw).hexdigest()[:16]
        if plan_id is None:
            self._log.write(_line(asked, at, digest, "unplanned"))
            return web.json_response({"error": {"message": "no plan", "code": None}}, status=400)
        turn = plan_of(self._seed, number_of(plan_id)).turn(asked.role, turn_number)
        count = self._asked[(plan_id, asked.role, turn_number)]
        self._asked[(plan_id, asked.role, turn_number)] += 1
        fault = turn.faults[count] if count < len(turn.faults) else None
        line = _line(asked, at, digest, fault or ("slow" if turn.slow else "answer"))
        self._log.write(line)

        def log_answer() -> None:
            usage = usage_of(plan_id, asked.role, turn_number)
            self._log.write(replace(line, answered=True, ended_at=time.time(), usage=usage))

        try:
            return await self._behave(http, asked, turn, fault, log_answer)
        finally:
            if fault is not None:
                self._log.write(replace(line, ended_at=time.time()))

    async def _behave(
        self,
        http: web.Request,
        asked: Asked,
        turn: Turn,
        fault: ModelFault | None,
        log_answer: Callable[[], None],
    ) -> web.StreamResponse:
        """`log_answer` is called before the last bytes of an answer are written: the client need
        not wait for anything behind them."""
        match fault:
            case "429" | "500" | "503":
                return _error(STATUS[fault])
            case "hang":
                await asyncio.sleep(HANG_SECONDS)
                return _error(500)
            case "reset":
                break_off(http)
                return web.Response()
            case _:
                frames = list(_foul(asked) if fault == "foul" else self._frames(asked, turn))
                cut = fault in ("cut", "foul")
                if not asked.streamed:
                    return await _whole(http, frames[-1], None if cut else log_answer)
                return await _stream(http, frames, None if cut else log_answer, slow=turn.slow)

    def _frames(self, asked: Asked, turn: Turn) -> Iterator[tuple[str, Json]]:
        """Yield the frames of a stream, and at last the whole answer under the name `whole`."""
        usage = usage_of(asked.plan_id, asked.role, asked.turn)
        text = "" if turn.calls else answer_of(asked.plan_id, asked.role)
        arguments = [(call, _arguments(asked.plan_id, call)) for call in turn.calls]
        return _FRAMES[asked.protocol](asked, text, arguments, usage)


_FRAMES: Final = {"chat": chat_frames, "responses": responses_frames}
FOUL_NAMES: Final = ("n" * 9_000, "a\ud800")
"""Of tools. A notification of PostgreSQL has less than 8,000 bytes, and is UTF-8."""


def _foul(asked: Asked) -> Iterator[tuple[str, Json]]:
    call = Call("foul", FOUL_NAMES[asked.number % len(FOUL_NAMES)])
    usage = {"input_tokens": 1, "output_tokens": 1}
    return _FRAMES[asked.protocol](asked, "", [(call, "{}")], usage)


def place_in_chat(body: Json) -> Place:
    return _place(list(_chat_texts(body)))


def place_in_responses(body: Json) -> Place:
    return _place(list(_responses_texts(body)))


def _place(conversation: list[tuple[str, str]]) -> Place:
    """Return the plan of the last run in a conversation, and how many model responses follow its
    first message. In a session, the responses before it belong to other runs."""
    said = [(role, plan_id_in(text) if role == "user" else None) for role, text in conversation]
    ids = [plan_id for _, plan_id in said if plan_id is not None]
    if not ids:
        return None, 0
    first = next(at for at, (_, plan_id) in enumerate(said) if plan_id == ids[-1])
    return ids[-1], sum(role == "model" for role, _ in said[first:])


def _chat_texts(body: Json) -> Iterator[tuple[str, str]]:
    for message in body["messages"]:
        role = "model" if message["role"] == "assistant" else message["role"]
        yield role, _text(message.get("content"))


def _responses_texts(body: Json) -> Iterator[tuple[str, str]]:
    """Consecutive items of the model are one response."""
    given: Any = body["input"]
    items: list[Json] = [{"role": "user", "content": given}] if isinstance(given, str) else given
    before = ""
    for item in items:
        if item.get("type", "message") == "message":
            role = "model" if item["role"] == "assistant" else item["role"]
        else:
            role = "tool" if item["type"].endswith("_output") else "model"
        if (role, before) != ("model", "model"):
            yield role, _text(item.get("content"))
        before = role


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return " ".join(str(part.get("text", "")) for part in content or ())


def _arguments(plan_id: str, call: Call) -> str:
    if "input" in call.arguments:
        return json.dumps(call.arguments)
    return json.dumps({"plan": plan_id, "call": call.id, "amount": 1} | call.arguments)


def _line(asked: Asked, at: float, digest: str, behavior: str) -> ModelRequest:
    return ModelRequest(
        at=at,
        number=asked.number,
        protocol=asked.protocol,
        model=asked.model,
        plan=asked.plan_id,
        turn=asked.turn,
        request_digest=digest,
        behavior=behavior,
        answered=False,
    )


def _error(status: int) -> web.Response:
    headers = {"Retry-After": "0.3"} if status == 429 else {}
    error = {"message": "try again", "type": "server_error", "param": None, "code": None}
    return web.json_response({"error": error}, status=status, headers=headers)


async def _whole(
    http: web.Request, frame: tuple[str, Json], log_answer: Callable[[], None] | None
) -> web.StreamResponse:
    """Write the answer in one piece; without `log_answer`, half of it."""
    body = json.dumps(frame[1]).encode()
    if log_answer is not None:
        log_answer()
        return web.Response(body=body, content_type="application/json")
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.content_length = len(body)
    await response.prepare(http)
    await response.write(body[: len(body) // 2])
    break_off(http)
    return response


async def _stream(
    http: web.Request,
    frames: list[tuple[str, Json]],
    log_answer: Callable[[], None] | None,
    *,
    slow: bool,
) -> web.StreamResponse:
    """Write the frames, one after another if the stream is slow; without `log_answer`, half of
    them. The frames that complete the answer are written at once."""
    named = frames[0][0] != ""
    parts = [
        b"%sdata: %s\n\n"
        % (f"event: {name}\n".encode() if named else b"", json.dumps(data).encode())
        for name, data in frames[:-1]
    ]
    parts += [] if named else [b"data: [DONE]\n\n"]
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(http)
    if log_answer is None:
        await response.write(b"".join(parts[: len(frames) // 2]))
        break_off(http)
        return response
    for part in parts[:-LAST_FRAMES] if slow else ():
        await response.write(part)
        await asyncio.sleep(GAP_SECONDS)
    log_answer()
    await response.write(b"".join(parts[-LAST_FRAMES:] if slow else parts))
    return response
