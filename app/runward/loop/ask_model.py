"""One turn: the request, its retries and fallbacks, and the deltas for those who watch."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeAlias

import structlog
from pydantic_core import PydanticSerializationError

from runward.domain.events.kinds import ModelDowngradedEvent, ModelRetriedEvent
from runward.domain.ids import Prefix, format_id
from runward.domain.json import JsonObject, UnstorableError, clean_text
from runward.domain.run import texts
from runward.domain.run.bounds import MAX_CALL_ID, bounded_name, bounded_response
from runward.domain.run.config import NamedTool
from runward.domain.run.conversation import build_conversation
from runward.domain.run.decide import AskModel
from runward.domain.run.history import trimmed_history
from runward.domain.run.items import Message
from runward.domain.run.response import Loss, ModelResponse
from runward.domain.run.state import RunState, list_requested_calls
from runward.domain.run.tools import CompiledTool
from runward.llm import failures
from runward.llm.base import (
    ArgumentsDelta,
    Model,
    ModelDelta,
    ModelError,
    ModelRequest,
    OnDelta,
    ReasoningDelta,
    RequestedToolChoice,
    StreamRestart,
    TextDelta,
)
from runward.llm.capabilities import fit_request
from runward.llm.catalog import ModelNotInCatalogError
from runward.loop.breaker import OPEN, BreakerKey
from runward.loop.engine import ModelAccess
from runward.loop.hosted_secrets import add_secrets
from runward.store.live.drafts import Draft

log = structlog.get_logger()

ATTEMPTS: Final = 4
"""Requests to one model before the next one in line is asked."""
FIRST_DELAY, LONGEST_DELAY = 0.5, 30.0
"""Seconds between attempts; a provider's Retry-After beyond the longest moves on to the next."""
MODEL_TIMEOUT: Final = 600.0
"""Seconds for one request, first byte to last; `timeout_seconds` in `model_settings` says
otherwise."""
FIRST_TOKEN_TIMEOUT: Final = 180.0
"""Seconds until the first piece of an answer; `first_token_timeout_seconds` says otherwise."""


@dataclass(frozen=True, slots=True)
class RetryNote:
    """A failed attempt, for the log: `after` is the delay in seconds, `model` what is asked
    next."""

    model: str
    code: str
    message: str
    after: float

    def event(self) -> ModelRetriedEvent:
        return ModelRetriedEvent(
            {
                "model": self.model,
                "code": self.code,
                "message": self.message,
                "after_seconds": round(self.after, 3),
            }
        )


@dataclass(frozen=True, slots=True)
class LossNote:
    """A part of the request that the model cannot be told."""

    model: str
    loss: Loss

    def event(self) -> ModelDowngradedEvent:
        return ModelDowngradedEvent(
            {"model": self.model, "what": self.loss.part, "why": self.loss.reason}
        )


Note: TypeAlias = RetryNote | LossNote


def build_request(
    state: RunState, tools: Mapping[str, CompiledTool], ask: AskModel
) -> ModelRequest:
    """Everything but the model's name."""
    config = state.config
    items = (
        *trimmed_history(state.history, config.history, state.calls),
        *build_conversation(state),
    )
    if ask.tools_off:
        items = (*items, Message("user", texts.SUMMARISE))
    return ModelRequest(
        model="",
        instructions=config.instructions,
        items=items,
        tools=() if ask.tools_off else tuple(tool.spec for tool in tools.values()),
        tool_choice=_choose_tool_choice(state, tools),
        parallel_tool_calls=config.parallel_tool_calls,
        settings=config.model_settings,
        output_schema=config.output_schema,
        timeout_seconds=MODEL_TIMEOUT,
    )


def _choose_tool_choice(state: RunState, tools: Mapping[str, CompiledTool]) -> RequestedToolChoice:
    """After the first tool use a forced choice goes back to auto, or it would never end."""
    config = state.config
    if config.reset_tool_choice and _has_called(state):
        return "auto"
    if isinstance(config.tool_choice, NamedTool):
        name = config.tool_choice.name
        return {"name": name} if name in tools else "auto"
    return config.tool_choice if tools else "auto"


def _has_called(state: RunState) -> bool:
    """Whether the agent that has the run now has asked for a call."""
    return any(one.agent == state.agent and list_requested_calls(one) for one in state.segments)


async def ask_model(
    access: ModelAccess,
    state: RunState,
    request: ModelRequest,
    *,
    tell: Callable[[Note], None],
    check: Callable[[], Awaitable[None]],
) -> ModelResponse:
    """The first model in line that answers. `check` is called before each request, and may raise.
    Raises ModelError when every model has failed."""
    turn, agent = state.turn + 1, state.agent
    with access.feed.open_draft(state.id, turn=turn, fence=state.fence, agent=agent) as draft:
        return await _ask_in_turn(
            access, state, request, _RequestObserver(state, draft, tell, check)
        )


async def _ask_in_turn(
    access: ModelAccess, state: RunState, request: ModelRequest, watch: "_RequestObserver"
) -> ModelResponse:
    names = state.config.models
    for name, following in zip(names, [*names[1:], None], strict=True):
        try:
            return await _ask_one(access, state, name, request, watch, is_last=following is None)
        except ModelError as error:
            if following is None:
                raise
            watch.retried(following, error, after=0.0)
    raise AssertionError("a run without a model asked one")


async def _ask_one(
    access: ModelAccess,
    state: RunState,
    name: str,
    request: ModelRequest,
    watch: "_RequestObserver",
    *,
    is_last: bool,
) -> ModelResponse:
    """Its cost is as far as prices are known. Raises ModelError when the model is not asked
    again: it is not waited for one that is down while there is another."""
    try:
        model, provider_name = (await access.models.of(state.project_id)).resolve(name)
    except ModelNotInCatalogError as error:
        raise ModelError("unknown_model", str(error), transient=False) from error
    fitting, losses = fit_request(replace(request, model=provider_name), model.abilities)
    ready = await add_secrets(fitting, partial(access.secrets, state.project_id))
    watch.lost(name, (*losses, *ready.losses))
    key = (state.project_id, name)
    attempt = 1
    while True:
        await watch.check()
        error = access.breakers.refusal(key)
        if error is None:
            deltas = ready.deltas(watch.show)
            try:
                response = await _attempt(access, key, model, ready.request, deltas)
            except ModelError as failure:
                error = ready.redact_error(failure)
            else:
                deltas.end()
                response = ready.redact_response(response)
                watch.lost(name, response.losses)
                cost = access.prices.cost_usd(name, response.usage)
                return replace(response, usage=replace(response.usage, cost=cost or 0.0))
        # To wait for the request that tries the model is no attempt. That one may take minutes.
        waits = error.code == OPEN and access.breakers.is_probing(key)
        delay = _compute_delay(error, 1 if waits else attempt)
        if delay is None or (error.code == OPEN and not is_last):
            raise error
        attempt += not waits
        watch.retried(name, error, after=delay)
        await asyncio.sleep(delay)


async def _attempt(
    access: ModelAccess, key: BreakerKey, model: Model, request: ModelRequest, on_delta: OnDelta
) -> ModelResponse:
    """One request, whose first word must come in time. Raises ModelError."""
    settings = dict(request.settings)
    first = settings.pop("first_token_timeout_seconds", None) or FIRST_TOKEN_TIMEOUT
    whole = settings.pop("timeout_seconds", None) or request.timeout_seconds
    assert isinstance(first, int | float)
    assert isinstance(whole, int | float)
    bound = None if settings.get("stream") is False or first >= whole else first
    asked = replace(request, settings=settings, timeout_seconds=whole)
    try:
        async with asyncio.timeout(bound) as timer:

            def show(delta: ModelDelta) -> None:
                if timer.when() is not None:
                    timer.reschedule(None)
                on_delta(delta)

            response = bounded_response(await model.respond(asked, show))
    except (UnstorableError, PydanticSerializationError, RecursionError) as error:
        refused = failures.unstorable(_describe_unstorable(error))
        access.breakers.record_failure(key, refused)
        raise refused from None
    except TimeoutError:
        silent = failures.no_first_token(first)
        access.breakers.record_failure(key, silent)
        raise silent from None
    except ModelError as error:
        access.breakers.record_failure(key, error)
        raise
    except BaseException:
        access.breakers.end_probe(key)
        raise
    access.breakers.record_success(key)
    return response


def _describe_unstorable(error: Exception) -> str:
    return str(error) if isinstance(error, UnstorableError) else "it holds what is no JSON"


def _compute_delay(error: ModelError, attempt: int) -> float | None:
    """Seconds until the same model is asked again; None: it is not."""
    wish = error.retry_after or 0.0
    if not error.transient or attempt >= ATTEMPTS or wish > LONGEST_DELAY:
        return None
    backoff = min(LONGEST_DELAY, FIRST_DELAY * 2 ** (attempt - 1))
    return max(wish, backoff * random.random())  # noqa: S311  # jitter, not a secret


class _RequestObserver:
    """Who is told what happens meanwhile: the log of the run, and those who watch it live."""

    def __init__(
        self,
        state: RunState,
        draft: Draft,
        tell: Callable[[Note], None],
        check: Callable[[], Awaitable[None]],
    ) -> None:
        self.tell = tell
        self.check = check
        self._state = state
        self._draft = draft

    def lost(self, model: str, losses: Iterable[Loss]) -> None:
        for loss in losses:
            self.tell(LossNote(model, loss))

    def retried(self, model: str, error: ModelError, *, after: float) -> None:
        """`model` is asked next, `after` seconds."""
        log.info(
            "model_retried", run=format_id(Prefix.RUN, self._state.id), model=model, code=error.code
        )
        self.tell(RetryNote(model, error.code, error.message, after))
        self._draft.restart()

    def show(self, delta: ModelDelta) -> None:
        match delta:
            case TextDelta(text=text):
                self._draft.add("message.delta", clean_text(text))
            case ReasoningDelta(text=text):
                self._draft.add("reasoning.delta", clean_text(text))
            case ArgumentsDelta(text=text):
                about: JsonObject = {
                    "call_id": clean_text(delta.call_id)[:MAX_CALL_ID],
                    "tool": bounded_name(delta.name),
                }
                self._draft.add("tool_call.arguments.delta", clean_text(text), delta.index, about)
            case StreamRestart():
                self._draft.restart()
