"""Models of four protocols as a server of others tells them: `@copilotkit/aimock`, unmodified. The
same conversations as those of the strict servers of our own, as far as its fixtures can say them.

They cannot say: a refusal, prompt caching and what a model thought with in tokens, a request that
is wrong (it takes nearly all), a signature of Gemini or of the Responses API. Bedrock is not among
them: its streams begin a text in a way that botocore cannot read.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.api.project import Project, Running, of_type
from tests.api.protocols import outcome
from tests.e2e.mcp_project import running_on
from tests.support.mcp.others import OthersServer
from tests.support.models.chat_server import ModelServer
from tests.support.postgres import Databases
from tests.support.programs import node_program
from tests.support.services.client import Json
from tests.support.services.service import Service
from tests.support.tools.server import Behaviour

pytestmark = pytest.mark.timeout(120)
MODELS = {
    "openai": "gpt-5",
    "openai-responses": "gpt-5",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-2.5-flash",
}
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
USAGE = {"prompt_tokens": 50, "completion_tokens": 20, "total_tokens": 70}
"""As OpenAI counts; the others' names for it are there too."""
COUNTED = USAGE | {
    "input_tokens": 50,
    "output_tokens": 20,
    "promptTokenCount": 50,
    "candidatesTokenCount": 20,
    "totalTokenCount": 70,
    "inputTokens": 50,
    "outputTokens": 20,
    "totalTokens": 70,
}
every = pytest.mark.parametrize("provider", list(MODELS))


def asks(*calls: tuple[str, str, Any]) -> Json:
    """(id, name, arguments) of each."""
    keys = ("id", "name", "arguments")
    return {"toolCalls": [dict(zip(keys, call, strict=True)) for call in calls], "usage": COUNTED}


def text(value: str, **fields: Any) -> Json:
    return {"content": value, "usage": COUNTED, **fields}


PAY = ("call_1", "pay", {"x": "1"})
AGAIN = ("call_2", "pay", {"x": "2"})
LOOK = ("call_3", "look", {"x": "1"})
CONVERSATIONS: dict[str, list[Json]] = {
    "a text": [text("Hello, world.")],
    "one call": [asks(PAY), text("Paid.")],
    "three calls": [asks(PAY, AGAIN, LOOK), text("Done.")],
    "call after call": [asks(PAY), asks(AGAIN), text("Done.")],
    "text and call": [text("I pay.") | asks(PAY), text("Paid.")],
    "a thought": [asks(PAY) | {"reasoning": "I think."}, text("Paid.", reasoning="It is paid.")],
    "an image": [text("A dot.")],
    "an image as a result": [asks(LOOK), text("A dot.")],
    "a wrong type": [asks(("call_1", "pay", {"x": 1})), asks(AGAIN), text("Paid.")],
    "an object": [text('{"name": "Ada", "age": 36}')],
}


def fixtures() -> Iterator[Json]:
    """By the instructions and how many answers the conversation holds; what comes once and then
    not again, by how often it was asked for."""
    for said, answers in CONVERSATIONS.items():
        for turn, answer in enumerate(answers):
            yield {"match": {"systemMessage": f"({said})", "turnIndex": turn}, "response": answer}
    limit = {"message": "slower", "type": "rate_limit_error"}
    for provider in MODELS:
        limited, broken = f"(limited {provider})", f"(broken {provider})"
        yield {
            "match": {"systemMessage": limited, "sequenceIndex": 0},
            "response": {"error": limit, "status": 429, "retryAfter": 1},
        }
        yield {"match": {"systemMessage": limited}, "response": text("Hello.")}
        yield {
            "match": {"systemMessage": broken, "sequenceIndex": 0},
            "response": text("Hello, world, and all who live there."),
            "chunkSize": 5,
            "truncateAfterChunks": 4,
            "latency": 10,  # or it hangs up before what it wrote has left
        }
        yield {"match": {"systemMessage": broken}, "response": text("Hello.")}


@pytest.fixture(scope="module")
def aimock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    told: Path = tmp_path_factory.mktemp("aimock") / "fixtures.json"
    told.write_text(json.dumps({"fixtures": list(fixtures())}))
    program = [node_program("llmock"), "--port", "{port}", "--fixtures", str(told), "--strict"]
    with OthersServer([*program, "--validate-on-load"], ready="listening") as server:
        yield server.url.removesuffix("/mcp")


@pytest.fixture(scope="module")
def running(migrated_databases: Databases, aimock: str) -> Iterator[Running]:
    env = {
        "ANTHROPIC_BASE_URL": aimock,
        "ANTHROPIC_API_KEY": "sk-ant-test",
        "GEMINI_BASE_URL": aimock,
        "GEMINI_API_KEY": "gemini-test",
    }
    with (
        migrated_databases.migrated() as url,
        Service("serve", url, openai_base_url=f"{aimock}/v1", env=env) as service,
        running_on(service, ModelServer()) as running,
    ):
        yield running


@pytest.fixture
def project(running: Running) -> Iterator[Project]:
    with running.project() as project:
        project.tool("pay")
        content = [{"type": "text", "text": "Here."}, image()]
        project.tool("look", Behaviour("return", {"content": content}))
        yield project


def image() -> Json:
    return {"type": "image", "data": PNG, "media_type": "image/png"}


def run_of(project: Project, provider: str, instructions: str, **fields: Any) -> Json:
    fields = {"tools": ["pay", "look"], "instructions": instructions, **fields}
    return project.run(model=f"{provider}:{MODELS[provider]}", **fields)


def results(project: Project, run: Json) -> list[tuple[str, bool]]:
    """(call id, whether it failed) of every result."""
    items = project.client.items(run["id"])
    return [
        (item["call_id"], item["is_error"]) for item in items if item.get("type") == "tool_result"
    ]


@every
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_a_text(project: Project, provider: str, *, stream: bool) -> None:
    run = run_of(project, provider, "(a text)", model_settings={"stream": stream})
    assert outcome(run) == ("completed", "Hello, world.")
    assert (run["usage"]["input_tokens"], run["usage"]["output_tokens"]) == (50, 20)


@every
@pytest.mark.parametrize(
    ("said", "output", "calls"),
    [
        ("one call", "Paid.", ["call_1"]),
        ("three calls", "Done.", ["call_1", "call_2", "call_3"]),
        ("call after call", "Done.", ["call_1", "call_2"]),
        ("text and call", "Paid.", ["call_1"]),
        ("a thought", "Paid.", ["call_1"]),
        ("an image as a result", "A dot.", ["call_3"]),
    ],
)
def test_calls(project: Project, provider: str, said: str, output: str, calls: list[str]) -> None:
    run = run_of(project, provider, f"({said})")
    assert outcome(run) == ("completed", output)
    assert results(project, run) == [(call, False) for call in calls]


@every
def test_arguments_of_the_wrong_type(project: Project, provider: str) -> None:
    run = run_of(project, provider, "(a wrong type)")
    assert outcome(run) == ("completed", "Paid.")
    assert results(project, run) == [("call_1", True), ("call_2", False)]


@every
def test_an_image(project: Project, provider: str) -> None:
    parts = [{"type": "text", "text": "What is this?"}, image()]
    run = run_of(project, provider, "(an image)", input=[{"role": "user", "content": parts}])
    assert outcome(run) == ("completed", "A dot.")


@every
def test_an_output_with_a_schema(project: Project, provider: str) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name", "age"],
        "additionalProperties": False,
    }
    run = run_of(project, provider, "(an object)", tools=[], output_schema=schema)
    assert run["output_parsed"] == {"name": "Ada", "age": 36}


@every
def test_a_rate_limit(project: Project, provider: str) -> None:
    run = run_of(project, provider, f"(limited {provider})")
    assert outcome(run) == ("completed", "Hello.")
    [retried] = of_type(project.client.events(run["id"]), "model.retried")
    assert retried["code"] == "model_rate_limited"


@every
def test_a_stream_that_breaks(project: Project, provider: str) -> None:
    run = run_of(project, provider, f"(broken {provider})")
    assert outcome(run) == ("completed", "Hello.")
    [retried] = of_type(project.client.events(run["id"]), "model.retried")
    assert retried["code"] == "model_stream_broken"


def test_it_was_asked_in_four_protocols(project: Project, aimock: str) -> None:
    for provider in MODELS:
        run_of(project, provider, "(a text)")
    journal = httpx2.get(f"{aimock}/v1/_requests").json()
    paths = {one["path"].partition("?")[0] for one in journal}
    assert {
        "/v1/chat/completions",
        "/v1/responses",
        "/v1/messages",
        "/v1beta/models/gemini-2.5-flash:streamGenerateContent",
    } <= paths
