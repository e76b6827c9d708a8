"""Results that come later, from clients and tools: whoever is dead meanwhile, they count once."""

import httpx2
import pytest

from tests.e2e.conftest import Processes
from tests.e2e.paying import LEASE_SECONDS, MODEL, Paying
from tests.support.models.chat_server import Call, ModelServer, calls, text
from tests.support.services.client import Client, Json
from tests.support.services.service import Service
from tests.support.tools.hits import Hit
from tests.support.tools.server import Behaviour, ToolServer

pytestmark = pytest.mark.timeout(180)

CLIENT_TOOL: Json = {
    "name": "measure",
    "type": "client",
    "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
}


def call_back(hit: Hit, api: Service, **said: object) -> httpx2.Response:
    """Over an API process that may be another one than the hit's."""
    path = httpx2.URL(hit.body["callback"]["url"]).path
    return httpx2.post(f"{api.url}{path}", json=said, timeout=30, trust_env=False)


def is_notice(hit: Hit) -> bool:
    return hit.type == "tool_call.cancelled"


def notices(tools: ToolServer, count: int) -> list[Hit]:
    """As soon as there are so many."""
    return [hit for hit in tools.until(lambda hits: sum(map(is_notice, hits)) >= count, 30)
            if is_notice(hit)]  # fmt: skip


def for_later(
    start: Processes, model: ModelServer, tools: ToolServer, **fields: object
) -> tuple[Paying, Service, str, Hit]:
    """A run whose call was accepted with 202, and the worker that had it."""
    paying = Paying(start, model, tools, Behaviour("later"), approval="never")
    paying.client.call("PATCH", "/v1/tools/pay", {"timeout_seconds": 600, **fields})
    worker = paying.worker()
    run_id = paying.accepted()
    [hit] = tools.hits("pay")
    return paying, worker, run_id, hit


# -- tools that answer later ----------------------------------------------------------------------


def test_a_tool_answers_after_the_api_and_the_worker_were_killed(
    start: Processes, model: ModelServer, tools: ToolServer
) -> None:
    paying, worker, run_id, hit = for_later(start, model, tools)
    worker.kill()
    paying.api.kill()
    api = start("api", lease_seconds=LEASE_SECONDS)
    assert call_back(hit, api, status="progress", progress=0.5).status_code == 200
    assert call_back(hit, api, status="completed", output="paid").status_code == 200
    with Client(api.url, paying.client.key) as client:
        paying.client = client
        assert client.get_run(run_id)["status"] in ("queued", "in_progress")  # nobody goes on
        paying.worker()
        paying.finish(run_id)
        assert call_back(hit, api, status="completed", output="paid").status_code == 200
        assert call_back(hit, api, status="completed", output="again").status_code == 409
        assert paying.event_types(run_id).count("tool_call.completed") == 1
        assert (paying.result(), len(tools.hits("pay"))) == ("paid", 1)
        tools.witness = None
        assert paying.broken(run_id) == []


def test_a_result_after_the_cancel_is_kept_and_changes_nothing_whoever_is_alive(
    start: Processes, model: ModelServer, tools: ToolServer
) -> None:
    paying, worker, run_id, hit = for_later(start, model, tools)
    worker.kill()
    paying.client.cancel(run_id)
    events = paying.client.events(run_id)
    for _ in range(2):
        late = call_back(hit, paying.api, status="completed", output="paid")
        assert (late.status_code, late.json()["code"]) == (410, "late_callback")
    assert paying.client.events(run_id) == events
    assert paying.broken(run_id) == []


# -- tools that the client runs -------------------------------------------------------------------


def test_a_client_s_results_count_although_every_worker_is_dead(
    start: Processes, model: ModelServer, tools: ToolServer
) -> None:
    api = start("api", lease_seconds=LEASE_SECONDS)
    worker = start("worker", lease_seconds=LEASE_SECONDS)
    client = start.client(api).new_project("client")
    start.keep(client)
    client.call("POST", "/v1/tools", CLIENT_TOOL)
    both = calls(Call("c1", "measure", "{}"), Call("c2", "measure", "{}"))
    model.by_turn(MODEL, both, text("done"))
    run_id = client.start_run(model=f"openai:{MODEL}", tools=["measure"])["id"]
    run = client.settle(run_id)
    assert [one["type"] for one in run["required_actions"]] == ["tool_result"] * 2
    worker.kill()
    for call_id in ("c2", "c1"):
        path = f"/v1/runs/{run_id}/tool_calls/{call_id}/result"
        for _ in range(2):
            assert client.call("POST", path, {"output": call_id})["phase"] == "settled"
    assert client.get_run(run_id)["status"] == "queued"
    start("worker", lease_seconds=LEASE_SECONDS)
    assert client.settle(run_id)["output"] == "done"
    assert model.requests(MODEL)[-1].results == [("c1", "c1"), ("c2", "c2")]
    assert len(model.requests(MODEL)) == 2


# -- telling tools --------------------------------------------------------------------------------


def test_a_cancel_tells_the_tool_although_the_worker_is_dead(
    start: Processes, model: ModelServer, tools: ToolServer
) -> None:
    paying = Paying(start, model, tools, Behaviour(hold="counter"), approval="never")
    worker = paying.worker()
    run_id = paying.run()
    tools.hold("counter").arrived()
    worker.kill()
    paying.client.cancel(run_id)  # answered while the tool holds whatever it gets
    [notice] = notices(tools, 1)
    assert (notice.run_id, notice.verified) == (run_id, True)
    assert notice.body["reason"] == "run_cancelled"
    tools.hold("counter").release()


def test_a_callback_that_does_not_come_is_told_once_by_whichever_worker_is_left(
    start: Processes, model: ModelServer, tools: ToolServer
) -> None:
    paying, worker, run_id, _ = for_later(start, model, tools, timeout_seconds=2)
    worker.kill()
    for _ in range(2):
        paying.worker()
    assert paying.client.settle(run_id, {"completed"})["output"] == "done"
    [notice] = notices(tools, 1)
    assert (notice.run_id, notice.body["reason"]) == (run_id, "timed_out")
    other = paying.accepted()
    paying.client.cancel(other)
    assert [one.run_id for one in notices(tools, 2)] == [run_id, other]


def test_a_process_that_is_told_to_stop_tells_the_tools_first(
    start: Processes, model: ModelServer, tools: ToolServer
) -> None:
    paying, worker, run_id, _ = for_later(start, model, tools)
    worker.kill()
    paying.client.cancel(run_id)
    assert paying.api.terminate(timeout=30) == 0
    assert [one.run_id for one in notices(tools, 1)] == [run_id]


# -- tools that ask -------------------------------------------------------------------------------


def test_a_tool_asks_and_is_answered_while_the_workers_are_dead(
    start: Processes, model: ModelServer, tools: ToolServer
) -> None:
    later, answers = Behaviour("later"), Behaviour("return", value={"paid": True})
    paying = Paying(start, model, tools, later, answers, approval="never")
    paying.client.call("PATCH", "/v1/tools/pay", {"timeout_seconds": 600})
    worker = paying.worker()
    run_id = paying.accepted()
    worker.kill()
    paying.api.kill()
    api = start("api", lease_seconds=LEASE_SECONDS)
    [hit] = tools.hits("pay")
    asks = {"requests": "Which account?", "state": {"page": 2}}
    for _ in range(2):
        assert call_back(hit, api, status="input_required", **asks).status_code == 200
    with Client(api.url, paying.client.key) as client:
        paying.client = client
        tools.witness = None
        [action] = client.get_run(run_id)["required_actions"]
        assert (action["type"], action["requests"]) == ("tool_result", "Which account?")
        path = f"/v1/runs/{run_id}/tool_calls/c1/result"
        for _ in range(2):
            client.call("POST", path, {"output": "the first"})
        paying.worker()
        assert client.settle(run_id, {"completed"})["output"] == "done"
        before, after = tools.hits("pay")
        assert after.body["input"] == {"responses": "the first", "state": {"page": 2}}
        assert before.webhook_id == after.webhook_id
        assert paying.result() == '{"paid":true}'
        assert paying.broken(run_id) == []
