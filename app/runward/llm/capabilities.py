"""The reduction of a request to the features that a provider's protocol supports.

Every reduction is reported as a `Loss`. The run records it in a `model.setting_dropped` event. If a
loss is known when the run is created, the API rejects the request instead.

The features of all protocols are also a table. `python -m runward models` prints it, and
docs/reference/models.md contains it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, get_args

from pydantic import JsonValue

from runward.domain.registry.tools import ExecutorKind, HostedToolKind
from runward.domain.run.items import HostedCall, Item, MediaPart, Message, Reasoning, ToolCall
from runward.domain.run.response import Loss
from runward.llm.base import Abilities, ModelRequest, RequestedToolChoice
from runward.llm.openai.chat import chat_completions
from runward.llm.openai.responses import responses_api
from runward.llm.providers import models

ADAPTER_SETTINGS: Final = frozenset(
    {
        "stream",
        "extra_body",
        "timeout_seconds",
        "first_token_timeout_seconds",
        "tools_in_prompt",
    }
)
"""Settings that every provider supports, because Runward handles them itself or passes them on
unchanged."""
REASONING_SETTING: Final = "reasoning"
"""The setting that contains an `effort` and a `summary`. Some protocols support only the effort."""


def fit_request(
    request: ModelRequest, abilities: Abilities
) -> tuple[ModelRequest, tuple[Loss, ...]]:
    """Return the request, reduced to the features that the protocol supports, and the losses."""
    losses = (
        *_tool_losses(request, abilities),
        *unsupported_settings(request.settings, abilities),
        *_option_losses(request, abilities),
        *_item_losses(request.items, abilities),
    )
    if not losses:
        return request, ()
    lost = {loss.part for loss in losses}
    tools = tuple(t for t in request.tools if t.hosted is None or t.hosted.kind in abilities.hosted)
    return replace(
        request,
        tools=tools,
        items=tuple(item for item in request.items if not _is_foreign_reasoning(item, abilities)),
        tool_choice=supported_choice(request.tool_choice, {tool.name for tool in tools}, lost),
        parallel_tool_calls=request.parallel_tool_calls or "parallel_tool_calls" in lost,
        output_schema=None if "output_schema" in lost else request.output_schema,
        settings=_supported_settings(request.settings, lost),
    ), losses


def unsupported_settings(settings: Mapping[str, JsonValue], abilities: Abilities) -> Iterator[Loss]:
    """Yield a loss for each setting that the protocol does not support. A setting of null counts as
    not set."""
    why = f"{abilities.provider} does not support this setting."
    for name, value in settings.items():
        if value is not None and name not in abilities.settings | ADAPTER_SETTINGS:
            yield Loss(f"model_settings.{name}", why)
    reasoning = settings.get(REASONING_SETTING)
    summarised = isinstance(reasoning, dict) and reasoning.get("summary") is not None
    if summarised and f"{REASONING_SETTING}.summary" not in abilities.settings:
        yield Loss(f"model_settings.{REASONING_SETTING}.summary", why)


def _supported_settings(settings: Mapping[str, JsonValue], lost: set[str]) -> dict[str, JsonValue]:
    kept = {n: v for n, v in settings.items() if f"model_settings.{n}" not in lost}
    reasoning = kept.get(REASONING_SETTING)
    if f"model_settings.{REASONING_SETTING}.summary" in lost and isinstance(reasoning, dict):
        kept[REASONING_SETTING] = {key: said for key, said in reasoning.items() if key != "summary"}
    return kept


def unsupported_choice(choice: RequestedToolChoice, abilities: Abilities) -> Loss | None:
    kind = choice if isinstance(choice, str) else "named"
    if kind == "auto" or kind in abilities.tool_choices:
        return None
    return Loss("tool_choice", f"{abilities.provider} does not support the tool choice '{kind}'.")


def _tool_losses(request: ModelRequest, can: Abilities) -> Iterator[Loss]:
    for tool in request.tools:
        if tool.hosted is not None and tool.hosted.kind not in can.hosted:
            yield Loss(
                f"tools.{tool.name}", f"{can.provider} does not run {tool.hosted.kind} itself."
            )


def _option_losses(request: ModelRequest, can: Abilities) -> Iterator[Loss]:
    if request.tools and (loss := unsupported_choice(request.tool_choice, can)) is not None:
        yield loss
    if request.tools and not request.parallel_tool_calls and not can.parallel_off:
        why = f"{can.provider} cannot be limited to one tool call at a time."
        yield Loss("parallel_tool_calls", why)
    if request.output_schema is not None and not can.output_schema:
        why = f"{can.provider} does not support output schemas. Runward still validates the output."
        yield Loss("output_schema", why)


def _item_losses(items: tuple[Item, ...], can: Abilities) -> Iterator[Loss]:
    """Yield at most one loss of each kind, even for many items."""
    found: dict[str, str] = {}
    for item in items:
        if (owner := _foreign_provider(item, can)) is not None:
            found["native"] = (
                f"Citations and signatures of {owner} cannot be sent to {can.provider}."
            )
        match item:
            case Reasoning() if _is_foreign_reasoning(item, can):
                found["reasoning"] = (
                    f"Reasoning of {item.provider} cannot be sent to {can.provider}."
                )
            case HostedCall() if item.provider != can.provider:
                why = (
                    f"Tool calls that {item.provider} ran itself are sent to "
                    f"{can.provider} as text."
                )
                found["hosted_call"] = why
            case Message(content=content) if not isinstance(content, str):
                media = {part.type for part in content if isinstance(part, MediaPart)}
                for kind, taken in (("image", can.images), ("file", can.files)):
                    if kind in media and not taken:
                        found[kind] = (
                            f"{can.provider} does not support a message with the part type {kind}."
                        )
            case _:
                pass
    yield from (Loss(what, why) for what, why in found.items())


def _foreign_provider(item: Item, can: Abilities) -> str | None:
    """Return the provider of the item's `native` data if it is another provider than that of `can`.
    Otherwise return None."""
    native = item.native if isinstance(item, Message | ToolCall) else None
    return native.provider if native is not None and native.provider != can.provider else None


def _is_foreign_reasoning(item: Item, can: Abilities) -> bool:
    return isinstance(item, Reasoning) and item.provider != can.provider


def supported_choice(
    choice: RequestedToolChoice, tools: set[str], lost: set[str]
) -> RequestedToolChoice:
    """Return the choice if these tools allow it, otherwise `auto`."""
    if "tool_choice" in lost or not tools:
        return "auto"
    if isinstance(choice, str) or choice["name"] in tools:
        return choice
    return "auto"


ALL_ABILITIES: Sequence[Abilities] = (
    chat_completions.ABILITIES,
    responses_api.ABILITIES,
    *models.ABILITIES.values(),
)


def capability_table() -> str:
    """Return the table in Markdown, without a final line break. A dash means that the protocol does
    not support the feature."""
    rows = [
        ["", *(f"`{can.provider}`" for can in ALL_ABILITIES)],
        ["---", *("---" for _ in ALL_ABILITIES)],
        *([name, *cells] for name, cells in _rows()),
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def capabilities_by_provider() -> dict[str, dict[str, str]]:
    """Return the table's cells by provider prefix and row name, for programs."""
    rows = list(_rows())
    return {
        can.provider: {name.replace("`", ""): cells[at] for name, cells in rows}
        for at, can in enumerate(ALL_ABILITIES)
    }


def _rows() -> Iterator[tuple[str, list[str]]]:
    for name in sorted({name for can in ALL_ABILITIES for name in can.settings} - ADAPTER_SETTINGS):
        yield f"setting `{name}`", [_yes_or_dash(name in can.settings) for can in ALL_ABILITIES]
    for choice in ("none", "required", "named"):
        yield (
            f"`tool_choice` {choice}",
            [_yes_or_dash(choice in can.tool_choices) for can in ALL_ABILITIES],
        )
    yield "`parallel_tool_calls: false`", [_yes_or_dash(can.parallel_off) for can in ALL_ABILITIES]
    yield "`strict` tools", [_yes_or_dash(can.strict) for can in ALL_ABILITIES]
    yield "`output_schema`", [_yes_or_dash(can.output_schema) for can in ALL_ABILITIES]
    yield "images", [_yes_or_dash(can.images) for can in ALL_ABILITIES]
    yield "files", [_yes_or_dash(can.files) for can in ALL_ABILITIES]
    places = ["in the result" if can.result_media else "after the results" for can in ALL_ABILITIES]
    yield "images and files of a tool", places
    for hosted in get_args(HostedToolKind):
        yield f"hosted `{hosted}`", [_yes_or_dash(hosted in can.hosted) for can in ALL_ABILITIES]
    for kind in get_args(ExecutorKind):
        own = ["native" if kind in can.executors else "as a function" for can in ALL_ABILITIES]
        yield f"executor `{kind}`", own


def _yes_or_dash(able: bool) -> str:  # noqa: FBT001
    return "yes" if able else "-"
