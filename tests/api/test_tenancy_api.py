"""Who may do what: an id of another project is an unknown id, a scope opens its routes and no
others, and a key that is revoked or expired opens nothing.

Both tables below are held against openapi.json: a route that is added without a line here fails.
"""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import httpx2
import pytest

from tests.api.contract import Operation
from tests.api.furnished import BODIES, UNKNOWN, furnish, snapshot
from tests.api.project import ALL_SCOPES, PATIENCE_SECONDS, CheckedClient, Project, Running
from tests.support.mcp.server import McpServer
from tests.support.services.client import Json
from tests.support.services.service import BOOTSTRAP_KEY

READ, WRITE, TOOLS, DECIDE, ADMIN = ALL_SCOPES
PUBLIC = "public"
ANY = frozenset(ALL_SCOPES)
REVOKED_SECONDS = 5.0

SCOPES: dict[str, frozenset[str] | str] = {
    "start_run": frozenset({WRITE}),
    "list_runs": frozenset({READ, WRITE}),
    "get_run": frozenset({READ, WRITE}),
    "list_items": frozenset({READ, WRITE}),
    "list_tool_calls": frozenset({READ, WRITE}),
    "get_tool_call": frozenset({READ, WRITE}),
    "list_events": frozenset({READ, WRITE}),
    "list_project_events": frozenset({READ, WRITE}),
    "send_input": frozenset({WRITE}),
    "continue_run": frozenset({WRITE}),
    "cancel_run": frozenset({WRITE}),
    "delete_run": frozenset({WRITE}),
    "create_session": frozenset({WRITE}),
    "list_sessions": frozenset({READ, WRITE}),
    "get_session": frozenset({READ, WRITE}),
    "update_session": frozenset({WRITE}),
    "delete_session": frozenset({WRITE}),
    "list_session_items": frozenset({READ, WRITE}),
    "fork_session": frozenset({WRITE}),
    "resolve_tool_call": frozenset({DECIDE}),
    "submit_tool_result": frozenset({WRITE}),
    "list_required_actions": frozenset({READ, DECIDE}),
    "list_approvals": frozenset({READ, DECIDE}),
    "get_approval": frozenset({READ, DECIDE}),
    "decide_approval": frozenset({DECIDE}),
    "submit_callback": PUBLIC,
    "register_tool": frozenset({TOOLS}),
    "list_tools": frozenset({READ, TOOLS}),
    "get_tool": frozenset({READ, TOOLS}),
    "update_tool": frozenset({TOOLS}),
    "delete_tool": frozenset({TOOLS}),
    "rotate_tool_secret": frozenset({TOOLS}),
    "test_tool": frozenset({TOOLS}),
    "list_recent_calls": frozenset({READ, WRITE}),
    "register_mcp_server": frozenset({TOOLS}),
    "list_mcp_servers": frozenset({READ, TOOLS}),
    "get_mcp_server": frozenset({READ, TOOLS}),
    "update_mcp_server": frozenset({TOOLS}),
    "refresh_mcp_server": frozenset({TOOLS}),
    "start_mcp_login": frozenset({TOOLS}),
    "delete_mcp_login": frozenset({TOOLS}),
    "delete_mcp_server": frozenset({TOOLS}),
    "put_secret": frozenset({TOOLS}),
    "list_secrets": frozenset({READ, TOOLS}),
    "get_secret": frozenset({READ, TOOLS}),
    "delete_secret": frozenset({TOOLS}),
    "register_agent": frozenset({TOOLS}),
    "list_agents": frozenset({READ, TOOLS}),
    "get_agent": frozenset({READ, TOOLS}),
    "list_agent_versions": frozenset({READ, TOOLS}),
    "update_agent": frozenset({TOOLS}),
    "delete_agent": frozenset({TOOLS}),
    "get_policy": frozenset({READ, TOOLS}),
    "put_policy": frozenset({TOOLS}),
    "rotate_signing_secret": frozenset({TOOLS}),
    "create_schedule": frozenset({WRITE}),
    "list_schedules": frozenset({READ, WRITE}),
    "get_schedule": frozenset({READ, WRITE}),
    "update_schedule": frozenset({WRITE}),
    "delete_schedule": frozenset({WRITE}),
    "list_schedule_slots": frozenset({READ, WRITE}),
    "create_webhook_endpoint": frozenset({ADMIN}),
    "list_webhook_endpoints": frozenset({ADMIN}),
    "get_webhook_endpoint": frozenset({ADMIN}),
    "update_webhook_endpoint": frozenset({ADMIN}),
    "delete_webhook_endpoint": frozenset({ADMIN}),
    "rotate_webhook_secret": frozenset({ADMIN}),
    "test_webhook_endpoint": frozenset({ADMIN}),
    "list_webhook_deliveries": frozenset({ADMIN}),
    "get_webhook_delivery": frozenset({ADMIN}),
    "redeliver_webhook": frozenset({ADMIN}),
    "get_limits": frozenset({ADMIN}),
    "put_limits": frozenset({ADMIN}),
    "create_budget": frozenset({ADMIN}),
    "list_budgets": frozenset({ADMIN}),
    "get_budget": frozenset({ADMIN}),
    "update_budget": frozenset({ADMIN}),
    "delete_budget": frozenset({ADMIN}),
    "list_audit_log": frozenset({ADMIN}),
    "export_audit_log": frozenset({ADMIN}),
    "get_audit_head": frozenset({ADMIN}),
    "get_retention": frozenset({ADMIN}),
    "put_retention": frozenset({ADMIN}),
    "preview_retention": frozenset({ADMIN}),
    "list_legal_holds": frozenset({ADMIN}),
    "get_legal_hold": frozenset({ADMIN}),
    "put_legal_hold": frozenset({ADMIN}),
    "delete_legal_hold": frozenset({ADMIN}),
    "create_erasure": frozenset({WRITE}),
    "get_erasure": frozenset({READ, WRITE}),
    "create_key": frozenset({ADMIN}),
    "list_keys": frozenset({ADMIN}),
    "get_key": frozenset({ADMIN}),
    "revoke_key": frozenset({ADMIN}),
    "create_project": frozenset({ADMIN}),
    "list_projects": frozenset({ADMIN}),
    "create_project_key": frozenset({ADMIN}),
    "create_response": frozenset({WRITE}),
    "compact_response": frozenset({WRITE}),
    "get_response": frozenset({READ, WRITE}),
    "list_input_items": frozenset({READ, WRITE}),
    "count_input_tokens": frozenset({WRITE}),
    "create_chat_completion": frozenset({WRITE}),
    "list_models": frozenset({READ, WRITE}),
    "get_model": frozenset({READ, WRITE}),
    "create_conversation": frozenset({WRITE}),
    "get_conversation": frozenset({READ, WRITE}),
    "update_conversation": frozenset({WRITE}),
    "delete_conversation": frozenset({WRITE}),
    "list_conversation_items": frozenset({READ, WRITE}),
    "create_conversation_items": frozenset({WRITE}),
    "get_conversation_item": frozenset({READ, WRITE}),
    "delete_conversation_item": frozenset({WRITE}),
    "cancel_response": frozenset({WRITE}),
    "delete_response": frozenset({WRITE}),
    "get_capabilities": ANY,
    "list_workers": frozenset({ADMIN}),
    "check_liveness": PUBLIC,
    "check_readiness": PUBLIC,
    "get_metrics": PUBLIC,
}
"""Which scopes open each operation, any one of them."""

OPERATORS = {"create_project", "list_projects", "create_project_key", "list_workers"}
"""Beside the scope these ask for a key of the project `default`."""


@pytest.fixture(scope="module")
def mcp() -> Iterator[McpServer]:
    with McpServer() as server:
        yield server


@pytest.fixture(scope="module")
def operations(running: Running) -> list[Operation]:
    return list(running.contract.operations())


def send(client: CheckedClient, operation: Operation, path: str) -> httpx2.Response:
    return client.request(operation.method, path, BODIES.get(operation.id))


def test_the_table_of_scopes_has_every_operation(operations: list[Operation]) -> None:
    assert {operation.id for operation in operations} == SCOPES.keys()


def test_the_document_names_the_scopes_of_every_operation(operations: list[Operation]) -> None:
    for operation in operations:
        needed = SCOPES[operation.id]
        assert operation.scopes == (set() if needed in {PUBLIC, ANY} else needed), operation.id
        assert bool(operation.spec["security"]) == (needed != PUBLIC), operation.id


# -- scopes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", ALL_SCOPES)
def test_a_scope_opens_its_operations_and_no_others(
    project: Project, operations: list[Operation], scope: str
) -> None:
    client = project.key(scope)
    for operation in operations:
        response = send(client, operation, operation.filled(**UNKNOWN))
        needed = SCOPES[operation.id]
        if needed == PUBLIC or (scope in needed and operation.id not in OPERATORS):
            assert response.status_code not in {401, 403}, operation.id
        else:
            code = "forbidden" if scope in needed else "insufficient_scope"
            told: Json = response.json()
            told = told.get("error", told)  # OpenAI's envelope has it inside
            assert (response.status_code, told["code"]) == (403, code), operation.id


def test_a_refused_scope_is_named_and_nothing_was_read_or_done(project: Project) -> None:
    reader = project.key(READ)
    response = reader.request("POST", "/v1/runs", {"model": "offline:rules", "input": "hi"})
    assert response.headers["WWW-Authenticate"] == (
        'Bearer error="insufficient_scope", scope="runs:write"'
    )
    assert "runs:write" in response.json()["detail"]
    broken = reader.request("POST", "/v1/runs", {"nonsense": True})
    assert broken.status_code == 403, "what is wrong with the body is not for strangers"
    assert reader.call("GET", "/v1/runs")["data"] == []


def test_without_a_key_every_operation_but_the_public_ones_is_closed(
    running: Running, operations: list[Operation]
) -> None:
    with httpx2.Client(base_url=running.service.url, trust_env=False, timeout=20) as http:
        for operation in operations:
            path = operation.filled(**UNKNOWN)
            body = BODIES.get(operation.id)
            response = http.request(operation.method, path, json=body)
            assert running.contract.broken_by(response) == []
            closed = SCOPES[operation.id] != PUBLIC
            assert (response.status_code == 401) is closed, operation.id


# -- another project's ids ------------------------------------------------------------------------


def telling(response: httpx2.Response) -> tuple[int, list[str], Json]:
    """All that an answer tells, but for the request's own id."""
    problem: Json = response.json()
    problem.pop("request_id", None)
    headers = {"date", "x-request-id", "content-length"}
    return response.status_code, sorted(set(response.headers) - headers), problem


def every_key(project: Project) -> list[CheckedClient]:
    """With each scope alone, and with all."""
    return [project.key(*scopes) for scopes in [*((one,) for one in ALL_SCOPES), ALL_SCOPES]]


def test_an_id_of_another_project_is_an_unknown_id(
    project: Project, other: Project, operations: list[Operation], mcp: McpServer
) -> None:
    things = furnish(project, mcp.url)
    before = snapshot(project)
    strangers = every_key(other)
    compared = 0
    for operation in operations:
        if operation.path.partition("{")[1] == "" or operation.id in {
            "submit_callback",
            "put_secret",
        }:
            continue
        values = things.agents if "/agents/" in operation.path else things.values
        if "/mcp_servers/" in operation.path:
            values = things.servers
        for stranger in strangers:
            foreign = send(stranger, operation, operation.filled(**values))
            nobodys = send(stranger, operation, operation.filled(**UNKNOWN))
            assert telling(foreign) == telling(nobodys), operation.id
            assert foreign.status_code in {403, 404}, operation.id
            compared += 1
    assert compared >= 6 * 18
    assert snapshot(project) == before


def test_another_projects_ids_filter_and_page_like_unknown_ones(
    project: Project, other: Project, mcp: McpServer
) -> None:
    values = furnish(project, mcp.url).values
    stranger = other.key(*ALL_SCOPES)

    def seen(path: str) -> tuple[int, str]:
        response = stranger.request("GET", path)
        return response.status_code, response.text

    pairs = [
        (f"/v1/approvals?run_id={values['run_id']}", f"/v1/approvals?run_id={UNKNOWN['run_id']}"),
        ("/v1/approvals?tool=pay", "/v1/approvals?tool=nobody"),
        ("/v1/runs?agent=nobody-knows", "/v1/runs?agent=nobody"),
        (
            f"/v1/runs?parent_run_id={values['run_id']}",
            f"/v1/runs?parent_run_id={UNKNOWN['run_id']}",
        ),
        (
            f"/v1/runs?session_id={values['session_id']}",
            f"/v1/runs?session_id={UNKNOWN['session_id']}",
        ),
        (f"/v1/runs?q={values['run_id']}", f"/v1/runs?q={UNKNOWN['run_id']}"),
        ("/v1/tools?after=pay", "/v1/tools?after=nobody"),
    ]
    for name, path in (("run_id", "runs"), ("approval_id", "approvals"), ("key_id", "keys")):
        for order in ("asc", "desc"):
            begin = f"/v1/{path}?order={order}&after="
            foreign = stranger.call("GET", begin + values[name])["data"]
            assert all(one["id"] != values[name] for one in foreign)
    for foreign, nobodys in pairs:
        assert seen(foreign) == seen(nobodys)


def test_a_run_sees_the_tools_and_agents_of_its_own_project_alone(
    project: Project, other: Project, mcp: McpServer
) -> None:
    furnish(project, mcp.url)
    bodies: list[tuple[Json, str]] = [
        ({"model": "offline:rules", "tools": ["pay"]}, "unknown_tool"),
        ({"agent": "nobody-knows"}, "unknown_agent"),
    ]
    for body, code in bodies:
        other.client.refused(422, code, "POST", "/v1/runs", {"input": "x", **body})
    url = other.tools.tool(other.tool_key("mine"))
    made = other.client.register_tool("pay", url)
    assert made["version"] == 1


def test_lists_hold_what_is_the_projects_own(
    project: Project, other: Project, mcp: McpServer
) -> None:
    furnish(project, mcp.url)
    stranger = other.key(*ALL_SCOPES)
    paths = ("/v1/runs", "/v1/sessions", "/v1/approvals", "/v1/tools", "/v1/agents")
    for path in (*paths, "/v1/mcp_servers", "/v1/secrets"):
        assert stranger.call("GET", path)["data"] == []
    own = {key["id"] for key in stranger.call("GET", "/v1/keys")["data"]}
    theirs = {key["id"] for key in project.key(ADMIN).call("GET", "/v1/keys")["data"]}
    assert own
    assert theirs
    assert own & theirs == set()


def test_a_secret_of_the_same_name_is_another_projects_own(
    project: Project, other: Project
) -> None:
    project.client.call("PUT", "/v1/secrets/token", {"value": "of this project"})
    before = project.client.call("GET", "/v1/secrets/token")
    response = other.client.request("PUT", "/v1/secrets/token", {"value": "of the other"})
    assert (response.status_code, response.json()["version"]) == (201, 1)
    other.client.call("DELETE", "/v1/secrets/token")
    assert project.client.call("GET", "/v1/secrets/token") == before


# -- keys and projects ----------------------------------------------------------------------------


def test_a_key_is_made_shown_once_listed_and_revoked(project: Project) -> None:
    admin = project.key(ADMIN, READ, WRITE)
    body = {"name": "ci", "scopes": [READ, WRITE], "expires_at": None}
    response = admin.request("POST", "/v1/keys", body)
    made = response.json()
    assert response.status_code == 201
    assert response.headers["Location"] == f"/v1/keys/{made['id']}"
    secret = made.pop("key")
    assert secret.startswith("rw_")
    assert len(secret) > 43
    assert made.items() >= {"object": "key", **body, "revoked_at": None}.items()
    assert admin.call("GET", f"/v1/keys/{made['id']}") == made
    listed = admin.call("GET", "/v1/keys")
    assert made in listed["data"]
    assert secret not in str(listed)
    revoked = admin.call("DELETE", f"/v1/keys/{made['id']}")
    assert revoked["revoked_at"] is not None
    assert admin.call("DELETE", f"/v1/keys/{made['id']}") == revoked, "twice is fine"


def test_a_key_grants_only_scopes_that_it_has(project: Project) -> None:
    admin = project.key(ADMIN, READ)
    problem = admin.refused(
        403, "insufficient_scope", "POST", "/v1/keys", {"name": "x", "scopes": [READ, WRITE]}
    )
    assert (
        problem["detail"] == "This API key cannot grant scopes that it does not have: runs:write."
    )
    for scopes in ([ADMIN], [READ, ADMIN]):
        admin.call("POST", "/v1/keys", {"name": "x", "scopes": scopes})


def test_an_operator_grants_only_scopes_that_its_key_has(
    running: Running, project: Project
) -> None:
    made = running.operator.call("POST", "/v1/keys", {"name": "op", "scopes": [ADMIN]})
    operator = project.client_of(made["key"])
    path, body = f"/v1/projects/{project.id}/keys", {"name": "x", "scopes": [WRITE]}
    operator.refused(403, "insufficient_scope", "POST", path, body)
    operator.call("POST", path, {**body, "scopes": [ADMIN]})


def test_the_use_of_a_key_is_shown(project: Project) -> None:
    admin = project.key(ADMIN, READ)
    made = admin.call("POST", "/v1/keys", {"name": "ci", "scopes": [READ]})
    assert made["last_used_at"] is None
    project.client_of(made["key"]).call("GET", "/v1/runs")
    used = admin.call("GET", f"/v1/keys/{made['id']}")["last_used_at"]
    assert made["created_at"] <= used


BAD_KEYS: list[tuple[Json, str]] = [
    ({"scopes": [READ]}, "name"),
    ({"name": "", "scopes": [READ]}, "name"),
    ({"name": "x" * 201, "scopes": [READ]}, "name"),
    ({"name": "x"}, "scopes"),
    ({"name": "x", "scopes": []}, "scopes"),
    ({"name": "x", "scopes": ["root"]}, "scopes.0"),
    ({"name": "x", "scopes": [READ, READ]}, "scopes"),
    ({"name": "x", "scopes": READ}, "scopes"),
    ({"name": "x", "scopes": [READ], "expires_at": "tomorrow"}, "expires_at"),
    ({"name": "x", "scopes": [READ], "expires_at": "2030-01-01T00:00:00"}, "expires_at"),
    ({"name": "x", "scopes": [READ], "key": "mine"}, "key"),
]


def test_what_is_no_key_is_refused(project: Project) -> None:
    admin = project.key(ADMIN)
    before = admin.call("GET", "/v1/keys")
    for body, path in BAD_KEYS:
        problem = admin.refused(422, "invalid_request", "POST", "/v1/keys", body)
        assert problem["errors"][0]["path"] == path, body
    assert admin.call("GET", "/v1/keys") == before


def until_refused(client: CheckedClient) -> float:
    """Seconds until the key is refused. Raises TimeoutError."""
    begin = time.monotonic()
    while (passed := time.monotonic() - begin) < PATIENCE_SECONDS:
        response = client.request("GET", "/v1/capabilities")
        if response.status_code == 401:
            assert response.json()["code"] == "unauthenticated"
            assert 'error="invalid_token"' in response.headers["WWW-Authenticate"]
            return passed
    raise TimeoutError("the key still works")


def test_a_revoked_key_stops_within_five_seconds(project: Project) -> None:
    made = project.new_key(READ)
    client = project.client_of(made["key"])
    assert client.request("GET", "/v1/runs").status_code == 200
    project.key(ADMIN).call("DELETE", f"/v1/keys/{made['id']}")
    assert until_refused(client) < REVOKED_SECONDS


def in_seconds(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def test_an_expired_key_opens_nothing(project: Project) -> None:
    expired = project.key(READ, expires_at=in_seconds(-60))
    assert until_refused(expired) < 1
    passing = project.key(READ, expires_at=in_seconds(1.5))
    assert passing.request("GET", "/v1/runs").status_code == 200
    assert until_refused(passing) < 1.5 + REVOKED_SECONDS


MANGLED: dict[str, Callable[[str], str]] = {
    "a letter more": lambda key: key + "a",
    "a letter less": lambda key: key[:-1],
    "another letter": lambda key: key[:10] + ("a" if key[10] != "a" else "b") + key[11:],
    "upper case": str.upper,
    "its id": lambda _: "key_" + "0" * 32,
    "nothing but the prefix": lambda _: "rw_",
}


def test_a_key_is_exactly_that_key(project: Project) -> None:
    key = project.new_key(READ)["key"]
    for name, mangle in MANGLED.items():
        response = project.client_of(mangle(key)).request("GET", "/v1/capabilities")
        assert response.status_code == 401, name
        assert key not in response.text


def test_capabilities_name_the_keys_own_scopes(project: Project) -> None:
    shown = project.key(READ, DECIDE).call("GET", "/v1/capabilities")
    assert shown["scopes"] == sorted([READ, DECIDE])


def test_the_bootstrap_key_has_every_scope_and_is_the_operator(running: Running) -> None:
    assert running.operator.key == BOOTSTRAP_KEY
    capabilities = running.operator.call("GET", "/v1/capabilities")
    assert capabilities["scopes"] == sorted(ALL_SCOPES)
    listed = running.operator.call("GET", "/v1/projects", order="asc", limit=1)
    assert listed["data"][0]["name"] == "default"


def test_an_operator_makes_projects_and_their_keys_and_reads_nothing_of_theirs(
    running: Running, project: Project
) -> None:
    run = project.run(model="offline:rules", input="hello")
    running.operator.refused(404, "run_not_found", "GET", f"/v1/runs/{run['id']}")
    made = project.new_key(READ)
    running.operator.refused(404, "key_not_found", "GET", f"/v1/keys/{made['id']}")
    running.operator.refused(404, "key_not_found", "DELETE", f"/v1/keys/{made['id']}")
    path = f"/v1/projects/{UNKNOWN['project_id']}/keys"
    body = {"name": "x", "scopes": [READ]}
    running.operator.refused(404, "project_not_found", "POST", path, body)
    for bad in ({"name": ""}, {"name": "x" * 201}, {}, {"name": 7}, {"name": "x", "id": "y"}):
        running.operator.refused(422, "invalid_request", "POST", "/v1/projects", bad)


def test_an_admin_of_another_project_is_no_operator(project: Project, other: Project) -> None:
    admin = project.key(ADMIN)
    body = {"name": "x", "scopes": [ADMIN]}
    admin.refused(403, "forbidden", "GET", "/v1/projects")
    admin.refused(403, "forbidden", "POST", "/v1/projects", {"name": "mine"})
    for project_id in (other.id, project.id, UNKNOWN["project_id"]):
        admin.refused(403, "forbidden", "POST", f"/v1/projects/{project_id}/keys", body)
    made = admin.call("POST", "/v1/keys", body)
    project.client_of(made["key"]).refused(403, "forbidden", "GET", "/v1/projects")


def test_an_operators_key_without_admin_is_no_operator(running: Running, project: Project) -> None:
    body = {"name": "x", "scopes": [READ, WRITE, TOOLS, DECIDE]}
    made = running.operator.call("POST", "/v1/keys", body)
    client = project.client_of(made["key"])
    client.refused(403, "insufficient_scope", "GET", "/v1/projects")
    running.operator.call("DELETE", f"/v1/keys/{made['id']}")


def test_projects_are_listed_in_pages(running: Running, project: Project, other: Project) -> None:
    newest = running.operator.call("GET", "/v1/projects", limit=2)
    assert [one["id"] for one in newest["data"]] == [other.id, project.id]
    rest = running.operator.call("GET", "/v1/projects", limit=1, after=project.id)
    assert rest["data"][0]["id"] < project.id
