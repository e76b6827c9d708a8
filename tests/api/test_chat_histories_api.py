"""Chat histories as the input of a run: as OpenAI's clients keep them, with tool calls and their
results, for a model of every protocol."""

import json
from base64 import b64encode
from typing import Any

import pytest

from tests.api.project import Project, types_of
from tests.api.protocols import Speaker, every, outcome
from tests.api.test_conversations_api import PNG, conversation, run_of
from tests.support.models.chat_server import text
from tests.support.models.spoken import says
from tests.support.services.client import Json


def asked(call_id: str, name: str = "weather", arguments: str = '{"city": "Rome"}') -> Json:
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def assistant(*tool_calls: Json, content: str | None = None) -> Json:
    """A message as `completion.choices[0].message.model_dump()` of OpenAI's SDK returns it."""
    unused: Json = {"refusal": None, "annotations": [], "audio": None, "function_call": None}
    unused |= {"parsed": {"a": 1}, "provider_specific_fields": {"refusal": None}}
    calls = list(tool_calls) or None
    return {"role": "assistant", "content": content, "tool_calls": calls, **unused}


def result(call_id: str, content: Any = "sunny") -> Json:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


QUESTION: Json = {"role": "user", "content": "How is the weather?"}
HISTORY: list[Json] = [
    {"role": "developer", "content": "Be brief."},
    QUESTION,
    assistant(asked("call_a"), asked("call_b", arguments='{"city": "Oslo"}'), content="I look."),
    result("call_b", "snow"),
    result("call_a", [{"type": "text", "text": "sunny"}]),
    assistant(content="Sunny in Rome, snow in Oslo."),
    {"role": "user", "content": "And this?", "name": "ada"},
]


@every
def test_a_history_reaches_the_model_in_its_own_format(speaker: Speaker) -> None:
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    last = {"role": "user", "content": [{"type": "text", "text": "And this?"}, image]}
    run = run_of(speaker, says("A dot."), input=[*HISTORY[:-1], last])
    assert outcome(run) == ("completed", "A dot.")
    [request] = speaker.asked
    assert request.results == (("call_a", "sunny"), ("call_b", "snow"))
    [shown] = request.images
    assert shown.endswith(PNG)
    for part in ("Be brief.", "Oslo", "weather", "I look."):
        assert part in request.whole
    assert conversation(speaker, run) == [
        *("system", "user", "assistant", "tool_call", "tool_call", "tool_result", "tool_result"),
        *("assistant", "user", "assistant"),
    ]


PDF = b64encode(b"%PDF-1.4 tiny").decode()
FILES: list[Json] = [
    {"type": "file", "data": PDF, "media_type": "application/pdf", "filename": "a.pdf"},
    {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PDF}"}},
    {"type": "input_file", "file_data": f"data:application/pdf;base64,{PDF}", "filename": "a.pdf"},
]


@every
def test_a_file_reaches_the_model_in_every_format_that_clients_send(speaker: Speaker) -> None:
    run = run_of(speaker, says("Tiny."), input=[{"role": "user", "content": FILES}])
    assert outcome(run) == ("completed", "Tiny.")
    [request] = speaker.asked
    assert request.whole.count(PDF) == 3


def test_calls_of_a_history_are_not_run_and_not_in_the_tool_call_log(project: Project) -> None:
    project.tool("weather")
    run = project.run(text("A dot."), input=HISTORY, tools=["weather"])
    assert run["output"] == "A dot."
    assert project.hits("weather") == []
    path = f"/v1/runs/{run['id']}"
    assert project.client.call("GET", f"{path}/tool_calls")["data"] == []
    types = types_of(project.client.events(run["id"]))
    assert not any(one.startswith("tool_call.") for one in types)
    shown = project.client.call("GET", path, include="config")["config"]["input"]
    assert [one["type"] for one in shown[3:7]] == ["tool_call"] * 2 + ["tool_result"] * 2
    assert shown[3] == {
        "type": "tool_call",
        "call_id": "call_a",
        "name": "weather",
        "arguments": {"city": "Rome"},
    }
    assert shown[5] == {
        "type": "tool_result",
        "call_id": "call_a",
        "output": "sunny",
        "is_error": False,
    }


def test_a_history_that_ends_with_a_result_is_answered(project: Project) -> None:
    run = project.run(text("Sunny."), input=HISTORY[1:5])
    assert (run["status"], run["output"]) == ("completed", "Sunny.")
    [request] = project.asked()
    assert [one["role"] for one in request.body["messages"]] == [
        *("user", "assistant", "tool", "tool")
    ]


def test_an_open_run_and_a_continued_run_accept_a_history(project: Project) -> None:
    client = project.key("runs:read", "runs:write")
    waiting = client.start_run(
        model="offline:rules",
        input="ask()",
        tools=[client_tool(project)],
        limits={"max_turns": 1},
    )
    client.settle(waiting["id"])
    path = f"/v1/runs/{waiting['id']}"
    sent = client.call("POST", f"{path}/input", {"input": HISTORY[1:5]})
    assert sent["id"] == waiting["id"]
    call = client.call("GET", f"{path}/tool_calls")["data"][0]["call_id"]
    client.call("POST", f"{path}/tool_calls/{call}/result", {"output": 1})
    ended = client.settle(waiting["id"])
    assert ended["status"] == "incomplete"
    later = client.call("POST", f"{path}/continue", {"max_turns": 1, "input": HISTORY[1:5]})
    ended = client.settle(later["id"])
    assert ended["status"] == "completed"
    kinds = [one["type"] for one in client.items(ended["id"])]
    history = ["message", "message", "tool_call", "tool_call", "tool_result", "tool_result"]
    assert kinds == ["message", "tool_call", "tool_result", *history, *history, "message"]


def client_tool(project: Project) -> str:
    body = {"type": "client", "name": "ask", "parameters": {"type": "object"}}
    return str(project.client.call("POST", "/v1/tools", body)["name"])


def test_the_next_run_of_a_session_reads_the_history(project: Project) -> None:
    session = project.client.call("POST", "/v1/sessions", {})["id"]
    model = project.script(text("First."), text("Second."))
    project.run(model=model, input=HISTORY, session_id=session)
    project.run(model=model, input="And now?", session_id=session)
    roles = [one["role"] for one in project.asked()[1].body["messages"]]
    assert roles == [one["role"].replace("developer", "system") for one in HISTORY] + [
        *("assistant", "user")
    ]


def test_the_history_of_a_workflow_stays_in_its_session(project: Project) -> None:
    model = project.script(text("First."), text("Second."))
    project.client.call("POST", "/v1/agents", {"name": "inner", "model": model})
    team = {"name": "team", "kind": "sequential", "agents": ["inner"]}
    project.client.call("POST", "/v1/agents", team)
    session = project.client.call("POST", "/v1/sessions", {})["id"]
    started = {"agent": "team", "input": HISTORY, "session_id": session}
    project.settle(project.client.call("POST", "/v1/runs", started))
    project.run(model=model, input="And now?", session_id=session)
    roles = [one["role"] for one in project.asked()[1].body["messages"]]
    assert roles[-3:] == ["user", "assistant", "user"]
    assert roles.count("tool") == 2


ID = "input.1.tool_calls.0.id"


REFUSED: list[tuple[list[Json], str, str]] = [
    ([QUESTION, assistant(asked("a"))], ID, "must have a result"),
    ([QUESTION, assistant(asked("a")), QUESTION], ID, "must have a result"),
    ([QUESTION, result("a"), assistant(asked("a"))], "input.1.tool_call_id", "must be the ID"),
    (
        [QUESTION, assistant(asked("a")), result("a"), result("a")],
        *("input.3.tool_call_id", "must be the ID"),
    ),
    (
        [QUESTION, assistant(asked("a"), asked("a")), result("a")],
        *("input.1.tool_calls.1.id", "must have a result"),
    ),
    (
        [QUESTION, assistant(asked("a", arguments="[1]")), result("a")],
        *("input.1.tool_calls.0.function.arguments", "must be a JSON object"),
    ),
    (
        [QUESTION, assistant(asked("a", arguments='{"x":')), result("a")],
        *("input.1.tool_calls.0.function.arguments", "are not valid JSON"),
    ),
    (
        [QUESTION, assistant(asked("a", name="two words")), result("a")],
        *("input.1.tool_calls.0.function.name", "must match"),
    ),
    ([{**QUESTION, "tool_calls": []}], "input.0.tool_calls", "unknown field"),
    ([{"role": "assistant", "content": None}], "input.0", "must have content"),
    ([{"role": "function", "content": "x"}], "input.0.role", "must be one of"),
    (
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "ftp://x"}}]}],
        *("input.0.content.0.image_url.url", "must be an http or https URL"),
    ),
    (
        [{"role": "user", "content": [{"type": "input_file", "file_id": "file-1"}]}],
        *("input.0.content.0.file_id", "Runward does not support file IDs"),
    ),
    (
        [{"role": "user", "content": [FILES[1] | {"url": "https://a.test/b"}]}],
        *("input.0.content.0.file", "must have no other fields"),
    ),
    (
        [{"role": "user", "content": [{"type": "file", "file": {"file_data": PDF}}]}],
        *("input.0.content.0.file.file_data", "must be a base64 data URL"),
    ),
]


@pytest.mark.parametrize(("messages", "path", "message"), REFUSED)
def test_a_history_that_no_model_accepts_is_refused_with_the_path(
    project: Project, messages: list[Json], path: str, message: str
) -> None:
    body = {"model": "offline:rules", "input": messages}
    refused = project.client.request("POST", "/v1/runs", body)
    assert refused.status_code == 422, refused.text
    [problem] = refused.json()["errors"]
    assert problem["path"] == path
    assert message in problem["message"], json.dumps(problem)


def test_an_id_that_a_client_uses_in_each_response_is_unique_in_the_run(project: Project) -> None:
    twice = [assistant(asked("call_0")), result("call_0", "rain")]
    run = project.run(text("Rain, twice."), input=[QUESTION, *twice, *twice])
    items = [one for one in project.client.items(run["id"]) if "call_id" in one]
    assert [one["call_id"] for one in items] == ["call_0", "call_0", "call_0_2", "call_0_2"]
