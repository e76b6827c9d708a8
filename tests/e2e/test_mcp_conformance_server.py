"""The MCP project's own conformance suite (npm @modelcontextprotocol/conformance) against /mcp. It
cannot send an API key, so a proxy adds one."""

import asyncio
import base64
import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from tests.e2e.conftest import Processes
from tests.support.mcp.client import mcp_client, run_of
from tests.support.mcp.proxy import KeyProxy
from tests.support.programs import conformance
from tests.support.services.client import TERMINAL, Client
from tests.support.tools.server import Behaviour, ToolServer

pytestmark = pytest.mark.timeout(300)

SUITE_SECONDS: Final = 240
STAMP: Final = re.compile(r"-\d{4}-\d\d-\d\dT.*$")
PNG: Final = base64.b64encode(b"\x89PNG\r\n\x1a\nno real picture").decode()
NO_ARGUMENTS: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {},
    "additionalProperties": False,
}
CHOICES: Final = [{"const": "value1", "title": "One"}, {"const": "value2", "title": "Two"}]
OPTIONS: Final = ["option1", "option2", "option3"]
QUESTIONS: Final[dict[str, Any]] = {
    "test_elicitation": {"username": {"type": "string"}, "email": {"type": "string"}},
    "test_elicitation_sep1034_defaults": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "default": True},
    },
    "test_elicitation_sep1330_enums": {
        "untitledSingle": {"type": "string", "enum": OPTIONS},
        "titledSingle": {"type": "string", "oneOf": CHOICES},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["One", "Two", "Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": OPTIONS}},
        "titledMulti": {"type": "array", "items": {"anyOf": CHOICES}},
    },
}
"""Tools of type `client`, with the schemas of their results."""
PROMPTS: Final = {
    "test_simple_prompt": [],
    "test_prompt_with_arguments": ["arg1", "arg2"],
    "test_prompt_with_embedded_resource": ["resourceUri"],
}
TEXT: Final = {"type": "text", "text": "Multiple content types test:"}
IMAGE: Final = {"type": "image", "data": PNG, "media_type": "image/png"}
AUDIO: Final = {"type": "file", "data": PNG, "media_type": "audio/wav"}
FILE: Final = {"type": "file", "data": PNG, "media_type": "text/plain", "filename": "a.txt"}
TOOLS: Final = {
    "test_simple_text": Behaviour("raw", value="This is a simple text response for testing."),
    "test_image_content": Behaviour("return", value={"content": [IMAGE]}),
    "test_audio_content": Behaviour("return", value={"content": [AUDIO]}),
    "test_embedded_resource": Behaviour("return", value={"content": [FILE]}),
    "test_multiple_content_types": Behaviour("return", value={"content": [TEXT, IMAGE, FILE]}),
    "test_error_handling": Behaviour("is_error", message="This tool intentionally fails"),
    "test_reconnection": Behaviour("raw", value="still here"),
}
SCHEMA_2020: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "additionalProperties": False,
}

PASS: Final = {
    "completion-complete",
    "dns-rebinding-protection",
    "elicitation-sep1034-defaults",
    "elicitation-sep1330-enums",
    "json-schema-2020-12",
    "ping",
    "prompts-get-embedded-resource",
    "prompts-get-simple",
    "prompts-get-with-args",
    "prompts-list",
    "resources-list",
    "resources-read-binary",
    "resources-read-text",
    "resources-templates-read",
    "server-initialize",
    "server-sse-multiple-streams",
    "server-sse-polling",
    "tools-call-audio",
    "tools-call-elicitation",
    "tools-call-embedded-resource",
    "tools-call-error",
    "tools-call-image",
    "tools-call-mixed-content",
    "tools-call-simple-text",
    "tools-call-with-progress",
    "tools-list",
}
NOT_THERE: Final = {
    "logging-set-level": "no logging",
    "prompts-get-with-image": "the prompt of an agent has no image of its own",
    "resources-subscribe": "no process stores data about a client",
    "resources-unsubscribe": "no process stores data about a client",
    "tools-call-sampling": "no model is asked by way of the client",
    "tools-call-with-logging": "no logging",
}
"""Scenario -> why it does not apply."""


def prepare(client: Client, tools: ToolServer) -> None:
    for name, behaviour in TOOLS.items():
        client.register_tool(name, tools.tool(name, behaviour), parameters=NO_ARGUMENTS)
    url = tools.tool("json_schema_2020_12_tool")
    client.register_tool("json_schema_2020_12_tool", url, parameters=SCHEMA_2020, strict=False)


def prepare_questions(client: Client) -> None:
    for name, fields in QUESTIONS.items():
        message = {"message": {"type": "string"}} if name == "test_elicitation" else {}
        schema = {**NO_ARGUMENTS, "properties": message}
        answer = {"type": "object", "properties": fields}
        tool = {"name": name, "type": "client", "description": "Asks.", "strict": False}
        client.call("POST", "/v1/tools", {**tool, "parameters": schema, "output_schema": answer})


def prepare_prompts(client: Client) -> None:
    client.call("POST", "/v1/agents", {"name": "helper", "model": "offline:rules"})
    for name, arguments in PROMPTS.items():
        properties = {one: {"type": "string"} for one in arguments}
        schema = {**NO_ARGUMENTS, "properties": properties, "required": arguments}
        tool = {"name": name, "type": "agent", "agent": "helper", "description": "Helps."}
        client.call("POST", "/v1/tools", {**tool, "parameters": schema})


async def call_tool(url: str, key: str) -> str:
    """Return the run of a tool whose output is an image."""
    async with mcp_client(url, key) as mcp:
        return run_of(await mcp.call_tool("test_image_content", {}))


def prepare_resources(client: Client, url: str) -> dict[str, str]:
    """Start the runs whose outputs are read, and return the URIs that stand for those of the
    suite."""
    run = client.start_run(model="offline:rules", input="Hi", metadata={"id": "123"})
    client.settle(run["id"], TERMINAL)
    image = f"runward://runs/{asyncio.run(call_tool(url, client.key))}/files/1/image"
    return {
        "test://static-text": f"runward://runs/{run['id']}/output",
        "test://example-resource": f"runward://runs/{run['id']}/output",
        "test://static-binary": image,
        "test://template/123/data": f"runward://runs/{run['id']}",
    }


def verdicts(folder: Path) -> dict[str, set[str]]:
    """Scenario -> the statuses of its checks."""
    found: dict[str, set[str]] = {}
    for result in folder.glob("server-*/checks.json"):
        name = STAMP.sub("", result.parent.name.removeprefix("server-"))
        checks: list[dict[str, str]] = json.loads(result.read_text())
        found[name] = {check["status"] for check in checks} - {"INFO"}
    return found


def test_the_conformance_suite_passes_what_applies(
    start: Processes, tools: ToolServer, tmp_path: Path
) -> None:
    service = start("serve", env={"RUNWARD_PLUGINS": "tests.support.plugins.conformance"})
    client = start.client(service)
    prepare(client, tools)
    prepare_prompts(client)
    prepare_questions(client)
    renamed = prepare_resources(client, service.url)
    with KeyProxy(service.url, client.key, renamed) as proxy:
        done = conformance(
            *("server", "--url", f"{proxy.url}/mcp", "--suite", "all"),
            *("--output-dir", str(tmp_path)),
            seconds=SUITE_SECONDS,
        )
    found = verdicts(tmp_path)
    shown = done.stdout[-8000:] + done.stderr[-4000:]
    assert found.keys() == PASS | NOT_THERE.keys(), shown
    assert {name for name, statuses in found.items() if statuses <= {"SUCCESS"}} == PASS, shown
    failed = {name for name, statuses in found.items() if "FAILURE" in statuses}
    assert failed == set(NOT_THERE), shown
