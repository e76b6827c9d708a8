"""The run that the durability tests interrupt: the model asks for `pay`, a person approves it, the
webhook pays, the model answers `done`."""

from tests.checker import Evidence, Reader, Violation, broken
from tests.e2e.conftest import Processes
from tests.support.models.chat_server import Answer, Call, ModelRequest, ModelServer, text
from tests.support.models.chat_server import calls as asks
from tests.support.services.client import Client, Json
from tests.support.services.service import Service
from tests.support.serving import Hold
from tests.support.tools.server import Behaviour, ToolServer
from tests.support.tools.witness import started_witness

LEASE_SECONDS = 2
MODEL = "payer"
PAY = asks(Call("c1", "pay", '{"x":"1"}'))
DONE = text("done")


class Paying:
    """An API process, a project, the tool `pay`; workers are started and killed by the test."""

    def __init__(
        self,
        start: Processes,
        model: ModelServer,
        tools: ToolServer,
        *behaviours: Behaviour,
        idempotent: bool = False,
        approval: str = "always",
        served: Service | None = None,
    ) -> None:
        self._start = start
        self.model = model
        self.tools = tools
        self.idempotent = idempotent
        self.api = served or start("api", lease_seconds=LEASE_SECONDS)
        self.client: Client = start.client(self.api).new_project("paying")
        start.keep(self.client)
        url = tools.tool("pay", *behaviours)
        tools.witness = started_witness(self.api.url, self.client.key)
        secret = self.client.register_tool("pay", url, idempotent=idempotent, approval=approval)[
            "secret"
        ]
        tools.secrets("pay", secret)
        model.by_turn(MODEL, PAY, DONE)

    def worker(self, **env: str) -> Service:
        lease = float(env.pop("RUNWARD_LEASE_SECONDS", LEASE_SECONDS))
        return self._start("worker", lease_seconds=lease, env=env)

    def hold_first_answer_of_turn(self, turn: int) -> Hold:
        """The first request of that turn waits; every other one is answered at once."""
        hold, answers, held = Hold(), (PAY, DONE), [False]

        def respond(request: ModelRequest) -> Answer:
            answer = answers[request.turn]
            if request.turn != turn or held[0]:
                return answer
            held[0] = True
            return Answer(answer.text, answer.calls, hold=hold)

        self.model.respond(MODEL, respond)
        return hold

    def run(self) -> str:
        return self.client.start_run(model=f"openai:{MODEL}", tools=["pay"])["id"]

    def parked(self) -> str:
        """A run that waits for its approval."""
        run_id = self.run()
        assert self.client.settle(run_id)["status"] == "requires_action"
        return run_id

    def accepted(self) -> str:
        """A run whose call waits for its callback."""
        run_id = self.run()
        for frame in self.client.stream(run_id):
            if frame.type == "tool_call.progress":
                break
        return run_id

    def approve(self, run_id: str) -> Json:
        return self.client.decide_call(run_id, "c1", "approve")

    def finish(self, run_id: str) -> Json:
        """Waits, approving if asked to, until the run has completed."""
        run = self.client.settle(run_id)
        if run["status"] == "requires_action":
            self.approve(run_id)
            run = self.client.settle(run_id)
        assert (run["status"], run["output"]) == ("completed", "done")
        return run

    def turns_asked(self) -> list[int]:
        """Which turn each request of the model was for."""
        return [request.turn for request in self.model.requests(MODEL)]

    def broken(self, *run_ids: str) -> list[Violation]:
        """What the independent checker finds, of every promise."""
        runs = {run_id: self.client.get_run(run_id) for run_id in run_ids}
        logs = {run_id: self.client.events(run_id) for run_id in run_ids}
        readers = [
            Reader(run_id, "stream", [frame.data for frame in self.client.stream(run_id)])
            for run_id in run_ids
        ]
        evidence = Evidence(
            runs=runs,
            logs=logs,
            hits=self.tools.hits("pay"),
            readers=readers,
            statuses=self.client.statuses,
            idempotent=frozenset({"pay"} if self.idempotent else ()),
        )
        assert self.model.violations == []
        return broken(evidence)

    def event_types(self, run_id: str) -> list[str]:
        return [event["type"] for event in self.client.events(run_id)]

    def result(self) -> str:
        """The result of `pay` that the model was last shown."""
        return dict(self.model.requests(MODEL)[-1].results)["c1"]
