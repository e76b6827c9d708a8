"""Agents that hand a run over to each other, and tools that say that an agent is done."""

from dataclasses import replace
from typing import Any

import pytest

from runward.domain.ids import CallId
from runward.domain.registry.tools import InlineToolSpec
from runward.domain.run import texts
from runward.domain.run.config import RunConfig
from runward.domain.run.conversation import build_conversation
from runward.domain.run.decide import AskModel, Finish, HandOver, Park, RunTools, next_action
from runward.domain.run.family import list_tool_names
from runward.domain.run.items import Message, ToolResult
from runward.domain.run.response import RequestedCall
from runward.domain.run.run_events import add_run_created
from runward.domain.run.state import CallPhase, Changes, RunState, Segment, SegmentKind
from runward.domain.run.status import RunStatus
from runward.domain.run.team import (
    build_handoff_tools,
    build_inline_tools,
    build_unregistered_tools,
    find_next_agent,
    format_transfer_name,
    hand_over,
)
from runward.domain.run.tools import UNREGISTERED
from runward.domain.schema.validator import Validator
from tests.unit.domain_cases import (
    AGENT,
    DONE,
    call,
    event,
    failed,
    member,
    memory,
    output_of,
    phase_of,
    settled,
    state,
    taken,
    tool,
    types,
    wants,
)

ASKED = CallPhase.AWAITING_APPROVAL
TEAM = {"refunds": member("Pays money back."), "sales": member(model="offline:other")}
CLERK: dict[str, Any] = {"handoffs": ["refunds", "sales"]}
TO_REFUNDS, TO_SALES = wants("transfer_to_refunds"), wants("transfer_to_sales", id_="c2")
GATED = tool("pay", approval="always")


def clerk(**fields: Any) -> RunState:
    """A run that may be handed over."""
    return state(config=CLERK | fields.pop("config", {}), team=TEAM, **fields)


def told(*calls: RequestedCall, before: RunState | None = None) -> tuple[RunState, Changes]:
    run = before or clerk()
    made = build_handoff_tools(run.config, run.team)
    return taken(*calls, tools=[tool(), GATED, *made.values()], before=run)


def after(*calls: RequestedCall, before: RunState | None = None) -> RunState:
    return told(*calls, before=before)[0]


# Handing over.


def test_an_agent_has_a_tool_for_each_of_its_handoffs_and_for_no_other_agent() -> None:
    made = build_handoff_tools(
        clerk(config={"handoffs": ["sales", "refunds", "gone"]}).config, TEAM
    )
    assert list(made) == ["transfer_to_sales", "transfer_to_refunds"]
    assert {one.version for one in made.values()} == {UNREGISTERED}
    spec = made["transfer_to_refunds"].spec
    assert (spec.type, spec.agent) == ("handoff", "refunds")
    assert spec.description == (
        "Handoff to the refunds agent to handle the request. Pays money back."
    )
    assert made["transfer_to_sales"].spec.description == (
        "Handoff to the sales agent to handle the request."
    )


def test_a_handoff_s_name_fits_every_provider() -> None:
    assert format_transfer_name("a" * 52) == "transfer_to_" + "a" * 52
    assert len(format_transfer_name("a" * 64)) == 64


def test_two_agents_whose_long_names_begin_alike_have_a_handoff_each() -> None:
    names = ["a" * 60 + "_eu", "a" * 60 + "_us"]
    run = state(config={"handoffs": names}, team={name: member() for name in names})
    made = build_handoff_tools(run.config, run.team)
    assert [one.spec.agent for one in made.values()] == names


def test_a_sole_handoff_is_settled_at_once_and_hands_the_run_over() -> None:
    run, changes = told(TO_REFUNDS)
    assert output_of(run) == texts.handed_over("refunds")
    assert types(changes) == ["tool_call.created", "tool_call.completed", "usage.updated"]
    assert next_action(run) == HandOver("refunds")


def test_the_run_goes_on_as_the_other_agent_within_its_own_limits() -> None:
    before = after(TO_SALES, before=clerk(config={"limits": {"max_turns": 3}}))
    changes = Changes()
    run = hand_over(before, changes, "sales")
    assert (run.agent, run.config.model) == ("sales", "offline:other")
    assert run.config.limits == before.config.limits
    assert run.segments == before.segments
    assert event(changes, "handoff.completed") == {"from": AGENT, "to": "sales", "turn": 1}
    assert changes.progress
    assert next_action(run) == AskModel()


def test_the_first_handoff_wins_and_the_others_are_told_so() -> None:
    run = after(TO_SALES, TO_REFUNDS)
    assert output_of(run, "c2") == texts.handed_over("sales")
    assert output_of(run, "c1") == texts.OTHER_HANDOFF
    assert next_action(run) == HandOver("sales")


def test_a_handoff_of_an_earlier_turn_takes_nothing_from_a_later_one() -> None:
    one = hand_over(after(TO_REFUNDS), Changes(), "refunds")
    back = replace(one, config=one.config.model_copy(update=CLERK))
    run = after(TO_SALES, before=back)
    assert output_of(run, "c2") == texts.handed_over("sales")
    assert next_action(run) == HandOver("sales")


def test_the_calls_beside_a_handoff_run_before_it() -> None:
    run = after(TO_REFUNDS, wants("lookup", id_="c3"))
    assert next_action(run) == RunTools((CallId("c3"),))
    assert next_action(settled(run, "c3")) == HandOver("refunds")
    assert next_action(settled(run, "c3", failed())) == HandOver("refunds")


def test_a_pause_comes_before_the_handoff() -> None:
    run = after(TO_REFUNDS, wants("pay", id_="c3"))
    assert next_action(run) == Park((CallId("c3"),))
    assert next_action(settled(run, "c3")) == HandOver("refunds")


@pytest.mark.parametrize("behavior", ["stop_on_first_tool", {"stop_at": ["lookup"]}])
def test_a_handoff_wins_over_a_result_that_would_end_the_run(behavior: Any) -> None:
    run = after(
        wants("lookup", id_="c3"), TO_REFUNDS, before=clerk(config={"tool_use_behavior": behavior})
    )
    assert next_action(settled(run, "c3")) == HandOver("refunds")


def test_the_results_of_the_one_before_do_not_end_the_run_of_the_one_who_takes_over() -> None:
    stopping = {"refunds": member(tool_use_behavior="stop_on_first_tool")}
    run = hand_over(replace(after(TO_REFUNDS), team=stopping), Changes(), "refunds")
    assert next_action(run) == AskModel()


def test_a_run_changes_hands_once_for_a_handoff() -> None:
    run = hand_over(after(TO_REFUNDS), Changes(), "refunds")
    assert find_next_agent(run) is None
    assert find_next_agent(replace(run, turn=2)) is None


def test_who_takes_over_sees_the_whole_conversation_with_the_handoff_s_result() -> None:
    hello = Segment(SegmentKind.INPUT, 0, AGENT, (Message("user", "Hello."),))
    run = hand_over(after(TO_REFUNDS, before=clerk(segments=(hello,))), Changes(), "refunds")
    [first, *_, last] = build_conversation(run)
    assert first == Message("user", "Hello.")
    assert last == ToolResult(CallId("c1"), texts.handed_over("refunds"))


def test_a_message_that_came_in_meanwhile_goes_to_who_takes_over() -> None:
    more = Segment(SegmentKind.INPUT, 1, AGENT, (Message("user", "Hurry!"),))
    run = after(TO_REFUNDS)
    run = replace(run, segments=(*run.segments, more))
    assert next_action(run) == HandOver("refunds")
    assert next_action(hand_over(run, Changes(), "refunds")) == AskModel()


def done_with(transfer_to: str, **fields: Any) -> RunState:
    """A plugin's function said so."""
    run = after(wants("lookup"))
    return settled(run, "c1", replace(DONE, transfer_to=transfer_to, **fields))


def test_a_tool_may_hand_the_run_over_too() -> None:
    assert next_action(done_with("sales")) == HandOver("sales")


def test_the_model_s_own_handoff_wins_over_a_tool_s() -> None:
    run = after(wants("lookup", id_="c3"), TO_REFUNDS)
    given = settled(run, "c3", replace(DONE, transfer_to="sales"))
    assert output_of(given, "c1") == texts.handed_over("refunds")
    assert next_action(given) == HandOver("refunds")


@pytest.mark.parametrize("target", [AGENT, "gone"])
def test_a_handoff_to_itself_or_to_nobody_changes_nothing(target: str) -> None:
    run = replace(done_with(target), team=TEAM | {AGENT: member()})
    assert find_next_agent(run) is None
    assert next_action(run) == AskModel()


def test_a_handoff_is_for_a_run_that_goes_on() -> None:
    assert next_action(done_with("sales"), overdue=True) != HandOver("sales")
    cancelled = replace(done_with("sales"), cancel_after_turn=True)
    assert next_action(cancelled) == Finish(RunStatus.CANCELLED)


def test_a_handoff_with_arguments_or_beyond_the_limit_is_not_taken() -> None:
    wrong = after(wants("transfer_to_refunds", '{"reason": "x"}'))
    assert output_of(wrong).startswith("Tool 'transfer_to_refunds' was not run")
    assert next_action(wrong) == AskModel()
    over = after(TO_REFUNDS, before=clerk(config={"limits": {"max_tool_calls": 0}}))
    assert isinstance(next_action(over), Finish)


def test_an_agent_that_takes_over_does_not_inherit_what_was_approved_for_the_other() -> None:
    mine = clerk(remembered=(memory(agent=AGENT),))
    assert phase_of(after(wants("pay"), before=mine)) is CallPhase.READY
    other = replace(mine, agent="refunds")
    assert phase_of(after(wants("pay"), before=other)) is ASKED


def test_a_run_may_use_the_tools_of_its_whole_team() -> None:
    run = state(config={"tools": ["a", "b"]})
    team = {"x": member(tools=["b", "c"]), "y": member(tools=["a", "d"])}
    assert list_tool_names(run.config, team) == ("a", "b", "c", "d")


@pytest.mark.parametrize(
    ("model", "shown"),
    [("offline:a", "offline:a"), (["offline:a", "offline:b"], ["offline:a", "offline:b"])],
)
def test_a_new_run_says_its_agent_its_models_and_its_tools(model: Any, shown: Any) -> None:
    changes = Changes()
    config = state(config={"model": model, "tools": ["a"]}).config
    add_run_created(changes, "clerk", config, {"parent_call_id": "call_1"})
    assert event(changes, "run.created") == {
        "agent": "clerk",
        "model": shown,
        "tools": ["a"],
        "parent_call_id": "call_1",
    }


def test_a_workflow_has_no_model() -> None:
    changes = Changes()
    config = state(config={"model": None, "kind": "parallel", "agents": ["a"]}).config
    add_run_created(changes, None, config, {})
    assert event(changes, "run.created")["model"] is None


# Escalating.


def escalated(output: Any = "enough", text: str = "", **fields: Any) -> RunState:
    run, _ = taken(wants("lookup"), wants("lookup", "{", "c2"), tools=[tool()], **fields)
    [asked] = run.segments
    items = (Message("assistant", text), *asked.items) if text else asked.items
    run = replace(run, segments=(replace(asked, items=items),))
    return settled(run, "c1", replace(DONE, output=output, escalate=True))


@pytest.mark.parametrize(
    ("output", "text", "final"),
    [("enough", "", "enough"), ("enough", "I am done.", "I am done."), ({"a": 1}, "", {"a": 1})],
)
def test_a_tool_that_escalates_ends_the_agent_with_its_text_or_the_tool_s_output(
    output: Any, text: str, final: Any
) -> None:
    assert next_action(escalated(output, text)) == Finish(RunStatus.COMPLETED, final)


def test_what_escalates_ends_the_agent_with_the_whole_output() -> None:
    cut = replace(DONE, output="a … z", full="abc xyz", escalate=True)
    run = settled(escalated(), "c1", cut)
    assert next_action(run) == Finish(RunStatus.COMPLETED, "abc xyz")


def test_escalating_wins_over_a_handoff() -> None:
    run = replace(escalated(), team=TEAM)
    run = settled(run, "c2", replace(DONE, transfer_to="sales"))
    assert next_action(run) == Finish(RunStatus.COMPLETED, "enough")


def test_escalating_waits_for_the_calls_beside_it() -> None:
    run = escalated()
    open_one = call("c2", ASKED, position=1)
    assert next_action(run.with_call(open_one)) == Park((open_one.id,))


def test_the_output_of_who_escalates_must_match_the_schema_and_is_repaired_once() -> None:
    schema = Validator({"type": "object"}, at="output")
    run = escalated()
    assert isinstance(next_action(run, schema=schema), AskModel)
    repair = Segment(SegmentKind.REPAIR, 1, AGENT, (Message("user", "JSON, please."),))
    lost = replace(run, segments=(*run.segments, repair))
    assert next_action(lost, schema=schema) == AskModel()


def test_a_run_may_have_inline_tools_and_its_agent_handoffs() -> None:
    function = InlineToolSpec(
        name="look", parameters={"type": "object"}, type="client", strict=False
    )
    config = RunConfig(model="offline:rules", handoffs=("sales",), inline_tools=(function,))
    made = build_unregistered_tools(config, TEAM)
    assert list(made) == ["transfer_to_sales"]
    made = build_inline_tools(config)
    assert (made["look"].spec, made["look"].version) == (function, UNREGISTERED)
    changes = Changes()
    add_run_created(changes, None, config, {})
    assert event(changes, "run.created")["tools"] == ["look"]
    workflow = state(config={"kind": "loop", "agents": ["sales"], "model": None}).config
    assert list(build_unregistered_tools(workflow, TEAM)) == ["sales"]
