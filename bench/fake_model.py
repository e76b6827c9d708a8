"""A model and a webhook tool that answer at once, so that what is measured is the rest.

`python -m bench.fake_model PORT`. `POST /v1/chat/completions` speaks OpenAI's Chat Completions,
streamed or not; `POST /tool` is the tool, and `POST /tool/N` is a tool with a result of N bytes;
`GET /last` says when the last stream that was not one write was asked for and when its first word
went out, in seconds of the machine's monotonic clock; anything else answers `{"ok":true}`.

As long as the request offers tools and fewer than `turns` answers with calls stand after the last
user message, it calls the first tool `k` times at once; then it answers with `words` words. The
user's text may say so: `[[turns=3 k=2 words=500 latency=50 pause=5]]`, both times in milliseconds:
before the first byte, and between two chunks of a stream (0: the whole stream is one write).
"""

import asyncio
import re
import sys
import time
from dataclasses import dataclass, fields
from itertools import count
from typing import Any, Final, TypeAlias, cast

import orjson
import uvloop

Json: TypeAlias = dict[str, Any]

BACKLOG: Final = 4096
_TIMES: Final = {"latency", "pause"}
_DIRECTIVES: Final = re.compile(r"\[\[([a-z0-9= .]+)\]\]")
_USAGE: Final = {"prompt_tokens": 50, "completion_tokens": 20, "total_tokens": 70}
_ids: Final = count(1)
_FIRST_WORD: Final = 1
"""Its place among the chunks of an answer: the first one names the role."""
_last: Final = {"asked": 0.0, "spoke": 0.0}


@dataclass(slots=True)
class Script:
    """What one user message asks of the model."""

    turns: int = 1
    k: int = 1
    words: int = 20
    latency: float = 0
    pause: float = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """`chunks`: one is a whole body, several are a stream."""

    chunks: list[bytes]
    script: Script
    streamed: bool = False


def _text(content: object) -> str:
    return content if isinstance(content, str) else orjson.dumps(content).decode()


def _script(messages: list[Json]) -> tuple[Script, int]:
    """And how many answers with calls there are since the last user message."""
    script, rounds = Script(), 0
    for message in messages:
        if message["role"] == "user":
            script, rounds = Script(), 0
            if found := _DIRECTIVES.search(_text(message["content"])):
                for pair in found.group(1).split():
                    name, _, value = pair.partition("=")
                    if name in {field.name for field in fields(Script)}:
                        setattr(script, name, float(value) if name in _TIMES else int(value))
        elif message.get("tool_calls"):
            rounds += 1
    return script, rounds


def final_text(words: int) -> str:
    return "".join(_words(words))


def _words(words: int) -> list[str]:
    return ["The", *(f" word{number}" for number in range(1, words))]


def complete(request: Json) -> Answer:
    script, rounds = _script(request["messages"])
    number = next(_ids)
    head = {"id": f"chatcmpl-{number}", "created": 1700000000, "model": request["model"]}
    calls: list[Json] = []
    if request.get("tools") and rounds < script.turns:
        function = request["tools"][0]["function"]
        argument = next(iter(function["parameters"]["properties"]))
        calls = [
            {
                "id": f"call_{number}_{k}",
                "type": "function",
                "function": {
                    "name": function["name"],
                    "arguments": f'{{"{argument}":"q{rounds * script.k + k}"}}',
                },
            }
            for k in range(script.k)
        ]
    if request.get("stream"):
        options: Json = request.get("stream_options") or {}
        return Answer(
            _stream(head, calls, script, usage=bool(options.get("include_usage"))), script, True
        )
    content = None if calls else final_text(script.words)
    message = {"role": "assistant", "content": content} | ({"tool_calls": calls} if calls else {})
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    body = {**head, "object": "chat.completion", "choices": [choice], "usage": _USAGE}
    return Answer([orjson.dumps(body)], script)


def _stream(head: Json, calls: list[Json], script: Script, *, usage: bool) -> list[bytes]:
    head = {**head, "object": "chat.completion.chunk"}

    def chunk(delta: Json, reason: str | None = None) -> Json:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    chunks = [chunk({"role": "assistant", "content": None if calls else ""})]
    for index, call in enumerate(calls):
        arguments = call["function"]["arguments"]
        opened = {**call, "index": index, "function": {**call["function"], "arguments": ""}}
        chunks.append(chunk({"tool_calls": [opened]}))
        more = {"index": index, "function": {"arguments": arguments}}
        chunks.append(chunk({"tool_calls": [more]}))
    if not calls:
        chunks += [chunk({"content": word}) for word in _words(script.words)]
    chunks.append(chunk({}, "tool_calls" if calls else "stop"))
    if usage:
        chunks.append({**head, "choices": [], "usage": _USAGE})
    return [b"data: " + orjson.dumps(one) + b"\n\n" for one in chunks] + [b"data: [DONE]\n\n"]


class Connection(asyncio.Protocol):
    """As little HTTP/1.1 as our clients need: keep-alive, one request at a time."""

    _transport: asyncio.Transport

    def __init__(self) -> None:
        self._received = b""
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is not a subclass

    def connection_lost(self, exc: Exception | None) -> None:
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        self._received += data
        self._take()

    def _take(self) -> None:
        while self._task is None and (request := self._request()) is not None:
            path, body = request
            if path == b"/tool":
                self._send_whole(b'{"ok":true,"result":"42"}')
            elif path.startswith(b"/tool/"):
                self._send_whole(b'{"ok":true,"result":"%b"}' % (b"x" * int(path[6:])))
            elif path == b"/v1/chat/completions":
                self._answer(complete(orjson.loads(body)))
            elif path == b"/last":
                self._send_whole(orjson.dumps(_last))
            else:
                self._send_whole(b'{"ok":true}')

    def _request(self) -> tuple[bytes, bytes] | None:
        """None: it is not all here yet."""
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return None
        head = self._received[:end].lower()
        at = head.find(b"\r\ncontent-length:")
        if at < 0 and b"\r\ntransfer-encoding:" in head:
            self._transport.close()  # nobody here sends chunks
            return None
        length = int(head[at + 17 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        body = self._received[end + 4 : end + 4 + length]
        if len(body) < length:
            return None
        path = self._received.split(b" ", 2)[1]
        self._received = self._received[end + 4 + length :]
        return path, body

    def _answer(self, answer: Answer) -> None:
        if answer.script.latency or (answer.streamed and answer.script.pause):
            self._task = asyncio.create_task(self._answer_slowly(answer))
        elif answer.streamed:
            self._transport.write(_STREAM_HEAD + b"".join(map(_chunked, answer.chunks)) + _END)
        else:
            self._send_whole(answer.chunks[0])

    async def _answer_slowly(self, answer: Answer) -> None:
        asked = time.monotonic()
        await asyncio.sleep(answer.script.latency / 1000)
        if not answer.streamed:
            self._send_whole(answer.chunks[0])
        else:
            self._transport.write(_STREAM_HEAD)
            for number, chunk in enumerate(answer.chunks):
                if number == _FIRST_WORD:
                    _last.update(asked=asked, spoke=time.monotonic())
                self._transport.write(_chunked(chunk))
                await asyncio.sleep(answer.script.pause / 1000)
            self._transport.write(_END)
        self._task = None
        self._take()

    def _send_whole(self, body: bytes) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        self._transport.write(head % len(body) + body)


_STREAM_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
)
_END: Final = b"0\r\n\r\n"


def _chunked(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def serve(port: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", port, backlog=BACKLOG)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
