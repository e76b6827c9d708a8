"""GET /v1/capabilities names what can be asked for here, and all of it can be."""

import sys

from runward.llm.capabilities import capabilities_by_provider
from tests.api.project import Project
from tests.support.models.chat_server import text
from tests.support.services.client import Json

MODEL = "offline:rules"


def capabilities(project: Project) -> Json:
    return project.client.call("GET", "/v1/capabilities")


def test_it_names_what_this_installation_can_do(project: Project) -> None:
    shown = capabilities(project)
    assert shown["tool_types"] == ["agent", "client", "hosted", "mcp", "plugin", "webhook"]
    assert shown["mcp"] == {"installed": True, "commands": [sys.executable]}
    assert shown["builtin_tools"] == ["read_result", "search_history", "search_tools"]
    assert shown["agent_kinds"] == ["llm", "sequential", "parallel", "loop"]
    openai = ["openai", "openai-responses"]
    assert shown["model_providers"] == ["offline", *openai, "anthropic", "gemini", "bedrock"]
    assert shown["models"].keys() == set(shown["model_providers"])
    assert shown["plugins"] == {"tools": [], "guardrails": [], "hooks": []}


def test_the_features_of_each_provider_are_those_of_the_documentation(project: Project) -> None:
    """tests/unit/test_docs.py compares the documented table with this one."""
    shown = capabilities(project)["models"]
    for provider, cells in capabilities_by_provider().items():
        assert {row: show_cell(row, shown[provider]) for row in cells} == cells


def show_cell(row: str, can: Json) -> str:
    """The cell of the documented table that the response means."""
    kind, _, name = row.partition(" ")
    if row == "images and files of a tool":
        return can["tool_media"].replace("_", " the ")
    if kind == "executor":
        return "native" if name in can["executors"] else "as a function"
    match kind:
        case "setting":
            able = name in can["settings"]
        case "tool_choice":
            able = name in can["tool_choices"]
        case "hosted":
            able = name in can["hosted"]
        case "parallel_tool_calls:":
            able = can["single_tool_calls"]
        case "strict":
            able = can["strict_tools"]
        case _:
            able = can[row]
    return "yes" if able else "-"


def test_every_kind_of_agent_can_be_registered(project: Project) -> None:
    for kind in capabilities(project)["agent_kinds"]:
        what = {"model": MODEL} if kind == "llm" else {"agents": ["agent_llm"]}
        body = {"name": f"agent_{kind}", "kind": kind, **what}
        assert project.client.call("POST", "/v1/agents", body)["kind"] == kind


def test_every_stage_of_a_guardrail_and_every_hook_can_be_set(project: Project) -> None:
    shown = capabilities(project)
    where = {"type": "webhook", "url": "http://127.0.0.1:9/"}
    policy = {
        "guardrails": [{"stage": stage, **where} for stage in shown["guardrail_stages"]],
        "hooks": [{"on": moment, **where} for moment in shown["hooks"]],
    }
    stored = project.client.call("PUT", "/v1/policy", policy)
    assert [one["stage"] for one in stored["guardrails"]] == shown["guardrail_stages"]
    assert [one["on"] for one in stored["hooks"]] == shown["hooks"]


def test_an_agent_may_name_every_built_in_tool(project: Project) -> None:
    names = capabilities(project)["builtin_tools"]
    run = project.run(text("done"), tools=names)
    assert run["output"] == "done"
