"""Chat completions with OpenAI's own SDK, unmodified and with its default settings."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from openai import (
    APIError,
    APIStatusError,
    BadRequestError,
    ConflictError,
    InternalServerError,
    NotFoundError,
    OpenAI,
)
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic import BaseModel, TypeAdapter

from tests.api.project import Project, call, meanwhile, types_of
from tests.support.models.chat_server import Answer, HttpError, calls, text
from tests.support.services.client import Json
from tests.support.serving import Hold

MODEL = "offline:rules"
WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Returns the weather.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
PAY: Any = {"type": "mcp", "server_label": "runward", "allowed_tools": ["pay"]}


@pytest.fixture
def sdk(project: Project) -> Iterator[OpenAI]:
    url = f"{project.client.url}/v1"
    with OpenAI(base_url=url, api_key=project.client.key) as client:
        yield client


def untyped(sdk: OpenAI) -> Any:
    """For parameters and results whose types the SDK's overloads do not know."""
    return sdk.chat.completions


def user(content: str) -> Any:
    return {"role": "user", "content": content}


def whole(chunks: list[ChatCompletionChunk]) -> str:
    choices = [one for chunk in chunks for one in chunk.choices]
    return "".join(one.delta.content or "" for one in choices)


def wait_for_approvals(project: Project) -> list[Json]:
    """The approvals of the newest run, as soon as it waits for them."""
    project.model.wait_for(project.model_name(), 1)
    [run] = project.client.call("GET", "/v1/runs")["data"]
    project.settle(run)
    return project.client.approvals(run_id=run["id"])


def checked(completion: ChatCompletion) -> Json:
    """The completion, held strictly against OpenAI's type."""
    shown = completion.model_dump(mode="json")
    TypeAdapter(ChatCompletion).validate_python(shown, strict=True)
    return shown


def test_a_completion_is_a_run(project: Project, sdk: OpenAI) -> None:
    model = project.script(text("Hello."))
    answer = sdk.chat.completions.with_raw_response.create(
        model=model, messages=[{"role": "system", "content": "Be brief."}, user("Hi")]
    )
    made = answer.parse()
    run = project.client.get_run(answer.headers["Runward-Run-Id"])
    assert made.id == run["id"].replace("run_", "chatcmpl-")
    assert (run["status"], run["output"]) == ("completed", "Hello.")
    [choice] = made.choices
    assert (choice.message.content, choice.finish_reason) == ("Hello.", "stop")
    assert made.model == model
    assert made.usage is not None
    assert made.usage.total_tokens == run["usage"]["input_tokens"] + run["usage"]["output_tokens"]
    checked(made)
    [asked] = project.asked()
    assert [one["content"] for one in asked.body["messages"]] == ["Be brief.", "Hi"]


def test_a_stream_has_the_same_content(project: Project, sdk: OpenAI) -> None:
    project.tool("pay")
    replies = (Answer(text="I pay.", calls=(call(1, "pay"),)), text("It is paid."))
    model = project.script(*replies)
    options: Any = {"include_usage": True}
    stream = sdk.chat.completions.create(
        model=model, messages=[user("Pay")], tools=[PAY], stream=True, stream_options=options
    )
    chunks = list(stream)
    for chunk in chunks:
        TypeAdapter(ChatCompletionChunk).validate_python(chunk.model_dump(), strict=True)
    assert whole(chunks) == "I pay.\n\nIt is paid."
    reasons = [one.finish_reason for chunk in chunks for one in chunk.choices]
    assert reasons == [None] * (len(reasons) - 1) + ["stop"]
    assert (chunks[-1].choices, chunks[-2].usage) == ([], None)
    usage = chunks[-1].usage
    run = project.client.get_run(chunks[0].id.replace("chatcmpl-", "run_"))
    assert usage is not None
    assert usage.prompt_tokens == run["usage"]["input_tokens"]
    assert [one["tool"] for one in project.client.tool_calls(run["id"])] == ["pay"]
    model = project.script(*replies, name="again")
    made = sdk.chat.completions.create(model=model, messages=[user("Pay")], tools=[PAY])
    assert made.choices[0].message.content == whole(chunks)


@pytest.mark.parametrize("streamed", [False, True])
def test_functions_come_back_as_tool_calls(
    project: Project, sdk: OpenAI, *, streamed: bool
) -> None:
    asked = calls(
        call(1, "get_weather", '{"city":"Rome"}'), call(2, "get_weather", '{"city":"Oslo"}')
    )
    model = project.script(asked, text("Sun and snow."))
    messages: list[Any] = [user("Weather?")]
    about: Any = {"model": model, "tools": [WEATHER]}
    made: Any
    if streamed:
        with untyped(sdk).stream(messages=messages, **about) as stream:
            stream.until_done()
            made = stream.get_final_completion()
    else:
        made = untyped(sdk).create(messages=messages, **about)
    [choice] = made.choices
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
    assert [json.loads(one.function.arguments) for one in choice.message.tool_calls] == [
        {"city": "Rome"},
        {"city": "Oslo"},
    ]
    first = project.client.get_run(made.id.replace("chatcmpl-", "run_"))
    assert first["status"] == "cancelled"
    messages.append(choice.message)
    messages += [
        {"role": "tool", "tool_call_id": one.id, "content": "fine"}
        for one in choice.message.tool_calls
    ]
    after: Any = untyped(sdk).create(messages=messages, **about)
    assert after.choices[0].message.content == "Sun and snow."
    assert after.id != made.id
    assert project.asked()[1].results == [("c1", "fine"), ("c2", "fine")]


def test_the_model_sees_what_runward_ran_in_earlier_completions(
    project: Project, sdk: OpenAI, other: Project
) -> None:
    project.tool("pay")
    both = calls(call(2, "pay", '{"x":"2"}'), call(3, "get_weather", '{"city":"Rome"}'))
    replies = (Answer(text="I pay.", calls=(call(1, "pay", '{"x":"1"}'),)), both)
    model = project.script(*replies, *[text("Sun.")] * 3)
    about: Any = {"model": model, "tools": [PAY, WEATHER]}
    messages: list[Any] = [user("Pay, and tell me the weather.")]
    first: Any = untyped(sdk).create(messages=messages, **about)
    said = first.choices[0].message
    run = project.client.get_run(first.id.replace("chatcmpl-", "run_"))
    assert run["status"] == "cancelled"
    given = {one["call_id"]: one["reason"] for one in project.client.tool_calls(run["id"])}
    assert given == {"c1": None, "c2": None, "c3": "returned_to_client"}
    [shown] = said.tool_calls
    result = {"role": "tool", "tool_call_id": shown.id, "content": "sun"}
    untyped(sdk).create(messages=[*messages, said, result], **about)
    before, after = project.asked()[1].body["messages"], project.asked()[2].body["messages"]
    assert after[: len(before)] == before
    assert project.asked()[2].results == [("c1", "pay(1)"), ("c2", "pay(2)"), ("c3", "sun")]
    changed = {**said.model_dump(), "content": "I did nothing."}
    untyped(sdk).create(messages=[*messages, changed, result], **about)
    assert project.asked()[3].results == [
        ("c1", "pay(1)"),
        ("c2", "pay(2)"),
        (shown.id, "sun"),
    ]
    assert "I did nothing." in json.dumps(project.asked()[3].body["messages"])
    assert "I pay." not in json.dumps(project.asked()[3].body["messages"])
    assert len(project.hits("pay")) == 2
    body = {"model": model, "messages": [*messages, said.model_dump(), result]}
    stranger = other.client.request("POST", "/v1/chat/completions", body)
    assert stranger.status_code == 200
    assert project.asked()[4].results == [(shown.id, "sun")]


def test_several_earlier_completions_are_restored_in_order(project: Project, sdk: OpenAI) -> None:
    project.tool("pay")
    turn = (calls(call(1, "pay")), calls(call(2, "get_weather", '{"city":"Rome"}')))
    about: Any = {"model": project.script(*turn, *turn, text("Done.")), "tools": [PAY, WEATHER]}
    messages: list[Any] = [user("Pay")]
    for n in range(2):
        made: Any = untyped(sdk).create(messages=messages, **about)
        [shown] = made.choices[0].message.tool_calls
        messages += [
            made.choices[0].message,
            {"role": "tool", "tool_call_id": shown.id, "content": f"sun {n}"},
        ]
    made = untyped(sdk).create(messages=messages, **about)
    assert made.choices[0].message.content == "Done."
    texts = [result for _, result in project.asked()[4].results]
    assert texts == ["pay(1)", "sun 0", "pay(1)", "sun 1"]
    unknown = f"fc_{'0' * 32}_7"
    messages[1] = messages[1].model_dump()
    messages[1]["tool_calls"][0]["id"] = messages[2]["tool_call_id"] = unknown
    model = project.script(text("Fine."), name="other")
    untyped(sdk).create(messages=messages, **about | {"model": model})
    texts = [result for _, result in project.asked("other")[0].results]
    assert texts == ["sun 0", "pay(1)", "sun 1"]


@pytest.mark.parametrize("streamed", [False, True])
def test_an_approval_holds_the_request(project: Project, sdk: OpenAI, *, streamed: bool) -> None:
    project.tool("pay", approval="always")
    both = calls(call(1, "pay"), call(2, "get_weather", '{"city":"Rome"}'))
    about: Any = {
        "model": project.script(both, text("Paid.")),
        "messages": [user("Pay")],
        "tools": [PAY, WEATHER],
        "stream": streamed,
    }

    def ask() -> Any:
        made: Any = untyped(sdk).create(**about)
        if not streamed:
            return made.choices[0].message.tool_calls
        return [call for chunk in made for call in chunk.choices[0].delta.tool_calls or ()]

    with meanwhile(ask) as answer:
        [hold] = wait_for_approvals(project)
        project.client.decide(hold["id"], "approve")
        [asked] = answer.result(30)
    assert asked.function.name == "get_weather"
    assert len(project.hits("pay")) == 1


def test_an_agent_takes_the_settings_of_a_client(project: Project, sdk: OpenAI) -> None:
    project.tool("pay")
    model = project.script(calls(call(1, "pay")), text('{"paid": true}'), text("Again."))
    agent = {"name": "clerk", "model": model, "tools": ["pay"], "instructions": "Pay."}
    project.client.call("POST", "/v1/agents", agent)

    class Receipt(BaseModel):
        paid: bool

    made = sdk.chat.completions.parse(
        model="clerk", messages=[user("Pay")], temperature=0.1, response_format=Receipt
    )
    assert made.choices[0].message.parsed == Receipt(paid=True)
    assert [one.body["temperature"] for one in project.asked()] == [0.1, 0.1]
    with pytest.raises(BadRequestError, match="defines its own tools"):
        sdk.chat.completions.create(model="clerk", messages=[user("Pay")], tools=[PAY])


def test_every_setting_reaches_the_model(project: Project, sdk: OpenAI) -> None:
    sdk.chat.completions.create(
        model=project.script(text('{"a": 1}')),
        messages=[user("Hi")],
        max_tokens=7,
        stop=["x"],
        seed=3,
        top_p=0.5,
        reasoning_effort="low",
        response_format={"type": "json_object"},
        tools=[WEATHER],
        tool_choice={"type": "function", "function": {"name": "get_weather"}},
        metadata={"order": "7"},
        user="u",
    )
    [asked] = project.asked()
    body = asked.body
    assert (body["stop"], body["seed"], body["top_p"], body["user"]) == (["x"], 3, 0.5, "u")
    assert body["reasoning_effort"] == "low"
    assert 7 in (body.get("max_tokens"), body.get("max_completion_tokens"))
    assert body["tool_choice"]["function"]["name"] == "get_weather"
    assert project.client.call("GET", "/v1/runs")["data"][0]["metadata"] == {"order": "7"}


def test_files_reach_the_model(project: Project, sdk: OpenAI) -> None:
    given = {"file_data": "data:application/pdf;base64,aWNvbg==", "filename": "a.pdf"}
    parts: Any = [{"type": "text", "text": "Read it."}, {"type": "file", "file": given}]
    model = project.script(text("Read."))
    made = sdk.chat.completions.create(model=model, messages=[user(parts)])
    assert made.choices[0].message.content == "Read."
    assert given["file_data"] in json.dumps(project.asked()[0].body["messages"])
    parts[1]["file"] = {"file_id": "file-1"}
    with pytest.raises(BadRequestError) as refused:
        sdk.chat.completions.create(model=model, messages=[user(parts)])
    assert "messages.0.content.1.file.file_id" in refused.value.message


def test_how_a_completion_ends(project: Project, sdk: OpenAI) -> None:
    refused = sdk.chat.completions.create(
        model=project.script(Answer(refusal="No."), name="refusing"), messages=[user("Hi")]
    )
    [choice] = refused.choices
    assert (choice.message.refusal, choice.message.content) == ("No.", None)
    agent = {
        "name": "brief",
        "model": project.script(calls(call(1, "pay")), name="paying"),
        "tools": ["pay"],
    }
    project.tool("pay")
    project.client.call("POST", "/v1/agents", {**agent, "limits": {"max_turns": 1}})
    made: Any = sdk.chat.completions.create(model="brief", messages=[user("Hi")])
    assert checked(made)["choices"][0]["finish_reason"] == "length"
    model = project.script(HttpError(400, "bad"), HttpError(400, "bad"))
    for streamed in (False, True):
        with pytest.raises(APIError, match=r"run_[0-9a-f]{32} failed with model_") as failed:
            made = sdk.chat.completions.create(model=model, messages=[user("Hi")], stream=streamed)
            list(made)
        if isinstance(failed.value, APIStatusError):
            assert isinstance(failed.value, InternalServerError)
            assert failed.value.response.headers["x-should-retry"] == "false"
    assert len(project.asked()) == 2


def test_a_stream_whose_text_is_repeated_ends_with_an_error(project: Project, sdk: OpenAI) -> None:
    hold = Hold()
    cut = Answer(text="One two three", hold=hold, hold_after=2, cut_after=3)
    model = project.script(cut, text("Other."))
    made = sdk.chat.completions.create(model=model, messages=[user("Hi")], stream=True)
    first = next(chunk for chunk in made if chunk.choices[0].delta.content)
    hold.release()
    with pytest.raises(APIError, match="repeated a model request"):
        list(made)
    run = project.settle({"id": first.id.replace("chatcmpl-", "run_")})
    assert run["output"] == "Other."


def test_a_cancelled_run_is_an_error(project: Project, sdk: OpenAI) -> None:
    project.tool("pay", approval="always")

    def ask() -> Any:
        model = project.script(calls(call(1, "pay")))
        return sdk.chat.completions.create(model=model, messages=[user("Pay")], tools=[PAY])

    with meanwhile(ask) as answer:
        [hold] = wait_for_approvals(project)
        project.client.cancel(hold["run_id"])
        with pytest.raises(ConflictError, match="was cancelled"):
            answer.result(30)


def test_a_key_gives_the_same_run_again(project: Project, sdk: OpenAI) -> None:
    model = project.script(calls(call(1, "get_weather", '{"city":"Rome"}')))
    made = [
        sdk.chat.completions.create(
            model=model,
            messages=[user("Weather?")],
            tools=[WEATHER],
            extra_headers={"Idempotency-Key": "k1"},
        )
        for _ in range(2)
    ]
    assert made[0] == made[1]
    assert made[1].choices[0].finish_reason == "tool_calls"


AUDIO: Json = {"type": "input_audio", "input_audio": {"data": "aWNvbg==", "format": "mp3"}}
RESULT: Json = {"role": "tool", "tool_call_id": "x", "content": "y"}
NO_OBJECT: Json = {
    "type": "function",
    "function": {"name": "a", "parameters": {"type": "string"}},
}
REFUSED: list[tuple[Json, str]] = [
    ({"n": 2}, "n"),
    ({"logprobs": True}, "logprobs"),
    ({"top_logprobs": 2}, "top_logprobs"),
    ({"functions": []}, "functions"),
    ({"function_call": "auto"}, "function_call"),
    ({"logit_bias": {"1": 1}}, "logit_bias"),
    ({"prediction": {"type": "content", "content": "x"}}, "prediction"),
    ({"web_search_options": {}}, "web_search_options"),
    ({"audio": {"voice": "ash", "format": "mp3"}}, "audio"),
    ({"modalities": ["text", "audio"]}, "modalities.1"),
    (
        {"stream": True, "stream_options": {"include_obfuscation": True}},
        "stream_options.include_obfuscation",
    ),
    ({"tool_choice": {"type": "allowed_tools", "allowed_tools": {}}}, "tool_choice.type"),
    ({"temperature": 9}, "temperature"),
    ({"max_tokens": 0}, "max_completion_tokens"),
    ({"messages": [{"role": "user", "content": [AUDIO]}]}, "messages.0.content.0.type"),
    ({"messages": []}, "messages"),
    (
        {"messages": [{"role": "tool", "tool_call_id": "x", "content": "y"}]},
        "messages.0.tool_call_id",
    ),
    (
        {
            "tools": [
                {"type": "function", "function": {"name": "a", "parameters": {"type": "string"}}}
            ]
        },
        "tools.0.function.parameters.type",
    ),
    ({"tool_choice": {"type": "function", "function": {"name": "other"}}}, "tool_choice"),
]


@pytest.mark.parametrize(("fields", "param"), REFUSED)
def test_what_is_not_supported_is_refused(sdk: OpenAI, fields: Json, param: str) -> None:
    body: Any = {"model": MODEL, "messages": [user("Hi")], **fields}
    with pytest.raises(BadRequestError) as refused:
        untyped(sdk).create(**body)
    assert refused.value.param == param, refused.value


def test_an_unknown_model_is_not_found(sdk: OpenAI) -> None:
    with pytest.raises(NotFoundError) as refused:
        sdk.chat.completions.create(model="nobody", messages=[user("Hi")])
    assert (refused.value.code, refused.value.param) == ("model_not_found", "model")


def test_a_plain_request_has_no_more_fields_than_its_schema(project: Project) -> None:
    body = {"model": MODEL, "messages": [user("Hi")]}
    made = project.client.request("POST", "/v1/chat/completions", body)
    assert made.status_code == 200, made.text
    run = made.headers["runward-run-id"]
    assert types_of(project.client.events(run))[-1] == "run.completed"
