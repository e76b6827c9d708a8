"""The plans of the load, and the place of a request in its plan."""

import pytest

from tests.chaos.load.frames import Asked, chat_frames, responses_frames
from tests.chaos.load.models import place_in_chat, place_in_responses
from tests.chaos.load.plan import (
    CYCLE,
    KIND_WEIGHTS,
    Json,
    Plan,
    plan_id_in,
    plan_of,
    role_of,
    usage_of,
)
from tests.chaos.load.registry import WEBHOOK_TOOLS
from tests.chaos.load.tools import ANSWERS

SEED = 7
PLANS = [plan_of(SEED, number) for number in range(10 * CYCLE)]
TRANSIENT_TRIES = 4
"""The service asks a model so often."""


def test_a_cycle_has_every_kind_of_run() -> None:
    assert sorted(plan.kind for plan in PLANS[:CYCLE]) == sorted(
        kind for kind, weight in KIND_WEIGHTS.items() for _ in range(weight)
    )


def test_a_plan_depends_on_nothing_but_the_seed_and_the_number() -> None:
    plan_of.cache_clear()
    assert [plan_of(SEED, plan.number) for plan in reversed(PLANS)] == PLANS[::-1]
    assert plan_of(SEED + 1, 3) != plan_of(SEED, 3)


def test_a_model_answers_before_the_service_gives_up() -> None:
    faults = [turn.faults for plan in PLANS for script in plan.scripts.values() for turn in script]
    assert 0 < max(len(one) for one in faults) < TRANSIENT_TRIES


def test_every_webhook_call_has_a_tool_and_an_answer() -> None:
    for plan in PLANS:
        for call in plan.calls.values():
            if call.tool in WEBHOOK_TOOLS:
                assert set(call.behaviors) <= ANSWERS.keys()


@pytest.mark.parametrize("kind", ["gated_reject", "gated_respond", "gated_expire"])
def test_a_call_that_is_surely_refused_may_not_be_hit(kind: str) -> None:
    alone = [plan for plan in PLANS if plan.kind == kind and len(plan.decisions) <= 1]
    assert alone
    for plan in alone:
        [tool] = {call.tool for call in plan.calls.values()} & {"refund", "refund_brief"}
        assert plan.expects["hits_at_most"][tool] == 0


def test_a_call_that_may_not_be_repeated_is_hit_once_at_most() -> None:
    for plan in PLANS:
        charges = [call for call in plan.calls.values() if call.tool == "charge"]
        if charges:
            assert plan.expects["hits_at_most"]["charge"] == len(charges)


def test_a_run_that_a_client_may_lose_sight_of_ends_without_it() -> None:
    unkeyed = [plan for plan in PLANS if plan.creation == "unkeyed"]
    assert unkeyed
    for plan in unkeyed:
        assert plan.session is None
        assert not plan.decisions
        assert not {"read_file", "transfer"} & {call.tool for call in plan.calls.values()}


def said(role: str, content: str) -> Json:
    return {"role": role, "content": content}


def test_a_turn_is_counted_from_the_first_message_of_its_plan() -> None:
    earlier = [said("user", "plan-000001: session"), said("assistant", "done")]
    own = [said("user", "plan-000002: session"), said("assistant", "")]
    more = [said("user", "plan-000002: and one more thing")]
    assert place_in_chat({"messages": earlier + own + more}) == ("plan-000002", 1)
    assert place_in_chat({"messages": [said("user", "hello")]}) == (None, 0)


def test_items_of_one_response_are_one_turn() -> None:
    call: Json = {"type": "function_call", "call_id": "c"}
    result: Json = {"type": "function_call_output", "call_id": "c", "output": "1"}
    items = [said("user", "plan-000003: parallel"), call, call, result, result, call, result]
    assert place_in_responses({"input": items}) == ("plan-000003", 2)


def test_both_protocols_end_with_the_same_calls_and_usage() -> None:
    plan = next(plan for plan in PLANS if plan.kind == "parallel")
    calls = [(call, "{}") for call in plan.scripts["main"][0].calls]
    usage = usage_of(plan.id, "main", 0)
    chat = list(chat_frames(asked(plan), "", calls, usage))[-1][1]
    whole = list(responses_frames(asked(plan), "", calls, usage))[-1][1]
    message = chat["choices"][0]["message"]
    assert [call["id"] for call in message["tool_calls"]] == [
        item["call_id"] for item in whole["output"]
    ]
    assert chat["usage"]["prompt_tokens"] == whole["usage"]["input_tokens"]
    assert usage == usage_of(plan.id, "main", 0) != usage_of(plan.id, "main", 1)


def asked(plan: Plan) -> Asked:
    return Asked(1, "chat", "main-01", plan.id, 0, streamed=True)


def test_a_plan_id_and_a_role_are_read_from_a_request() -> None:
    assert plan_id_in("after plan-000001 comes plan-000012: go") == "plan-000012"
    assert plan_id_in("plan-1") is None
    assert [role_of(model) for model in ("main-07", "clerk")] == ["main", "clerk"]
