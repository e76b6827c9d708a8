"""Calls of tools that a model's vendor runs: the vendor asks whether it may, and nothing else."""

from runward.domain.run.outcomes import Done, Outcome
from runward.tools.base import Invocation


class HostedTool:
    """Implements `Tool`. Whoever had to approve has done so; the model's next request tells the
    vendor, which then makes the call."""

    async def invoke(self, call: Invocation) -> Outcome:
        del call
        return Done({"approved": True})
