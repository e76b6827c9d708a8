"""The built-in tools, for one run: they look at nothing but what the run has in memory."""

from collections.abc import Callable, Mapping

from runward.domain.registry.tools import ToolSpec
from runward.domain.run import builtins, history
from runward.domain.run.outcomes import Outcome
from runward.domain.run.state import RunState
from runward.tools.base import Invocation


class Builtin:
    """Implements `ToolExecutor`. `state` and `tools` are asked at every call."""

    def __init__(
        self, state: Callable[[], RunState], tools: Callable[[], Mapping[str, ToolSpec]]
    ) -> None:
        self._state = state
        self._tools = tools

    async def invoke(self, call: Invocation) -> Outcome:
        state = self._state()
        return builtins.invoke(
            call.tool.name,
            call.arguments,
            state,
            tools=self._tools(),
            search_history=lambda query, limit: history.search(state.history, query, limit),
        )
