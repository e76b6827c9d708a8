"""Tools that are another agent: the loop starts a child run in its own next step."""

from runward.domain.run.outcomes import Outcome, Waits
from runward.tools.base import Invocation


class AgentTool:
    """Implements `Tool`. Nothing has happened when this returns, so a lost worker loses nothing."""

    async def invoke(self, call: Invocation) -> Outcome:
        del call
        return Waits(on="child")
