"""A project of a test's own on a service that many tests share: its client, its keys, its models
and its tools. Names that the servers know are made unique, so that no test sees another's."""

import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import uuid4

import httpx2

from tests.api.contract import Contract
from tests.checker import Evidence, broken
from tests.support.models.all_providers import AllProviders
from tests.support.models.chat_server import Call, ModelRequest, ModelServer, Reply, Responder
from tests.support.services.client import SETTLED, TERMINAL, Client, Frame, Json
from tests.support.services.client import frames as parsed
from tests.support.services.service import Service
from tests.support.tools.hits import Hit
from tests.support.tools.server import Behaviour, ToolServer

T = TypeVar("T")

SCOPES = ("runs:read", "runs:write", "tools:write", "approvals:decide")
ALL_SCOPES = (*SCOPES, "admin")
PATIENCE_SECONDS = 30.0


class CheckedClient(Client):
    """Judges every answer by openapi.json."""

    def __init__(self, url: str, key: str, contract: Contract) -> None:
        super().__init__(url, key)
        self._contract = contract

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: Json | None = None,
        headers: dict[str, str] | None = None,
    ) -> httpx2.Response:
        response = super().request(method, path, body, params=params, headers=headers)
        wrong = self._contract.broken_by(response)
        assert wrong == [], f"{method} {path}: {wrong}"
        return response

    def start_run_of(self, agent: str, **fields: Any) -> Json:
        return self.call("POST", "/v1/runs", {"agent": agent, "input": "go", **fields})

    @contextmanager
    def streaming(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> Generator[httpx2.Response]:
        """The answer as it comes. Names of headers: `_` for `-`."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        with self._http.stream(method, path, json=body, headers=sent) as response:
            yield response

    def refused(
        self, status: int, code: str, method: str, path: str, body: Any = None, **headers: str
    ) -> Json:
        """The problem with which the request is refused. Names of headers: `_` for `-`."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        response = self.request(method, path, body, headers=sent)
        problem: Json = response.json()
        assert (response.status_code, problem.get("code")) == (status, code), response.text
        return problem


@dataclass(frozen=True, slots=True)
class Running:
    """One service that all tests of this process share, each in a project of its own. `model` is
    of `providers`, where the other protocols are scripted too."""

    service: Service
    operator: CheckedClient
    contract: Contract
    model: ModelServer
    tools: ToolServer
    providers: AllProviders | None = None

    @contextmanager
    def project(self) -> Generator["Project"]:
        """At its end everything that happened in it is judged."""
        suffix = uuid4().hex[:8]
        made = self.operator.call("POST", "/v1/projects", {"name": f"test {suffix}"})
        violations = len(self.model.violations)
        with ExitStack() as open_clients:
            project = Project(self, made["id"], suffix, open_clients)
            project.client = project.key(*SCOPES)
            yield project
            project.judge()
            assert self.model.violations[violations:] == []


@dataclass(slots=True)
class Project:
    """`client` has a key of all scopes but `admin`. A tool registered as `pay` and a model
    scripted as `main` are this project's own."""

    running: Running
    id: str
    suffix: str
    open_clients: ExitStack
    client: CheckedClient = field(init=False)
    clients: list[CheckedClient] = field(default_factory=list["CheckedClient"])
    repeatable: set[str] = field(default_factory=set[str])
    reduced: set[str] = field(default_factory=set[str])
    """Runs of which retention has removed events or the content of tool calls."""
    retried_by_hand: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    @property
    def model(self) -> ModelServer:
        return self.running.model

    @property
    def tools(self) -> ToolServer:
        return self.running.tools

    def key(self, *scopes: str, **fields: Any) -> CheckedClient:
        """A client with another key of this project."""
        made = self.new_key(*scopes, **fields)
        return self.client_of(made["key"])

    def new_key(self, *scopes: str, **fields: Any) -> Json:
        body = {"name": "test", "scopes": list(scopes), **fields}
        return self.running.operator.call("POST", f"/v1/projects/{self.id}/keys", body)

    def client_of(self, key: str) -> CheckedClient:
        client = CheckedClient(self.running.service.url, key, self.running.contract)
        self.clients.append(client)
        return self.open_clients.enter_context(client)

    # -- models -------------------------------------------------------------------------------

    def script(self, *replies: Reply, name: str = "main") -> str:
        """The n-th request of this model gets the n-th reply. The name for a run."""
        self.model.script(self.model_name(name), *replies)
        return f"openai:{self.model_name(name)}"

    def respond(self, responder: Responder, name: str = "main") -> str:
        self.model.respond(self.model_name(name), responder)
        return f"openai:{self.model_name(name)}"

    def model_name(self, name: str = "main") -> str:
        return f"{name}-{self.suffix}"

    def asked(self, name: str = "main") -> list[ModelRequest]:
        """The requests that this project's model got."""
        return self.model.requests(self.model_name(name))

    # -- tools --------------------------------------------------------------------------------

    def tool(self, name: str, *behaviours: Behaviour, **fields: Any) -> Json:
        """Registers a webhook tool that takes `{x: string}`; its server checks signatures."""
        url = self.tools.tool(self.tool_key(name), *behaviours)
        made = self.client.register_tool(name, url, **fields)
        self.tools.secrets(self.tool_key(name), made["secret"])
        if fields.get("idempotent") or fields.get("retry"):
            self.repeatable.add(name)
        return made

    def tool_key(self, name: str) -> str:
        return f"{name}-{self.suffix}"

    def hits(self, name: str) -> list[Hit]:
        return self.tools.hits(self.tool_key(name))

    def wait_for_hits(self, name: str, count: int = 1) -> list[Hit]:
        return self.tools.wait_for(self.tool_key(name), count, PATIENCE_SECONDS)

    # -- runs ---------------------------------------------------------------------------------

    def start(self, *replies: Reply, **fields: Any) -> Json:
        """A run of a model with this script (or of `model`), not waited for."""
        if replies:
            fields["model"] = self.script(*replies)
        return self.client.start_run(**fields)

    def run(self, *replies: Reply, **fields: Any) -> Json:
        """The same, as it is when it has settled."""
        return self.client.settle(self.start(*replies, **fields)["id"], timeout=PATIENCE_SECONDS)

    def settle(self, run: Json) -> Json:
        return self.client.settle(run["id"], timeout=PATIENCE_SECONDS)

    def end(self, run: Json) -> Json:
        """As it is when it has ended."""
        return self.client.settle(run["id"], TERMINAL, timeout=PATIENCE_SECONDS)

    def accepted(self, *replies: Reply, count: int = 1, **fields: Any) -> Json:
        """A run of which so many calls wait for their callback."""
        run = self.start(*replies, **fields)
        self.until(run, "tool_call.progress", count)
        return self.client.get_run(run["id"])

    @contextmanager
    def following(self, run: Json) -> Generator[Iterator[Frame]]:
        """The run's event stream from its beginning; left with the block."""
        path = f"/v1/runs/{run['id']}/events"
        with self.client.streaming("GET", path, Accept="text/event-stream") as response:
            assert response.status_code == 200
            yield parsed(response.iter_lines())

    def until(self, run: Json, type_: str, count: int = 1) -> list[Json]:
        """The run's events as soon as there are `count` of that type. Raises TimeoutError."""
        found: list[Json] = []
        with self.following(run) as frames:
            for frame in frames:
                if frame.id is not None:
                    found.append(frame.data)
                if sum(event["type"] == type_ for event in found) >= count:
                    return found
        raise TimeoutError(f"the stream ended without {count} of {type_}: {types_of(found)}")

    def judge(self) -> None:
        """What the independent checker says about everything that happened here."""
        page = self.client.call("GET", "/v1/runs", limit=200)
        assert not page["has_more"]
        runs = {
            run["id"]: self._at_rest(run) for run in page["data"] if run["id"] not in self.reduced
        }
        evidence = Evidence(
            runs=runs,
            logs={run_id: self.client.events(run_id) for run_id in runs},
            hits=[hit for hit in self.tools.hits() if hit.run_id in runs],
            statuses=[status for client in self.clients for status in client.statuses],
            idempotent=frozenset(self.repeatable),
            retried_by_hand=frozenset(self.retried_by_hand),
            may_be_unfinished=True,
        )
        violations = broken(evidence)
        assert not violations, violations

    def _at_rest(self, run: Json) -> Json:
        """A run that is still under way could change between two looks at it. One that waits for
        a callback is cancelled, since its test is over."""
        if run["waiting_for"]:
            return self.client.cancel(run["id"])
        return run if run["status"] in SETTLED else self.settle(run)


def call(number: int | str, name: str, arguments: str = '{"x":"1"}') -> Call:
    return Call(f"c{number}", name, arguments)


def types_of(events: list[Json]) -> list[str]:
    return [event["type"] for event in events]


def of_type(events: list[Json], type_: str) -> list[Json]:
    """The data of the events of one type."""
    return [event["data"] for event in events if event["type"] == type_]


def result_of(requests: list[ModelRequest], call_id: str) -> str:
    """What the model was shown as the result of a call, in its last request."""
    return dict(requests[-1].results)[call_id]


def stored(frames: list[Frame]) -> list[Json]:
    """The events among an SSE stream's frames."""
    return [frame.data for frame in frames if frame.id is not None]


def at_once(count: int, act: Callable[[int], T]) -> list[T]:
    """What `count` threads get that begin together."""
    together = threading.Barrier(count)

    def one(number: int) -> T:
        together.wait(PATIENCE_SECONDS)
        return act(number)

    with ThreadPoolExecutor(count) as pool:
        return [
            done.result(PATIENCE_SECONDS) for done in [pool.submit(one, n) for n in range(count)]
        ]


@contextmanager
def meanwhile(act: Callable[[], T]) -> Generator[Future[T]]:
    """`act` on a thread of its own; ask `result()` for what it got."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(act)
