"""Report the progress of a model request to the run's log and to the readers of the run."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import structlog

from runward.domain.events.kinds import ModelRetriedEvent, ModelSettingDroppedEvent
from runward.domain.ids import Prefix, format_id
from runward.domain.json import JsonObject, clean_text
from runward.domain.run.bounds import MAX_CALL_ID, bounded_name
from runward.domain.run.response import Loss
from runward.domain.run.state import RunState
from runward.llm import prompt_tools
from runward.llm.base import (
    ArgumentsDelta,
    ModelDelta,
    ModelError,
    ReasoningDelta,
    StreamRestart,
    TextDelta,
)
from runward.loop.spans import RunTrace
from runward.metrics.definitions import RETRIES
from runward.store.live.drafts import Draft

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class RetryNote:
    """A failed attempt, for the log. `after`: the delay in seconds. `model`: the model of the next
    request."""

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
    """A part of the request that the model does not support."""

    model: str
    loss: Loss

    def event(self) -> ModelSettingDroppedEvent:
        return ModelSettingDroppedEvent(
            {"model": self.model, "setting": self.loss.part, "reason": self.loss.reason}
        )


Note: TypeAlias = RetryNote | LossNote


class RequestObserver:
    """Reports the model requests of one turn. `check` is called before each request, and may
    raise."""

    def __init__(
        self,
        state: RunState,
        draft: Draft,
        tell: Callable[[Note], None],
        check: Callable[[], Awaitable[None]],
        trace: RunTrace,
    ) -> None:
        self.tell = tell
        self.trace = trace
        self.check = check
        self._state = state
        self._draft = draft

    def lost(self, model: str, losses: Iterable[Loss]) -> None:
        for loss in losses:
            self.tell(LossNote(model, loss))

    def retried(self, model: str, error: ModelError, *, after: float) -> None:
        """Report a failed attempt. The next request goes to `model` in `after` seconds."""
        log.info(
            "model_retried", run=format_id(Prefix.RUN, self._state.id), model=model, code=error.code
        )
        RETRIES.count("model")
        self.tell(RetryNote(model, error.code, error.message, after))
        self._draft.restart()

    def repaired(self, model: str, problem: str) -> None:
        """Report a request that asks the model to correct its calls."""
        self.tell(RetryNote(model, prompt_tools.SETTING, problem, after=0.0))

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
