"""A project whose models return what cannot be stored: its own run fails or goes on, and no other
project notices."""

from random import Random
from string import ascii_letters

import pytest

from tests.api.project import Project, call, of_type
from tests.support.models.chat_server import Call, Garbage, Reply, calls, text
from tests.support.tools.server import Behaviour

LONG_NAME = "".join(Random(1).choices(ascii_letters, k=9000))  # which no index compresses


def frames(*data: str) -> Garbage:
    """A stream of these events."""
    return Garbage("".join(f"data: {one}\n\n" for one in (*data, "[DONE]")).encode())


def called(name: str, arguments: str = '"{}"') -> str:
    function = f'{{"name":"{name}","arguments":{arguments}}}'
    choice = f'{{"index":0,"delta":{{"tool_calls":[{{"index":0,"id":"c1","function":{function}}}]}}'
    return f'{{"choices":[{choice},"finish_reason":"tool_calls"}}]}}'


FOUL: dict[str, Reply] = {
    "a long name": calls(Call("c1", LONG_NAME)),
    "a lone surrogate": frames(called("a\\ud800", '"\\udfff"')),
    "tokens beyond an integer": frames(
        '{"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}',
        '{"choices":[],"usage":{"prompt_tokens":9223372036854775808,"completion_tokens":1e300}}',
    ),
}


@pytest.mark.parametrize("reply", FOUL.values(), ids=FOUL)
def test_an_answer_that_could_not_be_stored_is_bounded_and_asked_for_once(
    project: Project, other: Project, reply: Reply
) -> None:
    run = project.run(reply, text("done"))
    assert run["status"] == "completed"
    assert len(project.asked()) <= 2
    assert run["usage"]["input_tokens"] <= 10**12 + 100
    for event in of_type(project.client.events(run["id"]), "tool_call.created"):
        assert len(event["tool"]) <= 64
    assert other.run(text("as ever"))["output"] == "as ever"


@pytest.mark.parametrize(
    "arguments", ['{"a":"\\ud800"}', '{"a":' * 400 + "1" + "}" * 400], ids=["surrogate", "deep"]
)
def test_an_answer_that_is_no_json_fails_the_run_and_is_asked_for_once(
    project: Project, arguments: str
) -> None:
    run = project.run(frames(called("a", arguments)))
    assert (run["status"], run["error"]["code"]) == ("failed", "model_invalid_response")
    assert len(project.asked()) == 1


def test_an_output_that_is_nested_too_deep_is_asked_for_again(project: Project) -> None:
    deep = '{"a":' * 150 + "1" + "}" * 150
    run = project.run(text(deep), text('{"a":1}'), output_schema={"type": "object"})
    assert (run["status"], run["output_parsed"]) == ("completed", {"a": 1})
    [again] = of_type(project.client.events(run["id"]), "model.retried")
    assert "nested more than 64 levels deep" in again["message"]


@pytest.mark.parametrize("name", ["x", "a\\u0000"])
def test_an_output_with_escaped_nul_is_stored_without_it(project: Project, name: str) -> None:
    """The text holds no NUL, and the value that it stands for does."""
    replies = text(f'{{"{name}": "\\u0000"}}'), text('{"x": "\ufffd"}')
    schema = {"properties": {"x": {"type": "string"}}, "additionalProperties": False}
    run = project.run(*replies, output_schema={"type": "object", **schema})
    assert (run["status"], run["output_parsed"]) == ("completed", {"x": "\ufffd"})
    assert len(project.asked()) == (1 if name == "x" else 2)


def test_a_result_that_cannot_be_stored_leaves_its_sibling_s_alone(project: Project) -> None:
    picture = {"type": "image", "url": "http://["}
    broken = {"type": "file", "data": "a", "media_type": "text/plain"}
    content = [{"type": "text", "text": "Look."}, picture, broken]
    project.tool("show", Behaviour("return", {"content": content}))
    project.tool("lookup", Behaviour("return", {"found": 1}))
    run = project.run(
        calls(call(1, "show"), call(2, "lookup")), text("done"), tools=["show", "lookup"]
    )
    assert run["status"] == "completed"
    results = [one for one in project.client.items(run["id"]) if one.get("type") == "tool_result"]
    [shown, found] = results
    assert [part["type"] for part in shown["content"]] == ["text", "text", "text"]
    assert "was removed from this result: the URL is not" in shown["content"][1]["text"]
    assert found["output"] == {"found": 1}
