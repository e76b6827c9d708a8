"""Call guardrails and hooks, with a signed POST or in a plugin, and parse their responses.

Guardrails fail closed: without a valid response, a guardrail rejects and a hook fails. The error is
for operators. The model reads a fixed text."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from time import monotonic
from typing import Final, TypeAlias

import structlog
from pydantic import JsonValue

from runward.domain.errors import AppError
from runward.domain.json import JsonObject, clean_text
from runward.domain.registry.guards import (
    Allow,
    Fail,
    Guardrail,
    GuardrailVerdict,
    Hook,
    HookAnswer,
    HookFailure,
    HookPoint,
    Instead,
    NoChange,
    PluginGuardrail,
    Reject,
    WebhookGuardrail,
    WebhookHook,
)
from runward.domain.run import texts
from runward.domain.run.bounds import truncate
from runward.domain.strict_json import parse_body
from runward.egress.responses import EgressResponse, MissingAnswer, NoAnswer
from runward.tools.signing import SignedPostClient

log = structlog.get_logger()

MAX_VERDICT_BYTES: Final = 65_536
MAX_HOOK_ANSWER_BYTES: Final = 1_048_576
MAX_MESSAGE_BYTES: Final = 4096
"""Bytes of a guardrail's message. A longer one is cut in the middle."""
RETRY_DELAY_SECONDS: Final = 0.1
"""Delay in seconds before the retry. There is one retry, only if the request was certainly not
sent."""

MODEL_POINTS: Final = frozenset({"before_model", "after_model"})
"""The hooks that replace a model's message. The others replace an output."""

RunGuardrail: TypeAlias = Callable[[str, JsonObject], Awaitable[GuardrailVerdict]]
RunHook: TypeAlias = Callable[[str, JsonObject], Awaitable[HookAnswer]]


@dataclass(frozen=True, slots=True)
class GuardQuestion:
    """A request to a guardrail or hook. `message_id` is the same for every request about the same
    object. `seconds` is the time limit for everything from the DNS look-up to the last byte.
    `secrets` sign the request, newest first."""

    message_id: str
    payload: JsonObject
    secrets: tuple[str, ...]
    seconds: float


class _UnusableAnswerError(Exception):
    """There is no valid response. The message is for operators."""


class GuardClient:
    """Calls guardrails and hooks. `run_guardrail` and `run_hook` call a plugin's function by its
    registered name with a copy of the payload; this class limits their time."""

    def __init__(
        self, posts: SignedPostClient, run_guardrail: RunGuardrail, run_hook: RunHook
    ) -> None:
        self._posts = posts
        self._run_guardrail = run_guardrail
        self._run_hook = run_hook

    async def ask_guardrail(
        self, guardrail: Guardrail, question: GuardQuestion
    ) -> GuardrailVerdict:
        """Return the guardrail's verdict. Never raises."""
        text = texts.OUTPUT_GUARDED if guardrail.stage == "output" else texts.GUARDED
        try:
            if isinstance(guardrail, WebhookGuardrail):
                answer = await self._post(guardrail.url, question, MAX_VERDICT_BYTES)
                return read_verdict(answer, text)
            async with asyncio.timeout(question.seconds):
                verdict = await self._run_guardrail(guardrail.name, question.payload)
            return _with_message(verdict, text)
        except Exception as error:
            return Reject(text, _failure_reason("guardrail_unusable", error, question))

    async def ask_hook(self, hook: Hook, question: GuardQuestion) -> HookAnswer:
        """Return the hook's answer. Never raises."""
        try:
            if isinstance(hook, WebhookHook):
                answer = await self._post(hook.url, question, MAX_HOOK_ANSWER_BYTES)
                return read_hook_answer(answer, hook.on)
            async with asyncio.timeout(question.seconds):
                said = await self._run_hook(hook.name, question.payload)
            return _check_value_type(said, hook.on)
        except Exception as error:
            return HookFailure(_failure_reason("hook_unusable", error, question))

    async def _post(self, url: str, question: GuardQuestion, limit: int) -> EgressResponse:
        """Send the request, and once more if the first attempt was certainly not sent. Raises
        _UnusableAnswerError."""
        if not question.secrets:
            raise _UnusableAnswerError("The project has no signing secret.")
        ends = monotonic() + question.seconds
        answer = await self._send(url, question, question.seconds, limit)
        left = ends - monotonic() - RETRY_DELAY_SECONDS
        if (
            isinstance(answer, NoAnswer)
            and answer.missing is MissingAnswer.NOT_SENT
            and not answer.permanent
            and left > 0
        ):
            await asyncio.sleep(RETRY_DELAY_SECONDS)
            answer = await self._send(url, question, left, limit)
        if isinstance(answer, NoAnswer):
            raise _UnusableAnswerError(answer.detail)
        if 300 <= answer.status < 400:
            raise _UnusableAnswerError(
                f"The response has HTTP status {answer.status}. Runward does not follow redirects."
            )
        if not 200 <= answer.status < 300:
            raise _UnusableAnswerError(f"The response has HTTP status {answer.status}.")
        return answer

    async def _send(
        self, url: str, question: GuardQuestion, seconds: float, limit: int
    ) -> EgressResponse | NoAnswer:
        return await self._posts.send(
            url,
            question.payload,
            message_id=question.message_id,
            secrets=question.secrets,
            seconds=seconds,
            max_response_bytes=limit,
        )


def describe_guard(guard: Guardrail | Hook) -> str:
    """Return the guard's kind and address for operators, without the query, which may hold a
    credential."""
    if isinstance(guard, (WebhookGuardrail, PluginGuardrail)):
        what = f"guardrail ({guard.stage})"
    else:
        what = f"hook ({guard.on})"
    if isinstance(guard, (WebhookGuardrail, WebhookHook)):
        return f"{what} {guard.url.partition('?')[0]}"
    return f"{what} of plugin {guard.name}"


def read_verdict(answer: EgressResponse, text: str) -> GuardrailVerdict:
    """Return the verdict. `text` is used if the response rejects or fails without a message. Raises
    _UnusableAnswerError."""
    value = _read(answer)
    if isinstance(value, dict):
        message = value.get("message")
        words = message if isinstance(message, str) else ""
        match value.get("action"):
            case "allow":
                return Allow()
            case "reject":
                return _with_message(Reject(words), text)
            case "fail":
                return _with_message(Fail(words), text)
            case _:
                pass
    raise _UnusableAnswerError(
        "The response has no `action` with the value `allow`, `reject` or `fail`."
    )


def read_hook_answer(answer: EgressResponse, on: HookPoint) -> HookAnswer:
    """Return the hook's answer. Raises _UnusableAnswerError."""
    key = "message" if on in MODEL_POINTS else "output"
    if not answer.body.strip() and not answer.truncated and answer.encoding is None:
        return NoChange()
    match _read(answer):
        case None:  # frameworks send null for a handler without a result
            return NoChange()
        case dict() as value if not value:
            return NoChange()
        case dict() as value if key in value or value.get("calls") is not None:
            metadata = value.get("metadata")
            own = metadata if isinstance(metadata, dict) else None
            return _check_value_type(Instead(value.get(key), own, value.get("calls")), on)
        case _:
            raise _UnusableAnswerError(f"The response must be empty or an object with `{key}`.")


def _read(answer: EgressResponse) -> JsonValue:
    if answer.truncated:
        raise _UnusableAnswerError(f"The response is larger than {len(answer.body)} bytes.")
    if answer.encoding is not None:
        raise _UnusableAnswerError(
            f"The response has the content encoding {answer.encoding!r}, which Runward "
            "cannot decode."
        )
    try:
        return parse_body(answer.body)
    except AppError as error:
        raise _UnusableAnswerError(
            f"The response has HTTP status {answer.status}, but its body is not valid: {error}"[
                :400
            ]
        ) from None


def _check_value_type(said: HookAnswer, on: HookPoint) -> HookAnswer:
    """Return the answer if it fits the hook. The replacement of a model's message must be a string.
    Raises _UnusableAnswerError."""
    if not isinstance(said, Instead):
        return said
    if said.calls is not None and on != "after_model":
        raise _UnusableAnswerError("Only an `after_model` hook can return `calls`.")
    only_calls = said.calls is not None and said.value is None
    if on in MODEL_POINTS and not isinstance(said.value, str) and not only_calls:
        raise _UnusableAnswerError("The `message` in the response must be a string.")
    return said


def _with_message(verdict: GuardrailVerdict, text: str) -> GuardrailVerdict:
    """Return the verdict with a message of limited length."""
    if isinstance(verdict, Allow):
        return verdict
    return replace(verdict, message=_limit_message(verdict.message) or text)


def _limit_message(message: str) -> str:
    shown, _ = truncate(clean_text(message.strip()), MAX_MESSAGE_BYTES)
    assert isinstance(shown, str)
    return shown


def _failure_reason(event: str, error: Exception, question: GuardQuestion) -> str:
    """Log the failure as `event`, and return its reason."""
    if isinstance(error, _UnusableAnswerError):
        detail = str(error)
    elif isinstance(error, TimeoutError):
        detail = f"No response arrived within {question.seconds:g} seconds."
    else:
        log.exception("guard_failed", id=question.message_id)
        detail = f"The request failed: {type(error).__name__}."
    log.warning(event, id=question.message_id, detail=detail)
    return detail
