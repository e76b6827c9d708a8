"""/v1/tools: what the model's provider runs, and what is run here for providers that know its
kind."""

from typing import Any

import pytest

from runward.domain.registry.provider_tools import EXECUTORS
from tests.api.project import Project
from tests.support.services.client import Json

URL = "http://127.0.0.1:9/x"
SCREEN: Json = {"display_width": 1280, "display_height": 800}


def register(project: Project, **fields: Any) -> Json:
    return project.client.call("POST", "/v1/tools", {"name": "one", **fields})


def hosted(kind: str, **more: Any) -> Json:
    return {"type": "hosted", "hosted": {"kind": kind, **more}}


@pytest.mark.parametrize(
    "kind", ["web_search", "file_search", "code_interpreter", "image_generation", "mcp", "shell"]
)
def test_a_hosted_tool_needs_only_its_kind(project: Project, kind: str) -> None:
    made = register(project, **hosted(kind))
    assert made["hosted"] == {"kind": kind, "settings": {}, "secrets": {}}
    assert made["approval"] == ("always" if kind == "mcp" else "never")
    shown = project.client.call("GET", "/v1/tools/one")
    assert shown["hosted"] == made["hosted"]


@pytest.mark.parametrize("kind", EXECUTORS)
def test_an_executor_has_the_parameters_of_its_kind_and_asks_a_person(
    project: Project, kind: Any
) -> None:
    made = register(project, url=URL, implements=kind)
    assert made["parameters"] == EXECUTORS[kind].parameters
    assert made["description"] == EXECUTORS[kind].description
    assert (made["approval"], made["strict"]) == ("always", False)
    own = register(
        project, name="two", url=URL, implements=kind, approval="never", description="Mine."
    )
    assert (own["approval"], own["description"]) == ("never", "Mine.")


REFUSED: list[tuple[Json, str]] = [
    ({"type": "hosted"}, "hosted"),
    (hosted("web_search") | {"type": "webhook", "url": URL, "parameters": {}}, "hosted"),
    (hosted("web_search") | {"url": URL}, "url"),
    (hosted("web_search") | {"headers": {"X-A": "b"}}, "headers"),
    (hosted("web_search") | {"agent": "clerk"}, "agent"),
    (hosted("web_search") | {"approval": "always"}, "approval"),
    (hosted("web_search") | {"approval": {"when": "true"}}, "approval"),
    (hosted("web_search") | {"parameters": {"type": "object"}}, "parameters"),
    (hosted("web_search") | {"output_schema": {"type": "object"}}, "output_schema"),
    (hosted("mcp") | {"implements": "shell"}, "implements"),
    (
        hosted("mcp", settings={"authorization": "x"}, secrets={"authorization": "T"}),
        "hosted.secrets.authorization",
    ),
    (
        hosted("mcp", settings={"list": []}, secrets={"list.0.value": "T"}),
        "hosted.secrets.list.0.value",
    ),
    (
        hosted("shell", settings={"environment": {"type": "local"}}),
        "hosted.settings.environment.type",
    ),
    (
        hosted("mcp")
        | {"guardrails": [{"stage": "input", "type": "webhook", "url": "http://127.0.0.1:9/"}]},
        "guardrails",
    ),
    ({"type": "client", "implements": "shell"}, "implements"),
    ({"url": URL, "implements": "shell", "settings": SCREEN}, "settings"),
    ({"url": URL, "parameters": {"type": "object"}, "settings": SCREEN}, "settings"),
    (
        {"url": URL, "implements": "computer", "settings": {**SCREEN, "display_width": 0}},
        "settings.display_width",
    ),
    (
        {"url": URL, "implements": "computer", "settings": {**SCREEN, "environment": "phone"}},
        "settings.environment",
    ),
    ({"url": URL, "implements": "shell", "parameters": {"type": "object"}}, "parameters"),
]


@pytest.mark.parametrize(("fields", "path"), REFUSED)
def test_what_cannot_hold_is_refused(project: Project, fields: Json, path: str) -> None:
    body = {"name": "one", **fields}
    problem = project.client.refused(422, "invalid_request", "POST", "/v1/tools", body)
    assert path in [error["path"] for error in problem["errors"]]


def test_models_read_the_size_of_a_computer_s_screen(project: Project) -> None:
    made = register(project, url=URL, implements="computer", settings=SCREEN)
    assert made["settings"] == {**SCREEN, "environment": "browser"}
    assert made["description"].endswith("1280 by 800 pixels (environment: browser).")
    changed = {"settings": {**SCREEN, "environment": "linux"}}
    shown = project.client.call("PATCH", "/v1/tools/one", changed)
    assert shown["description"].endswith("(environment: linux).")
    plain = project.client.call("PATCH", "/v1/tools/one", {"settings": None})
    assert plain["description"] == EXECUTORS["computer"].description
    project.client.call("PATCH", "/v1/tools/one", {"description": "Mine."})
    assert project.client.call("PATCH", "/v1/tools/one", changed)["description"] == "Mine."


def test_a_kind_that_no_provider_knows_is_refused(project: Project) -> None:
    for fields in (hosted("telepathy"), {"url": URL, "implements": "telepathy"}):
        body = {"name": "one", **fields}
        project.client.refused(422, "invalid_request", "POST", "/v1/tools", body)


def test_its_settings_can_be_changed_and_its_kind_cannot(project: Project) -> None:
    register(project, **hosted("mcp", settings={"server_url": "https://a.example"}))
    changed = {"hosted": {"kind": "mcp", "settings": {"server_url": "https://b.example"}}}
    shown = project.client.call("PATCH", "/v1/tools/one", changed)
    assert shown["hosted"]["settings"] == {"server_url": "https://b.example"}
    assert project.client.call("PATCH", "/v1/tools/one", {"approval": "never"})["version"] == 3
    refusals: list[Json] = [
        {"hosted": {"kind": "web_search"}},
        {"hosted": None},
        {"parameters": {"type": "object"}},
    ]
    for refused in refusals:
        project.client.refused(422, "invalid_request", "PATCH", "/v1/tools/one", refused)


def test_it_cannot_be_tried_here(project: Project) -> None:
    register(project, **hosted("web_search"))
    body: Json = {"arguments": {}}
    problem = project.client.refused(422, "invalid_request", "POST", "/v1/tools/one/test", body)
    assert "provider" in problem["errors"][0]["message"]


def test_an_agent_cannot_get_a_tool_that_none_of_its_models_has(project: Project) -> None:
    register(project, **hosted("web_search"))
    agent: Json = {"name": "clerk", "model": "offline:rules"}
    bad = agent | {"tools": ["one"]}
    problem = project.client.refused(422, "invalid_request", "POST", "/v1/agents", bad)
    project.client.call("POST", "/v1/agents", agent)
    path = "/v1/agents/clerk"
    changed = project.client.refused(422, "invalid_request", "PATCH", path, {"tools": ["one"]})
    assert changed["errors"] == problem["errors"]
    assert project.client.call("PATCH", path, {"description": "Pays."})["version"] == 2
