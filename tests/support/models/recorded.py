"""A server that plays recorded responses of model providers, and the recordings themselves.

`tests/recorded/README.md` describes the format. The last user message of a request contains the ID
of a recording. The n-th request with this ID gets its n-th reply.
"""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

from tests.support.models.providers.event_stream import encoded, event
from tests.support.models.scripted import break_off
from tests.support.serving import Server

FOLDER = Path(__file__).parents[2] / "recorded"
PROTOCOLS = ("openai", "openai-responses", "anthropic", "gemini", "bedrock")
ASKED = re.compile(r"recording ([a-z0-9_]+)")
EVENT_STREAM = "text/event-stream"
AMAZON_STREAM = "application/vnd.amazon.eventstream"
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Recording:
    """`fields` belong to every object that the provider sends."""

    protocol: str
    id: str
    about: str
    replies: tuple[Json, ...]
    expect: Json
    ask: Json = field(default_factory=dict[str, Any])
    fields: Json = field(default_factory=dict[str, Any])

    @property
    def prompt(self) -> str:
        return f"recording {self.id}"

    @property
    def is_streamed(self) -> bool:
        return self.ask.get("stream", "body" not in self.replies[0])

    @property
    def is_one_stream(self) -> bool:
        reply = self.replies[0]
        return len(self.replies) == 1 and "stream" in reply and "ends" not in reply

    def content(self, reply: Json) -> Iterator[bytes]:
        """Yield the bytes of the body: one piece for each frame, or pieces of a given size."""
        pieces = [self._frame(frame) for frame in reply.get("stream", [])]
        if "body" in reply:
            body = reply["body"]
            bare = not isinstance(body, dict) or "error" in body or reply.get("status", 200) >= 400
            pieces.append(json.dumps(body if bare else self.fields | body).encode())
        pieces.append(reply.get("text", "").encode())
        whole = b"".join(pieces)
        if newline := reply.get("newline"):
            whole = whole.replace(b"\n", newline.encode())
        size = reply.get("piece_bytes")
        if size is None and not newline:
            yield from (piece for piece in pieces if piece)
            return
        for start in range(0, len(whole), size or len(whole)):
            yield whole[start : start + (size or len(whole))]

    def _frame(self, frame: Json | str) -> bytes:
        if isinstance(frame, str):
            return (frame if "\n" in frame else f"data: {frame}\n\n").encode()
        if self.protocol == "bedrock":
            return _amazon_message(frame)
        data = json.dumps(self.fields | frame, ensure_ascii=False)
        named = self.protocol in ("anthropic", "openai-responses") and "type" in frame
        name = f"event: {frame['type']}\n" if named else ""
        return f"{name}data: {data}\n\n".encode()


def _amazon_message(frame: Json) -> bytes:
    ((kind, payload),) = frame.items()
    if not kind.endswith("Exception"):
        return event(kind, payload)
    headers = {
        ":exception-type": kind,
        ":content-type": "application/json",
        ":message-type": "exception",
    }
    return encoded(headers, json.dumps(payload).encode())


def read_recordings(protocol: str) -> list[Recording]:
    """Return the recordings of a protocol. Raises ValueError for an ID that occurs twice."""
    found: dict[str, Recording] = {}
    for path in sorted((FOLDER / protocol).glob("*.yaml")):
        document = yaml.load(path.read_text(), yaml.CSafeLoader)
        for entry in document["recordings"]:
            if entry["id"] in found:
                raise ValueError(f"{path}: {entry['id']} occurs twice")
            replies = entry["replies"] if "replies" in entry else [entry["reply"]]
            found[entry["id"]] = Recording(
                protocol,
                entry["id"],
                entry["about"],
                tuple(replies),
                entry["expect"],
                entry.get("ask", {}),
                document.get("fields", {}),
            )
    return list(found.values())


class RecordedServer(Server):
    def __init__(self) -> None:
        super().__init__()
        self._recordings = {
            recording.id: recording
            for protocol in PROTOCOLS
            for recording in read_recordings(protocol)
        }
        self._asked = Counter[str]()

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/{path:.*}", self._answer)
        return app

    async def _answer(self, http: web.Request) -> web.StreamResponse:
        asked = ASKED.findall(await http.text())[-1]
        recording = self._recordings[asked]
        reply = recording.replies[self._asked[asked]]
        self._asked[asked] += 1
        response = web.StreamResponse(status=reply.get("status", 200))
        response.content_type = _content_type(recording, reply)
        response.headers.update(reply.get("headers", {}))
        await response.prepare(http)
        for piece in recording.content(reply):
            await response.write(piece)
            await asyncio.sleep(0)
        if reply.get("ends") == "abruptly":
            break_off(http)
        return response


def _content_type(recording: Recording, reply: Json) -> str:
    if "stream" in reply:
        return AMAZON_STREAM if recording.protocol == "bedrock" else EVENT_STREAM
    return "application/json" if "body" in reply else "text/html"
