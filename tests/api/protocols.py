"""The five protocols of model providers, each as a test of a conversation needs it: how its server
is scripted, and what a request that it got says, in the same words for all."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import pytest

from tests.api.project import Project
from tests.support.models.all_providers import AllProviders
from tests.support.models.chat_rules import Body
from tests.support.models.chat_server import content_text
from tests.support.models.scripted import ScriptedServer
from tests.support.models.spoken import Call, Reply, as_chat, as_responses
from tests.support.services.client import Json


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request says. `results`: (call id, text); an id that the protocol lacks is the name.
    `result_images` stand in results; images that follow in a message of their own are `images`."""

    body: Body
    choice: str = "auto"
    one_call: bool = False
    tools: tuple[str, ...] = ()
    strict: tuple[str, ...] = ()
    results: tuple[tuple[str, str], ...] = ()
    images: tuple[str, ...] = ()
    result_images: tuple[str, ...] = ()

    @property
    def whole(self) -> str:
        return json.dumps(self.body)


@dataclass(frozen=True, slots=True)
class Protocol:
    """`provider` is the name in `provider:model`; `model` how names of models begin that can do
    all of it. `reasoning`: tokens that its usage tells of. `thinks`: it gives and takes thoughts.
    `told_one_call`, `told_strict`: the provider has a word for these."""

    provider: str
    model: str
    server: Callable[[AllProviders], ScriptedServer[Any, Any]]
    spoken: Callable[[Reply], Any]
    read: Callable[[Body], Asked]
    reasoning: int = 5
    thinks: bool = True
    told_one_call: bool = True
    told_strict: bool = True

    def __str__(self) -> str:
        return self.provider


@dataclass(frozen=True, slots=True)
class Speaker:
    """A model of this protocol in a project."""

    protocol: Protocol
    project: Project

    @property
    def name(self) -> str:
        return f"{self.protocol.model}-{self.project.suffix}"

    @property
    def server(self) -> ScriptedServer[Any, Any]:
        providers = self.project.running.providers
        assert providers is not None
        return self.protocol.server(providers)

    def script(self, *replies: Reply) -> str:
        """The n-th request gets the n-th reply. The model's name for a run."""
        self.server.script(self.name, *map(self.protocol.spoken, replies))
        return f"{self.protocol.provider}:{self.name}"

    @property
    def asked(self) -> list[Asked]:
        return [self.protocol.read(request.body) for request in self.server.requests(self.name)]


def _list(value: Any) -> list[Body]:
    return cast(list[Body], value) if isinstance(value, list) else []


def _parts(messages: Any, role: str) -> Iterator[Body]:
    for message in _list(messages):
        if message.get("role") == role:
            yield from _list(message.get("content"))


def _chat(body: Body) -> Asked:
    choice = body.get("tool_choice", "auto")
    functions = [tool["function"] for tool in body.get("tools", [])]
    return Asked(
        body,
        choice=choice if isinstance(choice, str) else choice["function"]["name"],
        one_call=body.get("parallel_tool_calls") is False,
        tools=tuple(one["name"] for one in functions),
        strict=tuple(one["name"] for one in functions if one.get("strict")),
        results=tuple(
            (one["tool_call_id"], content_text(one["content"]))
            for one in body["messages"]
            if one["role"] == "tool"
        ),
        images=tuple(
            part["image_url"]["url"]
            for part in _parts(body["messages"], "user")
            if part["type"] == "image_url"
        ),
    )


def _responses(body: Body) -> Asked:
    choice = body.get("tool_choice", "auto")
    results = [one for one in body["input"] if one.get("type") == "function_call_output"]
    return Asked(
        body,
        choice=choice if isinstance(choice, str) else choice["name"],
        one_call=body.get("parallel_tool_calls") is False,
        tools=tuple(one["name"] for one in body.get("tools", [])),
        strict=tuple(one["name"] for one in body.get("tools", []) if one.get("strict")),
        results=tuple((one["call_id"], content_text(one["output"])) for one in results),
        images=tuple(
            part["image_url"]
            for part in _parts(body["input"], "user")
            if part["type"] == "input_image"
        ),
        result_images=tuple(
            part["image_url"]
            for one in results
            for part in _list(one["output"])
            if part["type"] == "input_image"
        ),
    )


def _anthropic(body: Body) -> Asked:
    choice = cast(Body, body.get("tool_choice") or {"type": "auto"})
    blocks = list(_parts(body["messages"], "user"))
    results = [block for block in blocks if block["type"] == "tool_result"]
    names = {"any": "required", "tool": choice.get("name", "")}
    return Asked(
        body,
        choice=names.get(choice["type"], choice["type"]),
        one_call=choice.get("disable_parallel_tool_use") is True,
        tools=tuple(one["name"] for one in body.get("tools", [])),
        strict=tuple(one["name"] for one in body.get("tools", []) if one.get("strict")),
        results=tuple((one["tool_use_id"], content_text(one["content"])) for one in results),
        images=tuple(_anthropic_images(blocks)),
        result_images=tuple(
            image for one in results for image in _anthropic_images(_list(one["content"]))
        ),
    )


def _anthropic_images(blocks: list[Body]) -> Iterator[str]:
    for block in blocks:
        if block["type"] == "image":
            source = block["source"]
            yield source["url"] if source["type"] == "url" else source["data"]


def _gemini(body: Body) -> Asked:
    calling = cast(Body, body.get("toolConfig", {}).get("functionCallingConfig", {}))
    modes = {"NONE": "none", "ANY": "required"}
    named = calling.get("allowedFunctionNames") or [modes.get(calling.get("mode", ""), "auto")]
    parts = [part for content in body["contents"] for part in content["parts"]]
    results = [part["functionResponse"] for part in parts if "functionResponse" in part]
    declared = [one for tool in body.get("tools", []) for one in tool["functionDeclarations"]]
    return Asked(
        body,
        choice=str(named[0]),
        tools=tuple(one["name"] for one in declared),
        results=tuple((one.get("id", one["name"]), _shown(one["response"])) for one in results),
        images=tuple(_gemini_images(parts)),
        result_images=tuple(
            image for one in results for image in _gemini_images(one.get("parts", []))
        ),
    )


def _gemini_images(parts: list[Body]) -> Iterator[str]:
    for part in parts:
        if "inlineData" in part:
            yield part["inlineData"]["data"].replace("-", "+").replace("_", "/")
        elif "fileData" in part:
            yield part["fileData"]["fileUri"]


def _shown(response: Body) -> str:
    """A result that is no object is one under a name of the adapter's choice."""
    values = list(response.values())
    alone = len(values) == 1 and isinstance(values[0], str)
    return values[0] if alone else json.dumps(response)


def _bedrock(body: Body) -> Asked:
    config = cast(Body, body.get("toolConfig") or {"tools": []})
    specs = [tool["toolSpec"] for tool in config["tools"] if "toolSpec" in tool]
    choice = cast(Body, config.get("toolChoice") or {"auto": {}})
    named = choice["tool"]["name"] if "tool" in choice else None
    blocks = list(_parts(body["messages"], "user"))
    results = [block["toolResult"] for block in blocks if "toolResult" in block]
    return Asked(
        body,
        choice=named or ("required" if "any" in choice else "auto"),
        tools=tuple(one["name"] for one in specs),
        strict=tuple(one["name"] for one in specs if one.get("strict")),
        results=tuple((one["toolUseId"], content_text(one["content"])) for one in results),
        images=tuple(_bedrock_images(blocks)),
        result_images=tuple(image for one in results for image in _bedrock_images(one["content"])),
    )


def _bedrock_images(blocks: list[Body]) -> Iterator[str]:
    for block in blocks:
        if "image" in block:
            yield block["image"]["source"]["bytes"]


def _as_it_is(reply: Reply) -> Reply:
    return reply


CHAT = Protocol("openai", "gpt", lambda all_: all_.chat, as_chat, _chat, thinks=False)
RESPONSES = Protocol(
    "openai-responses", "gpt", lambda all_: all_.responses, as_responses, _responses
)
ANTHROPIC = Protocol(
    "anthropic", "claude-sonnet-4-5", lambda all_: all_.anthropic, _as_it_is, _anthropic
)
GEMINI = Protocol(
    "gemini",
    "gemini-3-flash",
    lambda all_: all_.gemini,
    _as_it_is,
    _gemini,
    told_one_call=False,
    told_strict=False,
)
BEDROCK = Protocol(
    "bedrock",
    "us.anthropic.claude-sonnet-4-5",
    lambda all_: all_.bedrock,
    _as_it_is,
    _bedrock,
    reasoning=0,
    told_one_call=False,
)
PROTOCOLS = (CHAT, RESPONSES, ANTHROPIC, GEMINI, BEDROCK)
every = pytest.mark.parametrize("speaker", PROTOCOLS, ids=str, indirect=True)


def call(speaker: Speaker, number: int, name: str, arguments: str = '{"x": "1"}') -> Call:
    return Call(f"call_{number}_{speaker.project.suffix}", name, arguments)


def outcome(run: Json) -> tuple[str, Any]:
    """The run's status, with its output or what went wrong."""
    return run["status"], run["output"] if run["error"] is None else run["error"]
