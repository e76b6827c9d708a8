"""The differences between servers that their errors report. Each of them is a part of the request
that one server requires and another server rejects."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from runward.domain.run.items import Item
from runward.llm.base import ModelError
from runward.llm.openai.chat.reasoning import CONTENT, DETAILS, expects_reasoning

_REJECTED: Final = frozenset({400, 422})
_REJECTED_ID: Final = re.compile(r"Tool call id was|tool_calls\[\d+\]\.id': string too long")
"""The errors of Mistral, which accepts only IDs of 9 letters and digits, and of OpenAI."""
SHORT_ID: Final = re.compile(r"[A-Za-z0-9]{9}")
"""The call IDs that every server accepts."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """`reasoning`: whether the server expects reasoning back. None: as the conversation shows.
    `short_ids`: whether the server accepts only short call IDs."""

    reasoning: bool | None = None
    short_ids: bool = False

    def corrected(self, error: ModelError, items: Iterable[Item]) -> "Dialect | None":
        """Return the dialect after an error, or None if the error has another cause."""
        if error.status not in _REJECTED:
            return None
        if DETAILS in error.message:
            corrected = replace(self, reasoning=False)
        elif CONTENT in error.message:
            sent = expects_reasoning(items) if self.reasoning is None else self.reasoning
            corrected = replace(self, reasoning=not sent)
        elif _REJECTED_ID.search(error.message):
            corrected = replace(self, short_ids=True)
        else:
            return None
        return None if corrected == self else corrected


DEFAULT: Final = Dialect()
