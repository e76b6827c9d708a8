"""The same conversations with a model of every protocol: what the run shows, and that the
provider's strict server took every request."""

from typing import Any

import pytest

from tests.api.project import of_type, types_of
from tests.api.protocols import (
    ANTHROPIC,
    BEDROCK,
    CHAT,
    GEMINI,
    RESPONSES,
    Speaker,
    call,
    every,
    outcome,
)
from tests.support.models.spoken import Fails, Says, Text, says
from tests.support.services.client import Json
from tests.support.serving import Hold
from tests.support.tools.server import Behaviour

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
PICTURE = "https://pictures.example/a.png"


def run_of(speaker: Speaker, *replies: Says | Fails, **fields: Any) -> Json:
    return speaker.project.run(model=speaker.script(*replies), **fields)


def usage_of(run: Json) -> Json:
    return {name: value for name, value in run["usage"].items() if name != "cost_usd"}


def usage(speaker: Speaker, answers: int = 1) -> Json:
    return {
        "input_tokens": 50 * answers,
        "output_tokens": 20 * answers,
        "cached_tokens": 10 * answers,
        "reasoning_tokens": speaker.protocol.reasoning * answers,
        "total_tokens": 70 * answers,
    }


def shape(items: list[Json]) -> list[str]:
    """The items' kinds in their order: roles of messages, types of the others."""
    return [str(item.get("role", item.get("type"))) for item in items]


def conversation(speaker: Speaker, run: Json) -> list[str]:
    return shape(speaker.project.client.items(run["id"]))


@every
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_a_text_is_the_output(speaker: Speaker, *, stream: bool) -> None:
    run = run_of(
        speaker,
        says("Hello, world."),
        instructions="Be kind.",
        model_settings={"stream": stream, "max_output_tokens": 256},
    )
    assert outcome(run) == ("completed", "Hello, world.")
    assert usage_of(run) == usage(speaker)
    assert conversation(speaker, run) == ["user", "assistant"]
    assert "Be kind." in speaker.asked[0].whole
    assert types_of(speaker.project.client.events(run["id"]))[-1] == "run.completed"


@every
def test_those_who_watch_see_the_text_while_it_grows(speaker: Speaker) -> None:
    """Whoever watches since the call before is shown the beginning while the rest is held back."""
    project, hold, watched = speaker.project, Hold(), f"watched-{speaker.project.suffix}"
    project.tool("pay", Behaviour(hold=watched))
    held = Says((Text("Hello, world."),), hold=hold)
    model = speaker.script(says(call(speaker, 1, "pay")), held)
    run = project.start(model=model, tools=["pay"])
    with project.following(run) as frames:
        next(frames)
        project.tools.hold(watched).release()
        first = next(frame for frame in frames if frame.type == "message.delta")
        hold.release()
        deltas = [first, *(frame for frame in frames if frame.type == "message.delta")]
    assert first.data["data"]["text"] != "Hello, world."
    assert "".join(one.data["data"]["text"] for one in deltas) == "Hello, world."
    assert project.settle(run)["output"] == "Hello, world."


@every
def test_a_call_gets_its_result(speaker: Speaker) -> None:
    speaker.project.tool("pay")
    asked = call(speaker, 1, "pay")
    run = run_of(speaker, says("I pay.", asked), says("Paid."), tools=["pay"])
    assert outcome(run) == ("completed", "Paid.")
    assert conversation(speaker, run) == [
        *("user", "assistant", "tool_call", "tool_result", "assistant")
    ]
    assert speaker.asked[1].results == ((asked.id, "pay(1)"),)
    assert usage_of(run) == usage(speaker, 2)
    [done] = of_type(speaker.project.client.events(run["id"]), "tool_call.completed")
    assert done["call_id"] == asked.id


@every
def test_three_calls_of_one_answer_run_and_their_results_keep_its_order(speaker: Speaker) -> None:
    names = ["first", "second", "third"]
    for name in names:
        speaker.project.tool(name, Behaviour(meet=3))
    asked = [call(speaker, at, name) for at, name in enumerate(names)]
    run = run_of(speaker, says(*asked), says("Done."), tools=names)
    assert outcome(run) == ("completed", "Done.")
    expected = [(one.id, f"{one.name}(1)") for one in asked]
    assert list(speaker.asked[1].results) == expected


@every
def test_one_call_follows_another(speaker: Speaker) -> None:
    speaker.project.tool("pay")
    one, two = call(speaker, 1, "pay"), call(speaker, 2, "pay", '{"x": "2"}')
    run = run_of(speaker, says(one), says("And again.", two), says("Done."), tools=["pay"])
    assert (run["status"], run["turn"]) == ("completed", 3)
    assert speaker.asked[2].results == ((one.id, "pay(1)"), (two.id, "pay(2)"))
    assert usage_of(run) == usage(speaker, 3)


@every
@pytest.mark.parametrize(("choice", "told"), [("required", "required"), ({"name": "pay"}, "pay")])
def test_a_call_can_be_demanded(speaker: Speaker, choice: Any, told: str) -> None:
    for name in ("ask", "pay"):
        speaker.project.tool(name)
    run = run_of(
        *(speaker, says(call(speaker, 1, "pay")), says("Paid.")),
        tools=["ask", "pay"],
        tool_choice=choice,
    )
    assert outcome(run) == ("completed", "Paid.")
    assert [one.choice for one in speaker.asked] == [told, "auto"]


@every
def test_calls_can_be_forbidden(speaker: Speaker) -> None:
    speaker.project.tool("pay")
    run = run_of(speaker, says("I may not."), tools=["pay"], tool_choice="none")
    assert outcome(run) == ("completed", "I may not.")
    [asked] = speaker.asked
    assert asked.choice == "none" or asked.tools == ()


@every
def test_an_answer_can_be_kept_to_one_call(speaker: Speaker) -> None:
    speaker.project.tool("pay")
    one, two = call(speaker, 1, "pay"), call(speaker, 2, "pay", '{"x": "2"}')
    first = says(one) if speaker.protocol.told_one_call else says(one, two)
    run = run_of(speaker, first, says("Paid."), tools=["pay"], parallel_tool_calls=False)
    assert outcome(run) == ("completed", "Paid.")
    assert speaker.asked[0].one_call is speaker.protocol.told_one_call
    assert len(speaker.project.hits("pay")) == 1
    assert speaker.asked[1].results == ((one.id, "pay(1)"),)


RICH: Json = {
    "type": "object",
    "properties": {
        "x": {"type": "string", "minLength": 1, "pattern": "^[0-9]+$"},
        "how": {"const": "fast"},
        "times": {"type": ["integer", "null"], "exclusiveMinimum": 0},
        "to": {"oneOf": [{"type": "string"}, {"$ref": "#/$defs/place"}]},
    },
    "required": ["x"],
    "additionalProperties": False,
    "$defs": {
        "place": {
            "type": "object",
            "properties": {"name": {"type": "string", "title": "Name"}},
            "required": ["name"],
            "additionalProperties": False,
        }
    },
}


@every
@pytest.mark.parametrize("strict", [True, False], ids=["strict", "as it is"])
def test_a_rich_schema_is_told_as_far_as_the_provider_knows_it(
    speaker: Speaker, *, strict: bool
) -> None:
    speaker.project.tool("pay", parameters=RICH, strict=strict)
    asked = call(speaker, 1, "pay", '{"x": "1", "how": "fast", "times": 2, "to": {"name": "A"}}')
    run = run_of(speaker, says(asked), says("Paid."), tools=["pay"])
    assert outcome(run) == ("completed", "Paid.")
    told = strict and speaker.protocol.told_strict
    assert speaker.asked[0].strict == (("pay",) if told else ())
    assert speaker.project.hits("pay")[0].arguments["to"] == {"name": "A"}


@every
def test_an_answer_can_have_a_schema(speaker: Speaker) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name", "age"],
        "additionalProperties": False,
    }
    run = run_of(speaker, says('{"name": "Ada", "age": 36}'), output_schema=schema)
    assert (run["status"], run["output_parsed"]) == ("completed", {"name": "Ada", "age": 36})
    assert "age" in speaker.asked[0].whole


@every
def test_an_image_is_shown_to_the_model(speaker: Speaker) -> None:
    image = {"type": "image", "data": PNG, "media_type": "image/png"}
    parts = [{"type": "text", "text": "What is this?"}, image]
    run = run_of(speaker, says("A dot."), input=[{"role": "user", "content": parts}])
    assert outcome(run) == ("completed", "A dot.")
    [shown] = speaker.asked[0].images
    assert shown.endswith(PNG)


@every
def test_an_image_that_is_a_url_is_told_to_the_model(speaker: Speaker) -> None:
    parts = [{"type": "text", "text": "What is this?"}, {"type": "image", "url": PICTURE}]
    run = run_of(speaker, says("A dot."), input=[{"role": "user", "content": parts}])
    assert outcome(run) == ("completed", "A dot.")
    assert PICTURE in speaker.asked[0].whole


@every
def test_an_image_in_a_result_is_shown_to_the_model(speaker: Speaker) -> None:
    image = {"type": "image", "data": PNG, "media_type": "image/png"}
    content = [{"type": "text", "text": "Here it is."}, image]
    speaker.project.tool("look", Behaviour("return", {"content": content}))
    asked = call(speaker, 1, "look")
    run = run_of(speaker, says(asked), says("A dot."), tools=["look"])
    assert outcome(run) == ("completed", "A dot.")
    second = speaker.asked[1]
    [shown] = second.images + second.result_images
    assert shown.endswith(PNG)
    [(call_id, text)] = second.results
    assert call_id == asked.id
    assert "Here it is." in text


@every
def test_arguments_of_the_wrong_type_come_back_with_what_is_wrong(speaker: Speaker) -> None:
    speaker.project.tool("pay")
    bad, good = call(speaker, 1, "pay", '{"x": 1}'), call(speaker, 2, "pay")
    run = run_of(speaker, says(bad), says(good), says("Paid."), tools=["pay"])
    assert outcome(run) == ("completed", "Paid.")
    assert len(speaker.project.hits("pay")) == 1
    problem, result = speaker.asked[2].results
    assert (problem[0], result) == (bad.id, (good.id, "pay(1)"))
    assert "must be text" in problem[1]


@pytest.mark.parametrize("speaker", [CHAT, RESPONSES, ANTHROPIC, BEDROCK], ids=str, indirect=True)
@pytest.mark.parametrize("arguments", ['{"x": ', "[1]"])
def test_arguments_that_are_no_json_object_go_back_as_an_empty_one(
    speaker: Speaker, arguments: str
) -> None:
    speaker.project.tool("pay")
    bad, good = call(speaker, 1, "pay", arguments), call(speaker, 2, "pay")
    run = run_of(speaker, says(bad), says(good), says("Paid."), tools=["pay"])
    assert outcome(run) == ("completed", "Paid.")
    assert len(speaker.project.hits("pay")) == 1
    assert [call_id for call_id, _ in speaker.asked[2].results] == [bad.id, good.id]


@every
def test_a_stream_that_breaks_is_asked_again_and_its_text_is_not_doubled(speaker: Speaker) -> None:
    run = run_of(speaker, Says((Text("Hello, world."),), cut=True), says("Hello, world."))
    assert outcome(run) == ("completed", "Hello, world.")
    [retried] = of_type(speaker.project.client.events(run["id"]), "model.retried")
    assert retried["code"] == "model_stream_broken"
    assert len(speaker.asked) == 2
    assert conversation(speaker, run) == ["user", "assistant"]
    assert usage_of(run) == usage(speaker)


@every
def test_a_call_that_was_cut_off_never_runs(speaker: Speaker) -> None:
    speaker.project.tool("pay")
    cut = Says((call(speaker, 1, "pay"),), ending="length")
    run = run_of(speaker, cut, says("Too long."), tools=["pay"])
    assert outcome(run) == ("completed", "Too long.")
    assert speaker.project.hits("pay") == []
    assert "cut off" in speaker.asked[1].results[0][1]


@every
def test_a_refusal_is_its_own_outcome(speaker: Speaker) -> None:
    run = run_of(speaker, Says((Text("I will not."),), ending="refused"))
    assert (run["status"], run["incomplete_details"]["reason"]) == ("incomplete", "refusal")
    if speaker.protocol is not GEMINI:  # which gives no text with it
        assert run["output"] == "I will not."
    assert run["output"]


@every
def test_a_rate_limit_is_waited_for(speaker: Speaker) -> None:
    run = run_of(speaker, Fails(429, retry_after="1"), says("Hello."))
    assert outcome(run) == ("completed", "Hello.")
    [retried] = of_type(speaker.project.client.events(run["id"]), "model.retried")
    assert retried["code"] == "model_rate_limited"
    assert retried["after_seconds"] >= 1


@every
def test_a_request_that_the_provider_refuses_fails_the_run_in_its_words(speaker: Speaker) -> None:
    run = run_of(speaker, Fails(400, "This model has retired."))
    assert (run["status"], run["error"]["code"]) == ("failed", "model_refused_request")
    assert "This model has retired." in run["error"]["message"]
    assert len(speaker.asked) == 1
