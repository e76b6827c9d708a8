"""One run with one kind of call, in its own project, and the servers that it uses."""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

import httpx2

from tests.crash.cells import Kind
from tests.support.models.chat_server import Answer, Call, ModelRequest, ModelServer, calls, text
from tests.support.services.client import ApiError, Client, Json
from tests.support.serving import Hold
from tests.support.tools.hits import Hit
from tests.support.tools.server import Behaviour, ToolServer

ANY: Json = {"type": "object"}
PAID = "paid"
RETRY_SECONDS = 0.05
SHORT_SECONDS = 3
"""Long enough for a run to come to where it waits."""


@dataclass(frozen=True, slots=True)
class Peers:
    """The servers that all runs share."""

    model: ModelServer
    tools: ToolServer
    mcp_url: str


class Subject:
    """Everything about it has a name of its own, so that many go side by side. `held`: its effect
    waits, once it has happened, until `hold` is released. `short`: what it waits for expires
    after some seconds."""

    def __init__(
        self, peers: Peers, client: Client, name: str, kind: Kind, *, held: bool, short: str = ""
    ) -> None:
        self.peers = peers
        self.client = client
        self.name = name
        self.kind: Kind = kind
        self.hold = Hold()
        self.tool = {"plugin": "charge", "mcp": "far_forward"}.get(kind, f"pay_{name}")
        self._held = held
        self._short = short
        self._prepare()

    def _prepare(self) -> None:
        peers, kind, later = self.peers, self.kind, Behaviour("raw", value=PAID)
        if kind == "callback":
            later = Behaviour("later")
        self.url = peers.tools.url_of(self.name)
        held = self.name if self._held else None
        peers.tools.tool(self.name, replace(later, hold=held))
        arguments = {"x": "1"}
        if kind in ("plugin", "mcp"):
            arguments = {"url": self.url, "x": "1"}
        elif kind == "child":
            arguments = {"input": "1"}
        asked = calls(Call("c1", self.tool, json.dumps(arguments)))
        peers.model.by_turn(self.name, asked, text("done"))
        self._register()

    def _register(self) -> None:
        client, name = self.client, self.tool
        match self.kind:
            case "plugin":
                pass
            case "mcp":
                server = {"name": "far", "url": self.peers.mcp_url, "approval": "never"}
                client.call("POST", "/v1/mcp_servers", server)
            case "child":
                self.peers.model.respond(f"{self.name}-child", self._answer_child)
                agent = {"name": f"child_{self.name}", "model": f"openai:{self.name}-child"}
                client.call("POST", "/v1/agents", agent)
                tool = {"name": name, "type": "agent", "agent": f"child_{self.name}"}
                client.call("POST", "/v1/tools", tool)
            case "client":
                tool = {"name": name, "type": "client", "parameters": ANY, "strict": False}
                client.call("POST", "/v1/tools", tool)
            case _:
                fields: Json = {"idempotent": self.kind == "idempotent"}
                if self.kind == "gated":
                    fields["approval"] = "always"
                    if self._short == "expire_approval":
                        fields["approval_expires_seconds"] = SHORT_SECONDS
                if self._short == "expire_call":
                    fields["timeout_seconds"] = SHORT_SECONDS
                made = client.register_tool(name, self.url, **fields)
                self.peers.tools.secrets(self.name, made["secret"])

    def _answer_child(self, request: ModelRequest) -> Answer:
        return Answer(PAID, hold=self.hold if self._held and request.number == 0 else None)

    def release(self) -> None:
        self.hold.release()
        self.peers.tools.hold(self.name).release()

    def start(self, client: Client, *, in_session: bool = False) -> str:
        """The run, over any API process. The same again is the same run."""
        fields: Json = {"model": f"openai:{self.name}", "tools": [self.tool]}
        if self._short == "expire_run":
            fields["limits"] = {"deadline_seconds": SHORT_SECONDS}
        if in_session:
            fields["session_id"] = client.call("POST", "/v1/sessions", {})["id"]
        body = {"instructions": "", "input": "go", **fields}
        response = client.request(
            "POST", "/v1/runs", body, headers={"Idempotency-Key": f"key-{self.name}"}
        )
        if response.status_code >= 400:
            raise ApiError(response)
        return response.json()["id"]

    def wait_for_effect(self) -> None:
        """Until it has happened once."""
        if self.kind == "child":
            self.peers.model.wait_for(f"{self.name}-child", 1)
        else:
            self.peers.tools.until(lambda hits: any(hit.key == self.name for hit in hits))

    def effects(self) -> int:
        """How often it has happened."""
        if self.kind == "child":
            return len(self.peers.model.requests(f"{self.name}-child"))
        return sum(not self._is_notice(hit) for hit in self._hits())

    def notices(self) -> int:
        return sum(self._is_notice(hit) for hit in self._hits())

    def calls(self) -> list[Hit]:
        """For the checker: the requests that say which call they are."""
        return [hit for hit in self._hits() if hit.type == "tool_call"]

    def _hits(self) -> list[Hit]:
        return [hit for hit in self.peers.tools.all_hits() if hit.key == self.name]

    @staticmethod
    def _is_notice(hit: Hit) -> bool:
        return hit.type == "tool_call.cancelled"

    def result(self) -> str:
        """What the model was last told about the call. A worker that was frozen may still send the
        request of an earlier turn."""
        told = [dict(request.results) for request in self.peers.model.requests(self.name)]
        return next((results["c1"] for results in reversed(told) if "c1" in results), "")

    def act(self, client: Client, run_id: str) -> httpx2.Response | None:
        """What the run waits for from outside: a decision, a callback, a result. None: nothing.
        The same every time it is said."""
        match self.kind:
            case "gated":
                found = client.approvals(status=None, run_id=run_id)
                path = f"/v1/approvals/{found[0]['id']}/decision"
                return client.request("POST", path, {"decision": "approve"})
            case "callback":
                url = self.calls()[0].body["callback"]["url"]
                body = {"status": "completed", "output": PAID}
                return client.request("POST", httpx2.URL(url).path, body)
            case "client":
                path = f"/v1/runs/{run_id}/tool_calls/c1/result"
                return client.request("POST", path, {"output": PAID})
            case _:
                return None


class Driver:
    """On a thread of its own: does what the run waits for from outside until it has ended."""

    def __init__(self, subject: Subject, client: Client, run_id: str) -> None:
        self._subject = subject
        self._client = client
        self._run_id = run_id
        self.error: Exception | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._drive, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        self._thread.join()

    def _drive(self) -> None:
        try:
            match self._subject.kind:
                case "gated":
                    self._until(lambda: bool(self._client.approvals(run_id=self._run_id)))
                case "callback":
                    self._until(lambda: bool(self._subject.calls()))
                case _:
                    return
            if not self._over.is_set():
                self._until(self._has_acted)
        except Exception as error:  # the test shows it
            self.error = error

    def _has_acted(self) -> bool:
        answer = self._subject.act(self._client, self._run_id)
        if answer is None or answer.status_code == 200:
            return True
        # Too early: the 202 is not recorded. Else the call has ended otherwise meanwhile.
        return answer.status_code in (409, 410) and answer.json()["code"] != "too_early"

    def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            if self._over.wait(RETRY_SECONDS):
                return
