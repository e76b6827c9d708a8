"""What the pages' tests run against: the service that the tests of the API share, with a project of
its own for each page; or, where a page starts the service itself, what that needs."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.api.conftest import project
from tests.support.services.client import Client
from tests.support.services.service import BOOTSTRAP_KEY, SECRET_KEY, free_port

__all__ = ["own", "project"]


@dataclass(frozen=True, slots=True)
class Own:
    """A service that is not started yet: `env` is for whoever starts it."""

    client: Client
    env: dict[str, str]


@pytest.fixture
def own(database_url: str) -> Iterator[Own]:
    port = f"{free_port()}"
    env = {
        "DATABASE_URL": database_url,
        "RUNWARD_PORT": port,
        "RUNWARD_BOOTSTRAP_KEY": BOOTSTRAP_KEY,
        "RUNWARD_SECRET_KEY": SECRET_KEY,
        "RUNWARD_ALLOW_PRIVATE_TARGETS": "127.0.0.0/8",
    }
    with Client(f"http://127.0.0.1:{port}", BOOTSTRAP_KEY) as client:
        yield Own(client, env)
