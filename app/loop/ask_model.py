"""One turn: the request, its retries and fallbacks, and the deltas for those who watch."""

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import structlog
from pydantic import JsonValue

from app.domain import texts
from app.domain.agents import NamedTool
from app.domain.conversation import conversation
from app.domain.decide import AskModel
from app.domain.ids import Prefix, show
from app.domain.items import Message
from app.domain.json import compact
from app.domain.response import ModelResponse
from app.domain.state import RunState
from app.domain.toolbox import Tool
from app.llm.base import (
    ArgumentsDelta,
    Delta,
    ModelError,
    ModelRequest,
    Restarted,
    TextDelta,
    ToolChoice,
)
from app.llm.catalog import ModelCatalog, UnknownModelError
from app.store.notify import Feed, TransientEvent

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


def request_for(state: RunState, tools: Mapping[str, Tool], ask: AskModel) -> ModelRequest:
    """Everything but the model's name."""
    config = state.config
    items = conversation(state)
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
    if config.reset_tool_choice and state.calls:
        return "auto"
    if isinstance(config.tool_choice, NamedTool):
        name = config.tool_choice.name
        return {"name": name} if name in tools else "auto"
    return config.tool_choice if tools else "auto"


async def ask_model(
    models: ModelCatalog,
    state: RunState,
    request: ModelRequest,
    feed: Feed,
    on_retry: Callable[[Retried], None],
) -> ModelResponse:
    """Raises ModelError when every model has failed."""
    last: ModelError | None = None
    show_delta = _shower(state, feed)
    for name in state.config.models:
        try:
            model, vendor_name = models.resolve(name)
        except UnknownModelError as error:
            last = ModelError("unknown_model", str(error), transient=False)
            continue
        named = ModelRequest(
            vendor_name,
            request.instructions,
            request.items,
            request.tools,
            request.tool_choice,
            request.parallel_tool_calls,
            request.settings,
            request.output_schema,
            request.timeout_seconds,
        )
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await model.respond(named, show_delta)
            except ModelError as error:
                last = error
                delay = _delay(error, attempt)
                if delay is None:
                    break
            log.info("model_retried", run=str(state.id), model=name, code=last.code)
            on_retry(Retried(name, last.code, last.message, delay))
            show_delta(Restarted())
            await asyncio.sleep(delay)
    assert last is not None
    raise last


def _delay(error: ModelError, attempt: int) -> float | None:
    """Seconds until the same model is asked again; None: it is not."""
    wish = error.retry_after or 0.0
    if not error.transient or attempt >= ATTEMPTS or wish > LONGEST_DELAY:
        return None
    backoff = min(LONGEST_DELAY, FIRST_DELAY * 2 ** (attempt - 1))
    return max(wish, backoff * random.random())  # noqa: S311  # jitter, not a secret


def _shower(state: RunState, feed: Feed) -> Callable[[Delta], None]:
    """Deltas cost something, so they are only made while somebody watches."""
    turn = state.turn + 1
    run = show(Prefix.RUN, state.id)

    def show_delta(delta: Delta) -> None:
        if not feed.followed(state.id):
            return
        data: dict[str, JsonValue] = {"turn": turn, "agent": state.agent}
        match delta:
            case TextDelta(text=text):
                kind = "message.delta"
                data["text"] = text
            case ArgumentsDelta():
                kind = "tool_call.arguments.delta"
                data |= {"call_id": delta.call_id, "tool": delta.name, "text": delta.text}
            case Restarted():
                kind = "message.restarted"
        shown = compact({"type": kind, "run_id": run, "data": data})
        feed.publish_transient(state.id, TransientEvent(kind, shown))

    return show_delta
