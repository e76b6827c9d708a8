"""Runs whose content is erased: on request, or because their client does not store it."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from openai import OpenAI
from sqlalchemy import NullPool
from sqlalchemy.ext.asyncio import create_async_engine

from tests.api.project import Project, call, of_type, types_of
from tests.api.test_children_api import agent, asks, children
from tests.support.models.chat_server import Answer, HttpError, calls, text
from tests.support.services.client import Json
from tests.support.serving import Hold
from tests.support.tools.server import Behaviour

KEPT = {"id", "status", "model", "usage", "turn", "created_at", "started_at", "ended_at"}
WEATHER: Json = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}


def query(project: Project, *statements: str) -> list[Any]:
    """Run SQL in one transaction. Return the rows of the last statement."""

    async def act() -> list[Any]:
        engine = create_async_engine(project.running.service.database_url, poolclass=NullPool)
        async with engine.begin() as tx:
            found = [await tx.exec_driver_sql(one) for one in statements][-1]
            rows = list(found) if found.returns_rows else []
        await engine.dispose()
        return rows

    return asyncio.run(act())


def tables_with(project: Project, secret: str) -> set[str]:
    """The tables that have a row with this text in any column."""
    tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
    names = [row.tablename for row in query(project, tables)]
    each = (
        f"SELECT '{name}' AS name WHERE EXISTS (SELECT FROM {name} AS one"
        f" WHERE CAST(one AS text) LIKE '%{secret}%')"
        for name in names
    )
    return {row.name for row in query(project, " UNION ALL ".join(each))}


@pytest.fixture
def secret(project: Project) -> str:
    """A text that is nowhere in the database."""
    return f"secret{project.suffix}text"


def full_of(project: Project, secret: str) -> Json:
    """A run with content in every place that can have it, and with a child run."""
    project.tool("pay", Behaviour("return", f"paid {secret}"), approval="always")
    project.tool("note", Behaviour("return", {"state": {"note": secret}}), response="envelope")
    agent(project, "clerk", text(f"Said {secret}"), instructions=f"Say {secret}")
    session = project.client.call("POST", "/v1/sessions", {})["id"]
    run = project.run(
        calls(call(1, "pay", f'{{"x":"{secret}"}}'), asks("clerk", said=secret)),
        calls(call(2, "nobody", f"{{{secret}")),
        text(f"Done {secret}"),
        input=f"Pay {secret}",
        instructions=f"Be {secret}",
        tools=["pay", "note", "ask_clerk"],
        session_id=session,
        metadata={"order": secret},
        context={"user": secret},
    )
    [asked] = project.client.approvals(run_id=run["id"])
    decision = {
        "decision": "edit",
        "arguments": {"x": f"less {secret}"},
        "message": f"Because {secret}",
    }
    path = f"/v1/approvals/{asked['id']}/decision"
    project.client.request("POST", path, decision, headers={"Idempotency-Key": run["id"]})
    ended = project.end(run)
    assert ended["output"] == f"Done {secret}"
    return ended


def test_nothing_of_the_content_is_left_in_the_database(project: Project, secret: str) -> None:
    run = full_of(project, secret)
    fork = project.client.call("POST", f"/v1/sessions/{run['session_id']}/fork", {})
    [child] = children(project, run)
    registered = {"agent_versions", "agents", "audit_entries"}
    assert tables_with(project, secret) - registered == {
        "approvals",
        "run_events",
        "run_items",
        "runs",
        "session_items",
        "tool_calls",
    }
    answers = f"SELECT 1 FROM idempotency_keys WHERE key = '{run['id']}'"
    assert len(query(project, answers)) == 1

    response = project.client.request("DELETE", f"/v1/runs/{run['id']}")

    assert response.status_code == 204
    assert tables_with(project, secret) <= registered
    recorded = f"SELECT DISTINCT resource_type FROM audit_entries e WHERE e::text LIKE '%{secret}%'"
    assert query(project, recorded) == [("agent",)]
    assert query(project, answers) == []
    for shared in (run["session_id"], fork["id"]):
        page = project.client.call("GET", f"/v1/sessions/{shared}/items")
        assert page["data"] == []
    for one in (run, child):
        left = project.client.get_run(one["id"])
        assert {name: left[name] for name in KEPT} == {name: one[name] for name in KEPT}
        assert left["erased_at"] is not None
        assert (left["output"], left["context"], left["metadata"]) == (None, None, {})


def test_an_erased_run_is_a_bare_record_with_its_log(project: Project, secret: str) -> None:
    run = full_of(project, secret)
    [approval] = project.client.approvals(run_id=run["id"], status="edited")
    before = project.client.events(run["id"])
    path = f"/v1/runs/{run['id']}"
    project.client.request("DELETE", path)

    after = project.client.events(run["id"])
    assert types_of(after) == types_of(before)
    [decided] = of_type(after, "tool_call.approval_decided")
    assert (decided["decision"], decided["message"], decided["arguments"]) == ("edit", "", {})
    for gone in ("items", "tool_calls", "tool_calls/c1"):
        project.client.refused(404, "run_erased", "GET", f"{path}/{gone}")
    for refused in ("cancel", "continue"):
        project.client.refused(404, "run_erased", "POST", f"{path}/{refused}")
    project.client.refused(404, "run_erased", "DELETE", path)
    approvals = f"/v1/approvals/{approval['id']}"
    project.client.refused(404, "approval_not_found", "GET", approvals)
    assert project.client.approvals(run_id=run["id"], status="edited") == []
    response = path.replace("runs/run_", "responses/resp_")
    gone = project.client.request("GET", response)
    assert (gone.status_code, gone.json()["error"]["code"]) == (404, "response_not_found")
    shown = project.client.call("GET", path, include="config")
    assert (shown["config"], shown["model"]) == (None, run["model"])
    [listed] = [one for one in project.client.call("GET", "/v1/runs")["data"]]
    assert listed == {**shown, "config": None}


def test_the_error_of_an_erased_run_keeps_its_code(project: Project, secret: str) -> None:
    run = project.run(HttpError(400, f"no {secret}"))
    assert secret in run["error"]["message"]
    project.client.request("DELETE", f"/v1/runs/{run['id']}")
    left = project.client.get_run(run["id"])
    assert left["error"] == {"code": run["error"]["code"], "message": ""}
    assert tables_with(project, secret) == set()


def test_an_open_run_is_cancelled_first_and_takes_no_late_callback(
    project: Project, secret: str
) -> None:
    project.tool("slow", Behaviour("later"))
    run = project.accepted(calls(call(1, "slow")), tools=["slow"])
    [hit] = project.hits("slow")
    assert project.client.request("DELETE", f"/v1/runs/{run['id']}").status_code == 204
    left = project.client.get_run(run["id"])
    assert (left["status"], left["erased_at"] is None) == ("cancelled", False)
    body = {"status": "completed", "output": secret}
    late = httpx2.post(hit.body["callback"]["url"], json=body)
    assert (late.status_code, late.json()["code"]) == (404, "callback_not_found")
    assert tables_with(project, secret) == set()


def test_nothing_is_written_by_a_worker_that_still_executes_the_run(
    project: Project, secret: str
) -> None:
    hold = Hold()
    run = project.start(
        Answer(text=f"Hi {secret}", pieces=2, hold=hold, hold_after=1), input=secret
    )
    hold.arrived()
    assert project.client.request("DELETE", f"/v1/runs/{run['id']}").status_code == 204
    assert tables_with(project, secret) == set()
    hold.release()
    assert project.run(model=project.script(text("Next."), name="next"))["output"] == "Next."
    assert tables_with(project, secret) == set()


def test_a_child_run_is_erased_with_its_parent_only(project: Project) -> None:
    agent(project, "clerk", text("Yes."))
    run = project.run(calls(asks("clerk")), text("Done."), tools=["ask_clerk"])
    [child] = children(project, run)
    project.client.refused(409, "conflict", "DELETE", f"/v1/runs/{child['id']}")
    assert project.client.get_run(child["id"])["output"] == "Yes."


def test_a_session_is_deleted_with_the_content_of_its_runs(project: Project, secret: str) -> None:
    """One run has ended, one waits for an approval, and one for the end of that run."""
    project.tool("pay", approval="always")
    session = project.client.call("POST", "/v1/sessions", {"state": {"note": secret}})["id"]
    model = project.script(text(f"Hi {secret}"), calls(call(1, "pay", f'{{"x":"{secret}"}}')))
    about: Json = {"model": model, "session_id": session, "tools": ["pay"], "input": secret}
    first, second = project.run(**about), project.run(**about)
    third = project.start(**about)
    outside = project.run(model=project.script(text("Hi."), name="other"))
    project.client.call("POST", f"/v1/sessions/{session}/fork", {"name": "fork"})
    path = f"/v1/sessions/{session}"
    project.client.refused(409, "session_busy", "DELETE", path)
    assert project.client.request("DELETE", f"{path}?erase_runs=true").status_code == 204
    project.client.refused(404, "session_not_found", "GET", path)
    found = [project.client.get_run(one["id"]) for one in (first, second, third)]
    assert [one["status"] for one in found] == ["completed", "cancelled", "cancelled"]
    assert all(one["erased_at"] for one in found)
    assert tables_with(project, secret) == {"sessions"}, "the fork has a copy of the state"
    assert project.client.get_run(outside["id"])["output"] == "Hi."
    project.client.refused(404, "session_not_found", "DELETE", f"{path}?erase_runs=true")


# -- OpenAI's clients -----------------------------------------------------------------------------


@pytest.fixture
def sdk(project: Project) -> Iterator[Any]:
    url = f"{project.client.url}/v1"
    with OpenAI(base_url=url, api_key=project.client.key) as client:
        yield client


def only_run(project: Project) -> Json:
    [run] = project.client.call("GET", "/v1/runs")["data"]
    return run


def wrong(project: Project, status: int, method: str, path: str, body: Any = None) -> Json:
    response = project.client.request(method, path, body)
    assert response.status_code == status, response.text
    return response.json()["error"]


@pytest.mark.parametrize("options", [{}, {"stream": True}])
def test_a_response_that_is_not_stored_is_erased(
    project: Project, secret: str, sdk: Any, options: Json
) -> None:
    model = project.script(text(f"Hi {secret}"))
    made: Any = sdk.responses.create(model=model, input=secret, store=False, **options)
    if options:
        made = list(made)[-1].response
    assert (made.output_text, made.store, made.status) == (f"Hi {secret}", False, "completed")
    assert tables_with(project, secret) == set()
    run = only_run(project)
    assert (run["status"], run["erased_at"] is None) == ("completed", False)
    assert run["usage"]["total_tokens"] > 0
    path = f"/v1/responses/{made.id}"
    for method, below in (
        ("GET", ""),
        ("GET", "/input_items"),
        ("POST", "/cancel"),
        ("DELETE", ""),
    ):
        assert wrong(project, 404, method, path + below)["code"] == "response_not_found"
    body = {"model": model, "input": "And?", "previous_response_id": made.id}
    refused = wrong(project, 400, "POST", "/v1/responses", body)
    assert refused["code"] == "previous_response_not_found"


def test_a_response_that_is_not_stored_continues_a_stored_one(
    project: Project, secret: str, sdk: Any
) -> None:
    model = project.script(text("Hi."), text("And you?"))
    stored = sdk.responses.create(model=model, input="Hello")
    later = {"previous_response_id": stored.id, "store": False}
    assert sdk.responses.create(model=model, input=secret, **later).output_text == "And you?"
    assert len(project.asked()[-1].messages) == 3
    assert tables_with(project, secret) == set()
    assert sdk.responses.retrieve(stored.id).output_text == "Hi."


def test_functions_of_a_response_that_is_not_stored(
    project: Project, secret: str, sdk: Any
) -> None:
    """The client sends the whole conversation again."""
    model = project.script(calls(call(1, "get_weather", '{"city":"Rome"}')), text("Sunny."))
    request: Any = {"model": model, "tools": [WEATHER], "store": False}
    first = sdk.responses.create(input=secret, **request)
    [asked] = first.output
    assert asked.type == "function_call"
    run = only_run(project)
    assert (run["status"], run["erased_at"] is None) == ("cancelled", False)
    answer: Any = [
        {"role": "user", "content": secret},
        {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "sun"},
    ]
    assert sdk.responses.create(input=answer, **request).output_text == "Sunny."
    assert tables_with(project, secret) == set()


def test_an_approval_holds_a_response_that_is_not_stored(
    project: Project, secret: str, sdk: Any
) -> None:
    project.tool("pay", approval="always")
    model = project.script(calls(call(1, "pay")), text(f"Paid {secret}"))
    pay: Any = {"type": "mcp", "server_label": "runward", "allowed_tools": ["pay"]}
    stream: Any = sdk.responses.create(
        model=model, input="pay", tools=[pay], store=False, stream=True
    )
    next(iter(stream))
    run = project.settle(only_run(project))
    [asked] = project.client.approvals(run_id=run["id"])
    project.client.decide(asked["id"], "approve")
    last = list(stream)[-1].response
    assert last.output_text == f"Paid {secret}"
    assert [one.type for one in last.output] == ["mcp_call", "message"]
    assert tables_with(project, secret) == set()


@pytest.mark.parametrize("param", ["previous_response_id", "input.0"])
def test_a_response_that_is_not_stored_takes_no_decision_at_responses(
    project: Project, secret: str, sdk: Any, param: str
) -> None:
    """With the ID of the response, and without it."""
    project.tool("pay", approval="always")
    model = project.script(calls(call(1, "pay")), text(f"Paid {secret}"))
    pay: Any = {"type": "mcp", "server_label": "runward", "allowed_tools": ["pay"]}
    stream: Any = sdk.responses.create(
        model=model, input="pay", tools=[pay], store=False, stream=True
    )
    begun = next(iter(stream)).response
    run = project.settle(only_run(project))
    [asked] = project.client.approvals(run_id=run["id"])
    decision: Json = {
        "type": "mcp_approval_response",
        "approval_request_id": asked["id"],
        "approve": True,
    }
    body: Json = {"model": model, "input": [decision]}
    if param == "previous_response_id":
        body[param] = begun.id
    assert wrong(project, 400, "POST", "/v1/responses", body)["param"] == param
    [still] = project.client.approvals(run_id=run["id"])
    assert still["status"] == "pending"
    project.client.decide(asked["id"], "approve")
    assert list(stream)[-1].response.output_text == f"Paid {secret}"
    assert tables_with(project, secret) == set()


@pytest.mark.parametrize("other", [{"background": True}, {"conversation": "conv_1"}])
def test_what_needs_a_stored_response_is_refused_without_one(project: Project, other: Json) -> None:
    body = {"model": "offline:rules", "input": "hi", "store": False, **other}
    refused = wrong(project, 400, "POST", "/v1/responses", body)
    assert [refused["param"]] == [*other]


def test_a_stored_run_is_not_continued_without_storing(project: Project, sdk: Any) -> None:
    model = project.script(calls(call(1, "get_weather")), text("Sunny."))
    first = sdk.responses.create(model=model, input="hi", tools=[WEATHER])  # type: ignore[list-item]
    output = {"type": "function_call_output", "call_id": "c1", "output": "sun"}
    body = {"model": model, "previous_response_id": first.id, "input": [output]}
    refused = wrong(project, 400, "POST", "/v1/responses", {**body, "store": False})
    assert refused["param"] == "store"
    assert project.client.request("POST", "/v1/responses", body).status_code == 200


@pytest.mark.parametrize("options", [{}, {"stream": True}])
def test_a_completion_that_is_not_stored_is_erased(
    project: Project, secret: str, sdk: Any, options: Json
) -> None:
    model = project.script(text(f"Hi {secret}"))
    asked: Any = {"model": model, "messages": [{"role": "user", "content": secret}]}
    made: Any = sdk.chat.completions.create(**asked, store=False, **options)
    if options:
        assert [*made]
    else:
        assert made.choices[0].message.content == f"Hi {secret}"
    assert tables_with(project, secret) == set()
    assert only_run(project)["erased_at"] is not None


def test_the_sweep_erases_what_a_lost_process_left(project: Project, secret: str) -> None:
    """With an idempotency key, no process erases the run: its client may repeat the request."""
    body = {"model": project.script(text(f"Hi {secret}")), "input": "hi", "store": False}
    headers = {"Idempotency-Key": project.suffix}
    send = lambda: project.client.request("POST", "/v1/responses", body, headers=headers)  # noqa: E731
    first = send()
    assert send().json()["output"] == first.json()["output"]
    run = only_run(project)
    assert run["erased_at"] is None
    query(
        project,
        "SET LOCAL runward.erasing = 'on'",
        "UPDATE runs SET ended_at = ended_at - interval '1 hour'"
        f" WHERE id = '{run['id'].removeprefix('run_')}'",
    )
    wait_until_erased(project, run)
    assert tables_with(project, secret) == set()
    again = send()
    assert (again.status_code, again.json()["error"]["code"]) == (404, "run_erased")


def wait_until_erased(project: Project, run: Json) -> None:
    for _ in range(100):
        if project.client.get_run(run["id"])["erased_at"] is not None:
            return
        query(project, "SELECT pg_sleep(0.1)")
    raise TimeoutError("the sweep has not erased the run")


def test_a_stored_response_can_be_deleted(project: Project, secret: str, sdk: Any) -> None:
    model = project.script(text(f"Hi {secret}"), text("And?"))
    made = sdk.responses.create(model=model, input=secret)
    later = sdk.responses.create(model=model, input="?", previous_response_id=made.id)
    deleted = project.client.request("DELETE", f"/v1/responses/{made.id}")
    assert deleted.json() == {"id": made.id, "object": "response", "deleted": True}
    refused = wrong(project, 404, "DELETE", f"/v1/responses/{made.id}")
    assert refused["code"] == "response_not_found"
    assert project.client.call("GET", f"/v1/responses/{later.id}")["status"] == "completed"
    sdk.responses.delete(later.id)
    assert tables_with(project, secret) == set()
