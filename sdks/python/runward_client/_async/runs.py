"""Runs and their events."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from http import HTTPStatus
from typing import Any, Literal, Unpack

import httpx2

from runward_client import _requests as rules
from runward_client import types
from runward_client._async.transport import AsyncTransport
from runward_client._requests import Frame, FrameReader, make_path


class AsyncRun:
    """A run, as it was when it was last read: `data` is all of it."""

    def __init__(self, runs: "AsyncRuns", data: types.Run) -> None:
        self._runs = runs
        self.data = data

    @property
    def id(self) -> str:
        return self.data["id"]

    @property
    def status(self) -> types.RunStatus:
        return self.data["status"]

    @property
    def output(self) -> types.JsonValue:
        return self.data["output"]

    @property
    def error(self) -> types.RunError | None:
        return self.data["error"]

    @property
    def required_actions(self) -> list[types.RequiredAction]:
        return self.data["required_actions"]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.status}>"

    def events(
        self, *, after: int | str | None = None, include: Literal["children"] | None = None
    ) -> AsyncIterator[types.StreamedEvent]:
        """Yield the events of the run until its last one. See `runs.events`."""
        return self._runs.events(self.id, after=after, include=include)

    async def wait(self, *, until: Literal["idle", "final"] = "idle") -> "AsyncRun":
        """Wait until the run is idle or final, update this object and return it."""
        self.data = (await self._runs.wait(self.id, until=until)).data
        return self

    async def cancel(self, *, mode: types.CancelMode = "immediate") -> "AsyncRun":
        """Cancel the run, update this object and return it."""
        self.data = (await self._runs.cancel(self.id, mode=mode)).data
        return self


class AsyncRuns:
    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def start(
        self, *, idempotency_key: str | None = None, **body: Unpack[types.StartRun]
    ) -> AsyncRun:
        """Start a run and return it, usually before it has done anything."""
        return AsyncRun(self, await self._transport.create("/v1/runs", body, idempotency_key))

    async def retrieve(self, run_id: str) -> AsyncRun:
        return AsyncRun(self, await self._transport.get(make_path("/v1/runs/{}", run_id)))

    async def list(self, **query: Unpack[types.ListRunsQuery]) -> AsyncIterator[AsyncRun]:
        """Yield runs, newest first, page by page. `limit` is the size of a page."""
        async for run in self._transport.list("/v1/runs", query):
            yield AsyncRun(self, run)

    async def wait(self, run_id: str, *, until: Literal["idle", "final"] = "idle") -> AsyncRun:
        """Wait until a run is `idle`, which means that it is final or requires an action such as
        an approval; or until it is `final`."""
        path = make_path("/v1/runs/{}", run_id)
        seconds = self._transport.timeout + rules.WAIT_SECONDS
        while True:
            query: dict[str, Any] = {"wait": rules.WAIT_SECONDS}
            response = await self._transport.send("GET", path, query=query, seconds=seconds)
            run: types.Run = response.json()
            if response.status_code == HTTPStatus.OK:
                if until == "idle" or run["ended_at"] is not None:
                    return AsyncRun(self, run)
                query |= {"after": run["last_sequence"], "limit": 1}
                await self._transport.send("GET", f"{path}/events", query=query, seconds=seconds)

    async def cancel(self, run_id: str, *, mode: types.CancelMode = "immediate") -> AsyncRun:
        """Cancel a run: at once, or with `after_turn` when its current turn has ended."""
        return AsyncRun(
            self,
            await self._transport.post(make_path("/v1/runs/{}/cancel", run_id), {"mode": mode}),
        )

    async def delete(self, run_id: str) -> None:
        """Erase the content of a run and its child runs. If the run is open, cancel it first."""
        await self._transport.delete(make_path("/v1/runs/{}", run_id))

    async def send_input(
        self, run_id: str, *, idempotency_key: str | None = None, **body: Unpack[types.SendInput]
    ) -> AsyncRun:
        """Send a message to a run that has not ended."""
        path = make_path("/v1/runs/{}/input", run_id)
        return AsyncRun(self, await self._transport.create(path, body, idempotency_key))

    async def continue_(
        self, run_id: str, *, idempotency_key: str | None = None, **body: Unpack[types.ContinueRun]
    ) -> AsyncRun:
        """Start a new run that continues one that has ended."""
        path = make_path("/v1/runs/{}/continue", run_id)
        return AsyncRun(self, await self._transport.create(path, body, idempotency_key))

    def items(self, run_id: str) -> AsyncIterator[types.RunItem]:
        """Yield the messages and tool calls of a run."""
        return self._transport.list(make_path("/v1/runs/{}/items", run_id), {})

    def tool_calls(self, run_id: str) -> AsyncIterator[types.ToolCall]:
        """Yield the tool calls of a run."""
        return self._transport.list(make_path("/v1/runs/{}/tool_calls", run_id), {})

    async def submit_tool_result(
        self, run_id: str, call_id: str, **body: Unpack[types.SubmitToolResult]
    ) -> types.ToolCall:
        """Give the result of a call of a client tool, or the answer that a tool asks for."""
        return await self._transport.create(
            make_path("/v1/runs/{}/tool_calls/{}/result", run_id, call_id), body
        )

    async def resolve_tool_call(
        self, run_id: str, call_id: str, resolution: types.Resolution
    ) -> types.ToolCall:
        """Record the outcome of a call whose outcome is unknown."""
        return await self._transport.create(
            make_path("/v1/runs/{}/tool_calls/{}/resolve", run_id, call_id), resolution
        )

    async def events(
        self,
        run_id: str,
        *,
        after: int | str | None = None,
        include: Literal["children"] | None = None,
    ) -> AsyncIterator[types.StreamedEvent]:
        """Yield the events of a run, from its first until its last one, or from the one that
        follows the sequence number `after`. With `include="children"` also those of all runs below
        it.

        A connection that breaks is opened again after the last event, so no stored event is missing
        or comes twice. Parts of texts, such as `message.delta`, are not stored: after a break they
        come again from the beginning of their turn, with `offset` 0. Ignore types that you do not
        know, because versions of the service add some.
        """
        cursor = "" if after is None else str(after)
        breaks = 0
        while True:
            try:
                async with aclosing(self._frames(run_id, include, cursor)) as frames:
                    async for frame in frames:
                        if frame is None:
                            return
                        cursor = cursor if frame.id is None else frame.id
                        breaks = 0
                        yield json.loads(frame.data)
            except httpx2.TransportError:
                pass  # the connection broke: open it again
            if breaks > 0:  # nothing came since the last break
                await asyncio.sleep(rules.get_backoff(breaks - 1))
            breaks += 1

    async def _frames(
        self, run_id: str, include: str | None, cursor: str
    ) -> AsyncGenerator[Frame | None, None]:
        """Yield the frames of one connection, and None if the run has ended and no event is
        left."""
        response = await self._transport.send(
            "GET",
            make_path("/v1/runs/{}/events", run_id),
            query={"include": include},
            headers={"Accept": "text/event-stream"} | ({"Last-Event-ID": cursor} if cursor else {}),
            max_retries=self._transport.max_retries * rules.STREAM_PATIENCE,
            streamed=True,
        )
        try:
            if response.status_code == HTTPStatus.NO_CONTENT:
                yield None
            reader = FrameReader()
            async for piece in response.aiter_bytes():
                for frame in reader.feed(piece):
                    yield frame
        finally:
            await response.aclose()
