"""What a protocol cannot be told is left out of the request and said, never dropped in silence."""

from typing import Any

from runward.domain.ids import CallId
from runward.domain.registry.tools import HostedTool, ToolSpec
from runward.domain.run.items import HostedCall, MediaPart, Message, Native, Reasoning, ToolCall
from runward.llm.base import Abilities, ModelRequest
from runward.llm.capabilities import fit_request

ADD = ToolSpec(name="add", parameters={"type": "object"}, strict=False)
FIND = ToolSpec(
    name="find", parameters={"type": "object"}, type="hosted", hosted=HostedTool(kind="web_search")
)
PLAIN = Abilities(
    "plain",
    frozenset({"temperature", "reasoning"}),
    tool_choices=frozenset({"none"}),
    parallel_off=False,
    output_schema=False,
    images=False,
    files=False,
)
ABLE = Abilities(
    "able",
    frozenset({"temperature", "reasoning", "reasoning.summary"}),
    hosted=frozenset({"web_search"}),
)
PICTURE = MediaPart("image", url="https://e.example/a.png")


def asked(*items: Any, **fields: Any) -> ModelRequest:
    return ModelRequest("m", "", (Message("user", "go"), *items), **fields)


def lost(request: ModelRequest, can: Abilities) -> tuple[ModelRequest, set[str]]:
    fitting, losses = fit_request(request, can)
    assert all(loss.reason.endswith(".") for loss in losses)
    return fitting, {loss.part for loss in losses}


def test_a_request_that_fits_is_not_touched() -> None:
    request = asked(
        Reasoning("able", {}),
        HostedCall("i", "find", "web_search", "able", {}, None, {}),
        Message("user", (PICTURE, MediaPart("file", url="https://e.example/a"))),
        ToolCall(CallId("c"), "add", "{}", native=Native("able", {"id": "1"})),
        tools=(ADD, FIND),
        tool_choice={"name": "find"},
        parallel_tool_calls=False,
        settings={
            "temperature": 1,
            "reasoning": {"effort": "low", "summary": "auto"},
        },
        output_schema={},
    )
    fitting, losses = fit_request(request, ABLE)
    assert fitting is request
    assert losses == ()


def test_every_kind_of_loss_is_named() -> None:
    request = asked(
        Reasoning("able", {}),
        Reasoning("able", {}),
        HostedCall("i", "find", "web_search", "able", {}, None, {}),
        Message("user", (PICTURE, MediaPart("file", url="https://e.example/a"))),
        ToolCall(CallId("c"), "add", "{}", native=Native("able", {"id": "1"})),
        Message("assistant", "Hi", native=Native("able", {"citations": []})),
        tools=(ADD, FIND),
        tool_choice="required",
        parallel_tool_calls=False,
        settings={"temperature": 1, "seed": 2, "reasoning": {"effort": "low", "summary": "auto"}},
        output_schema={},
    )
    fitting, what = lost(request, PLAIN)
    assert what == {
        "tools.find",
        "model_settings.seed",
        "model_settings.reasoning.summary",
        "tool_choice",
        "parallel_tool_calls",
        "output_schema",
        "reasoning",
        "native",
        "hosted_call",
        "image",
        "file",
    }
    assert fitting.tools == (ADD,)
    assert fitting.settings == {"temperature": 1, "reasoning": {"effort": "low"}}
    assert (fitting.tool_choice, fitting.parallel_tool_calls) == ("auto", True)
    assert fitting.output_schema is None
    assert not [item for item in fitting.items if isinstance(item, Reasoning)]
    assert [item for item in fitting.items if isinstance(item, HostedCall)]


def test_a_choice_of_a_tool_that_is_left_out_is_no_choice() -> None:
    named = Abilities("named", frozenset())
    fitting, what = lost(asked(tools=(ADD, FIND), tool_choice={"name": "find"}), named)
    assert (fitting.tool_choice, what) == ("auto", {"tools.find"})
    fitting, _ = lost(asked(tools=(ADD, FIND), tool_choice={"name": "add"}), named)
    assert fitting.tool_choice == {"name": "add"}
    fitting, _ = lost(asked(tools=(FIND,), tool_choice="required"), named)
    assert fitting.tool_choice == "auto"
