"""Processes are killed at every step of a run; another one finishes it, and the tool's own log
shows what was promised: once, or as often as the tool said that it may be."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import httpx2
import pytest

from tests.e2e.conftest import Processes
from tests.e2e.paying import LEASE_SECONDS, MODEL, Paying
from tests.support.models.chat_server import Call, ModelServer, calls, text
from tests.support.services.client import Client, Json
from tests.support.tools.server import Behaviour, ToolServer
from tests.support.tools.witness import started_witness

pytestmark = pytest.mark.timeout(240)

UNKNOWN_OUTCOME = "may or may not have taken effect"
LONG_LEASE = "120"
RACERS = 16
RACES = 5


def test_a_worker_killed_before_the_call(
    start: Processes, model: ModelServer, tools: ToolServer
) -> None:
    paying = Paying(start, model, tools)
    thinking = paying.hold_first_answer_of_turn(0)
    first = paying.worker()
    run_id = paying.run()
    thinking.arrived()
    first.kill()
    thinking.release()
    paying.worker()
    paying.finish(run_id)
    assert paying.turns_asked() == [0, 0, 1]
    assert len(tools.hits("pay")) == 1
    assert paying.result() == "pay(1)"
    assert paying.broken(run_id) == []


def test_a_worker_killed_while_an_inline_tool_waits_for_approval(
    start: Processes, model: ModelServer, tools: ToolServer
) -> None:
    paying = Paying(start, model, tools)
    tools.secrets("pay", paying.client.call("POST", "/v1/signing_secret/rotate")["secret"])
    definition: Json = {
        "type": "function",
        "function": {"name": "pay", "parameters": {"type": "object", "properties": {}}},
        "url": paying.client.call("GET", "/v1/tools/pay")["url"],
        "headers": {"X-Key": "hunter2"},
        "approval": "always",
    }
    first = paying.worker()
    run_id = paying.client.start_run(model=f"openai:{MODEL}", tools=[definition])["id"]
    assert paying.client.settle(run_id)["status"] == "requires_action"
    first.kill()
    paying.worker()
    paying.finish(run_id)
    [hit] = tools.hits("pay")
    assert (hit.verified, hit.headers["x-key"], hit.body["tool_version"]) == (True, "hunter2", 0)


def test_a_worker_killed_while_the_run_waits_for_approval(
    start: Processes, model: ModelServer, tools: ToolServer
) -> None:
    paying = Paying(start, model, tools)
    first = paying.worker()
    run_id = paying.parked()
    first.kill()
    assert paying.approve(run_id)["status"] == "approved"  # nobody is there to act on it
    assert paying.client.get_run(run_id)["status"] == "queued"
    assert tools.hits("pay") == []
    paying.worker()
    paying.finish(run_id)
    assert paying.turns_asked() == [0, 1]
    assert len(tools.hits("pay")) == 1
    assert paying.broken(run_id) == []


def test_a_worker_killed_during_a_call_that_may_not_be_repeated(
    start: Processes, model: ModelServer, tools: ToolServer
) -> None:
    paying = Paying(start, model, tools, Behaviour(hold="counter"))
    first = paying.worker()
    run_id = paying.parked()
    paying.approve(run_id)
    tools.hold("counter").arrived()
    first.kill()
    tools.hold("counter").release()
    paying.worker()
    paying.finish(run_id)
    assert [hit.attempt for hit in tools.hits("pay")] == [1]
    assert UNKNOWN_OUTCOME in paying.result()
    assert "tool_call.outcome_unknown" in paying.event_types(run_id)
    assert paying.broken(run_id) == []


def test_a_worker_killed_during_a_call_that_may_be_repeated(
    start: Processes, model: ModelServer, tools: ToolServer
) -> None:
    behaviours = (Behaviour(hold="counter"), Behaviour())
    paying = Paying(start, model, tools, *behaviours, idempotent=True)
    first = paying.worker()
    run_id = paying.parked()
    paying.approve(run_id)
    tools.hold("counter").arrived()
    first.kill()
    paying.worker()
    paying.finish(run_id)
    before, after = tools.hits("pay")
    assert before.webhook_id == after.webhook_id
    assert (before.attempt, after.attempt) == (1, 2)
    assert before.fence < after.fence
    assert paying.result() == "pay(1)"
    assert paying.broken(run_id) == []


def test_a_worker_killed_before_the_last_answer(
    start: Processes, model: ModelServer, tools: ToolServer
) -> None:
    paying = Paying(start, model, tools)
    thinking = paying.hold_first_answer_of_turn(1)
    first = paying.worker()
    run_id = paying.parked()
    paying.approve(run_id)
    thinking.arrived()
    first.kill()
    thinking.release()
    paying.worker()
    paying.finish(run_id)
    assert paying.turns_asked() == [0, 1, 1]
    assert len(tools.hits("pay")) == 1
    assert paying.broken(run_id) == []


def test_a_frozen_worker_that_wakes_up_changes_nothing(
    start: Processes, model: ModelServer, tools: ToolServer
) -> None:
    paying = Paying(start, model, tools)
    thinking = paying.hold_first_answer_of_turn(0)
    zombie = paying.worker()
    run_id = paying.run()
    thinking.arrived()
    zombie.pause()
    successor = paying.worker()
    paying.finish(run_id)
    events = paying.client.events(run_id)
    successor.kill()
    thinking.release()
    zombie.resume()
    other = paying.run()  # when the woken worker has done this one, it has dealt with its past
    paying.finish(other)
    assert paying.client.events(run_id) == events
    assert [hit.run_id for hit in tools.hits("pay")] == [run_id, other]
    assert paying.broken(run_id, other) == []


def test_a_killed_service_goes_on_after_a_restart(
    start: Processes, model: ModelServer, tools: ToolServer
) -> None:
    served = start("serve", lease_seconds=LEASE_SECONDS)
    paying = Paying(start, model, tools, served=served)
    parked = paying.parked()
    before = paying.client.events(parked)
    thinking = paying.hold_first_answer_of_turn(0)
    thoughtful = paying.run()
    thinking.arrived()
    served.kill()
    thinking.release()
    again = start("serve", lease_seconds=LEASE_SECONDS)
    with Client(again.url, paying.client.key) as client:
        paying.client = client
        tools.witness = started_witness(again.url, client.key)
        assert client.get_run(parked)["status"] == "requires_action"
        assert client.events(parked) == before
        paying.finish(parked)
        paying.finish(thoughtful)
        assert client.events(parked)[: len(before)] == before
        assert len(tools.hits("pay")) == 2
        assert paying.broken(parked, thoughtful) == []


def test_a_worker_told_to_stop_hands_back_a_run_whose_model_still_thinks(
    start: Processes, model: ModelServer, tools: ToolServer
) -> None:
    paying = Paying(start, model, tools)
    thinking = paying.hold_first_answer_of_turn(0)
    first = paying.worker(RUNWARD_LEASE_SECONDS=LONG_LEASE, RUNWARD_DRAIN_SECONDS="1")
    run_id = paying.run()
    thinking.arrived()
    assert first.terminate(timeout=30) == 0
    assert paying.client.get_run(run_id)["status"] == "queued"  # long before its lease is over
    paying.worker()
    paying.finish(run_id)
    assert paying.turns_asked() == [0, 0, 1]
    assert paying.broken(run_id) == []


def test_a_worker_told_to_stop_waits_for_a_call_that_was_sent(
    start: Processes, model: ModelServer, tools: ToolServer
) -> None:
    slow = Behaviour(hold="counter", sleep=0.5)
    paying = Paying(start, model, tools, slow, approval="never")
    first = paying.worker(RUNWARD_LEASE_SECONDS=LONG_LEASE, RUNWARD_DRAIN_SECONDS="60")
    run_id = paying.run()
    tools.hold("counter").arrived()
    first.ask_to_stop()
    tools.hold("counter").release()
    assert first.terminate(timeout=60) == 0
    paying.worker()
    paying.finish(run_id)
    assert len(tools.hits("pay")) == 1
    assert paying.result() == "pay(1)"
    assert paying.broken(run_id) == []


def test_a_run_is_cancelled_although_its_worker_is_dead(
    start: Processes, model: ModelServer, tools: ToolServer
) -> None:
    paying = Paying(start, model, tools, Behaviour(hold="counter"), Behaviour())
    first = paying.worker()
    run_id = paying.parked()
    paying.approve(run_id)
    tools.hold("counter").arrived()
    first.kill()
    paying.client.cancel(run_id)
    assert paying.client.get_run(run_id)["status"] == "cancelled"
    events = paying.client.events(run_id)
    paying.worker()
    other = paying.run()  # when the new worker has done this one, it has seen the cancelled one
    paying.finish(other)
    assert paying.client.events(run_id) == events
    assert [hit.run_id for hit in tools.hits("pay")] == [run_id, other]
    assert paying.broken(run_id, other) == []


def different_decisions() -> list[Json]:
    half = RACERS // 2 - 1
    return [
        {"decision": "approve"},
        {"decision": "reject", "message": "no"},
        *({"decision": "edit", "arguments": {"x": f"edited {n}"}} for n in range(half)),
        *({"decision": "respond", "output": f"responded {n}"} for n in range(half)),
    ]


STATUS = {
    "approve": "approved",
    "reject": "rejected",
    "edit": "edited",
    "respond": "responded",
}


def race(clients: tuple[Client, ...], approval_id: str) -> Json:
    """All decisions at the same moment, through different processes. The one that won; every other
    was told so."""
    line = Barrier(RACERS, timeout=30)

    def decide(number: int) -> httpx2.Response:
        line.wait()
        client, path = clients[number % len(clients)], f"/v1/approvals/{approval_id}/decision"
        return client.request("POST", path, decisions[number])

    decisions = different_decisions()
    with ThreadPoolExecutor(RACERS) as pool:
        answers = list(pool.map(decide, range(RACERS)))
    [winner] = [at for at, answer in enumerate(answers) if answer.status_code == 200]
    status = STATUS[decisions[winner]["decision"]]
    assert answers.pop(winner).json()["status"] == status
    for lost in answers:
        assert lost.status_code == 409
        assert status in lost.text
        assert lost.headers["x-should-retry"] == "false"
    return decisions[winner]


def test_of_many_different_decisions_at_once_exactly_one_counts(
    start: Processes, model: ModelServer, tools: ToolServer
) -> None:
    paying = Paying(start, model, tools)
    second = start("api", lease_seconds=LEASE_SECONDS)
    clients = (paying.client, Client(second.url, paying.client.key))
    start.keep(clients[1])
    paying.worker()
    asked = [Call(f"c{n}", "pay", f'{{"x":"{n}"}}') for n in range(RACES)]
    model.by_turn(MODEL, calls(*asked), text("done"))
    run_id = paying.parked()
    won: dict[str, Json] = {}
    for approval in paying.client.approvals(run_id=run_id):
        won[approval["call_id"]] = race(clients, approval["id"])
        decided = paying.client.call("GET", f"/v1/approvals/{approval['id']}")
        assert decided["status"] == STATUS[won[approval["call_id"]]["decision"]]
    run = paying.client.settle(run_id)
    assert run["status"] == "completed"
    assert {hit.call_id: hit.arguments for hit in tools.hits("pay")} == dict(sent_after(won))
    results = dict(model.requests(MODEL)[-1].results)
    for call_id, winner in won.items():
        if winner["decision"] == "respond":
            assert results[call_id] == winner["output"]
        if winner["decision"] == "reject":
            assert results[call_id] == winner["message"]
    assert paying.broken(run_id) == []


def sent_after(won: dict[str, Json]) -> list[tuple[str, dict[str, Any]]]:
    """What must have been sent: approved calls as they were, edited ones as edited."""
    sent: list[tuple[str, dict[str, Any]]] = []
    for call_id, winner in won.items():
        if winner["decision"] == "approve":
            sent.append((call_id, {"x": call_id.removeprefix("c")}))
        if winner["decision"] == "edit":
            sent.append((call_id, winner["arguments"]))
    return sent
