"""One turn asks for a webhook, a plugin, a tool of an MCP server, another agent, a tool of the
client and a call that a person must approve, all at once; they are answered and decided in every
order that chance makes. The results stand in the order of the calls, and each was executed once.

RUNWARD_ORDERS=200 makes it long. The order of round N is that of `Random(N)`.
"""

import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from tests.e2e.conftest import Processes
from tests.support.mcp.server import McpServer
from tests.support.models.chat_server import Answer, Call, ModelServer, calls, text
from tests.support.services.client import Client
from tests.support.serving import Hold
from tests.support.tools.server import Behaviour, ToolServer

ORDERS = int(os.environ.get("RUNWARD_ORDERS", "12"))
AT_ONCE = 6
ANY = {"type": "object"}
DECISIONS = ("approve", "reject", "edit", "respond")


class Round:
    """Everything in it has a name of its own, so that rounds can go side by side."""

    def __init__(self, number: int, client: Client, model: ModelServer, tools: ToolServer) -> None:
        self.random = Random(number)
        self.number = number
        self.client = client
        self.model = model
        self.tools = tools
        self.child = Hold()

    def play(self) -> None:
        self._prepare()
        n = self.number
        names = [f"hook_{n}", "relay", "far_forward", f"ask_{n}", f"gated_{n}", f"mine_{n}"]
        run = self.client.start_run(model=f"openai:main-{self.number}", tools=names)
        try:
            for name in ("hook", "relay", "far"):
                self.tools.hold(f"{name}-{self.number}").arrived()
            self.child.arrived()
            self._wait_for_own(run["id"])
        except TimeoutError as error:
            error.add_note(json.dumps(self.client.events(run["id"]), indent=1))
            raise
        what = self.random.choice(DECISIONS)
        steps: list[Callable[[], object]] = [
            self.tools.hold(f"hook-{self.number}").release,
            self.tools.hold(f"relay-{self.number}").release,
            self.tools.hold(f"far-{self.number}").release,
            self.child.release,
            lambda: self._decide(run["id"], what),
            lambda: self._give(run["id"]),
        ]
        self.random.shuffle(steps)
        for step in steps:
            step()
        ended = self.client.settle(run["id"], {"completed", "failed", "incomplete"})
        assert (ended["status"], ended["output"]) == ("completed", "all done"), self.number
        self._check(run["id"], what)

    def _prepare(self) -> None:
        n, client, tools = self.number, self.client, self.tools
        url = tools.tool(f"hook_{n}", Behaviour(hold=f"hook-{n}"))
        client.register_tool(f"hook_{n}", url)
        client.register_tool(f"gated_{n}", tools.tool(f"gated_{n}"), approval="always")
        relay = tools.tool(f"relay_{n}", Behaviour("raw", value="relayed", hold=f"relay-{n}"))
        far = tools.tool(f"far_{n}", Behaviour("raw", value="from afar", hold=f"far-{n}"))
        mine = {"name": f"mine_{n}", "type": "client", "parameters": ANY, "strict": False}
        client.call("POST", "/v1/tools", mine)
        agent = {"name": f"child_{n}", "model": f"openai:child-{n}"}
        client.call("POST", "/v1/agents", agent)
        tool = {"name": f"ask_{n}", "type": "agent", "agent": f"child_{n}"}
        client.call("POST", "/v1/tools", tool)
        self.model.script(f"child-{n}", Answer("from the child", hold=self.child))
        self.order = [f"c{n}_{one}" for one in ("hook", "relay", "far", "ask", "gated", "mine")]
        self.random.shuffle(self.order)
        asked = {
            f"c{n}_hook": Call(f"c{n}_hook", f"hook_{n}", '{"x":"1"}'),
            f"c{n}_relay": Call(f"c{n}_relay", "relay", json.dumps({"url": relay, "x": "2"})),
            f"c{n}_far": Call(f"c{n}_far", "far_forward", json.dumps({"url": far, "x": "5"})),
            f"c{n}_ask": Call(f"c{n}_ask", f"ask_{n}", '{"input":"3"}'),
            f"c{n}_gated": Call(f"c{n}_gated", f"gated_{n}", '{"x":"4"}'),
            f"c{n}_mine": Call(f"c{n}_mine", f"mine_{n}", "{}"),
        }
        turn = calls(*(asked[call_id] for call_id in self.order))
        self.model.by_turn(f"main-{n}", turn, text("all done"))

    def _decide(self, run_id: str, what: str) -> None:
        fields = {
            "approve": {},
            "reject": {"message": "no"},
            "edit": {"arguments": {"x": "40"}},
            "respond": {"output": "I did it"},
        }[what]
        self.client.decide_call(run_id, f"c{self.number}_gated", what, **fields)

    def _wait_for_own(self, run_id: str) -> None:
        """Until the run says that the client is to run its tool."""
        for frame in self.client.stream(run_id):
            if frame.data["data"].get("status") == "awaiting_result":
                return
        raise AssertionError("the stream ended first")

    def _give(self, run_id: str) -> None:
        path = f"/v1/runs/{run_id}/tool_calls/c{self.number}_mine/result"
        for _ in range(self.random.choice((1, 2))):
            self.client.call("POST", path, {"output": "by myself"})

    def _check(self, run_id: str, what: str) -> None:
        n = self.number
        results = self.model.requests(f"main-{n}")[-1].results
        assert [call_id for call_id, _ in results] == self.order, n
        told = dict(results)
        assert told[f"c{n}_hook"] == f"hook_{n}(1)"
        assert told[f"c{n}_relay"] == "relayed"
        assert told[f"c{n}_far"] == '{"result":"from afar"}'
        assert told[f"c{n}_ask"] == "from the child"
        assert told[f"c{n}_mine"] == "by myself"
        gated = {"approve": f"gated_{n}(4)", "reject": "no", "respond": "I did it"}
        assert told[f"c{n}_gated"].endswith(gated.get(what, f"gated_{n}(40)"))
        sent = {
            f"hook_{n}": 1,
            f"relay_{n}": 1,
            f"far_{n}": 1,
            f"gated_{n}": int(what in ("approve", "edit")),
        }
        hits = [hit.key for hit in self.tools.all_hits()]
        assert {key: hits.count(key) for key in sent} == sent, n
        assert len(self.model.requests(f"child-{n}")) == 1
        events = [event["sequence"] for event in self.client.events(run_id)]
        assert events == list(range(1, len(events) + 1)), n


@pytest.mark.timeout(120 + ORDERS * 3)
def test_whatever_the_order_results_stand_in_that_of_the_calls(
    start: Processes, model: ModelServer, tools: ToolServer
) -> None:
    env = {"RUNWARD_PLUGINS": "tests.support.plugins.relay"}
    api = start("api", env=env)
    for _ in range(2):
        start("worker", env=env)
    client = start.client(api).new_project("orders")
    start.keep(client)
    rounds = [Round(number, client, model, tools) for number in range(ORDERS)]
    with (
        McpServer(module="tests.support.mcp.relay") as far,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        server = {"name": "far", "url": far.url, "approval": "never", "timeout_seconds": 60}
        client.call("POST", "/v1/mcp_servers", server)
        for done in [pool.submit(one.play) for one in rounds]:
            done.result()
    assert model.violations == []
    assert [status for status in client.statuses if status[1] >= 500] == []
