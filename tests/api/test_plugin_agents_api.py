"""`ctx.run_agent`: child runs that a plugin's function requests."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.contract import Contract
from tests.api.project import (
    PATIENCE_SECONDS,
    CheckedClient,
    Project,
    Running,
    call,
    of_type,
    result_of,
)
from tests.api.test_inline_tools_api import ONCE, pay
from tests.api.test_plugins_api import ENV
from tests.support.models.chat_server import ModelServer, Reply, calls, text
from tests.support.postgres import Databases
from tests.support.services.client import Json
from tests.support.services.service import BOOTSTRAP_KEY, Service
from tests.support.tools.server import Behaviour, ToolServer

LEASE = {"RUNWARD_LEASE_SECONDS": "2"}


@pytest.fixture(scope="module")
def running(migrated_databases: Databases) -> Iterator[Running]:
    """A service of its own, with plugins."""
    with (
        migrated_databases.migrated() as database_url,
        ModelServer() as model,
        ToolServer() as tools,
        Service("serve", database_url, openai_base_url=model.base_url, env=ENV | LEASE) as service,
        service.client() as plain,
    ):
        contract = Contract(plain.call("GET", "/openapi.json"))
        with CheckedClient(service.url, BOOTSTRAP_KEY, contract) as operator:
            yield Running(service, operator, contract, model, tools)


def agent(project: Project, name: str, *replies: Reply, **fields: Any) -> None:
    model = project.script(*replies, name=name)
    project.client.call("POST", "/v1/agents", {"name": name, "model": model, **fields})


def negotiating(project: Project, **fields: Any) -> Json:
    asked = calls(call(1, "negotiate", '{"price": 100}'))
    return project.run(asked, text("done"), tools=["negotiate"], **fields)


def children(project: Project, run: Json) -> list[Json]:
    return project.client.call("GET", "/v1/runs", parent_run_id=run["id"], order="asc")["data"]


def answered(project: Project) -> str:
    return dict(project.asked()[-1].results)["c1"]


def test_a_function_runs_two_agents_and_reads_their_outputs(project: Project) -> None:
    agent(project, "buyer", text("80"))
    agent(project, "judge", text('{"fair": true}'))
    run = negotiating(project)
    assert (run["status"], answered(project)) == ("completed", '["80",true]')
    buyer, judge = children(project, run)
    assert [one["agent"] for one in (buyer, judge)] == ["buyer", "judge"]
    assert judge["output_parsed"] == {"fair": True}
    used = [one["usage"]["total_tokens"] for one in (buyer, judge)]
    asked = 2 * used[0]  # the run's own two requests use as many tokens as one of a child run
    assert run["usage"]["total_tokens"] == sum(used) + asked
    [made] = project.client.tool_calls(run["id"])
    assert (made["attempt"], made["child_run_id"]) == (3, judge["id"])
    events = project.client.events(run["id"])
    started = [one for one in of_type(events, "tool_call.progress") if "run_id" in one]
    assert [one["run_id"] for one in started] == [buyer["id"], judge["id"]]
    counted = [one for one in of_type(events, "usage.updated") if one.get("call_id") == "c1"]
    assert len(counted) == 2


def test_an_approval_inside_the_child_run_is_the_run_s_required_action(project: Project) -> None:
    project.tool("buy", approval="always")
    agent(project, "buyer", calls(call("p", "buy")), text("80"), tools=["buy"])
    agent(project, "judge", text('{"fair": false}'))
    run = negotiating(project)
    assert run["status"] == "requires_action"
    [action] = run["required_actions"]
    assert action["call_id"] == "cp"
    project.client.decide(action["approval_id"], "approve")
    assert project.end(run)["status"] == "completed"
    assert answered(project) == '["80",false]'
    assert len(children(project, run)) == 2


def comparing(project: Project, *names: str) -> Json:
    """A run that waits for approvals in the child runs of all these agents at once."""
    project.tool("buy", approval="always")
    for name in names:
        agent(project, name, calls(call(name, "buy")), text(f"{name} did"), tools=["buy"])
    asked = calls(call(1, "compare", json.dumps({"names": names})))
    return project.run(asked, text("done"), tools=["compare"])


def test_agents_that_are_gathered_run_in_parallel(project: Project) -> None:
    run = comparing(project, "one", "two", "three")
    actions = {action["path"][0]: action for action in run["required_actions"]}
    for name, decision in [("three", "approve"), ("one", "reject")]:
        project.client.decide(actions[name]["approval_id"], decision)
    [child] = [one for one in children(project, run) if one["agent"] == "two"]
    project.client.cancel(child["id"])
    assert project.end(run)["status"] == "completed"
    one, two, three = json.loads(answered(project))
    assert (one, three) == ("one did", "three did")
    assert two == "The run of agent 'two' ended with status cancelled."
    assert len(children(project, run)) == 3
    [made] = project.client.tool_calls(run["id"])
    assert made["attempt"] == 2
    counted = of_type(project.client.events(run["id"]), "usage.updated")
    assert len([one for one in counted if one.get("call_id") == "c1"]) == 3


def test_cancelling_the_run_cancels_its_child_runs(project: Project) -> None:
    run = comparing(project, "one", "two")
    project.client.cancel(run["id"])
    assert project.end(run)["status"] == "cancelled"
    assert [one["status"] for one in children(project, run)] == ["cancelled"] * 2


def test_a_function_that_is_not_async_runs_agents(project: Project) -> None:
    agent(project, "buyer", text("80"))
    agent(project, "judge", text("fair"))
    asked = calls(call(1, "relay", '{"question": "how much"}'))
    run = project.run(asked, text("done"), tools=["relay"])
    assert (run["status"], answered(project)) == ("completed", "fair")
    [judged] = [one for one in children(project, run) if one["agent"] == "judge"]
    assert project.client.items(judged["id"])[0]["content"] == "80"


def test_a_child_run_that_fails_is_an_error_that_the_function_can_catch(project: Project) -> None:
    agent(project, "buyer", text("never"), limits={"max_turns": 1}, output_schema={"type": "null"})
    asked = calls(call(1, "ask_apart", '{"question": "why"}'))
    run = project.run(asked, text("done"), tools=["ask_apart"])
    assert run["status"] == "completed"
    assert answered(project).startswith("no: The run of agent 'buyer' ended with status")


def test_an_agent_that_does_not_exist_fails_the_call(project: Project) -> None:
    run = negotiating(project)
    assert run["status"] == "completed"
    [failed] = of_type(project.client.events(run["id"]), "tool_call.failed")
    assert failed["detail"] == "This project has no agent named 'buyer'."
    assert children(project, run) == []


def test_a_function_that_asks_something_else_each_time_fails(project: Project) -> None:
    agent(project, "buyer", text("80"))
    run = project.run(calls(call(1, "waver", "{}")), text("done"), tools=["waver"])
    assert run["status"] == "completed"
    [failed] = of_type(project.client.events(run["id"]), "tool_call.failed")
    assert "the tool is not deterministic: an earlier attempt ran an agent" in failed["detail"]
    assert len(children(project, run)) == 1


def test_a_crash_repeats_no_child_run_and_no_call_of_an_inline_tool(
    project: Project, running: Running, tmp_path: Path
) -> None:
    """An idempotent function runs again after the crash, and its usage counts once. The outcome of
    the inline tool's call is unknown, and a person records it."""
    file = tmp_path / "answered"
    agent(project, "buyer", text("80"), text("80"))
    asked = calls(call(1, "ask_and_hang", f'{{"file": "{file}"}}'))
    run = project.start(asked, text("done"), tools=["ask_and_hang"])
    tool = pay(project, Behaviour(hold=project.tool_key("pay")), on_unknown="ask")
    model = project.script(ONCE, text("done"), name="inline")
    paying = project.start(model=model, tools=[tool])
    until = time.monotonic() + PATIENCE_SECONDS
    while not file.exists():
        assert time.monotonic() < until
        time.sleep(0.05)
    project.tools.hold(project.tool_key("pay")).arrived()
    running.service.kill()
    project.tools.hold(project.tool_key("pay")).release()
    running.service.start_again()
    assert project.end(run)["status"] == "completed"
    assert answered(project) == '["80","80"]'
    assert len(children(project, run)) == 2
    assert len(project.asked("buyer")) == 2
    assert 1_000_000 < project.client.get_run(run["id"])["usage"]["total_tokens"] < 1_001_000
    [action] = project.settle(paying)["required_actions"]
    assert (action["type"], action["tool"]) == ("resolve", "pay")
    resolved: Json = {"resolution": "completed", "output": "It is paid."}
    path = f"/v1/runs/{paying['id']}/tool_calls/{action['call_id']}/resolve"
    project.client.call("POST", path, resolved)
    assert project.end(paying)["status"] == "completed"
    assert result_of(project.asked("inline"), "c1") == "It is paid."
    assert [hit.attempt for hit in project.hits("pay")] == [1]
