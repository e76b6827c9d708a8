"""A thin client of the HTTP API. It adds nothing to what the service answers, and it remembers
every status that it saw, so that a test can say that nothing was a 5xx."""

import json
import ssl
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

import httpx2

Json: TypeAlias = dict[str, Any]

TERMINAL = frozenset({"completed", "failed", "cancelled", "incomplete", "expired"})
SETTLED = TERMINAL | {"requires_action"}
SETTLE_SECONDS = 60.0
WAIT_SECONDS = 20
TIMEOUT_SECONDS = 40.0
PAGE = 1000


class ApiError(Exception):
    """Any answer of 400 or above. `problem` is its JSON (or `{}`)."""

    def __init__(self, response: httpx2.Response) -> None:
        super().__init__(f"{response.request.method} {response.request.url}: {response.text}")
        self.status = response.status_code
        self.headers = dict(response.headers)
        try:
            self.problem: Json = response.json()
        except ValueError:
            self.problem = {}

    def __str__(self) -> str:
        return f"{self.status}: {self.args[0]}"


@dataclass(frozen=True, slots=True)
class Frame:
    """One SSE frame. `id` is None for transient ones."""

    id: int | None
    type: str
    data: Json


def frames(lines: Iterable[str]) -> Iterator[Frame]:
    """Parses an event stream by the rules of the HTML standard; comments are left out."""
    found: dict[str, str] = {}
    for line in lines:
        if line.startswith(":"):
            continue
        if line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            found[name] = f"{found[name]}\n{value}" if name == "data" and name in found else value
        elif "data" in found:
            number = int(found["id"]) if "id" in found else None
            yield Frame(number, found.get("event", "message"), json.loads(found["data"]))
            found = {}
        else:
            found = {}


NO_TLS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For clients that speak plain HTTP. Each would otherwise read all certificate authorities, which
takes 20 ms of CPU time."""


class Client:
    """Methods return the parsed body and raise ApiError. Safe to share between threads."""

    def __init__(self, url: str, key: str) -> None:
        self.url = url
        self.key = key
        self.statuses: list[tuple[str, int]] = []
        self._lock = threading.Lock()
        self._http = httpx2.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {key}"},
            timeout=TIMEOUT_SECONDS,
            trust_env=False,
            verify=NO_TLS,
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=64),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: Json | None = None,
        headers: dict[str, str] | None = None,
    ) -> httpx2.Response:
        """The answer as it is, whatever its status. The query is in `path` or in `params`, because
        `params` replaces the query of `path`, even if it is empty."""
        assert not (params and "?" in path), f"{path} already has a query"
        params = params or None
        response = self._http.request(method, path, json=body, params=params, headers=headers)
        with self._lock:
            self.statuses.append((f"{method} {path}", response.status_code))
        return response

    def call(self, method: str, path: str, body: Any = None, **params: Any) -> Json:
        sent = {name: value for name, value in params.items() if value is not None}
        response = self.request(method, path, body, params=sent)
        if response.status_code >= 400:
            raise ApiError(response)
        return response.json() if response.content else {}

    # -- projects, tools, agents -------------------------------------------------------------

    def new_project(self, name: str, scopes: Iterable[str] = ()) -> "Client":
        """With the operator's key: a project of its own and a client that holds its first key."""
        project = self.call("POST", "/v1/projects", {"name": name})
        wanted = list(scopes) or ["runs:read", "runs:write", "tools:write", "approvals:decide"]
        key = self.call(
            "POST", f"/v1/projects/{project['id']}/keys", {"name": "test", "scopes": wanted}
        )
        return Client(self.url, key["key"])

    def register_tool(self, name: str, url: str, **fields: Any) -> Json:
        """A webhook tool; its parameters default to `{x: string}`. The answer holds `secret`."""
        parameters = {
            "type": "object",
            "properties": {"x": {"type": "string"}},
            "required": ["x"],
            "additionalProperties": False,
        }
        spec = {"description": f"The tool {name}.", "parameters": parameters, **fields}
        return self.call("POST", "/v1/tools", {"name": name, "type": "webhook", "url": url, **spec})

    # -- runs --------------------------------------------------------------------------------

    def start_run(self, *, wait: int | None = None, **fields: Any) -> Json:
        return self.call(
            "POST", "/v1/runs", {"instructions": "", "input": "go", **fields}, wait=wait
        )

    def get_run(self, run_id: str, *, wait: int | None = None) -> Json:
        return self.call("GET", f"/v1/runs/{run_id}", wait=wait)

    def settle(
        self,
        run_id: str,
        statuses: Iterable[str] = SETTLED,
        timeout: float = SETTLE_SECONDS,
    ) -> Json:
        """Long-polls until the run has one of `statuses`. Raises TimeoutError with the run."""
        wanted, end = set(statuses), time.monotonic() + timeout
        while True:
            left = end - time.monotonic()
            run = self.get_run(run_id, wait=max(0, min(WAIT_SECONDS, int(left))))
            if run["status"] in wanted:
                return run
            if left <= 0:
                raise TimeoutError(f"not settled in {timeout} s: {json.dumps(run)}")
            if run["status"] in SETTLED:
                time.sleep(0.05)  # settled, but otherwise: `wait` holds no longer

    def items(self, run_id: str) -> list[Json]:
        return self.call("GET", f"/v1/runs/{run_id}/items", limit=200)["data"]

    def tool_calls(self, run_id: str) -> list[Json]:
        return self.call("GET", f"/v1/runs/{run_id}/tool_calls", limit=200)["data"]

    def cancel(self, run_id: str, mode: str = "immediate") -> Json:
        return self.call("POST", f"/v1/runs/{run_id}/cancel", {"mode": mode})

    def resolve(self, run_id: str, call_id: str, **body: Any) -> Json:
        return self.call("POST", f"/v1/runs/{run_id}/tool_calls/{call_id}/resolve", body)

    # -- approvals ---------------------------------------------------------------------------

    def approvals(self, *, status: str | None = "pending", run_id: str | None = None) -> list[Json]:
        return self.call("GET", "/v1/approvals", status=status, run_id=run_id, limit=200)["data"]

    def decide(self, approval_id: str, decision: str, **fields: Any) -> Json:
        body = {"decision": decision, **fields}
        return self.call("POST", f"/v1/approvals/{approval_id}/decision", body)

    def decide_call(self, run_id: str, call_id: str, decision: str, **fields: Any) -> Json:
        """The same for the pending approval of one call."""
        [approval] = [
            approval for approval in self.approvals(run_id=run_id) if approval["call_id"] == call_id
        ]
        return self.decide(approval["id"], decision, **fields)

    # -- events ------------------------------------------------------------------------------

    def events(self, run_id: str, after: int = 0, limit: int = PAGE) -> list[Json]:
        """Every event there is now, page by page."""
        found: list[Json] = []
        while True:
            page = self.call("GET", f"/v1/runs/{run_id}/events", after=after, limit=limit)
            found += page["data"]
            if not page["has_more"]:
                return found
            after = found[-1]["sequence"]

    def stream(
        self,
        run_id: str,
        *,
        last_event_id: int | None = None,
        after: int | None = None,
        until: str | None = None,
    ) -> Iterator[Frame]:
        """The run's event stream, until the server ends it. Close the iterator to leave early."""
        headers = {"Accept": "text/event-stream"}
        if last_event_id is not None:
            headers["Last-Event-ID"] = str(last_event_id)
        params = {
            name: value for name, value in (("after", after), ("until", until)) if value is not None
        }
        path = f"/v1/runs/{run_id}/events"
        with self._http.stream("GET", path, headers=headers, params=params) as response:
            with self._lock:
                self.statuses.append((f"GET {path} (stream)", response.status_code))
            if response.status_code != 200:
                response.read()
                raise ApiError(response)
            yield from frames(response.iter_lines())
