"""One turn of a run: the checks before the model request, the request with retries and fallbacks,
and the checks of the requested calls before they are added to the ledger."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import Final

from pydantic_core import PydanticSerializationError

from runward.domain.events.values import RunErrorCode
from runward.domain.json import UnstorableError
from runward.domain.registry.guards import (
    Allow,
    HookFailure,
    Instead,
    NoChange,
)
from runward.domain.run import texts
from runward.domain.run.bounds import bounded_response
from runward.domain.run.budgets import BudgetWait
from runward.domain.run.config import truncates_input
from runward.domain.run.conversation import build_conversation
from runward.domain.run.decide import AskModel, Finish
from runward.domain.run.history import (
    BYTES_A_TOKEN,
    drop_oldest_items,
    trimmed_history,
)
from runward.domain.run.items import Message
from runward.domain.run.parsed_calls import ParsedResponse, Turn
from runward.domain.run.plan import UnusableResponseError, parse_response
from runward.domain.run.response import Loss, ModelResponse
from runward.domain.run.state import RunState
from runward.domain.run.status import RunStatus
from runward.domain.run.tools import CompiledTool
from runward.llm import failures, prompt_tools
from runward.llm.base import (
    Model,
    ModelDelta,
    ModelError,
    ModelRequest,
    OnDelta,
)
from runward.llm.capabilities import fit_request
from runward.llm.catalog import ModelNotInCatalogError
from runward.loop.breaker import OPEN, BreakerKey, compute_delay
from runward.loop.calls_in_flight import AvailableTools
from runward.loop.checks import (
    Checks,
    RequestedToolCall,
    finish_refused,
    make_replacement_response,
)
from runward.loop.engine import ModelAccess
from runward.loop.hosted_secrets import RequestWithSecrets, add_secrets
from runward.loop.model_notes import Note, RequestObserver
from runward.loop.reservations import Reservation, Reserve, count_fixed_bytes, estimate_usage
from runward.loop.spans import NO_TRACE, RunTrace
from runward.loop.tool_rules import choose_tool_choice
from runward.metrics.definitions import MODEL_ERRORS, MODEL_SECONDS, count_usage

MODEL_TIMEOUT: Final = 600.0
"""Default timeout of one model request in seconds. `timeout_seconds` in `model_settings` overrides
it."""
OUTPUT_SHARE: Final = 8
"""One part in this many of a context window is reserved for the output, if the run sets no
`max_output_tokens` and `truncation` is `auto`."""
FIRST_TOKEN_TIMEOUT: Final = 180.0
"""Default seconds until the first delta of a response. `first_token_timeout_seconds` overrides
it."""


@dataclass(frozen=True, slots=True)
class FailedAfterResponse:
    """The model responded, but the run fails. The usage of the response still counts."""

    response: ModelResponse
    finish: Finish


@dataclass(slots=True)
class ModelTurn:
    """A turn of a run. `state`: the run at the beginning of the turn."""

    models: ModelAccess
    available: AvailableTools
    checks: Checks
    state: RunState
    trace: RunTrace = NO_TRACE
    response: ModelResponse | None = None
    """The model's response, as soon as it is accepted."""
    reservation: Reservation = field(init=False)

    def __post_init__(self) -> None:
        self.reservation = Reservation(self.state.fence)

    async def ask(
        self,
        action: AskModel,
        tools: Mapping[str, CompiledTool],
        turn: Turn,
        *,
        tell: Callable[[Note], None],
        check: Callable[[], Awaitable[None]],
        reserve: Reserve,
    ) -> ParsedResponse | FailedAfterResponse | Finish | BudgetWait:
        """Return the accepted response with its reviewed calls, the end of the run, or the budget
        that has no room for the request. `tools`: the tools that the model sees. `check` is called
        before each model request, and `reserve` before the first one."""
        verdict = await self.checks.check_input(self.state)
        if not isinstance(verdict, Allow):
            return finish_refused(verdict, "run_input")
        request = build_request(self.state, tools, action)
        before = await self.checks.before_model(self.state, request.items)
        match before:
            case HookFailure(detail=detail):
                return Finish(RunStatus.FAILED, code=RunErrorCode.HOOK_FAILED, message=detail)
            case Instead():
                response = make_replacement_response(before)
            case NoChange():
                sent = await self._send(request, tell, check, reserve)
                if not isinstance(sent, ModelResponse):
                    return sent
                response = sent
        after = await self.checks.after_model(self.state, response)
        if isinstance(after, HookFailure):
            failed = Finish(RunStatus.FAILED, code=RunErrorCode.HOOK_FAILED, message=after.detail)
            return FailedAfterResponse(response, failed)
        self.response = after
        return await self.review(after, turn)

    async def _send(
        self,
        request: ModelRequest,
        tell: Callable[[Note], None],
        check: Callable[[], Awaitable[None]],
        reserve: Reserve,
    ) -> ModelResponse | Finish | BudgetWait:
        """Return the model's response. If the project has budgets, reserve the usage first."""
        if self.checks.policy.has_budgets:
            estimate = estimate_usage(self.models.prices, self.state.config.models, request)
            if (refused := await self.reservation.make(reserve, estimate)) is not None:
                return refused
        try:
            response = await ask_model(
                self.models, self.state, request, self.trace, tell=tell, check=check
            )
        except ModelError as error:
            self.reservation.end(None)
            return Finish(RunStatus.FAILED, code=error.code, message=error.message)
        self.reservation.end(response.usage)
        return response

    async def delegate(
        self, response: ModelResponse, turn: Turn
    ) -> ParsedResponse | FailedAfterResponse | Finish:
        """Review the response that starts the next agents of a workflow, unless an input guardrail
        rejects the run."""
        verdict = await self.checks.check_input(self.state)
        if not isinstance(verdict, Allow):
            return finish_refused(verdict, "run_input")
        return await self.review(response, turn)

    async def review(
        self, response: ModelResponse, turn: Turn
    ) -> ParsedResponse | FailedAfterResponse:
        """Parse the calls of a response. Add to each call whether it requires approval. For those
        that do, add the verdict of the `pre_approval` guardrails."""
        try:
            parsed = parse_response(self.state, response, turn)
        except UnusableResponseError as error:
            return FailedAfterResponse(response, finish_unusable(error))
        if not parsed.calls:
            return parsed
        calls = await self.available.add_approvals(parsed.calls, self.state)
        gated = {
            call.id: RequestedToolCall(self.available.sign_tool(call.tool), call.arguments)
            for call in calls
            if call.tool is not None and call.raw is None and call.needs_approval
        }
        verdicts = await self.checks.pre_approval(self.state, list(gated.values()))
        reviewed = [
            replace(call, verdict=verdicts[gated[call.id].key]) if call.id in gated else call
            for call in calls
        ]
        return replace(parsed, calls=tuple(reviewed))


def build_request(
    state: RunState, tools: Mapping[str, CompiledTool], ask: AskModel
) -> ModelRequest:
    """Return a model request without the model's name."""
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
        tool_choice=choose_tool_choice(state, tools),
        parallel_tool_calls=config.parallel_tool_calls,
        settings=config.model_settings,
        output_schema=config.output_schema,
        timeout_seconds=MODEL_TIMEOUT,
    )


async def ask_model(
    access: ModelAccess,
    state: RunState,
    request: ModelRequest,
    trace: RunTrace,
    *,
    tell: Callable[[Note], None],
    check: Callable[[], Awaitable[None]],
) -> ModelResponse:
    """Return the response of the first model that succeeds. `check` is called before each request,
    and may raise. Raises ModelError if all models failed."""
    turn, agent = state.turn + 1, state.agent
    with access.feed.open_draft(state.id, turn=turn, fence=state.fence, agent=agent) as draft:
        observer = RequestObserver(state, draft, tell, check, trace)
        names = state.config.models
        for name, following in zip(names, [*names[1:], None], strict=True):
            is_last = following is None
            try:
                return await _ask_one(access, state, name, request, observer, is_last=is_last)
            except ModelError as error:
                if following is None:
                    raise
                observer.retried(following, error, after=0.0)
    raise AssertionError("a run without a model requested a model response")


async def _ask_one(
    access: ModelAccess,
    state: RunState,
    name: str,
    request: ModelRequest,
    observer: RequestObserver,
    *,
    is_last: bool,
) -> ModelResponse:
    """Return the response of one model, with its cost if the price is known. Raises ModelError if
    the model should not be retried. If a fallback model exists, do not wait for a model that is
    down."""
    try:
        model, provider_name = (await access.models.of(state.project_id)).resolve(name)
    except ModelNotInCatalogError as error:
        raise ModelError(RunErrorCode.UNKNOWN_MODEL, str(error), transient=False) from error
    if state.config.limits.max_cost_usd is not None and (wrong := access.prices.find_problem(name)):
        raise ModelError(
            RunErrorCode.UNKNOWN_PRICE, f"The limit max_cost_usd {wrong}.", transient=False
        )
    request, dropped = _fit_context_window(access, state, name, request)
    fitting, losses = fit_request(replace(request, model=provider_name), model.abilities)
    ready = await add_secrets(fitting, partial(access.secrets, state.project_id))
    observer.lost(name, (*dropped, *losses, *ready.losses))
    key = state.project_id, name
    attempt = 1
    while True:
        await observer.check()
        error = access.breakers.refusal(key)
        if error is None:
            try:
                response = await _send(access, key, model, fitting, ready, observer)
            except ModelError as failure:
                error = failure
            else:
                observer.lost(name, response.losses)
                cost = access.prices.cost_usd(name, response.usage)
                usage = replace(response.usage, cost=cost or 0.0)
                count_usage(name, usage)
                return replace(response, usage=usage)
        # Waiting for a probe of the model does not count as an attempt. A probe can take minutes.
        waits = error.code == OPEN and access.breakers.is_probing(key)
        delay = compute_delay(error, 1 if waits else attempt)
        if delay is None or (error.code == OPEN and not is_last):
            raise error
        attempt += not waits
        observer.retried(name, error, after=delay)
        await asyncio.sleep(delay)


async def _send(
    access: ModelAccess,
    key: BreakerKey,
    model: Model,
    fitting: ModelRequest,
    ready: RequestWithSecrets,
    observer: RequestObserver,
) -> ModelResponse:
    """Send a request with its secrets, and measure it. The response and the ModelError contain no
    secrets."""
    name = key[1]
    provider, deltas, began = name.partition(":")[0], ready.deltas(observer.show), perf_counter()
    repaired = partial(observer.repaired, name)
    with observer.trace.ask_model(name, fitting) as span:
        try:
            response = await _attempt(access, key, model, ready.request, deltas.add, repaired)
        except ModelError as failure:
            MODEL_SECONDS.observe(perf_counter() - began, provider)
            MODEL_ERRORS.count(provider, failure.code)
            raise ready.redact_error(failure) from None
        MODEL_SECONDS.observe(perf_counter() - began, provider)
        deltas.end()
        response = ready.redact_response(response)
        span.set_response(response)
    return response


def _fit_context_window(
    access: ModelAccess, state: RunState, name: str, request: ModelRequest
) -> tuple[ModelRequest, tuple[Loss, ...]]:
    """Drop the oldest items if the run allows it and the model's context window is known. Runward
    estimates one token for every four bytes."""
    window = access.prices.find_context_window(name) if truncates_input(state.config) else None
    if window is None:
        return request, ()
    asked = request.settings.get("max_output_tokens")
    output = asked if isinstance(asked, int) else window // OUTPUT_SHARE
    fixed = count_fixed_bytes(request)
    kept = drop_oldest_items(request.items, max(0, window - output) * BYTES_A_TOKEN - fixed)
    count = len(request.items) - len(kept)
    if count == 0:
        return request, ()
    why = f"The {count} oldest items do not fit into the context window of {window} tokens."
    return replace(request, items=kept), (Loss("input", why),)


async def _attempt(
    access: ModelAccess,
    key: BreakerKey,
    model: Model,
    request: ModelRequest,
    on_delta: OnDelta,
    on_repair: Callable[[str], None],
) -> ModelResponse:
    """Send one request. The first delta must arrive in time. `on_repair`: see `prompt_tools`.
    Raises ModelError."""
    settings = dict(request.settings)
    in_prompt = settings.pop(prompt_tools.SETTING, None) is True
    first = settings.pop("first_token_timeout_seconds", None) or FIRST_TOKEN_TIMEOUT
    whole = settings.pop("timeout_seconds", None) or request.timeout_seconds
    assert isinstance(first, int | float)
    assert isinstance(whole, int | float)
    bound = None if settings.get("stream") is False or first >= whole else first
    asked = replace(request, settings=settings, timeout_seconds=whole)
    try:
        async with asyncio.timeout(bound) as timer:
            is_waiting = bound is not None

            def show(delta: ModelDelta) -> None:
                nonlocal is_waiting
                if is_waiting:
                    is_waiting = False
                    timer.reschedule(None)
                on_delta(delta)

            if in_prompt:
                responding = prompt_tools.respond(model, asked, show, on_repair)
            else:
                responding = model.respond(asked, show)
            response, _ = bounded_response(await responding)
    except (UnstorableError, PydanticSerializationError, RecursionError) as error:
        known = isinstance(error, UnstorableError)
        refused = failures.unstorable(
            str(error) if known else "the output contains a value that is not JSON"
        )
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


def finish_unusable(error: UnusableResponseError) -> Finish:
    return Finish(RunStatus.FAILED, code=error.code, message=error.message)
