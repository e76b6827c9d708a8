"""Agents that call agents: `boss` asks `clerk`, who asks `cashier`, who pays once approved."""

from tests.checker import Evidence, Violation, broken
from tests.e2e.conftest import Processes
from tests.e2e.paying import LEASE_SECONDS
from tests.support.models.chat_server import Answer, Call, ModelServer, calls, text
from tests.support.services.client import Client, Json
from tests.support.services.service import Service
from tests.support.tools.server import ToolServer


def asks(name: str, said: str) -> Answer:
    return calls(Call(f"c_{name}", name, f'{{"input":"{said}"}}'))


class Family:
    """Two levels of child runs below the one that is started. `pay` is gated, at the bottom."""

    def __init__(self, start: Processes, model: ModelServer, tools: ToolServer) -> None:
        self._start = start
        self.model = model
        self.tools = tools
        self.api = start("api", lease_seconds=LEASE_SECONDS)
        self.client: Client = start.client(self.api).new_project("family")
        start.keep(self.client)
        registered = self.client.register_tool("pay", tools.tool("pay"), approval="always")
        tools.secrets("pay", registered["secret"])
        self._agent("cashier", ["pay"], calls(Call("c_pay", "pay", '{"x":"7"}')), text("paid 7"))
        self._agent_tool("ask_cashier", "cashier")
        self._agent("clerk", ["ask_cashier"], asks("ask_cashier", "pay 7"), text("booked"))
        self._agent_tool("ask_clerk", "clerk")
        model.by_turn("boss", asks("ask_clerk", "see to it"), text("done"))

    def _agent(self, name: str, tools: list[str], *answers: Answer) -> None:
        self.model.by_turn(name, *answers)
        agent = {"name": name, "model": f"openai:{name}", "tools": tools}
        self.client.call("POST", "/v1/agents", agent)

    def _agent_tool(self, name: str, agent: str) -> None:
        tool = {"name": name, "type": "agent", "agent": agent}
        self.client.call("POST", "/v1/tools", tool)

    def worker(self) -> Service:
        return self._start("worker", lease_seconds=LEASE_SECONDS)

    def another_api(self) -> Client:
        """A process of its own, with the same key."""
        service = self._start("api", lease_seconds=LEASE_SECONDS)
        client = service.client(self.client.key)
        self._start.keep(client)
        return client

    def run(self) -> str:
        return self.client.start_run(model="openai:boss", tools=["ask_clerk"])["id"]

    def parked(self) -> str:
        """A run whose grandchild waits for a person."""
        run_id = self.run()
        assert self.client.settle(run_id)["status"] == "requires_action"
        return run_id

    def below(self, run_id: str) -> list[str]:
        """The run and all its descendants, as its log and theirs tell."""
        found = [run_id]
        for one in found:
            started = (
                event["data"]["run_id"]
                for event in self.client.events(one)
                if event["data"].get("status") == "child_started"
            )
            found += started
        return found

    def statuses(self, run_id: str) -> list[str]:
        return [self.client.get_run(one)["status"] for one in self.below(run_id)]

    def broken(self, *run_ids: str) -> list[Violation]:
        """What the independent checker finds, of the whole families."""
        family = [one for run_id in run_ids for one in self.below(run_id)]
        runs = {one: self.client.get_run(one) for one in family}
        logs = {one: self.client.events(one) for one in family}
        evidence = Evidence(
            runs=runs, logs=logs, hits=self.tools.hits("pay"), statuses=self.client.statuses
        )
        assert self.model.violations == []
        return broken(evidence)

    def action(self, run_id: str) -> Json:
        """The only thing that the run waits for."""
        [action] = self.client.get_run(run_id)["required_actions"]
        return action
