"""What a model thought goes back to it as it was, and to no other; a run that switches to a model
of another provider in its middle takes its calls and results along."""

from itertools import permutations

import pytest

from tests.api.project import Project, of_type
from tests.api.protocols import (
    ANTHROPIC,
    CHAT,
    PROTOCOLS,
    RESPONSES,
    Protocol,
    Speaker,
    call,
    every,
    outcome,
)
from tests.api.test_open_responses import parsed
from tests.support.models.spoken import Fails, Thought, says
from tests.support.services.client import Json

THOUGHT = "A thought that nobody else may read."


def thoughts(speaker: Speaker, run: Json) -> list[Json]:
    items = speaker.project.client.items(run["id"])
    return [item for item in items if item.get("type") == "reasoning"]


@every
def test_thoughts_go_back_with_the_calls_that_they_led_to(speaker: Speaker) -> None:
    """The server refuses a request that lacks them, or its signatures."""
    speaker.project.tool("pay")
    model = speaker.script(
        says(Thought(THOUGHT), "I pay.", call(speaker, 1, "pay")),
        says(Thought("Once more."), call(speaker, 2, "pay", '{"x": "2"}')),
        says("Paid."),
    )
    run = speaker.project.run(model=model, tools=["pay"])
    assert outcome(run) == ("completed", "Paid.")
    assert len(speaker.asked[2].results) == 2
    if speaker.protocol is not CHAT:  # which has no word for thoughts
        assert len(thoughts(speaker, run)) == 2


@every
def test_thoughts_outlast_a_pause_for_a_person(speaker: Speaker) -> None:
    speaker.project.tool("pay", approval="always")
    asked = call(speaker, 1, "pay")
    model = speaker.script(says(Thought(THOUGHT), asked), says("Paid."))
    run = speaker.project.run(model=model, tools=["pay"])
    assert run["status"] == "requires_action"
    speaker.project.client.decide_call(run["id"], asked.id, "approve")
    done = speaker.project.end(run)
    assert outcome(done) == ("completed", "Paid.")
    assert speaker.asked[1].results == ((asked.id, "pay(1)"),)


@every
def test_thoughts_go_along_into_the_next_run_of_a_session(speaker: Speaker) -> None:
    speaker.project.tool("pay")
    session = speaker.project.client.call("POST", "/v1/sessions", {})["id"]
    model = speaker.script(
        says(Thought(THOUGHT), call(speaker, 1, "pay")),
        says(Thought("It is paid."), "Paid."),
        says("You are welcome."),
    )
    for said in ("Pay.", "Thanks."):
        run = speaker.project.run(model=model, tools=["pay"], session_id=session, input=said)
    assert outcome(run) == ("completed", "You are welcome.")
    assert "Thanks." in speaker.asked[2].whole
    assert len(speaker.asked[2].results) == 1


PAY: Json = {
    "type": "function",
    "name": "pay",
    "parameters": {"type": "object", "properties": {"x": {"type": "string"}}},
}


@every
@pytest.mark.parametrize("stored", [True, False], ids=["listed", "streamed"])
def test_thoughts_that_the_client_keeps_go_back(speaker: Speaker, *, stored: bool) -> None:
    """The server refuses a request that lacks them, or its signatures."""
    client = speaker.project.client
    asked = call(speaker, 1, "pay")
    model = speaker.script(
        says(Thought(THOUGHT), "I pay.", asked),
        says(Thought("It is paid."), "Paid."),
        says("You are welcome."),
    )
    about: Json = {"model": model, "tools": [PAY], "include": ["reasoning.encrypted_content"]}
    items: list[Json] = [{"role": "user", "content": "Pay."}]
    for then in (
        {"type": "function_call_output", "call_id": asked.id, "output": "fine"},
        {"role": "user", "content": "Thanks."},
        None,
    ):
        made = client.call("POST", "/v1/responses", {**about, "input": items})
        assert made["error"] is None
        shown = made["output"]
        if not stored:
            path = f"/v1/responses/{made['id']}?stream=true"
            with client.streaming("GET", path) as answer:
                told = parsed(answer.iter_lines())
            shown = [one["item"] for one in told if one["type"] == "response.output_item.done"]
        items += [*shown, *([then] if then else [])]
    assert items[-1]["content"][0]["text"] == "You are welcome."
    sealed = [item["encrypted_content"] for item in items if item.get("type") == "reasoning"]
    assert len(sealed) == (0 if speaker.protocol is CHAT else 2)
    assert all(THOUGHT not in one for one in sealed)
    assert len(thoughts(speaker, {"id": made["id"].replace("resp_", "run_")})) == len(sealed)
    listed = client.call(
        "GET",
        f"/v1/responses/{made['id']}/input_items",
        order="asc",
        **{"include[]": "reasoning.encrypted_content"},
    )
    again = [one for one in listed["data"] if one["type"] == "reasoning"]
    assert [bool(one["encrypted_content"]) for one in again] == [True] * len(sealed)


@pytest.mark.parametrize("speaker", [RESPONSES, ANTHROPIC], ids=str, indirect=True)
def test_thoughts_of_others_and_changed_ones_are_left_out(speaker: Speaker, other: Project) -> None:
    model = speaker.script(says(Thought(THOUGHT), "Hello."), *[says("Fine.")] * 5)
    url, include = "/v1/responses", ["reasoning.encrypted_content"]
    hello: Json = {"role": "user", "content": "Hi"}
    made = speaker.project.client.call("POST", url, {"model": model, "input": "Hi"})
    path = f"{url}/{made['id']}"
    shown = speaker.project.client.call("GET", path, include="reasoning.encrypted_content")
    [said, thought] = shown["output"]
    assert thought["encrypted_content"]
    assert made["output"][1]["encrypted_content"] is None
    for output in (
        [said, {**thought, "encrypted_content": "foreign"}],
        [said, {**thought, "encrypted_content": None}],
        [thought],
        [thought, hello, said],
    ):
        body = {"model": model, "input": [hello, *output, hello], "include": include}
        assert speaker.project.client.call("POST", url, body)["status"] == "completed"
        assert "ignature" not in speaker.asked[-1].whole
        assert "sealed-" not in speaker.asked[-1].whole
    body = {"model": model, "input": [hello, said, thought, hello]}
    assert other.client.call("POST", url, body)["status"] == "completed"
    assert "ignature" not in speaker.asked[-1].whole
    assert "sealed-" not in speaker.asked[-1].whole


@pytest.mark.parametrize(("first", "second"), list(permutations(PROTOCOLS, 2)), ids=str)
def test_another_provider_goes_on_where_one_has_failed(
    project: Project, first: Protocol, second: Protocol
) -> None:
    one, two = Speaker(first, project), Speaker(second, project)
    project.tool("pay")
    project.tool("look")
    asked = call(one, 1, "pay"), call(one, 2, "look"), call(two, 3, "pay", '{"x": "2"}')
    given = says(Thought(THOUGHT), "I pay.", *asked[:2])
    down = Fails(503, retry_after="60")  # longer than is waited
    models = [one.script(given, down, down), two.script(says(asked[2]), says("Paid."))]
    run = project.run(model=models, tools=["pay", "look"])
    assert outcome(run) == ("completed", "Paid.")
    results = [(asked[0].id, "pay(1)"), (asked[1].id, "look(1)"), (asked[2].id, "pay(2)")]
    assert list(two.asked[1].results) == results
    assert "I pay." in two.asked[1].whole
    assert THOUGHT not in two.asked[1].whole
    told = of_type(project.client.events(run["id"]), "model.retried")
    assert [(one["model"], one["code"]) for one in told] == [(models[1], "model_unavailable")] * 2


@every
def test_a_model_that_stays_down_is_asked_four_times_before_the_next(speaker: Speaker) -> None:
    next_one = Speaker(CHAT, speaker.project)
    names = [speaker.script(*[Fails(500)] * 4), f"openai:fallback-{speaker.project.suffix}"]
    next_one.server.script(names[1].removeprefix("openai:"), CHAT.spoken(says("Hello.")))
    run = speaker.project.run(model=names)
    assert outcome(run) == ("completed", "Hello.")
    told = of_type(speaker.project.client.events(run["id"]), "model.retried")
    assert [one["model"] for one in told] == [names[0]] * 3 + [names[1]]
    assert len(speaker.asked) == 4
