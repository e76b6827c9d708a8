"""Calls of webhook tools: one signed POST request is one attempt. See
docs/reference/webhook-requests.md."""

import asyncio
from functools import partial
from time import monotonic
from typing import Final, assert_never

from pydantic import JsonValue

from runward.domain.errors import UnavailableError
from runward.domain.ids import Prefix, format_id
from runward.domain.json import JsonObject
from runward.domain.run.outcomes import Failed, FailureKind, Outcome
from runward.egress.responses import EgressResponse, MissingAnswer, NoAnswer
from runward.tools.base import LEASE_LOST, Invocation
from runward.tools.signing import SignedPostClient
from runward.tools.webhook.headers import ReadSecrets, read_headers
from runward.tools.webhook.response import read_outcome

MAX_RESPONSE_BYTES: Final = 1_048_576
"""Minimum size limit of a response in bytes. The limit is larger if the tool's max_output_bytes is
larger."""
OFF_LOOP_BYTES: Final = 65_536
"""Larger responses are parsed in a thread, because 10 MiB with millions of values take seconds."""
NOTICE_SECONDS: Final = 5.0
NOTICE_RESPONSE_BYTES: Final = 1024

_FAILURE_REASONS: Final = {
    MissingAnswer.NOT_SENT: FailureKind.NOT_SENT,
    MissingAnswer.INCOMPLETE: FailureKind.UNKNOWN,
    MissingAnswer.TIMEOUT: FailureKind.TIMEOUT,
}


class WebhookInvoker:
    """Calls webhook tools."""

    def __init__(self, posts: SignedPostClient, secrets: ReadSecrets) -> None:
        self._posts = posts
        self._secrets = secrets

    async def invoke(self, call: Invocation) -> Outcome:
        limit = max(MAX_RESPONSE_BYTES, call.tool.max_output_bytes)
        answer = await self._post(call, call_id_of(call), call_body(call), call.seconds, limit)
        read = partial(read_outcome, envelope=_has_envelope(call))
        match answer:
            case EgressResponse(body=body) if len(body) > OFF_LOOP_BYTES:
                return await asyncio.to_thread(read, answer)
            case EgressResponse():
                return read(answer)
            case NoAnswer():
                return Failed(
                    _FAILURE_REASONS[answer.missing], answer.detail, permanent=answer.permanent
                )
            case Failed():
                return answer
            case _:
                assert_never(answer)

    async def notify_cancelled(self, call: Invocation, reason: str) -> bool:
        """Notify the tool that the call was cancelled. Makes one attempt, returns whether it
        succeeded, and never raises."""
        notice_id = f"{call_id_of(call)}_cancelled"
        body = cancel_notice(call, reason)
        answer = await self._post(call, notice_id, body, NOTICE_SECONDS, NOTICE_RESPONSE_BYTES)
        return isinstance(answer, EgressResponse) and 200 <= answer.status < 300

    async def _post(
        self, call: Invocation, message_id: str, body: JsonObject, seconds: float, limit: int
    ) -> EgressResponse | NoAnswer | Failed:
        if call.tool.url is None:
            return Failed(FailureKind.NOT_SENT, "The tool has no URL.", permanent=True)
        if not call.secrets:
            return Failed(FailureKind.NOT_SENT, "The tool has no signing secret.", permanent=True)
        until = monotonic() + seconds
        try:
            async with asyncio.timeout(seconds):
                headers = await read_headers(call, self._secrets)
                may_send = await call.may_send()
        except (TimeoutError, UnavailableError):
            return Failed(
                FailureKind.NOT_SENT, "The secrets in the headers of the tool could not be read."
            )
        if isinstance(headers, Failed):
            return headers
        if not may_send:
            return LEASE_LOST
        return await self._posts.send(
            call.tool.url,
            body,
            message_id=message_id,
            secrets=call.secrets,
            seconds=max(0.0, until - monotonic()),
            max_response_bytes=limit,
            headers=headers,
        )


def call_id_of(call: Invocation) -> str:
    """Return the ID that is unique everywhere and the same for every attempt of the call."""
    return format_id(Prefix.CALL, call.call_uuid)


def call_body(call: Invocation) -> JsonObject:
    """Return the body of a call. `deadline_ms` is the time until Runward stops waiting."""
    context: JsonValue = dict(call.context) if call.context is not None else None
    return {
        "type": "tool_call",
        **_about(call),
        "arguments": call.arguments,
        "context": context,
        "attempt": call.attempt,
        "fence": call.fence,
        "deadline_ms": int(call.seconds * 1000),
        "callback": {"url": call.callback_url, "token": call.callback_token},
        **({} if call.input is None else {"input": call.input}),
        **({"state": dict(call.state)} if _has_envelope(call) else {}),
    }


def _has_envelope(call: Invocation) -> bool:
    return call.tool.response == "envelope"


def cancel_notice(call: Invocation, reason: str) -> JsonObject:
    return {
        "type": "tool_call.cancelled",
        **_about(call),
        "attempt": call.attempt,
        "fence": call.fence,
        "reason": reason,
    }


def _about(call: Invocation) -> JsonObject:
    return {
        "run_id": format_id(Prefix.RUN, call.run_id),
        "call_id": call.call_id,
        "tool": call.tool.name,
        "tool_version": call.tool_version,
        "agent": call.agent,
    }
