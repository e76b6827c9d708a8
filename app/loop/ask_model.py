"""One turn: the request, its retries and fallbacks, and the deltas for those who watch."""

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Final, TypeAlias

import structlog

from app.domain import texts
from app.domain.agents import NamedTool
from app.domain.conversation import conversation
from app.domain.decide import AskModel
from app.domain.history import shown
from app.domain.items import Message
from app.domain.json import JsonObject
from app.domain.response import ModelResponse
from app.domain.state import RunState, tool_calls_of
from app.domain.toolbox import Tool
from app.llm.abilities import Loss, fitted
from app.llm.base import (
    ArgumentsDelta,
    Delta,
    ModelError,
    ModelRequest,
    ReasoningDelta,
    Restarted,
    TextDelta,
    ToolChoice,
)
from app.llm.catalog import UnknownModelError
from app.loop.leased import Engine
from app.store.drafts import Draft

log = structlog.get_logger()

ATTEMPTS: Final = 4
"""Requests to one model before the next one in line is asked."""
FIRST_DELAY, LONGEST_DELAY = 0.5, 30.0
"""Seconds between attempts; a vendor's Retry-After beyond the longest moves on to the next."""
MODEL_TIMEOUT: Final = 600.0
"""Seconds for one request, first byte to last."""


@dataclass(frozen=True, slots=True)
class Retried:
    """A failed attempt, for the log: `after` is the delay in seconds, `model` what is asked
    next."""

    model: str
    code: str
    message: str
    after: float

    def event(self) -> tuple[str, JsonObject]:
        return "model.retried", {
            "model": self.model,
            "code": self.code,
            "message": self.message,
            "after_seconds": round(self.after, 3),
        }


@dataclass(frozen=True, slots=True)
class Downgraded:
    """A part of the request that the model cannot be told."""

    model: str
    loss: Loss

    def event(self) -> tuple[str, JsonObject]:
        about: JsonObject = {"model": self.model, "what": self.loss.what, "why": self.loss.why}
        return "model.downgraded", about


Note: TypeAlias = Retried | Downgraded


def request_for(state: RunState, tools: Mapping[str, Tool], ask: AskModel) -> ModelRequest:
    """Everything but the model's name."""
    config = state.config
    items = (*shown(state.history, config.history, state.calls), *conversation(state))
    if ask.tools_off:
        items = (*items, Message("user", texts.SUMMARISE))
    return ModelRequest(
        model="",
        instructions=config.instructions,
        items=items,
        tools=() if ask.tools_off else tuple(tool.spec for tool in tools.values()),
        tool_choice=_choice(state, tools),
        parallel_tool_calls=config.parallel_tool_calls,
        settings=config.model_settings,
        output_schema=config.output_schema,
        timeout_seconds=MODEL_TIMEOUT,
    )


def _choice(state: RunState, tools: Mapping[str, Tool]) -> ToolChoice:
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
    return any(one.agent == state.agent and tool_calls_of(one) for one in state.segments)


async def ask_model(
    engine: Engine, state: RunState, request: ModelRequest, tell: Callable[[Note], None]
) -> ModelResponse:
    """The first model in line that answers. Raises ModelError when every one has failed."""
    turn, agent = state.turn + 1, state.agent
    with engine.feed.draft(state.id, turn=turn, fence=state.fence, agent=agent) as draft:
        return await _ask_in_turn(engine, state, request, _Watch(state, draft, tell))


async def _ask_in_turn(
    engine: Engine, state: RunState, request: ModelRequest, watch: "_Watch"
) -> ModelResponse:
    first, *others = state.config.models
    try:
        return await _ask_one(engine, first, request, watch)
    except ModelError as error:
        last = error
    for name in others:
        watch.retried(name, last, after=0.0)
        try:
            return await _ask_one(engine, name, request, watch)
        except ModelError as error:
            last = error
    raise last


async def _ask_one(
    engine: Engine, name: str, request: ModelRequest, watch: "_Watch"
) -> ModelResponse:
    """Its cost is as far as prices are known. Raises ModelError when the model is not asked
    again."""
    try:
        model, vendor_name = engine.models.resolve(name)
    except UnknownModelError as error:
        raise ModelError("unknown_model", str(error), transient=False) from error
    fitting, losses = fitted(replace(request, model=vendor_name), model.abilities)
    for loss in losses:
        watch.tell(Downgraded(name, loss))
    for attempt in count(1):
        try:
            response = await model.respond(fitting, watch.show)
            cost = engine.prices.cost_usd(name, response.usage)
            return replace(response, usage=replace(response.usage, cost=cost or 0.0))
        except ModelError as error:
            delay = _delay(error, attempt)
            if delay is None:
                raise
            watch.retried(name, error, after=delay)
        await asyncio.sleep(delay)
    raise AssertionError("count() does not end")


def _delay(error: ModelError, attempt: int) -> float | None:
    """Seconds until the same model is asked again; None: it is not."""
    wish = error.retry_after or 0.0
    if not error.transient or attempt >= ATTEMPTS or wish > LONGEST_DELAY:
        return None
    backoff = min(LONGEST_DELAY, FIRST_DELAY * 2 ** (attempt - 1))
    return max(wish, backoff * random.random())  # noqa: S311  # jitter, not a secret


class _Watch:
    """Who is told what happens meanwhile: the log of the run, and those who watch it live."""

    def __init__(self, state: RunState, draft: Draft, tell: Callable[[Note], None]) -> None:
        self.tell = tell
        self._state = state
        self._draft = draft

    def retried(self, model: str, error: ModelError, *, after: float) -> None:
        """`model` is asked next, `after` seconds."""
        log.info("model_retried", run=str(self._state.id), model=model, code=error.code)
        self.tell(Retried(model, error.code, error.message, after))
        self._draft.restart()

    def show(self, delta: Delta) -> None:
        match delta:
            case TextDelta(text=text):
                self._draft.add("message.delta", text)
            case ReasoningDelta(text=text):
                self._draft.add("reasoning.delta", text)
            case ArgumentsDelta():
                about: JsonObject = {"call_id": delta.call_id, "tool": delta.name}
                self._draft.add("tool_call.arguments.delta", delta.text, delta.index, about)
            case Restarted():
                self._draft.restart()
