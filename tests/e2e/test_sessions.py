"""Many runs on one session, from several processes: never two at once, in order, nothing lost."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import pytest

from tests.checker import Evidence, broken
from tests.e2e.conftest import Processes
from tests.support.services.client import TERMINAL, Client, Json
from tests.support.services.service import ROOT

RUNS = int(os.environ.get("RUNWARD_SESSION_RUNS", "50"))
AT_ONCE = 16
RUN_SECONDS = 60 + RUNS
PLUGINS = {"RUNWARD_PLUGINS": "tests.support.plugins.counter"}
EXAMPLE = ROOT / "examples" / "sessions" / "session.py"

S = TypeVar("S")
T = TypeVar("T")


def each(values: Iterable[S], work: Callable[[S], T]) -> list[T]:
    """The results of `work`, in the order of `values`."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(work, values))


@dataclass(frozen=True)
class Talk:
    """A session; `clients` are of one project, each of another API process."""

    clients: list[Client]
    id: str

    @classmethod
    def begin(cls, start: Processes, apis: int, name: str) -> "Talk":
        services = [start("api", env=PLUGINS) for _ in range(apis)]
        first = start.client(services[0]).new_project(name)
        clients = [first, *(Client(service.url, first.key) for service in services[1:])]
        for client in clients:
            start.keep(client)
        return cls(clients, first.call("POST", "/v1/sessions", {"name": name})["id"])

    @property
    def path(self) -> str:
        return f"/v1/sessions/{self.id}"

    def start(self, number: int, **fields: str) -> str:
        """The id of a run that notes `n_<number>` and counts."""
        body: Json = {
            "model": "offline:rules",
            "tools": ["note", "count"],
            "input": f'count() note(key="n_{number}")',
            "session_id": self.id,
            **fields,
        }
        return self.clients[number % len(self.clients)].start_run(**body)["id"]

    def patch(self, number: int) -> None:
        body = {"state": {f"p_{number}": number}}
        self.clients[number % len(self.clients)].call("PATCH", self.path, body)

    def settle(self, run_id: str) -> Json:
        return self.clients[0].settle(run_id, TERMINAL, timeout=RUN_SECONDS)

    def state(self) -> Json:
        return self.clients[0].call("GET", self.path)["state"]

    def order(self) -> list[str]:
        """The runs that have ended, in the order in which they got their places."""
        seen: dict[str, None] = {}
        after: str | None = None
        while True:
            page = self.clients[0].call("GET", f"{self.path}/items", limit=200, after=after)
            seen |= dict.fromkeys(item["run_id"] for item in page["data"])
            if not page["has_more"]:
                return list(seen)
            after = page["last_id"]


def times(log: list[Json]) -> tuple[str, str] | None:
    """When the run began to work and when it ended, by its events; None: it never worked."""
    [*_, last] = log
    started = [event["created_at"] for event in log if event["type"] == "run.started"]
    return (started[0], last["created_at"]) if started else None


def overlaps(logs: Iterable[list[Json]]) -> list[tuple[str, str]]:
    """Where a run began before the one before it had ended. `logs`: in the order of places."""
    worked = [found for log in logs if (found := times(log)) is not None]
    return [(end, begin) for (_, end), (begin, _) in pairwise(worked) if begin < end]


@pytest.mark.timeout(120 + 2 * RUN_SECONDS)
def test_many_runs_of_one_session_take_turns_and_lose_no_change_of_its_state(
    start: Processes,
) -> None:
    talk = Talk.begin(start, 2, "turns")
    for _ in range(2):
        start("worker", env=PLUGINS)

    def both(number: int) -> str:
        run_id = talk.start(number)
        talk.patch(number)
        return run_id

    ids = each(range(RUNS), both)
    runs = {run["id"]: run for run in each(ids, talk.settle)}
    logs = dict(zip(ids, each(ids, talk.clients[0].events), strict=True))

    order = talk.order()
    assert sorted(order) == sorted(ids)
    assert order == sorted(ids, key=lambda run_id: runs[run_id]["created_at"])
    assert order == sorted(ids, key=lambda run_id: runs[run_id]["started_at"])
    assert overlaps(logs[run_id] for run_id in order) == []
    assert {run["status"] for run in runs.values()} == {"completed"}

    notes = {f"n_{number}": run_id for number, run_id in enumerate(ids)}
    patches = {f"p_{number}": number for number in range(RUNS)}
    assert talk.state() == {"count": RUNS, **notes, **patches}
    statuses = [status for client in talk.clients for status in client.statuses]
    assert broken(Evidence(runs, logs, statuses=statuses)) == []


@pytest.mark.timeout(180)
def test_a_session_goes_on_when_a_worker_dies_and_runs_are_cancelled(start: Processes) -> None:
    talk = Talk.begin(start, 1, "losses")
    victim = start("worker", lease_seconds=1, env=PLUGINS)
    ids = each(range(30), talk.start)
    talk.settle(talk.order()[0] if talk.order() else ids[0])
    victim.kill()
    client = talk.clients[0]
    waiting = [run_id for run_id in ids if client.get_run(run_id)["status"] == "queued"]
    for run_id in waiting[::3]:
        client.cancel(run_id)
    start("worker", lease_seconds=1, env=PLUGINS)
    last = talk.start(30, on_conflict="cancel_previous")

    runs = {run["id"]: run for run in each([*ids, last], talk.settle)}
    assert runs[last]["status"] == "completed"
    assert {run["status"] for run in runs.values()} <= {"completed", "cancelled"}
    logs = {run_id: client.events(run_id) for run_id in runs}
    assert talk.order()[-1] == last
    assert overlaps(logs[run_id] for run_id in talk.order()) == []
    assert client.request("DELETE", talk.path).status_code == 204


def test_the_example_talks_forks_and_cleans_up(client: Client) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)],
        env=os.environ | {"RUNWARD_URL": client.url, "RUNWARD_KEY": client.key},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    times = re.findall(r"^run_\w+ completed from (\S+) to (\S+)$", done.stdout, re.MULTILINE)
    assert len(times) == 3
    assert all(end <= begin for (_, end), (begin, _) in pairwise(times))
    before, _, after = done.stdout.partition("\nfork ")
    said = re.findall(r"^ +user: (.*)$", before, re.MULTILINE)
    assert said == ["Good morning.", "My order is late.", "Thank you."]
    assert 'state {"order": "A-1017"}' in before
    said = re.findall(r"^ +user: (.*)$", after, re.MULTILINE)
    assert said == ["Good morning.", "My order is here."]
    assert client.call("GET", "/v1/sessions")["data"] == []
