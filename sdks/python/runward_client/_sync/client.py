# Generated from _async by sdks/python/scripts/generate.py. Do not edit.
"""The client of a project."""

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, Unpack

import httpx2

from runward_client import types
from runward_client._sync.runs import Runs
from runward_client._sync.transport import Transport
from runward_client._requests import (
    MAX_RETRIES,
    TIMEOUT_SECONDS,
    Method,
    make_path,
    read_connection,
)
from runward_client.errors import ConflictError

Item = TypeVar("Item")


class Runward:
    """A client of the Runward API, for the project of its API key.

    The API key and the address default to the environment variables RUNWARD_KEY and RUNWARD_URL.
    `timeout` is how many seconds one attempt may take, `max_retries` how often a failed request is
    sent again.
    """

    def __init__(
        self,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
        max_retries: int = MAX_RETRIES,
        http_client: httpx2.Client | None = None,
    ) -> None:
        url, key = read_connection(api_key, base_url)
        headers = {"Authorization": f"Bearer {key}"}
        self._transport = Transport(url, headers, timeout, max_retries, http_client)
        self.runs = Runs(self._transport)
        self.approvals = Approvals(self._transport)
        self.sessions = Sessions(self._transport, "/v1/sessions")
        self.tools = Tools(self._transport, "/v1/tools")
        self.agents = Agents(self._transport, "/v1/agents")

    def request(
        self,
        method: Method,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: object = None,
    ) -> Any:
        """Send any other request of the API, such as `request("PUT", "/v1/policy", body={…})`."""
        if method == "POST":
            return self._transport.create(path, body)
        response = self._transport.send(method, path, query=query, body=body)
        return response.json() if response.content else None

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Approvals:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def inbox(
        self, *, tool: str | None = None, run_id: str | None = None
    ) -> Iterator[types.Approval]:
        """Yield the approvals that wait for a decision."""
        query = {"status": "pending", "tool": tool, "run_id": run_id}
        return self._transport.list("/v1/approvals", query)

    def list(self, **query: Unpack[types.ListApprovalsQuery]) -> Iterator[types.Approval]:
        """Yield approvals, page by page."""
        return self._transport.list("/v1/approvals", query)

    def retrieve(self, approval_id: str) -> types.Approval:
        return self._transport.get(make_path("/v1/approvals/{}", approval_id))

    def decide(
        self,
        approval: str | types.Approval,
        decision: types.Decision,
        *,
        idempotency_key: str | None = None,
    ) -> types.Approval:
        """Decide an approval. If it is given as it was read, and not only by its ID, the decision
        counts for exactly that call: it is refused with `digest_mismatch` if the call has
        changed."""
        if isinstance(approval, str):
            path, body = make_path("/v1/approvals/{}/decision", approval), {**decision}
        else:
            path = make_path("/v1/approvals/{}/decision", approval["id"])
            body = {"digest": approval["digest"], **decision}
        return self._transport.create(path, body, idempotency_key)


class Collection(Generic[Item]):
    """The methods that sessions, tools and agents have in common."""

    def __init__(self, transport: Transport, path: str) -> None:
        self._transport = transport
        self._path = path

    def retrieve(self, name: str) -> Item:
        return self._transport.get(self._path + make_path("/{}", name))

    def list(self, **query: Unpack[types.ListToolsQuery]) -> Iterator[Item]:
        """Yield all items, page by page."""
        return self._transport.list(self._path, query)

    def delete(self, name: str) -> None:
        self._transport.delete(self._path + make_path("/{}", name))


class Sessions(Collection[types.Session]):
    def create(self, **body: Unpack[types.CreateSession]) -> types.Session:
        return self._transport.create(self._path, body)

    def update(
        self, session_id: str, /, **body: Unpack[types.UpdateSession]
    ) -> types.Session:
        return self._transport.update(make_path("/v1/sessions/{}", session_id), body)

    def items(
        self, session_id: str, /, **query: Unpack[types.ListSessionItemsQuery]
    ) -> Iterator[types.SessionItem]:
        """Yield the messages and tool calls of all runs of a session."""
        return self._transport.list(make_path("/v1/sessions/{}/items", session_id), query)

    def fork(self, session_id: str, /, **body: Unpack[types.ForkSession]) -> types.Session:
        """Create a session that begins with the items of another one."""
        return self._transport.create(make_path("/v1/sessions/{}/fork", session_id), body)


class Tools(Collection[types.Tool]):
    def create(self, **body: Unpack[types.RegisterTool]) -> types.NewTool:
        """Register a tool. Only this response has the signing secret of a webhook tool."""
        return self._transport.create(self._path, body)

    def upsert(
        self,
        *,
        name: str,
        type: types.RegisteredToolType = "webhook",
        **body: Unpack[types.UpdateTool],
    ) -> types.NewTool | types.Tool:
        """Register a tool, or update the one of this name. It has a `secret` only if it is new."""
        try:
            return self._transport.create(self._path, {"name": name, "type": type, **body})
        except ConflictError:
            return self.update(name, **body)

    def update(self, name: str, /, **body: Unpack[types.UpdateTool]) -> types.Tool:
        return self._transport.update(make_path("/v1/tools/{}", name), body)

    def rotate_secret(self, name: str) -> types.ToolSecret:
        """Create a new signing secret. For 24 hours requests are signed with the old one too."""
        return self._transport.create(make_path("/v1/tools/{}/rotate_secret", name), None)

    def test(self, name: str, /, **body: Unpack[types.TestTool]) -> types.ToolTestResult:
        """Call a tool once, outside of any run. It is not retried."""
        path = make_path("/v1/tools/{}/test", name)
        response = self._transport.send("POST", path, body=body, max_retries=0)
        return response.json()


class Agents(Collection[types.Agent]):
    def create(self, **body: Unpack[types.RegisterAgent]) -> types.Agent:
        return self._transport.create(self._path, body)

    def upsert(self, *, name: str, **body: Unpack[types.UpdateAgent]) -> types.Agent:
        """Register an agent, or update the one of this name."""
        try:
            return self._transport.create(self._path, {"name": name, **body})
        except ConflictError:
            return self.update(name, **body)

    def update(self, name: str, /, **body: Unpack[types.UpdateAgent]) -> types.Agent:
        return self._transport.update(make_path("/v1/agents/{}", name), body)
