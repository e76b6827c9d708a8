"""The names of Runward's own tools. No registered tool can have one of them."""

from typing import Final

READ_RESULT: Final = "read_result"
SEARCH_HISTORY: Final = "search_history"
SEARCH_TOOLS: Final = "search_tools"
TRANSFER_PREFIX: Final = "transfer_to_"
"""The prefix of the tools that hand a run over to another agent."""
RESERVED_NAMES: Final = frozenset({READ_RESULT, SEARCH_HISTORY, SEARCH_TOOLS})


def is_reserved(name: str) -> bool:
    """Return whether the name belongs to a tool of Runward's own."""
    return name in RESERVED_NAMES or name.startswith(TRANSFER_PREFIX)
