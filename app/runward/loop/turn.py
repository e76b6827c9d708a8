"""One turn of a run: the checks before the request, the model's response, and the checks of its
calls before they enter the ledger."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
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
from runward.domain.run.plan import ParsedResponse, Turn, UnusableResponseError, parse_response
from runward.domain.run.response import ModelResponse
from runward.domain.run.state import RunState
from runward.domain.run.status import RunStatus
from runward.domain.run.tools import CompiledTool
from runward.llm.base import ModelError
from runward.loop.ask_model import Note, ask_model, build_request
from runward.loop.available_tools import AvailableTools
from runward.loop.checks import Checks, RequestedToolCall, make_replacement_response
from runward.loop.engine import ModelAccess

HOOK_FAILED: Final = "hook_failed"
GUARDRAIL: Final = "guardrail"


@dataclass(frozen=True, slots=True)
class FailedAfterResponse:
    """The model answered, and the run fails nevertheless. The answer is paid for all the same."""

    response: ModelResponse
    finish: Finish


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """`state`: the run as it is when the turn begins."""

    models: ModelAccess
    available: AvailableTools
    checks: Checks
    state: RunState

    async def ask(
        self,
        action: AskModel,
        tools: Mapping[str, CompiledTool],
        *,
        tell: Callable[[Note], None],
        check: Callable[[], Awaitable[None]],
    ) -> ModelResponse | FailedAfterResponse | Finish:
        """Return the response that counts, or how the run ends without one. `tools`: those that the
        model is shown. `check` is called before each model request."""
        verdict = await self.checks.check_input(self.state)
        if not isinstance(verdict, Allow):
            return finish_refused(verdict, "run_input")
        request = build_request(self.state, tools, action)
        before = await self.checks.before_model(self.state, request.items)
        match before:
            case HookFailure(detail=detail):
                return Finish(RunStatus.FAILED, code=HOOK_FAILED, message=detail)
            case Instead():
                response = make_replacement_response(before)
            case NoChange():
                try:
                    response = await ask_model(
                        self.models, self.state, request, tell=tell, check=check
                    )
                except ModelError as error:
                    return Finish(RunStatus.FAILED, code=error.code, message=error.message)
        after = await self.checks.after_model(self.state, response)
        if isinstance(after, HookFailure):
            failed = Finish(RunStatus.FAILED, code=HOOK_FAILED, message=after.detail)
            return FailedAfterResponse(response, failed)
        return after

    async def review(
        self, response: ModelResponse, turn: Turn
    ) -> ParsedResponse | FailedAfterResponse:
        """Parse the calls of a response, and add to each whether it needs approval and, if so, what
        guardrails say before a person is asked."""
        try:
            parsed = parse_response(self.state, response, turn)
        except UnusableResponseError as error:
            return FailedAfterResponse(response, finish_unusable(error))
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


def has_output_to_check(action: Finish) -> bool:
    """Return whether the run ends with an output, which guardrails see first, also where it is
    incomplete."""
    unfinished = action.status is RunStatus.INCOMPLETE and action.output is not None
    refused = action.code == GUARDRAIL
    return not refused and (unfinished or action.status is RunStatus.COMPLETED)


async def check_output(checks: Checks, state: RunState, action: Finish) -> Finish:
    """Return how the run ends once guardrails have seen its output."""
    verdict: GuardrailVerdict = await checks.check_output(state, action.output)
    return action if isinstance(verdict, Allow) else finish_refused(verdict, "run_output")


def finish_refused(verdict: Reject | Fail, stage: Stage) -> Finish:
    """Return how a run ends whose input or output a guardrail refused. The name of the guardrail
    and its reason are for operators."""
    reason = verdict.detail or verdict.message
    if isinstance(verdict, Fail):
        return Finish(RunStatus.FAILED, code=GUARDRAIL, message=reason, refused=stage)
    return Finish(
        RunStatus.INCOMPLETE, verdict.message, code=GUARDRAIL, message=reason, refused=stage
    )


def finish_unusable(error: UnusableResponseError) -> Finish:
    return Finish(RunStatus.FAILED, code=error.code, message=error.message)
