"""A search over tools, for agents with more tools than a model sees at once. It does not depend on
the provider: found tools are ordinary tools from the next turn on."""

import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
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
"""Maximum number of characters of a query. Further characters are ignored."""
MAX_TERMS: Final = 64
"""Maximum number of different words of a query. Further words are ignored."""
MAX_SEARCHED: Final = 1024
"""Maximum number of characters that are searched of a description, and of the names of all
parameters together."""
MAX_DESCRIPTION: Final = 200
"""Maximum number of characters of a found tool's description in the result."""
MAX_PROPERTIES, MAX_PROPERTY = 16, 64
"""Maximum number of parameters of a found tool in the result, and of characters of each name."""
MAX_INDEXED: Final = 2048
"""Maximum number of tools whose words are cached."""

_NAME_WEIGHT, _PROPERTY_WEIGHT = 4.0, 1.5
_SATURATION: Final = 1.2
_EXACT: Final = 1000.0
_HUMPS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ALONE: Final = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
"""Scripts without spaces between words. Each character counts as a word."""
_WORD: Final = re.compile(rf"[{_ALONE}]|[^\W_{_ALONE}]+")
_SUFFIX: Final = re.compile(r"(?<=\w{3})(?:ies|ing|es|ed|(?<!s)s|y|e)$")


def search(query: str, tools: Mapping[str, ToolSpec], limit: int) -> list[JsonObject]:
    """Return the best matches first: `name`, the beginning of `description`, and the names of the
    `parameters`. A match in a tool's name has the highest weight, then its parameters' names, then
    its description. Rare words have a higher weight. A query that is a tool's name finds this tool
    first. Tools with equal weights keep their order."""
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


def must_search(state: RunState, enabled: Mapping[str, CompiledTool]) -> bool:
    """Return whether the run's agent must search: it has more tools than a model sees, one of its
    tools is deferred, or its configuration requires it."""
    return len(_list_immediate_tools(state, enabled)) < len(enabled) or _searches_all(state)


def _searches_all(state: RunState) -> bool:
    return SEARCH_TOOLS in state.config.tools


def _list_immediate_tools(state: RunState, enabled: Mapping[str, CompiledTool]) -> frozenset[str]:
    """Return the tools that the model sees before it searches: none if there are too many, or if
    the configuration names `search_tools`."""
    names = frozenset(name for name, tool in enabled.items() if not tool.spec.defer)
    return frozenset() if _searches_all(state) or len(names) > MAX_VISIBLE_TOOLS else names


def list_loaded_tools(state: RunState) -> tuple[str, ...]:
    """Return the tools that a searching agent sees, latest first: the tool that it must call, and
    the tools that it has found or called in this run."""
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
    """Return the enabled tools that the model sees in this turn: all, or the ones that need no
    search and the latest of the loaded ones. Together, these are at most `room`, but the latest
    MAX_FOUND of the loaded ones always fit. Without a tool that needs no search, `room` always
    applies. The tools are in the agent's order, so that prompt caches stay valid."""
    if not must_search(state, enabled):
        return dict(enabled)
    immediate = _list_immediate_tools(state, enabled)
    loaded = [name for name in list_loaded_tools(state) if name in enabled.keys() - immediate]
    if immediate:
        room = max(room - len(immediate), MAX_FOUND)
    kept = immediate.union(loaded[:room])
    return {name: tool for name, tool in enabled.items() if name in kept}


def _read_found_names(call: Call) -> Iterator[str]:
    """Return the names in the result of a search, best first."""
    output = call.result.output if call.result is not None else None
    match output:
        case {"tools": list(tools)}:
            for tool in tools:
                if isinstance(tool, dict) and isinstance(name := tool.get("name"), str):
                    yield name
        case _:  # The result is an error, or a hook has replaced it.
            return


class _Words(NamedTuple):
    """The weight of each stem of a tool, and the stems in order."""

    counts: Mapping[str, float]
    ordered: Sequence[str]


def _index_of(spec: ToolSpec) -> _Words:
    properties = " ".join(_properties(spec)[:MAX_SEARCHED])[:MAX_SEARCHED]
    return _index(spec.name, properties, spec.description[:MAX_SEARCHED])


@lru_cache(maxsize=MAX_INDEXED)
def _index(name: str, properties: str, description: str) -> _Words:
    """Return the words of a tool. They are cached, because reading a thousand tools takes 20 ms."""
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
    """Return the tools with stems that begin with `term`, at half their weight. Used for terms
    without exact matches."""
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
    """Return the words without their most common endings: `refunds` and `refunding` become
    `refund`."""
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
