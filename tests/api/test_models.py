"""The request and response models: what they take, and that openapi.json can explain them."""

from datetime import UTC, datetime
from typing import Annotated, Any, cast
from uuid import UUID

import pytest
from fastapi import Body
from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.routing import BaseRoute

from runward.api.approvals import models as approvals
from runward.api.events import models as events
from runward.api.http import models as base
from runward.api.http.auth import AnyKey
from runward.api.http.paging import Page
from runward.api.http.problems import Problem
from runward.api.http.routes import make_router
from runward.api.openapi import document
from runward.api.registry import key_models, tool_models
from runward.api.registry.tool_models import HIDDEN_VALUE, Tool, UpdateTool, apply_patch
from runward.api.runs import models as runs
from runward.api.runs import request_models
from runward.api.runs.call_models import ToolCall
from runward.api.runs.request_models import StartRun
from runward.domain.registry.tools import ToolSpec
from runward.domain.run.config import AgentConfig
from runward.domain.run.decisions import Decision
from runward.domain.run.items import MediaPart, Message, TextPart
from runward.domain.run.resolve import Callback, Resolution
from runward.store.registry.tool_registry import RegisteredTool

PAY = {"name": "pay", "parameters": {"type": "object"}, "url": "https://x.example", "headers": {}}


def start(**fields: Any) -> StartRun:
    given = {"model": "offline:rules", "input": "hi", **fields}
    return StartRun.model_validate_json(TypeAdapter(dict[str, Any]).dump_json(given))


def test_an_inline_run_may_say_everything_that_an_agent_may() -> None:
    for name, field in AgentConfig.model_fields.items():
        inline = StartRun.model_fields[name]
        if name in ("model", "kind"):  # a call of one tool is started over /mcp alone
            continue
        if name in ("tools", "tool_choice"):  # also in the formats of OpenAI's APIs
            continue
        assert inline.get_default(call_default_factory=True) == field.get_default(
            call_default_factory=True
        ), name
        assert inline.annotation == field.annotation, name
        assert inline.metadata == field.metadata, name


def test_an_inline_run_becomes_the_configuration_it_names() -> None:
    config = start(tools=["pay"], limits={"max_turns": 3}).to_config()
    assert config == AgentConfig.model_validate_json(
        '{"model": "offline:rules", "tools": ["pay"], "limits": {"max_turns": 3}}'
    )
    assert config.model_fields_set == {"model", "tools", "limits"}


def test_input_is_text_or_messages() -> None:
    assert start(input="").to_items() == (Message("user", ""),)
    parts = [
        {"type": "text", "text": "what is this?"},
        {"type": "image", "data": "AAAA", "media_type": "image/png"},
        {"type": "file", "url": "https://x.example/a.pdf", "filename": "a.pdf"},
    ]
    messages = start(
        input=[{"role": "system", "content": "be kind"}, {"role": "user", "content": parts}]
    ).to_items()
    assert messages == (
        Message("system", "be kind"),
        Message(
            "user",
            (
                TextPart("what is this?"),
                MediaPart("image", data="AAAA", media_type="image/png"),
                MediaPart("file", url="https://x.example/a.pdf", filename="a.pdf"),
            ),
        ),
    )


NO_RUN: list[dict[str, Any]] = [
    {"agent": "a"},
    {"model": None},
    {"model": None, "agent": "a", "tools": ["pay"]},
    {"metadata": {"a": "x" * 16_384}},
    {"input": [{"role": "user", "content": []}]},
    {"input": [{"role": "user", "content": [{"type": "image", "data": "AAAA"}]}]},
    {"input": [{"role": "user", "content": [{"type": "image", "url": "file:///etc"}]}]},
]


@pytest.mark.parametrize("fields", NO_RUN)
def test_what_makes_no_run_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        start(**fields)


def test_a_run_of_an_agent_takes_what_is_the_runs_own() -> None:
    run = start(model=None, agent="a", metadata={"k": 1}, limits={"max_turns": 2}, context={})
    assert run.agent == "a"


def test_a_patch_changes_what_it_gives_and_nothing_else() -> None:
    spec = ToolSpec.model_validate({**PAY, "timeout_seconds": 3})
    patch = UpdateTool.model_validate_json(
        '{"timeout_seconds": null, "retry": {"on": [409]}, "approval": "always"}'
    )
    changed = apply_patch(spec, patch)
    assert (changed.timeout_seconds, changed.approval, changed.retry.on) == (None, "always", (409,))
    assert changed.url == spec.url
    assert apply_patch(spec, UpdateTool()) == spec


@pytest.mark.parametrize("patch", ['{"name": "b"}', '{"type": "webhook"}', '{"strict": null}'])
def test_a_patch_keeps_to_the_tools_rules(patch: str) -> None:
    with pytest.raises(ValidationError):
        UpdateTool.model_validate_json(patch)


def test_a_tool_shows_no_header_values() -> None:
    spec = ToolSpec.model_validate({**PAY, "headers": {"Authorization": "Bearer secret"}})
    now = datetime(2026, 1, 1, tzinfo=UTC)
    shown = Tool.from_row(RegisteredTool(UUID(int=1), spec, 2, now, now))
    assert shown.headers == {"Authorization": HIDDEN_VALUE}
    assert "secret" not in shown.model_dump_json()
    assert shown.model_dump(mode="json")["object"] == "tool"


def test_a_list_of_rows_one_longer_than_its_limit_has_more() -> None:
    page = Page[int].from_rows([1, 2, 3], 2, lambda row: row * 10, str)
    assert (page.data, page.first_id, page.last_id, page.has_more) == ([10, 20], "10", "20", True)
    assert Page[int].from_rows([], 2, int, str).last_id is None


def handler(body: Any = None) -> Any:
    async def handle(who: AnyKey, body: Any) -> None: ...

    async def answer(who: AnyKey) -> None: ...

    if body is None:
        return answer
    handle.__annotations__["body"] = Annotated[body, Body()]
    return handle


def every_model() -> list[BaseRoute]:
    """The routes of an openapi.json that holds every model."""
    modules = (runs, approvals, tool_models, key_models, request_models)
    models = {
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, BaseModel)
        and value.__module__ == module.__name__
        and not value.__name__.startswith("_")
    }
    asked = {
        model for model in models if issubclass(model, base.RequestModel | tool_models.RegisterTool)
    }
    bodies: list[Any] = [*asked, Decision, Resolution, Callback]
    answers: list[Any] = [*(models - asked), Page[runs.Run]]
    routes = make_router("Service")
    for number, shape in enumerate(bodies):
        routes.add_api_route(f"/b{number}", handler(shape), methods=["POST"], name=f"b{number}")
    for number, shape in enumerate(answers):
        routes.add_api_route(f"/a{number}", handler(), response_model=shape, name=f"a{number}")
    return routes.routes


def test_every_field_of_every_model_is_described() -> None:
    schemas = document.build_document(every_model())["components"]["schemas"]
    assert {
        "StartRun",
        "RunList",
        "UpdateTool",
        "EditDecision",
        "Problem",
        "Limits",
    } <= schemas.keys()
    missing = [
        f"{name}.{field}"
        for name, schema in schemas.items()
        for field, value in schema.get("properties", {}).items()
        if not value.get("description")
    ]
    assert missing == []


@pytest.mark.parametrize(
    "model",
    [
        *(
            runs.Run,
            events.Event,
            ToolCall,
            approvals.Approval,
            key_models.Key,
            key_models.Project,
        ),
        *(
            Problem,
            StartRun,
            key_models.CreateKey,
            key_models.CreateProject,
            tool_models.RegisterTool,
            tool_models.Tool,
        ),
    ],
)
def test_every_example_is_one(model: type[BaseModel]) -> None:
    extra = cast(dict[str, Any], model.model_config.get("json_schema_extra"))
    for example in extra["examples"]:
        model.model_validate_json(TypeAdapter(Any).dump_json(example))
