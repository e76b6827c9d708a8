"""What the Responses API is asked: checked against the rules of the strict server, and against the
official client's own types."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

import pytest
from openai.types.responses.response_create_params import (
    ResponseCreateParamsNonStreaming,
    ResponseCreateParamsStreaming,
)
from pydantic import JsonValue, TypeAdapter

from runward.domain.ids import CallId
from runward.domain.json import JsonObject, compact
from runward.domain.registry.provider_tools import EXECUTORS
from runward.domain.registry.tools import (
    CelRule,
    ComputerSettings,
    ExecutorKind,
    HostedTool,
    HostedToolKind,
    ToolSpec,
)
from runward.domain.run.items import (
    HostedCall,
    Item,
    MediaPart,
    Message,
    Native,
    Reasoning,
    TextPart,
    ToolCall,
    ToolResult,
)
from runward.llm.base import ModelRequest
from runward.llm.openai.request_parts import Functions
from runward.llm.openai.responses.native import (
    EMPTY_PICTURE,
    KINDS,
    arguments_of,
    native_call,
    native_output,
)
from runward.llm.openai.responses.request import request_body
from runward.llm.openai.responses.tools import DeclaredTools, function_tool
from tests.support.models import responses_rules

PROVIDER = "openai-responses"
OWN = TypeAdapter[Any](ResponseCreateParamsStreaming | ResponseCreateParamsNonStreaming)
PNG = MediaPart("image", data="aWNvbg==", media_type="image/png")
CLOSED: JsonObject = {
    "type": "object",
    "properties": {"x": {"type": "string"}},
    "required": ["x"],
    "additionalProperties": False,
}
ADD = ToolSpec(name="add", description="Adds.", parameters=CLOSED)


def executing(kind: ExecutorKind, name: str | None = None) -> ToolSpec:
    parameters = EXECUTORS[kind].parameters
    return ToolSpec(
        name=name or f"run_{kind}", parameters=parameters, implements=kind, strict=False
    )


def hosting(kind: HostedToolKind, name: str | None = None, **fields: Any) -> ToolSpec:
    hosted = HostedTool(kind=kind, settings=fields.pop("settings", {}))
    return ToolSpec(
        name=name or f"my_{kind}", parameters={"type": "object"}, type="hosted", hosted=hosted,
        strict=False, **fields,
    )  # fmt: skip


def body_of(*items: Item, sealed: bool = True, given: Any = None, **fields: Any) -> JsonObject:
    request = ModelRequest(
        fields.pop("model", "m"), fields.pop("instructions", ""), items, **fields
    )
    offered = DeclaredTools(request.tools, Functions(function_tool), request.model)
    body = request_body(request, offered, encrypted=sealed)
    assert responses_rules.check(body, given or known(items)) == []
    walk(OWN.validate_python(body))
    return body


def walk(value: Any) -> None:
    """What is iterable for the client's types is validated only when somebody iterates."""
    if isinstance(value, Mapping):
        value = cast(Mapping[str, Any], value).values()
    if isinstance(value, Iterable) and not isinstance(value, str):
        for one in cast(Iterable[Any], value):
            walk(one)


def known(items: tuple[Item, ...]) -> responses_rules.Given:
    """What the server has handed out, as far as the items tell."""
    given = responses_rules.Given()
    for item in items:
        if isinstance(item, Reasoning):
            given.sealed.add(str(item.data.get("encrypted_content")))
            if item.data.get("leads_to"):
                given.led[str(item.data["leads_to"])] = str(item.data["id"])
    return given


def input_of(*items: Item, **fields: Any) -> list[Any]:
    found: Any = body_of(*items, **fields)["input"]
    return found


def thought(number: int, leads_to: str | None, sealed: str | None = "sealed") -> Reasoning:
    data: JsonObject = {"id": f"rs_{number}", "type": "reasoning", "summary": []}
    return Reasoning(PROVIDER, data | {"encrypted_content": sealed, "leads_to": leads_to})


def call(call_id: str, item_id: str | None = None, name: str = "add") -> ToolCall:
    native = None if item_id is None else Native(PROVIDER, {"id": item_id})
    return ToolCall(CallId(call_id), name, '{"x":"1"}', native=native)


def result(call_id: str, output: Any = "ok", *parts: TextPart | MediaPart, **more: Any) -> Item:
    return ToolResult(CallId(call_id), output, parts=parts, **more)


def native(item: JsonObject, name: str = "run_it", **changed: Any) -> ToolCall:
    arguments = compact(changed["arguments"]) if "arguments" in changed else arguments_of(item)
    call_id = CallId(str(item.get("call_id") or item["id"]))
    return ToolCall(call_id, name, arguments, native=Native(PROVIDER, item))


GO = Message("user", "go")
SHELL: JsonObject = {
    "type": "shell_call",
    "id": "sh_1",
    "call_id": "c1",
    "action": {"commands": ["ls"], "timeout_ms": None, "max_output_length": 9},
    "environment": {"type": "local"},
    "status": "completed",
    "created_by": "model",
}
PATCH: JsonObject = {
    "type": "apply_patch_call",
    "id": "apc_1",
    "call_id": "c1",
    "operation": {"type": "delete_file", "path": "a"},
    "status": "completed",
}
CHECK: JsonObject = {"id": "check_1", "code": "malicious", "message": "Look at it."}
COMPUTER: JsonObject = {
    "type": "computer_call",
    "id": "cu_1",
    "call_id": "c1",
    "actions": [{"type": "wait"}],
    "pending_safety_checks": [CHECK],
    "status": "completed",
}
ASKED: JsonObject = {
    "type": "mcp_approval_request",
    "id": "mcpr_1",
    "server_label": "crm",
    "name": "find",
    "arguments": '{"who": "Ada"}',
}


def test_nothing_is_stored_and_reasoning_is_asked_for_sealed() -> None:
    body = body_of(GO, instructions="be kind")
    assert body == {
        "model": "m",
        "instructions": "be kind",
        "input": [{"role": "user", "content": "go"}],
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "stream": True,
    }
    assert "include" not in body_of(GO, sealed=False)
    assert body_of(GO, settings={"store": True})["store"] is True


def test_settings_are_said_in_the_protocols_words() -> None:
    settings = {
        "max_output_tokens": 100,
        "reasoning": {"effort": "low", "summary": "auto"},
        "verbosity": "low",
        "temperature": 1,
        "top_p": 0.5,
        "metadata": {"a": "b"},
        "service_tier": "auto",
        "safety_identifier": "u",
        "user": "u",
        "prompt_cache_key": "k",
        "stream": False,
        "extra_body": {"truncation": "auto"},
    }
    body = body_of(GO, settings={**settings, "store": None})
    assert body["text"] == {"verbosity": "low"}
    assert body["truncation"] == "auto"
    assert "stream" not in body
    same = settings.keys() - {"verbosity", "stream", "extra_body"}
    assert {name: body[name] for name in same} == {name: settings[name] for name in same}


def test_a_schema_is_strict_where_it_can_be() -> None:
    shape: Any = body_of(GO, output_schema=CLOSED, settings={"verbosity": "low"})["text"]
    assert shape["verbosity"] == "low"
    assert shape["format"] == {
        "type": "json_schema", "name": "output", "schema": CLOSED, "strict": True,
    }  # fmt: skip
    open_one: Any = body_of(GO, output_schema={"type": "object"})["text"]
    assert "strict" not in open_one["format"]


def test_tools_are_functions_or_openais_own() -> None:
    tools = (
        ADD,
        ToolSpec(name="loose", parameters={"type": "object"}, strict=False),
        executing("shell"),
        executing("shell", "other_shell"),
        executing("apply_patch"),
        executing("computer"),
    )
    declared: Any = body_of(GO, tools=tools)["tools"]
    assert declared[0] == {
        "type": "function", "name": "add", "description": "Adds.", "parameters": CLOSED,
        "strict": True,
    }  # fmt: skip
    assert (declared[1]["name"], declared[1]["strict"]) == ("loose", False)
    assert declared[2] == {"type": "shell", "environment": {"type": "local"}}
    assert (declared[3]["type"], declared[3]["name"]) == ("function", "other_shell")
    assert declared[4:] == [{"type": "apply_patch"}, {"type": "computer"}]


def test_only_the_preview_model_gets_the_size_of_the_screen() -> None:
    size = ComputerSettings(display_width=1280, display_height=800)
    tool = executing("computer").model_copy(update={"settings": size})
    assert body_of(GO, tools=(tool,))["tools"] == [{"type": "computer"}]
    choice: Any = {"name": tool.name}
    body = body_of(GO, tools=(tool,), tool_choice=choice, model="computer-use-preview-2025-03-11")
    assert body["tools"] == [
        {
            "type": "computer_use_preview",
            "display_width": 1280,
            "display_height": 800,
            "environment": "browser",
        }
    ]
    assert body["tool_choice"] == {"type": "computer_use_preview"}


def test_hosted_tools_are_declared_with_their_settings() -> None:
    tools = (
        hosting("web_search", settings={"search_context_size": "low"}),
        hosting("file_search", settings={"vector_store_ids": ["vs_1"]}),
        hosting("code_interpreter"),
        hosting("image_generation", settings={"size": "1024x1024"}),
        hosting("shell"),
    )
    body = body_of(GO, tools=tools)
    assert body["tools"] == [
        {"type": "web_search", "search_context_size": "low"},
        {"type": "file_search", "vector_store_ids": ["vs_1"]},
        {"type": "code_interpreter", "container": {"type": "auto"}},
        {"type": "image_generation", "size": "1024x1024"},
        {"type": "shell", "environment": {"type": "container_auto"}},
    ]
    assert body["include"] == [
        "reasoning.encrypted_content",
        "web_search_call.action.sources",
        "file_search_call.results",
        "code_interpreter_call.outputs",
    ]
    named = hosting("web_search", settings={"type": "web_search_preview"})
    assert body_of(GO, tools=(named,))["tools"] == [{"type": "web_search_preview"}]


@pytest.mark.parametrize(
    ("fields", "asks"),
    [
        ({"approval": "always"}, "always"),
        ({"approval": "never"}, "never"),
        ({"approval": CelRule(when="true")}, "always"),
        ({"approval": "never", "settings": {"require_approval": "always"}}, "always"),
    ],
)
def test_a_hosted_server_asks_as_its_approval_says(fields: Any, asks: str) -> None:
    settings = {"server_url": "https://crm.example/mcp", **fields.get("settings", {})}
    tool = hosting("mcp", "crm", settings=settings, approval=fields["approval"])
    tools: Any = body_of(GO, tools=(tool,))["tools"]
    (declared,) = tools
    assert (declared["server_label"], declared["require_approval"]) == ("crm", asks)


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        (ADD, {"type": "function", "name": "add"}),
        (executing("shell"), {"type": "shell"}),
        (executing("computer"), {"type": "computer"}),
        (hosting("shell"), {"type": "shell"}),
        (
            hosting("web_search"),
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "web_search"}]},
        ),
        (
            hosting("mcp", "crm", settings={"server_url": "https://crm.example/mcp"}),
            {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "mcp", "server_label": "crm"}],
            },
        ),
    ],
)
def test_a_named_choice_is_said_for_every_kind_of_tool(tool: ToolSpec, said: Any) -> None:
    body = body_of(GO, tools=(tool,), tool_choice={"name": tool.name}, parallel_tool_calls=False)
    assert body["tool_choice"] == said
    assert body["parallel_tool_calls"] is False
    assert body_of(GO, tools=(tool,), tool_choice="required")["tool_choice"] == "required"
    assert "tool_choice" not in body_of(GO, tools=(tool,))


def test_results_stand_in_the_order_of_their_calls() -> None:
    items = input_of(GO, call("c1"), call("c2"), result("c2", {"n": 2}), result("c1", None), GO)
    outputs = [(one["call_id"], one["output"]) for one in items if "output" in one]
    assert outputs == [("c1", "null"), ("c2", '{"n":2}')]


def test_ids_that_are_too_long_for_openai_are_replaced_in_calls_and_results() -> None:
    ids = ["call_1", "a" * 64, "call_1|fc_" + "a" * 80, "call_1|fc_" + "a" * 81]
    said: Any = body_of(*(call(one) for one in ids), *(result(one) for one in reversed(ids)))
    calls = [one["call_id"] for one in said["input"][:4]]
    assert calls[:2] == ids[:2]
    assert len(set(calls)) == 4
    assert [one["call_id"] for one in said["input"][4:]] == calls


def test_images_and_files_stand_in_results_and_messages() -> None:
    far = MediaPart("image", url="https://e.example/a.png")
    pdf = MediaPart("file", data="aaaa", media_type="application/pdf", filename="a.pdf")
    parts = (TextPart("see"), TextPart(""), PNG, far, pdf, MediaPart("file", url="https://e/b"))
    said = [
        {"type": "input_text", "text": "see"},
        {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,aWNvbg=="},
        {"type": "input_image", "detail": "auto", "image_url": "https://e.example/a.png"},
        {
            "type": "input_file",
            "filename": "a.pdf",
            "file_data": "data:application/pdf;base64,aaaa",
        },
        {"type": "input_file", "file_url": "https://e/b"},
    ]
    items = input_of(Message("user", parts), call("c1"), result("c1", "x", *parts))
    assert items[0] == {"role": "user", "content": said}
    assert items[2]["output"] == said


def test_what_an_assistant_cannot_hold_follows_in_a_message_of_the_user() -> None:
    items = input_of(GO, Message("assistant", (TextPart("Here."), PNG)), Message("system", "Calm."))
    assert items[1] == {
        "role": "assistant",
        "content": "Here.\n(Attached in the next user message: image.)",
    }
    assert [part["type"] for part in items[2]["content"]] == ["input_text", "input_image"]
    assert items[3] == {"role": "system", "content": "Calm."}


def test_an_empty_answer_is_left_out() -> None:
    assert input_of(GO, Message("assistant", "")) == [{"role": "user", "content": "go"}]


def test_reasoning_goes_back_before_the_call_it_led_to() -> None:
    items = input_of(
        GO, thought(1, "fc_1"), call("c1", "fc_1"), call("c2"), result("c1"), result("c2")
    )
    assert [one.get("id") for one in items[1:4]] == ["rs_1", "fc_1", None]
    assert "leads_to" not in items[1]


def test_reasoning_whose_item_is_gone_is_left_out() -> None:
    gone = input_of(GO, thought(1, "fc_1"), call("c2"), result("c2"), thought(2, "msg_9"))
    assert [one.get("type") for one in gone] == [None, "function_call", "function_call_output"]


def test_reasoning_that_leads_to_reasoning_goes_with_it() -> None:
    chain = (thought(1, "rs_2"), thought(2, "fc_1"))
    whole = input_of(GO, *chain, call("c1", "fc_1"), result("c1"))
    assert [one.get("id") for one in whole[1:4]] == ["rs_1", "rs_2", "fc_1"]
    assert input_of(GO, *chain) == [{"role": "user", "content": "go"}]


def test_without_sealed_reasoning_its_item_goes_without_its_id() -> None:
    message = Message(
        "assistant", "Hi", native=Native(PROVIDER, {"id": "msg_1", "phase": "commentary"})
    )
    search = HostedCall("ws_1", "s", "web_search", PROVIDER, {}, {}, {"id": "ws_1", "type": "x"})
    given = responses_rules.Given()
    for led, item in (("fc_1", call("c1", "fc_1")), ("msg_1", message), ("ws_1", search)):
        answered = (result("c1"),) if isinstance(item, ToolCall) else ()
        items = input_of(GO, thought(1, led, None), item, *answered, given=given)
        assert not [one for one in items if one.get("type") == "reasoning" or "id" in one]
    stored = input_of(
        GO, thought(1, "fc_1", None), call("c1", "fc_1"), result("c1"), settings={"store": True},
        given=given,
    )  # fmt: skip
    assert stored[1]["id"] == "rs_1"


def test_a_message_goes_back_with_its_citations_unless_its_text_was_changed() -> None:
    cited: JsonObject = {
        "type": "output_text",
        "text": "Paris",
        "annotations": [
            {
                "type": "url_citation",
                "start_index": 0,
                "end_index": 5,
                "title": "t",
                "url": "https://e.example",
            }
        ],
    }
    own = Native(PROVIDER, {"id": "msg_1", "content": [cited], "phase": "final_answer"})
    _, whole = input_of(GO, Message("assistant", "Paris", native=own))
    assert (whole["id"], whole["phase"], whole["content"]) == ("msg_1", "final_answer", [cited])
    _, changed = input_of(GO, Message("assistant", "London", native=own))
    assert changed["content"] == [{"type": "output_text", "text": "London", "annotations": []}]
    refused = Message("assistant", "No.", refusal=True, native=Native(PROVIDER, {"id": "msg_1"}))
    assert input_of(GO, refused)[1]["content"] == [{"type": "refusal", "refusal": "No."}]
    other = Message("assistant", "Hi", native=Native("anthropic", {"id": "x"}))
    assert input_of(GO, other)[1] == {"role": "assistant", "content": "Hi"}


def test_what_another_provider_thought_is_left_out_and_what_it_ran_is_told() -> None:
    foreign = HostedCall("h1", "find", "web_search", "anthropic", {"q": "x"}, {"hits": 1}, {})
    items = input_of(GO, Reasoning("openai", {"text": "hm"}), foreign)
    assert items[1]["content"] == '(Called find with {"q":"x"}. Result: {"hits":1})'


def test_what_openai_ran_goes_back_as_it_was() -> None:
    data: JsonObject = {
        "type": "web_search_call", "id": "ws_1", "status": "completed",
        "action": {"type": "search", "query": "x"},
    }  # fmt: skip
    item = HostedCall("ws_1", "s", "web_search", PROVIDER, {}, {}, data | {"created_by": "m"})
    assert input_of(GO, item)[1] == data


CONTAINER: JsonObject = {"type": "container_reference", "container_id": "cntr_1"}
HOSTED_SHELL: JsonObject = {**SHELL, "environment": CONTAINER}
SHELL_OUTPUT: JsonObject = {
    "type": "shell_call_output",
    "id": "sho_1",
    "call_id": "c1",
    "status": "completed",
    "max_output_length": 9,
    "output": [{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
}


def hosted_shell(*items: JsonValue) -> HostedCall:
    data: JsonObject = {"id": "sh_1", "items": list(items)}
    return HostedCall("sh_1", "sh", "shell", PROVIDER, {"commands": ["ls"]}, "a", data)


def test_a_hosted_shell_has_any_environment_of_openais_and_an_executor_becomes_a_function() -> None:
    bundle: JsonObject = {"type": "base64", "media_type": "application/zip", "data": "UEsFBg=="}
    inline: JsonObject = {"type": "inline", "name": "csv", "description": "x", "source": bundle}
    secret: JsonObject = {"domain": "a.example", "name": "KEY", "value": "s"}
    automatic: JsonObject = {
        "type": "container_auto",
        "memory_limit": "4g",
        "file_ids": ["file_1"],
        "network_policy": {
            "type": "allowlist",
            "allowed_domains": ["a.example"],
            "domain_secrets": [secret],
        },
        "skills": [{"type": "skill_reference", "skill_id": "skill_1", "version": "latest"}, inline],
    }
    for environment in (automatic, CONTAINER):
        tools = (executing("shell"), hosting("shell", settings={"environment": environment}))
        declared: Any = body_of(GO, tools=tools)["tools"]
        assert (declared[0]["type"], declared[0]["name"]) == ("function", "run_shell")
        assert declared[1] == {"type": "shell", "environment": environment}


def test_a_call_of_a_hosted_shell_goes_back_with_its_output_and_without_its_author() -> None:
    author: JsonObject = {"created_by": "model"}
    chunks: Any = [one | author for one in cast(list[Any], SHELL_OUTPUT["output"])]
    authored = SHELL_OUTPUT | author | {"output": chunks}
    shell = hosted_shell(HOSTED_SHELL, authored)
    whole = input_of(GO, thought(1, "sh_1"), shell, Message("assistant", "Done."))
    sent = {key: value for key, value in HOSTED_SHELL.items() if key != "created_by"}
    assert whole[2:4] == [sent, SHELL_OUTPUT]
    lost = input_of(GO, thought(1, "sh_1", None), shell, given=responses_rules.Given())
    assert lost[1:] == [
        {"role": "assistant", "content": '(Called sh with {"commands":["ls"]}. Result: a)'}
    ]
    unfinished = input_of(GO, hosted_shell(HOSTED_SHELL))
    assert [one.get("type") for one in unfinished] == [None, None]


def shell_output(output: Any, *parts: Any, **more: Any) -> Any:
    tools = (executing("shell"),)
    _, asked, output = input_of(
        GO, native(SHELL), result("c1", output, *parts, **more), tools=tools
    )[:3]
    assert asked["action"] == {"commands": ["ls"], "timeout_ms": None, "max_output_length": 9}
    assert output["max_output_length"] == 9
    return output["output"]


def exited(stdout: str, stderr: str = "", code: int = 0) -> Any:
    outcome = {"type": "exit", "exit_code": code}
    return {"stdout": stdout, "stderr": stderr, "outcome": outcome}


def test_what_a_shell_wrote_is_said_as_openai_wants_it() -> None:
    whole = [exited("a"), {"stdout": "", "stderr": "b", "outcome": {"type": "timeout"}}]
    assert shell_output({"output": whole}) == whole
    assert shell_output(whole) == whole
    assert shell_output("plain") == [exited("plain")]
    assert shell_output([{"stdout": "a"}]) == [exited('[{"stdout":"a"}]')]
    assert shell_output([exited("a") | {"stderr": 1}])[0]["stdout"].startswith("[")
    assert shell_output("Not approved.", is_error=True) == [exited("", "Not approved.", 1)]
    assert shell_output("x", TextPart("in parts")) == [exited("in parts")]
    noted = f"(A note.)\n(Another.)\n{compact({'output': [exited('a')]})}"
    assert shell_output(noted) == [exited("(A note.)\n(Another.)\na")]
    assert shell_output(f"(A note.)\n{compact([exited('a')])}", is_error=True)[0]["stdout"] == ""


def test_a_changed_call_goes_back_as_it_was_changed() -> None:
    changed = native(SHELL, arguments={"commands": ["pwd"]})
    assert input_of(GO, changed, result("c1"))[1]["action"] == {"commands": ["pwd"]}
    operation = {"type": "delete_file", "path": "b"}
    changed = native(PATCH, arguments={"operation": operation})
    assert input_of(GO, changed, result("c1"))[1]["operation"] == operation
    changed = native(COMPUTER, arguments={"actions": [{"type": "screenshot"}]})
    assert input_of(GO, changed, result("c1", "x", PNG))[1]["actions"] == [{"type": "screenshot"}]


def test_a_call_whose_id_was_made_another_goes_back_under_it() -> None:
    renamed = ToolCall(
        CallId("c1_2"), "run_shell", arguments_of(SHELL), native=Native(PROVIDER, SHELL)
    )
    items = input_of(GO, renamed, result("c1_2"))
    assert [one["call_id"] for one in items[1:]] == ["c1_2", "c1_2"]


@pytest.mark.parametrize(
    ("output", "more", "said"),
    [
        ({"status": "completed", "output": "done"}, {}, ("completed", "done")),
        ({"status": "failed"}, {}, ("failed", None)),
        ('(Note.)\n{"status": "completed"}', {}, ("completed", "(Note.)\n")),
        ("plain", {}, ("completed", "plain")),
        ("No such file.", {"is_error": True}, ("failed", "No such file.")),
    ],
)
def test_what_became_of_a_patch_is_said(output: Any, more: Any, said: Any) -> None:
    item = input_of(GO, native(PATCH), result("c1", output, **more))[2]
    assert (item["status"], item.get("output")) == said


def test_a_computer_answers_with_a_picture_and_acknowledges_what_was_looked_at() -> None:
    url = "data:image/png;base64,aWNvbg=="
    shown = {"type": "computer_screenshot", "image_url": url}
    for given in (
        result("c1", "x", PNG),
        result("c1", {"type": "computer_screenshot", "image_url": url}),
        result("c1", {"output": {"type": "computer_screenshot", "image_url": url}}),
    ):
        _, _, item = input_of(GO, native(COMPUTER), given)
        assert item["output"] == shown
        assert item["acknowledged_safety_checks"] == [CHECK]
    _, _, item = input_of(GO, native(COMPUTER), result("c1", {"file_id": "f"}))
    assert item["output"]["file_id"] == "f"


def test_where_a_computer_has_no_picture_an_empty_one_is_sent_and_said_to_be_that() -> None:
    items = input_of(GO, native(COMPUTER), result("c1", "Not approved.", is_error=True))
    assert items[2]["output"]["image_url"] == EMPTY_PICTURE
    texts = [part["text"] for part in items[3]["content"]]
    assert "no picture" in texts[0]
    assert texts[1] == "Not approved."
    noted = result("c1", "x", TextPart("(Changed.)"), PNG)
    beside = input_of(GO, native(COMPUTER), noted)[3]["content"]
    assert [part["text"] for part in beside] == ["About the computer call c1:", "(Changed.)"]


def test_an_older_models_single_action_is_a_list_of_one() -> None:
    item = {key: value for key, value in COMPUTER.items() if key != "actions"}
    item |= {"action": {"type": "wait"}, "pending_safety_checks": []}
    assert arguments_of(item) == '{"actions":[{"type":"wait"}]}'
    _, asked, output = input_of(GO, native(item), result("c1", "x", PNG))
    assert asked["action"] == {"type": "wait"}
    assert "acknowledged_safety_checks" not in output


def test_an_older_shell_is_said_as_one_line() -> None:
    action: JsonObject = {
        "type": "exec",
        "command": ["echo", "a b"],
        "env": {"K": "v w"},
        "working_directory": "/tmp/x y",
        "timeout_ms": 5,
    }
    item: JsonObject = {
        "type": "local_shell_call",
        "id": "lsh_1",
        "call_id": "c1",
        "action": action,
        "status": "completed",
    }
    said = "cd '/tmp/x y' && env 'K=v w' echo 'a b'"
    assert arguments_of(item) == compact({"commands": [said], "timeout_ms": 5})
    assert KINDS["local_shell_call"] == "shell"
    asked = native(item)
    assert native_call(item, asked) == item
    changed = native_call(item, native(item, arguments={"commands": ["ls", "pwd"]}))
    assert changed["action"] == action | {"command": ["bash", "-c", "ls\npwd"]}
    output, beside = native_output(item, ToolResult(CallId("c1"), {"n": 1}))
    assert output == {"type": "local_shell_call_output", "id": "c1", "output": '{"n":1}'}
    assert beside == ()


@pytest.mark.parametrize("is_error", [False, True])
def test_a_hosted_servers_question_gets_its_answer(*, is_error: bool) -> None:
    answered = result("mcpr_1", "Too risky." if is_error else {"approved": True}, is_error=is_error)
    assert arguments_of(ASKED) == '{"server_label":"crm","name":"find","arguments":{"who":"Ada"}}'
    _, asked, answer = input_of(GO, native(ASKED), answered)
    assert asked == ASKED
    assert answer == {
        "type": "mcp_approval_response",
        "approval_request_id": "mcpr_1",
        "approve": not is_error,
    } | ({"reason": "Too risky."} if is_error else {})


def test_a_call_of_another_providers_kind_is_a_functions() -> None:
    other = ToolCall(CallId("c1"), "run_shell", "{}", native=Native("anthropic", {"type": "bash"}))
    assert [one.get("type") for one in input_of(GO, other, result("c1"))][1:] == [
        "function_call",
        "function_call_output",
    ]


def test_a_functions_namespace_goes_back_with_it() -> None:
    spaced = ToolCall(CallId("c1"), "add", "{}", native=Native(PROVIDER, {"namespace": "n"}))
    assert input_of(GO, spaced, result("c1"))[1]["namespace"] == "n"
