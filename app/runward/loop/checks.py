"""All guardrails and hooks of one run, in this order: of the tool, of the agent, of the project.
The first guardrail that does not allow decides, and the first hook that replaces something decides.
If no guardrails or hooks are set, these functions make no requests."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, assert_never

from runward.domain.ids import Prefix, format_id
from runward.domain.json import JsonObject, canonical, compute_digest
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
    Reject,
    Stage,
)
from runward.domain.run import texts
from runward.domain.run.changed_calls import (
    InvalidCallsError,
    change_calls,
    identify_calls,
    replace_message,
)
from runward.domain.run.decide import Finish
from runward.domain.run.failures import make_guardrail_failure
from runward.domain.run.items import Item
from runward.domain.run.outcomes import Done, Failed, FailureKind
from runward.domain.run.response import ModelResponse, ReplacedCalls
from runward.domain.run.state import Call, Result, RunState
from runward.domain.run.status import RunStatus
from runward.loop import guard_payloads as payloads
from runward.loop.guard_payloads import VisibleResult
from runward.loop.project_cache import ProjectPolicy
from runward.loop.toolbox import SignedTool
from runward.store.postgres.db import mint
from runward.tools.guards import GuardClient, GuardQuestion, describe_guard

SMALLEST_SECONDS: Final = 0.01
GUARDRAIL: Final = "guardrail"
NO_TIME_LEFT: Final = "The guardrails and hooks before the call used all of the call's time."

SecondsLeft: TypeAlias = Callable[[], float]


@dataclass(frozen=True, slots=True)
class RequestedToolCall:
    """A call that requires approval and is not in the ledger yet."""

    signed_tool: SignedTool
    arguments: JsonObject

    @property
    def key(self) -> tuple[str, str]:
        return self.signed_tool.tool.name, canonical(self.arguments)


@dataclass(frozen=True, slots=True)
class Checks:
    guards: GuardClient
    policy: ProjectPolicy

    # Around one call.

    def checks_results(self, state: RunState, signed_tool: SignedTool) -> bool:
        """Return whether guardrails or hooks check a result of this tool before the model reads
        it."""
        checks = self._guardrails(state, "output", signed_tool)
        return bool(checks or self._hooks(state, "after_tool"))

    async def before_call(
        self, state: RunState, call: Call, signed_tool: SignedTool, seconds_left: SecondsLeft
    ) -> Done | Failed | None:
        """Check a call before it is sent. Return None if Runward should send it. The time of the
        call includes these checks."""
        guardrails = self._guardrails(state, "input", signed_tool)
        if guardrails or self._hooks(state, "before_tool"):
            replaced = await self._check_before_call(state, call, guardrails, seconds_left)
            if replaced is not None:
                return replaced
        spent = seconds_left() <= 0
        return Failed(FailureKind.NOT_SENT, NO_TIME_LEFT, permanent=True) if spent else None

    async def _check_before_call(
        self,
        state: RunState,
        call: Call,
        guardrails: Sequence[tuple[Guardrail, tuple[str, ...]]],
        seconds_left: SecondsLeft,
    ) -> Done | Failed | None:
        about = payloads.describe_call(call)
        call_id = format_id(Prefix.CALL, call.uuid)
        verdict = await self._run_guardrails(
            guardrails,
            lambda: payloads.build_guardrail_payload(state, "input", about),
            f"{call_id}_input",
            seconds_left,
        )
        if not isinstance(verdict, Allow):
            return make_guardrail_failure(verdict)
        answer, _ = await self._run_hooks(
            state, "before_tool", call.turn, about, call_id, seconds_left
        )
        match answer:
            case Instead(value=value, metadata=metadata):
                return Done(value, metadata=metadata)
            case HookFailure(detail=detail):
                return make_guardrail_failure(Reject(texts.HOOK_FAILED, detail))
            case NoChange():
                return None
            case _:
                assert_never(answer)

    async def after_call(
        self,
        state: RunState,
        call: Call,
        signed_tool: SignedTool,
        outcome: Done | Failed,
        result: Result,
    ) -> Done | Failed:
        """Check the outcome of a call. `result`: the result that the model would read. Each
        guardrail and hook has its own timeout, because the call's time may be used up. A call that
        was certainly not sent has no result to check."""
        never_sent = isinstance(outcome, Failed) and outcome.reason is FailureKind.NOT_SENT
        if never_sent and call.attempt <= 1:
            return outcome
        seen = VisibleResult.of(result)
        about = payloads.describe_call(call, seen)
        call_id = format_id(Prefix.CALL, call.uuid)
        answer, _ = await self._run_hooks(state, "after_tool", call.turn, about, call_id)
        match answer:
            case Instead():
                outcome, about = (
                    _replace_output(outcome, answer),
                    payloads.describe_call(call, VisibleResult(answer.value)),
                )
                result = replace(result, fails_run=False)
            case HookFailure(detail=detail):
                return _withhold_result(Reject(texts.OUTPUT_HOOK_FAILED, detail), result)
            case NoChange():
                pass
            case _:
                assert_never(answer)
        verdict = await self._run_guardrails(
            self._guardrails(state, "output", signed_tool),
            lambda: payloads.build_guardrail_payload(state, "output", about),
            f"{call_id}_output",
        )
        return outcome if isinstance(verdict, Allow) else _withhold_result(verdict, result)

    async def pre_approval(
        self, state: RunState, calls: Sequence[RequestedToolCall]
    ) -> dict[tuple[str, str], GuardrailVerdict]:
        """Return, for each `RequestedToolCall.key`, whether Runward may create an approval. Calls
        are checked concurrently, and equal calls once."""
        if not calls:
            return {}
        found: dict[tuple[str, str], GuardrailVerdict] = {one.key: Allow() for one in calls}
        tasks: dict[tuple[str, str], asyncio.Task[GuardrailVerdict]] = {}
        async with asyncio.TaskGroup() as group:
            for one in calls:
                if one.key not in tasks and self._guardrails(
                    state, "pre_approval", one.signed_tool
                ):
                    tasks[one.key] = group.create_task(self._check_before_approval(state, one))
        return found | {key: task.result() for key, task in tasks.items()}

    async def _check_before_approval(
        self, state: RunState, one: RequestedToolCall
    ) -> GuardrailVerdict:
        tool = one.signed_tool.tool
        about: JsonObject = {
            "tool": tool.name,
            "tool_version": tool.version,
            "arguments": one.arguments,
        }
        return await self._run_guardrails(
            self._guardrails(state, "pre_approval", one.signed_tool),
            lambda: payloads.build_guardrail_payload(state, "pre_approval", about),
            f"{format_id(Prefix.RUN, state.id)}_pre_approval_{compute_digest(dict(about))[-16:]}",
        )

    # Around the model.

    async def before_model(self, state: RunState, items: Sequence[Item]) -> HookAnswer:
        """Run the hooks before a model request. `Instead` contains the message that replaces the
        model's response."""
        if not self._hooks(state, "before_model"):
            return NoChange()
        answer, _ = await self._run_model_hooks(
            state, "before_model", payloads.describe_conversation(items)
        )
        return answer

    async def after_model(
        self, state: RunState, response: ModelResponse
    ) -> ModelResponse | HookFailure:
        """Run the hooks after a model response. A message without calls also replaces the calls of
        the response. The response contains the model's calls if a hook changed them."""
        if not self._hooks(state, "after_model"):
            return response
        response = identify_calls(response, mint)
        answer, hook = await self._run_model_hooks(
            state, "after_model", payloads.describe_response(response)
        )
        match answer:
            case NoChange():
                return response
            case Instead():
                return _change_response(state, response, answer, hook)
            case HookFailure():
                return answer
            case _:
                assert_never(answer)

    async def _run_model_hooks(
        self, state: RunState, on: HookPoint, about: JsonObject
    ) -> tuple[HookAnswer, str]:
        turn = state.turn + 1
        about_id = f"{format_id(Prefix.RUN, state.id)}_{turn}"
        return await self._run_hooks(state, on, turn, about, about_id)

    # Around the run.

    async def check_input(self, state: RunState) -> GuardrailVerdict:
        """Check the input in each turn: the messages that arrived after the last model request."""
        guardrails = self._guardrails(state, "run_input")
        if not guardrails or not (items := payloads.describe_new_input(state)):
            return Allow()
        return await self._run_guardrails(
            guardrails,
            lambda: payloads.build_guardrail_payload(state, "run_input", {"input": items}),
            f"{format_id(Prefix.RUN, state.id)}_{state.turn + 1}_run_input",
        )

    def checks_finish(self, state: RunState, action: Finish) -> bool:
        """Return whether the run ends with an output that guardrails check. This includes
        incomplete runs."""
        unfinished = action.status is RunStatus.INCOMPLETE and action.output is not None
        refused = action.code == GUARDRAIL
        has_output = not refused and (unfinished or action.status is RunStatus.COMPLETED)
        return has_output and bool(self._guardrails(state, "run_output"))

    async def check_finish(self, state: RunState, action: Finish) -> Finish:
        """Return how the run ends after guardrails have checked its output."""
        verdict = await self._run_guardrails(
            self._guardrails(state, "run_output"),
            lambda: payloads.build_guardrail_payload(
                state, "run_output", {"output": action.output}
            ),
            f"{format_id(Prefix.RUN, state.id)}_{state.turn}_run_output",
        )
        return action if isinstance(verdict, Allow) else finish_refused(verdict, "run_output")

    # The guardrails and hooks, in order.

    def _guardrails(
        self, state: RunState, stage: Stage, armed: SignedTool | None = None
    ) -> list[tuple[Guardrail, tuple[str, ...]]]:
        """Return the guardrails of the stage, each with its signing secrets."""
        own = armed.tool.spec.guardrails if armed else ()
        shared = (*state.config.guardrails, *self.policy.guardrails)
        found = [(one, armed.secrets) for one in own if armed and one.stage == stage]
        return found + [(one, self.policy.secrets) for one in shared if one.stage == stage]

    def _hooks(self, state: RunState, on: HookPoint) -> list[Hook]:
        return [one for one in (*state.config.hooks, *self.policy.hooks) if one.on == on]

    async def _run_guardrails(
        self,
        guardrails: Sequence[tuple[Guardrail, tuple[str, ...]]],
        payload: Callable[[], JsonObject],
        message_id: str,
        left: SecondsLeft | None = None,
    ) -> GuardrailVerdict:
        for number, (guardrail, secrets) in enumerate(guardrails):
            seconds = _seconds(guardrail.timeout_seconds, left)
            question = GuardQuestion(f"{message_id}_{number}", payload(), secrets, seconds)
            verdict = await self.guards.ask_guardrail(guardrail, question)
            if not isinstance(verdict, Allow):
                return replace(
                    verdict, detail=_describe_verdict(describe_guard(guardrail), verdict)
                )
        return Allow()

    async def _run_hooks(
        self,
        state: RunState,
        on: HookPoint,
        turn: int,
        about: JsonObject,
        about_id: str,
        left: SecondsLeft | None = None,
    ) -> tuple[HookAnswer, str]:
        """Return the first answer that changes something, and the description of its hook."""
        for number, hook in enumerate(self._hooks(state, on)):
            question = GuardQuestion(
                f"{about_id}_{on}_{number}",
                payloads.build_hook_payload(state, on, turn=turn, about=about),
                self.policy.secrets,
                _seconds(hook.timeout_seconds, left),
            )
            answer = await self.guards.ask_hook(hook, question)
            if isinstance(answer, HookFailure):
                return HookFailure(f"{describe_guard(hook)}: {answer.detail}"), describe_guard(hook)
            if isinstance(answer, Instead):
                return answer, describe_guard(hook)
        return NoChange(), ""


def make_replacement_response(answer: Instead) -> ModelResponse:
    """Return the response with which a hook replaces the model's response."""
    assert isinstance(answer.value, str)
    return ModelResponse.of(answer.value)


def _change_response(
    state: RunState, response: ModelResponse, answer: Instead, hook: str
) -> ModelResponse | HookFailure:
    if answer.calls is None:
        changed = replace(make_replacement_response(answer), usage=response.usage)
    else:
        try:
            changed = change_calls(response, answer.calls, state.calls, mint)
        except InvalidCallsError as error:
            return HookFailure(f"{hook}: {error}")
        if isinstance(answer.value, str):
            changed = replace_message(changed, answer.value)
    if changed.calls == response.calls:
        return changed
    return replace(changed, replaced=ReplacedCalls(hook, response.calls))


def _describe_verdict(source: str, verdict: Reject | Fail) -> str:
    if verdict.detail is not None:
        return f"{source}: {verdict.detail}"
    return (
        f"{source}: {verdict.message}"
        if isinstance(verdict, Fail)
        else f"{source} rejected the content."
    )


def _withhold_result(verdict: Reject | Fail, result: Result) -> Failed:
    """Return a failure in place of the result. Its detail contains the outcome of the call. A
    result that fails the run still fails the run."""
    refused = make_guardrail_failure(verdict)
    return replace(
        refused,
        reason=FailureKind.WITHHELD,
        detail=f"{refused.detail} The outcome of the call was: {result.outcome}.",
        fails_run=refused.fails_run or result.fails_run,
    )


def _replace_output(outcome: Done | Failed, answer: Instead) -> Done:
    """Return the outcome with the hook's output. Other changes of the tool, such as state, are
    kept."""
    if isinstance(outcome, Failed):
        return Done(answer.value, metadata=answer.metadata)
    metadata = {**(outcome.metadata or {}), **(answer.metadata or {})}
    return replace(outcome, output=answer.value, parts=(), metadata=metadata or None)


def _seconds(own: float, left: SecondsLeft | None) -> float:
    return own if left is None else max(SMALLEST_SECONDS, min(own, left()))


def finish_refused(verdict: Reject | Fail, stage: Stage) -> Finish:
    """Return the end of a run whose input or output a guardrail rejected. The guardrail's name and
    reason are for operators."""
    reason = verdict.detail or verdict.message
    if isinstance(verdict, Fail):
        return Finish(RunStatus.FAILED, code=GUARDRAIL, message=reason, refused=stage)
    return Finish(
        RunStatus.INCOMPLETE, verdict.message, code=GUARDRAIL, message=reason, refused=stage
    )
