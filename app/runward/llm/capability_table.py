"""A Markdown table of the features that each protocol supports. `python -m runward models` prints
it, and docs/models.md contains it."""

from collections.abc import Iterator, Sequence
from typing import get_args

from runward.domain.registry.tools import ExecutorKind, HostedKind
from runward.llm.base import Abilities
from runward.llm.capabilities import ADAPTER_SETTINGS
from runward.llm.openai.chat import chat_completions
from runward.llm.openai.responses import responses_api
from runward.llm.providers import models

ALL_ABILITIES: Sequence[Abilities] = (
    chat_completions.ABILITIES,
    responses_api.ABILITIES,
    *models.ABILITIES.values(),
)


def capability_table() -> str:
    """Return the table without a final line break. A dash means not supported."""
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
        yield f"setting `{name}`", [_said(name in can.settings) for can in ALL_ABILITIES]
    for choice in ("none", "required", "named"):
        yield (
            f"`tool_choice` {choice}",
            [_said(choice in can.tool_choices) for can in ALL_ABILITIES],
        )
    yield "`parallel_tool_calls: false`", [_said(can.parallel_off) for can in ALL_ABILITIES]
    yield "`strict` tools", [_said(can.strict) for can in ALL_ABILITIES]
    yield "`output_schema`", [_said(can.output_schema) for can in ALL_ABILITIES]
    yield "images", [_said(can.images) for can in ALL_ABILITIES]
    yield "files", [_said(can.files) for can in ALL_ABILITIES]
    places = [
        "in the result" if can.result_media else "behind the results" for can in ALL_ABILITIES
    ]
    yield "images and files of a tool", places
    for hosted in get_args(HostedKind):
        yield f"hosted `{hosted}`", [_said(hosted in can.hosted) for can in ALL_ABILITIES]
    for kind in get_args(ExecutorKind):
        own = ["its own" if kind in can.executors else "a function" for can in ALL_ABILITIES]
        yield f"executor `{kind}`", own


def _said(able: bool) -> str:  # noqa: FBT001
    return "yes" if able else "-"
