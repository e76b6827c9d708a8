"""Guardrails and hooks around a call, the model and the run: in which order, and what they do."""

import asyncio
import ipaddress
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, cast
from uuid import UUID

import pytest
from pydantic import JsonValue

from runward.domain.events.values import CallReason
from runward.domain.ids import RunId
from runward.domain.json import JsonObject
from runward.domain.registry.guards import (
    Allow,
    Fail,
    GuardrailVerdict,
    HookAnswer,
    HookFailure,
    Instead,
    NoChange,
    PluginGuardrail,
    PluginHook,
    Reject,
)
from runward.domain.run import texts
from runward.domain.run.decide import Finish
from runward.domain.run.items import MediaPart, Message, Native, Reasoning
from runward.domain.run.outcomes import Done, Failed, FailureKind, Outcome, Waits
from runward.domain.run.response import ModelResponse, ReplacedCalls, Usage
from runward.domain.run.settle import AwaitCallback, Disposition, make_completed_result
from runward.domain.run.state import (
    Call,
    CallOutcome,
    CallPhase,
    Result,
    RunState,
    Segment,
    SegmentKind,
)
from runward.domain.run.status import RunStatus
from runward.egress.client import Egress
from runward.loop.calls_in_flight import CallEnd, CallsInFlight
from runward.loop.checks import Checks, RequestedToolCall, finish_refused, make_replacement_response
from runward.loop.project_cache import ProjectPolicy
from runward.loop.toolbox import SignedTool
from runward.tools.base import Invocation
from runward.tools.guards import GuardClient
from runward.tools.signing import SignedPostClient
from tests.unit.domain_cases import call, response, said, state, tool, wants

RUN = "run_00000000000000000000000000000002"

MOMENTS = ("before_model", "after_model", "before_tool", "after_tool")


def guardrails(prefix: str, *stages: str) -> list[JsonObject]:
    return [{"stage": stage, "type": "plugin", "name": f"{prefix}.{stage}"} for stage in stages]


def hooks(prefix: str, *moments: str) -> list[JsonObject]:
    return [{"on": on, "type": "plugin", "name": f"{prefix}.{on}"} for on in moments]


def policy(*names: str) -> ProjectPolicy:
    """Of the project: a guardrail for each stage, a hook for each moment."""
    rails = guardrails("project", *(name for name in names if name not in MOMENTS))
    catches = hooks("project", *(name for name in names if name in MOMENTS))
    return ProjectPolicy(
        tuple(PluginHook.model_validate(one) for one in catches),
        tuple(PluginGuardrail.model_validate(one) for one in rails),
        ("whsec_c2VjcmV0",),
    )


@dataclass
class World:
    """Everybody who is asked, in order, and what they answer: `allow` and `go on` if not told."""

    egress: Egress
    log: list[str] = field(default_factory=list[str])
    payloads: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    verdicts: dict[str, GuardrailVerdict] = field(default_factory=dict[str, GuardrailVerdict])
    hooked: dict[str, HookAnswer] = field(default_factory=dict[str, HookAnswer])
    outcomes: list[Outcome] = field(default_factory=list[Outcome])
    held: dict[str, float] = field(default_factory=dict[str, float])

    async def guardrail(self, name: str, payload: JsonObject) -> GuardrailVerdict:
        self.log.append(name)
        self.payloads[name] = payload
        await asyncio.sleep(self.held.get(name, 0))
        return self.verdicts.get(name, Allow())

    async def hook(self, name: str, payload: JsonObject) -> HookAnswer:
        self.log.append(name)
        self.payloads[name] = payload
        return self.hooked.get(name, NoChange())

    async def invoke(self, call: Invocation) -> Outcome:
        self.log.append("tool")
        return self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]

    def guarding(self, policy_: ProjectPolicy) -> Checks:
        posts = SignedPostClient(self.egress)
        guards = GuardClient(posts, run_guardrail=self.guardrail, run_hook=self.hook)
        return Checks(guards, policy_)

    def calls(self, policy_: ProjectPolicy) -> CallsInFlight:
        return CallsInFlight({"webhook": self}, _nowhere, self.guarding(policy_), _unheard, _always)


def _nowhere(_: RunState, __: Call) -> tuple[str, str]:
    return "", ""


async def _always() -> bool:
    return True


def _unheard(_: Call, __: float | None, ___: str | None) -> None:
    pass


@pytest.fixture
async def world() -> AsyncGenerator[World]:
    loopback = ipaddress.ip_network("127.0.0.0/8")
    async with aclosing(Egress(allow_private=(loopback,))) as egress:
        yield World(egress, outcomes=[Done("paid")])


PAID = make_completed_result("paid", 65_536)
ALL_TOOL = ("input", "output")
ALL_HOOKS = ("before_tool", "after_tool")


def armed(*stages: str, **fields: Any) -> SignedTool:
    own = guardrails("tool", *stages)
    return SignedTool(tool("lookup", guardrails=own, **fields), ("whsec_c2VjcmV0",))


def a_run(*stages: str, **fields: Any) -> RunState:
    """Its agent's guardrails and hooks."""
    config = {
        "guardrails": guardrails("agent", *(s for s in stages if s not in MOMENTS)),
        "hooks": hooks("agent", *(s for s in stages if s in MOMENTS)),
    }
    return state(config=config, **fields)


def started(seconds: float = 30.0, **fields: Any) -> Call:
    return call("c1", CallPhase.STARTED, timeout_seconds=seconds, **fields)


async def carried(
    world: World, run: RunState, ready: SignedTool, policy_: ProjectPolicy, **given: Any
) -> Disposition:
    """What becomes of one call."""
    return (await ended(world, run, ready, policy_, **given)).disposition


async def ended(
    world: World,
    run: RunState,
    ready: SignedTool,
    policy_: ProjectPolicy,
    *,
    one: Call | None = None,
    late: Outcome | None = None,
) -> CallEnd:
    """How one call ends."""
    calls = world.calls(policy_)
    one = one or started()
    if late is None:
        calls.launch(run, one, ready)
    else:
        calls.launch_late(run, one, ready, late)
    await asyncio.wait(calls.tasks, timeout=10)
    ((_, end),) = calls.take_done()
    assert end != "retry"
    return end


def told(disposition: Disposition) -> Result:
    """What the model is told."""
    assert isinstance(disposition, Result)
    return disposition


# -- around a call --------------------------------------------------------------------------------


async def test_everyone_is_asked_in_order(world: World) -> None:
    run, ready = a_run(*ALL_TOOL, *ALL_HOOKS), armed(*ALL_TOOL)
    assert await carried(world, run, ready, policy(*ALL_TOOL, *ALL_HOOKS)) == PAID
    assert world.log == [
        *("tool.input", "agent.input", "project.input"),
        *("agent.before_tool", "project.before_tool"),
        "tool",
        *("agent.after_tool", "project.after_tool"),
        *("tool.output", "agent.output", "project.output"),
    ]


async def test_where_nothing_is_set_nobody_is_asked(world: World) -> None:
    assert await carried(world, a_run(), armed(), policy()) == PAID
    assert world.log == ["tool"]


async def test_stages_of_the_run_are_not_asked_about_a_call(world: World) -> None:
    stages = ("run_input", "run_output", "pre_approval", "before_model", "after_model")
    await carried(world, a_run(*stages), armed(), policy(*stages))
    assert world.log == ["tool"]


async def test_what_is_told_about_a_call(world: World) -> None:
    world.outcomes = [Done("paid", parts=(MediaPart("image", url="https://x/y.png"),))]
    run = a_run("before_tool", "output", context={"tier": "gold"})
    one = started(arguments={"amount": 5})
    await carried(world, run, armed(), policy(), one=one)
    about = {
        "run_id": RUN,
        "agent": "clerk",
        "context": {"tier": "gold"},
        "call_id": "c1",
        "tool": "lookup",
        "tool_version": 1,
        "arguments": {"amount": 5},
    }
    assert world.payloads["agent.before_tool"] == {
        "type": "hook", "on": "before_tool", "turn": 1, **about
    }  # fmt: skip
    assert world.payloads["agent.output"] == {
        "type": "guardrail",
        "stage": "output",
        **about,
        "output": "paid",
        "is_error": False,
        "content": [{"type": "image", "url": "https://x/y.png"}],
    }


@pytest.mark.parametrize("whose", ["tool", "agent", "project"])
async def test_a_rejected_input_is_never_sent_and_the_first_rejection_counts(
    world: World, whose: str
) -> None:
    owners = ["tool", "agent", "project"]
    world.verdicts = {f"{one}.input": Reject(one) for one in owners[owners.index(whose) :]}
    run, ready = a_run(*ALL_TOOL, *ALL_HOOKS), armed(*ALL_TOOL)
    result = told(await carried(world, run, ready, policy(*ALL_TOOL)))
    assert (result.output, result.outcome, result.reason, result.fails_run) == (
        whose,
        CallOutcome.REJECTED,
        CallReason.GUARDRAIL,
        False,
    )
    assert result.detail == f"guardrail (input) of plugin {whose}.input rejected the content."
    asked = owners[: owners.index(whose) + 1]
    assert world.log == [f"{one}.input" for one in asked]


async def test_a_rejection_is_not_changed_by_the_tool_s_own_setting_for_errors(
    world: World,
) -> None:
    world.verdicts["tool.input"] = Reject("no cards")
    ready = armed("input", on_error={"message": "never mind"}, retry={"max_attempts": 5})
    result = told(await carried(world, a_run(), ready, policy()))
    assert (result.output, world.log) == ("no cards", ["tool.input"])


@pytest.mark.parametrize("stage", ["input", "output"])
async def test_a_guardrail_that_fails_the_run_says_so(world: World, stage: str) -> None:
    world.verdicts[f"agent.{stage}"] = Fail("stolen card")
    result = told(await carried(world, a_run(stage), armed(), policy()))
    assert result.fails_run
    assert result.output == "stolen card"
    assert "stolen card" in (result.detail or "")


async def test_a_before_hook_answers_in_the_tool_s_place_and_the_rest_sees_its_answer(
    world: World,
) -> None:
    world.hooked = {
        "agent.before_tool": Instead("cached", {"by": "cache"}),
        "project.before_tool": Instead("never asked"),
    }
    run = a_run(*ALL_HOOKS, *ALL_TOOL)
    outcome = await carried(world, run, armed(), policy("before_tool"))
    assert outcome == make_completed_result("cached", 65_536, Done("", metadata={"by": "cache"}))
    assert world.log == ["agent.input", "agent.before_tool", "agent.after_tool", "agent.output"]
    assert world.payloads["agent.output"]["output"] == "cached"


async def test_a_before_hook_that_fails_holds_the_call_back(world: World) -> None:
    world.hooked["agent.before_tool"] = HookFailure("HTTP 500.")
    result = told(await carried(world, a_run(*ALL_HOOKS), armed(), policy()))
    assert (result.output, result.reason) == (texts.HOOK_FAILED, CallReason.GUARDRAIL)
    assert result.detail == "hook (before_tool) of plugin agent.before_tool: HTTP 500."
    assert world.log == ["agent.before_tool"]


async def test_an_after_hook_replaces_the_output_and_nothing_else(world: World) -> None:
    world.outcomes = [Done({"card": "4111"}, metadata={"ms": 5}, state={"a": 1}, escalate=True)]
    world.hooked["agent.after_tool"] = Instead({"card": "…"}, {"by": "mask"})
    end = await ended(world, a_run("after_tool", "output"), armed(), policy())
    done = Done({"card": "…"}, metadata={"ms": 5, "by": "mask"}, escalate=True)
    assert end == CallEnd(make_completed_result({"card": "…"}, 65_536, done), {"a": 1})
    assert world.payloads["agent.output"]["output"] == {"card": "…"}


async def test_an_after_hook_may_mend_an_error(world: World) -> None:
    world.outcomes = [Failed(FailureKind.ERROR, "HTTP 500.")]
    world.hooked["agent.after_tool"] = Instead("try the other shop")
    ready = armed(on_error="fail_run")
    result = told(await carried(world, a_run("after_tool", "output"), ready, policy()))
    assert (result.output, result.is_error, result.fails_run) == (
        "try the other shop",
        False,
        False,
    )
    assert world.payloads["agent.after_tool"]["output"] == texts.TOOL_ERROR
    assert world.payloads["agent.output"]["is_error"] is False


async def test_an_after_hook_that_fails_withholds_the_result(world: World) -> None:
    world.hooked["agent.after_tool"] = HookFailure("HTTP 500.")
    result = told(await carried(world, a_run("after_tool", "output"), armed(), policy()))
    assert result.output == texts.OUTPUT_HOOK_FAILED
    assert (result.detail or "").endswith("The outcome of the call was: completed.")
    assert world.log == ["tool", "agent.after_tool"]


@pytest.mark.parametrize(
    ("outcome", "seen"),
    [
        (Failed(FailureKind.ERROR, "HTTP 500."), texts.TOOL_ERROR),
        (Failed(FailureKind.ERROR, "HTTP 400.", message="no such order"), "no such order"),
        (Failed(FailureKind.INVALID_RESPONSE, "HTTP 200: …"), texts.INVALID_RESPONSE),
        (Failed(FailureKind.UNKNOWN, "reset"), texts.INTERRUPTED),
        (Failed(FailureKind.TIMEOUT, "…"), texts.timed_out("lookup", 30, idempotent=False)),
    ],
)
async def test_output_guardrails_see_the_error_that_the_model_would_get(
    world: World, outcome: Outcome, seen: str
) -> None:
    world.outcomes = [outcome]
    world.verdicts["tool.output"] = Reject("hidden")
    ready = armed("output")
    result = told(await carried(world, a_run(), ready, policy()))
    assert world.payloads["tool.output"]["output"] == seen
    assert world.payloads["tool.output"]["is_error"] is True
    assert isinstance(outcome, Failed)
    assert world.payloads["tool.output"]["detail"] == outcome.detail
    assert (result.output, result.reason) == ("hidden", CallReason.GUARDRAIL)
    assert result.outcome is CallOutcome.FAILED, "rejected is what was never sent"


async def test_a_hook_sees_the_error_and_the_child_run_of_a_call(world: World) -> None:
    world.hooked["agent.after_tool"] = Instead("ask later")
    one = call("c1", CallPhase.AWAITING_CHILD, child_run_id=RunId(UUID(int=3)))
    late = Failed(FailureKind.ERROR, "The run of agent 'cashier' ended with status failed.")
    await carried(world, a_run("after_tool"), armed("output"), policy(), one=one, late=late)
    seen, replaced = world.payloads["agent.after_tool"], world.payloads["tool.output"]
    assert seen["detail"] == late.detail
    assert seen["child_run_id"] == replaced["child_run_id"] == f"run_{3:032x}"
    assert (replaced["output"], "detail" in replaced) == ("ask later", False)


async def test_a_call_that_surely_was_not_sent_has_no_output_to_look_at(world: World) -> None:
    world.outcomes = [Failed(FailureKind.NOT_SENT, "refused", permanent=True)]
    ready = armed("output", on_error="fail_run")
    assert told(await carried(world, a_run("after_tool"), ready, policy())).fails_run
    assert world.log == ["tool"]


async def test_a_withheld_error_that_fails_the_run_still_fails_it(world: World) -> None:
    world.outcomes = [Failed(FailureKind.ERROR, "HTTP 500.")]
    world.verdicts["tool.output"] = Reject("hidden")
    ready = armed("output", on_error="fail_run")
    assert told(await carried(world, a_run(), ready, policy())).fails_run


async def test_a_guardrail_sees_the_whole_of_an_output_that_is_cut_for_the_model(
    world: World,
) -> None:
    world.outcomes = [Done("x" * 1000)]
    await carried(world, a_run(), armed("output", max_output_bytes=256), policy())
    assert world.payloads["tool.output"]["output"] == "x" * 1000


async def test_a_call_that_is_tried_again_was_let_through_before(world: World) -> None:
    world.outcomes = [Failed(FailureKind.NOT_SENT, "refused"), Done("paid")]
    ready = armed(*ALL_TOOL, retry={"initial_seconds": 0.01})
    calls = world.calls(policy())
    first = started()
    calls.launch(a_run(), first, ready)
    await asyncio.wait(calls.tasks, timeout=10)
    assert calls.take_done() == [(first.id, "retry")]
    calls.launch(a_run(), started(attempt=2), ready)
    await asyncio.wait(calls.tasks, timeout=10)
    assert calls.take_done() == [(first.id, CallEnd(PAID))]
    assert world.log == ["tool.input", "tool", "tool", "tool.output"]


async def test_a_failure_that_comes_back_is_never_tried_again(world: World) -> None:
    world.outcomes = [Failed(FailureKind.UNAVAILABLE, "HTTP 503.", status=503)]
    ready = armed(idempotent=True, retry={"max_attempts": 1})
    outcome = await carried(world, a_run(), ready, policy())
    assert isinstance(outcome, Result)
    assert (outcome.reason, outcome.detail) == (CallReason.TOOL_ERROR, "HTTP 503.")


async def test_a_tool_that_answers_later_has_nothing_to_show_yet(world: World) -> None:
    world.outcomes = [Waits()]
    ready = armed(*ALL_TOOL)
    assert await carried(world, a_run(*ALL_HOOKS), ready, policy()) == AwaitCallback()
    assert world.log == ["tool.input", "agent.before_tool", "tool"]


async def test_a_late_result_is_looked_at_like_any_other(world: World) -> None:
    world.verdicts["tool.output"] = Reject("hidden")
    ready = armed(*ALL_TOOL)
    run = a_run(*ALL_HOOKS)
    result = told(await carried(world, run, ready, policy(), late=Done("paid")))
    assert result.output == "hidden"
    assert world.log == ["agent.after_tool", "tool.output"]


async def test_the_time_of_a_call_runs_while_its_guardrails_think(world: World) -> None:
    world.held["tool.input"] = 5.0
    ready = armed("input")
    result = told(await carried(world, a_run(), ready, policy(), one=started(0.05)))
    assert (result.output, world.log) == (texts.GUARDED, ["tool.input"])


async def test_after_a_timeout_there_is_still_time_to_look_at_the_result(world: World) -> None:
    world.outcomes = [Failed(FailureKind.TIMEOUT, "…")]
    world.held["tool.output"] = 0.05
    ready, one = armed("output"), started(0.01)
    result = told(await carried(world, a_run(), ready, policy(), one=one))
    assert result.outcome is CallOutcome.TIMED_OUT


async def test_a_type_of_tool_that_nobody_executes_is_not_sent(world: World) -> None:
    ready = armed(type="plugin")
    result = told(await carried(world, a_run(), ready, policy()))
    assert (result.output, result.reason) == (texts.NOT_SENT, CallReason.NOT_SENT)


async def test_what_breaks_in_the_middle_is_that_call_s_failure(world: World) -> None:
    world.outcomes = []
    result = told(await carried(world, a_run(), armed(), policy()))
    assert result.outcome is CallOutcome.OUTCOME_UNKNOWN


# -- before a person is asked ---------------------------------------------------------------------


async def test_before_a_person_is_asked_each_different_call_is_checked_once(world: World) -> None:
    world.verdicts["project.pre_approval"] = Reject("not that much")
    free = SignedTool(tool("free"), ())
    calls = [
        RequestedToolCall(armed("pre_approval"), {"amount": 5, "to": "a"}),
        RequestedToolCall(armed("pre_approval"), {"to": "a", "amount": 5}),
        RequestedToolCall(free, {}),
    ]
    found = await world.guarding(policy("pre_approval")).pre_approval(a_run(), calls)
    rejected = Reject(
        "not that much",
        "guardrail (pre_approval) of plugin project.pre_approval rejected the content.",
    )
    assert found == {("lookup", '{"amount":5,"to":"a"}'): rejected, ("free", "{}"): rejected}
    assert sorted(world.log) == ["project.pre_approval"] * 2 + ["tool.pre_approval"]
    assert world.payloads["tool.pre_approval"]["arguments"] == {"amount": 5, "to": "a"}


async def test_without_such_guardrails_every_call_may_be_asked_about(world: World) -> None:
    calls = [RequestedToolCall(armed("input"), {})]
    assert await world.guarding(policy()).pre_approval(a_run("input"), calls) == {
        ("lookup", "{}"): Allow()
    }
    assert world.log == []


# -- around the model -----------------------------------------------------------------------------


async def test_before_the_model_the_first_hook_that_answers_wins(world: World) -> None:
    world.hooked = {
        "agent.before_model": Instead("We are closed."),
        "project.before_model": Instead("never asked"),
    }
    answer = await world.guarding(policy("before_model")).before_model(
        a_run("before_model", turn=2), [Message("user", "hi")]
    )
    assert isinstance(answer, Instead)
    assert make_replacement_response(answer) == response(text="We are closed.")
    assert world.log == ["agent.before_model"]
    assert world.payloads["agent.before_model"] == {
        "type": "hook",
        "on": "before_model",
        "run_id": RUN,
        "agent": "clerk",
        "context": None,
        "turn": 3,
        "items": [{"type": "message", "role": "user", "content": "hi"}],
    }


async def test_after_the_model_its_text_and_calls_are_shown(world: World) -> None:
    asked = response(wants("pay", '{"a":1}'), wants("pay", "{", "c2"), text="so")
    guarding = world.guarding(policy())
    assert await guarding.after_model(a_run("after_model"), asked) == asked
    shown = world.payloads["agent.after_model"]
    assert shown["message"] == "so"
    assert shown["calls"] == [
        {"call_id": "c1", "name": "pay", "arguments": {"a": 1}},
        {"call_id": "c2", "name": "pay", "arguments": {}, "arguments_text": "{"},
    ]


async def test_a_message_in_the_response_s_place_has_no_calls_and_cost_the_same(
    world: World,
) -> None:
    world.hooked["agent.after_model"] = Instead("Let me not.")
    asked = response(wants("pay"), usage=Usage(5, 6))
    changed = await world.guarding(policy()).after_model(a_run("after_model"), asked)
    assert isinstance(changed, ModelResponse)
    assert replace(changed, replaced=None) == response(text="Let me not.", usage=Usage(5, 6))


HOOK = "hook (after_model) of plugin agent.after_model"


async def after_hook(world: World, asked: ModelResponse, said: Instead, **fields: Any) -> Any:
    world.hooked["agent.after_model"] = said
    return await world.guarding(policy()).after_model(a_run("after_model", **fields), asked)


async def test_a_hook_adds_changes_and_drops_calls(world: World) -> None:
    kept = wants("look", '{"a": 1}', native=Native("gemini", {"signature": "s"}))
    paid, sent = wants("pay", '{"amount":9}', "c2", truncated=True), wants("send", "{", "c3")
    asked = response(kept, paid, sent, text="so", usage=Usage(5, 6))
    answer = Instead(
        calls=[
            {"name": "log", "arguments": {"by": "hook"}, "call_id": "h1"},
            {"call_id": "c2", "arguments": {"amount": 5}},
            {"call_id": "c1", "name": "look", "arguments": {"a": 1}},
        ]
    )
    expected = response(
        kept,
        wants("pay", '{"amount":5}', "c2"),
        wants("log", '{"by":"hook"}', "h1"),
        text="so",
        usage=Usage(5, 6),
    )
    changed = await after_hook(world, asked, answer)
    assert changed == replace(expected, replaced=ReplacedCalls(HOOK, (kept, paid, sent)))


async def test_calls_that_a_hook_returns_as_it_got_them_change_nothing(world: World) -> None:
    asked = response(wants("pay", '{"a": 1}', truncated=True), wants("pay", "{", "c2"), text="so")
    await after_hook(world, asked, Instead("so"))
    shown = world.payloads["agent.after_model"]["calls"]
    assert await after_hook(world, asked, Instead(calls=shown)) == asked


async def test_a_call_without_an_id_gets_one_that_the_hook_can_use(world: World) -> None:
    asked = response(wants("pay", id_=""), wants("pay", id_=""))
    await after_hook(world, asked, Instead("so"))
    shown = cast(Any, world.payloads["agent.after_model"]["calls"])
    assert len({one["call_id"] for one in shown}) == 2
    added = await after_hook(world, response(), Instead(calls=[{"name": "a", "arguments": {}}]))
    [one] = added.calls
    assert one.call_id.startswith("call_")


async def test_a_hook_may_change_the_message_and_the_calls(world: World) -> None:
    asked = response(wants("pay"), text="I pay.", reasoning=(Reasoning("x", {"a": 1}),))
    changed = await after_hook(world, asked, Instead("I do not pay.", calls=[]))
    assert changed == replace(
        response(text="I do not pay.", reasoning=asked.reasoning),
        replaced=ReplacedCalls(HOOK, asked.calls),
    )
    dropped = await after_hook(world, asked, Instead("I do not pay."))
    assert dropped.replaced == changed.replaced


BAD_CALLS: list[tuple[Any, str]] = [
    ({"call_id": "c1"}, "calls: Input should be a valid list"),
    ([{"call_id": "c1", "args": {}}], "calls.0.args: Extra inputs are not permitted"),
    ([{"call_id": "c1", "arguments": []}], "calls.0.arguments: "),
    ([{"call_id": "x"}], "calls.0: an added call requires `name` and `arguments`."),
    ([{"name": "pay"}], "calls.0: an added call requires `name` and `arguments`."),
    ([{"call_id": "c1"}, {"call_id": "c1", "name": "b"}], "calls.1: two calls have the ID"),
    ([{"call_id": "c0", "name": "b", "arguments": {}}], "calls.0: an earlier call of the run"),
    ([{"call_id": "c1"}] * 129, "calls: List should have at most 128 items"),
]


@pytest.mark.parametrize(("calls", "detail"), BAD_CALLS)
async def test_calls_that_cannot_be_used_fail_the_hook(
    world: World, calls: Any, detail: str
) -> None:
    earlier = call("c0", CallPhase.SETTLED)
    failed = await after_hook(world, response(wants("pay")), Instead(calls=calls), calls=[earlier])
    assert isinstance(failed, HookFailure)
    assert failed.detail.startswith(f"{HOOK}: {detail}")


@pytest.mark.parametrize("on", ["before_model", "after_model"])
async def test_a_model_hook_that_fails_says_which(world: World, on: str) -> None:
    world.hooked[f"agent.{on}"] = HookFailure("HTTP 500.")
    guarding, run = world.guarding(policy()), a_run(on)
    failed = (
        await guarding.before_model(run, [])
        if on == "before_model"
        else await guarding.after_model(run, response(text="x"))
    )
    assert failed == HookFailure(f"hook ({on}) of plugin agent.{on}: HTTP 500.")


# -- around the run -------------------------------------------------------------------------------


def given(text: str) -> Segment:
    return Segment(SegmentKind.INPUT, 0, None, (Message("user", text),))


@pytest.mark.parametrize(
    ("segments", "new"),
    [
        ((given("hi"),), ["hi"]),
        ((given("hi"), given("there")), ["hi", "there"]),
        ((given("hi"), said("hello")), []),
        ((given("hi"), said("hello"), given("more")), ["more"]),
    ],
)
async def test_input_guardrails_of_a_run_see_what_came_in_since_the_last_turn(
    world: World, segments: tuple[Segment, ...], new: list[str]
) -> None:
    run = a_run("run_input", segments=segments)
    assert await world.guarding(policy()).check_input(run) == Allow()
    assert world.log == (["agent.run_input"] if new else [])
    if new:
        items: JsonValue = [{"type": "message", "role": "user", "content": text} for text in new]
        assert world.payloads["agent.run_input"]["input"] == items


async def test_the_final_output_is_judged_by_the_agent_s_guardrails_and_the_project_s(
    world: World,
) -> None:
    world.verdicts["project.run_output"] = Fail("leak")
    checks, state = world.guarding(policy("run_output")), a_run("run_output")
    answered = Finish(RunStatus.COMPLETED, "bye")
    assert checks.checks_finish(state, answered)
    refused = await checks.check_finish(state, answered)
    detail = "guardrail (run_output) of plugin project.run_output: leak"
    assert refused == finish_refused(Fail("leak", detail), "run_output")
    assert world.log == ["agent.run_output", "project.run_output"]
    assert world.payloads["agent.run_output"]["output"] == "bye"
