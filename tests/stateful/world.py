"""The real service that all examples share: an API process, two workers, a model server, a tool
server, and their own PostgreSQL server.
"""

import asyncio
import json
import shutil
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Final, Self, cast

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from runward.store import migrations
from tests.support.models.chat_server import Answer, Call, ModelRequest, ModelServer, calls, text
from tests.support.postgres import Cluster, scratch_folder
from tests.support.services.client import Client
from tests.support.services.forks import Forks
from tests.support.services.service import Command, Service
from tests.support.tools.hits import Hit
from tests.support.tools.server import Behaviour, ToolServer

LEASE_SECONDS: Final = 1.0
MODEL: Final = "story"


class World:
    """`prepare`: what is done to the code of its processes before they run (see `Forks`)."""

    def __init__(self, prepare: str | None = None, env: dict[str, str] | None = None) -> None:
        self._stack = ExitStack()
        self._prepare = prepare
        self._env = env or {}
        self.number = self.steps = self.runs = 0

    def __enter__(self) -> Self:
        enter = self._stack.enter_context
        folder = scratch_folder()
        self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
        self.cluster = Cluster(folder)
        self._stack.callback(self.cluster.close)
        asyncio.run(migrations.upgrade(self.cluster.url))
        self.model = enter(ModelServer())
        self.tools = enter(ToolServer())
        self.model.respond(MODEL, answer)
        preload = () if self._prepare is None else (self._prepare.partition(":")[0],)
        self._forks = enter(Forks(preload=preload, prepare=self._prepare))
        self.api = self._start("api")
        self.workers = [self._start_worker(), self._start_worker()]
        self.operator = enter(self.api.client())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def new_project(self) -> tuple[str, Client]:
        self.number += 1
        name = f"example-{self.number}"
        return name, self.operator.new_project(name)

    def replace_worker(self, number: int) -> None:
        """SIGKILL, and another one starts."""
        self.workers[number].resume()
        self.workers[number].close()
        self.workers[number] = self._start_worker()

    def restart_postgres(self) -> None:
        """As after a crash. Ready when the API is."""
        self.cluster.kill()
        self.cluster.start_again()
        assert self.api.wait_ready()

    def expire_approval(self, run_id: str) -> None:
        """The time of the pending approval of a run has passed."""
        statement = (
            "UPDATE approvals SET expires_at = clock_timestamp() - interval '1 second'"
            " WHERE status = 'pending' AND run_id = $1"
        )
        asyncio.run(self._execute(statement, run_id.partition("_")[2]))

    async def _execute(self, statement: str, *values: Any) -> None:
        connect = cast("Any", asyncpg.connect)  # pyright: ignore[reportUnknownMemberType]
        connection = await connect(self.cluster.url.replace("+asyncpg", ""))
        try:
            await connection.execute(statement, *values)
        finally:
            await connection.close()

    def hits(self, project: str) -> list[Hit]:
        """The calls of a project's runs that reached its tools."""
        return [hit for hit in self.tools.hits() if hit.key.startswith(f"{project}.")]

    def tool(self, project: str, name: str, *behaviours: Behaviour) -> str:
        return self.tools.tool(f"{project}.{name}", *behaviours)

    def _start_worker(self) -> Service:
        worker = self._start("worker")
        worker.wait_for_output("worker_started")
        return worker

    def _start(self, command: Command) -> Service:
        service = Service(
            command,
            self.cluster.url,
            openai_base_url=self.model.base_url,
            lease_seconds=LEASE_SECONDS,
            env={"RUNWARD_DATABASE_CONNECTIONS": "6", **self._env},
            forks=self._forks,
        )
        self._stack.callback(service.close)
        return service.start()


def answer(request: ModelRequest) -> Answer:
    """The model calls the tool that the run's input names, and then it is done."""
    if request.turn:
        return text("done")
    [said] = [message["content"] for message in request.messages if message["role"] == "user"]
    plan = json.loads(said)
    return calls(Call("c1", plan["tool"], json.dumps({"x": plan["x"]})))
