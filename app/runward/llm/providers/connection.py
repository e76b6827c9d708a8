"""A connection to one provider: its client library, pydantic-ai's models, and one request.

Runward's loop retries, limits the time and computes prices, so the libraries do not. pydantic-ai's
`direct` functions only send the request. They use no agents and start no telemetry.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from anyio.to_thread import current_default_thread_limiter
from pydantic_ai import ModelMessage, ModelResponse, RequestUsage
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.models import Model

from runward.domain.run.response import Loss
from runward.domain.run.response import ModelResponse as Answer
from runward.llm.base import ModelError, ModelRequest, OnDelta
from runward.llm.failures import broken_stream, invalid_response
from runward.llm.providers.access import ProviderAccess, ProviderName
from runward.llm.providers.clients import CLIENT_FACTORIES, OpenProvider
from runward.llm.providers.failures import model_error, refuses_strict, remaining_tokens
from runward.llm.providers.parameters import Plan, plan_request
from runward.llm.providers.request import messages
from runward.llm.providers.response import DeltaStream, has_ended, keep_first_call, read_answers
from runward.llm.providers.tools import ToolDefinitions

MAX_MODELS: Final = 256
"""Maximum number of models of one provider that are cached."""
MAX_PAUSES: Final = 16
"""Maximum number of times that a provider can pause one response (Anthropic's `pause_turn`).
Runward requests the continuation after each pause."""


class ProviderConnection:
    def __init__(self, provider: ProviderName, access: ProviderAccess) -> None:
        self._provider: ProviderName = provider
        self._secret = access.secret
        self._opened: OpenProvider = CLIENT_FACTORIES[provider](access)
        self._models: dict[str, Model] = {}
        self._definitions = ToolDefinitions()
        _warm_up()

    async def aclose(self) -> None:
        await self._opened.close()

    def _use_threads(self) -> None:
        """Increase the maximum number of anyio's threads for the running event loop. The default is
        40, and pydantic-ai reads boto3's responses on these threads."""
        limiter = current_default_thread_limiter()
        limiter.total_tokens = max(limiter.total_tokens, self._opened.threads)

    async def ask(self, request: ModelRequest, on_delta: OnDelta) -> Answer:
        self._use_threads()
        model = self._model(request.model)
        said, standing = messages(request.items, model, self._provider)
        strict, room, losses = True, None, list[Loss]()
        while True:
            plan = plan_request(
                request,
                model,
                self._provider,
                self._definitions,
                standing,
                strict=strict,
                max_output_tokens=room,
            )
            plan.losses += losses
            try:
                return await self._ask(request, model, said, plan, on_delta)
            except _StrictRefusedError:
                strict = False
                why = (
                    f"{self._provider}:{request.model} does not accept these schemas in "
                    "strict mode."
                )
                losses.append(Loss("strict", why))
            except _NoRoomError as refused:
                room = refused.room

    async def _ask(
        self,
        request: ModelRequest,
        model: Model,
        messages: list[ModelMessage],
        plan: Plan,
        on_delta: OnDelta,
    ) -> Answer:
        shown = DeltaStream(on_delta, one_call=plan.one_call)
        once = _ask_streaming if request.settings.get("stream") is not False else _ask_whole
        try:
            answers = await _ask_until_complete(once, model, messages, plan, shown)
            answer = read_answers(answers, request.tools, self._provider)
        except ModelError:
            raise
        except Exception as error:
            strict = any(tool.strict for tool in plan.parameters.function_tools)
            if strict and refuses_strict(error):
                raise _StrictRefusedError from error
            if plan.own_limit and (room := remaining_tokens(str(error))) is not None:
                raise _NoRoomError(room) from error
            raise model_error(
                error, self._provider, self._secret, has_output=shown.begun
            ) from error
        losses = [*plan.losses]
        if plan.one_call:
            answer, dropped = keep_first_call(answer)
            if dropped:
                why = (
                    f"{self._provider} requested {dropped + 1} calls at once. Runward "
                    "kept only the first."
                )
                losses.append(Loss("parallel_tool_calls", why))
        return Answer(answer.output, answer.finish, answer.usage, tuple(losses))

    def _model(self, name: str) -> Model:
        if (model := self._models.get(name)) is None:
            if len(self._models) >= MAX_MODELS:
                self._models.clear()
            model = self._models[name] = self._opened.model(name)
        return model


class _StrictRefusedError(Exception):
    pass


class _NoRoomError(Exception):
    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room


_AskOnce = Callable[[Model, list[ModelMessage], Plan, DeltaStream], Awaitable[ModelResponse]]


async def _ask_until_complete(
    once: _AskOnce, model: Model, messages: list[ModelMessage], plan: Plan, deltas: DeltaStream
) -> list[ModelResponse]:
    """Return the response, and its continuations if the provider paused it."""
    answers: list[ModelResponse] = []
    for _ in range(MAX_PAUSES):
        answer = await once(model, [*messages, *answers], plan, deltas)
        answers.append(answer)
        if answer.state != "suspended":
            return answers
    raise invalid_response(f"the provider paused the response {MAX_PAUSES} times")


async def _ask_streaming(
    model: Model, messages: list[ModelMessage], plan: Plan, deltas: DeltaStream
) -> ModelResponse:
    async with model_request_stream(
        model,
        messages,
        model_settings=plan.model_settings,
        model_request_parameters=plan.parameters,
        instrument=False,
    ) as stream:
        async for event in stream:
            deltas.feed(event)  # pyright: ignore[reportArgumentType]
        answer = stream.get()
    if not has_ended(answer):
        raise broken_stream()
    return answer


async def _ask_whole(
    model: Model, messages: list[ModelMessage], plan: Plan, deltas: DeltaStream
) -> ModelResponse:
    answer = await model_request(
        model,
        messages,
        model_settings=plan.model_settings,
        model_request_parameters=plan.parameters,
        instrument=False,
    )
    if not has_ended(answer):
        raise invalid_response("the response does not state why it ended")
    return answer


def _warm_up() -> None:
    """Load pydantic-ai's table of prices, so that it does not delay the first response."""
    usage = {"model": "", "usage": {"input_tokens": 0, "output_tokens": 0}}
    RequestUsage.extract(
        usage, provider="anthropic", provider_url="", provider_fallback="anthropic"
    )
