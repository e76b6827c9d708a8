"""The client of a project."""

from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, Unpack

import httpx2

from runward_client import types
from runward_client._async.runs import AsyncRuns
from runward_client._async.transport import AsyncTransport
from runward_client._requests import (
    MAX_RETRIES,
    TIMEOUT_SECONDS,
    Method,
    make_path,
    read_connection,
)
from runward_client.errors import ConflictError

Item = TypeVar("Item")


class AsyncRunward:
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
        http_client: httpx2.AsyncClient | None = None,
    ) -> None:
        url, key = read_connection(api_key, base_url)
        headers = {"Authorization": f"Bearer {key}"}
        self._transport = AsyncTransport(url, headers, timeout, max_retries, http_client)
        self.runs = AsyncRuns(self._transport)
        self.approvals = AsyncApprovals(self._transport)
        self.sessions = AsyncSessions(self._transport, "/v1/sessions")
        self.tools = AsyncTools(self._transport, "/v1/tools")
        self.agents = AsyncAgents(self._transport, "/v1/agents")

    async def request(
        self,
        method: Method,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: object = None,
    ) -> Any:
        """Send any other request of the API, such as `request("PUT", "/v1/policy", body={…})`."""
        if method == "POST":
            return await self._transport.create(path, body)
        response = await self._transport.send(method, path, query=query, body=body)
        return response.json() if response.content else None

    async def close(self) -> None:
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


class AsyncApprovals:
    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    def inbox(
        self, *, tool: str | None = None, run_id: str | None = None
    ) -> AsyncIterator[types.Approval]:
        """Yield the approvals that wait for a decision."""
        query = {"status": "pending", "tool": tool, "run_id": run_id}
        return self._transport.list("/v1/approvals", query)

    def list(self, **query: Unpack[types.ListApprovalsQuery]) -> AsyncIterator[types.Approval]:
        """Yield approvals, page by page."""
        return self._transport.list("/v1/approvals", query)

    async def retrieve(self, approval_id: str) -> types.Approval:
        return await self._transport.get(make_path("/v1/approvals/{}", approval_id))

    async def decide(
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
        return await self._transport.create(path, body, idempotency_key)


class AsyncCollection(Generic[Item]):
    """The methods that sessions, tools and agents have in common."""

    def __init__(self, transport: AsyncTransport, path: str) -> None:
        self._transport = transport
        self._path = path

    async def retrieve(self, name: str) -> Item:
        return await self._transport.get(self._path + make_path("/{}", name))

    def list(self, **query: Unpack[types.ListToolsQuery]) -> AsyncIterator[Item]:
        """Yield all items, page by page."""
        return self._transport.list(self._path, query)

    async def delete(self, name: str) -> None:
        await self._transport.delete(self._path + make_path("/{}", name))


class AsyncSessions(AsyncCollection[types.Session]):
    async def create(self, **body: Unpack[types.CreateSession]) -> types.Session:
        return await self._transport.create(self._path, body)

    async def update(
        self, session_id: str, /, **body: Unpack[types.UpdateSession]
    ) -> types.Session:
        return await self._transport.update(make_path("/v1/sessions/{}", session_id), body)

    def items(
        self, session_id: str, /, **query: Unpack[types.ListSessionItemsQuery]
    ) -> AsyncIterator[types.SessionItem]:
        """Yield the messages and tool calls of all runs of a session."""
        return self._transport.list(make_path("/v1/sessions/{}/items", session_id), query)

    async def fork(self, session_id: str, /, **body: Unpack[types.ForkSession]) -> types.Session:
        """Create a session that begins with the items of another one."""
        return await self._transport.create(make_path("/v1/sessions/{}/fork", session_id), body)


class AsyncTools(AsyncCollection[types.Tool]):
    async def create(self, **body: Unpack[types.RegisterTool]) -> types.NewTool:
        """Register a tool. Only this response has the signing secret of a webhook tool."""
        return await self._transport.create(self._path, body)

    async def upsert(
        self,
        *,
        name: str,
        type: types.RegisteredToolType = "webhook",
        **body: Unpack[types.UpdateTool],
    ) -> types.NewTool | types.Tool:
        """Register a tool, or update the one of this name. It has a `secret` only if it is new."""
        try:
            return await self._transport.create(self._path, {"name": name, "type": type, **body})
        except ConflictError:
            return await self.update(name, **body)

    async def update(self, name: str, /, **body: Unpack[types.UpdateTool]) -> types.Tool:
        return await self._transport.update(make_path("/v1/tools/{}", name), body)

    async def rotate_secret(self, name: str) -> types.ToolSecret:
        """Create a new signing secret. For 24 hours requests are signed with the old one too."""
        return await self._transport.create(make_path("/v1/tools/{}/rotate_secret", name), None)

    async def test(self, name: str, /, **body: Unpack[types.TestTool]) -> types.ToolTestResult:
        """Call a tool once, outside of any run. It is not retried."""
        path = make_path("/v1/tools/{}/test", name)
        response = await self._transport.send("POST", path, body=body, max_retries=0)
        return response.json()


class AsyncAgents(AsyncCollection[types.Agent]):
    async def create(self, **body: Unpack[types.RegisterAgent]) -> types.Agent:
        return await self._transport.create(self._path, body)

    async def upsert(self, *, name: str, **body: Unpack[types.UpdateAgent]) -> types.Agent:
        """Register an agent, or update the one of this name."""
        try:
            return await self._transport.create(self._path, {"name": name, **body})
        except ConflictError:
            return await self.update(name, **body)

    async def update(self, name: str, /, **body: Unpack[types.UpdateAgent]) -> types.Agent:
        return await self._transport.update(make_path("/v1/agents/{}", name), body)
