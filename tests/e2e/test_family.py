"""Child runs in real processes: what waits two levels down is decided from above, whoever dies."""

import pytest

from tests.e2e.conftest import Processes
from tests.e2e.family import Family
from tests.support.models.chat_server import ModelServer
from tests.support.tools.server import ToolServer

pytestmark = pytest.mark.timeout(240)


def test_a_nested_approval_is_given_in_another_process_after_all_workers_were_killed(
    start: Processes, model: ModelServer, tools: ToolServer
) -> None:
    family = Family(start, model, tools)
    workers = [family.worker(), family.worker()]
    run_id = family.parked()
    assert family.statuses(run_id) == ["requires_action"] * 3
    for worker in workers:
        worker.kill()
    family.api.kill()
    client = family.client = family.another_api()
    action = family.action(run_id)
    assert (action["tool"], action["path"]) == ("pay", ["clerk", "cashier"])
    assert client.decide(action["approval_id"], "approve")["status"] == "approved"
    assert family.statuses(run_id) == ["queued"] * 3  # nobody is there to act on it
    assert tools.hits("pay") == []
    family.worker()
    family.worker()
    run = client.settle(run_id)
    assert (run["status"], run["output"]) == ("completed", "done")
    assert [hit.arguments for hit in tools.hits("pay")] == [{"x": "7"}]
    assert family.statuses(run_id) == ["completed"] * 3
    assert [len(model.requests(name)) for name in ("boss", "clerk", "cashier")] == [2, 2, 2]
    below = [client.get_run(one)["usage"]["total_tokens"] for one in family.below(run_id)]
    assert below[0] > below[1] > below[2] > 0  # what is used below counts above
    assert family.broken(run_id) == []


def test_a_rejection_two_levels_down_is_an_ordinary_result_there(
    start: Processes, model: ModelServer, tools: ToolServer
) -> None:
    family = Family(start, model, tools)
    family.worker()
    run_id = family.parked()
    family.client.decide(family.action(run_id)["approval_id"], "reject", message="not today")
    assert family.client.settle(run_id)["status"] == "completed"
    assert dict(model.requests("cashier")[-1].results) == {"c_pay": "not today"}
    assert tools.hits("pay") == []
    assert family.broken(run_id) == []


def test_a_cancel_flows_down_also_while_every_worker_is_dead(
    start: Processes, model: ModelServer, tools: ToolServer
) -> None:
    family = Family(start, model, tools)
    worker = family.worker()
    run_id = family.parked()
    worker.kill()
    approval = family.action(run_id)["approval_id"]
    family.client.cancel(run_id)
    assert family.statuses(run_id) == ["cancelled"] * 3
    assert family.client.call("GET", f"/v1/approvals/{approval}")["status"] == "cancelled"
    assert family.broken(run_id) == []


def test_a_child_run_that_is_cancelled_by_itself_is_an_error_for_its_parent(
    start: Processes, model: ModelServer, tools: ToolServer
) -> None:
    family = Family(start, model, tools)
    family.worker()
    run_id = family.parked()
    _, _, cashier = family.below(run_id)
    family.client.cancel(cashier)
    assert family.client.settle(run_id)["status"] == "completed"
    [(_, told)] = model.requests("clerk")[-1].results
    assert "cashier" in told
    assert "cancelled" in told
    assert family.broken(run_id) == []


def test_workers_are_killed_again_and_again_and_every_family_comes_through(
    start: Processes, model: ModelServer, tools: ToolServer
) -> None:
    family = Family(start, model, tools)
    run_ids = [family.run() for _ in range(8)]
    for _ in range(3):
        worker = family.worker()
        model.wait_for("boss", 1)
        family.client.settle(run_ids[0], {"queued", "in_progress", "requires_action"})
        worker.kill()
    family.worker()
    for run_id in run_ids:
        assert family.client.settle(run_id)["status"] == "requires_action"
        family.client.decide(family.action(run_id)["approval_id"], "approve")
    for run_id in run_ids:
        assert family.client.settle(run_id)["status"] == "completed"
    assert family.broken(*run_ids) == []
    assert len(tools.hits("pay")) == len(run_ids)
