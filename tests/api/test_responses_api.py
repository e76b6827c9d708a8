"""The Responses API beside its compliance: what a response is to a run, and a run to a response."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.project import Project, call, of_type
from tests.api.protocols import Speaker, every
from tests.api.test_open_responses import MODEL, WEATHER, create, message, parsed, stream
from tests.api.test_tools_api import call_back
from tests.support.models import responses_shapes as shapes
from tests.support.models.chat_server import Answer, HttpError, calls, text
from tests.support.models.spoken import Text, says
from tests.support.services.client import Json
from tests.support.serving import Hold
from tests.support.tools.server import Behaviour

PAY: Json = {"type": "mcp", "server_label": "runward", "allowed_tools": ["pay"]}
CRM: Json = {"type": "mcp", "server_label": "crm", "server_url": "https://crm.example/mcp"}


def post(project: Project, path: str = "", body: Any = None, **headers: str) -> tuple[int, Json]:
    answer = project.client.request("POST", f"/v1/responses{path}", body, headers=headers)
    return answer.status_code, answer.json()


def refused(project: Project, status: int, code: str, **body: Any) -> Json:
    got, answer = post(project, body={"model": MODEL, **body})
    assert (got, answer["error"]["code"]) == (status, code), answer
    return answer["error"]


def get(project: Project, response_id: str) -> Json:
    answer = project.client.request("GET", f"/v1/responses/{response_id}")
    assert answer.status_code == 200, answer.text
    return shapes.response(answer.json())


def run_of(response: Json) -> str:
    return "run_" + response["id"].split("_")[1]


def output_of(call_id: str, output: str) -> Json:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def decision(request: Json, *, approve: bool = True, **fields: Any) -> Json:
    about = {"type": "mcp_approval_response", "approval_request_id": request["id"]}
    return {**about, "approve": approve, **fields}


def said(response: Json) -> str:
    messages = [item for item in response["output"] if item["type"] == "message"]
    return "".join(part["text"] for item in messages for part in item["content"])


def weather(project: Project, *cities: str, **fields: Any) -> Json:
    asks = " ".join(f'get_weather(location="{city}")' for city in cities)
    return create(project, message("user", asks), tools=[WEATHER], **fields)


def asks_to_pay(project: Project, *amounts: str) -> Json:
    project.tool("pay", approval="always")
    asks = " ".join(f'pay(x="{amount}")' for amount in amounts)
    return create(project, message("user", asks), tools=[PAY])


# What it is.


def test_a_response_is_a_run(project: Project) -> None:
    made = create(project, message("user", "hello"), metadata={"order": "A-1"})
    run = project.client.get_run(run_of(made))
    assert run["output"] == said(made)
    assert run["created_by"]["name"] == "test"
    assert run["metadata"] == made["metadata"] == {"order": "A-1"}
    assert get(project, made["id"]) == made
    other = project.run(model=MODEL, input="hello")
    assert said(get(project, other["id"].replace("run_", "resp_"))) == other["output"]


def test_an_agent_is_a_model_with_its_own_tools(project: Project) -> None:
    project.tool("pay")
    agent = {"name": "clerk", "model": MODEL, "tools": ["pay"], "instructions": "Pay."}
    project.client.call("POST", "/v1/agents", agent)
    made = create(project, message("user", 'pay(x="5")'), model="clerk")
    assert [item["type"] for item in made["output"]] == ["mcp_call", "message"]
    assert made["model"] == "clerk"
    assert made["instructions"] is None
    assert made["tools"] == []
    both = create(
        project,
        message("user", 'get_weather(location="Rome")'),
        model="clerk",
        tools=[WEATHER],
        tool_choice="auto",
    )
    assert both["output"][0]["type"] == "function_call"
    after = create(
        project,
        output_of(both["output"][0]["call_id"], "sun"),
        model="clerk",
        previous_response_id=both["id"],
    )
    assert "sun" in said(after)
    both = create(
        project, message("user", 'get_weather(location="Oslo")'), model="clerk", tools=[WEATHER]
    )
    again = create(
        project,
        output_of(both["output"][0]["call_id"], "snow"),
        model="clerk",
        tools=[WEATHER],
        previous_response_id=both["id"],
    )
    assert "snow" in said(again)
    error = refused(project, 400, "unsupported_parameter", model="clerk", input="x", tools=[PAY])
    assert error["param"] == "tools"
    assert refused(project, 404, "model_not_found", model="nobody", input="x")["param"] == "model"
    refused(project, 404, "model_not_found", model="nobody:x", input="x")


def test_an_agent_takes_the_settings_of_a_client(project: Project) -> None:
    project.tool("pay")
    schema: Json = {"type": "object", "properties": {"city": {"type": "string"}}}
    format_ = {"type": "json_schema", "name": "city", "schema": schema}
    asks = calls(call(1, "get_weather", '{"location":"Rome"}'))
    model = project.script(text('{"city": "Rome"}'), asks, text("{}"))
    agent: Json = {"name": "clerk", "model": model, "tools": ["pay"], "instructions": "Pay."}
    project.client.call("POST", "/v1/agents", agent)
    settings: Json = {
        "model": "clerk",
        "instructions": "Be brief.",
        "temperature": 0.5,
        "tool_choice": "required",
        "text": {"format": format_, "verbosity": "low"},
    }
    made = create(project, message("user", "Where?"), **settings)
    assert {name: made[name] for name in settings} == settings
    assert json.loads(said(made)) == {"city": "Rome"}
    [asked] = project.asked()
    assert asked.messages[0]["content"] == "Pay.\n\nBe brief."
    assert (asked.body["temperature"], asked.body["tool_choice"]) == (0.5, "required")
    assert asked.body["verbosity"] == "low"
    made = create(project, message("user", "Where?"), **settings, tools=[WEATHER])
    answers = {"input": [output_of("c1", "sun")], "previous_response_id": made["id"]}
    changed = {**settings, **answers, "instructions": "Be long."}
    assert refused(project, 400, "invalid_value", **changed)["param"] == "instructions"
    assert post(project, body={**settings, **answers})[0] == 200
    body = {"model": "clerk", "input": "Where?", "instructions": "Be brief."}
    counted = [
        project.client.call("POST", "/v1/responses/input_tokens", one)["input_tokens"]
        for one in (body, {**body, "instructions": None})
    ]
    assert counted[0] > counted[1]


def test_a_client_cannot_change_the_output_schema_of_an_agent(project: Project) -> None:
    agent = {"name": "clerk", "model": MODEL, "output_schema": {"type": "object"}}
    project.client.call("POST", "/v1/agents", agent)
    text_ = {"format": {"type": "json_object"}}
    error = refused(project, 400, "unsupported_parameter", model="clerk", input="x", text=text_)
    assert error["param"] == "text.format"
    wrong = {"format": {"type": "json_schema", "name": "x", "schema": {"type": "nothing"}}}
    error = refused(project, 400, "invalid_value", input="x", text=wrong)
    assert error["param"] == "text.format.schema.type"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"instructions": "Be brief."}, "instructions"),
        ({"text": {"format": {"type": "json_object"}}}, "text.format"),
        ({"tools": [WEATHER]}, "tools"),
        ({"tool_choice": "required"}, "tool_choice"),
    ],
)
def test_a_workflow_has_no_model_for_the_parameters_of_a_client(
    fields: Json, param: str, project: Project
) -> None:
    project.client.call("POST", "/v1/agents", {"name": "clerk", "model": MODEL})
    flow = {"name": "flow", "kind": "sequential", "agents": ["clerk"]}
    project.client.call("POST", "/v1/agents", flow)
    error = refused(project, 400, "unsupported_parameter", model="flow", input="x", **fields)
    assert error["param"] == param


def test_any_json_object_is_an_output_format(project: Project) -> None:
    model = project.script(text("no"), text('{"a": 1}'))
    made = create(
        project, message("user", "x"), model=model, text={"format": {"type": "json_object"}}
    )
    assert said(made).endswith('{"a": 1}')
    assert made["text"] == {"format": {"type": "json_object"}}


def test_what_is_asked_reaches_the_model(project: Project) -> None:
    model = project.script(text('{"city": "Rome"}'))
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    }
    format_ = {"type": "json_schema", "name": "city", "schema": schema, "strict": True}
    made = create(
        project,
        message("developer", "Be brief."),
        message("user", "Where?"),
        model=model,
        instructions="Answer.",
        temperature=0.5,
        top_p=0.25,
        max_output_tokens=77,
        reasoning={"effort": "low", "summary": None},
        user="u1",
        parallel_tool_calls=False,
        text={"format": format_},
        max_tool_calls=3,
    )
    [asked] = project.asked()
    assert [one["role"] for one in asked.messages][-1] == "user"
    assert asked.body["temperature"] == 0.5
    assert asked.body["reasoning_effort"] == "low"
    assert asked.body["response_format"]["json_schema"]["schema"] == schema
    assert json.loads(said(made)) == {"city": "Rome"}
    assert made["temperature"] == 0.5
    assert made["text"] == {"format": format_}
    assert made["max_tool_calls"] == 3
    assert made["reasoning"] == {"effort": "low", "summary": None}
    assert made["usage"]["input_tokens_details"]["cached_tokens"] == 10
    assert made["usage"]["output_tokens_details"]["reasoning_tokens"] == 5


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"background_options": {}}, "background_options"),
        ({"context_management": [{"type": "compaction"}]}, "context_management"),
        ({"moderation": {"model": "omni"}}, "moderation"),
        ({"prompt_cache_retention": "24h"}, "prompt_cache_retention"),
        ({"reasoning": {"generate_summary": "auto"}}, "reasoning.generate_summary"),
        (
            {"stream_options": {"include_obfuscation": True}},
            "stream_options.include_obfuscation",
        ),
        ({"tools": [{"type": "web_search"}]}, "tools.0.type"),
        ({"tools": [CRM]}, "tools.0.server_label"),
        ({"tools": [{**PAY, "server_url": "https://crm.example/mcp"}]}, "tools.0.server_url"),
        ({"tools": [{**PAY, "connector_id": "connector_gmail"}]}, "tools.0.connector_id"),
        ({"tools": [{**PAY, "require_approval": "always"}]}, "tools.0.require_approval"),
        (
            {"tools": [{**PAY, "require_approval": {"never": {"tool_names": ["pay"]}}}]},
            "tools.0.require_approval",
        ),
        (
            {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": []}},
            "tool_choice.type",
        ),
        (
            {"input": [message("user", [{"type": "input_file", "file_id": "file-1"}])]},
            "input.0.content.0.file_id",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(fields: Json, param: str, project: Project) -> None:
    error = refused(project, 400, "unsupported_parameter", **{"input": "x", **fields})
    assert error["param"] == param
    assert error["type"] == "invalid_request_error"
    assert error["message"].endswith((".", "omitted")), error["message"]
    assert param not in error["message"].split()[:1], error["message"]


HINTS: Json = {
    "user": "u1",
    "safety_identifier": "s1",
    "prompt_cache_key": "k1",
    "service_tier": "auto",
    "presence_penalty": 0,
    "frequency_penalty": 0,
}


@every
def test_settings_that_change_nothing_are_accepted_for_every_provider(speaker: Speaker) -> None:
    model = speaker.script(says(Text("Hi.")), says(Text("Hi.")))
    reasoning: Json = {"reasoning": {"summary": "auto"}, "text": {"verbosity": "low"}}
    made = create(speaker.project, message("user", "x"), model=model, **HINTS, **reasoning)
    messages = [{"role": "user", "content": "x"}]
    body = {"model": model, "messages": messages, **HINTS, "verbosity": "low", "top_logprobs": 0}
    other = speaker.project.client.call("POST", "/v1/chat/completions", body)
    assert (said(made), other["choices"][0]["message"]["content"]) == ("Hi.", "Hi.")


def test_a_setting_that_the_provider_does_not_know_is_left_out(project: Project) -> None:
    model = project.script(text("Hi."))
    made = create(
        project, message("user", "x"), model=model, user="u1", reasoning={"summary": "auto"}
    )
    [asked] = project.asked()
    assert asked.body["user"] == "u1"
    [dropped] = of_type(project.client.events(run_of(made)), "model.setting_dropped")
    assert dropped["setting"] == "model_settings.reasoning.summary"
    other = {"model": f"anthropic:{project.suffix}", "input": "x", "presence_penalty": 1}
    assert refused(project, 400, "invalid_value", **other)["param"] == "presence_penalty"


def test_the_detail_of_images_has_no_effect(project: Project) -> None:
    picture = {"type": "input_image", "image_url": "https://example.com/a.png", "detail": "low"}
    assert create(project, message("user", [picture]))["status"] == "completed"


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({}, "missing_required_parameter", "input"),
        ({"input": "x", "surprise": 1}, "unknown_parameter", "surprise"),
        ({"input": "x", "temperature": "hot"}, "invalid_value", "temperature"),
        ({"input": "x", "include": ["surprise"]}, "invalid_value", "include.0"),
        ({"input": "x", "temperature": 9}, "invalid_value", "temperature"),
        ({"input": "x", "user": ""}, "invalid_value", "user"),
        ({"input": "x", "text": {"verbosity": "loud"}}, "invalid_value", "text.verbosity"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "invalid_value", "input.0.id"),
        ({"input": [output_of("c", "x")]}, "invalid_value", "input"),
        ({"input": "x", "tools": [PAY]}, "unknown_tool", "tools.0"),
        ({"input": "x", "tools": [WEATHER, WEATHER]}, "invalid_value", "tools.1.name"),
        (
            {"input": "x", "tool_choice": {"type": "function", "name": "f"}},
            "invalid_value",
            "tool_choice",
        ),
        (
            {"input": [message("user", [{"type": "input_image", "image_url": "file:///x"}])]},
            "invalid_value",
            "input.0.content.0.image_url",
        ),
    ],
)
def test_what_is_wrong_is_named(fields: Json, code: str, param: str, project: Project) -> None:
    assert refused(project, 400, code, **fields)["param"] == param


def test_every_error_has_openai_s_shape(project: Project) -> None:
    client = project.client
    for method, path, status in (
        ("GET", "/v1/responses/resp_nothing", 404),
        ("GET", f"/v1/responses/resp_{'0' * 32}", 404),
        ("POST", f"/v1/responses/resp_{'0' * 32}/cancel", 404),
        ("GET", "/v1/responses/resp_x/nothing", 404),
        ("DELETE", f"/v1/responses/resp_{'0' * 32}", 404),
        ("GET", "/v1/responses?x=1", 405),
    ):
        answer = client.request(method, path)
        assert answer.status_code == status, path
        assert answer.json()["error"].keys() == {"message", "type", "param", "code"}
        assert answer.headers["x-request-id"]
    answer = client.request("POST", "/v1/responses", {}, headers={"Authorization": "Bearer no"})
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "invalid_api_key"
    made = create(project, message("user", "hello"))
    late = client.request("GET", f"/v1/responses/{made['id']}_3")
    assert late.status_code == 404
    reader = project.key("runs:read")
    assert reader.request("GET", f"/v1/responses/{made['id']}").status_code == 200
    denied = reader.request("POST", "/v1/responses", {"model": MODEL, "input": "x"})
    assert (denied.status_code, denied.json()["error"]["type"]) == (403, "permission_error")


def test_a_response_of_another_project_is_unknown(project: Project, other: Project) -> None:
    made = create(project, message("user", "hello"))
    assert other.client.request("GET", f"/v1/responses/{made['id']}").status_code == 404
    refused(other, 400, "previous_response_not_found", input="x", previous_response_id=made["id"])


# Functions that the client runs.


def test_a_run_goes_on_with_the_outputs_of_the_client_s_functions(project: Project) -> None:
    first = weather(project, "Rome", "Oslo")
    rome, oslo = first["output"]
    waiting = project.client.get_run(run_of(first))
    assert waiting["status"] == "requires_action"
    lacking = refused(
        project,
        400,
        "invalid_value",
        input=[output_of(rome["call_id"], "sun")],
        previous_response_id=first["id"],
    )
    assert lacking["message"] == f"No tool output found for function call {oslo['call_id']}."
    for wrong in ("hello", [message("user", "hello")], [output_of("other", "x")]):
        refused(project, 400, "invalid_value", input=wrong, previous_response_id=first["id"])
    answers = [output_of(rome["call_id"], "sun"), output_of(oslo["call_id"], "rain")]
    body = {"model": MODEL, "input": answers, "previous_response_id": first["id"]}
    status, second = post(project, body=body)
    assert status == 200
    assert "sun" in said(second)
    assert "rain" in said(second)
    assert run_of(second) == run_of(first)
    assert second["previous_response_id"] == first["id"]
    assert project.client.get_run(run_of(first))["output"] == said(second)
    assert get(project, first["id"]) == first
    assert post(project, body=body) == (200, second)
    other = [output_of(rome["call_id"], "snow"), answers[1]]
    refused(project, 409, "result_already_given", **(body | {"input": other}))


def test_messages_may_come_with_the_outputs(project: Project) -> None:
    first = weather(project, "Rome")
    [asked] = first["output"]
    second = create(
        project,
        output_of(asked["call_id"], "sun"),
        message("user", "thanks"),
        previous_response_id=first["id"],
    )
    assert '"thanks"' in said(second)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model", "openai:other"),
        ("instructions", "Other."),
        ("tools", []),
        ("temperature", 0.5),
        ("metadata", {"a": "b"}),
    ],
)
def test_a_run_that_goes_on_is_what_it_was(field: str, value: Any, project: Project) -> None:
    first = weather(project, "Rome", instructions="Say it.")
    body = {
        "input": [output_of(first["output"][0]["call_id"], "sun")],
        "previous_response_id": first["id"],
    }
    error = refused(project, 400, "invalid_value", **body, **{field: value})
    assert error["param"] == field
    same = {"tools": [WEATHER], "instructions": "Say it.", "model": MODEL}
    assert post(project, body={**same, **body})[0] == 200


def test_a_client_may_keep_the_conversation_itself(project: Project) -> None:
    first = weather(project, "Rome")
    history = [
        message("user", 'get_weather(location="Rome")'),
        *first["output"],
        output_of(first["output"][0]["call_id"], "sun"),
    ]
    second = create(project, *history, tools=[WEATHER])
    assert "get_weather returned: sun" in said(second)
    assert run_of(second) != run_of(first)
    third = create(project, *history, *second["output"], message("user", "bye"), tools=[WEATHER])
    assert '"bye"' in said(third)
    without = refused(project, 400, "invalid_value", input=history[:2])
    assert without["message"].startswith("No tool output found for function call")


def test_the_functions_of_a_namespace_keep_their_names_for_the_client(project: Project) -> None:
    find = WEATHER | {"name": "find"}
    update = WEATHER | {"name": "update", "defer_loading": True}
    crm: Json = {"type": "namespace", "name": "crm", "description": "Customers."}
    crm["tools"] = [find, update]
    asks = calls(call(1, "crm_find", '{"location":"Rome"}'))
    model = project.script(asks, text("One."), text("Two."))
    question = message("user", "Who lives in Rome?")
    first = create(project, question, model=model, tools=[crm, WEATHER])
    [item] = first["output"]
    assert (item["name"], item["namespace"]) == ("find", "crm")
    tools = {
        tool["function"]["name"]: tool["function"] for tool in project.asked()[-1].body["tools"]
    }
    assert set(tools) == {"crm_find", "get_weather", "search_tools"}
    assert tools["crm_find"]["description"] == "Customers.\n\nThe weather at a place."
    assert [tool["type"] for tool in first["tools"]] == ["namespace", "function"]
    shown = first["tools"][0]
    assert (shown["name"], shown["description"]) == ("crm", "Customers.")
    assert (shown["tools"][0]["name"], shown["tools"][0]["description"]) == (
        find["name"],
        find["description"],
    )
    output = output_of(item["call_id"], "Anna")
    whole = create(project, question, item, output, model=model, tools=[crm, WEATHER])
    [asked] = project.asked()[-1].messages[1]["tool_calls"]
    assert (said(whole), asked["function"]["name"]) == ("One.", "crm_find")
    fields: Json = {"model": model, "previous_response_id": first["id"]}
    changed = [crm | {"name": "sales"}, WEATHER]
    error = refused(project, 400, "invalid_value", input=[output], **fields, tools=changed)
    assert error["param"] == "tools"
    second = create(project, output, **fields, tools=[crm, WEATHER])
    assert said(second) == "Two."


def test_a_namespace_is_checked_function_by_function(project: Project) -> None:
    crm: Json = {"type": "namespace", "name": "crm", "description": "Customers."}
    for names, param in (
        (["find", "f" * 61], "tools.1.tools.1.name"),
        (["find", "find"], "tools.1.tools.1.name"),
        (["weather"], "tools.1.tools.0.name"),
        ([f"f{n}" for n in range(128)], "tools"),
    ):
        functions = [WEATHER | {"name": name} for name in names]
        tools = [WEATHER | {"name": "crm_weather"}, crm | {"tools": functions}]
        assert refused(project, 400, "invalid_value", input="x", tools=tools)["param"] == param


def test_a_client_refers_to_items_instead_of_sending_them(project: Project, other: Project) -> None:
    """As the AI SDK does by default."""
    project.tool("pay")
    asks = message("user", 'pay(x="5") get_weather(location="Rome")')
    first = create(project, asks, tools=[PAY, WEATHER])
    paid, asked = first["output"]
    history = [
        asks,
        {"type": "item_reference", "id": paid["id"]},
        {"type": "item_reference", "id": asked["id"]},
        output_of(asked["call_id"], "sun"),
    ]
    second = create(project, *history, tools=[WEATHER])
    assert "get_weather returned: sun" in said(second)
    last = {"type": "item_reference", "id": second["output"][-1]["id"]}
    model = project.script(text("Bye."))
    create(project, *history, last, message("user", "bye"), model=model)
    heard = project.asked()[-1].messages
    assert [one["role"] for one in heard] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]
    body = {"input": [message("user", "x"), last]}
    assert refused(other, 400, "invalid_value", **body)["param"] == "input.1.id"


def test_the_model_sees_history_with_every_result_behind_its_calls(project: Project) -> None:
    model = project.script(text("Fine."))
    two = [
        {"type": "function_call", "call_id": one, "name": "f", "arguments": "{}"} for one in "ab"
    ]
    results = [output_of("b", "B"), output_of("a", "A")]
    create(project, message("user", "go"), *two, *results, message("user", "so?"), model=model)
    [asked] = project.asked()
    roles = [one["role"] for one in asked.messages]
    assert roles == ["user", "assistant", "tool", "tool", "user"]
    assert asked.results == [("a", "A"), ("b", "B")]


def test_a_registered_tool_of_the_client_is_a_function_call(project: Project) -> None:
    tool: Json = {
        "name": "look",
        "type": "client",
        "parameters": {"type": "object", "properties": {}},
    }
    project.client.call("POST", "/v1/tools", {**tool, "strict": False})
    tools = [{**PAY, "allowed_tools": {"tool_names": ["look"]}}]
    first = create(project, message("user", "look()"), tools=tools)
    [asked] = first["output"]
    assert (asked["type"], asked["name"]) == ("function_call", "look")
    second = create(project, output_of(asked["call_id"], "x"), previous_response_id=first["id"])
    assert "look returned: x" in said(second)


def test_the_fields_of_an_mcp_server_change_nothing_for_registered_tools(project: Project) -> None:
    """The AI SDK requires `serverUrl` and sends `require_approval`."""
    project.tool("pay", approval="always")
    tools = [{**PAY, "server_url": "runward", "require_approval": "never"}]
    first = create(project, message("user", 'pay(x="5")'), tools=tools)
    [asked] = first["output"]
    assert (asked["type"], asked["server_label"]) == ("mcp_approval_request", "runward")
    assert first["tools"] == [PAY]
    assert project.hits("pay") == []


def test_calls_that_the_client_could_not_run_are_never_shown_to_it(project: Project) -> None:
    model = project.script(calls(call(1, "get_weather", '{"wrong": 1}')), text("Sorry."))
    made = create(project, message("user", "go"), model=model, tools=[WEATHER])
    assert [item["type"] for item in made["output"]] == ["message"]


def test_a_client_runs_its_own_handoffs(project: Project) -> None:
    transfer = {**WEATHER, "name": "transfer_to_billing_agent", "parameters": None}
    first = create(project, message("user", "transfer_to_billing_agent()"), tools=[transfer])
    [asked] = first["output"]
    assert (asked["type"], asked["name"]) == ("function_call", "transfer_to_billing_agent")
    handed = output_of(asked["call_id"], '{"assistant": "billing_agent"}')
    second = create(project, handed, previous_response_id=first["id"])
    assert "billing_agent" in said(second)
    history = [message("user", "transfer_to_billing_agent()"), *first["output"], handed]
    assert create(project, *history, tools=[WEATHER])["status"] == "completed"
    search = {**transfer, "name": "search_tools"}
    error = refused(project, 400, "invalid_value", input="x", tools=[search])
    assert error["param"] == "tools.0.name"


def test_a_function_cannot_replace_a_handoff_of_its_agent(project: Project) -> None:
    for agent in (
        {"name": "billing", "model": MODEL},
        {"name": "triage", "model": MODEL, "handoffs": ["billing"]},
    ):
        project.client.call("POST", "/v1/agents", agent)
    transfer = {**WEATHER, "name": "transfer_to_billing"}
    error = refused(project, 400, "invalid_value", model="triage", input="x", tools=[transfer])
    assert "handoff" in error["message"]
    create(project, message("user", "hello"), model="billing", tools=[transfer])


# Approvals.


def test_a_person_is_asked_by_the_response_and_answers_with_the_next(project: Project) -> None:
    first = asks_to_pay(project, "5")
    [asked] = first["output"]
    assert asked["type"] == "mcp_approval_request"
    assert (asked["name"], json.loads(asked["arguments"])) == ("pay", {"x": "5"})
    assert first["status"] == "completed"
    assert project.hits("pay") == []
    second = create(project, decision(asked), previous_response_id=first["id"])
    paid, answer = second["output"]
    assert (paid["type"], paid["approval_request_id"]) == ("mcp_call", asked["id"])
    assert (paid["output"], answer["type"]) == ("pay(5)", "message")
    assert len(project.hits("pay")) == 1
    approval = project.client.call("GET", f"/v1/approvals/{asked['id']}")
    assert approval["status"] == "approved"
    assert approval["decided_by"].startswith("key_")
    assert create(project, decision(asked), previous_response_id=first["id"]) == second
    assert len(project.hits("pay")) == 1


def test_a_refusal_and_its_reason_reach_the_model(project: Project) -> None:
    first = asks_to_pay(project, "5")
    [asked] = first["output"]
    answer = decision(asked, approve=False, reason="Too much.")
    second = create(project, answer, previous_response_id=first["id"])
    [declined, message_] = second["output"]
    assert declined["status"] == "failed"
    assert "Too much." in json.dumps(declined["error"])
    assert "Too much." in message_["content"][0]["text"]
    assert project.hits("pay") == []


def test_two_questions_may_be_answered_one_by_one(project: Project) -> None:
    first = asks_to_pay(project, "1", "2")
    one, two = first["output"]
    second = create(project, decision(one), previous_response_id=first["id"])
    assert [item["type"] for item in second["output"]] == ["mcp_call", "mcp_approval_request"]
    assert second["output"][1]["id"] == two["id"]
    third = create(project, decision(two), previous_response_id=second["id"])
    assert [item["type"] for item in third["output"]] == ["mcp_call", "message"]
    assert third["previous_response_id"] == second["id"]


def test_deciding_needs_its_scope(project: Project) -> None:
    first = asks_to_pay(project, "5")
    body = {
        "model": MODEL,
        "input": [decision(first["output"][0])],
        "previous_response_id": first["id"],
    }
    denied = project.key("runs:write").request("POST", "/v1/responses", body)
    assert denied.status_code == 403
    assert "approvals:decide" in denied.json()["error"]["message"]
    unanswered = refused(
        project, 400, "invalid_value", input="and?", previous_response_id=first["id"]
    )
    assert first["output"][0]["id"] in unanswered["message"]
    other = decision({"id": "apr_" + "0" * 32})
    refused(project, 400, "invalid_value", input=[other], previous_response_id=first["id"])


def test_a_decision_made_elsewhere_is_what_the_next_response_shows(project: Project) -> None:
    first = asks_to_pay(project, "5")
    [asked] = first["output"]
    project.client.decide(asked["id"], "reject", message="Not today.")
    project.client.settle(run_of(first))
    second = create(project, decision(asked), previous_response_id=first["id"])
    assert "Not today." in said(second)
    assert project.hits("pay") == []


def test_a_function_and_a_question_of_one_turn_are_answered_together(project: Project) -> None:
    project.tool("pay", approval="always")
    asks = message("user", 'pay(x="5") get_weather(location="Rome")')
    first = create(project, asks, tools=[PAY, WEATHER])
    question, function = first["output"]
    project.client.decide(question["id"], "approve")
    project.wait_for_hits("pay")
    project.client.settle(run_of(first))
    answer = output_of(function["call_id"], "sun")
    second = create(project, answer, decision(question), previous_response_id=first["id"])
    assert "sun" in said(second)
    assert "function_call" not in [item["type"] for item in second["output"]]


# Conversations.


def test_a_conversation_goes_on_from_a_response_that_has_ended(project: Project) -> None:
    model = project.script(text("Hello Alice."), text("Alice."))
    first = create(project, message("user", "I am Alice."), model=model)
    second = create(
        project, message("user", "Who am I?"), model=model, previous_response_id=first["id"]
    )
    assert second["previous_response_id"] == first["id"]
    heard = [one["content"] for one in project.asked()[-1].messages]
    assert heard == ["I am Alice.", "Hello Alice.", "Who am I?"]
    assert project.client.get_run(run_of(second))["continued_from"] == run_of(first)


def test_the_oldest_items_are_dropped_if_the_client_asks_for_truncation(project: Project) -> None:
    """The window of this model has 8,192 tokens."""
    project.model.script("gpt-4", text("Alice."), text("Alice."))
    items = [
        message("system", "Be brief."),
        message("user", "x" * 30_000),
        message("assistant", "Noted."),
        message("user", "Who am I?"),
    ]
    cut = create(project, *items, model="openai:gpt-4", truncation="auto")
    whole = create(project, *items, model="openai:gpt-4")
    first, second = project.model.requests("gpt-4")
    assert [one["content"] for one in first.messages] == ["Be brief.", "Who am I?"]
    assert len(second.messages) == 4
    assert (cut["truncation"], whole["truncation"]) == ("auto", "disabled")
    [dropped] = of_type(project.client.events(run_of(cut)), "model.setting_dropped")
    assert dropped["setting"] == "input"
    assert "2 oldest items" in dropped["reason"]
    unknown = project.script(text("Hi."))
    create(project, *items, model=unknown, truncation="auto")
    assert len(project.asked()[0].messages) == 4


def test_input_items_are_what_the_response_was_given(project: Project) -> None:
    first = weather(project, "Rome")
    answer = output_of(first["output"][0]["call_id"], "sun")
    second = create(project, answer, previous_response_id=first["id"])
    third = create(project, message("user", "bye"), previous_response_id=second["id"])
    found: dict[str, list[str]] = {}
    for one in (first, second, third):
        path = f"/v1/responses/{one['id']}/input_items"
        page = project.client.call("GET", path, order="asc")
        for item in page["data"]:
            shapes.input_item(item)
        found[one["id"]] = [item["type"] for item in page["data"]]
    assert list(found.values()) == [
        ["message"],
        ["function_call_output"],
        ["message", "function_call", "function_call_output", "message", "message"],
    ]


def test_input_items_have_the_message_that_came_with_an_approval(project: Project) -> None:
    first = asks_to_pay(project, "5")
    run = run_of(first)
    project.client.call("POST", f"/v1/runs/{run}/input", {"input": "By the way."})
    answer = [decision(first["output"][-1]), message("user", "And thanks.")]
    second = create(project, *answer, previous_response_id=first["id"])
    path = f"/v1/responses/{second['id']}/input_items"
    shown = project.client.call("GET", path, order="asc")["data"]
    for item in shown:
        shapes.input_item(item)
    assert [item["type"] for item in shown] == ["mcp_approval_response", "message", "message"]
    assert [item["content"][0]["text"] for item in shown[1:]] == ["By the way.", "And thanks."]


def test_a_session_is_a_conversation(project: Project) -> None:
    session = project.client.call("POST", "/v1/sessions", {})
    model = project.script(text("Hello Alice."), text("Alice."))
    first = create(project, message("user", "I am Alice."), model=model, conversation=session["id"])
    assert first["conversation"] == {"id": session["id"]}
    create(project, message("user", "Who am I?"), model=model, conversation={"id": session["id"]})
    assert len(project.asked()[-1].messages) == 3
    refused(project, 400, "invalid_value", input="x", previous_response_id=first["id"])
    refused(project, 404, "session_not_found", input="x", conversation="sess_nothing")


def test_what_a_run_of_a_session_asks_its_client_is_answered_like_elsewhere(
    project: Project,
) -> None:
    session = project.client.call("POST", "/v1/sessions", {})
    first = weather(project, "Rome", conversation=session["id"])
    answer = output_of(first["output"][0]["call_id"], "sun")
    second = create(project, answer, previous_response_id=first["id"])
    assert "sun" in said(second)
    assert second["conversation"] == {"id": session["id"]}


def test_a_sealed_conversation_opens_in_its_project_alone(project: Project, other: Project) -> None:
    body = {"model": MODEL, "input": [message("user", "I am Alice.")]}
    _, made = post(project, "/compact", body)
    [item] = made["output"]
    assert "Alice" not in item["encrypted_content"]
    model = project.script(text("Alice."))
    create(project, item, message("user", "Who am I?"), model=model)
    heard = [one["content"] for one in project.asked()[-1].messages]
    assert heard == ["I am Alice.", "Who am I?"]
    refused(other, 400, "invalid_value", input=[item, message("user", "x")])
    altered = {**item, "encrypted_content": "A" + item["encrypted_content"][1:]}
    refused(project, 400, "invalid_value", input=[altered, message("user", "x")])
    status, unknown = post(project, "/compact", {"model": "nobody", "input": "x"})
    assert (status, unknown["error"]["code"]) == (404, "model_not_found")


# In the background, and streamed.


def test_a_response_in_the_background_is_answered_at_once(project: Project) -> None:
    project.tool("pay", Behaviour(hold=project.tool_key("gate")))
    body = {
        "model": MODEL,
        "input": 'pay(x="5")',
        "tools": [PAY],
        "background": True,
    }
    status, made = post(project, body=body)
    assert (status, made["background"]) == (200, True)
    assert shapes.response(made)["status"] in ("queued", "in_progress")
    project.wait_for_hits("pay")
    early = refused(project, 400, "invalid_value", input="x", previous_response_id=made["id"])
    assert "in_progress" in early["message"]
    project.tools.hold(project.tool_key("gate")).release()
    project.client.settle(run_of(made))
    assert "pay returned" in said(get(project, made["id"]))


def test_a_stream_that_was_cut_goes_on_where_it_stopped(project: Project) -> None:
    project.tool("pay", Behaviour(hold=project.tool_key("cut")))
    body = {
        "model": MODEL,
        "input": 'pay(x="5")',
        "tools": [PAY],
        "background": True,
        "stream": True,
    }
    seen: list[Json] = []
    with project.client.streaming("POST", "/v1/responses", body) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: "):
                seen.append(json.loads(line.removeprefix("data: ")))
                if seen[-1]["type"] == "response.mcp_call_arguments.done":
                    break
    assert seen[1]["type"] == "response.queued"
    project.wait_for_hits("pay")
    project.tools.hold(project.tool_key("cut")).release()
    project.client.settle(run_of(seen[0]["response"]))
    path = f"/v1/responses/{seen[0]['response']['id']}"
    whole = events_after(project, path, None)
    assert whole[: len(seen)] == seen
    assert seen + events_after(project, path, seen[-1]["sequence_number"]) == whole
    shapes.events(whole)
    for n in range(len(whole)):
        assert events_after(project, path, whole[n]["sequence_number"]) == whole[n + 1 :]


def test_text_is_shown_while_it_is_written_and_a_cut_reader_is_given_the_rest(
    project: Project,
) -> None:
    words = "One two three four five six seven eight."
    hold = Hold()
    model = project.script(Answer(text=words, pieces=4, hold=hold, hold_after=3))
    body = {"model": model, "input": "Count.", "stream": True, "background": True}
    seen: list[Json] = []
    with project.client.streaming("POST", "/v1/responses", body) as answer:
        read_until_text(answer.iter_lines(), seen)
    hold.arrived()
    shown = written(seen)
    assert shown
    assert shown != words
    path = f"/v1/responses/{seen[0]['response']['id']}"
    number = seen[-1]["sequence_number"]
    late: list[Json] = []
    with project.client.streaming("GET", f"{path}?stream=true") as answer:
        lines = answer.iter_lines()
        read_until_text(lines, late)
        assert words.startswith(written(late))
        hold.release()
        after = events_after(project, path, number)
        assert written(seen + after) == words
        late += parsed(lines)
    shapes.events(seen + after)
    shapes.events(late)
    assert shapes.events(events_after(project, path, None))[-1] == late[-1] == after[-1]


def read_until_text(lines: Iterator[str], into: list[Json]) -> None:
    for line in lines:
        if line.startswith("data: "):
            into.append(json.loads(line.removeprefix("data: ")))
            if into[-1]["type"] == "response.output_text.delta":
                return


def written(events: list[Json]) -> str:
    pieces = [one["delta"] for one in events if one["type"] == "response.output_text.delta"]
    return "".join(pieces)


def events_after(project: Project, path: str, number: int | None) -> list[Json]:
    after = "" if number is None else f"&starting_after={number}"
    with project.client.streaming("GET", f"{path}?stream=true{after}") as answer:
        assert answer.status_code == 200
        return parsed(answer.iter_lines())


def test_calls_that_runward_runs_are_streamed(project: Project) -> None:
    project.tool("pay")
    events = stream(project, message("user", 'pay(x="5")'), tools=[PAY])
    assert [event["type"] for event in events[2:8]] == [
        "response.output_item.added",
        "response.mcp_call.in_progress",
        "response.mcp_call_arguments.delta",
        "response.mcp_call_arguments.done",
        "response.mcp_call.completed",
        "response.output_item.done",
    ]


def test_a_wait_for_a_tool_is_no_end(project: Project) -> None:
    project.tool("pay", Behaviour("later"))
    body = {"model": MODEL, "input": 'pay(x="5")', "tools": [PAY], "background": True}
    _, made = post(project, body=body)
    [hit] = project.wait_for_hits("pay")
    project.until({"id": run_of(made)}, "tool_call.progress")
    assert get(project, made["id"])["status"] == "in_progress"
    call_back(hit, status="completed", output="paid")
    project.client.settle(run_of(made), frozenset({"completed"}))
    assert "paid" in said(get(project, made["id"]))


def test_cancelling_ends_the_run(project: Project) -> None:
    project.tool("pay", Behaviour(hold=project.tool_key("never")))
    body = {"model": MODEL, "input": 'pay(x="5")', "tools": [PAY], "background": True}
    _, made = post(project, body=body)
    project.wait_for_hits("pay")
    for _ in range(2):
        status, cancelled = post(project, f"/{made['id']}/cancel")
        assert (status, shapes.response(cancelled)["status"]) == (200, "cancelled")
    project.tools.hold(project.tool_key("never")).release()
    done = create(project, message("user", "hello"))
    status, late = post(project, f"/{done['id']}/cancel")
    assert (status, late["error"]["code"]) == (409, "run_ended")
    events = events_after(project, f"/v1/responses/{made['id']}", None)
    assert shapes.events(events)[-1]["type"] == "response.incomplete"


def test_how_runs_end_is_told(project: Project) -> None:
    refusal = project.script(Answer(refusal="I will not."))
    [item] = create(project, message("user", "x"), model=refusal)["output"]
    assert item["content"] == [{"type": "refusal", "refusal": "I will not."}]
    lost = project.script(HttpError(401), name="lost")
    events = stream(project, message("user", "x"), model=lost)
    assert events[-1]["type"] == "response.failed"
    assert events[-1]["response"]["error"]["message"].startswith("model_unauthorized: ")
    project.tool("pay")
    model = project.script(calls(call(1, "pay")), name="limited")
    stopped = create(project, message("user", "x"), model=model, tools=[PAY], max_tool_calls=0)
    assert stopped["status"] == "incomplete", stopped["error"]
    assert stopped["incomplete_details"]["code"] == "max_tool_calls"


def test_the_same_key_makes_one_response(project: Project) -> None:
    body = {"model": MODEL, "input": "hello"}
    answers = [
        project.client.request("POST", "/v1/responses", body, headers={"Idempotency-Key": "k1"})
        for _ in range(2)
    ]
    assert answers[0].json() == answers[1].json()
    assert answers[1].headers["Idempotent-Replayed"] == "true"
    first = weather(project, "Rome")
    body = {
        "model": MODEL,
        "input": [output_of(first["output"][0]["call_id"], "sun"), message("user", "ok")],
        "previous_response_id": first["id"],
    }
    answers = [
        project.client.request("POST", "/v1/responses", body, headers={"Idempotency-Key": "k2"})
        for _ in range(2)
    ]
    assert answers[0].json() == answers[1].json()
    status, mismatch = post(
        project, body={"model": MODEL, "input": "x"}, **{"Idempotency-Key": "k2"}
    )
    assert (status, mismatch["error"]["code"]) == (400, "idempotency_key_reused")
