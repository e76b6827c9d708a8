"""One turn of an agent with a model: what stands before it, the request, what stands after it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from runward.domain.registry.guards import (
    Allow,
    Fail,
    GuardrailVerdict,
    HookFailure,
    Instead,
    NoChange,
    Reject,
    Stage,
)
from runward.domain.run.decide import AskModel, Finish
from runward.domain.run.plan import Turn, parse_requests
from runward.domain.run.response import ModelResponse
from runward.domain.run.state import RunState
from runward.domain.run.status import RunStatus
from runward.domain.run.tools import CompiledTool, needs_approval
from runward.llm.base import ModelError
from runward.loop.ask_model import Note, ask_model, build_request
from runward.loop.checks import Checks, RequestedToolCall, make_replacement_response
from runward.loop.leased_run import Engine
from runward.loop.toolbox import SignedTool, evaluate_approvals
from runward.store.postgres.db import mint

HOOK_FAILED: Final = "hook_failed"
GUARDRAIL: Final = "guardrail"


@dataclass(frozen=True, slots=True)
class FailedAfterResponse:
    """The model answered, and a hook behind it failed. The answer is paid for all the same."""

    response: ModelResponse
    finish: Finish


async def ask(
    engine: Engine,
    guarding: Checks,
    state: RunState,
    shown: Mapping[str, CompiledTool],
    action: AskModel,
    *,
    tell: Callable[[Note], None],
    check: Callable[[], Awaitable[None]],
) -> ModelResponse | FailedAfterResponse | Finish:
    """The response that counts, or how the run ends without one. `check` is called before each
    model request."""
    refused = await find_refused_input(guarding, state)
    if refused is not None:
        return refused
    request = build_request(state, shown, action)
    before = await guarding.before_model(state, request.items)
    match before:
        case HookFailure(detail=detail):
            return Finish(RunStatus.FAILED, code=HOOK_FAILED, message=detail)
        case Instead():
            response = make_replacement_response(before)
        case NoChange():
            try:
                response = await ask_model(engine, state, request, tell=tell, check=check)
            except ModelError as error:
                return Finish(RunStatus.FAILED, code=error.code, message=error.message)
    after = await guarding.after_model(state, response)
    if isinstance(after, HookFailure):
        failed = Finish(RunStatus.FAILED, code=HOOK_FAILED, message=after.detail)
        return FailedAfterResponse(response, failed)
    return after


async def find_refused_input(guarding: Checks, state: RunState) -> Finish | None:
    """How the run ends if what came in since the last turn is refused."""
    verdict = await guarding.check_input(state)
    return None if isinstance(verdict, Allow) else finish_refused(verdict, "run_input")


async def prepare_turn(
    engine: Engine,
    guarding: Checks,
    state: RunState,
    response: ModelResponse,
    shown: Mapping[str, CompiledTool],
    armed: Callable[[CompiledTool], SignedTool],
) -> Turn:
    """What is known about the calls of a response before they enter the ledger: what rules
    and plugins say about approval, and guardrails before a person is asked."""
    requests = parse_requests(response, shown)
    answered = await evaluate_approvals(shown, requests, state, engine)
    gated = [
        RequestedToolCall(armed(shown[name]), arguments)
        for name, arguments in requests
        if needs_approval(shown[name], arguments, answered)
    ]
    verdicts = await guarding.pre_approval(state, gated)
    return Turn(shown, mint, answered=answered, verdicts=verdicts)


def finish_refused(verdict: Reject | Fail, stage: Stage) -> Finish:
    """How a run ends whose input or output a guardrail refused. Which one it was, and why, is for
    operators."""
    why = verdict.detail or verdict.message
    if isinstance(verdict, Fail):
        return Finish(RunStatus.FAILED, code=GUARDRAIL, message=why, refused=stage)
    told = verdict.message
    return Finish(RunStatus.INCOMPLETE, told, code=GUARDRAIL, message=why, refused=stage)


def has_output_to_check(action: Finish) -> bool:
    """A run that ends with an output shows it to guardrails first, also where it is incomplete."""
    unfinished = action.status is RunStatus.INCOMPLETE and action.output is not None
    theirs = action.code == GUARDRAIL
    return not theirs and (unfinished or action.status is RunStatus.COMPLETED)


async def check_output(guarding: Checks, state: RunState, action: Finish) -> Finish:
    """How the run ends once guardrails have seen its output."""
    verdict: GuardrailVerdict = await guarding.check_output(state, action.output)
    return action if isinstance(verdict, Allow) else finish_refused(verdict, "run_output")
