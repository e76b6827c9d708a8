"""Tools in Python, over HTTP: in every project, with a policy of the code's that a project may
change for itself; and tools that are agents."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.contract import Contract
from tests.api.project import PATIENCE_SECONDS, CheckedClient, Project, Running, call, of_type
from tests.support.models.chat_server import ModelServer, calls, text
from tests.support.postgres import Databases
from tests.support.services.client import Json
from tests.support.services.forks import shared_forks
from tests.support.services.service import BOOTSTRAP_KEY, Service
from tests.support.tools.server import ToolServer
from tests.unit import plugin_samples

ENV = {"RUNWARD_PLUGINS": plugin_samples.__name__, "RUNWARD_SECRET_TOKEN": "s3cret"}
TOOLS = [
    *("ask_and_hang", "ask_apart", "asleep", "compare", "count", "end_badly", "environment"),
    *("everything", "foul", "foul_apart", "leave_daemon", "meter", "meter_apart", "negotiate"),
    *("pay", "picture", "refuse", "relay", "spawn_and_hang", "waver"),
]
STAFF: Json = {"staff": True}


@pytest.fixture(scope="module")
def running(migrated_databases: Databases) -> Iterator[Running]:
    """A service of its own, with plugins."""
    with (
        migrated_databases.migrated() as database_url,
        ModelServer() as model,
        ToolServer() as tools,
        Service("serve", database_url, openai_base_url=model.base_url, env=ENV) as service,
        service.client() as plain,
    ):
        contract = Contract(plain.call("GET", "/openapi.json"))
        with CheckedClient(service.url, BOOTSTRAP_KEY, contract) as operator:
            yield Running(service, operator, contract, model, tools)


def tool(project: Project, name: str = "pay") -> Json:
    return project.client.call("GET", f"/v1/tools/{name}")


def change(project: Project, **fields: Any) -> Json:
    return project.client.call("PATCH", "/v1/tools/pay", fields)


def refused(project: Project, method: str, path: str, body: Any) -> dict[str, str]:
    """What is wrong, by path."""
    problem = project.client.refused(422, "invalid_request", method, path, body)
    return {error["path"]: error["message"] for error in problem["errors"]}


# -- the registry ---------------------------------------------------------------------------------


def test_every_project_has_the_tools_of_plugins(project: Project, running: Running) -> None:
    for client in (project.client, running.operator):
        page = client.call("GET", "/v1/tools", order="asc")
        assert [one["name"] for one in page["data"]] == TOOLS
        assert {one["type"] for one in page["data"]} == {"plugin"}
    pay = tool(project)
    assert pay["parameters"]["properties"] == {"amount": {"type": "integer"}}
    assert pay["approval"] == {"callable": f"{plugin_samples.__name__}:is_large"}
    assert pay["enabled"] == {"callable": f"{plugin_samples.__name__}:for_staff"}
    assert (pay["version"], pay["url"], pay["strict"]) == (1, None, True)


def test_capabilities_name_what_plugins_bring(project: Project) -> None:
    shown = project.client.call("GET", "/v1/capabilities")["plugins"]
    assert shown == {"tools": TOOLS, "guardrails": ["no_secrets"], "hooks": ["watch"]}


def test_a_project_overrides_settings_and_takes_them_back(project: Project, other: Project) -> None:
    code = tool(project)
    policy: Json = {
        "approval": "always",
        "approval_expires_seconds": 60,
        "reject_message": "No.",
        "enabled": {"when": "context.staff == true"},
        "timeout_seconds": 3,
        "on_timeout": "fail_run",
        "on_error": {"message": "Sorry."},
        "on_unknown": "ask",
        "guardrails": [
            {"stage": "input", "type": "plugin", "name": "no_secrets", "timeout_seconds": 5}
        ],
        "concurrency": {"limit": 1, "group": None, "serial": False},
        "max_output_bytes": 1000,
        "metadata": {"team": "a"},
    }
    changed = change(project, **policy)
    assert changed.items() >= {**policy, "version": 2, "id": code["id"]}.items()
    assert (changed["parameters"], tool(other)["version"]) == (code["parameters"], 1)
    again = change(project, reject_message=None, approval=None)
    assert (again["reject_message"], again["approval"]) == (None, code["approval"])
    assert (again["timeout_seconds"], again["version"]) == (3, 3)
    back = change(project, **dict.fromkeys(policy))
    about = {"version", "updated_at"}
    assert {key: back[key] for key in back.keys() - about} == {
        key: code[key] for key in code.keys() - about
    }


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"parameters": {"type": "object"}}, "parameters"),
        ({"description": "Mine."}, "description"),
        ({"url": "http://127.0.0.1:9/"}, "url"),
        ({"idempotent": True}, "idempotent"),
        ({"headers": {"a": "b"}}, "headers"),
        ({"agent": "a"}, "agent"),
        ({"approval": {"when": "args.x >"}}, "approval.when"),
        ({"approval": {"callable": "os:getcwd"}}, "approval.callable"),
        ({"on_error": {"callable": "os:getcwd"}}, "on_error.callable"),
        (
            {"guardrails": [{"stage": "input", "type": "plugin", "name": "nowhere"}]},
            "guardrails.0.name",
        ),
        (
            {"guardrails": [{"stage": "run_input", "type": "plugin", "name": "no_secrets"}]},
            "guardrails.0.stage",
        ),
        (
            {"guardrails": [{"stage": "input", "type": "webhook", "url": "http://10.0.0.1/"}]},
            "guardrails.0.url",
        ),
    ],
    ids=lambda value: "" if isinstance(value, str) else str(value)[:40],
)
def test_what_is_the_codes_or_wrong_is_refused_by_name(
    project: Project, fields: Json, path: str
) -> None:
    assert path in refused(project, "PATCH", "/v1/tools/pay", fields)
    assert tool(project)["version"] == 1


def test_a_plugins_tool_can_be_disabled_and_not_deleted(project: Project) -> None:
    problem = project.client.refused(409, "conflict", "DELETE", "/v1/tools/pay")
    assert "disable the tool" in problem["detail"]
    assert change(project, enabled=False)["enabled"] is False


def test_a_plugin_cannot_be_registered_over_http(project: Project) -> None:
    body: Json = {"name": "mine", "type": "plugin", "parameters": {"type": "object"}}
    assert refused(project, "POST", "/v1/tools", body)["type"].endswith(
        "Runward registers plugin tools from installed code"
    )
    taken = {**body, "name": "pay", "type": "webhook", "url": "http://127.0.0.1:9/"}
    project.client.refused(409, "already_exists", "POST", "/v1/tools", taken)


def test_a_null_is_still_refused_for_other_tools(project: Project) -> None:
    project.tool("look")
    found = refused(project, "PATCH", "/v1/tools/look", {"approval": None, "timeout_seconds": None})
    assert found == {"approval": "must not be null"}


def test_a_plugins_tool_can_be_tried(project: Project) -> None:
    path = "/v1/tools/asleep/test"
    tried = project.client.call("POST", path, {"arguments": {"x": 3}})
    assert (tried["outcome"], tried["output"]) == ("completed", 3)
    project.client.refused(422, "invalid_request", "POST", path, {"arguments": {"x": "a"}})


# -- runs -----------------------------------------------------------------------------------------


def run_of_pay(project: Project, amount: int, **fields: Any) -> Json:
    arguments = f'{{"amount": {amount}}}'
    replies = (calls(call(1, "pay", arguments)), text("done"))
    return project.run(*replies, tools=["pay"], **fields)


def test_a_run_calls_a_plugins_function(project: Project) -> None:
    run = run_of_pay(project, 5, context=STAFF)
    assert (run["status"], run["output"]) == ("completed", "done")
    assert dict(project.asked()[-1].results) == {"c1": "5"}


def test_a_function_decides_whether_a_person_is_asked(project: Project) -> None:
    run = run_of_pay(project, 500, context=STAFF)
    assert run["status"] == "requires_action"
    [action] = run["required_actions"]
    project.client.call(
        "POST",
        f"/v1/approvals/{action['approval_id']}/decision",
        {"decision": "approve", "digest": action["digest"]},
    )
    assert project.settle(run)["status"] == "completed"


def test_a_project_s_own_rule_wins_over_the_function(project: Project) -> None:
    change(project, approval="never", enabled=True)
    assert run_of_pay(project, 500)["status"] == "completed"


def test_a_function_decides_whether_a_tool_is_shown(project: Project) -> None:
    run = run_of_pay(project, 5, context={"staff": False})
    assert run["status"] == "completed"
    first, *_ = project.asked()
    assert "tools" not in first.body
    failed = of_type(project.client.events(run["id"]), "tool_call.failed")
    assert [one["reason"] for one in failed] == ["unknown_tool"]


def test_an_error_of_a_function_is_the_operators_to_read(project: Project) -> None:
    run = project.run(
        calls(call(1, "end_badly", '{"how": "secret words"}')), text("done"), tools=["end_badly"]
    )
    [failed] = of_type(project.client.events(run["id"]), "tool_call.failed")
    assert failed["detail"] == "ValueError: secret words"
    assert "secret words" not in dict(project.asked()[-1].results)["c1"]


def test_a_function_explains_an_error_to_the_model_or_fails_the_run(project: Project) -> None:
    on_error = tool(project, "refuse")["on_error"]
    assert on_error == {"callable": f"{plugin_samples.__name__}:explain"}
    run = project.run(
        calls(call(1, "refuse", '{"reason": "sold out"}')),
        calls(call(2, "refuse", '{"reason": "forbidden"}')),
        tools=["refuse"],
    )
    assert dict(project.asked()[-1].results) == {"c1": "Try another order: sold out."}
    first, last = of_type(project.client.events(run["id"]), "tool_call.failed")
    assert (first["output"], first["detail"]) == (
        "Try another order: sold out.",
        "LookupError: sold out",
    )
    assert last["detail"] == "PermissionError: forbidden"
    assert (run["status"], run["error"]) == (
        "failed",
        {"code": "tool_error", "message": "Tool 'refuse': PermissionError: forbidden"},
    )


def test_what_a_function_writes_to_the_state_is_there_for_the_next_call(project: Project) -> None:
    run = project.run(
        calls(call(1, "count", '{"word": "a"}')),
        calls(call(2, "count", '{"word": "b"}')),
        text("done"),
        tools=["count"],
    )
    assert run["status"] == "completed"
    assert dict(project.asked()[-1].results) == {"c1": "1", "c2": "2"}


def test_a_plugins_guardrail_stands_before_its_tool(project: Project) -> None:
    word = '{"word": "a secret"}'
    run = project.run(calls(call(1, "count", word)), text("done"), tools=["count"])
    [rejected] = of_type(project.client.events(run["id"]), "tool_call.rejected")
    assert rejected["reason"] == "guardrail"
    assert dict(project.asked()[-1].results) == {"c1": "No."}


# -- loading --------------------------------------------------------------------------------------


def test_a_plugin_that_cannot_be_loaded_stops_the_service_with_a_sentence(
    running: Running, tmp_path: Path
) -> None:
    env = {
        "DATABASE_URL": running.service.database_url,
        "RUNWARD_SECRET_KEY": running.service.secret_key,
        "RUNWARD_PLUGINS": "nowhere.at_all",
    }
    output = tmp_path / "output"
    with output.open("wb") as file:
        service = shared_forks().start("runward", "api", env=env, output=file.fileno())
    assert service.wait(PATIENCE_SECONDS) != 0
    printed = output.read_text("utf-8")
    assert "Plugin nowhere.at_all (RUNWARD_PLUGINS): nowhere.at_all cannot be imp" in printed
    assert "Traceback" not in printed


# -- tools that are agents ------------------------------------------------------------------------


def test_a_tool_of_type_agent_needs_only_the_agents_name(project: Project) -> None:
    body: Json = {"name": "ask_billing", "type": "agent", "agent": "billing"}
    made = project.client.call("POST", "/v1/tools", body)
    assert made["parameters"] == {
        "type": "object",
        "properties": {"input": {"type": "string"}},
        "required": ["input"],
        "additionalProperties": False,
    }
    assert (made["agent"], made["output"], made["url"]) == ("billing", "final", None)
    changed = project.client.call(
        "PATCH", "/v1/tools/ask_billing", {"output": {"tool": "look"}, "agent": "other"}
    )
    assert (changed["output"], changed["agent"]) == ({"tool": "look"}, "other")
    path = "/v1/tools/ask_billing/test"
    assert "path.name" in refused(project, "POST", path, {"arguments": {"input": "x"}})


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"agent": None}, "agent"),
        ({"url": "http://127.0.0.1:9/"}, "url"),
        ({"headers": {"a": "b"}}, "headers"),
        ({"parameters": {}}, "parameters.type"),
        ({"agent": "not a name"}, "agent"),
        ({"type": "webhook", "parameters": {"type": "object"}}, "agent"),
        ({"type": "webhook", "agent": None}, "parameters"),
        ({"type": "builtin"}, "type"),
        ({"approval": {"callable": "os:getcwd"}}, "approval.callable"),
        ({"on_error": {"callable": "os:getcwd"}}, "on_error.callable"),
    ],
    ids=lambda value: "" if isinstance(value, str) else str(value)[:40],
)
def test_what_no_agent_tool_can_be_is_refused(project: Project, fields: Json, path: str) -> None:
    body: Json = {"name": "ask", "type": "agent", "agent": "billing", **fields}
    assert path in refused(project, "POST", "/v1/tools", body)


# -- what cannot be stored ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["foul", "foul_apart"])
def test_what_a_plugin_says_is_made_storable_and_it_is_called_once(
    project: Project, name: str
) -> None:
    run = project.run(
        calls(call(1, name, "{}"), call(2, "asleep", '{"x":7}')),
        text("done"),
        tools=[name, "asleep"],
    )
    assert (run["status"], run["output"]) == ("completed", "done")
    first, sibling = project.client.tool_calls(run["id"])
    assert (first["attempt"], first["outcome"], sibling["output"]) == (1, "completed", 7)
    assert (first["output"], first["metadata"]) == ("a\ufffdb\ufffd", {"foul": "a\ufffdb\ufffd"})
    events = project.client.events(run["id"])
    messages = [event.get("message") for event in of_type(events, "tool_call.progress")]
    assert messages == ["a\ufffdb\ufffd"]
    [said] = [event["changes"] for event in of_type(events, "state.updated")]
    assert said == {"foul": "a\ufffdb\ufffd"}


# -- usage ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["meter", "meter_apart"])
def test_the_usage_of_a_function_is_part_of_the_run_s(project: Project, name: str) -> None:
    free = project.run(model=project.script(text("hi"), name="free"))["usage"]
    asked = calls(
        call(1, name, '{"tokens": 1000000}'), call(2, name, '{"tokens": 3, "fail": true}')
    )
    run = project.run(asked, text("done"), tools=[name])
    used = run["usage"]
    added = {
        "input_tokens": 1_000_005,
        "output_tokens": 1_000_003,
        "cached_tokens": 2,
        "reasoning_tokens": 4,
    }
    assert {key: used[key] - 2 * free[key] for key in added} == added
    assert used["cost_usd"] > 0.5 + 10  # at least $2.50 and $10 per million tokens of gpt-4o
    events = project.client.events(run["id"])
    reported = [one for one in of_type(events, "usage.updated") if "model" in one]
    assert sorted((one["call_id"], one["model"]) for one in reported) == [
        ("c1", "house:one"),
        ("c1", "openai:gpt-4o"),
        ("c2", "house:one"),
        ("c2", "openai:gpt-4o"),
    ]


def test_the_usage_of_a_function_counts_toward_the_run_s_limits(project: Project) -> None:
    asked = calls(call(1, "meter", '{"tokens": 1000000}'))
    run = project.run(asked, text("never"), tools=["meter"], limits={"max_tokens": 1_000_000})
    assert (run["status"], run["incomplete_details"]["reason"]) == ("incomplete", "max_tokens")
    assert len(project.asked()) == 1
