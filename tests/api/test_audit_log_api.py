"""/v1/audit_log over HTTP: each change leaves one entry without secrets, in one chain."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import httpx2
import pytest
from pydantic_core import from_json

from runward.domain.audit import AuditAction, verify_chain
from tests.api.contract import Operation
from tests.api.furnished import BODIES, furnish
from tests.api.project import ALL_SCOPES, CheckedClient, Project, Running, at_once, call
from tests.api.shared import TRUSTED_PROXY
from tests.api.test_console_api import SESSION, WRITE
from tests.api.test_mcp_login_api import log_in, register
from tests.support.mcp.oauth_server import ProtectedServer
from tests.support.mcp.server import McpServer
from tests.support.models.chat_server import calls, text
from tests.support.services.client import Json

LOG: Final = "/v1/audit_log"
EXPORT: Final = f"{LOG}/export"
HEAD: Final = f"{LOG}/head"
HERE: Final = "127.0.0.1"
SECRET_VALUE: Final = "value-of-a-secret"

RECORDED: Final[dict[str, AuditAction]] = {
    "decide_approval": AuditAction.APPROVAL_APPROVED,
    "resolve_tool_call": AuditAction.TOOL_CALL_RESOLVED,
    "cancel_run": AuditAction.RUN_CANCELLED,
    "put_limits": AuditAction.LIMITS_UPDATED,
    "put_legal_hold": AuditAction.LEGAL_HOLD_CREATED,
    "delete_legal_hold": AuditAction.LEGAL_HOLD_DELETED,
    "delete_run": AuditAction.RUN_ERASED,
    "cancel_response": AuditAction.RUN_CANCELLED,
    "delete_response": AuditAction.RUN_ERASED,
    "create_erasure": AuditAction.ERASURE_CREATED,
    "delete_conversation_item": AuditAction.SESSION_ITEM_DELETED,
    "delete_session": AuditAction.SESSION_DELETED,
    "delete_conversation": AuditAction.SESSION_DELETED,
    "register_tool": AuditAction.TOOL_CREATED,
    "update_tool": AuditAction.TOOL_UPDATED,
    "rotate_tool_secret": AuditAction.TOOL_SECRET_ROTATED,
    "delete_tool": AuditAction.TOOL_DELETED,
    "register_agent": AuditAction.AGENT_CREATED,
    "update_agent": AuditAction.AGENT_UPDATED,
    "delete_agent": AuditAction.AGENT_DELETED,
    "update_mcp_server": AuditAction.MCP_SERVER_UPDATED,
    "refresh_mcp_server": AuditAction.MCP_SERVER_REFRESHED,
    "delete_mcp_server": AuditAction.MCP_SERVER_DELETED,
    "register_mcp_server": AuditAction.MCP_SERVER_CREATED,
    "start_mcp_login": AuditAction.MCP_SERVER_LOGIN_STARTED,
    "delete_mcp_login": AuditAction.MCP_SERVER_LOGGED_OUT,
    "put_secret": AuditAction.SECRET_UPDATED,
    "delete_secret": AuditAction.SECRET_DELETED,
    "put_policy": AuditAction.POLICY_UPDATED,
    "rotate_signing_secret": AuditAction.SIGNING_SECRET_ROTATED,
    "create_schedule": AuditAction.SCHEDULE_CREATED,
    "update_schedule": AuditAction.SCHEDULE_UPDATED,
    "delete_schedule": AuditAction.SCHEDULE_DELETED,
    "create_webhook_endpoint": AuditAction.WEBHOOK_ENDPOINT_CREATED,
    "update_webhook_endpoint": AuditAction.WEBHOOK_ENDPOINT_UPDATED,
    "rotate_webhook_secret": AuditAction.WEBHOOK_ENDPOINT_SECRET_ROTATED,
    "delete_webhook_endpoint": AuditAction.WEBHOOK_ENDPOINT_DELETED,
    "create_budget": AuditAction.BUDGET_CREATED,
    "update_budget": AuditAction.BUDGET_UPDATED,
    "delete_budget": AuditAction.BUDGET_DELETED,
    "put_retention": AuditAction.RETENTION_UPDATED,
    "create_key": AuditAction.KEY_CREATED,
    "revoke_key": AuditAction.KEY_REVOKED,
    "create_project": AuditAction.PROJECT_CREATED,
    "create_project_key": AuditAction.KEY_CREATED,
}
"""The entry of each operation that changes something, in an order in which all of them succeed."""

STARTS: Final = "starts or continues a run, whose event log records it"
CONVERSES: Final = "changes a conversation of a client, as runs do"
READS: Final = "stores nothing"
SENDS: Final = "sends a request, and the list of deliveries or tool calls records it"
NOT_RECORDED: Final[dict[str, str]] = {
    "start_run": STARTS,
    "send_input": STARTS,
    "continue_run": STARTS,
    "submit_tool_result": STARTS,
    "submit_callback": STARTS,
    "create_response": STARTS,
    "create_chat_completion": STARTS,
    "create_session": CONVERSES,
    "update_session": CONVERSES,
    "fork_session": CONVERSES,
    "create_conversation": CONVERSES,
    "update_conversation": CONVERSES,
    "create_conversation_items": CONVERSES,
    "compact_response": READS,
    "count_input_tokens": READS,
    "preview_retention": READS,
    "test_tool": SENDS,
    "test_webhook_endpoint": SENDS,
    "redeliver_webhook": SENDS,
}
BOTH: Final = frozenset({"before", "after"})
NOTHING: Final = frozenset[str]()
CONTENT: Final = {
    **dict.fromkeys(("created", "resolved"), frozenset({"after"})),
    **dict.fromkeys(("updated", "refreshed", "revoked", "approved"), BOTH),
    **dict.fromkeys(("deleted", "item_deleted"), frozenset({"before"})),
}
"""By verb: the content of an entry. Other verbs have none."""
WITHOUT_CONTENT: Final = {AuditAction.SESSION_DELETED}


@pytest.fixture(scope="module")
def operations(running: Running) -> dict[str, Operation]:
    """All operations that may change something."""
    return {one.id: one for one in running.contract.operations() if one.method != "GET"}


def read_log(client: CheckedClient, path: str = EXPORT) -> list[Json]:
    """The entries of an export."""
    response = client.request("GET", path)
    assert response.status_code == 200, response.text
    return [from_json(line) for line in response.text.splitlines()]


def verify(client: CheckedClient) -> None:
    """The whole chain of the project, to its last entry."""
    verified, head = verify_chain(read_log(client)), client.call("GET", HEAD)
    assert verified is not None
    assert (verified.first, verified.last) == (1, head["number"])
    assert verified.last_hash == head["hash"]


def collect_secrets(response: httpx2.Response) -> set[str]:
    body: Json = response.json() if response.content else {}
    return {body[name] for name in ("secret", "key") if isinstance(body.get(name), str)}


# -- the entries of all operations ----------------------------------------------------------------


def test_each_changing_operation_is_recorded_or_has_a_reason(
    operations: dict[str, Operation],
) -> None:
    assert not RECORDED.keys() & NOT_RECORDED.keys()
    assert operations.keys() == RECORDED.keys() | NOT_RECORDED.keys()


def test_each_change_leaves_one_entry(
    project: Project, operations: dict[str, Operation], server: ProtectedServer
) -> None:
    with McpServer() as mcp:
        things = furnish(project, mcp.url)
        model = project.script(*[calls(call(1, "pay"))] * 2, name="priced")
        first, second = (project.run(model=model, tools=["pay"])["id"] for _ in range(2))
        response_id = second.replace("run_", "resp_")
        special: dict[str, Json] = {
            "cancel_run": {"run_id": first},
            "delete_run": {"run_id": first},
            "cancel_response": {"response_id": response_id},
            "delete_response": {"response_id": response_id},
            "delete_conversation": {
                "conversation_id": project.client.call("POST", "/v1/conversations", {})["id"]
            },
        }
        admin = project.new_key(*ALL_SCOPES, name="auditor")
        client, operator = project.client_of(admin["key"]), project.running.operator
        secrets = {admin["key"], SECRET_VALUE}
        for name, action in RECORDED.items():
            operation = operations[name]
            sender = operator if name.startswith("create_project") else client
            reader = operator if name == "create_project" else client
            if name == "start_mcp_login":
                register(project, server)
            values = things.agents if "/agents/" in operation.path else things.values
            if "/mcp_servers/" in operation.path:
                values = things.servers
            path = operation.filled(**{**values, **special.get(name, {})})
            body = {**BODIES[name]} if name in BODIES else None
            if name == "register_mcp_server":
                body = {"name": "another", "url": mcp.url}
            if name == "put_secret":
                body = {"value": SECRET_VALUE}
            before = reader.call("GET", HEAD)["number"]
            response = sender.request(operation.method, path, body)
            assert response.status_code < 300, (name, response.text)
            secrets |= collect_secrets(response)
            [entry] = read_log(reader, f"{EXPORT}?after={before}")
            check_entry(entry, action, response, None if sender is operator else admin)
    verify(client)
    log = client.request("GET", EXPORT).text
    assert len(secrets) >= 8
    assert [one for one in secrets if one in log] == []


def check_entry(
    entry: Json, action: AuditAction, response: httpx2.Response, key: Json | None
) -> None:
    verb = action.partition(".")[2]
    assert entry["action"] == action
    assert (entry["ip_address"], entry["actor"]["type"]) == (HERE, "key")
    assert entry["request_id"] == response.headers["X-Request-Id"]
    if key is not None:
        assert (entry["actor"]["id"], entry["actor"]["name"]) == (key["id"], "auditor")
    made = datetime.fromisoformat(entry["created_at"])
    assert abs(datetime.now(UTC) - made) < timedelta(minutes=1)
    assert entry["resource"]["type"] == action.partition(".")[0]
    assert entry["resource"]["id"]
    content = NOTHING if action in WITHOUT_CONTENT else CONTENT.get(verb, NOTHING)
    assert {name for name in BOTH if entry[name]} == content, entry
    assert {name for name in BOTH if entry[f"{name}_digest"]} >= content


def test_each_kind_of_decision_is_recorded_with_digests_of_its_content(project: Project) -> None:
    project.tool("pay", approval="always")
    run = project.run(calls(*(call(n, "pay") for n in range(3))), text("done"), tools=["pay"])
    bodies: dict[str, Json] = {
        "edit": {"arguments": {"x": "changed by hand"}},
        "reject": {"message": "not this one"},
        "respond": {"output": "written by hand"},
    }
    key = project.new_key(*ALL_SCOPES)
    client = project.client_of(key["key"])
    approvals = project.client.approvals(run_id=run["id"])
    for approval, (decision, fields) in zip(approvals, bodies.items(), strict=True):
        client.decide(approval["id"], decision, **fields)
        entry = read_log(client)[-1]
        assert entry["resource"]["id"] == approval["id"]
        assert entry["action"] == f"approval.{entry['after']['status']}"
        assert (entry["run_id"], entry["actor"]["id"]) == (run["id"], key["id"])
        assert entry["before"] == {"status": "pending"}
        assert (entry["after"]["tool"], entry["after"]["decision"]) == ("pay", decision)
        assert all(entry["after"][name].startswith("sha256:") for name in fields)
    assert "by hand" not in client.request("GET", EXPORT).text
    number = client.call("GET", HEAD)["number"]
    client.decide(approvals[-1]["id"], "respond", **bodies["respond"])
    assert client.call("GET", HEAD)["number"] == number, "a repeated decision changes nothing"
    project.end(run)


def test_a_decision_in_a_response_is_recorded_with_its_address(project: Project) -> None:
    project.tool("pay", approval="always")
    client = project.key(*ALL_SCOPES)
    run = project.run(calls(call(1, "pay")), text("done"), tools=["pay"])
    [approval] = client.approvals(run_id=run["id"])
    answer = {
        "type": "mcp_approval_response",
        "approval_request_id": approval["id"],
        "approve": False,
    }
    former = run["id"].replace("run_", "resp_")
    body = {"model": run["model"], "previous_response_id": former, "input": [answer]}
    response = client.request("POST", "/v1/responses", body)
    assert response.status_code == 200, response.text
    entry = read_log(client)[-1]
    assert (entry["action"], entry["ip_address"]) == ("approval.rejected", HERE)
    assert entry["request_id"] == response.headers["X-Request-Id"]


def test_a_run_that_a_new_run_of_its_session_cancels_is_recorded(project: Project) -> None:
    project.tool("pay", approval="always")
    client = project.key(*ALL_SCOPES)
    session = client.call("POST", "/v1/sessions", {})["id"]
    run = project.run(calls(call(1, "pay")), tools=["pay"], session_id=session)
    body = {"session_id": session, "on_conflict": "cancel_previous"}
    client.call("POST", "/v1/runs", {"model": "offline:rules", "input": "stop", **body})
    entry = read_log(client)[-1]
    assert (entry["action"], entry["resource"]["id"]) == ("run.cancelled", run["id"])
    assert entry["ip_address"] == HERE


def test_an_entry_contains_only_the_fields_that_changed(project: Project) -> None:
    client = project.key("tools:write", "admin")
    client.call("POST", "/v1/agents", {"name": "clerk", "model": "offline:rules"})
    client.call("PATCH", "/v1/agents/clerk", {"instructions": "Be brief."})
    created, updated = read_log(client)[-2:]
    assert created["before"] is None
    assert created["after"]["model"] == "offline:rules"
    assert (
        updated["resource"],
        updated["before"]["instructions"],
        updated["after"]["instructions"],
    ) == (
        {"type": "agent", "id": "clerk", "version": 2},
        "",
        "Be brief.",
    )
    assert (
        updated["before"].keys()
        == updated["after"].keys()
        == {"instructions", "version", "updated_at"}
    )


def test_a_secret_is_recorded_without_its_value(project: Project) -> None:
    client = project.key("tools:write", "admin")
    for value in ("first-value", "second-value"):
        client.call("PUT", "/v1/secrets/token", {"value": value})
    actions = [entry["action"] for entry in read_log(client)[-2:]]
    assert actions == [AuditAction.SECRET_CREATED, AuditAction.SECRET_UPDATED]
    assert "-value" not in client.request("GET", EXPORT).text


def test_a_legal_hold_is_created_once_and_then_updated(project: Project) -> None:
    client = project.key("admin")
    path = f"/v1/legal_holds/{project.id}"
    for reason in ("one", "two"):
        client.call("PUT", path, {"reason": reason})
    created, updated = read_log(client)[-2:]
    assert (created["action"], updated["action"]) == ("legal_hold.created", "legal_hold.updated")
    assert (updated["before"]["reason"], updated["after"]["reason"]) == ("one", "two")
    client.call("DELETE", path)


def test_refused_and_repeated_requests_leave_no_entry(project: Project) -> None:
    client = project.key("admin", "tools:write")
    headers = {"Idempotency-Key": "once"}
    first = client.request("POST", "/v1/budgets", {"limit_usd": 1}, headers=headers)
    number = client.call("GET", HEAD)["number"]
    again = client.request("POST", "/v1/budgets", {"limit_usd": 1}, headers=headers)
    assert (again.json(), again.headers["Idempotent-Replayed"]) == (first.json(), "true")
    client.refused(422, "invalid_request", "POST", "/v1/budgets", {"limit_usd": 0})
    client.refused(404, "agent_not_found", "DELETE", "/v1/agents/nobody")
    client.refused(404, "key_not_found", "DELETE", f"/v1/keys/key_{'0' * 32}")
    assert client.call("GET", HEAD)["number"] == number


def test_concurrent_erasures_of_a_run_leave_one_entry(project: Project) -> None:
    run = project.run(text("Hi."))
    path = f"/v1/runs/{run['id']}"
    statuses = at_once(8, lambda _: project.client.request("DELETE", path).status_code)
    assert set(statuses) <= {204, 404}
    entries = [one for one in read_log(project.key("admin")) if one["run_id"] == run["id"]]
    assert [one["action"] for one in entries] == ["run.erased"]


# -- the console ----------------------------------------------------------------------------------


def test_signing_in_and_out_of_the_console_is_recorded(project: Project) -> None:
    key = project.new_key(*ALL_SCOPES)
    client = project.client_of(key["key"])
    url = project.running.service.url
    with httpx2.Client(base_url=url, headers=WRITE, trust_env=False, timeout=20) as browser:
        assert browser.post(SESSION, json={"key": key["key"]}).status_code == 200
        assert browser.delete("/v1/secrets/nobody").status_code == 404
        assert browser.put("/v1/secrets/token", json={"value": "x"}).status_code == 201
        assert browser.delete(SESSION).status_code == 204
        assert browser.delete(SESSION).status_code == 204
    found = [
        (entry["action"], entry["actor"]["type"], entry["actor"]["id"], entry["ip_address"])
        for entry in read_log(client)[-3:]
    ]
    assert found == [
        ("console_session.created", "key", key["id"], HERE),
        ("secret.created", "console_session", key["id"], HERE),
        ("console_session.deleted", "console_session", key["id"], HERE),
    ]


def test_refused_sign_ins_with_a_key_of_the_project_are_recorded_once_a_minute(
    project: Project,
) -> None:
    client = project.key("admin")
    revoked = project.new_key("runs:read")
    client.call("DELETE", f"/v1/keys/{revoked['id']}")
    number = client.call("GET", HEAD)["number"]
    url = project.running.service.url
    with (
        httpx2.Client(base_url=url, headers=WRITE, trust_env=False, timeout=20) as browser,
        ThreadPoolExecutor(8) as pool,
    ):

        def sign_in(key: str) -> int:
            return browser.post(SESSION, json={"key": key}).status_code

        sent = [f"{revoked['key']}x", *[revoked["key"]] * 20]
        assert set(pool.map(sign_in, sent)) == {401}
    [entry] = read_log(client, f"{EXPORT}?after={number}")
    assert entry["action"] == AuditAction.CONSOLE_SESSION_REFUSED
    assert (entry["actor"]["id"], entry["ip_address"]) == (revoked["id"], HERE)
    assert entry["resource"]["id"] == revoked["id"]


def test_a_completed_login_to_an_mcp_server_has_its_starter_as_the_actor(
    project: Project, server: ProtectedServer
) -> None:
    register(project, server)
    assert log_in(project).status_code == 200
    started, completed, _ = read_log(project.key("admin"))[-3:]
    assert (started["action"], completed["action"]) == (
        AuditAction.MCP_SERVER_LOGIN_STARTED,
        AuditAction.MCP_SERVER_LOGGED_IN,
    )
    assert (completed["actor"], completed["resource"]) == (started["actor"], started["resource"])
    assert completed["ip_address"] == HERE
    assert completed["request_id"] != started["request_id"]


@pytest.mark.parametrize(
    ("connection", "forwarded", "shown"),
    [
        (TRUSTED_PROXY, "203.0.113.7", "203.0.113.7"),
        (TRUSTED_PROXY, "198.51.100.1, 203.0.113.7", "203.0.113.7"),
        (TRUSTED_PROXY, f"198.51.100.1, 203.0.113.7, {TRUSTED_PROXY}", "203.0.113.7"),
        (TRUSTED_PROXY, "no address", None),
        (TRUSTED_PROXY, "", TRUSTED_PROXY),
        (HERE, "203.0.113.7", HERE),
    ],
)
def test_only_a_trusted_proxy_names_the_address_of_the_client(
    project: Project, connection: str, forwarded: str, shown: str | None
) -> None:
    made = project.new_key("admin", "tools:write")
    headers = {"Authorization": f"Bearer {made['key']}", "X-Forwarded-For": forwarded}
    url = f"{project.running.service.url}/v1/secrets/token"
    transport = httpx2.HTTPTransport(local_address=connection)
    with httpx2.Client(transport=transport, headers=headers, timeout=20) as client:
        assert client.put(url, json={"value": "x"}).status_code == 201
    assert read_log(project.client_of(made["key"]))[-1]["ip_address"] == shown


# -- reading --------------------------------------------------------------------------------------


def test_the_log_is_filtered_and_paged(project: Project) -> None:
    key = project.new_key("admin", "tools:write")
    client = project.client_of(key["key"])
    for number in range(5):
        client.call("PUT", f"/v1/secrets/s{number}", {"value": "x"})
    client.call("DELETE", "/v1/secrets/s3")

    def numbers(**query: Any) -> list[int]:
        return [one["number"] for one in client.call("GET", LOG, **query)["data"]]

    everything = numbers()
    assert everything == sorted(everything, reverse=True)
    assert numbers(order="asc") == everything[::-1]
    page = client.call("GET", LOG, limit=2)
    assert [one["number"] for one in page["data"]] == everything[:2]
    assert (page["has_more"], page["last_id"]) == (True, str(everything[1]))
    assert numbers(limit=2, after=page["last_id"]) == everything[2:4]
    assert numbers(actor_id=key["id"]) == everything[:6]
    assert numbers(action="secret.deleted") == everything[:1]
    assert numbers(resource_type="secret", resource_id="s3") == [everything[0], everything[2]]
    third = client.call("GET", LOG, limit=3)["data"][2]["created_at"]
    assert numbers(created_after=third) == everything[:3]
    assert numbers(created_before=third) == everything[3:]
    for wrong in ({"after": "x"}, {"actor_id": "run_1"}, {"action": "all"}, {"after": "9" * 30}):
        assert client.request("GET", LOG, params=wrong).status_code == 422, wrong


def test_a_project_reads_its_own_log_alone(project: Project, other: Project) -> None:
    ours, theirs = project.key("admin"), other.key("admin")
    ours.call("POST", "/v1/budgets", {"limit_usd": 1})
    assert {entry["project_id"] for entry in read_log(ours)} == {project.id}
    assert {entry["project_id"] for entry in read_log(theirs)} == {other.id}
    assert "budget.created" not in [entry["action"] for entry in read_log(theirs)]


def test_an_export_has_all_entries_and_is_sent_in_parts(project: Project) -> None:
    client = project.key("admin", "tools:write")
    for number in range(210):
        client.call("PUT", f"/v1/secrets/s{number % 7}", {"value": str(number)})
    with client.streaming("GET", EXPORT) as response:
        assert response.headers["Content-Type"] == "application/jsonl"
        assert "Content-Length" not in response.headers
        entries = [from_json(line) for line in response.iter_lines()]
    head = client.call("GET", HEAD)
    assert [one["number"] for one in entries] == list(range(1, head["number"] + 1))
    assert read_log(client, f"{EXPORT}?after={head['number']}") == []
    assert read_log(client, f"{EXPORT}?after=205") == entries[205:]
    verify(client)


def test_concurrent_requests_keep_one_chain(project: Project) -> None:
    clients = [project.key("admin", "tools:write") for _ in range(4)]

    def write(number: int) -> None:
        clients[number % 4].call("PUT", f"/v1/secrets/s{number % 3}", {"value": str(number)})

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, range(60)))
    verify(clients[0])
    assert len(read_log(clients[0])) == len(clients) + 1 + 60


def test_the_chain_verifies_after_an_erasure(project: Project) -> None:
    project.tool("pay", approval="always")
    run = project.run(calls(call(1, "pay")), text("done"), tools=["pay"])
    client = project.key(*ALL_SCOPES)
    [approval] = project.client.approvals(run_id=run["id"])
    client.decide(approval["id"], "reject", message="no")
    decided = read_log(client)[-1]
    project.end(run)
    project.client.call("DELETE", f"/v1/runs/{run['id']}")
    erased, last = read_log(client)[-2:]
    assert decided["after"] is not None
    assert erased == {**decided, "before": None, "after": None, "salt": None}
    assert (last["action"], last["run_id"]) == ("run.erased", run["id"])
    verify(client)
