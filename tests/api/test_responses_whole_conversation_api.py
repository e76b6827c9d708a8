"""Decisions of clients that send the whole conversation, and not previous_response_id, as the AI
SDK and the OpenAI Agents SDK do by default."""

from typing import Any

import pytest

from tests.api.project import Project
from tests.api.test_open_responses import WEATHER, create, message
from tests.api.test_responses_api import (
    PAY,
    asks_to_pay,
    decision,
    output_of,
    refused,
    run_of,
    said,
)
from tests.support.services.client import Json

ASKS = message("user", 'pay(x="5")')


def reference(item: Json) -> Json:
    return {"type": "item_reference", "id": item["id"]}


def repeat(item: Json) -> Json:
    return item


@pytest.mark.parametrize("shown", [reference, repeat])
def test_a_decision_continues_the_run_of_its_approval(project: Project, shown: Any) -> None:
    first = asks_to_pay(project, "5")
    [asked] = first["output"]
    second = create(project, ASKS, shown(asked), decision(asked), tools=[PAY])
    assert run_of(second) == run_of(first)
    assert [item["type"] for item in second["output"]] == ["mcp_call", "message"]
    assert create(project, ASKS, shown(asked), decision(asked), tools=[PAY]) == second
    assert len(project.hits("pay")) == 1


def test_an_earlier_decision_is_part_of_the_history(project: Project) -> None:
    first = asks_to_pay(project, "5")
    [asked] = first["output"]
    begin = [ASKS, reference(asked), decision(asked)]
    second = create(project, *begin, tools=[PAY])
    history = [*begin, *map(reference, second["output"]), message("user", 'pay(x="6")')]
    third = create(project, *history, tools=[PAY])
    assert run_of(third) != run_of(first)
    [again] = third["output"]
    fourth = create(project, *history, reference(again), decision(again), tools=[PAY])
    assert run_of(fourth) == run_of(third)
    assert "pay(6)" in said(fourth)
    assert len(project.hits("pay")) == 2


def test_two_decisions_come_with_the_result_of_a_function(project: Project) -> None:
    project.tool("pay", approval="always")
    asks = message("user", 'pay(x="1") pay(x="2") get_weather(location="Rome")')
    first = create(project, asks, tools=[PAY, WEATHER])
    *asked, called = first["output"]
    answers = [*map(decision, asked), output_of(called["call_id"], "sun")]
    second = create(project, asks, *first["output"], *answers, tools=[PAY, WEATHER])
    assert run_of(second) == run_of(first)
    assert all(part in said(second) for part in ("pay(1)", "pay(2)", "sun"))


def test_a_message_can_follow_the_decision(project: Project) -> None:
    first = asks_to_pay(project, "5")
    [asked] = first["output"]
    second = create(project, ASKS, asked, decision(asked), message("user", "Thanks."), tools=[PAY])
    assert run_of(second) == run_of(first)
    assert '"Thanks."' in said(second)


def test_a_decision_of_another_project_is_unknown(project: Project, other: Project) -> None:
    first = asks_to_pay(project, "5")
    [asked] = first["output"]
    error = refused(other, 400, "invalid_value", input=[ASKS, asked, decision(asked)])
    assert "previous_response_id" in error["message"]
    error = refused(other, 400, "invalid_value", input=[ASKS, reference(asked), decision(asked)])
    assert error["message"] == f"Item with id '{asked['id']}' not found."
    assert project.hits("pay") == []
