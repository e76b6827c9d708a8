"""Calls and their results, as Anthropic and Bedrock want them: each call has exactly one result in
the next message, before anything else, and, which together they do not ask for, in order."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.support.models.chat_rules import Body


@dataclass(frozen=True, slots=True)
class Turn:
    """A message: the ids of its calls and of its results. `late`: something stands before one of
    its results."""

    role: str
    calls: list[str]
    results: list[str]
    late: bool


def check_pairs(turns: Sequence[Turn], *, missing: str, extra: str) -> Iterator[str]:
    """`missing` and `extra` are the provider's words, with places for `at` and `ids`."""
    before: list[str] = []
    for at, turn in enumerate([*turns, Turn("user", [], [], late=False)]):
        unanswered = [one for one in before if one not in turn.results]
        unasked = [one for one in turn.results if one not in before]
        if unanswered:
            yield missing.format(at=at, ids=", ".join(unanswered))
        if unasked or len(turn.results) > len(before):
            yield extra.format(at=at, ids=", ".join(unasked or turn.results))
        if not unanswered and not unasked and turn.results != before:
            yield f"messages.{at}: the results {turn.results} are out of the order of {before}"
        if turn.late:
            yield f"messages.{at}: tool results must come first"
        if turn.calls and turn.role != "assistant":
            yield f"messages.{at}: tool calls can only be in assistant messages"
        if len(set(turn.calls)) != len(turn.calls):
            yield f"messages.{at}: the ids of tool calls must be unique"
        before = turn.calls


CHANGED = (
    "`thinking` blocks in the latest assistant message cannot be modified. These blocks must "
    "remain as they were in the original response."
)


class Signed:
    """The thoughts that a server signed, and the calls that they led to."""

    def __init__(self) -> None:
        self._blocks: list[Body] = []
        self._before: dict[str, list[Body]] = {}

    def signature(self) -> str:
        return f"signature{len(self._blocks)}=="

    def remember(self, thoughts: list[Body], calls: list[str]) -> None:
        self._blocks += thoughts
        self._before |= dict.fromkeys(calls, thoughts)

    def check(self, answers: Sequence[tuple[list[Body], list[str]]]) -> Iterator[str]:
        """`answers`: (thoughts, ids of calls) of every answer in the conversation. Of the last one
        the thoughts must be there; calls of others are not asked about."""
        for thoughts, _ in answers:
            if any(one not in self._blocks for one in thoughts):
                yield "Invalid `signature` in `thinking` block"
        for thoughts, calls in answers[-1:]:
            if any(self._before.get(one, thoughts) != thoughts for one in calls):
                yield CHANGED
