"""Each link of openapi.json is followed once: its operation accepts the IDs of the response."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any, TypeAlias

import httpx2
import pytest

from tests.api.contract import Operation
from tests.api.furnished import BODIES
from tests.api.project import ALL_SCOPES, CheckedClient, Project, Running
from tests.contract.figures import record
from tests.hostile.mcp_peer import McpPeer
from tests.support.services.client import Json
from tests.support.tools.server import Behaviour

Answer: TypeAlias = tuple[str, str, Json]
"""The id of an operation, the status of its answer, and the body."""

X = {"type": "object", "properties": {"x": {"type": "string"}}}
CREATED = (
    ("create_session", "session_id", ["list_sessions", "get_session", "update_session"]),
    ("create_session", "session_id", ["fork_session"]),
    ("register_tool", "name", ["list_tools", "get_tool", "update_tool"]),
    ("register_mcp_server", "name", ["list_mcp_servers", "get_mcp_server", "update_mcp_server"]),
    ("register_mcp_server", "name", ["refresh_mcp_server"]),
    ("register_agent", "name", ["list_agents", "get_agent", "update_agent"]),
    ("register_agent", "name", ["list_agent_versions"]),
    ("create_key", "key_id", ["list_keys", "get_key", "revoke_key"]),
    ("create_project", "project_id", ["list_projects"]),
    ("create_webhook_endpoint", "endpoint_id", ["list_webhook_endpoints", "get_webhook_endpoint"]),
    ("create_budget", "budget_id", ["list_budgets", "get_budget", "update_budget"]),
    ("create_schedule", "schedule_id", ["list_schedules", "get_schedule", "update_schedule"]),
    (
        "create_webhook_endpoint",
        "endpoint_id",
        ["update_webhook_endpoint", "test_webhook_endpoint"],
    ),
)
"""Operations that create a resource, the parameter of its path, and operations on it."""

DELETIONS_OF_RUNS = {"delete_run", "delete_response"}
"""Followed at the end and once for each run, since several answers are of the same run."""


@dataclass
class Sources:
    """Sends the requests whose answers have links. `statuses`: what a source or a link got."""

    project: Project
    client: CheckedClient
    mcp_url: str
    known: dict[str, Operation] = field(init=False)
    numbers: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self.known = {each.id: each for each in self.project.running.contract.operations()}

    def send(
        self, operation_id: str, path: Json, body: Json | None = None, query: Json | None = None
    ) -> httpx2.Response:
        """`path`: the values of the path's parameters."""
        operation = self.known[operation_id]
        operator = operation.path.startswith(("/v1/projects", "/v1/workers"))
        by = self.project.running.operator if operator else self.client
        empty: Json | None = {} if operation.takes_body else None
        body = body or BODIES.get(operation_id, empty)
        return by.request(operation.method, operation.filled(**path), body, params=query)

    def ask(self, operation_id: str, path: Json, **query: Any) -> Answer:
        return self.answer(operation_id, self.send(operation_id, path, query=query))

    def start(self, talk: str, *tools: str, **query: Any) -> Answer:
        """The run takes one turn at most if it is waited for."""
        body: Json = {"model": "offline:rules", "input": talk, "tools": list(tools)}
        body |= {"limits": {"max_turns": 1}} if query else {}
        return self.answer("start_run", self.send("start_run", {}, body, query))

    def answer(self, operation_id: str, response: httpx2.Response) -> Answer:
        assert response.is_success, f"{operation_id}: {response.text}"
        return operation_id, str(response.status_code), response.json()

    def create(self, operation_id: str) -> Answer:
        fields = {"register_mcp_server": {"url": self.mcp_url}, "register_tool": {"parameters": X}}
        body = {**BODIES[operation_id], **fields.get(operation_id, {})}
        if operation_id not in ("create_webhook_endpoint", "create_budget"):
            body["name"] = f"made{next(self.numbers)}"
        return self.answer(operation_id, self.send(operation_id, {}, body))


def resources(sources: Sources) -> Iterator[Answer]:
    """Each answer is of a new resource, since links delete it."""
    for operation_id, parameter, operations in CREATED:
        yield sources.create(operation_id)
        for other in operations:
            _, _, made = sources.create(operation_id)
            identifier = made["name"] if parameter == "name" else made["id"]
            yield sources.ask(other, {parameter: identifier})
    for other in ("get_webhook_delivery", "redeliver_webhook", "list_webhook_deliveries"):
        _, _, made = sources.create("create_webhook_endpoint")
        _, _, delivery = sources.ask("test_webhook_endpoint", {"endpoint_id": made["id"]})
        yield sources.ask(other, {"delivery_id": delivery["id"]})
    for other in ("put_legal_hold", "get_legal_hold", "list_legal_holds"):
        held = {"resource_id": sources.start("hi")[2]["id"]}
        sources.ask("put_legal_hold", held)
        yield sources.ask(other, held)
    yield sources.ask("create_erasure", {})
    for other in ("put_secret", "get_secret", "list_secrets"):
        path = {"name": f"of-{other}"}
        yield sources.ask("put_secret", path)
        sources.ask("put_secret", path)
        yield sources.ask(other, path)


def responses(sources: Sources) -> Iterator[Answer]:
    open_id = "resp_" + start_waiting(sources.project).removeprefix("run_")
    yield sources.ask("create_response", {})
    yield sources.ask("get_response", {"response_id": open_id})
    yield sources.ask("cancel_response", {"response_id": open_id})
    yield sources.ask("list_models", {})
    for other in ("get_conversation", "update_conversation", "delete_conversation_item"):
        yield sources.ask("create_conversation", {})
        _, _, created = sources.ask("create_conversation", {})
        conversation = {"conversation_id": created["id"]}
        _, _, items = sources.ask("create_conversation_items", conversation)
        yield sources.ask(other, conversation | {"item_id": items["data"][0]["id"]})


def runs(sources: Sources) -> Iterator[Answer]:
    project = sources.project
    project.tool("pay", approval="always")
    project.tool("broken", Behaviour("reset"), on_unknown="ask")
    project.tool("quick")
    project.tool("later", Behaviour("later"))
    client_tool = {"name": "survey", "type": "client", "parameters": {"type": "object"}}
    sources.send("register_tool", {}, client_tool)
    started = sources.start('pay(x="1") survey() broken(x="3")', "pay", "survey", "broken")
    ended = sources.start('quick(x="1")', "quick", wait=30)
    waiting = {"run_id": start_waiting(project)}
    run = {"run_id": project.settle(started[2])["id"]}
    yield from (started, ended)
    yield sources.ask("get_run", run)
    yield sources.ask("get_run", waiting, wait=1)
    yield sources.ask("cancel_run", waiting)
    yield sources.ask("list_runs", {})
    yield sources.ask("continue_run", {"run_id": ended[2]["id"]})
    yield sources.ask("send_input", run)
    yield from calls_of(sources, run)


def start_waiting(project: Project) -> str:
    """The id of a run that waits for a callback."""
    run = project.accepted(model="offline:rules", input='later(x="1")', tools=["later"])
    return str(run["id"])


def calls_of(sources: Sources, run: Json) -> Iterator[Answer]:
    called = sources.ask("list_tool_calls", run)
    ids = {call["tool"]: {**run, "call_id": call["call_id"]} for call in called[2]["data"]}
    approvals = sources.ask("list_approvals", {}, run_id=run["run_id"])
    approval = {"approval_id": approvals[2]["data"][0]["id"]}
    yield from (called, approvals)
    yield sources.ask("get_approval", approval)
    yield sources.ask("list_required_actions", {})
    yield sources.ask("get_tool_call", ids["survey"])
    yield sources.ask("decide_approval", approval)
    yield sources.ask("resolve_tool_call", ids["broken"])
    yield sources.ask("submit_tool_result", ids["survey"])


def value_at(answer: Any, expression: str) -> str:
    """The value that a runtime expression of OpenAPI names."""
    for step in expression.removeprefix("$response.body#/").split("/"):
        answer = answer[int(step)] if step.isdecimal() else answer[step]
    return str(answer)


def path_of(link: Json, answer: Json) -> str:
    """The ID in the link's path, without its prefix."""
    [expression] = link["parameters"].values()
    return value_at(answer, expression).partition("_")[2]


def follow(sources: Sources, link: Json, answer: Json) -> int:
    """The status of the answer of the link's operation."""
    places: dict[str, Json] = {"path": {}, "query": {}}
    for parameter, expression in link["parameters"].items():
        place, _, name = parameter.partition(".")
        places[place][name] = value_at(answer, expression)
    return sources.send(link["operationId"], places["path"], None, places["query"]).status_code


@pytest.mark.timeout(180)
def test_each_link_leads_to_an_operation_that_knows_its_ids(
    running: Running, project: Project
) -> None:
    links: Json = running.contract.document["components"]["links"]
    wrong, followed = list[str](), set[str]()
    of_shared_runs: dict[tuple[str, str], tuple[Json, Json]] = {}
    with McpPeer() as peer:
        sources = Sources(project, project.key(*ALL_SCOPES), peer.url_of("links"))
        of_runs = list(runs(sources))
        for operation_id, status, answer in chain(of_runs, responses(sources), resources(sources)):
            declared: Json = sources.known[operation_id].spec["responses"][status]["links"]
            for target in sorted(declared, key=lambda name: is_deletion(sources, name)):
                link = links[declared[target]["$ref"].rpartition("/")[2]]
                followed.add(f"{operation_id} {status} {target}")
                if target in DELETIONS_OF_RUNS:
                    of_shared_runs[target, path_of(link, answer)] = link, answer
                    continue
                got = follow(sources, link, answer)
                if not (got < 300 or got == 409):
                    wrong.append(f"{operation_id} {status} {target}: {got}")
        for (target, path), (link, answer) in of_shared_runs.items():
            if (got := follow(sources, link, answer)) >= 300:
                wrong.append(f"{target} {path}: {got}")
    record(links_followed=len(followed))
    assert not wrong, "\n".join(wrong)
    assert followed == set(links_of(running))


def is_deletion(sources: Sources, operation_id: str) -> bool:
    return sources.known[operation_id].method == "DELETE"


def links_of(running: Running) -> Iterator[str]:
    for operation in running.contract.operations():
        for status, response in operation.spec["responses"].items():
            yield from (f"{operation.id} {status} {target}" for target in response.get("links", ()))
