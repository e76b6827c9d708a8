"""The real service over real HTTP: one process for all tests of a worker, one project for each."""

from collections.abc import Iterator

import pytest

from tests.api.project import Project, Running
from tests.api.protocols import Speaker
from tests.support.mcp.oauth_server import AuthServer, ProtectedServer


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


@pytest.fixture
def auth() -> Iterator[AuthServer]:
    """An OAuth authorization server."""
    with AuthServer() as server:
        yield server


@pytest.fixture
def server(auth: AuthServer) -> Iterator[ProtectedServer]:
    """An MCP server that requires its tokens."""
    with ProtectedServer(auth) as server:
        yield server
