"""The real service over real HTTP: one process for all tests of a worker, one project for each."""

import json
import sys
from collections.abc import Generator, Iterator
from contextlib import suppress

import pytest

from tests.api.contract import Contract
from tests.api.project import CheckedClient, Project, Running
from tests.api.protocols import Speaker
from tests.support.postgres import Databases
from tests.support.service import BOOTSTRAP_KEY, Service
from tests.support.tool_server import ToolServer
from tests.support.vendors import Vendors

PRICE = {"input": 1000, "output": 2000, "cached_input": 500}
ENV = {
    "RUNWARD_MODEL_PRICES": json.dumps({"openai:priced-*": PRICE}),
    "RUNWARD_MCP_COMMANDS": sys.executable,
}
"""An answer of a model named `priced` costs 0.085 US dollars."""


@pytest.fixture(scope="session")
def running(migrated_databases: Databases) -> Iterator[Running]:
    with (
        migrated_databases.migrated() as database_url,
        Vendors() as vendors,
        ToolServer() as tools,
        Service(
            "serve",
            database_url,
            openai_base_url=vendors.openai_base_url,
            env=ENV | vendors.env,
        ) as service,
        service.client() as plain,
    ):
        contract = Contract(plain.call("GET", "/openapi.json"))
        with CheckedClient(service.url, BOOTSTRAP_KEY, contract) as operator:
            yield Running(service, operator, contract, vendors.chat, tools, vendors)


@pytest.fixture
def project(running: Running) -> Iterator[Project]:
    with running.project() as project:
        yield project


@pytest.fixture
def other(running: Running) -> Iterator[Project]:
    """A second project."""
    with running.project() as project:
        yield project


@pytest.fixture
def speaker(request: pytest.FixtureRequest, project: Project) -> Speaker:
    """Of the protocol that is the test's parameter."""
    return Speaker(request.param, project)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    running = getattr(item, "funcargs", {}).get("running")
    if report.failed and isinstance(running, Running):
        with suppress(ValueError):  # closed already: this was the last test's end
            report.sections.append((running.service.title, running.service.output()[-4000:]))
    return report
