"""What the scripted, strict servers of Anthropic, Google and Amazon have in common: a request is
read, judged, recorded and answered with a neutral reply (`spoken`) in the provider's own words."""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from tests.support.models import chat_rules
from tests.support.models.chat_rules import Body
from tests.support.models.scripted import ScriptedServer, UnscriptedError, break_off
from tests.support.models.spoken import Fails, Reply, Says


@dataclass(frozen=True, slots=True)
class ProviderRequest:
    """`headers` have lower-case names. `results`: (call id, block) of every tool result in the
    order in which they were sent."""

    model: str
    number: int
    body: Body
    headers: Mapping[str, str]
    streamed: bool
    at: float
    turn: int
    results: list[tuple[str, Body]]
    problems: tuple[str, ...]

    def __str__(self) -> str:
        return json.dumps(self.body)


class ProviderServer(ScriptedServer[ProviderRequest, Reply]):
    """Subclasses say how their provider puts things. What it signs is remembered, so that it is
    known when it comes back changed, or not at all."""

    stream_type = "text/event-stream"

    def understood(self, body: Body) -> Body:
        """The same with the names that the rules go by, where a provider takes several."""
        return body

    def check(self, model: str, body: Body, http: web.Request) -> list[str]:
        """What the provider has against the request, in its words where those are known."""
        raise NotImplementedError

    def conversation(self, body: Body) -> tuple[int, list[tuple[str, Body]]]:
        """How many answers of the model it holds, and its results (as in `ProviderRequest`)."""
        raise NotImplementedError

    def problem(self, status: int, message: str) -> web.Response:
        """An error as the provider words it."""
        raise NotImplementedError

    def message(self, request: ProviderRequest, says: Says) -> Body:
        """A whole answer; made once, also where it is streamed."""
        raise NotImplementedError

    def frames(self, whole: Body, says: Says) -> Iterator[bytes]:
        """The same answer as a stream."""
        raise NotImplementedError

    async def answer(self, http: web.Request, model: str | None, *, streamed: bool | None) -> Any:
        """`model` and `streamed` None: the body says it."""
        try:
            body = self.understood(chat_rules.parse(await http.read()))
        except ValueError as error:
            return self.refuse(400, f"the body is no strict JSON: {error}")
        name = str(body.get("model")) if model is None else model
        asked = body.get("stream") is True if streamed is None else streamed
        request = self._taken(http, name, body, streamed=asked)
        if request.problems:
            return self.refuse(400, *request.problems)
        try:
            reply = self._reply_to(request)
        except UnscriptedError as error:
            return self.refuse(error.status, error.message)
        if isinstance(reply, Fails):
            failed = self.problem(reply.status, reply.message)
            if reply.retry_after is not None:
                failed.headers["Retry-After"] = reply.retry_after
            return failed
        return await self._send(http, self.message(request, reply), reply, streamed=asked)

    def refuse(self, status: int, *problems: str) -> web.Response:
        self.violations += problems
        return self.problem(status, "; ".join(problems))

    def _taken(
        self, http: web.Request, model: str, body: Body, *, streamed: bool
    ) -> ProviderRequest:
        problems = self.check(model, body, http)
        turn, results = (0, []) if problems else self.conversation(body)
        headers = {key.lower(): value for key, value in http.headers.items()}
        at, found = time.time(), tuple(problems)
        return self._record(
            model,
            lambda number: ProviderRequest(
                model, number, body, headers, streamed, at, turn, results, found
            ),
        )

    async def _send(
        self, http: web.Request, whole: Body, says: Says, *, streamed: bool
    ) -> web.StreamResponse:
        kind = self.stream_type if streamed else "application/json"
        frames = list(self.frames(whole, says)) if streamed else [json.dumps(whole).encode()]
        response = web.StreamResponse(headers={"Content-Type": kind})
        if not streamed:
            response.content_length = len(frames[0])
        await response.prepare(http)
        if not streamed:
            [body] = frames
            frames = [body[: len(body) // 2], body[len(body) // 2 :]]
        for number, frame in enumerate(frames):
            if number == len(frames) // 2:
                if says.cut:
                    break_off(http)
                    break
                if says.hold is not None:
                    await says.hold.reach()
            await response.write(frame)
        return response


def given_object(arguments: str) -> Body:
    """As a whole answer holds them. Broken arguments can only be streamed."""
    try:
        return chat_rules.parse(arguments.encode())
    except ValueError:
        return {}
