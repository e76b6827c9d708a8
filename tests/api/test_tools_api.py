"""/v1/tools: registering and changing them, and what their webhooks do to a run, well or badly."""

import json
import re
import socket
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest

from runward.domain.run import texts
from tests.api import raw_tool
from tests.api.project import (
    PATIENCE_SECONDS,
    Project,
    at_once,
    call,
    meanwhile,
    of_type,
    result_of,
    types_of,
)
from tests.support.models.chat_server import calls, text
from tests.support.services.client import Json
from tests.support.tools.hits import Hit
from tests.support.tools.server import Behaviour

HELD_SECONDS = 0.5
UNKNOWN_OUTCOME = "The call may or may not have taken effect. Check before you repeat it."
TOOL_ERROR = "An error occurred while running the tool. Please try again."
INVALID = "The tool returned an invalid result."
OBJECT: Json = {"type": "object", "properties": {}, "additionalProperties": False}
PAY: Json = {"name": "pay", "parameters": OBJECT, "url": "http://127.0.0.1:9/pay"}


def registered(project: Project, **fields: Any) -> Json:
    return project.client.call("POST", "/v1/tools", {**PAY, **fields})


def refused(project: Project, **fields: Any) -> list[tuple[str, str]]:
    """The paths and messages of a registration that is refused."""
    problem = project.client.refused(422, "invalid_request", "POST", "/v1/tools", {**PAY, **fields})
    return [(error["path"], error["message"]) for error in problem["errors"]]


# -- the registry ---------------------------------------------------------------------------------


def test_a_tool_is_registered_and_its_secret_shown_this_once(project: Project) -> None:
    response = project.client.request("POST", "/v1/tools", PAY)
    made = response.json()
    assert (response.status_code, response.headers["Location"]) == (201, "/v1/tools/pay")
    secret = made.pop("secret")
    assert re.fullmatch(r"whsec_[A-Za-z0-9+/]{43}=", secret)
    assert (
        made.items()
        >= {
            **PAY,
            "object": "tool",
            "version": 1,
            "type": "webhook",
            "description": "",
            "strict": True,
            "idempotent": False,
            "on_unknown": "return_error",
            "approval": "never",
            "approval_expires_seconds": 604800,
            "enabled": True,
        }.items()
    )
    assert project.client.call("GET", "/v1/tools/pay") == made
    assert project.client.call("GET", "/v1/tools")["data"] == [made]
    changed = project.client.call("PATCH", "/v1/tools/pay", {"description": "Pays."})
    assert secret not in json.dumps([changed, project.client.call("GET", "/v1/tools/pay")])


FUNCTION: Json = {"name": "pay", "description": "Pays.", "parameters": OBJECT, "strict": None}
OPENAI_TOOLS: dict[str, Json] = {
    "Chat Completions": {"type": "function", "function": FUNCTION},
    "Responses": {"type": "function", **FUNCTION},
}


@pytest.mark.parametrize("format_", OPENAI_TOOLS)
def test_a_tool_in_a_format_of_openai_is_a_client_tool_or_with_a_url_a_webhook_tool(
    project: Project, format_: str
) -> None:
    body = OPENAI_TOOLS[format_]
    made = project.client.call("POST", "/v1/tools", body)
    assert (made["type"], made["url"], made["strict"]) == ("client", None, False)
    assert (made["description"], made["parameters"]) == ("Pays.", OBJECT)
    project.client.call("DELETE", "/v1/tools/pay")
    more: Json = {"url": PAY["url"], "approval": "always", "headers": {"X-Team": "red"}}
    made = project.client.call("POST", "/v1/tools", body | more)
    assert (made["type"], made["url"], made["approval"]) == ("webhook", PAY["url"], "always")


def test_a_function_without_parameters_has_no_arguments(project: Project) -> None:
    made = project.client.call(
        "POST", "/v1/tools", {"type": "function", "function": {"name": "now"}}
    )
    assert made["parameters"] == OBJECT | {"required": []}


@pytest.mark.parametrize(
    ("function", "more", "path"),
    [
        ({"name": "ü"}, {}, "function.name"),
        ({"name": "transfer_to_me"}, {}, "function.name"),
        ({"name": "pay", "arguments": {}}, {}, "function.arguments"),
        ({"name": "pay", "parameters": {"type": "array"}}, {}, "function.parameters.type"),
        ({"name": "pay"}, {"url": "ftp://x"}, "url"),
        ({"name": "pay"}, {"headers": {"X-Team": "red"}}, "headers"),
        ({"name": "pay"}, {"name": "pay"}, "name"),
    ],
)
def test_an_error_in_a_function_has_its_path(
    project: Project, function: Json, more: Json, path: str
) -> None:
    body = {"type": "function", "function": function, **more}
    problem = project.client.refused(422, "invalid_request", "POST", "/v1/tools", body)
    assert [error["path"] for error in problem["errors"]] == [path]


def test_the_values_of_headers_are_never_shown(project: Project) -> None:
    made = registered(project, headers={"Authorization": "Bearer hunter2", "X-Team": "a"})
    assert set(made["headers"]) == {"Authorization", "X-Team"}
    shown = [
        made,
        project.client.call("GET", "/v1/tools/pay"),
        project.client.call("GET", "/v1/tools"),
    ]
    assert "hunter2" not in json.dumps(shown)


def test_a_header_that_names_a_secret_is_sent_with_its_value(project: Project) -> None:
    project.client.call("PUT", "/v1/secrets/shop", {"value": "hunter2"})
    reference = {"secret": "shop", "prefix": "Bearer "}
    project.tool("pay", headers={"Authorization": reference, "X-Team": "red"})
    shown = project.client.call("GET", "/v1/tools/pay")["headers"]
    assert shown == {"Authorization": reference, "X-Team": "…"}
    project.client.call("PATCH", "/v1/tools/pay", {"description": "Pays."})
    project.run(calls(call(1, "pay", '{"x":"1"}')), text("done"), tools=["pay"])
    [hit] = project.hits("pay")
    assert (hit.headers["authorization"], hit.headers["x-team"]) == ("Bearer hunter2", "red")


def test_a_header_cannot_name_a_secret_that_does_not_exist(project: Project) -> None:
    body = {**PAY, "headers": {"X-Key": {"secret": "nobody"}}}
    problem = project.client.refused(422, "invalid_request", "POST", "/v1/tools", body)
    assert problem["errors"] == [
        {
            "path": "headers.X-Key.secret",
            "message": (
                "names the secret 'nobody', which does not exist; create it with PUT "
                "/v1/secrets/nobody"
            ),
        }
    ]


def test_a_name_belongs_to_one_tool(project: Project, other: Project) -> None:
    first = registered(project)
    problem = project.client.refused(409, "already_exists", "POST", "/v1/tools", PAY)
    assert "'pay'" in problem["detail"]
    assert project.client.call("GET", "/v1/tools/pay")["id"] == first["id"]
    assert registered(other)["version"] == 1, "of each project"


def test_many_who_register_one_name_at_once_make_one_tool(project: Project) -> None:
    answers = at_once(10, lambda _: project.client.request("POST", "/v1/tools", PAY).status_code)
    assert sorted(answers) == [201] + [409] * 9


def test_a_repeated_registration_with_its_key_has_the_same_answer(project: Project) -> None:
    headers = {"Idempotency-Key": "k-1"}
    first = project.client.request("POST", "/v1/tools", PAY, headers=headers)
    again = project.client.request("POST", "/v1/tools", PAY, headers=headers)
    assert (again.status_code, again.json()) == (201, first.json())
    assert again.headers["Idempotent-Replayed"] == "true"
    body = {**PAY, "description": "another"}
    project.client.refused(
        422, "idempotency_key_reused", "POST", "/v1/tools", body, Idempotency_Key="k-1"
    )


def test_a_change_makes_the_next_version_and_leaves_the_rest(project: Project) -> None:
    made = registered(project, timeout_seconds=3, headers={"X-Team": "a"})
    changed = project.client.call(
        "PATCH", "/v1/tools/pay", {"timeout_seconds": None, "approval": {"when": "args.x == 1"}}
    )
    assert (changed["version"], changed["id"]) == (2, made["id"])
    assert (changed["timeout_seconds"], changed["approval"]) == (None, {"when": "args.x == 1"})
    assert (changed["url"], set(changed["headers"])) == (PAY["url"], {"X-Team"})
    for body in (
        {"name": "b"},
        {"type": "webhook"},
        {"url": "ftp://x"},
        {"strict": None},
        {"a": 1},
    ):
        project.client.refused(422, "invalid_request", "PATCH", "/v1/tools/pay", body)
    assert project.client.call("GET", "/v1/tools/pay") == changed


def test_of_two_changes_at_once_that_do_not_fit_together_one_is_refused(
    project: Project,
) -> None:
    """Strict tools have no open objects, and each of the changes is right by itself."""
    patches = [{"strict": True}, {"parameters": {**OBJECT, "additionalProperties": True}}]
    for n in range(12):
        path = f"/v1/tools/pay{n}"
        registered(project, name=f"pay{n}", strict=False)
        answers = at_once(
            2, lambda m, path=path: project.client.request("PATCH", path, patches[m]).status_code
        )
        assert sorted(answers) == [200, 422]


def test_changes_at_once_all_count(project: Project) -> None:
    registered(project)

    def change(number: int) -> int:
        body = {"metadata": {str(number): True}} if number % 2 else {"timeout_seconds": 1 + number}
        return project.client.call("PATCH", "/v1/tools/pay", body)["version"]

    assert sorted(at_once(10, change)) == list(range(2, 12))


def test_a_deleted_tool_is_gone_and_its_name_free(project: Project) -> None:
    first = registered(project)
    assert project.client.request("DELETE", "/v1/tools/pay").status_code == 204
    assert project.client.call("GET", "/v1/tools")["data"] == []
    for method, path in [
        ("GET", "/v1/tools/pay"),
        ("DELETE", "/v1/tools/pay"),
        ("POST", "/v1/tools/pay/rotate_secret"),
    ]:
        project.client.refused(404, "tool_not_found", method, path)
    project.client.refused(404, "tool_not_found", "PATCH", "/v1/tools/pay", {})
    again = registered(project)
    assert (again["version"], again["id"] != first["id"]) == (2, True)
    assert again["secret"] != first["secret"]


def test_tools_are_listed_by_name(project: Project) -> None:
    for name in ("b", "a", "c"):
        registered(project, name=name)
    page = project.client.call("GET", "/v1/tools", limit=2)
    assert [tool["name"] for tool in page["data"]] == ["a", "b"]
    assert page["has_more"]
    rest = project.client.call("GET", "/v1/tools", after=page["last_id"])
    assert [tool["name"] for tool in rest["data"]] == ["c"]


@pytest.mark.parametrize("name", ["", "1a", "a b", "ä", "a.b", "a" * 65, "a/b", "a\n"])
def test_a_name_is_one_that_every_provider_takes(project: Project, name: str) -> None:
    assert refused(project, name=name)[0][0] == "name"


def schema(**members: Any) -> Json:
    return {"type": "object", **members}


SCHEMAS: dict[str, tuple[Json, str]] = {
    "not an object": ({"type": "string"}, "parameters.type"),
    "a type that is none": (schema(properties={"a": {"type": "txt"}}), "parameters.properties.a"),
    "an open map": (schema(additionalProperties=True), "parameters.additionalProperties"),
    "a root anyOf": ({"anyOf": [{"type": "object"}]}, "parameters"),
    "required that is not there": (schema(required="a"), "parameters.required"),
    "a broken pattern": (
        schema(properties={"a": {"type": "string", "pattern": "("}}),
        "parameters.properties.a.pattern",
    ),
    "a reference to nowhere": (schema(properties={"a": {"$ref": "#/$defs/b"}}), "parameters"),
    "a reference to elsewhere": (
        schema(properties={"a": {"$ref": "https://x.example/s.json"}}),
        "parameters",
    ),
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_that_would_not_work_is_refused_with_its_path(project: Project, name: str) -> None:
    parameters, path = SCHEMAS[name]
    assert any(found.startswith(path) for found, _ in refused(project, parameters=parameters))


FIELDS: dict[str, tuple[Json, str]] = {
    "a rule that is no CEL": ({"approval": {"when": "args.x >"}}, "approval.when"),
    "a rule over nothing known": ({"approval": {"when": "whatever == 1"}}, "approval.when"),
    "a rule for enabled": ({"enabled": {"when": "("}}, "enabled.when"),
    "an empty rule": ({"approval": {"when": ""}}, "approval.when"),
    "an approval that is none": ({"approval": "sometimes"}, "approval"),
    "a timeout of nothing": ({"timeout_seconds": 0}, "timeout_seconds"),
    "a timeout of a day": ({"timeout_seconds": 86_400}, "timeout_seconds"),
    "a timeout in words": ({"timeout_seconds": "30"}, "timeout_seconds"),
    "an expiry of nothing": ({"approval_expires_seconds": 0}, "approval_expires_seconds"),
    "no url": ({"url": None}, "url"),
    "another type": ({"type": "plugin"}, "type"),
    "a retry of success": ({"retry": {"on": [200]}}, "retry.on.0"),
    "too many attempts": ({"retry": {"max_attempts": 11}}, "retry.max_attempts"),
    "a guardrail of no type": ({"guardrails": [{}]}, "guardrails.0.type"),
    "an unknown field": ({"colour": "red"}, "colour"),
    "an output that is no schema": ({"output_schema": {"type": 7}}, "output_schema.type"),
    "a huge output": ({"max_output_bytes": 10**9}, "max_output_bytes"),
    "a host header": ({"headers": {"Host": "x"}}, "headers.Host"),
    "a length header": ({"headers": {"Content-Length": "1"}}, "headers.Content-Length"),
    "our own signature": ({"headers": {"Webhook-Signature": "v1,x"}}, "headers.Webhook-Signature"),
    "our own key": ({"headers": {"idempotency-key": "x"}}, "headers.idempotency-key"),
    "a proxy header": ({"headers": {"Proxy-Authorization": "x"}}, "headers.Proxy-Authorization"),
    "a name with a space": ({"headers": {"a b": "x"}}, "headers.a b"),
    "a value with a line": ({"headers": {"a": "x\r\nHost: y"}}, "headers.a"),
    "a value outside ASCII": ({"headers": {"a": "ä"}}, "headers.a"),
    "one name twice": ({"headers": {"a": "1", "A": "2"}}, "headers.A"),
    "a header that is no text": ({"headers": {"a": 1}}, "headers.a"),
    "an endless value": ({"headers": {"a": "x" * 5000}}, "headers.a"),
}


@pytest.mark.parametrize("name", FIELDS)
def test_what_a_tool_cannot_be_is_refused_with_its_path(project: Project, name: str) -> None:
    fields, path = FIELDS[name]
    assert path in [found for found, _ in refused(project, **fields)]


def test_a_refusal_repeats_no_header_value(project: Project) -> None:
    assert "hunter2" not in str(refused(project, headers={"a": "hunter2\n"}))


URLS = [
    "http://169.254.169.254/latest/meta-data/",
    "http://169.254.169.254:8080/",
    "http://[fd00:ec2::254]/",
    "http://10.0.0.1/",
    "http://192.168.1.1/",
    "http://172.16.0.1/",
    "http://100.64.0.1/",
    "http://0.0.0.0/",
    "http://168.63.129.16/",
    "http://224.0.0.1/",
    "http://255.255.255.255/",
    "http://[::]/",
    "http://[::1]/",
    "http://[::ffff:10.0.0.1]/",
    "http://[64:ff9b::a9fe:a9fe]/",
    "http://[fe80::1]/",
    "http://2852039166/",
    "http://0xa9fea9fe/",
    "http://0251.0376.0251.0376/",
    "http://169.254.169.254./",
    "https://93.184.216.34:22/",
    "https://93.184.216.34:0/",
    "https://93.184.216.34:99999/",
    "https://93.184.216.34:25/",
    "https://user:secret@tools.example.com/",
    "https://user@tools.example.com/",
    "ftp://tools.example.com/",
    "file:///etc/passwd",
    "gopher://tools.example.com/",
    "javascript:alert(1)",
    "//tools.example.com/",
    "tools.example.com",
    "",
    "https://",
    "https:///path",
    "https://tools.example.com/#part",
    "https://tools.example.com/a b",
    "https://tools.example.com\\@10.0.0.1/",
    "https://tools.exämple.com/",
    "https://tools.example.com/\r\nHost: x",
    "https://tools..example.com/",
    "https://" + "a" * 3000 + ".example.com/",
]


def test_an_address_that_may_not_be_called_is_refused(project: Project) -> None:
    for url in URLS:
        assert "url" in [path for path, _ in refused(project, url=url)], url
    assert project.client.call("GET", "/v1/tools")["data"] == []


def test_a_name_that_leads_to_a_private_address_is_refused_when_it_is_called(
    project: Project,
) -> None:
    """Its addresses may change after registration; every send looks again."""
    made = project.client.request("POST", "/v1/tools", {**PAY, "url": "http://localhost:1/"})
    if made.status_code == 422:
        return  # refused already
    run = project.run(calls(call(1, "pay", "{}")), text("ok"), tools=["pay"])
    assert run["status"] == "completed"
    [ledger] = project.client.tool_calls(run["id"])
    assert ledger["reason"] == "not_sent"


# -- trying a tool --------------------------------------------------------------------------------


def test_a_tool_can_be_tried_outside_of_any_run(project: Project) -> None:
    project.tool("look", Behaviour("return", value={"found": 1}), approval="always")
    tried = project.client.call("POST", "/v1/tools/look/test", {"arguments": {"x": "1"}})
    assert (tried["outcome"], tried["output"]) == ("completed", {"found": 1})
    [hit] = project.hits("look")
    assert (hit.verified, hit.arguments) == (True, {"x": "1"})
    assert project.client.call("GET", "/v1/runs")["data"] == []
    problem = project.client.refused(
        422, "invalid_request", "POST", "/v1/tools/look/test", {"arguments": {"x": 1}}
    )
    assert [error["path"] for error in problem["errors"]] == ["arguments.x"]
    body: Json = {"arguments": {}}
    project.client.refused(404, "tool_not_found", "POST", "/v1/tools/none/test", body)


def test_a_trial_says_what_went_wrong(project: Project) -> None:
    project.tool("bad", Behaviour("raise", message="out of paper"))
    project.tool("later", Behaviour("later"))
    body = {"arguments": {"x": "1"}}
    tried = project.client.call("POST", "/v1/tools/bad/test", body)
    assert (tried["outcome"], tried["status"], tried["output"]) == ("failed", 500, "out of paper")
    assert project.client.call("POST", "/v1/tools/later/test", body)["outcome"] == "accepted"


# -- signatures -----------------------------------------------------------------------------------


def test_a_call_is_signed_and_bears_everything_that_matters(project: Project) -> None:
    project.tool("look", headers={"X-Team": "a"})
    run = project.run(calls(call(1, "look")), text("ok"), tools=["look"])
    [hit] = project.hits("look")
    assert hit.verified is True
    assert hit.headers["idempotency-key"] == hit.webhook_id
    assert hit.headers["x-team"] == "a"
    assert hit.headers["content-type"] == "application/json"
    callback = hit.body["callback"]
    assert callback["url"] == f"{project.client.url}/v1/callbacks/{callback['token']}"
    assert hit.body == {
        "type": "tool_call",
        "run_id": run["id"],
        "call_id": "c1",
        "tool": "look",
        "tool_version": 1,
        "agent": None,
        "arguments": {"x": "1"},
        "context": None,
        "attempt": 1,
        "fence": 1,
        "deadline_ms": hit.body["deadline_ms"],
        "callback": callback,
    }
    assert 0 < hit.body["deadline_ms"] <= 30_000


def test_during_a_rotation_both_secrets_verify(project: Project) -> None:
    old = project.tool("look")["secret"]
    rotated = project.client.request("POST", "/v1/tools/look/rotate_secret")
    new = rotated.json()["secret"]
    assert rotated.json() == {"secret": new}
    assert new != old
    key = project.tool_key("look")
    for number, secret in enumerate((old, new)):
        project.tools.secrets(key, secret)
        model = project.script(calls(call(1, "look")), text("ok"), name=f"m{number}")
        project.run(model=model, tools=["look"])
    assert [hit.verified for hit in project.hits("look")] == [True, True]
    signatures = project.hits("look")[0].headers["webhook-signature"].split(" ")
    assert len(signatures) == 2
    assert project.client.call("GET", "/v1/tools/look")["version"] == 1, "nothing else changed"


def test_after_a_second_rotation_the_first_secret_is_worth_nothing(project: Project) -> None:
    first = project.tool("look")["secret"]
    second, third = (
        project.client.call("POST", "/v1/tools/look/rotate_secret")["secret"] for _ in range(2)
    )
    assert len({first, second, third}) == 3
    project.tools.secrets(project.tool_key("look"), third)
    project.run(calls(call(1, "look")), text("ok"), tools=["look"])
    project.tools.secrets(project.tool_key("look"), second)
    model = project.script(calls(call(1, "look")), text("ok"), name="again")
    project.run(model=model, tools=["look"])
    assert [hit.verified for hit in project.hits("look")] == [True, True]


# -- what is tried again --------------------------------------------------------------------------


def test_an_idempotent_call_is_repeated_under_its_id_after_what_the_tool_said(
    project: Project,
) -> None:
    busy = Behaviour("raw", value="busy", status=503, headers={"Retry-After": "1"})
    project.tool("look", busy, Behaviour(), idempotent=True)
    run = project.run(calls(call(1, "look")), text("ok"), tools=["look"])
    assert run["status"] == "completed"
    first, second = project.hits("look")
    assert first.webhook_id == second.webhook_id
    assert (first.attempt, second.attempt) == (1, 2)
    assert second.at - first.at >= 0.9
    started = of_type(project.client.events(run["id"]), "tool_call.started")
    assert [each["attempt"] for each in started] == [1, 2]
    assert result_of(project.asked(), "c1") == "look(1)"


def test_an_idempotent_call_that_was_cut_off_is_repeated(project: Project) -> None:
    project.tool("look", Behaviour("reset"), Behaviour("truncated"), Behaviour(), idempotent=True)
    run = project.run(calls(call(1, "look")), text("ok"), tools=["look"])
    assert result_of(project.asked(), "c1") == "look(1)"
    assert len({hit.webhook_id for hit in project.hits("look")}) == 1
    assert len(project.hits("look")) == 3
    assert "tool_call.outcome_unknown" not in types_of(project.client.events(run["id"]))


def test_repeating_ends_with_the_last_attempt(project: Project) -> None:
    project.tool(
        "look",
        Behaviour("raw", value="busy", status=503),
        idempotent=True,
        retry={"max_attempts": 2, "initial_seconds": 0.01},
    )
    project.run(calls(call(1, "look")), text("ok"), tools=["look"])
    assert len(project.hits("look")) == 2
    assert result_of(project.asked(), "c1") == "busy"


def test_a_call_that_is_not_idempotent_is_sent_once_whatever_comes_back(project: Project) -> None:
    for number, kind in enumerate(("reset", "truncated", "raise", "raise_timeout")):
        project.tool(f"t{number}", Behaviour(kind))
    names = [f"t{number}" for number in range(4)]
    project.run(calls(*(call(name, name) for name in names)), text("ok"), tools=names)
    assert [len(project.hits(name)) for name in names] == [1, 1, 1, 1]


def test_a_status_that_the_tool_lists_is_tried_again(project: Project) -> None:
    busy = Behaviour("raw", value="busy", status=429)
    retry = {"on": [429], "initial_seconds": 0.01}
    project.tool("look", busy, Behaviour(), retry=retry)
    project.run(calls(call(1, "look")), text("ok"), tools=["look"])
    assert len(project.hits("look")) == 2
    assert result_of(project.asked(), "c1") == "look(1)"


def test_a_tool_that_cannot_be_reached_has_surely_not_run(project: Project) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/"
        retry = {"max_attempts": 2, "initial_seconds": 0.01}
        project.client.register_tool("gone", url, retry=retry)
        run = project.run(calls(call(1, "gone")), text("ok"), tools=["gone"])
    assert (
        result_of(project.asked(), "c1") == "The tool could not be reached. The tool has not run."
    )
    [ledger] = project.client.tool_calls(run["id"])
    assert (ledger["reason"], ledger["attempt"]) == ("not_sent", 2)


# -- outcome unknown ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["reset", "truncated"])
def test_a_call_of_unknown_outcome_is_told_as_such(project: Project, kind: str) -> None:
    project.tool("pay", Behaviour(kind))
    run = project.run(calls(call(1, "pay")), text("ok"), tools=["pay"])
    assert run["status"] == "completed"
    assert result_of(project.asked(), "c1").endswith(UNKNOWN_OUTCOME)
    assert "tool_call.outcome_unknown" in types_of(project.client.events(run["id"]))
    [ledger] = project.client.tool_calls(run["id"])
    assert (ledger["outcome"], ledger["is_error"]) == ("outcome_unknown", True)
    assert len(project.hits("pay")) == 1


def test_a_call_of_unknown_outcome_may_fail_the_run(project: Project) -> None:
    project.tool("pay", Behaviour("reset"), on_unknown="fail_run")
    run = project.run(calls(call(1, "pay")), tools=["pay"])
    assert run["status"] == "failed"
    assert "pay" in run["error"]["message"]


def asked_to_resolve(project: Project, *behaviours: Behaviour) -> tuple[Json, str]:
    """A run that waits for someone to say what became of its call."""
    project.tool("pay", *(behaviours or (Behaviour("reset"),)), on_unknown="ask")
    run = project.run(calls(call(1, "pay")), text("ok"), tools=["pay"])
    assert run["status"] == "requires_action"
    assert run["required_actions"] == [
        {
            "type": "resolve",
            "run_id": run["id"],
            "path": [],
            "call_id": "c1",
            "tool": "pay",
            "arguments": {"x": "1"},
        }
    ]
    return run, f"/v1/runs/{run['id']}/tool_calls/c1/resolve"


def test_a_person_may_know_that_it_completed(project: Project) -> None:
    run, path = asked_to_resolve(project)
    resolved = project.client.call("POST", path, {"resolution": "completed", "output": {"id": 7}})
    assert (resolved["outcome"], resolved["reason"]) == ("completed", "resolved")
    assert resolved["output"] == {"id": 7}
    assert project.end(run)["output"] == "ok"
    assert json.loads(result_of(project.asked(), "c1")) == {"id": 7}
    assert len(project.hits("pay")) == 1
    body = {"resolution": "failed", "message": "no"}
    project.client.refused(409, "call_not_waiting", "POST", path, body)


def test_a_person_may_know_that_it_failed(project: Project) -> None:
    run, path = asked_to_resolve(project)
    project.client.call("POST", path, {"resolution": "failed", "message": "The bank said no."})
    assert project.end(run)["output"] == "ok"
    assert result_of(project.asked(), "c1") == "The bank said no."
    assert len(project.hits("pay")) == 1


def test_a_person_may_have_it_sent_again(project: Project) -> None:
    run, path = asked_to_resolve(project, Behaviour("reset"), Behaviour())
    project.retried_by_hand.add((run["id"], "c1"))
    project.client.call("POST", path, {"resolution": "retry"})
    assert project.end(run)["output"] == "ok"
    assert result_of(project.asked(), "c1") == "pay(1)"
    first, second = project.hits("pay")
    assert (first.webhook_id, second.attempt) == (second.webhook_id, 2)


def test_a_timeout_is_asked_about_too_where_that_is_wanted(project: Project) -> None:
    hold = project.tools.hold(f"ask-{project.suffix}")
    slow = Behaviour(hold=f"ask-{project.suffix}")
    project.tool("pay", slow, on_unknown="ask", timeout_seconds=0.2)
    run = project.run(calls(call(1, "pay")), text("ok"), tools=["pay"])
    hold.release()
    assert [action["type"] for action in run["required_actions"]] == ["resolve"]


def test_only_a_call_that_waits_for_a_word_can_be_resolved(project: Project) -> None:
    run, path = asked_to_resolve(project)
    bad: list[Json] = [{}, {"resolution": "maybe"}, {"resolution": "completed"}, {"output": 1}]
    for body in bad:
        project.client.refused(422, "invalid_request", "POST", path, body)
    fine = {"resolution": "retry"}
    unknown = path.replace("/c1/", "/c2/")
    project.client.refused(404, "call_not_found", "POST", unknown, fine)
    for scope in ("runs:read", "runs:write", "tools:write", "admin"):
        project.key(scope).refused(403, "insufficient_scope", "POST", path, fine)
    assert project.client.get_run(run["id"]) == run
    project.client.cancel(run["id"])
    project.client.refused(409, "call_not_waiting", "POST", path, fine)


# -- answering later ------------------------------------------------------------------------------


def call_back(hit: Hit, **said: Any) -> httpx2.Response:
    """What the tool says to its callback: no key, the token is the authority."""
    url = hit.body["callback"]["url"]
    return httpx2.post(url, json=said, timeout=PATIENCE_SECONDS, trust_env=False)


def accepted_for_later(project: Project, **fields: Any) -> tuple[Json, Hit]:
    project.tool("work", Behaviour("later"), **fields)
    run = project.accepted(calls(call(1, "work")), text("ok"), tools=["work"])
    [hit] = project.hits("work")
    return run, hit


def code_of(response: httpx2.Response) -> tuple[int, str | None]:
    return response.status_code, response.json().get("code")


def test_a_run_that_waits_only_for_a_callback_is_in_progress(project: Project) -> None:
    run, hit = accepted_for_later(project)
    [ledger] = project.client.tool_calls(run["id"])
    waits: Json = {"type": "callback", "run_id": run["id"], "path": []}
    waits |= {
        "call_id": "c1",
        "tool": "work",
        "arguments": {"x": "1"},
        "deadline_at": ledger["deadline_at"],
    }
    assert (run["status"], run["required_actions"]) == ("in_progress", [])
    assert run["waiting_for"] == [waits]
    held = project.client.call("GET", f"/v1/runs/{run['id']}", wait=0.2)
    assert held == run, "nobody has to act, so the answer is held"
    assert "run.waiting" not in types_of(project.client.events(run["id"]))
    for status, found in (("in_progress", [run]), ("queued,requires_action", [])):
        assert project.client.call("GET", "/v1/runs", status=status)["data"] == found
    call_back(hit, status="completed", output=1)
    assert (project.end(run)["status"], project.end(run)["waiting_for"]) == ("completed", [])


def test_a_person_has_to_act_while_a_callback_is_awaited(project: Project) -> None:
    project.tool("work", Behaviour("later"))
    project.tool("pay", approval="always")
    both = calls(call(1, "work"), call(2, "pay"))
    run = project.run(both, text("ok"), tools=["work", "pay"])
    assert run["status"] == "requires_action"
    assert [action["type"] for action in run["required_actions"]] == ["approval"]
    assert [one["call_id"] for one in run["waiting_for"]] == ["c1"]
    project.client.decide_call(run["id"], "c2", "approve")
    project.until(run, "tool_call.completed")
    assert project.client.get_run(run["id"])["status"] in ("queued", "in_progress")
    call_back(project.hits("work")[0], status="completed", output=1)
    assert project.end(run)["status"] == "completed"


def test_a_run_above_one_that_waits_for_a_callback_needs_nobody(project: Project) -> None:
    project.tool("work", Behaviour("later"))
    clerk = project.script(calls(call(1, "work")), text("done"), name="clerk")
    project.client.call("POST", "/v1/agents", {"name": "clerk", "model": clerk, "tools": ["work"]})
    spec = {"name": "ask_clerk", "type": "agent", "agent": "clerk", "description": "Asks."}
    project.client.call("POST", "/v1/tools", spec)
    run = project.start(
        calls(call(1, "ask_clerk", '{"input":"go"}')), text("ok"), tools=["ask_clerk"]
    )
    hit = project.wait_for_hits("work")[0]
    [child] = project.client.call("GET", "/v1/runs", parent_run_id=run["id"])["data"]
    project.until(child, "tool_call.progress")
    above = project.client.get_run(run["id"])
    assert (above["status"], above["required_actions"]) == ("queued", [])
    [waits] = above["waiting_for"]
    assert (waits["run_id"], waits["path"]) == (child["id"], ["clerk"])
    call_back(hit, status="completed", output=1)
    assert project.end(run)["output"] == "ok"


def test_a_run_above_an_approval_and_a_callback_needs_someone(project: Project) -> None:
    project.tool("work", Behaviour("later"))
    project.tool("pay", approval="always")
    for name, tool in (("clerk", "work"), ("cashier", "pay")):
        model = project.script(calls(call(1, tool)), text("done"), name=name)
        agent = {"name": name, "model": model, "tools": [tool]}
        project.client.call("POST", "/v1/agents", agent)
        spec = {"name": f"ask_{name}", "type": "agent", "agent": name, "description": "Asks."}
        project.client.call("POST", "/v1/tools", spec)
    asks = [call(n, f"ask_{name}", '{"input":"go"}') for n, name in enumerate(("clerk", "cashier"))]
    run = project.run(calls(*asks), text("ok"), tools=["ask_clerk", "ask_cashier"])
    assert run["status"] == "requires_action"
    assert [one["type"] for one in run["required_actions"]] == ["approval"]
    project.wait_for_hits("work")
    call_back(project.hits("work")[0], status="completed", output=1)
    project.client.decide(run["required_actions"][0]["approval_id"], "approve")
    assert project.end(run)["output"] == "ok"


def test_a_tool_may_report_progress_and_answer_later(project: Project) -> None:
    run, hit = accepted_for_later(project)
    for done in (0.25, 0.5):
        assert call_back(hit, status="progress", progress=done, message="on it").status_code == 200
    assert project.client.get_run(run["id"])["status"] == "in_progress"
    assert call_back(hit, status="completed", output={"done": True}).status_code == 200
    assert project.end(run)["output"] == "ok"
    assert json.loads(result_of(project.asked(), "c1")) == {"done": True}
    progress = of_type(project.client.events(run["id"]), "tool_call.progress")
    assert [each.get("progress") for each in progress] == [None, 0.25, 0.5]
    assert progress[1]["message"] == "on it"
    assert "on it" not in str(project.asked()[-1].body), "the model does not see it"


def test_the_first_result_wins(project: Project) -> None:
    run, hit = accepted_for_later(project)
    assert call_back(hit, status="completed", output=1).status_code == 200
    assert call_back(hit, status="completed", output=1).status_code == 200
    for said in ({"output": 2}, {"output": True}, {"output": "1"}, {"output": None}):
        assert code_of(call_back(hit, status="completed", **said)) == (409, "result_already_given")
    failed = call_back(hit, status="failed", message="no")
    assert code_of(failed) == (409, "result_already_given")
    assert failed.headers["x-should-retry"] == "false"
    assert project.end(run)["output"] == "ok"
    assert call_back(hit, status="completed", output=1).status_code == 200
    assert result_of(project.asked(), "c1") == "1"
    ended = types_of(project.client.events(run["id"])).count("tool_call.completed")
    assert ended == 1


def test_of_many_results_at_once_one_wins(project: Project) -> None:
    run, hit = accepted_for_later(project)
    said = at_once(12, lambda n: call_back(hit, status="completed", output=n).status_code)
    assert sorted(said) == [200] + [409] * 11
    assert project.end(run)["output"] == "ok"


def test_a_tool_may_fail_later(project: Project) -> None:
    run, hit = accepted_for_later(project)
    assert call_back(hit, status="failed", message="No paper.").status_code == 200
    assert project.end(run)["output"] == "ok"
    assert result_of(project.asked(), "c1") == "No paper."
    assert call_back(hit, status="failed", message="No paper.").status_code == 200
    assert call_back(hit, status="completed", output=1).status_code == 409


def test_a_result_that_is_not_what_the_tool_promised_is_an_error(project: Project) -> None:
    promised: Json = {"type": "object", "properties": {"id": {"type": "integer"}}}
    run, hit = accepted_for_later(project, output_schema={**promised, "required": ["id"]})
    assert call_back(hit, status="completed", output={"id": "seven"}).status_code == 200
    assert project.end(run)["output"] == "ok"
    [ledger] = project.client.tool_calls(run["id"])
    assert (ledger["outcome"], ledger["reason"]) == ("failed", "invalid_output")
    assert call_back(hit, status="completed", output={"id": "seven"}).status_code == 200
    assert call_back(hit, status="completed", output={"id": 7}).status_code == 409


def test_a_failure_that_is_told_in_other_words_is_the_same_again(project: Project) -> None:
    run, hit = accepted_for_later(project, on_error={"message": "Ask Ada."})
    for _ in range(2):
        assert call_back(hit, status="failed", message="No paper.").status_code == 200
    assert project.end(run)["output"] == "ok"
    assert result_of(project.asked(), "c1") == "Ask Ada."


def test_a_callback_after_the_cancel_is_kept_and_changes_nothing(project: Project) -> None:
    run, hit = accepted_for_later(project)
    cancelled = project.client.cancel(run["id"])
    before = project.client.events(run["id"])
    late = call_back(hit, status="completed", output=1)
    assert code_of(late) == (410, "late_callback")
    assert "stored" in late.json()["detail"]
    assert code_of(call_back(hit, status="progress", progress=1)) == (410, "late_callback")
    assert project.client.get_run(run["id"]) == cancelled
    assert project.client.events(run["id"]) == before


def test_a_callback_that_overtakes_its_own_202_is_held_for_it(project: Project) -> None:
    hold = project.tools.hold(f"early-{project.suffix}")
    project.tool("work", Behaviour("later", hold=f"early-{project.suffix}"))
    run = project.start(calls(call(1, "work")), text("ok"), tools=["work"])
    [hit] = project.wait_for_hits("work")
    with meanwhile(lambda: call_back(hit, status="completed", output="early")) as said:
        with pytest.raises(TimeoutError):
            said.result(HELD_SECONDS)
        hold.release()
        assert said.result(PATIENCE_SECONDS).status_code == 200
    assert project.end(run)["output"] == "ok"
    assert result_of(project.asked(), "c1") == "early"


def test_a_callback_that_never_comes_is_a_timeout(project: Project) -> None:
    project.tool("work", Behaviour("later"), timeout_seconds=0.5)
    run = project.start(calls(call(1, "work")), text("ok"), tools=["work"])
    assert project.end(run)["output"] == "ok"
    shown = result_of(project.asked(), "c1")
    assert shown.startswith("Tool 'work' timed out after 0.5 seconds.")
    [hit] = project.hits("work")
    assert code_of(call_back(hit, status="completed", output=1)) == (410, "late_callback")


def test_siblings_of_a_call_that_waits_are_answered_at_once(project: Project) -> None:
    project.tool("work", Behaviour("later"))
    project.tool("look")
    both = calls(call(1, "work"), call(2, "look"))
    run = project.accepted(both, text("ok"), tools=["work", "look"])
    project.until(run, "tool_call.completed")
    assert len(project.asked()) == 1
    call_back(project.hits("work")[0], status="completed", output="w")
    assert project.end(run)["output"] == "ok"
    assert project.asked()[1].results == [("c1", "w"), ("c2", "look(1)")]


def test_a_token_is_the_whole_authority_and_cannot_be_guessed(project: Project) -> None:
    run, hit = accepted_for_later(project)
    url: str = hit.body["callback"]["url"]
    said = {"status": "completed", "output": "forged"}
    prefix, _, token = url.rpartition("/")
    changed = ("B" if token[5] != "B" else "C").join((token[:5], token[6:]))
    for bad in (token[:-4], token + "AAAA", changed, "x", "A" * 128, "%00", "ä"):
        response = httpx2.post(f"{prefix}/{bad}", json=said, timeout=20, trust_env=False)
        assert response.status_code in {404, 422}, bad
    for body in ({}, {"status": "done"}, {"status": "completed"}, {**said, "more": 1}):
        response = httpx2.post(url, json=body, timeout=20, trust_env=False)
        assert code_of(response) == (422, "invalid_request")
    assert project.client.get_run(run["id"]) == run


# -- tools that behave badly ----------------------------------------------------------------------


@dataclass(frozen=True)
class Hostile:
    """What a tool sends, and what the run makes of it. `shown`: what the model reads, or how it
    begins. `sanitised`: that something was mended stands in the metadata."""

    says: bytes | Behaviour
    shown: str
    outcome: str = "completed"
    reason: str | None = None
    sanitised: bool = False
    fields: Json = field(default_factory=dict[str, Any])


JSON = "Content-Type: application/json"
TEXT = "Content-Type: text/plain"


def failed(says: bytes | Behaviour, shown: str = TOOL_ERROR) -> Hostile:
    return Hostile(says, shown, "failed", "tool_error")


def invalid(says: bytes | Behaviour) -> Hostile:
    return Hostile(says, INVALID, "failed", "invalid_response")


def unknown(says: bytes | Behaviour) -> Hostile:
    return Hostile(says, "The tool did not return a complete response. ", "outcome_unknown")


raw = raw_tool.answer
HOSTILE: dict[str, Hostile] = {
    "an HTML error page": failed(
        raw(b"<html>it broke</html>", "Content-Type: text/html", status="500 Oops")
    ),
    "an error in JSON": failed(
        raw(b'{"error":{"message":"no paper"}}', JSON, status="400 Bad"), "no paper"
    ),
    "an error in text": failed(raw(b"no paper", TEXT, status="418 Teapot"), "no paper"),
    "an endless error": failed(raw(b"e" * 50_000, TEXT, status="500 Oops"), "e" * 2048),
    "an error that says so": failed(
        raw(b'{"is_error":true,"message":"no paper"}', JSON), "no paper"
    ),
    "text that calls itself HTML": Hostile(
        raw(b"<html>hi</html>", "Content-Type: text/html"), "<html>hi</html>"
    ),
    "half of a JSON": invalid(raw(b'{"half": ', JSON)),
    "JSON with more behind": invalid(raw(b"{} {}", JSON)),
    "NaN": Hostile(raw(b'{"a":NaN,"b":[Infinity]}', JSON), '{"a":null,"b":[null]}', sanitised=True),
    "numbers that no double holds": Hostile(
        raw(b'{"a":1e999,"b":1%s}' % (b"0" * 400), JSON), '{"a":null,"b":null}', sanitised=True
    ),
    "lone surrogates": Hostile(
        raw(rb'{"a\ud800":"b\udfff"}', JSON), '{"a\ufffd":"b\ufffd"}', sanitised=True
    ),
    "NUL in JSON": Hostile(
        raw(rb'{"a\u0000":"b\u0000c"}', JSON), '{"a\ufffd":"b\ufffdc"}', sanitised=True
    ),
    "NUL in text": Hostile(raw(b"a\x00b", TEXT), "a\ufffdb", sanitised=True),
    "duplicate keys": Hostile(raw(b'{"a":1,"a":2}', JSON), '{"a":2}', sanitised=True),
    "a byte order mark": Hostile(raw(b"\xef\xbb\xbf[1]", JSON), "[1]"),
    "JSON that says it is Latin-1": Hostile(
        raw(b'["caf\xe9"]', JSON + "; charset=iso-8859-1"), '["café"]'
    ),
    "JSON as text": Hostile(raw(b'{"a":1}', TEXT), '{"a":1}'),
    "JSON of no type": Hostile(raw(b'{"a": 1}'), '{"a":1}'),
    "arrays 60 deep": Hostile(raw(b"[" * 60 + b"]" * 60, JSON), "[" * 60 + "]" * 60),
    "arrays 100 deep": invalid(raw(b"[" * 100 + b"]" * 100, JSON)),
    "arrays 100000 deep": invalid(raw(b"[" * 100_000 + b"]" * 100_000, JSON)),
    "5 MB": invalid(Behaviour("huge", size=5_000_000)),
    "5 MB, declared": invalid(raw(b"x" * 5_000_000, TEXT)),
    "more than the model is shown": Hostile(
        raw(b"x" * 70_000, TEXT),
        texts.cut_result("c1") + "\n" + "x" * 128,
        fields={"max_output_bytes": 256},
    ),
    "binary": invalid(raw(bytes(range(256)), "Content-Type: application/octet-stream")),
    "an image": invalid(raw(b"\x89PNG\r\n\x1a\n\xff\xfe", "Content-Type: image/png")),
    "gzip that is none": invalid(raw(b"not gzip", JSON, "Content-Encoding: gzip")),
    "an unknown encoding": invalid(raw(b"{}", JSON, "Content-Encoding: rot13")),
    "nothing at all": Hostile(raw(b""), "null"),
    "204": Hostile(raw(b"", status="204 No Content"), "null"),
    "white space": Hostile(raw(b" \n ", JSON), "null"),
    "null": Hostile(raw(b"null", JSON), "null"),
    "an empty string": Hostile(raw(b'""', JSON), ""),
    "a redirect to the metadata service": failed(
        raw(b"", "Location: http://169.254.169.254/latest", status="302 Found")
    ),
    "a redirect to itself": failed(Behaviour("redirect", value="/")),
    "a body shorter than its length": unknown(raw(b"only the beg", TEXT, length=1000)),
    "a body longer than its length": unknown(raw(b'{"a":1}garbage', JSON, length=7)),
    "a length that is none": unknown(raw(b"{}", JSON).replace(b"Length: 2", b"Length: two")),
    "no HTTP": unknown(b"220 smtp.example.com ESMTP\r\n"),
    "nothing, then the end": unknown(b""),
    "headers without end": unknown(b"HTTP/1.1 200 OK\r\n" + b"X-A: " + b"a" * 100_000),
    "a chunk that breaks off": unknown(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nonly"
    ),
    "an endless drip": Hostile(
        Behaviour("drip", size=1000),
        "Tool 't' timed out after 0.3 seconds.",
        "timed_out",
        fields={"timeout_seconds": 0.3},
    ),
    "cookies": Hostile(raw(b"{}", JSON, "Set-Cookie: a=b"), "{}"),
    "a status of its own": failed(raw(b"", status="799 Odd")),
    "200 without words": Hostile(raw(b"{}", JSON, status="200"), "{}"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_that_a_tool_sends_breaks_a_run(project: Project, name: str) -> None:
    hostile = HOSTILE[name]
    if isinstance(hostile.says, Behaviour):
        project.tool("t", hostile.says, **hostile.fields)
        seen = played(project)
        hits = len(project.hits("t"))
    else:
        with raw_tool.saying(hostile.says) as server:
            project.client.register_tool("t", server.url, **hostile.fields)
            seen = played(project)
            hits = server.hits
    run, ledger, shown = seen
    assert run["status"] == "completed"
    assert (ledger["outcome"], ledger["reason"]) == (hostile.outcome, hostile.reason)
    assert shown.startswith(hostile.shown)
    if hostile.outcome == "completed" and "max_output_bytes" not in hostile.fields:
        assert shown == hostile.shown
    assert ledger["metadata"] == ({"sanitised": True} if hostile.sanitised else None)
    assert ledger["is_error"] is (hostile.outcome != "completed")
    assert hits == 1
    assert project.client.request("GET", "/livez").status_code == 200


def played(project: Project) -> tuple[Json, Json, str]:
    """The ended run, its only call, and what the model read."""
    run = project.run(calls(call(1, "t")), text("ok"), tools=["t"])
    [ledger] = project.client.tool_calls(run["id"])
    return run, ledger, result_of(project.asked(), "c1")


def test_a_long_result_is_cut_for_the_model_and_kept_whole(project: Project) -> None:
    whole = "a" * 40_000 + "b" * 40_000
    project.tool("look", Behaviour("raw", value=whole))
    run = project.run(calls(call(1, "look")), text("ok"), tools=["look"])
    shown = result_of(project.asked(), "c1")
    assert len(shown.encode()) < 66_000
    assert shown.startswith(texts.cut_result("c1") + "\naaaa")
    assert shown.endswith("bbbb")
    assert "bytes omitted" in shown
    [ledger] = project.client.tool_calls(run["id"])
    assert ledger["output"] == whole
    [completed] = of_type(project.client.events(run["id"]), "tool_call.completed")
    assert completed["truncated"] is True


def test_parts_of_a_result_are_understood_and_metadata_is_kept_from_the_model(
    project: Project,
) -> None:
    answer = {
        "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}],
        "metadata": {"cost": "secret-9"},
    }
    project.tool("look", Behaviour("return", value=answer))
    run = project.run(calls(call(1, "look")), text("ok"), tools=["look"])
    assert result_of(project.asked(), "c1") == "one\ntwo"
    assert "secret-9" not in str(project.asked()[-1].body)
    [ledger] = project.client.tool_calls(run["id"])
    assert ledger["metadata"] == {"cost": "secret-9"}


POLICIES: dict[str, tuple[Json, str, str]] = {
    "an error": ({"on_error": {"message": "Ask Ada."}}, "raise", "Ask Ada."),
    "a timeout": (
        {"on_timeout": {"message": "Too slow."}, "timeout_seconds": 0.1},
        "drip",
        "Too slow.",
    ),
}


@pytest.mark.parametrize("what", POLICIES)
def test_a_text_of_the_tools_own_may_stand_for(project: Project, what: str) -> None:
    fields, kind, shown = POLICIES[what]
    project.tool("bad", Behaviour(kind, size=100), **fields)
    project.run(calls(call(1, "bad")), text("ok"), tools=["bad"])
    assert result_of(project.asked(), "c1") == shown


@pytest.mark.parametrize(("field", "kind"), [("on_error", "raise"), ("on_timeout", "drip")])
def test_a_failure_may_fail_the_run(project: Project, field: str, kind: str) -> None:
    fields: Json = {field: "fail_run", "timeout_seconds": 0.3}
    project.tool("bad", Behaviour(kind, size=100), **fields)
    run = project.run(calls(call(1, "bad")), tools=["bad"])
    assert run["status"] == "failed"
    assert "Tool 'bad'" in run["error"]["message"]
    assert len(project.asked()) == 1
