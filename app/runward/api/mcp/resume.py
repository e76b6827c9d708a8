"""Continue the response stream of a tool call of the protocol of 2025 (2025-11-25, transports,
resumability). The event IDs of the stream contain everything that is needed to continue it, so any
API process can do this."""

import asyncio
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from runward.api.events.follow import HEARTBEAT_SECONDS, RETRY_MS
from runward.api.mcp.elicitation import ClientQuestions, Question
from runward.api.mcp.results import INTERNAL_ERROR
from runward.api.mcp.wait import wait_for_result
from runward.domain import errors as e
from runward.domain.ids import Prefix, RunId, format_id, parse_id
from runward.domain.json import JsonObject
from runward.domain.registry.scopes import Principal
from runward.services import Services

NOT_ACCEPTED: Final = (
    "The connection ended before Runward accepted the call. Check the list of runs before you "
    "repeat the call."
)


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """The position in the stream of a tool call, as the ID of an event. `request`: the JSON-RPC ID
    of the call. `run_id`: None until Runward has accepted the call. `declared`: as in
    `build_run_result`."""

    request: JsonValue
    progress_token: JsonValue
    declared: bool
    run_id: RunId | None = None

    def __str__(self) -> str:
        run = None if self.run_id is None else format_id(Prefix.RUN, self.run_id)
        found = to_json([self.request, self.progress_token, self.declared, run])
        return urlsafe_b64encode(found).decode()

    @classmethod
    def parse(cls, text: str | None) -> "StreamPosition | None":
        """Return the position of an ID. None: there is no ID, or Runward did not create it."""
        with suppress(ValueError):
            match from_json(urlsafe_b64decode((text or "").encode())):
                case [request, progress_token, bool(declared), None]:
                    return cls(request, progress_token, declared)
                case [request, progress_token, bool(declared), str(shown)]:
                    run_id = parse_id(Prefix.RUN, shown)
                    return run_id and cls(request, progress_token, declared, RunId(run_id))
                case _:
                    pass
        return None

    def accept(self, run_id: RunId) -> "StreamPosition":
        return replace(self, run_id=run_id)

    def encode_event(self) -> str:
        """Return an event without data. Clients reconnect with its ID."""
        return f"id: {self}\nretry: {RETRY_MS}\ndata:\n\n"


class ContinuedStream:
    """The rest of the stream of a tool call."""

    def __init__(
        self, services: Services, principal: Principal, position: StreamPosition, *, elicits: bool
    ) -> None:
        self._services = services
        self._project_id = principal.project_id
        self._position = position
        self._frames: asyncio.Queue[str | None] = asyncio.Queue()
        self._questions: ClientQuestions | None = None
        if elicits:
            self._questions = ClientQuestions(
                services.storage, services.registry, principal, send=self._ask
            )

    async def encode(self) -> AsyncGenerator[str]:
        """Yield server-sent events: the progress and the questions of the run, and then the
        response to the call."""
        yield self._position.encode_event()
        responding = asyncio.create_task(self._respond())
        try:
            while True:
                try:
                    async with asyncio.timeout(HEARTBEAT_SECONDS):
                        frame = await self._frames.get()
                except TimeoutError:
                    frame = ": still here\n\n"
                if frame is None:
                    return
                yield frame
        finally:
            responding.cancel()

    async def _respond(self) -> None:
        try:
            await self._send(id=self._position.request, result=await self._wait())
        except e.AppError as error:
            about: JsonObject = {"code": INTERNAL_ERROR, "message": error.detail}
            await self._send(id=self._position.request, error=about)
        finally:
            self._frames.put_nowait(None)

    async def _wait(self) -> JsonObject:
        services, run_id = self._services, self._position.run_id
        limits = services.limits
        if run_id is None:
            raise e.ConflictError(NOT_ACCEPTED)
        return await wait_for_result(
            services.storage,
            services.live,
            self._project_id,
            run_id,
            seconds=limits.mcp_seconds,
            report=self._report,
            declared=self._position.declared,
            questions=self._questions,
        )

    async def _report(self, count: float, message: str) -> None:
        if (token := self._position.progress_token) is not None:
            about: JsonObject = {"progressToken": token, "progress": count, "message": message}
            await self._send(method="notifications/progress", params=about)

    async def _ask(self, question: Question) -> None:
        await self._send(id=question.id, method="elicitation/create", params=question.params)

    async def _send(self, **message: JsonValue) -> None:
        self._frames.put_nowait(encode_message(message))


def encode_message(message: JsonObject) -> str:
    """Return a JSON-RPC message as a server-sent event."""
    data = to_json({"jsonrpc": "2.0", **message}).decode()
    return f"event: message\ndata: {data}\n\n"
