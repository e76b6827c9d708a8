"""Tools that whoever uses the API runs: nothing is sent, the run says what is to be done."""

from runward.domain.run.outcomes import Outcome, Waits
from runward.tools.base import Invocation


class ClientTool:
    """Implements `Tool`. Nothing has happened when this returns, so a lost worker loses nothing."""

    async def invoke(self, call: Invocation) -> Outcome:
        del call
        return Waits(on="client")
