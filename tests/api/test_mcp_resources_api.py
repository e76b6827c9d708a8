"""The runs of a project as resources of /mcp, and its agents as prompts, asked by the MCP SDK's own
client in both generations of the protocol."""

import json

import pytest
from mcp import MCPError
from mcp.types import (
    EmbeddedResource,
    PromptReference,
    ResourceTemplateReference,
    TextContent,
    TextResourceContents,
)

from tests.api.project import Project
from tests.api.test_mcp_endpoint_api import both, connected
from tests.support.mcp.client import Generation
from tests.support.models.chat_server import text
from tests.support.services.client import TERMINAL, Json

CITY: Json = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "Name of the city.", "enum": ["Rome", "Riga"]},
        "day": {"type": "string"},
    },
    "required": ["city"],
    "additionalProperties": False,
}


def ended_run(project: Project, answer: str = "It rains.") -> Json:
    run = project.client.start_run(model=project.script(text(answer)), input="Hi")
    return project.client.settle(run["id"], TERMINAL)


@both
async def test_a_run_and_its_output_are_resources(project: Project, generation: Generation) -> None:
    run = ended_run(project)
    uri = f"runward://runs/{run['id']}"
    async with connected(project, generation) as mcp:
        listed = (await mcp.list_resources()).resources
        assert [(one.uri, one.name) for one in listed] == [(uri, run["id"])]
        templates = (await mcp.list_resource_templates()).resource_templates
        assert f"{uri}/output".replace(run["id"], "{run_id}") in [
            one.uri_template for one in templates
        ]
        [shown] = (await mcp.read_resource(uri)).contents
        [output] = (await mcp.read_resource(f"{uri}/output")).contents
    assert isinstance(shown, TextResourceContents)
    assert json.loads(shown.text)["status"] == "completed"
    assert isinstance(output, TextResourceContents)
    assert (output.mime_type, output.text) == ("text/plain", "It rains.")


@both
async def test_the_output_of_an_erased_run_is_not_found(
    project: Project, generation: Generation
) -> None:
    run = ended_run(project)
    uri = f"runward://runs/{run['id']}"
    project.client.request("DELETE", f"/v1/runs/{run['id']}")
    async with connected(project, generation) as mcp:
        [shown] = (await mcp.read_resource(uri)).contents
        with pytest.raises(MCPError, match="Resource not found"):
            await mcp.read_resource(f"{uri}/output")
    assert isinstance(shown, TextResourceContents)
    assert (json.loads(shown.text)["output"], "rains" in shown.text) == (None, False)


@both
@pytest.mark.parametrize(
    "uri", ["file:///etc/passwd", "runward://runs/run_0", "{run}/files/1/a", "{run}/secret"]
)
async def test_what_is_no_resource_is_not_found(
    project: Project, generation: Generation, uri: str
) -> None:
    run = ended_run(project)
    async with connected(project, generation) as mcp:
        uri = uri.format(run=f"runward://runs/{run['id']}")
        with pytest.raises(MCPError, match="Resource not found") as refused:
            await mcp.read_resource(uri)
    expected = -32602 if generation == "2026" else -32002
    assert (refused.value.code, refused.value.data) == (expected, {"uri": uri})


async def test_runs_of_another_project_are_no_resources(project: Project, other: Project) -> None:
    run = ended_run(other)
    async with connected(project) as mcp:
        assert (await mcp.list_resources()).resources == []
        with pytest.raises(MCPError, match="Resource not found"):
            await mcp.read_resource(f"runward://runs/{run['id']}")


@both
async def test_an_agent_is_a_prompt_with_its_inputs(
    project: Project, generation: Generation
) -> None:
    run = ended_run(project)
    project.client.call("POST", "/v1/agents", {"name": "clerk", "model": "offline:rules"})
    tool = {"name": "weather", "type": "agent", "agent": "clerk", "description": "Knows weather."}
    project.client.call("POST", "/v1/tools", {**tool, "parameters": CITY})
    uri = f"runward://runs/{run['id']}/output"
    async with connected(project, generation) as mcp:
        prompts = {one.name: one for one in (await mcp.list_prompts()).prompts}
        got = await mcp.get_prompt("weather", {"city": "Rome", "day": uri})
        plain = await mcp.get_prompt("agent_clerk", {"input": "Pay."})
        with pytest.raises(MCPError, match="Missing required arguments: city"):
            await mcp.get_prompt("weather", {})
        with pytest.raises(MCPError, match="Unknown prompt"):
            await mcp.get_prompt("runward_result", {})
        cities = await mcp.complete(
            PromptReference(type="ref/prompt", name="weather"), {"name": "city", "value": "Ri"}
        )
        template = "runward://runs/{run_id}"
        ids = await mcp.complete(
            ResourceTemplateReference(type="ref/resource", uri=template),
            {"name": "run_id", "value": run["id"][:12]},
        )
    assert list(prompts) == ["agent_clerk", "weather"]
    asked = prompts["weather"].arguments or []
    assert [(one.name, one.description, one.required) for one in asked] == [
        ("city", "Name of the city.", True),
        ("day", None, False),
    ]
    embedded, request = (message.content for message in got.messages)
    assert isinstance(embedded, EmbeddedResource)
    assert isinstance(embedded.resource, TextResourceContents)
    assert embedded.resource.text == "It rains."
    assert isinstance(request, TextContent)
    assert request.text.startswith("Call the tool 'weather' with these arguments: {")
    [message] = plain.messages
    assert isinstance(message.content, TextContent)
    assert message.content.text == "Call the tool 'agent_clerk' with this input:\n\nPay."
    assert cities.completion.values == ["Riga"]
    assert ids.completion.values == [run["id"]]
