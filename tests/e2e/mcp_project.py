"""A service of the tests' own, for what the tests of the API do with a shared one."""

from collections.abc import Generator
from contextlib import contextmanager

from tests.api.contract import Contract
from tests.api.project import CheckedClient, Project, Running
from tests.support.models.chat_server import ModelServer
from tests.support.services.client import Json
from tests.support.services.service import BOOTSTRAP_KEY, Service
from tests.support.tools.server import ToolServer


@contextmanager
def running_on(service: Service, model: ModelServer) -> Generator[Running]:
    """Yield the service with its contract, its operator and a server of tools."""
    with service.client() as plain:
        contract = Contract(plain.call("GET", "/openapi.json"))
    with (
        ToolServer() as tools,
        CheckedClient(service.url, BOOTSTRAP_KEY, contract) as operator,
    ):
        yield Running(service, operator, contract, model, tools)


def results(project: Project, run: Json) -> list[Json]:
    """What the run's calls came to, by the calls' ids."""
    items = project.client.items(run["id"])
    return sorted(
        (one for one in items if one.get("type") == "tool_result"), key=lambda one: one["call_id"]
    )
