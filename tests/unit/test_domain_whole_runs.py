"""Whole runs, driven without any IO by whatever Hypothesis thinks of."""

from collections.abc import Sequence
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from runward.domain.events.base import AnyEvent
from runward.domain.events.values import CallReason
from runward.domain.run.conversation import build_conversation
from runward.domain.run.items import Message, ToolCall, ToolResult
from runward.domain.run.state import CallOutcome, CallPhase, SegmentKind
from runward.domain.run.status import RUN_ENDINGS, RunStatus
from runward.domain.schema.validator import Validator
from tests.unit.domain_cases import AGENT, member, state
from tests.unit.domain_drive import HELPER, SCHEMA, Choose, Drive

MAX_STEPS = 400
"""A run of six turns with five calls each, retries, approvals and mishaps takes fewer."""


ON_MAX_TURNS: list[Any] = ["incomplete", "summarise", "fail", {"output": "x"}]
CONFIGS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "limits": st.fixed_dictionaries(
            {
                "max_turns": st.sampled_from([1, 3, 6, 9]),
                "max_tool_calls": st.sampled_from([3, 200, 200]),
                "max_parallel_tool_calls": st.integers(1, 3),
                "max_tokens": st.sampled_from([None, None, None, 40]),
            }
        ),
        "on_max_turns": st.sampled_from(ON_MAX_TURNS),
        "handoffs": st.sampled_from([["helper"], []]),
        "tool_use_behavior": st.sampled_from(["run_llm_again"] * 3 + ["stop_on_first_tool"]),
    }
)
SCHEMAS = st.sampled_from([None, None, SCHEMA])


def driven(config: dict[str, Any], schema: Validator | None, choose: Choose) -> Drive:
    team = {"helper": HELPER, AGENT: member(**config)}
    drive = Drive(state(config=config, team=team), choose, schema=schema)
    for _ in range(MAX_STEPS):
        if drive.finish is not None:
            return drive
        drive.step()
    raise AssertionError(f"The run does not end: {drive.run}")


@st.composite
def short_runs(draw: st.DrawFn) -> Drive:
    """Each choice is Hypothesis's own: it can make what fails small."""

    def choose(options: Sequence[Any]) -> Any:
        return options[draw(st.integers(0, len(options) - 1))]

    return driven(draw(CONFIGS), draw(SCHEMAS), choose)


@st.composite
def long_runs(draw: st.DrawFn) -> Drive:
    """Hypothesis would rather not make so many choices."""
    choose = Random(draw(st.integers(0, 2**64))).choice
    return driven(draw(CONFIGS), draw(SCHEMAS), choose)


def of(drive: Drive, call_id: str, *types: str) -> list[AnyEvent]:
    return [
        event for event in drive.log if event.data.get("call_id") == call_id and event.type in types
    ]


def ends(drive: Drive, call_id: str) -> list[AnyEvent]:
    every = of(drive, call_id, *(f"tool_call.{outcome}" for outcome in CallOutcome))
    return [event for event in every if not event.data.get("awaiting_resolution")]


@settings(max_examples=300)
@given(short_runs() | long_runs())
def test_whatever_happens_a_run_ends_and_keeps_its_promises(drive: Drive) -> None:
    it_ends_once_with_nothing_open(drive)
    every_call_settles_once_and_says_so(drive)
    attempts_are_counted_and_committed_first(drive)
    a_call_that_is_not_idempotent_is_delivered_at_most_once(drive)
    a_gated_call_starts_only_after_a_yes(drive)
    the_model_saw_every_result_once_in_order(drive)
    limits_held(drive)
    the_log_says_whose_run_it_was(drive)
    no_message_goes_unseen(drive)
    what_was_used_and_shared_adds_up(drive)


def it_ends_once_with_nothing_open(drive: Drive) -> None:
    assert drive.finish is not None
    assert not drive.run.open_calls
    terminal = {kind.type for kind in RUN_ENDINGS.values()}
    assert [event.type in terminal for event in drive.log].index(True) == len(drive.log) - 1


def every_call_settles_once_and_says_so(drive: Drive) -> None:
    for call_id, one in drive.run.calls.items():
        assert one.phase is CallPhase.SETTLED
        assert one.result is not None
        assert len(of(drive, call_id, "tool_call.created")) == 1
        [end] = ends(drive, call_id)
        assert end.type == f"tool_call.{one.result.outcome}"
        mine = [event for event in drive.log if event.data.get("call_id") == call_id]
        assert mine[0].type == "tool_call.created"
        assert mine[-1] is end


def attempts_are_counted_and_committed_first(drive: Drive) -> None:
    for call_id, one in drive.run.calls.items():
        started = of(drive, call_id, "tool_call.started")
        assert [event.data["attempt"] for event in started] == [*range(1, one.attempt + 1)]


def a_call_that_is_not_idempotent_is_delivered_at_most_once(drive: Drive) -> None:
    for call_id, count in drive.deliveries.items():
        assert count <= 1 or drive.tools[drive.run.calls[call_id].tool].spec.idempotent


def a_gated_call_starts_only_after_a_yes(drive: Drive) -> None:
    for call_id, one in drive.run.calls.items():
        types = ("tool_call.approval_requested", "tool_call.approval_decided", "tool_call.started")
        allowed = one.tool != "pay"
        for event in of(drive, call_id, *types):
            match event.type:
                case "tool_call.approval_requested":
                    allowed = False
                case "tool_call.approval_decided":
                    allowed = event.data["decision"] in ("approve", "edit")
                case _:
                    assert allowed
        assert one.result is not None
        by_a_person = one.result.reason is not CallReason.GUARDRAIL
        if one.result.outcome is CallOutcome.REJECTED and one.tool == "pay" and by_a_person:
            assert one.attempt == 0


def the_model_saw_every_result_once_in_order(drive: Drive) -> None:
    pending: list[str] = []
    for item in build_conversation(drive.run):
        match item:
            case ToolCall():
                pending.append(item.call_id)
            case ToolResult():
                assert pending.pop(0) == item.call_id
            case Message():
                assert not pending
            case _:
                raise AssertionError(item)
    assert not pending


def limits_held(drive: Drive) -> None:
    limits = drive.run.config.limits
    summary = drive.run.config.on_max_turns == "summarise"
    assert drive.run.turn <= drive.asked <= limits.max_turns + summary
    told = [event.type for event in drive.log]
    assert told.count("usage.updated") == drive.run.turn + drive.children
    ran = {str(event.data["call_id"]) for event in drive.log if event.type == "tool_call.started"}
    assert len(ran) <= limits.max_tool_calls


def the_log_says_whose_run_it_was(drive: Drive) -> None:
    agent: object = AGENT
    for event in drive.log:
        if event.type == "handoff.completed":
            assert event.data["from"] == agent != event.data["to"]
            agent = event.data["to"]
        elif event.type in ("message.completed", "tool_call.created"):
            assert event.data["agent"] == agent
    assert drive.run.agent == agent
    handed = [one.result for one in drive.run.calls.values() if one.result]
    targets = [result.transfer_to for result in handed if result.transfer_to]
    assert [event.type for event in drive.log].count("handoff.completed") <= len(targets)


def no_message_goes_unseen(drive: Drive) -> None:
    """A response stands after all that its model was shown, and before all that it was not."""
    segments = drive.run.segments
    places = [i for i, one in enumerate(segments) if one.kind is SegmentKind.RESPONSE]
    assert [segments[:place] for place in places] == drive.shown
    assert drive.finish is not None
    if drive.finish.status is RunStatus.COMPLETED and drive.finish.code is None:
        assert segments[-1].kind is SegmentKind.RESPONSE


def what_was_used_and_shared_adds_up(drive: Drive) -> None:
    assert drive.run.usage == drive.used
    shared: dict[str, Any] = {}
    for event in drive.log:
        if event.type == "state.updated":
            changes: dict[str, Any] = event.data["changes"]
            shared = {key: one for key, one in (shared | changes).items() if one is not None}
    assert drive.run.shared_state == shared
