"""The processes of one environment, and the steps of the workload on them."""

import os
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.environments.workload import LEASE_SECONDS, Workload
from tests.support.models.chat_server import ModelServer
from tests.support.services.client import Client
from tests.support.services.service import ROOT, Command, Service
from tests.support.tools.server import ToolServer

FULL = "RUNWARD_ENVIRONMENTS"
only_in_full = pytest.mark.skipif(os.environ.get(FULL) != "all", reason="make environments runs it")
"""For tests that cost too much for each run of all tests."""


@dataclass(frozen=True, slots=True)
class Process:
    """How a process of the service is started: its environment, its database's address, and the
    folder of the version that it runs."""

    url: str
    env: dict[str, str] = field(default_factory=dict[str, str])
    folder: Path = ROOT


class Measured(Protocol):
    """Notes the figures of a workload. The fixture `measured`."""

    def __call__(self, name: str, figures: Any) -> None: ...


class Environment:
    """Starts processes, and ends them with the environment."""

    def __init__(self, stack: ExitStack, model: ModelServer, tools: ToolServer) -> None:
        self._stack = stack
        self.model = model
        self.tools = tools
        self.services: list[Service] = []

    def start(self, command: Command, process: Process) -> Service:
        service = Service(
            command,
            process.url,
            openai_base_url=self.model.base_url,
            lease_seconds=LEASE_SECONDS,
            env=process.env,
            folder=process.folder,
        )
        self.services.append(service)
        self._stack.callback(service.close)
        return service.start()

    def workload(self, *apis: Service) -> Workload:
        """The standard workload, in a project of its own; its tools are registered."""
        with apis[0].client() as operator:
            first = self._stack.enter_context(operator.new_project("environment"))
        others = [self._stack.enter_context(Client(api.url, first.key)) for api in apis[1:]]
        workload = Workload([first, *others], self.model, self.tools)
        self._stack.callback(self._close, workload)
        workload.register()
        return workload

    def run(self, workload: Workload, victim: Service, successor: Process) -> Service:
        """The standard course: the first worker is killed with calls in flight, and another one
        takes over."""
        workload.begin()
        victim.kill()
        worker = self.start("worker", successor)
        workload.finish()
        return worker

    def _close(self, workload: Workload) -> None:
        """Without the service no reader waits for a run that never ends."""
        for service in self.services:
            service.kill()
        workload.close()


@contextmanager
def environment() -> Generator[Environment]:
    with ExitStack() as stack:
        model = stack.enter_context(ModelServer())
        tools = stack.enter_context(ToolServer())
        made = Environment(stack, model, tools)
        try:
            yield made
        except BaseException as error:
            for service in made.services:
                with suppress(ValueError):  # closed already: its own failure has shown it
                    error.add_note(f"{service.title}:\n{service.output()}")
            raise
