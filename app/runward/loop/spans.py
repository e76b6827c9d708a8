"""The spans of a run. docs/how-to/tracing.md describes them.

The classes of this module record nothing. A run only enters the trace of its client, so that its
tools receive the trace context. The classes in `recorded_spans.py` record spans with the SDK of
OpenTelemetry, which is an optional package."""

from types import TracebackType

from opentelemetry.context import attach

from runward.domain.registry.tools import ToolSpec
from runward.domain.run.config import get_trace
from runward.domain.run.outcomes import Outcome
from runward.domain.run.response import ModelResponse
from runward.domain.run.state import Call, RunState
from runward.domain.run.status import RunStatus
from runward.llm.base import ModelRequest
from runward.tracing import TracedClaim, read_trace


class Operation:
    """A model request, or one attempt of a tool call. It ends with its `with` block."""

    def __enter__(self) -> "Operation":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        pass

    def set_response(self, response: ModelResponse) -> None:
        """Add the model's response."""

    def set_outcome(self, outcome: Outcome) -> None:
        """Add the outcome of the attempt."""


class RunTrace:
    """The spans of one claim of a run."""

    def begin(self, state: RunState) -> None:
        """Begin the claim in the task that executes it."""
        if trace := get_trace(state.config):
            attach(read_trace(trace))

    def begin_turn(self, state: RunState) -> None:
        """Begin the next turn. It ends with the following turn or with the claim."""

    def ask_model(self, name: str, request: ModelRequest) -> Operation:
        """Begin a model request. `name`: `provider:model`."""
        del name, request
        return _NO_OPERATION

    def call_tool(self, call: Call, tool: ToolSpec) -> Operation:
        """Begin an attempt of a tool call."""
        del call, tool
        return _NO_OPERATION

    def end(self, status: RunStatus | None, error: str | None) -> None:
        """End the claim. `status`: the run's status after it, or None if the lease is lost.
        `error`: the error code of a failed run."""


class Tracing:
    """The traces of a process."""

    def trace(self) -> RunTrace:
        """Return the spans of a claim, before it begins."""
        return NO_TRACE

    def enter(self, claim: TracedClaim) -> None:
        """Enter the trace of a run until the task ends, after this claim of the run."""
        if claim.trace:
            attach(read_trace(claim.trace))

    async def aclose(self) -> None:
        """Export the last spans."""


_NO_OPERATION = Operation()
NO_TRACE = RunTrace()
