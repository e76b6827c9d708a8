"""What each vendor's protocol takes, as a table in Markdown. `python -m runward models` prints it,
and docs/models.md holds it."""

from collections.abc import Iterator, Sequence
from typing import get_args

from runward.domain.registry.tools import ExecutorKind, HostedKind
from runward.llm.base import Abilities
from runward.llm.capabilities import OF_RUNWARD
from runward.llm.openai.chat import chat_completions
from runward.llm.openai.responses import responses_api
from runward.llm.providers import models

ALL: Sequence[Abilities] = (
    chat_completions.ABILITIES,
    responses_api.ABILITIES,
    *models.ABILITIES.values(),
)


def table() -> str:
    """Lines without one at the end; a dash is what the protocol has no word for."""
    rows = [
        ["", *(f"`{can.vendor}`" for can in ALL)],
        ["---", *("---" for _ in ALL)],
        *([name, *cells] for name, cells in _rows()),
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def by_vendor() -> dict[str, dict[str, str]]:
    """The same for programs: of each vendor's prefix what the rows say."""
    rows = list(_rows())
    return {
        can.vendor: {name.replace("`", ""): cells[at] for name, cells in rows}
        for at, can in enumerate(ALL)
    }


def _rows() -> Iterator[tuple[str, list[str]]]:
    for name in sorted({name for can in ALL for name in can.settings} - OF_RUNWARD):
        yield f"setting `{name}`", [_said(name in can.settings) for can in ALL]
    for choice in ("none", "required", "named"):
        yield f"`tool_choice` {choice}", [_said(choice in can.tool_choices) for can in ALL]
    yield "`parallel_tool_calls: false`", [_said(can.parallel_off) for can in ALL]
    yield "`strict` tools", [_said(can.strict) for can in ALL]
    yield "`output_schema`", [_said(can.output_schema) for can in ALL]
    yield "images", [_said(can.images) for can in ALL]
    yield "files", [_said(can.files) for can in ALL]
    places = ["in the result" if can.result_media else "behind the results" for can in ALL]
    yield "images and files of a tool", places
    for hosted in get_args(HostedKind):
        yield f"hosted `{hosted}`", [_said(hosted in can.hosted) for can in ALL]
    for kind in get_args(ExecutorKind):
        own = ["its own" if kind in can.executors else "a function" for can in ALL]
        yield f"executor `{kind}`", own


def _said(able: bool) -> str:  # noqa: FBT001
    return "yes" if able else "-"
