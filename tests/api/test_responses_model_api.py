"""Runs of models behind the Responses API: conversations, reasoning, tools of OpenAI's own kinds,
and what falls to another protocol. The scripted server refuses what OpenAI would."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.project import Project, Running, of_type, types_of
from tests.support.models import chat_server
from tests.support.models import responses_shapes as shapes
from tests.support.models.responses_items import (
    Call,
    Computer,
    Item,
    Patch,
    Reasoning,
    Refusal,
    Shell,
    Text,
    hosted_shell,
)
from tests.support.models.responses_rules import OUTPUT_OF
from tests.support.models.responses_server import (
    HttpError,
    Reply,
    ResponsesRequest,
    ResponsesServer,
    answer,
    text,
)
from tests.support.services.client import Json
from tests.support.services.service import ROOT
from tests.support.tools.server import Behaviour

PNG = {"type": "image", "data": "aWNvbg==", "media_type": "image/png"}
PICTURE = "data:image/png;base64,aWNvbg=="
ASKED = Item(
    {
        "type": "mcp_approval_request",
        "server_label": "crm",
        "name": "find",
        "arguments": '{"who": "Ada"}',
    }
)


class Model:
    """This project's model behind the Responses API."""

    def __init__(self, project: Project, server: ResponsesServer) -> None:
        self._project = project
        self._server = server

    def script(self, *replies: Reply) -> str:
        self._server.script(self._project.model_name(), *replies)
        return f"openai-responses:{self._project.model_name()}"

    def run(self, *replies: Reply, **fields: Any) -> Json:
        return self._project.run(model=self.script(*replies), **fields)

    @property
    def asked(self) -> list[ResponsesRequest]:
        return self._server.requests(self._project.model_name())

    @property
    def inputs(self) -> list[Json]:
        """Of the last request."""
        found: list[Json] = self.asked[-1].body["input"]
        return found


@pytest.fixture
def model(project: Project) -> Iterator[Model]:
    assert project.running.providers is not None
    server = project.running.providers.responses
    before = len(server.violations)
    model = Model(project, server)
    yield model
    assert server.violations[before:] == []
    for request in model.asked:
        asked = [one["call_id"] for one in request.items if one.get("type") in OUTPUT_OF]
        assert [call_id for call_id, _ in request.results] == asked


def host(project: Project, kind: str, name: str | None = None, **fields: Any) -> str:
    hosted = {"kind": kind, **fields.pop("hosted", {})}
    body = {"name": name or kind, "type": "hosted", "hosted": hosted, **fields}
    made: str = project.client.call("POST", "/v1/tools", body)["name"]
    return made


def execute(project: Project, kind: str, *behaviours: Behaviour, **fields: Any) -> str:
    """A webhook that executes a kind, as `run_KIND`."""
    name = f"run_{kind}"
    url = project.tools.tool(project.tool_key(name), *behaviours)
    body = {"name": name, "url": url, "implements": kind, **fields}
    made = project.client.call("POST", "/v1/tools", body)
    project.tools.secrets(project.tool_key(name), made["secret"])
    return name


def approve(project: Project, run: Json, decision: str = "approve", **fields: Any) -> Json:
    [approval] = project.client.approvals(run_id=run["id"])
    project.client.decide(approval["id"], decision, **fields)
    return project.settle(run)


def kinds(items: list[Json]) -> list[str]:
    return [item.get("type", "message") for item in items]


def test_text_comes_back_and_nothing_is_stored_at_openai(model: Model) -> None:
    run = model.run(text("Hello."), instructions="Be kind.", input="Hi")
    assert (run["status"], run["output"]) == ("completed", "Hello.")
    assert run["usage"]["input_tokens"] == 50
    assert run["usage"]["cached_tokens"] == 10
    assert run["usage"]["reasoning_tokens"] == 5
    [request] = model.asked
    assert request.body["store"] is False
    assert "previous_response_id" not in request.body


def test_calls_run_together_and_their_results_go_back_in_order(
    project: Project, model: Model
) -> None:
    project.tool("add", Behaviour("return", value={"sum": 3}))
    three = [Call(f"c{n}", "add", json.dumps({"x": str(n)})) for n in (1, 2, 3)]
    run = model.run(answer(*three), text("done"), tools=["add"])
    assert run["output"] == "done"
    assert model.asked[1].results == [(f"c{n}", '{"sum":3}') for n in (1, 2, 3)]
    assert [call["call_id"] for call in project.client.tool_calls(run["id"])] == ["c1", "c2", "c3"]


def test_reasoning_goes_back_sealed_in_the_run_and_in_the_next_one(
    project: Project, model: Model
) -> None:
    project.tool("add")
    session = project.client.call("POST", "/v1/sessions", {})["id"]
    first = answer(
        Reasoning(("Hm.",)), Call("c1", "add", '{"x":"1"}'), Call("c2", "add", '{"x":"2"}')
    )
    replies = (first, answer(Reasoning(), Text("done", phase="final_answer")), text("again"))
    name = model.script(*replies)
    project.run(model=name, tools=["add"], session_id=session)
    run = project.run(model=name, tools=["add"], session_id=session)
    assert run["output"] == "again"
    last = model.inputs
    assert kinds(last) == [
        "message", "reasoning", "function_call", "function_call", "function_call_output",
        "function_call_output", "reasoning", "message", "message",
    ]  # fmt: skip
    assert last[1]["encrypted_content"].startswith("sealed-")
    assert last[7]["phase"] == "final_answer"


def test_a_client_can_ask_for_the_sealed_reasoning(project: Project, model: Model) -> None:
    name = model.script(answer(Reasoning(("Hm.",)), Text("done")), answer(Text("again")))
    include = ["reasoning.encrypted_content", "message.output_text.logprobs"]
    reasoning = {"effort": "low", "summary": "auto"}
    body = {"model": name, "input": "x", "include": include, "reasoning": reasoning}
    made = shapes.response(project.client.call("POST", "/v1/responses", body))
    [thought] = [item for item in made["output"] if item["type"] == "reasoning"]
    assert thought["encrypted_content"]
    assert made["reasoning"] == model.asked[0].body["reasoning"] == reasoning
    again = project.client.call("GET", f"/v1/responses/{made['id']}")
    [thought_again] = [item for item in again["output"] if item["type"] == "reasoning"]
    assert thought_again.keys() == thought.keys()
    body = {"model": name, "input": [*made["output"], {"role": "user", "content": "And?"}]}
    assert project.client.call("POST", "/v1/responses", body)["status"] == "completed"
    [sent] = [item for item in model.inputs if item.get("type") == "reasoning"]
    assert sent["encrypted_content"].startswith("sealed-")


def test_a_refusal_is_told_as_one(project: Project, model: Model) -> None:
    run = model.run(answer(Refusal("I will not.")))
    (said,) = of_type(project.client.events(run["id"]), "message.completed")
    assert (said["text"], said["refusal"]) == ("I will not.", True)


def test_an_answer_that_breaks_off_is_asked_for_again(project: Project, model: Model) -> None:
    broken = answer(Text("Hello, world."), cut_after=5)
    failing = answer(Text("Hel"), failed=("server_error", "Oops."))
    run = model.run(broken, failing, text("Hello."))
    assert run["output"] == "Hello."
    codes = [one["code"] for one in of_type(project.client.events(run["id"]), "model.retried")]
    assert codes == ["model_stream_broken", "model_failed"]


def test_what_openai_will_not_do_ends_the_run(model: Model) -> None:
    run = model.run(answer(error=("invalid_prompt", "Not this.")))
    assert (run["status"], run["error"]["code"]) == ("failed", "model_failed")
    assert "Not this." in run["error"]["message"]


def test_a_call_that_was_cut_off_is_not_run(project: Project, model: Model) -> None:
    project.tool("add")
    cut = answer(Call("c1", "add", '{"x":"1"}'), incomplete="max_output_tokens")
    run = model.run(cut, text("done"), tools=["add"])
    (call,) = project.client.tool_calls(run["id"])
    assert call["reason"] == "truncated_response"
    assert project.hits("add") == []


def test_a_model_that_does_not_reason_is_asked_without_sealing(model: Model) -> None:
    refused = HttpError(400, "Encrypted content is not supported with this model.")
    run = model.run(refused, text("Hello."), text("unused"))
    assert run["output"] == "Hello."
    assert ["include" in request.body for request in model.asked] == [True, False]


HOSTED: dict[str, tuple[Json, Json, Any]] = {
    "web_search": (
        {
            "type": "web_search_call",
            "status": "completed",
            "action": {
                "type": "search",
                "query": "otters",
                "sources": [{"type": "url", "url": "https://otters.example"}],
            },
        },
        {"type": "search", "query": "otters"},
        {"sources": [{"type": "url", "url": "https://otters.example"}]},
    ),
    "file_search": (
        {
            "type": "file_search_call",
            "status": "completed",
            "queries": ["otters"],
            "results": [{"file_id": "f", "filename": "o.md", "score": 0.5, "text": "Otters."}],
        },
        {"queries": ["otters"]},
        {"results": [{"file_id": "f", "filename": "o.md", "score": 0.5, "text": "Otters."}]},
    ),
    "code_interpreter": (
        {
            "type": "code_interpreter_call",
            "status": "completed",
            "code": "1 + 1",
            "container_id": "cntr_1",
            "outputs": [{"type": "logs", "logs": "2"}],
        },
        {"code": "1 + 1"},
        {"outputs": [{"type": "logs", "logs": "2"}]},
    ),
    "image_generation": (
        {
            "type": "image_generation_call",
            "status": "completed",
            "result": "aWNvbg==",
            "revised_prompt": "An otter.",
            "output_format": "png",
        },
        {"prompt": "An otter."},
        {"output_format": "png"},
    ),
    "mcp": (
        {
            "type": "mcp_call",
            "server_label": "crm",
            "name": "find",
            "arguments": '{"who": "Ada"}',
            "output": "Ada is here.",
            "error": None,
            "status": "completed",
        },
        {"server_label": "crm", "name": "find", "arguments": {"who": "Ada"}},
        "Ada is here.",
    ),
}


@pytest.mark.parametrize("kind", HOSTED)
def test_what_openai_runs_is_told_kept_and_given_back(
    project: Project, model: Model, kind: str
) -> None:
    project.tool("add")
    item, arguments, output = HOSTED[kind]
    settings = {"server_label": "crm", "server_url": "https://crm.example/mcp"}
    hosted = {"settings": settings} if kind == "mcp" else {}
    host(project, kind, "theirs", hosted=hosted, approval="never")
    run = model.run(
        answer(Reasoning(), Item(item), Call("c1", "add", '{"x":"1"}')),
        text("done"),
        tools=["theirs", "add"],
    )
    assert run["output"] == "done"
    events = project.client.events(run["id"])
    created = of_type(events, "tool_call.created")[0]
    (ended,) = [one for one in of_type(events, "tool_call.completed") if "hosted" in one]
    assert (created["tool"], created["hosted"], created["arguments"]) == ("theirs", kind, arguments)
    assert (ended["call_id"], ended["output"]) == (created["call_id"], output)
    assert [one["tool"] for one in project.client.tool_calls(run["id"])] == ["add"]
    (shown,) = [i for i in project.client.items(run["id"]) if i.get("type") == "hosted_call"]
    assert (shown["name"], shown["kind"], shown["provider"]) == ("theirs", kind, "openai-responses")
    assert model.inputs[2] == shown["data"]
    assert model.inputs[2].items() >= item.items()


def test_commands_in_a_container_are_one_hosted_call_beside_a_shell_that_runs_here(
    project: Project, model: Model
) -> None:
    secret = "sk-0123456789"
    project.client.call("PUT", "/v1/secrets/SHOP_KEY", {"value": secret})
    network = {
        "type": "allowlist",
        "allowed_domains": ["shop.example"],
        "domain_secrets": [{"domain": "shop.example", "name": "KEY"}],
    }
    environment = {"type": "container_auto", "network_policy": network}
    hosted = {
        "settings": {"environment": environment},
        "secrets": {"environment.network_policy.domain_secrets.0.value": "SHOP_KEY"},
    }
    host(project, "shell", "sandbox", hosted=hosted)
    here = execute(project, "shell", Behaviour("return", value="here"), approval="never")
    asked, printed = hosted_shell("wc -l", "2 rows")
    function = Call("c1", here, '{"commands":["ls"]}')
    run = model.run(
        answer(Reasoning(), asked, printed, function), text("done"), tools=["sandbox", here]
    )
    assert run["output"] == "done"
    first, second = model.asked[0].body["tools"]
    (secret_of_domain,) = first["environment"]["network_policy"]["domain_secrets"]
    assert secret_of_domain == {"domain": "shop.example", "name": "KEY", "value": secret}
    assert (second["type"], second["name"]) == ("function", here)
    events = project.client.events(run["id"])
    (created,) = [one for one in of_type(events, "tool_call.created") if "hosted" in one]
    assert (created["tool"], created["arguments"]) == ("sandbox", {"commands": ["wc -l"]})
    (ended,) = [one for one in of_type(events, "tool_call.completed") if "hosted" in one]
    assert ended["output"] == {"output": printed.body["output"]}
    assert [one["tool"] for one in project.client.tool_calls(run["id"])] == [here]
    kinds = ["reasoning", "shell_call", "shell_call_output", "function_call"]
    assert [one["type"] for one in model.inputs[1:5]] == kinds
    assert model.inputs[2].items() >= asked.body.items()
    assert model.inputs[3].items() >= printed.body.items()


def test_what_failed_at_openai_is_told_as_failed(project: Project, model: Model) -> None:
    host(project, "web_search")
    failed = Item({"type": "web_search_call", "status": "failed", "action": {"type": "search"}})
    listed = Item(
        {"type": "mcp_list_tools", "server_label": "crm", "tools": [], "error": "Unreachable."}
    )
    run = model.run(answer(failed, listed, Text("Sorry.")), tools=["web_search"])
    ended = of_type(project.client.events(run["id"]), "tool_call.failed")
    assert [(one["tool"], one["hosted"]) for one in ended] == [
        ("web_search", "web_search"),
        ("mcp", "mcp"),
    ]


def test_a_kind_of_item_that_is_not_known_is_kept(project: Project, model: Model) -> None:
    project.tool("add")
    strange = Item({"type": "compaction", "encrypted_content": "xyz"})
    run = model.run(answer(strange, Call("c1", "add", '{"x":"1"}')), text("ok"), tools=["add"])
    assert run["output"] == "ok"
    assert model.inputs[1]["encrypted_content"] == "xyz"


def crm(project: Project, **fields: Any) -> str:
    settings = {"server_label": "crm", "server_url": "https://crm.example/mcp"}
    return host(project, "mcp", "crm", hosted={"settings": settings}, **fields)


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_a_person_decides_what_openai_may_call(
    project: Project, model: Model, decision: str
) -> None:
    crm(project)
    run = model.run(answer(Reasoning(), ASKED), answer(Text("done")), tools=["crm"])
    assert run["status"] == "requires_action"
    [action] = run["required_actions"]
    assert action["tool"] == "crm"
    assert action["arguments"] == {
        "server_label": "crm",
        "name": "find",
        "arguments": {"who": "Ada"},
    }
    assert action["allowed_decisions"] == ["approve", "reject"]
    path = f"/v1/approvals/{action['approval_id']}/decision"
    refused: list[Json] = [
        {"decision": "edit", "arguments": {}},
        {"decision": "respond", "output": 1},
    ]
    for body in refused:
        assert project.client.request("POST", path, body).status_code in (409, 422)
    more = {"message": "Too risky."} if decision == "reject" else {}
    run = approve(project, run, decision, **more)
    assert run["output"] == "done"
    (tool,) = model.asked[0].body["tools"]
    assert tool["require_approval"] == "always"
    _, reasoning, asked, told = model.inputs
    assert (reasoning["type"], asked["type"]) == ("reasoning", "mcp_approval_request")
    reason = {"reason": "Too risky."} if decision == "reject" else {}
    assert told == {
        "type": "mcp_approval_response",
        "approval_request_id": asked["id"],
        "approve": decision == "approve",
        **reason,
    }


def test_a_rule_decides_what_openai_may_call(project: Project, model: Model) -> None:
    crm(project, approval={"when": "args.name != 'find'"})
    run = model.run(answer(ASKED), text("done"), tools=["crm"])
    assert (run["status"], run["output"]) == ("completed", "done")
    assert model.inputs[2]["approve"] is True


def test_where_nobody_is_asked_openai_does_not_ask_either(project: Project, model: Model) -> None:
    crm(project, approval="never")
    model.run(text("done"), tools=["crm"])
    (tool,) = model.asked[0].body["tools"]
    assert tool["require_approval"] == "never"


def test_a_hosted_tool_is_no_function(project: Project, model: Model) -> None:
    crm(project)
    run = model.run(answer(Call("c1", "crm", "{}")), text("done"), tools=["crm"])
    (call,) = project.client.tool_calls(run["id"])
    assert call["reason"] == "unknown_tool"


CHUNK = {"stdout": "a\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}


def test_a_shell_of_openais_kind_is_carried_out_by_a_webhook(
    project: Project, model: Model
) -> None:
    shell = execute(project, "shell", Behaviour("return", value={"output": [CHUNK]}))
    asked = answer(Reasoning(), Shell("c1", ("ls", "pwd"), timeout_ms=500))
    run = model.run(asked, text("done"), tools=[shell])
    [action] = run["required_actions"]
    assert (action["tool"], action["arguments"]) == (
        "run_shell",
        {"commands": ["ls", "pwd"], "timeout_ms": 500},
    )
    run = approve(project, run)
    assert run["output"] == "done"
    assert [hit.arguments for hit in project.hits(shell)] == [action["arguments"]]
    assert model.asked[0].body["tools"] == [{"type": "shell", "environment": {"type": "local"}}]
    assert kinds(model.inputs) == ["message", "reasoning", "shell_call", "shell_call_output"]
    assert model.inputs[3]["output"] == [CHUNK]


def test_a_rejected_command_did_not_run_and_the_model_is_told(
    project: Project, model: Model
) -> None:
    shell = execute(project, "shell")
    run = model.run(answer(Shell("c1", ("rm -r /",))), text("sorry"), tools=[shell])
    run = approve(project, run, "reject", message="Never.")
    assert run["output"] == "sorry"
    assert project.hits(shell) == []
    outcome = {"type": "exit", "exit_code": 1}
    assert model.inputs[2]["output"] == [{"stdout": "", "stderr": "Never.", "outcome": outcome}]


def test_a_changed_command_runs_as_it_was_changed(project: Project, model: Model) -> None:
    shell = execute(project, "shell", Behaviour("return", value={"output": [CHUNK]}))
    run = model.run(answer(Shell("c1", ("rm -r /",))), text("ok"), tools=[shell])
    run = approve(project, run, "edit", arguments={"commands": ["ls"]})
    assert run["output"] == "ok"
    assert [hit.arguments for hit in project.hits(shell)] == [{"commands": ["ls"]}]
    [chunk] = model.inputs[2]["output"]
    note, said = chunk["stdout"].split("\n", 1)
    assert "edited this call" in note
    assert '"ls"' in note
    assert said == "a\n"


def test_a_patch_of_openais_kind_is_carried_out_by_a_webhook(
    project: Project, model: Model
) -> None:
    done = Behaviour("return", value={"status": "completed", "output": "Deleted a."})
    patch = execute(project, "apply_patch", done, approval="never")
    operation = {"type": "delete_file", "path": "a"}
    run = model.run(answer(Patch("c1", operation)), text("done"), tools=[patch])
    assert run["output"] == "done"
    assert [hit.arguments for hit in project.hits(patch)] == [{"operation": operation}]
    assert model.inputs[2] == {
        "type": "apply_patch_call_output",
        "call_id": "c1",
        "status": "completed",
        "output": "Deleted a.",
    }


def test_a_computer_answers_with_a_picture(project: Project, model: Model) -> None:
    seen = Behaviour("return", value={"content": [PNG]})
    computer = execute(project, "computer", seen)
    check = {"id": "check_1", "code": "malicious", "message": "Look."}
    asked = Computer("c1", ({"type": "screenshot"},), (check,))
    run = model.run(answer(asked), text("done"), tools=[computer])
    [action] = run["required_actions"]
    assert action["arguments"]["pending_safety_checks"] == [check]
    run = approve(project, run)
    assert run["output"] == "done"
    assert model.inputs[2]["output"] == {"type": "computer_screenshot", "image_url": PICTURE}
    assert model.inputs[2]["acknowledged_safety_checks"] == [check]


def test_a_secret_is_in_the_request_and_nowhere_else(
    project: Project, model: Model, running: Running
) -> None:
    admin = project.key("admin", "runs:read", "runs:write", "tools:write")
    admin.call("PUT", "/v1/secrets/crm_token", {"value": "tok-0123456789"})
    hosted = {
        "settings": {"server_label": "crm", "server_url": "https://crm.example/mcp"},
        "secrets": {"authorization": "crm_token", "headers.X-Key": "crm_token"},
    }
    host(project, "mcp", "crm", hosted=hosted, approval="never")
    failed = {
        "type": "mcp_call", "server_label": "crm", "name": "find", "arguments": "{}",
        "output": None, "status": "failed",
        "error": {"type": "http_error", "code": 401, "message": "tok-0123456789 is not valid"},
    }  # fmt: skip
    refused = HttpError(500, "tok-0123456789 is not valid")
    run = model.run(refused, answer(Item(failed), Text("tok-0123456789?")), tools=["crm"])
    (tool,) = model.asked[0].body["tools"]
    assert tool["authorization"] == "tok-0123456789"
    assert tool["headers"] == {"X-Key": "tok-0123456789"}
    assert run["output"] == "***?"
    shown = json.dumps([project.client.items(run["id"]), project.client.events(run["id"]), run])
    assert "*** is not valid" in shown
    assert "tok-0123456789" not in shown + running.service.output()


def test_a_tool_whose_secret_is_missing_is_left_out_and_that_is_told(
    project: Project, model: Model
) -> None:
    settings = {"server_label": "crm", "server_url": "https://crm.example/mcp"}
    hosted = {"settings": settings, "secrets": {"authorization": "crm_token"}}
    host(project, "mcp", "crm", hosted=hosted)
    run = model.run(text("done"), tools=["crm"], tool_choice={"name": "crm"})
    assert run["output"] == "done"
    assert "tools" not in model.asked[0].body
    (lost,) = of_type(project.client.events(run["id"]), "model.setting_dropped")
    assert lost["setting"] == "tools.crm"
    assert "'crm_token'" in lost["reason"]


def test_a_run_that_no_model_can_host_a_tool_of_is_refused(project: Project, model: Model) -> None:
    host(project, "web_search")
    name = model.script(text("done"))
    chat = f"openai:{project.model_name('chat')}"
    body = {"model": chat, "input": "go", "tools": ["web_search"]}
    problem = project.client.refused(422, "invalid_request", "POST", "/v1/runs", body)
    assert "no provider of these models runs web_search" in json.dumps(problem["errors"])
    agent = {"name": "a", "model": chat, "tools": ["web_search"]}
    project.client.refused(422, "invalid_request", "POST", "/v1/agents", agent)
    assert project.run(model=[name, chat], tools=["web_search"])["output"] == "done"


def test_a_named_hosted_tool_must_be_used(project: Project, model: Model) -> None:
    host(project, "web_search")
    model.run(text("done"), tools=["web_search"], tool_choice={"name": "web_search"})
    assert model.asked[0].body["tool_choice"] == {
        "type": "allowed_tools",
        "mode": "required",
        "tools": [{"type": "web_search"}],
    }


def test_another_protocol_goes_on_where_this_one_fails_and_back(
    project: Project, model: Model
) -> None:
    project.tool("add")
    host(project, "web_search")
    item = HOSTED["web_search"][0]
    down = HttpError(400, "not now")
    call = Call("c1", "add", '{"x":"1"}')
    name = model.script(answer(Reasoning(), Item(item), call), down, text("back"))
    chat = project.script(chat_server.text("from chat"), name="chat")
    session = project.client.call("POST", "/v1/sessions", {})["id"]
    tools = ["add", "web_search"]
    run = project.run(model=[name, chat], tools=tools, session_id=session)
    assert run["output"] == "from chat"
    lost = of_type(project.client.events(run["id"]), "model.setting_dropped")
    assert {one["setting"] for one in lost} == {"tools.web_search", "reasoning", "hosted_call"}
    (asked,) = project.asked("chat")
    said = json.dumps(asked.body["messages"])
    assert "Called web_search" in said
    assert "otters" in said
    again = project.run(model=[name, chat], tools=tools, session_id=session)
    assert again["output"] == "back"
    assert "model.setting_dropped" not in types_of(project.client.events(again["id"]))
    assert kinds(model.inputs) == [
        "message", "reasoning", "web_search_call", "function_call", "function_call_output",
        "message", "message",
    ]  # fmt: skip


def test_the_example_lets_openai_search_and_asks_before_it_calls_a_server(
    project: Project, model: Model
) -> None:
    found = Item(HOSTED["web_search"][0])
    noted = Item(HOSTED["mcp"][0])
    name = model.script(answer(found, ASKED), answer(noted, Text("Fish.")))
    environment = {
        "RUNWARD_URL": project.client.url,
        "RUNWARD_KEY": project.client.key,
        "MCP_TOKEN": "tok-0123456789",
    }
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples/hosted/use.py"), name, "https://crm.example/mcp"],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    asked = {"server_label": "crm", "name": "find", "arguments": {"who": "Ada"}}
    assert done.stdout.splitlines() == [
        f"approve crm {json.dumps(asked, sort_keys=True)}",
        f"search {json.dumps(HOSTED['web_search'][1])} {json.dumps(HOSTED['web_search'][2])}",
        f'crm {json.dumps(asked)} "Ada is here."',
        "completed Fish.",
    ]
    declared = model.asked[0].body["tools"]
    assert [tool["type"] for tool in declared] == ["web_search", "mcp"]
    assert (declared[1]["server_label"], declared[1]["authorization"]) == ("crm", "tok-0123456789")
    assert "tok-0123456789" not in done.stdout
