"""Stored secrets in the settings of hosted tools. Runward inserts them immediately before the
request and redacts them from the response. They are never stored in a run, logged or shown."""

import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from pydantic import JsonValue

from runward.domain.json import JsonObject
from runward.domain.registry.provider_tools import add_setting
from runward.domain.registry.redaction import without_secret
from runward.domain.registry.tools import HostedTool, ToolSpec
from runward.domain.run.items import (
    HostedCall,
    Message,
    MessageContent,
    Native,
    Reasoning,
    TextPart,
)
from runward.domain.run.response import Loss, ModelResponse, Output
from runward.llm.base import (
    ArgumentsDelta,
    ModelDelta,
    ModelError,
    ModelRequest,
    OnDelta,
    ReasoningDelta,
    StreamRestart,
    TextDelta,
)
from runward.llm.capabilities import supported_choice

Read: TypeAlias = Callable[[Collection[str]], Awaitable[Mapping[str, str]]]
"""Return the values of secrets by name. Secrets that do not exist are omitted."""

_Text: TypeAlias = TextDelta | ReasoningDelta | ArgumentsDelta

REDACTED: Final = "***"


@dataclass(frozen=True, slots=True)
class RequestWithSecrets:
    """A request with its secrets. `values` must not appear in any output."""

    request: ModelRequest
    losses: tuple[Loss, ...] = ()
    values: tuple[str, ...] = ()

    def redact_response(self, response: ModelResponse) -> ModelResponse:
        if not self.values:
            return response
        return replace(response, output=tuple(self._output(one) for one in response.output))

    def deltas(self, show: OnDelta) -> "RedactedDeltas":
        return RedactedDeltas(self.values, show)

    def redact_error(self, error: ModelError) -> ModelError:
        if not self.values:
            return error
        message = error.message
        for value in self.values:
            message = without_secret(message, value, REDACTED)
        return ModelError(
            error.code,
            message,
            transient=error.transient,
            retry_after=error.retry_after,
            status=error.status,
        )

    def _output(self, one: Output) -> Output:
        match one:
            case Message(content=content):
                return replace(one, content=self._content(content), native=self._native(one.native))
            case Reasoning():
                return replace(one, data=self._object(one.data))
            case HostedCall():
                return replace(
                    one,
                    arguments=self._object(one.arguments),
                    output=self._json(one.output),
                    data=self._object(one.data),
                )
            case _:
                arguments = self._text(one.arguments)
                return replace(one, arguments=arguments, native=self._native(one.native))

    def _content(self, content: MessageContent) -> MessageContent:
        if isinstance(content, str):
            return self._text(content)
        return tuple(
            TextPart(self._text(part.text)) if isinstance(part, TextPart) else part
            for part in content
        )

    def _native(self, native: Native | None) -> Native | None:
        return native and Native(native.provider, self._object(native.data))

    def _object(self, value: JsonObject) -> JsonObject:
        return {self._text(key): self._json(inner) for key, inner in value.items()}

    def _json(self, value: JsonValue) -> JsonValue:
        match value:
            case str():
                return self._text(value)
            case list():
                return [self._json(inner) for inner in value]
            case dict():
                return self._object(value)
            case _:
                return value

    def _text(self, text: str) -> str:
        for value in self.values:
            text = text.replace(value, REDACTED)
        return text


class RedactedDeltas:
    """Passes streamed text on without the secrets. Because a secret can be split between deltas,
    the end of each text is held back, up to the length of a secret, until more text or `end`
    arrives. `add` takes the deltas."""

    def __init__(self, values: Sequence[str], show: OnDelta) -> None:
        self.add = self._add if values else show
        self._show = show
        self._secret = re.compile("|".join(map(re.escape, values)))
        self._wait = max(map(len, values), default=1) - 1
        self._held: dict[tuple[type, int], _Text] = {}

    def _add(self, delta: ModelDelta) -> None:
        if isinstance(delta, StreamRestart):
            self._held.clear()
            self._show(delta)
            return
        strand = type(delta), delta.index if isinstance(delta, ArgumentsDelta) else 0
        before = self._held.get(strand)
        text = delta.text if before is None else before.text + delta.text
        self._held[strand] = self._pass(replace(delta, text=text), len(text) - self._wait)

    def end(self) -> None:
        """Pass on the text that was held back, because the response is complete."""
        for delta in self._held.values():
            self._pass(delta, len(delta.text))
        self._held.clear()

    def _pass(self, delta: _Text, end: int) -> _Text:
        """Pass on the text up to `end`, and return the rest. A secret that begins before `end` is
        complete."""
        shown, at = "", 0
        for found in self._secret.finditer(delta.text):
            if found.start() >= end:
                break
            shown += delta.text[at : found.start()] + REDACTED
            at = found.end()
        end = max(at, end)
        self._show(replace(delta, text=shown + delta.text[at:end]))
        return replace(delta, text=delta.text[end:])


async def add_secrets(request: ModelRequest, read: Read) -> RequestWithSecrets:
    """Return the request with its secrets. A tool whose secret does not exist is omitted."""
    wanted = {
        name
        for tool in request.tools
        if tool.hosted is not None
        for name in tool.hosted.secrets.values()
    }
    if not wanted:
        return RequestWithSecrets(request)
    values = await read(wanted)
    tools: list[ToolSpec] = []
    losses: list[Loss] = []
    for tool in request.tools:
        secrets = tool.hosted.secrets if tool.hosted is not None else {}
        missing = sorted({name for name in secrets.values() if name not in values})
        if missing:
            named = ", ".join(f"'{name}'" for name in missing)
            losses.append(Loss(f"tools.{tool.name}", f"The project has no secret named {named}."))
        elif tool.hosted is not None and secrets:
            tools.append(tool.model_copy(update={"hosted": _fill_settings(tool.hosted, values)}))
        else:
            tools.append(tool)
    choice = supported_choice(request.tool_choice, {tool.name for tool in tools}, set())
    filled = replace(request, tools=tuple(tools), tool_choice=choice)
    return RequestWithSecrets(
        filled, tuple(losses), tuple(sorted(values.values(), key=len, reverse=True))
    )


def _fill_settings(hosted: HostedTool, values: Mapping[str, str]) -> HostedTool:
    """Return the tool with its secret settings."""
    settings = hosted.settings
    for path, secret in hosted.secrets.items():
        settings = add_setting(settings, path, values[secret])
    return hosted.model_copy(update={"settings": settings})
