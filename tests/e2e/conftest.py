"""Real processes for the end-to-end tests: a scripted model, a webhook server, and the service.

`model` and `tools` are servers of the test's own; `start("worker", lease_seconds=1)` starts a
process of the service on the test's own database. `client` has a project of its own on the service
that all tests of a process share. The report of a failed test shows the output of its processes.
"""

from collections.abc import Generator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from runward.domain.registry.scopes import Scope
from tests.api.project import Running
from tests.e2e.command_line import CommandLine
from tests.e2e.own_machine import needs
from tests.support.models.chat_server import Call as ModelCall
from tests.support.models.chat_server import ModelServer, calls, text
from tests.support.programs import missing, node_program
from tests.support.sdks import EXAMPLE, install_typescript
from tests.support.services.client import Client
from tests.support.services.service import Command, Service
from tests.support.tools.server import ToolServer


class Processes:
    """Starts processes of the service on one database; `close` ends whatever still lives."""

    def __init__(self, database_url: str, model: ModelServer) -> None:
        self.database_url = database_url
        self.started: list[Service] = []
        self._model = model
        self._clients = ExitStack()

    def __call__(
        self,
        command: Command,
        *,
        lease_seconds: float | None = None,
        env: dict[str, str] | None = None,
        site: Path | None = None,
    ) -> Service:
        service = Service(
            command,
            self.database_url,
            openai_base_url=self._model.base_url,
            lease_seconds=lease_seconds,
            env=env,
            site=site,
        )
        self.started.append(service)
        return service.start()

    def client(self, service: Service) -> Client:
        """With the operator's key; closed with the processes."""
        return self._clients.enter_context(service.client())

    def keep(self, client: Client) -> None:
        """Closes `client` with the processes."""
        self._clients.enter_context(client)

    def close(self) -> None:
        self._clients.close()
        for service in self.started:
            service.close()


@dataclass(frozen=True, slots=True)
class Golden:
    """The shared service, with an operator whose answers are not checked: scenarios are timed."""

    started: list[Service]
    operator: Client
    model: ModelServer


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def tools() -> Iterator[ToolServer]:
    with ToolServer() as server:
        yield server


@pytest.fixture
def start(database_url: str, model: ModelServer) -> Iterator[Processes]:
    processes = Processes(database_url, model)
    yield processes
    processes.close()


@pytest.fixture(scope="session")
def golden(running: Running) -> Iterator[Golden]:
    with running.service.client() as operator:
        _warm_up(operator, running.model, running.tools)
        yield Golden([running.service], operator, running.model)


@pytest.fixture
def client(golden: Golden) -> Iterator[Client]:
    """A key of a new project on the shared service."""
    with golden.operator.new_project("e2e", Scope) as client:
        yield client


@pytest.fixture(scope="session")
def typescript(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty project into which `@runward/client` is installed; its package is there too."""
    needs("npm", "npm")
    node_program("tsc")
    if not EXAMPLE.exists():
        missing("run make examples/clients/typescript/node_modules/.installed")
    folder = tmp_path_factory.mktemp("typescript")
    install_typescript(folder)
    return folder


@pytest.fixture
def runward(client: Client, tmp_path: Path) -> CommandLine:
    """The commands, with the key of `client`."""
    return CommandLine(tmp_path, client.url, client.key)


def _warm_up(operator: Client, model: ModelServer, tools: ToolServer) -> None:
    """One call through everything, so that no scenario's 50 ms pay for a first import."""
    model.script("warm-up", calls(ModelCall("c1", "warm", '{"x":"1"}')), text("warm"))
    with operator.new_project("warm-up") as client:
        client.register_tool("warm", tools.tool("warm"))
        run = client.start_run(model="openai:warm-up", tools=["warm"])
        assert client.settle(run["id"])["status"] == "completed"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        values: dict[str, Any] = getattr(item, "funcargs", {})
        for value in values.values():
            if isinstance(value, Processes | Golden):
                _add_output(report, value)
    return report


def _add_output(report: pytest.TestReport, having: Processes | Golden) -> None:
    for service in having.started:
        try:
            report.sections.append((service.title, service.output()))
        except ValueError:  # closed already: its own failure has shown it
            continue
