"""Requests that nobody should send, to every route of the real service: each is refused with a
4xx that says what is wrong, nothing is a 5xx, nothing is made, and the service goes on.

`pytest tests/api/test_bad_input_api.py -s` prints the table of all of them.
"""

import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.api.contract import OPENAI_PATHS, Operation
from tests.api.furnished import BODIES, furnish_retention, furnish_webhook
from tests.api.project import ALL_SCOPES, CheckedClient, Project, Running, call
from tests.support.models.chat_server import calls
from tests.support.services.client import NO_TLS, Json
from tests.support.tools.server import Behaviour

JSON = "application/json"
MAX_BODY_BYTES = 1_048_576
SOCKET_SECONDS = 10.0
RUN: Json = {"model": "offline:rules", "input": "hi"}
TOOL: Json = {"name": "mine", "parameters": {"type": "object"}, "url": "http://127.0.0.1:9/"}
SERVER: Json = {"name": "mine", "url": "http://127.0.0.1:9/mcp"}

GOOD: dict[str, Json] = {
    "start_run": RUN,
    "send_input": {"input": "and this"},
    "continue_run": {"max_turns": 1},
    "cancel_run": {"mode": "immediate"},
    "create_session": {"name": "mine"},
    "update_session": {"state": {"changed": True}},
    "fork_session": {"name": "mine"},
    "put_policy": {"guardrails": []},
    "resolve_tool_call": {"resolution": "failed", "message": "no"},
    "submit_tool_result": {"error": "no"},
    "decide_approval": {"decision": "approve"},
    "submit_callback": {"status": "completed", "output": 1},
    "register_tool": TOOL,
    "update_tool": {"description": "changed"},
    "test_tool": {"arguments": {"x": "1"}},
    "register_mcp_server": SERVER,
    "update_mcp_server": {"timeout_seconds": 1},
    "start_mcp_login": {"scope": "files:read"},
    "put_secret": {"value": "mine"},
    "register_agent": {"name": "mine", "model": "offline:rules"},
    "update_agent": {"description": "changed"},
    "create_schedule": BODIES["create_schedule"],
    "update_schedule": {"name": "changed"},
    "create_webhook_endpoint": {"url": "http://127.0.0.1:9/"},
    "update_webhook_endpoint": {"description": "changed"},
    "put_retention": {"runs": 30_000},
    "preview_retention": {"runs": 30_000},
    "put_legal_hold": {"reason": "mine"},
    "create_erasure": {"metadata": {"user": "nobody"}},
    "create_budget": BODIES["create_budget"],
    "update_budget": BODIES["update_budget"],
    "create_key": {"name": "mine", "scopes": ["runs:read"]},
    "create_project": {"name": "mine"},
    "create_project_key": {"name": "mine", "scopes": ["runs:read"]},
}
"""Bodies that would be taken, by operation; every operation that takes one is here."""


@dataclass(frozen=True)
class Bad:
    """A request, and what it must get. `path`: among the `errors`."""

    name: str
    status: int
    code: str
    method: str = "POST"
    target: str = "/v1/runs"
    body: bytes | None = None
    path: str | None = None
    type: str | None = JSON
    headers: dict[str, str] = field(default_factory=dict[str, str])


def run(name: str, path: str, **fields: Any) -> Bad:
    """A run with fields that make it none."""
    body = json.dumps({**RUN, **fields}).encode()
    return Bad(name, 422, "invalid_request", body=body, path=path)


def query(name: str, target: str, path: str) -> Bad:
    return Bad(name, 422, "invalid_request", "GET", target, path=f"query.{path}")


def idempotency_key(name: str, value: str) -> Bad:
    key = "Idempotency-Key"
    body = json.dumps(RUN).encode()
    headers = {key: value}
    return Bad(name, 422, "invalid_request", body=body, path=f"header.{key}", headers=headers)


def without_key(name: str, authorization: str = "") -> Bad:
    headers = {"Authorization": authorization}
    return Bad(name, 401, "unauthenticated", "GET", headers=headers)


RUNS: tuple[Bad, ...] = (
    run("no input", "input", input=None),
    run("input of a number", "input", input=7),
    run("input of nothing", "input", input=[]),
    run("1001 messages", "input", input=[{"role": "user", "content": "x"}] * 1001),
    run("an unknown role", "input.0.role", input=[{"role": "root", "content": "x"}]),
    run(
        "a result without a call",
        "input.0.tool_call_id",
        input=[{"role": "tool", "tool_call_id": "c1", "content": "x"}],
    ),
    run("content of null", "input.0.content", input=[{"role": "user", "content": None}]),
    run("no model and no agent", "", model=None),
    run("model and agent", "", agent="clerk"),
    run("a model of a number", "model", model=1),
    run("no fallback", "model", model=[]),
    run("nine models", "model", model=["offline:rules"] * 9),
    run("1001 tools", "tools", tools=["a"] * 1001),
    run("a tool of no name", "tools.0", tools=[""]),
    run("a tool of a path", "tools.0", tools=["../a"]),
    run("a tool without parameters", "tools.0.parameters", tools=[{"name": "a"}]),
    run("turns of zero", "limits.max_turns", limits={"max_turns": 0}),
    run("51 turns", "limits.max_turns", limits={"max_turns": 51}),
    run("turns in words", "limits.max_turns", limits={"max_turns": "10"}),
    run("turns of a fraction", "limits.max_turns", limits={"max_turns": 1.5}),
    run("turns of true", "limits.max_turns", limits={"max_turns": True}),
    run("calls below zero", "limits.max_tool_calls", limits={"max_tool_calls": -1}),
    run("a deadline long ago", "limits.deadline_seconds", limits={"deadline_seconds": -1}),
    run("an endless deadline", "limits.deadline_seconds", limits={"deadline_seconds": 1e300}),
    run("an unknown limit", "limits.max_sadness", limits={"max_sadness": 1}),
    run("limits of a list", "limits", limits=[]),
    run("an unknown choice", "tool_choice", tool_choice="any"),
    run("an unknown behaviour", "tool_use_behavior", tool_use_behavior="stop"),
    run("stop at nothing", "tool_use_behavior.stop_at", tool_use_behavior={"stop_at": []}),
    run("an unknown end", "on_max_turns", on_max_turns="explode"),
    run("repairs below zero", "output_retries", output_retries=-1),
    run("a context of text", "context", context="x"),
    run("metadata of a list", "metadata", metadata=[]),
    run("65 notes", "metadata", metadata={str(n): 1 for n in range(65)}),
    run("17 KiB of notes", "metadata", metadata={"a": "x" * 17_000}),
    run("an output schema of text", "output_schema", output_schema="object"),
    run("an unknown field", "stream", stream=True),
    run("parallel as text", "parallel_tool_calls", parallel_tool_calls="yes"),
    run("instructions without end", "instructions", instructions="x" * 262_145),
)

QUERIES: tuple[Bad, ...] = (
    query("an unknown query", "/v1/runs?offset=1", "offset"),
    query("a query twice", "/v1/runs?limit=1&limit=2", "limit"),
    query("limit zero", "/v1/runs?limit=0", "limit"),
    query("limit 201", "/v1/approvals?limit=201", "limit"),
    query("limit of a fraction", "/v1/tools?limit=1.5", "limit"),
    query("limit in Arabic digits", "/v1/runs?limit=%D9%A1", "limit"),
    query("limit of 5000 digits", "/v1/runs?limit=" + "9" * 5000, "limit"),
    query("limit 1001 of events", "/v1/runs/{run_id}/events?limit=1001", "limit"),
    query("order by chance", "/v1/agents?order=random", "order"),
    query("after another kind", "/v1/runs?after={approval_id}", "after"),
    query("after nothing", "/v1/runs?after=", "after"),
    query("after NUL", "/v1/tools?after=%00", "after"),
    query("after bad UTF-8 in keys", "/v1/keys?after=%ff", "after"),
    query("an unknown status", "/v1/runs?status=done", "status"),
    query("an unknown status beside one", "/v1/runs?status=failed,done", "status"),
    query("a status and a comma", "/v1/runs?status=failed,", "status"),
    query("a search for nothing", "/v1/runs?q=", "q"),
    query("a search for 201 letters", "/v1/runs?q=" + "a" * 201, "q"),
    query("a search for NUL", "/v1/runs?q=a%00", "q"),
    query(
        "accepted at a time without a zone",
        "/v1/runs?created_after=2026-11-02T09:30:00",
        "created_after",
    ),
    query("accepted before a word", "/v1/runs?created_before=yesterday", "created_before"),
    query("calls after a run", "/v1/tools/pay/calls?after={run_id}", "after"),
    query("an unknown approval status", "/v1/approvals?status=yes", "status"),
    query("an agent of 65 letters", "/v1/runs?agent=" + "a" * 65, "agent"),
    query("wait below zero", "/v1/runs/{run_id}?wait=-1", "wait"),
    query("wait of 61 s", "/v1/runs/{run_id}?wait=61", "wait"),
    query("wait of NaN", "/v1/runs/{run_id}?wait=nan", "wait"),
    query("wait without end", "/v1/runs/{run_id}?wait=inf", "wait"),
    query("events after -1", "/v1/runs/{run_id}/events?after=-1", "after"),
    query("events after text", "/v1/runs/{run_id}/events?after=last", "after"),
    query("events after 2^64", "/v1/runs/{run_id}/events?after=18446744073709551616", "after"),
    query("until something", "/v1/runs/{run_id}/events?until=done", "until"),
    query("a query where none is taken", "/v1/tools/pay?verbose=1", "verbose"),
)

HEADERS: tuple[Bad, ...] = (
    idempotency_key("an empty key", ""),
    idempotency_key("a key of 256 letters", "k" * 256),
    idempotency_key("a key with a space", "a b"),
    idempotency_key("a key outside ASCII", "\xe9"),
    Bad(
        "a last event of text",
        422,
        "invalid_request",
        "GET",
        "/v1/runs/{run_id}/events",
        path="header.Last-Event-ID",
        headers={"Last-Event-ID": "last"},
    ),
    without_key("no key"),
    without_key("basic", "Basic eDp5"),
    without_key("a bearer of nothing", "Bearer"),
    without_key("a key of 5000 letters", "Bearer" + "k" * 5000),
    without_key("a key outside UTF-8", "Bearer \xff\xfe"),
)

PATHS: tuple[Bad, ...] = (
    Bad("an unknown path", 404, "not_found", "GET", "/v1/nothing"),
    Bad("another version", 404, "not_found", "GET", "/v2/runs"),
    Bad("a slash more", 404, "not_found", "GET", "/v1/runs/"),
    Bad("two slashes", 404, "not_found", "GET", "//v1/runs"),
    Bad("upper case", 404, "not_found", "GET", "/v1/RUNS"),
    Bad("an id of nothing", 404, "run_not_found", "GET", "/v1/runs/run_"),
    Bad("an id of another kind", 404, "run_not_found", "GET", "/v1/runs/{approval_id}"),
    Bad("an id in upper case", 404, "run_not_found", "GET", "/v1/runs/run_" + "F" * 32),
    Bad("an id with dashes", 404, "run_not_found", "GET", "/v1/runs/run_" + "f" * 8 + "-f" * 12),
    Bad("an id with a space", 404, "run_not_found", "GET", "/v1/runs/{run_id}%20"),
    Bad("an id of NUL", 404, "not_found", "GET", "/v1/runs/%00"),
    Bad("an id of bad UTF-8", 404, "run_not_found", "GET", "/v1/runs/%ff%fe"),
    Bad("an id of 5000 letters", 404, "run_not_found", "GET", "/v1/runs/" + "a" * 5000),
    Bad("an id to climb", 404, "not_found", "GET", "/v1/runs/..%2f..%2fetc%2fpasswd"),
    Bad("an id to inject", 404, "run_not_found", "GET", "/v1/runs/'%20OR%201=1--"),
    Bad("a tool of a path", 404, "tool_not_found", "GET", "/v1/tools/..%5c"),
    Bad("a tool of 65 letters", 404, "tool_not_found", "GET", "/v1/tools/" + "a" * 65),
    Bad("an agent that is an id", 404, "agent_not_found", "GET", "/v1/agents/{run_id}0"),
    Bad("a key that is a project", 404, "key_not_found", "DELETE", "/v1/keys/{project_id}"),
    Bad(
        "a call of 600 letters",
        404,
        "call_not_found",
        target="/v1/runs/{run_id}/tool_calls/" + "c" * 600 + "/resolve",
        body=b'{"resolution":"retry"}',
    ),
    Bad(
        "a call of NUL",
        404,
        "not_found",
        target="/v1/runs/{run_id}/tool_calls/a%00b/resolve",
        body=b'{"resolution":"retry"}',
    ),
    Bad(
        "a result and an error at once",
        422,
        "invalid_request",
        target="/v1/runs/{run_id}/tool_calls/c9/result",
        body=b'{"output":1,"error":"no"}',
    ),
    Bad(
        "no result at all",
        422,
        "invalid_request",
        target="/v1/runs/{run_id}/tool_calls/c9/result",
        body=b"{}",
    ),
    Bad("PUT", 405, "method_not_allowed", "PUT", "/v1/runs/{run_id}"),
    Bad("PUT of a run", 405, "method_not_allowed", "PUT", "/v1/runs/{run_id}"),
    Bad("PATCH of a list", 405, "method_not_allowed", "PATCH", "/v1/tools"),
    Bad("POST of a tool", 405, "method_not_allowed", "POST", "/v1/tools/pay"),
    Bad("TRACE", 405, "method_not_allowed", "TRACE", "/v1/runs"),
    Bad("a method of others", 405, "method_not_allowed", "PROPFIND", "/v1/runs"),
    Bad(
        "a body where none is taken",
        422,
        "invalid_request",
        target="/v1/tools/pay/rotate_secret",
        body=b'{"secret":"mine"}',
    ),
)


def any_body(operation: Operation, good: Json) -> Iterator[Bad]:
    """What no route takes, whatever it is about."""
    text = json.dumps(good)
    rest = text[1:]

    def bad(name: str, status: int, code: str, body: bytes | str, **fields: Any) -> Bad:
        raw = body if isinstance(body, bytes) else body.encode()
        named = f"{operation.id}: {name}"
        return Bad(named, status, code, operation.method, operation.path, raw, **fields)

    yield bad("not JSON", 400, "invalid_json", "hello")
    yield bad("half of it", 400, "invalid_json", text[:-1])
    yield bad("twice", 400, "invalid_json", text + text)
    yield bad("white space", 400, "invalid_json", "  ")
    yield bad("NaN", 400, "invalid_json", f'{{"a":NaN,{rest}')
    yield bad("infinity", 400, "invalid_json", f'{{"a":-Infinity,{rest}')
    yield bad("a lone surrogate", 400, "invalid_json", rf'{{"a":"\ud800",{rest}')
    yield bad("a raw NUL", 400, "invalid_json", f'{{"a":"\0",{rest}')
    yield bad("bad UTF-8", 400, "invalid_json", b'{"a":"\xff",' + rest.encode())
    yield bad("UTF-16", 400, "invalid_json", text.encode("utf-16"))
    yield bad("a byte order mark", 400, "invalid_json", b"\xef\xbb\xbf" + text.encode())
    key = next(iter(good))
    yield bad("a key twice", 400, "invalid_json", f'{{"{key}":1,{rest}')
    invalid = "invalid_request"
    yield bad("a NUL", 422, invalid, rf'{{"a":"\u0000",{rest}')
    yield bad("a NUL in a key", 422, invalid, rf'{{"\u0000":1,{rest}')
    yield bad("a number that no double holds", 422, invalid, f'{{"a":1e999,{rest}')
    yield bad("65 levels", 422, invalid, f'{{"a":{"[" * 65}{"]" * 65},{rest}')
    yield bad("100000 levels", 422, invalid, "[" * 100_000)
    yield bad("an array", 422, invalid, f"[{text}]", path="")
    yield bad("a string", 422, invalid, '"hi"', path="")
    yield bad("a number", 422, invalid, "7", path="")
    yield bad("an unknown field", 422, invalid, f'{{"_colour":1,{rest}', path="_colour")
    yield bad("a prototype", 422, invalid, f'{{"__proto__":{{}},{rest}', path="__proto__")
    yield bad(
        "a form", 415, "unsupported_media_type", "a=b", type="application/x-www-form-urlencoded"
    )
    yield bad("no type", 415, "unsupported_media_type", text, type=None)
    yield bad("another charset", 415, "unsupported_media_type", text, type=JSON + "; charset=utf-7")
    gzip = {"Content-Encoding": "gzip"}
    yield bad("compressed", 415, "unsupported_media_type", text, headers=gzip)
    yield bad("1 MiB and a byte", 413, "payload_too_large", " " * (MAX_BODY_BYTES + 1))


@dataclass(frozen=True)
class Stage:
    """A project that has one of everything, with a key of all scopes, for paths to name."""

    project: Project
    client: CheckedClient
    http: httpx2.Client
    values: Json

    def request(self, bad: Bad) -> httpx2.Response:
        by_operator = bad.target.startswith("/v1/projects")
        key = self.project.running.operator.key if by_operator else self.client.key
        headers = [("Authorization", f"Bearer {key}")]
        headers = [*bad.headers.items(), *(headers if "Authorization" not in bad.headers else [])]
        if bad.body is not None and bad.type is not None:
            headers.append(("Content-Type", bad.type))
        target = bad.target
        for name, value in self.values.items():
            target = target.replace(f"{{{name}}}", value)
        raw = [(name.encode(), value.encode("latin-1")) for name, value in headers if value]
        raw += [(name.encode(), b"") for name, value in headers if not value]
        return self.http.request(bad.method, target, content=bad.body, headers=raw)

    def snapshot(self) -> list[Any]:
        paths = ["/v1/runs", "/v1/approvals", "/v1/tools", "/v1/agents", "/v1/keys", "/v1/secrets"]
        paths += ["/v1/webhook_endpoints", "/v1/schedules", "/v1/budgets"]
        shown: list[Any] = [self.client.call("GET", path, limit=200) for path in paths]
        path = f"/v1/runs/{self.values['run_id']}"
        shown += [self.client.call("GET", path + end) for end in ("", "/events", "/tool_calls")]
        return [*shown, len(self.project.tools.hits())]


@pytest.fixture
def stage(project: Project) -> Iterator[Stage]:
    project.tool("pay", approval="always")
    project.tool("broken", Behaviour("reset"), on_unknown="ask")
    both = calls(call(1, "pay"), call("9", "broken"))
    run = project.run(both, tools=["pay", "broken"])
    [approval] = project.client.approvals(run_id=run["id"])
    project.client.call("POST", "/v1/agents", {"name": "clerk", "model": "offline:rules"})
    session = project.client.call("POST", "/v1/sessions", {"state": {"mine": True}})
    made = project.new_key("runs:read")
    schedule = project.client.call("POST", "/v1/schedules", BODIES["create_schedule"])
    values: Json = {
        "schedule_id": schedule["id"],
        "budget_id": project.key("admin").call("POST", "/v1/budgets", BODIES["create_budget"])[
            "id"
        ],
        "session_id": session["id"],
        "run_id": run["id"],
        "response_id": "resp_" + run["id"].removeprefix("run_"),
        "approval_id": approval["id"],
        "key_id": made["id"],
        "project_id": project.id,
        **furnish_webhook(project),
        **furnish_retention(project, run["id"]),
        "call_id": "c9",
        "conversation_id": session["id"].replace("sess_", "conv_"),
        "item_id": session["id"].replace("sess_", "msg_") + "_1_1",
        "model": "clerk",
        "name": "pay",
        "token": project.hits("broken")[0].body["callback"]["token"],
    }
    url = project.running.service.url
    with httpx2.Client(base_url=url, trust_env=False, verify=NO_TLS, timeout=20) as http:
        yield Stage(project, project.key(*ALL_SCOPES), http, values)


def refusal(stage: Stage, bad: Bad) -> str | None:
    """What is wrong with how a bad request was answered; None: nothing."""
    response = stage.request(bad)
    broken = stage.project.running.contract.broken_by(response)
    if broken:
        return f"{response.status_code}: {broken}"
    problem: Json = response.json()
    if (response.status_code, problem["code"]) != (bad.status, bad.code):
        return f"{response.status_code} {problem['code']} {problem['errors']}"
    paths = [error["path"] for error in problem["errors"]]
    if bad.path is not None and bad.path not in paths:
        return f"errors at {paths}, not {bad.path!r}"
    return None


def judge(stage: Stage, table: list[Bad]) -> None:
    before = stage.snapshot()
    wrong: list[str] = []
    print(f"\n{len(table)} bad requests\n{'expected':>33}  request")
    for bad in table:
        problem = refusal(stage, bad)
        verdict = "" if problem is None else f"  BUT {problem}"
        print(f"{bad.status} {bad.code:>29}  {bad.method} {bad.target[:40]}: {bad.name}{verdict}")
        wrong += [] if problem is None else [f"{bad.name}: {problem}"]
    assert wrong == []
    assert stage.snapshot() == before, "nothing was made, changed or sent"
    assert stage.client.request("GET", "/readyz").status_code == 200


def test_a_bad_request_is_refused_with_what_is_wrong(stage: Stage) -> None:
    assert len(RUNS + QUERIES + HEADERS + PATHS) >= 100
    judge(stage, [*RUNS, *QUERIES, *HEADERS, *PATHS])


def test_no_route_takes_a_bad_body(stage: Stage, running: Running) -> None:
    with_body = [each for each in running.contract.operations() if each.takes_body]
    ours = [each for each in with_body if not each.path.startswith(OPENAI_PATHS)]
    assert {operation.id for operation in ours} == GOOD.keys()
    judge(stage, [bad for each in ours for bad in any_body(each, GOOD[each.id])])


def test_no_route_of_the_responses_api_takes_a_bad_body(stage: Stage, running: Running) -> None:
    """Told as OpenAI tells it: the statuses are its own."""
    good: Json = {"model": "offline:rules", "input": "hi"}
    before = stage.snapshot()
    refused = 0
    for operation in running.contract.operations():
        if operation.takes_body and operation.path.startswith(OPENAI_PATHS):
            for bad in any_body(operation, good):
                response = stage.request(bad)
                assert running.contract.broken_by(response) == [], bad.name
                error = response.json()["error"]
                assert 400 <= response.status_code < 500, bad.name
                assert (error["type"], bool(error["message"])) == (
                    "invalid_request_error",
                    True,
                ), bad.name
                refused += 1
    assert refused >= 50
    assert stage.snapshot() == before


# -- every field with every wrong value -----------------------------------------------------------

WHOLE: dict[str, Json] = {
    "start_run": {
        "input": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        "model": ["offline:rules"],
        "instructions": "Be kind.",
        "tools": ["pay"],
        "tool_choice": {"name": "pay"},
        "reset_tool_choice": True,
        "parallel_tool_calls": True,
        "model_settings": {"temperature": 1, "reasoning": {"effort": "low"}},
        "output_schema": {"type": "object", "properties": {"a": {"type": "string"}}},
        "output_retries": 1,
        "tool_use_behavior": {"stop_at": ["pay"]},
        "on_unknown_tool": "return_error",
        "on_max_turns": {"output": "enough"},
        "limits": {"max_turns": 1, "deadline_seconds": 60, "max_tokens": 5},
        "context": {"a": {"b": 1}},
        "metadata": {"a": 1},
    },
    "register_tool": {
        **TOOL,
        "description": "Does.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "string", "enum": ["b"]}},
            "required": ["a"],
            "additionalProperties": False,
        },
        "output_schema": {"type": "object", "properties": {"a": {"type": "string"}}},
        "headers": {"X-A": "b"},
        "timeout_seconds": 1,
        "on_timeout": {"message": "slow"},
        "on_error": "fail_run",
        "on_unknown": "ask",
        "retry": {"max_attempts": 2, "initial_seconds": 1, "max_seconds": 2, "on": [503]},
        "approval": {"when": "args.a == 'b'"},
        "approval_expires_seconds": 60,
        "enabled": {"when": "context.a == 1"},
        "concurrency": {"limit": 1, "group": "a", "serial": True},
        "max_output_bytes": 1000,
        "metadata": {"a": 1},
    },
    "register_mcp_server": {
        **SERVER,
        "args": ["a"],
        "headers": {"X-A": "b", "X-B": {"secret": "pay", "prefix": "a "}},
        "oauth": {
            "client_id": "a",
            "client_secret": {"secret": "pay"},
            "refresh_token": "b",
            "token_url": "https://auth.example.com/token",
            "issuer": "https://auth.example.com",
            "scope": "a b",
            "token_endpoint_auth_method": "client_secret_basic",
        },
        "tools": {"allow": ["a"], "deny": ["b"]},
        "prefix": "a",
        "approval": {"when": "args.a == 'b'"},
        "timeout_seconds": 1,
    },
    "decide_approval": {
        "decision": "edit",
        "arguments": {"x": "2"},
        "digest": "sha256:0",
        "message": "no",
    },
    "submit_callback": {"status": "progress", "progress": 0.5, "message": "on it"},
    "create_key": {
        "name": "mine",
        "scopes": ["runs:read"],
        "expires_at": "2100-01-01T00:00:00Z",
    },
}

WRONG: list[Any] = [
    None,
    True,
    -1,
    1.5,
    10**30,
    1e300,
    "",
    "x" * 20_000,
    "\u202e\U0001f4a9\ufffe\x7f\n",
    "0001-01-01T00:00:00+14:00",
    "{{7*7}}${jndi:ldap://x}%s' OR 1=1; --",
    [],
    [None],
    ["x"] * 300,
    {},
    {"$ref": "#"},
    {"x" * 300: {"": [{}]}},
]
WRONG_INSIDE: list[Any] = [None, -1, "", "x", [], {"$ref": "#"}]
"""For what lies deeper, so that the product stays small."""


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The way to every value inside."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in cast(Json, value).items():
            yield from places(inner, (*path, key))
    elif isinstance(value, list):
        for at, inner in enumerate(cast(list[Any], value)):
            yield from places(inner, (*path, at))


def with_value(body: Json, path: tuple[str | int, ...], value: Any) -> Json:
    changed = deepcopy(body)
    inner: Any = changed
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return changed


@pytest.mark.parametrize("operation_id", GOOD)
def test_no_value_in_any_field_is_too_much(
    stage: Stage, running: Running, operation_id: str
) -> None:
    """The client holds every answer against openapi.json; here it is enough that none is 5xx."""
    [operation] = [each for each in running.contract.operations() if each.id == operation_id]
    whole = WHOLE.get(operation_id, GOOD[operation_id])
    path = operation.filled(**stage.values)
    client = running.operator if path.startswith("/v1/projects") else stage.client
    statuses: set[int] = set()
    for place in places(whole):
        for value in WRONG if len(place) == 1 else WRONG_INSIDE:
            response = client.request(operation.method, path, with_value(whole, place, value))
            assert response.status_code < 500, (place, value)
            statuses.add(response.status_code)
    assert 422 in statuses
    assert stage.client.request("GET", "/readyz").status_code == 200


def test_no_query_is_too_much(stage: Stage, running: Running) -> None:
    texts = [*(str(value)[:3000] for value in WRONG), "99999999999"]
    for operation in running.contract.operations():
        if operation.method != "GET":
            continue
        path = operation.filled(**stage.values)
        for parameter in operation.spec.get("parameters", []):
            if parameter["in"] != "query":
                continue
            for value in texts:
                response = stage.client.request("GET", path, params={parameter["name"]: value})
                assert response.status_code < 500, (operation.id, parameter["name"], value)


# -- what is hardly HTTP --------------------------------------------------------------------------


def lines(*text: str, end: str = "\r\n\r\n") -> bytes:
    return ("\r\n".join(text) + end).encode("latin-1")


def post(*headers: str, body: str = "") -> bytes:
    return lines("POST /v1/runs HTTP/1.1", "Host: localhost", f"Content-Type: {JSON}", *headers) + (
        body.encode()
    )


BARELY: dict[str, bytes] = {
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "another protocol": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "a line without a version": lines("GET /v1/runs"),
    "HTTP/3.7": lines("GET /v1/runs HTTP/3.7", "Host: localhost"),
    "HTTP/2 in the clear": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a header without a colon": lines("GET /v1/runs HTTP/1.1", "Host: localhost", "nonsense"),
    "a header of NUL": lines("GET /v1/runs HTTP/1.1", "Host: localhost", "X-A: a\0b"),
    "a header of 1 MB": lines(
        "GET /v1/runs HTTP/1.1", "Host: localhost", "X-A: " + "a" * 1_000_000
    ),
    "20000 headers": lines("GET /v1/runs HTTP/1.1", *(f"X-{n}: a" for n in range(20_000))),
    "a path of 1 MB": lines("GET /" + "a" * 1_000_000 + " HTTP/1.1", "Host: localhost"),
    "a length that is none": post("Content-Length: ten"),
    "a length below zero": post("Content-Length: -1"),
    "a length without end": post("Content-Length: " + "9" * 40),
    "two lengths": post("Content-Length: 2", "Content-Length: 5", body="{}"),
    "a length and chunks": post(
        "Content-Length: 5", "Transfer-Encoding: chunked", body="0\r\n\r\n"
    ),
    "chunks of no size": post("Transfer-Encoding: chunked", body="xyz\r\n\r\n"),
    "chunks without end": post("Transfer-Encoding: chunked", body="ffffffffffffffff\r\nab"),
    "an unknown coding": post("Transfer-Encoding: rot13", body="{}"),
    "an upgrade to a socket": lines(
        "GET /v1/runs HTTP/1.1",
        "Host: localhost",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ),
    "a path of a proxy": lines("GET http://169.254.169.254/ HTTP/1.1", "Host: localhost"),
    "a tunnel": lines("CONNECT x:443 HTTP/1.1", "Host: localhost"),
    "a star": lines("OPTIONS * HTTP/1.1", "Host: localhost"),
    "a path of bytes": b"GET /v1/\xff\xfe\x80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


FINE = {"a path of a proxy", "a star"}
"""What HTTP wants every server to understand: the path counts, whatever host stands before it."""


@pytest.mark.parametrize("name", BARELY)
def test_what_is_hardly_http_is_refused_or_cut_off(running: Running, name: str) -> None:
    url = urlsplit(running.service.url)
    with socket.create_connection((str(url.hostname), url.port or 0), SOCKET_SECONDS) as line:
        try:
            line.sendall(BARELY[name])
            with suppress(OSError):  # not connected: it was cut off already
                line.shutdown(socket.SHUT_WR)
            answer = line.recv(65_536)
        except ConnectionError:
            answer = b""  # cut off while it was still talking
    print(f"{name}: {answer.partition(bytes([13]))[0]!r}")
    if answer:
        status = int(answer.split(b" ", 2)[1])
        assert 400 <= status < 500 or (status < 300 and name in FINE)
    assert running.operator.request("GET", "/readyz").status_code == 200
