"""A search over tools, for agents with more of them than a model is shown at once. It knows no
provider: what was found is shown as ordinary tools from the next turn on."""

import math
import re
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple

from pydantic import JsonValue

from runward.domain.json import JsonObject
from runward.domain.registry.tools import SEARCH_TOOLS, ToolSpec
from runward.domain.run.config import MAX_VISIBLE_TOOLS, NamedToolChoice
from runward.domain.run.state import Call, RunState
from runward.domain.run.tools import CompiledTool

MAX_FOUND: Final = 20
MAX_QUERY: Final = 1024
"""Characters of a query that count."""
MAX_TERMS: Final = 64
"""Different words of a query that count."""
MAX_SEARCHED: Final = 1024
"""Characters of a description that are searched, and of the names of parameters together."""
MAX_DESCRIPTION: Final = 200
"""Characters of a found tool's description that are shown."""
MAX_PROPERTIES, MAX_PROPERTY = 16, 64
"""Parameters of a found tool that are named, and characters of each name."""
MAX_INDEXED: Final = 2048
"""Tools whose words are kept in memory."""

_NAME_WEIGHT, _PROPERTY_WEIGHT = 4.0, 1.5
_SATURATION: Final = 1.2
_EXACT: Final = 1000.0
_HUMPS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ALONE: Final = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
"""Scripts without spaces between words: each sign counts as one."""
_WORD: Final = re.compile(rf"[{_ALONE}]|[^\W_{_ALONE}]+")
_SUFFIX: Final = re.compile(r"(?<=\w{3})(?:ies|ing|es|ed|(?<!s)s|y|e)$")


def search(query: str, tools: Mapping[str, ToolSpec], limit: int) -> list[JsonObject]:
    """The best first: `name`, the beginning of `description`, the names of the `parameters`.
    A word in a tool's name counts most, then one in its parameters' names, then one in its
    description; rare words count more, a tool's whole name wins. Equals keep their order."""
    words = {name: _index_of(spec) for name, spec in tools.items()}
    scores = dict.fromkeys(tools, 0.0)
    for term in islice(dict.fromkeys(_stems(query[:MAX_QUERY])), MAX_TERMS):
        hits = {name: row.counts[term] for name, row in words.items() if term in row.counts}
        hits = hits or _match_prefix(term, words)
        rarity = math.log(1 + (len(tools) - len(hits) + 0.5) / (len(hits) + 0.5))
        for name, count in hits.items():
            scores[name] += rarity * count / (count + _SATURATION)
    for name in re.split(r"[^A-Za-z0-9_-]+", query[:MAX_QUERY]):
        if name in scores:
            scores[name] += _EXACT
    best = sorted((name for name in scores if scores[name] > 0), key=lambda name: -scores[name])
    return [_describe_tool(tools[name]) for name in best[: min(limit, MAX_FOUND)]]


def must_search(state: RunState, enabled: Collection[str]) -> bool:
    """Whether the run's agent has to search: it has more tools than are shown, or asked for it."""
    return len(enabled) > MAX_VISIBLE_TOOLS or SEARCH_TOOLS in state.config.tools


def list_loaded_tools(state: RunState) -> tuple[str, ...]:
    """The tools that a searching agent is shown, the latest first: the one that it is made to
    call, and those that it has found or called in this run."""
    names: dict[str, None] = {}
    if isinstance(choice := state.config.tool_choice, NamedToolChoice):
        names[choice.name] = None
    for call in sorted(state.calls.values(), key=lambda one: (-one.turn, one.position)):
        if call.tool == SEARCH_TOOLS:
            names |= dict.fromkeys(_read_found_names(call))
        elif call.version is not None:
            names[call.tool] = None
    return tuple(names)


def visible_registered_tools(
    state: RunState, enabled: Mapping[str, CompiledTool], room: int = MAX_VISIBLE_TOOLS - 1
) -> dict[str, CompiledTool]:
    """Of the enabled tools those that the model is shown in this turn: all, or the latest `room`
    that are loaded. In the agent's order, whatever was found last: caches of prompts live on it."""
    if not must_search(state, enabled):
        return dict(enabled)
    kept = frozenset([name for name in list_loaded_tools(state) if name in enabled][:room])
    return {name: tool for name, tool in enabled.items() if name in kept}


def _read_found_names(call: Call) -> Iterator[str]:
    """The names in a result of a search, the best first."""
    output = call.result.output if call.result is not None else None
    match output:
        case {"tools": list(tools)}:
            for tool in tools:
                if isinstance(tool, dict) and isinstance(name := tool.get("name"), str):
                    yield name
        case _:  # an error, or a hook has replaced it
            return


class _Words(NamedTuple):
    """How much each stem of a tool counts, and the stems in order."""

    counts: Mapping[str, float]
    ordered: Sequence[str]


def _index_of(spec: ToolSpec) -> _Words:
    properties = " ".join(_properties(spec)[:MAX_SEARCHED])[:MAX_SEARCHED]
    return _index(spec.name, properties, spec.description[:MAX_SEARCHED])


@lru_cache(maxsize=MAX_INDEXED)
def _index(name: str, properties: str, description: str) -> _Words:
    """Kept, since a thousand tools take 20 ms to read."""
    counts: dict[str, float] = {}
    for text, weight in (
        (name, _NAME_WEIGHT),
        (properties, _PROPERTY_WEIGHT),
        (description, 1.0),
    ):
        for stem in _stems(text):
            counts[stem] = counts.get(stem, 0.0) + weight
    return _Words(counts, sorted(counts))


def _match_prefix(term: str, words: Mapping[str, _Words]) -> dict[str, float]:
    """For a term that is nobody's: what begins with it, at half its weight."""
    found: dict[str, float] = {}
    for name, row in words.items():
        count = 0.0
        for at in range(bisect_left(row.ordered, term), len(row.ordered)):
            if not row.ordered[at].startswith(term):
                break
            count += row.counts[row.ordered[at]]
        if count:
            found[name] = count / 2
    return found


def _stems(text: str) -> list[str]:
    """Words without their commonest endings: `refunds` and `refunding` are `refund`."""
    words = _WORD.findall(_HUMPS.sub(" ", text).casefold())
    return [_SUFFIX.sub("", word) for word in words]


def _properties(spec: ToolSpec) -> list[str]:
    properties = spec.parameters.get("properties")
    return list(properties) if isinstance(properties, dict) else []


def _describe_tool(spec: ToolSpec) -> JsonObject:
    text = " ".join(spec.description[:MAX_SEARCHED].split())
    short = text if len(text) <= MAX_DESCRIPTION else text[: MAX_DESCRIPTION - 1] + "…"
    names: list[JsonValue] = [name[:MAX_PROPERTY] for name in _properties(spec)[:MAX_PROPERTIES]]
    return {"name": spec.name, "description": short, "parameters": names}
