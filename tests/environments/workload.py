"""The standard workload: one run of each kind that faults have broken before. It begins with one
worker, which is killed, and ends with another one.

`begin` starts runs until each has reached the state in which the fault should happen. `finish`
starts the others, lets people and tools answer, and waits for all to end. `broken` runs the
independent checker.
"""

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any, cast

import httpx2

from tests.checker import Evidence, Reader, Violation, broken
from tests.environments.patience import PatientClient
from tests.support.models.chat_server import (
    Answer,
    Call,
    HttpError,
    ModelRequest,
    ModelServer,
    text,
)
from tests.support.models.chat_server import calls as asks
from tests.support.services.client import Client, Json
from tests.support.tools.server import Behaviour, ToolServer

LEASE_SECONDS = 2.0
LONG_SECONDS = 3.0
"""A tool call that outlives the lease of its run."""
HALF_AN_HOUR = 1800.0
"""Shorter than the hour by which clocks differ: a comparison with a host's clock would be wrong."""
UNKNOWN_OUTCOME = "may or may not have taken effect"
RETRY_DATE_SECONDS = 2.0
DONE = text("done")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of run: its tool, its calls' behaviors, and what has to come of it."""

    behaviours: tuple[Behaviour, ...] = (Behaviour(),)
    idempotent: bool = False
    approval: str = "never"
    expires: float | None = None
    status: str = "completed"
    hits: int = 1
    result: str | None = None
    """A part of the result that the model got."""


FIRST: dict[str, Kind] = {
    "repeated": Kind((Behaviour(hold="killed"), Behaviour()), idempotent=True, hits=2),
    "once": Kind((Behaviour(hold="killed"),), result=UNKNOWN_OUTCOME),
    "gated": Kind(approval="always", expires=HALF_AN_HOUR, result="gated(1)"),
    "rejected": Kind(approval="always", expires=HALF_AN_HOUR, hits=0, result="Not now"),
    "undecided": Kind(approval="always", expires=2.0, hits=0),
    "later": Kind((Behaviour("later"),), result="called back"),
    "child": Kind(hits=0, result="paid"),
}
"""Those that `begin` starts."""
SECOND: dict[str, Kind] = {
    "long": Kind((Behaviour(sleep=LONG_SECONDS),), result="long(1)"),
    "busy": Kind(
        (Behaviour("raise", status=503, headers={"Retry-After": "1"}), Behaviour()),
        idempotent=True,
        hits=2,
        result="busy(1)",
    ),
    "limited": Kind(result="limited(1)"),
    "stopped": Kind((Behaviour(hold="stopped"),), status="cancelled"),
}
KINDS = {**FIRST, **SECOND}


class Workload:
    """`clients`: one for each API process, all of one project."""

    def __init__(self, clients: list[Client], model: ModelServer, tools: ToolServer) -> None:
        self.client = PatientClient(clients)
        self.model = model
        self.tools = tools
        self.runs: dict[str, str] = {}
        """The ID of the run of each kind."""
        self.began = time.time()
        self._readers: dict[str, Future[list[Json]]] = {}
        self._pool = ThreadPoolExecutor(2 * len(KINDS) + 1, thread_name_prefix="workload")

    def close(self) -> None:
        """The service is gone."""
        self.client.give_up()
        for hold in ("killed", "stopped"):
            self.tools.hold(hold).release()
        self._pool.shutdown(cancel_futures=True)

    def register(self) -> None:
        for name, kind in KINDS.items():
            self._script(name)
            expires = {} if kind.expires is None else {"approval_expires_seconds": kind.expires}
            if name != "child":
                self._tool(name, kind, timeout_seconds=HALF_AN_HOUR, **expires)
        self.model.by_turn("clerk", asks(Call("c1", "pay", '{"x":"1"}')), text("paid"))
        self._tool("pay", Kind())
        self.client.call(
            "POST", "/v1/agents", {"name": "clerk", "model": "openai:clerk", "tools": ["pay"]}
        )
        tool = {"name": "child", "type": "agent", "agent": "clerk"}
        self.client.call("POST", "/v1/tools", tool)

    def begin(self) -> None:
        """Start the first runs. Returns when all of them wait: for a tool's answer, a person, a
        callback, or the time."""
        for name in FIRST:
            self._start(name)
        self.tools.hold("killed").arrived(2)
        self.tools.wait_for("later")
        for name in ("gated", "rejected"):
            assert self.client.settle(self.runs[name])["status"] == "requires_action", name

    def finish(self) -> None:
        """Start the rest, answer what waits for an answer, and wait for every end."""
        for name in SECOND:
            self._start(name)
        answers = [self._pool.submit(act) for act in (self._decide, self._call_back, self._stop)]
        for answer in answers:
            answer.result()
        for name, run_id in self.runs.items():
            self._readers[name].result()  # a stream ends with its run, an approval may expire first
            ended = self.client.settle(run_id)
            assert ended["status"] == KINDS[name].status, (name, ended)

    def check(self, *, outage: bool = False) -> None:
        """Fail for every promise that was broken, and for every run that did not go its way."""
        assert self.broken(outage=outage) == []
        for name, kind in KINDS.items():
            hits = [(hit.attempt, hit.webhook_id) for hit in self.tools.hits(name)]
            assert len(hits) == kind.hits, (name, hits)
            if kind.result is not None:
                assert kind.result in self._result(name), (name, self._result(name))
            again = self.client.start_run(name, **self._fields(name))
            assert again == self.runs[name], f"{name}: its key made another run"

    def broken(self, *, outage: bool = False) -> list[Violation]:
        ids = [*self.runs.values(), *self._children()]
        readers = [
            Reader(self.runs[name], "stream", reader.result())
            for name, reader in self._readers.items()
        ]
        evidence = Evidence(
            runs={run_id: self.client.call("GET", f"/v1/runs/{run_id}") for run_id in ids},
            logs={run_id: self.events(run_id) for run_id in ids},
            hits=self.tools.hits(),
            readers=readers,
            statuses=self.client.statuses,
            idempotent=frozenset(name for name, kind in KINDS.items() if kind.idempotent),
            outage=outage,
        )
        assert self.model.violations == []
        return broken(evidence)

    def events(self, run_id: str) -> list[Json]:
        return self.client.repeat(lambda client: client.events(run_id))

    def shown_times(self) -> list[str]:
        """Every time that the API shows of the runs, their approvals and their events."""
        shown: list[Any] = [self.client.call("GET", "/v1/approvals", limit=200)]
        for run_id in self.runs.values():
            shown += [self.client.call("GET", f"/v1/runs/{run_id}"), self.events(run_id)]
        return list(_times(shown))

    def figures(self) -> Json:
        return {
            "runs": len(self.runs) + len(self._children()),
            "events": sum(len(self.events(run_id)) for run_id in self.runs.values()),
            "hits": len(self.tools.hits()),
            "requests": len(self.client.statuses),
            "refused": self.client.refused,
            "seconds": round(time.time() - self.began, 1),
        }

    # What is asked for.

    def _tool(self, name: str, kind: Kind, **fields: Any) -> None:
        url = self.tools.tool(name, *kind.behaviours)
        spec = {"idempotent": kind.idempotent, "approval": kind.approval, **fields}
        client = self.client.clients[0]
        client.register_tool(name, url, **spec)

    def _script(self, name: str) -> None:
        argument = '{"input":"pay"}' if name == "child" else '{"x":"1"}'
        answers: tuple[Answer, ...] = (asks(Call("c1", name, argument)), DONE)

        def respond(request: ModelRequest) -> Answer | HttpError:
            if name == "limited" and request.number == 0:
                at = time.time() + RETRY_DATE_SECONDS
                return HttpError(429, retry_after=formatdate(at, usegmt=True))
            return answers[request.turn]

        self.model.respond(name, respond)

    def _fields(self, name: str) -> Json:
        limits = {"deadline_seconds": HALF_AN_HOUR}
        return {"model": f"openai:{name}", "tools": [name], "limits": limits}

    def _start(self, name: str) -> None:
        run_id = self.client.start_run(name, **self._fields(name))
        self.runs[name] = run_id
        self._readers[name] = self._pool.submit(self.client.follow, run_id)

    # Those who answer.

    def _decide(self) -> None:
        for name, body in (
            ("gated", {"decision": "approve"}),
            ("rejected", {"decision": "reject", "message": "Not now"}),
        ):
            [action] = self.client.call("GET", f"/v1/runs/{self.runs[name]}")["required_actions"]
            self.client.call("POST", f"/v1/approvals/{action['approval_id']}/decision", body)

    def _call_back(self) -> None:
        [hit] = self.tools.hits("later")
        path = httpx2.URL(hit.body["callback"]["url"]).path
        self.client.call("POST", path, {"status": "completed", "output": "called back"})

    def _stop(self) -> None:
        self.tools.wait_for("stopped")
        self.client.call("POST", f"/v1/runs/{self.runs['stopped']}/cancel", {"mode": "immediate"})

    # What came of it.

    def _result(self, name: str) -> str:
        """The last result of the call that the model was shown."""
        return dict(self.model.requests(name)[-1].results)["c1"]

    def _children(self) -> list[str]:
        started = (event["data"] for event in self.events(self.runs["child"]))
        return [data["run_id"] for data in started if data.get("status") == "child_started"]


def _times(shown: Any) -> Iterator[str]:
    """The values of all members whose name ends in `_at`, at any depth."""
    if isinstance(shown, dict):
        for name, value in cast(Json, shown).items():
            if name.endswith("_at") and isinstance(value, str):
                yield value
            yield from _times(value)
    elif isinstance(shown, list):
        for value in cast(list[Any], shown):
            yield from _times(value)
