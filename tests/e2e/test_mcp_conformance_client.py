"""The protocol's own conformance tests for clients, with Runward as the client: each starts a
server, `tests.support.mcp.conformance` has Runward connect to it and call its tool in a run, and
what Runward said is judged."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.postgres import Databases
from tests.support.programs import conformance
from tests.support.services.client import Json
from tests.support.services.service import Service

pytestmark = pytest.mark.timeout(180)
ELICITATION: Final = "elicitation-sep1034-client-defaults"
LOGINS: Final = {
    "auth/metadata-default",
    "auth/metadata-var1",
    "auth/metadata-var2",
    "auth/metadata-var3",
    "auth/basic-cimd",
    "auth/scope-from-www-authenticate",
    "auth/scope-from-scopes-supported",
    "auth/scope-omitted-when-undefined",
    "auth/scope-step-up",
    "auth/scope-retry-limit",
    "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-post",
    "auth/token-endpoint-auth-none",
    "auth/pre-registration",
    "auth/2025-03-26-oauth-metadata-backcompat",
    "auth/2025-03-26-oauth-endpoint-fallback",
    "auth/resource-mismatch",
    "auth/offline-access-scope",
    "auth/offline-access-not-supported",
}
"""A person logs in: `tests.support.mcp.conformance` follows the redirects of the browser."""
MACHINES: Final = {"auth/client-credentials-basic", "auth/client-credentials-jwt"}
PASSED: Final = {"initialize", "tools_call", "sse-retry", ELICITATION} | LOGINS | MACHINES
NOT_DONE: Final = {
    "auth/cross-app-access-complete-flow": "tokens of other kinds are not exchanged",
}


@pytest.fixture(scope="module")
def service(migrated_databases: Databases) -> Iterator[Service]:
    """The servers of the suite listen on `localhost`, which may be an IPv6 address."""
    env = {"RUNWARD_ALLOW_PRIVATE_TARGETS": "127.0.0.0/8,::1/128"}
    with migrated_databases.migrated() as url, Service("serve", url, env=env) as service:
        yield service


def judged(service: Service, scenario: str, folder: Path) -> tuple[dict[str, Json], str]:
    """Return what was checked, by its name, and the output of the client."""
    command = f"{sys.executable} -m tests.support.mcp.conformance"
    done = conformance(
        *("client", "--scenario", scenario, "--output-dir", str(folder)),
        *("--timeout", "60000", "--command", command),
        seconds=120,
        RUNWARD_URL=service.url,
        RUNWARD_KEY=service.key,
    )
    print(done.stdout, done.stderr)
    [found] = folder.glob("**/checks.json")
    said = "".join(found.with_name(f"{one}.txt").read_text("utf-8") for one in ("stdout", "stderr"))
    checks: list[Json] = json.loads(found.read_text("utf-8"))
    return {one["id"]: one for one in checks if one["status"] != "INFO"}, said


def test_every_scenario_is_passed_or_named_with_what_is_not_done() -> None:
    listed = conformance("list", "--client", seconds=60).stdout
    assert set(re.findall(r"^ +- (\S+)", listed, re.MULTILINE)) == PASSED | set(NOT_DONE)


def test_the_handshake_and_the_list_of_tools(service: Service, tmp_path: Path) -> None:
    checks, _ = judged(service, "initialize", tmp_path)
    assert statuses(checks) == {"mcp-client-initialization": "SUCCESS"}


def test_a_tool_is_called_by_a_run_once_it_is_approved(service: Service, tmp_path: Path) -> None:
    checks, said = judged(service, "tools_call", tmp_path)
    assert statuses(checks) == {"tool-add-numbers": "SUCCESS"}
    assert "c_add_numbers completed The sum of 5 and 3 is 8" in said


def closed_and_retried(service: Service, folder: Path) -> tuple[dict[str, Json], str]:
    folder.mkdir()
    return judged(service, "sse-retry", folder)


def test_a_stream_that_the_server_closes_is_taken_up_again(
    service: Service, tmp_path: Path
) -> None:
    """Not before the time that the server named; on a busy machine it may be later, which the
    scenario takes for a fault. A session listens on a stream of its own; where that is opened only
    after the call was sent, the scenario takes it for the reconnect, and says nothing about one."""
    folders = (tmp_path / str(number) for number in range(20))
    checks, said = closed_and_retried(service, next(folders))
    while checks["client-sse-retry-timing"]["details"].get("actualDelayMs", -1) < 0:
        checks, said = closed_and_retried(service, next(folders))
    timing = checks.pop("client-sse-retry-timing")
    assert statuses(checks) == {
        "client-sse-graceful-reconnect": "SUCCESS",
        "client-sse-last-event-id": "SUCCESS",
    }
    assert timing["details"]["tooEarly"] is False
    assert "c_test_reconnection completed Reconnection test completed successfully" in said


def test_a_question_of_a_server_is_answered_with_the_defaults_of_its_form(
    service: Service, tmp_path: Path
) -> None:
    checks, said = judged(service, ELICITATION, tmp_path)
    assert checks
    assert set(statuses(checks).values()) == {"SUCCESS"}, said


@pytest.mark.parametrize("scenario", sorted(LOGINS))
def test_a_person_logs_in_to_a_server(service: Service, tmp_path: Path, scenario: str) -> None:
    checks, said = judged(service, scenario, tmp_path)
    assert checks
    assert set(statuses(checks).values()) == {"SUCCESS"}, said


@pytest.mark.parametrize("scenario", sorted(MACHINES))
def test_a_server_is_logged_in_to_as_a_client(
    service: Service, tmp_path: Path, scenario: str
) -> None:
    """The authorization server is found, and asked for a token by `client_credentials`."""
    checks, said = judged(service, scenario, tmp_path)
    assert checks
    assert set(statuses(checks).values()) == {"SUCCESS"}, said
    assert "c_test-tool completed" in said


def statuses(checks: dict[str, Json]) -> dict[str, str]:
    return {name: one["status"] for name, one in checks.items()}
