"""Notify tools that Runward no longer waits for their result. Notices are best effort and sent in
the background."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType
from typing import Final

import structlog

from runward.domain.ids import Prefix, format_id
from runward.domain.run.abandoned import AbandonedCall
from runward.loop.inline_tools import InlineTools
from runward.loop.spans import Tracing
from runward.loop.toolbox import SignedTool, Toolbox, ToolSet
from runward.tools.base import Invocation
from runward.tools.webhook.invoker import NOTICE_SECONDS, WebhookInvoker
from runward.tracing import TracedClaim

log = structlog.get_logger()

MAX_WAITING: Final = 1000
"""Maximum number of queued notices. Further notices are dropped."""
AT_ONCE: Final = 8
DRAIN_SECONDS: Final = 2.0
"""Seconds for the queued notices when the process stops. Notices that take longer are dropped."""


class Notices:
    """A context manager that sends notices while it is open. Each notice is sent once. A killed
    process sends no more notices, so a tool that must know the status has to read the run."""

    def __init__(
        self, toolbox: Toolbox, inline: InlineTools, webhook: WebhookInvoker, tracing: Tracing
    ) -> None:
        self._tracing = tracing
        self._toolbox = toolbox
        self._inline = inline
        self._webhook = webhook
        self._waiting: asyncio.Queue[AbandonedCall] = asyncio.Queue(MAX_WAITING)
        self._senders: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Notices":
        self._senders = [
            asyncio.create_task(self._send_forever(), name=f"notices {n}") for n in range(AT_ONCE)
        ]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                await self._waiting.join()
        for sender in self._senders:
            sender.cancel()
        await asyncio.gather(*self._senders, return_exceptions=True)

    def enqueue(self, abandoned: Iterable[AbandonedCall]) -> None:
        """Enqueue notices for committed changes, without waiting."""
        for one in abandoned:
            try:
                self._waiting.put_nowait(one)
            except asyncio.QueueFull:
                log.warning("notice_dropped", **_about(one))

    async def _send_forever(self) -> None:
        while True:
            one = await self._waiting.get()
            try:
                await asyncio.create_task(self._send(one))  # in a trace context of its own
            except Exception:  # the next notices are still sent
                log.exception("notice_failed", **_about(one))
            finally:
                self._waiting.task_done()

    async def _send(self, call: AbandonedCall) -> None:
        assert call.call.version is not None
        self._tracing.enter(TracedClaim(call.run_id, call.root_run_id, call.fence, call.trace))
        if call.inline_tool is None:
            wanted = [(call.call.tool, call.call.version)]
            tools = await self._toolbox.fetch(call.project_id, wanted)
        else:
            tools = await self._inline.sign(call.project_id, [call.inline_tool], ToolSet({}))
        armed = tools.find(call.call)
        if armed is None or armed.tool.spec.type != "webhook":
            return
        told = await self._webhook.notify_cancelled(_invocation(call, armed), call.reason)
        log.info("notice_sent", told=told, **_about(call))


def _about(call: AbandonedCall) -> dict[str, str]:
    """Return the IDs that the log lines of a notice contain."""
    return {
        "project": format_id(Prefix.PROJECT, call.project_id),
        "run": format_id(Prefix.RUN, call.run_id),
        "call": format_id(Prefix.CALL, call.call.uuid),
    }


def _invocation(call: AbandonedCall, armed: SignedTool) -> Invocation:
    return Invocation(
        project_id=call.project_id,
        run_id=call.run_id,
        call_id=call.call.id,
        call_uuid=call.call.uuid,
        tool=armed.tool.spec,
        tool_version=armed.tool.version,
        agent=call.agent,
        arguments=call.call.arguments,
        context=None,
        attempt=call.call.attempt,
        fence=call.call.fence,
        seconds=NOTICE_SECONDS,
        callback_url="",
        callback_token="",
        secrets=armed.secrets,
    )
