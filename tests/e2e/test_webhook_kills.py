"""Workers are killed with SIGKILL between the last commit of a run and the delivery of its
notifications. Every notification arrives, and all its deliveries have one ID.

`RUNWARD_WEBHOOK_KILLS=200` kills 200 workers, which takes about three minutes.
"""

import os
from collections import Counter, defaultdict
from itertools import count
from typing import Final

import pytest

from tests.api.project import ALL_SCOPES
from tests.e2e.conftest import Processes
from tests.support.receiver import Received, Receiver, Reply
from tests.support.services.client import Client
from tests.support.serving import Hold

KILLS: Final = int(os.environ.get("RUNWARD_WEBHOOK_KILLS", "5"))
MOMENTS: Final = ("committed", "sending", "committed", "answered")
"""When the worker is killed: after the run's last commit, while its notification is in flight, or
after the endpoint has answered."""
WAIT_SECONDS: Final = 60
"""More than the lease of a delivery, after which another worker sends it."""

pytestmark = pytest.mark.timeout(120 + 20 * KILLS)


def test_a_killed_worker_loses_no_notification(start: Processes) -> None:
    api = start("api")
    operator = start.client(api)
    project = operator.call("POST", "/v1/projects", {"name": "killed"})["id"]
    key = {"name": "test", "scopes": list(ALL_SCOPES)}
    client = Client(api.url, operator.call("POST", f"/v1/projects/{project}/keys", key)["key"])
    start.keep(client)
    with Receiver() as receiver:
        endpoint = client.call("POST", "/v1/webhook_endpoints", {"url": receiver.answer("all")})
        runs: dict[str, str] = {}
        killed: Counter[str] = Counter()
        states: Counter[str] = Counter()
        for number in count():
            if killed.total() == KILLS:
                break
            moment, path = MOMENTS[number % len(MOMENTS)], f"run{number}"
            run_id, delivered = _kill_worker(start, client, receiver, moment, path)
            runs[run_id] = path
            states[delivered] += 1
            if delivered != "delivered":
                killed[moment] += 1
        last = start("worker")
        _check_all_arrived(client, receiver, runs, endpoint["secret"])
        last.kill()
        requests = len(receiver.received("all"))
        ids = {one.id for one in receiver.received("all")}
    print(f"\nkilled: {dict(killed)}; states of the delivery: {dict(states)}")
    print(f"{len(runs)} runs, {len(ids)} notifications, {requests} requests to the endpoint")


def _kill_worker(
    start: Processes, client: Client, receiver: Receiver, moment: str, path: str
) -> tuple[str, str]:
    """Kill a worker that has just ended a run. Return the run, and the status of the delivery of
    its end at that time: `none` before it was enqueued."""
    hold = Hold()
    if moment != "sending":
        hold.release()
    webhook = {"url": receiver.answer(path, Reply(hold=hold)), "events": ["run.completed"]}
    worker = start("worker")
    run = client.start_run(model="offline:rules", webhook=webhook)
    match moment:
        case "committed":
            assert client.get_run(run["id"], wait=WAIT_SECONDS)["status"] == "completed"
        case "sending":
            hold.arrived()
        case _:
            receiver.wait_for(path)
    worker.kill()
    hold.release()
    page = client.call("GET", "/v1/webhook_deliveries", run_id=run["id"], limit=200)
    found = [one["status"] for one in page["data"] if one["webhook_endpoint_id"] is None]
    return run["id"], found[0] if found else "none"


def _check_all_arrived(
    client: Client, receiver: Receiver, runs: dict[str, str], secret: str
) -> None:
    expected = {
        event["id"]: event["type"]
        for run_id in runs
        for event in client.events(run_id)
        if event["type"].startswith("run.")
    }
    assert sum(type_ == "run.completed" for type_ in expected.values()) == len(runs)
    arrived = receiver.until(
        "all", lambda received: {one.id for one in received} >= expected.keys(), WAIT_SECONDS
    )
    assert {one.id: one.type for one in arrived} == expected
    bodies: defaultdict[str, set[bytes]] = defaultdict(set)
    for one in arrived:
        one.verify(secret)
        bodies[one.id].add(one.raw)
    assert {len(same) for same in bodies.values()} == {1}
    for run_id, path in runs.items():
        own: list[Received] = receiver.until(path, bool, WAIT_SECONDS)
        [ended] = {one.id for one in own}
        assert expected[ended] == "run.completed"
        assert run_id.removeprefix("run_") in ended
