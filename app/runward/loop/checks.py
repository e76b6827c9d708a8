"""All guardrails and hooks of one run, in their order: the tool's, then the agent's, then the
project's. The first guardrail that does not allow has the last word, the first hook that answers
too. Where none are set, nothing here waits for anything.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, assert_never

from pydantic import JsonValue

from runward.domain.ids import Prefix, format_id
from runward.domain.json import JsonObject, canonical, digest
from runward.domain.registry.guards import (
    Allow,
    Fail,
    GoOn,
    Guardrail,
    GuardrailVerdict,
    Hook,
    HookAnswer,
    HookFailed,
    Instead,
    Moment,
    Reject,
    Stage,
)
from runward.domain.run import texts
from runward.domain.run.calls import Call, Result
from runward.domain.run.items import Item
from runward.domain.run.outcomes import Done, Failed, Why
from runward.domain.run.response import ModelResponse
from runward.domain.run.state import RunState
from runward.loop import guard_payloads as payloads
from runward.loop.guard_payloads import Seen
from runward.loop.policies import ProjectPolicy
from runward.loop.toolbox import SignedTool
from runward.tools.guards import GuardClient, GuardQuestion, describe

SMALLEST_SECONDS: Final = 0.01
NO_TIME_LEFT: Final = "The guardrails and hooks before the call took all of its time."

SecondsLeft: TypeAlias = Callable[[], float]


@dataclass(frozen=True, slots=True)
class AskedCall:
    """A call that a person would be asked about, before it is in the ledger."""

    armed: SignedTool
    arguments: JsonObject

    @property
    def key(self) -> tuple[str, str]:
        return self.armed.tool.name, canonical(self.arguments)


@dataclass(frozen=True, slots=True)
class Checks:
    guards: GuardClient
    policy: ProjectPolicy

    # Around one call.

    def checks_results(self, state: RunState, armed: SignedTool) -> bool:
        """Whether a result of this tool is shown to anyone before the model gets it."""
        checks = self._guardrails(state, "output", armed)
        return bool(checks or self._hooks(state, "after_tool"))

    async def before_call(
        self, state: RunState, call: Call, armed: SignedTool, left: SecondsLeft
    ) -> Done | Failed | None:
        """None: the tool is to be called. Its time runs meanwhile, so that a guardrail or hook has
        what is left of it at most."""
        about = payloads.of_call(call)
        verdict = await self._run_guardrails(
            self._guardrails(state, "input", armed),
            lambda: payloads.guardrail(state, "input", about),
            f"{format_id(Prefix.CALL, call.uuid)}_input",
            left,
        )
        if not isinstance(verdict, Allow):
            return _refused(verdict)
        answer = await self._run_hooks(
            state, "before_tool", call.turn, about, format_id(Prefix.CALL, call.uuid), left
        )
        match answer:
            case Instead(value=value, metadata=metadata):
                return Done(value, metadata=metadata)
            case HookFailed(detail=detail):
                return _refused(Reject(texts.HOOK_FAILED, detail))
            case GoOn():
                spent = left() <= 0
            case _:
                assert_never(answer)
        return Failed(Why.NOT_SENT, NO_TIME_LEFT, permanent=True) if spent else None

    async def after_call(
        self, state: RunState, call: Call, armed: SignedTool, outcome: Done | Failed, result: Result
    ) -> Done | Failed:
        """`result` is what the model would get of `outcome`. Every guardrail and hook has its own
        time, since the call's may be used up. A call that surely was not sent has no result that
        anyone needs to see."""
        never_sent = isinstance(outcome, Failed) and outcome.why is Why.NOT_SENT
        if never_sent and call.attempt <= 1:
            return outcome
        seen = Seen.of(result)
        about = payloads.of_call(call, seen)
        call_id = format_id(Prefix.CALL, call.uuid)
        answer = await self._run_hooks(state, "after_tool", call.turn, about, call_id)
        match answer:
            case Instead():
                outcome, about = (
                    _replaced(outcome, answer),
                    payloads.of_call(call, Seen(answer.value)),
                )
                result = replace(result, fails_run=False)
            case HookFailed(detail=detail):
                return _withheld(Reject(texts.OUTPUT_HOOK_FAILED, detail), result)
            case GoOn():
                pass
            case _:
                assert_never(answer)
        verdict = await self._run_guardrails(
            self._guardrails(state, "output", armed),
            lambda: payloads.guardrail(state, "output", about),
            f"{call_id}_output",
        )
        return outcome if isinstance(verdict, Allow) else _withheld(verdict, result)

    async def pre_approval(
        self, state: RunState, calls: Sequence[AskedCall]
    ) -> dict[tuple[str, str], GuardrailVerdict]:
        """By `AskedCall.key`: whether a person is to be asked at all. Calls are checked together,
        equal ones once."""
        found: dict[tuple[str, str], GuardrailVerdict] = {one.key: Allow() for one in calls}
        tasks: dict[tuple[str, str], asyncio.Task[GuardrailVerdict]] = {}
        async with asyncio.TaskGroup() as group:
            for one in calls:
                if one.key not in tasks and self._guardrails(state, "pre_approval", one.armed):
                    tasks[one.key] = group.create_task(self._pre_approved(state, one))
        return found | {key: task.result() for key, task in tasks.items()}

    async def _pre_approved(self, state: RunState, one: AskedCall) -> GuardrailVerdict:
        tool = one.armed.tool
        about: JsonObject = {
            "tool": tool.name,
            "tool_version": tool.version,
            "arguments": one.arguments,
        }
        return await self._run_guardrails(
            self._guardrails(state, "pre_approval", one.armed),
            lambda: payloads.guardrail(state, "pre_approval", about),
            f"{format_id(Prefix.RUN, state.id)}_pre_approval_{digest(dict(about))[-16:]}",
        )

    # Around the model.

    async def before_model(self, state: RunState, items: Sequence[Item]) -> HookAnswer:
        """`Instead` has the text of the message that is used instead of the model's."""
        if not self._hooks(state, "before_model"):
            return GoOn()
        return await self._model_hooked(state, "before_model", payloads.of_conversation(items))

    async def after_model(
        self, state: RunState, response: ModelResponse
    ) -> ModelResponse | HookFailed:
        """A message that replaces the response replaces its calls too."""
        if not self._hooks(state, "after_model"):
            return response
        answer = await self._model_hooked(state, "after_model", payloads.of_response(response))
        match answer:
            case GoOn():
                return response
            case Instead():
                return replace(instead_of_model(answer), usage=response.usage)
            case HookFailed():
                return answer
            case _:
                assert_never(answer)

    async def _model_hooked(self, state: RunState, on: Moment, about: JsonObject) -> HookAnswer:
        turn = state.turn + 1
        about_id = f"{format_id(Prefix.RUN, state.id)}_{turn}"
        return await self._run_hooks(state, on, turn, about, about_id)

    # Around the run.

    async def run_input(self, state: RunState) -> GuardrailVerdict:
        """For every turn; it is about what came in since the model was asked last, mostly
        nothing."""
        guardrails = self._guardrails(state, "run_input")
        if not guardrails or not (items := payloads.of_new_input(state)):
            return Allow()
        return await self._run_guardrails(
            guardrails,
            lambda: payloads.guardrail(state, "run_input", {"input": items}),
            f"{format_id(Prefix.RUN, state.id)}_{state.turn + 1}_run_input",
        )

    async def run_output(self, state: RunState, output: JsonValue) -> GuardrailVerdict:
        return await self._run_guardrails(
            self._guardrails(state, "run_output"),
            lambda: payloads.guardrail(state, "run_output", {"output": output}),
            f"{format_id(Prefix.RUN, state.id)}_{state.turn}_run_output",
        )

    # Who is asked, one after the other.

    def _guardrails(
        self, state: RunState, stage: Stage, armed: SignedTool | None = None
    ) -> list[tuple[Guardrail, tuple[str, ...]]]:
        """With the secrets that sign for each."""
        own = armed.tool.spec.guardrails if armed else ()
        shared = (*state.config.guardrails, *self.policy.guardrails)
        found = [(one, armed.secrets) for one in own if armed and one.stage == stage]
        return found + [(one, self.policy.secrets) for one in shared if one.stage == stage]

    def _hooks(self, state: RunState, on: Moment) -> list[Hook]:
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
                return replace(verdict, detail=_detail(describe(guardrail), verdict))
        return Allow()

    async def _run_hooks(
        self,
        state: RunState,
        on: Moment,
        turn: int,
        about: JsonObject,
        about_id: str,
        left: SecondsLeft | None = None,
    ) -> HookAnswer:
        for number, hook in enumerate(self._hooks(state, on)):
            question = GuardQuestion(
                f"{about_id}_{on}_{number}",
                payloads.hook(state, on, turn=turn, about=about),
                self.policy.secrets,
                _seconds(hook.timeout_seconds, left),
            )
            answer = await self.guards.ask_hook(hook, question)
            if isinstance(answer, HookFailed):
                return HookFailed(f"{describe(hook)}: {answer.detail}")
            if isinstance(answer, Instead):
                return answer
        return GoOn()


def instead_of_model(answer: Instead) -> ModelResponse:
    """What a hook said in the model's place."""
    assert isinstance(answer.value, str)
    return ModelResponse.of(answer.value)


def _detail(by: str, verdict: Reject | Fail) -> str:
    if verdict.detail is not None:
        return f"{by}: {verdict.detail}"
    return f"{by}: {verdict.message}" if isinstance(verdict, Fail) else f"{by} rejected it."


def _refused(verdict: Reject | Fail) -> Failed:
    return Failed(
        Why.GUARDRAIL,
        verdict.detail or "",
        message=verdict.message,
        permanent=True,
        fails_run=isinstance(verdict, Fail),
    )


def _withheld(verdict: Reject | Fail, result: Result) -> Failed:
    """What became of the call stands in the detail; a result that fails the run still does."""
    refused = _refused(verdict)
    return replace(
        refused,
        why=Why.WITHHELD,
        detail=f"{refused.detail} The call's outcome was: {result.outcome}.",
        fails_run=refused.fails_run or result.fails_run,
    )


def _replaced(outcome: Done | Failed, answer: Instead) -> Done:
    """What the tool changed besides its output stays."""
    if isinstance(outcome, Failed):
        return Done(answer.value, metadata=answer.metadata)
    metadata = {**(outcome.metadata or {}), **(answer.metadata or {})}
    return replace(outcome, output=answer.value, parts=(), metadata=metadata or None)


def _seconds(own: float, left: SecondsLeft | None) -> float:
    return own if left is None else max(SMALLEST_SECONDS, min(own, left()))
