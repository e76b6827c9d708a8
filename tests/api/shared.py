"""The service that all tests of one process share, with the servers that it talks to."""

import json
import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager

from tests.api.contract import Contract
from tests.api.project import CheckedClient, Running
from tests.support.models.all_providers import AllProviders
from tests.support.services.service import BOOTSTRAP_KEY, Service
from tests.support.tools.server import ToolServer

PRICE = {"input": 1000, "output": 2000, "cached_input": 500}
TRUSTED_PROXY = "127.0.0.2"
"""An address from which a test can connect like a reverse proxy."""
ENV = {
    "RUNWARD_MODEL_PRICES": json.dumps({"openai:priced-*": PRICE}),
    "RUNWARD_MCP_COMMANDS": sys.executable,
    "RUNWARD_TRUSTED_PROXIES": TRUSTED_PROXY,
}
"""An answer of a model named `priced` costs 0.085 US dollars."""


@contextmanager
def shared_service(
    lend: Callable[[], AbstractContextManager[str]], **env: str
) -> Generator[Running]:
    """`lend` gives the URL of the service's database."""
    with (
        lend() as database_url,
        AllProviders() as providers,
        ToolServer() as tools,
        Service(
            "serve",
            database_url,
            openai_base_url=providers.openai_base_url,
            env=ENV | providers.env | env,
        ) as service,
        service.client() as plain,
    ):
        contract = Contract(plain.call("GET", "/openapi.json"))
        with CheckedClient(service.url, BOOTSTRAP_KEY, contract) as operator:
            yield Running(service, operator, contract, providers.chat, tools, providers)
