"""Executors that send nothing: a child run, the client or the model's provider does the work.

They return before anything has happened, so a lost worker loses nothing.
"""

from runward.domain.run.outcomes import Done, Outcome, Waits
from runward.tools.base import Invocation


class AgentInvoker:
    """Suspends the call of an agent. The loop starts a child run in its next step."""

    async def invoke(self, call: Invocation) -> Outcome:
        del call
        return Waits(on="child")


class ClientInvoker:
    """Suspends the call of a tool that the client runs. The run lists the call in its
    `required_actions`."""

    async def invoke(self, call: Invocation) -> Outcome:
        del call
        return Waits(on="client")


class HostedInvoker:
    """Completes the approved call of a tool that the model's provider runs. The next request to the
    model tells the provider, which then makes the call."""

    async def invoke(self, call: Invocation) -> Outcome:
        del call
        return Done({"approved": True})
