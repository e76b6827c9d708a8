"""Webhook tools that ask the caller: the run shows what they ask, and they are sent the answer."""

import json
from typing import Any

import pytest

from tests.api.project import PATIENCE_SECONDS, Project, call, of_type, result_of
from tests.api.test_client_tools_api import give, refused
from tests.api.test_tools_api import accepted_for_later, call_back, code_of
from tests.support.models.chat_server import calls, text
from tests.support.services.client import Json
from tests.support.tools.hits import Hit
from tests.support.tools.server import Behaviour

ASKS: Json = {"status": "input_required", "requests": {"code": "?"}, "state": {"step": 1}}


def asking(project: Project, *behaviours: Behaviour, **fields: Any) -> tuple[Json, Hit]:
    """A run whose tool answered 202 and then asked; it answers as `behaviours` say after that."""
    url = project.tools.tool(project.tool_key("work"), Behaviour("later"), *behaviours)
    run, hit = asked_by(project, url, **fields)
    assert call_back(hit, **ASKS).status_code == 200
    return asked(project, run), hit


def asked_by(project: Project, url: str, **fields: Any) -> tuple[Json, Hit]:
    made = project.client.register_tool("work", url, **fields)
    project.tools.secrets(project.tool_key("work"), made["secret"])
    run = project.accepted(calls(call(1, "work")), text("ok"), tools=["work"])
    [hit] = project.hits("work")
    return run, hit


def asked(project: Project, run: Json, count: int = 1) -> Json:
    """The run, when it has said so many times that it waits for the caller."""
    project.until(run, "run.waiting", count)
    return project.settle(run)


def statuses(project: Project, run: Json) -> list[str]:
    """The progress of the run's calls, so far."""
    events = of_type(project.client.events(run["id"]), "tool_call.progress")
    return [one["status"] for one in events]


def test_the_run_shows_what_the_tool_asks(project: Project) -> None:
    run, _ = asking(project, Behaviour("return", value="paid"))
    assert run["status"] == "requires_action"
    assert run["required_actions"] == [
        {
            "type": "tool_result",
            "run_id": run["id"],
            "call_id": "c1",
            "tool": "work",
            "arguments": {"x": "1"},
            "requests": {"code": "?"},
            "path": [],
        }
    ]
    [ledger] = project.client.tool_calls(run["id"])
    assert ledger["phase"] == "awaiting_input"
    told = of_type(project.client.events(run["id"]), "run.waiting")[-1]
    assert told["waiting_for"] == [{"type": "tool_result", "call_id": "c1", "tool": "work"}]


def test_the_tool_is_sent_the_answer_and_its_state_under_the_same_id(project: Project) -> None:
    run, first = asking(project, Behaviour("return", value="paid"))
    give(project, run, output={"code": "42"})
    assert project.end(run)["output"] == "ok"
    assert result_of(project.asked(), "c1") == "paid"
    before, after = project.hits("work")
    assert before.webhook_id == after.webhook_id == first.webhook_id
    assert "input" not in before.body
    assert after.body["input"] == {"responses": {"code": "42"}, "state": {"step": 1}}
    assert (before.attempt, after.attempt) == (1, 2)
    assert before.fence < after.fence
    assert after.verified
    assert statuses(project, run) == ["accepted", "input_required", "input_given"]


def test_it_may_ask_again_and_answer_later(project: Project) -> None:
    run, first = asking(project, Behaviour("later"))
    give(project, run, output="one")
    project.wait_for_hits("work", 2)
    again = call_back(first, status="input_required", requests="more?", state=2)
    assert again.status_code == 200
    run = project.settle(run)
    [action] = asked(project, run, 2)["required_actions"]
    assert action["requests"] == "more?"
    give(project, run, output="two")
    hit = project.wait_for_hits("work", 3)[-1]
    assert hit.body["input"] == {"responses": "two", "state": 2}
    assert call_back(hit, status="completed", output={"done": True}).status_code == 200
    assert project.end(run)["output"] == "ok"
    assert json.loads(result_of(project.asked(), "c1")) == {"done": True}


def test_the_same_question_and_the_same_answer_again_change_nothing(project: Project) -> None:
    run, hit = asking(project, Behaviour("later"))
    events = project.client.events(run["id"])
    assert call_back(hit, **ASKS).status_code == 200
    assert project.client.events(run["id"]) == events
    other = call_back(hit, **ASKS | {"requests": "something else"})
    assert code_of(other) == (409, "conflict")
    give(project, run, output="42")
    give(project, run, output="42")
    refused(project, "result_already_given", run, output="43")
    refused(project, "result_already_given", run, error="no")
    last = project.wait_for_hits("work", 2)[-1]
    assert call_back(last, status="completed", output=1).status_code == 200
    project.end(run)
    assert len(project.hits("work")) == 2
    assert code_of(call_back(last, **ASKS)) == (409, "result_already_given")


def test_a_question_that_is_delivered_again_after_its_answer_asks_nobody(project: Project) -> None:
    """The next attempt may ask the same, which is another question."""
    run, first = asking(project, Behaviour("later"), Behaviour("return", value="paid"))
    give(project, run, output="42")
    second = project.wait_for_hits("work", 2)[-1]
    project.until(run, "tool_call.progress", 4)
    assert call_back(first, **ASKS).status_code == 200
    assert statuses(project, run) == ["accepted", "input_required", "input_given", "accepted"]
    assert call_back(second, **ASKS).status_code == 200
    [action] = asked(project, run, 2)["required_actions"]
    assert action["requests"] == {"code": "?"}
    give(project, run, output="43")
    assert project.end(run)["output"] == "ok"


def test_a_caller_that_does_not_answer_fails_the_call(project: Project) -> None:
    run, _ = asking(project)
    settled = give(project, run, error="I do not know the code.")
    assert (settled["outcome"], settled["reason"]) == ("failed", "tool_error")
    assert project.end(run)["output"] == "ok"
    assert result_of(project.asked(), "c1") == "I do not know the code."
    assert len(project.hits("work")) == 1


def test_the_tool_may_go_on_without_the_answer(project: Project) -> None:
    run, hit = asking(project)
    assert call_back(hit, status="progress", progress=0.5).status_code == 200
    assert call_back(hit, status="completed", output="found it").status_code == 200
    assert project.end(run)["output"] == "ok"
    assert result_of(project.asked(), "c1") == "found it"
    refused(project, "call_not_waiting", run, output=1)


def test_a_call_is_not_overdue_while_the_caller_thinks(project: Project) -> None:
    run, _ = asking(project, Behaviour("return", value="paid"), timeout_seconds=2)
    project.tools.tool(project.tool_key("slow"), Behaviour(sleep=3))
    made = project.client.register_tool("slow", project.tools.url_of(project.tool_key("slow")))
    project.tools.secrets(project.tool_key("slow"), made["secret"])
    model = project.script(calls(call(1, "slow")), text("over"), name="clock")
    assert project.run(model=model, tools=["slow"])["output"] == "over"
    give(project, run, output="42")
    assert project.end(run)["output"] == "ok"
    assert result_of(project.asked(), "c1") == "paid"


def test_a_tool_asks_twenty_times_at_most(project: Project) -> None:
    run, hit = asking(project, Behaviour("later"))
    for number in range(1, 20):
        give(project, run, output=number)
        hit = project.wait_for_hits("work", number + 1)[-1]
        assert call_back(hit, **ASKS | {"state": number}).status_code == 200
    give(project, run, output=20)
    hit = project.wait_for_hits("work", 21)[-1]
    assert code_of(call_back(hit, **ASKS)) == (409, "conflict")
    assert call_back(hit, status="completed", output="enough").status_code == 200
    assert project.end(run)["output"] == "ok"


@pytest.mark.parametrize("field", ["requests", "state"])
def test_what_it_asks_and_wants_back_has_a_limit(project: Project, field: str) -> None:
    run, hit = accepted_for_later(project)
    large = call_back(hit, **ASKS | {field: "x" * 65_536})
    assert code_of(large) == (422, "invalid_request")
    assert project.client.get_run(run["id"]) == run
    project.client.cancel(run["id"])


def test_a_cancel_while_it_asks_tells_the_tool(project: Project) -> None:
    run, hit = asking(project)
    project.client.cancel(run["id"])

    def came(hits: list[Hit]) -> bool:
        return any(one.type == "tool_call.cancelled" and one.run_id == run["id"] for one in hits)

    project.tools.until(came, PATIENCE_SECONDS)
    assert code_of(call_back(hit, status="completed", output=1)) == (410, "late_callback")
    refused(project, "call_not_waiting", run, output="42")
