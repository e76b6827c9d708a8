"""The authorization matrix: every operation of openapi.json with every bad credential, and with
a key of each single scope. A refused request has no effect: no row of any table changes.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.api.contract import OPENAI_PATHS, Operation
from tests.api.furnished import BODIES, UNKNOWN, Things, furnish
from tests.api.project import ALL_SCOPES, Project, Running
from tests.contract.credentials import (
    Credential,
    Known,
    bad_credentials,
    bearer,
    console,
    signed_in,
)
from tests.contract.figures import record
from tests.contract.wire import Headers, Wire, rows_of
from tests.hostile.mcp_peer import McpPeer
from tests.support.services.client import Json

IN_CI = bool(os.environ.get("CI"))
"""There, each operation gets every second credential: still more than 22."""
MCP = [
    Operation(
        method, "/mcp", {"operationId": f"mcp_{method.lower()}", "security": [{"bearer": []}]}
    )
    for method in ("POST", "GET", "DELETE")
]
"""The MCP endpoint takes the same keys. It is not in openapi.json."""


@dataclass
class Matrix:
    """A furnished project and a connection. `wrong` collects what was answered otherwise."""

    project: Project
    things: Things
    wire: Wire
    wrong: list[str]

    def send(self, operation: Operation, headers: Headers, path: str, query: str = "") -> Json:
        """The answer; what openapi.json has against it is noted."""
        empty: Json | None = {} if operation.takes_body else None
        body = BODIES.get(operation.id, empty)
        target = f"{path}?{query}" if query else path
        response = self.wire.send(operation.method, target, headers, body)
        if operation.path != "/mcp" and response.status_code != 400:
            broken = self.project.running.contract.broken_by(response)
            self.wrong += [f"{operation.id}: {one}" for one in broken]
        content = response.headers.get("Content-Type", "")
        told: Json = response.json() if content.endswith("json") and response.content else {}
        if operation.path.startswith(OPENAI_PATHS):
            inner: Json | None = told.get("error")
            told = inner or told
        return {
            "status": response.status_code,
            "code": told.get("code"),
            "headers": response.headers,
        }

    def path(self, operation: Operation) -> str:
        """With the ids of the project's own things."""
        values = self.things.values
        if "/agents/" in operation.path:
            values = self.things.agents
        if "/mcp_servers/" in operation.path:
            values = self.things.servers
        return operation.filled(**values)

    def rows(self) -> dict[str, Json]:
        return rows_of(self.project.running.service.database_url)


@pytest.fixture
def matrix(project: Project) -> Iterator[Matrix]:
    with McpPeer() as peer, Wire(project.running.service.url) as wire:
        yield Matrix(project, furnish(project, peer.url_of("box")), wire, [])


def known_of(matrix: Matrix) -> Known:
    project = matrix.project
    made, second = project.new_key(*ALL_SCOPES), project.new_key(*ALL_SCOPES)
    revoked = project.new_key(*ALL_SCOPES)
    project.client_of(made["key"]).call("DELETE", f"/v1/keys/{revoked['id']}")
    passed = (datetime.now(UTC) - timedelta(minutes=1)).isoformat()
    session, ended = signed_in(matrix.wire, made["key"]), signed_in(matrix.wire, made["key"])
    assert matrix.wire.send("GET", "/v1/runs", console(session)).status_code == 200
    assert matrix.wire.send("DELETE", "/console/session", console(ended)).status_code == 204
    return Known(
        key=made["key"],
        key_id=made["id"],
        other_key=second["key"],
        revoked=revoked["key"],
        expired=project.new_key(*ALL_SCOPES, expires_at=passed)["key"],
        callback_token=project.hits("broken")[0].body["callback"]["token"],
        session=session,
        ended_session=ended,
    )


def refused_keys(matrix: Matrix, operations: list[Operation]) -> dict[str, frozenset[str]]:
    """Keys, and their scopes: each alone, and all but those that an operation names."""
    wanted = {frozenset({scope}) for scope in ALL_SCOPES}
    wanted |= {frozenset(ALL_SCOPES) - each.scopes for each in operations}
    made = {matrix.project.new_key(*scopes)["key"]: scopes for scopes in wanted if scopes}
    for key in made:  # so that the use of each is recorded before
        matrix.wire.send("GET", "/v1/capabilities", bearer(key))
    return made


def judge(matrix: Matrix, operation: Operation, bad: Credential) -> None:
    """An operation for everyone answers as without a credential; any other refuses it."""
    answer = matrix.send(operation, bad.headers, matrix.path(operation), bad.query)
    open_to_all = not operation.spec["security"]
    without_sessions = operation.path == "/mcp" and bad.status == 403
    fine = answer["status"] == (401 if without_sessions else bad.status)
    if open_to_all:
        fine = answer["status"] not in {401, 403} and answer["status"] < 500
    elif bad.status == 401:
        fine = fine and answer["headers"].get("WWW-Authenticate", "").startswith("Bearer ")
        fine = fine and answer["code"] in {"unauthenticated", "invalid_api_key"}
    if not fine:
        matrix.wrong.append(f"{operation.id}, {bad.name}: {answer['status']} {answer['code']}")


@pytest.mark.timeout(240)
def test_no_operation_is_open_to_a_bad_credential(running: Running, matrix: Matrix) -> None:
    known = known_of(matrix)
    credentials = list(bad_credentials(known))
    operations = [*running.contract.operations(), *MCP]
    before, begin = matrix.rows(), matrix.wire.requests
    for at, operation in enumerate(operations):
        for bad in credentials[at % 2 :: 2] if IN_CI else credentials:
            if not (bad.writes_only and operation.method == "GET"):
                judge(matrix, operation, bad)
    after = matrix.rows()
    record(
        operations=len(operations),
        credentials=len(credentials),
        credential_requests=matrix.wire.requests - begin,
    )
    assert not matrix.wrong, "\n".join(matrix.wrong)
    assert after == before
    assert len(credentials) >= 44


def test_the_same_requests_are_let_in_with_a_good_credential(
    running: Running, matrix: Matrix
) -> None:
    """Else the matrix would prove nothing. The scheme may be in any case (RFC 9110, 11.1)."""
    key = matrix.project.new_key(*ALL_SCOPES)["key"]
    session = signed_in(matrix.wire, key)
    good: dict[str, Headers] = {
        "a key": bearer(key),
        "lower case": [("Authorization", f"bearer {key}")],
        "white space around": [("Authorization", f"Bearer   {key}  ")],
        "the console": console(session),
    }
    for operation in running.contract.operations():
        for name, headers in good.items():
            answer = matrix.send(operation, headers, operation.filled(**UNKNOWN))
            if answer["status"] in {401, 403} and answer["code"] != "forbidden":
                matrix.wrong.append(f"{operation.id}, {name}: {answer['status']}")
    assert not matrix.wrong, "\n".join(matrix.wrong)


# -- scopes ---------------------------------------------------------------------------------------


def test_an_operation_takes_the_scopes_that_it_names_and_no_others(
    running: Running, matrix: Matrix
) -> None:
    """Refused requests name the project's own things, allowed ones what nobody has."""
    operations = [each for each in running.contract.operations() if each.spec["security"]]
    keys = refused_keys(matrix, operations)
    pairs = [(operation, key) for operation in operations for key in keys]
    refused = [(one, key) for one, key in pairs if one.scopes and not keys[key] & one.scopes]
    before, begin = matrix.rows(), matrix.wire.requests
    for operation, key in refused:
        answer = matrix.send(operation, bearer(key), matrix.path(operation))
        if (answer["status"], answer["code"]) != (403, "insufficient_scope"):
            matrix.wrong.append(f"{operation.id} with {keys[key]}: {answer['status']}")
    after = matrix.rows()
    allowed = [pair for pair in pairs if pair not in refused]
    for operation, key in allowed:
        answer = matrix.send(operation, bearer(key), operation.filled(**UNKNOWN))
        by_operator = operation.path.startswith(("/v1/projects", "/v1/workers"))
        if (answer["status"] in {401, 403}) is not by_operator and answer[
            "code"
        ] != "insufficient_scope":
            matrix.wrong.append(f"{operation.id} with {keys[key]}: {answer['status']}")
    record(scopes=len(ALL_SCOPES), scope_requests=matrix.wire.requests - begin)
    assert not matrix.wrong, "\n".join(matrix.wrong)
    assert after == before
    assert min(len(refused), len(allowed)) > 100


def test_the_matrix_sees_an_operation_that_is_open(running: Running, matrix: Matrix) -> None:
    """The judge itself: an operation of anyone's, said to be protected, is reported."""
    [liveness] = [each for each in running.contract.operations() if each.id == "check_liveness"]
    closed = replace(liveness, spec={**liveness.spec, "security": [{"bearer": []}]})
    judge(matrix, closed, Credential("none"))
    assert matrix.wrong == ["check_liveness, none: 200 None"]
