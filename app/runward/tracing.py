"""The current trace context: the position in a trace to which requests and spans belong (W3C Trace
Context). Each task has its own, in OpenTelemetry's context. Libraries that support OpenTelemetry,
such as the SDK of MCP, send it on by themselves."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from opentelemetry.context import Context, attach
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

MAX_STATE: Final = 512
"""Maximum length of `tracestate`. A longer one is dropped (W3C Trace Context, 3.3.1.5)."""
_NAMES: Final = (b"traceparent", b"tracestate")
_PROPAGATOR: Final = TraceContextTextMapPropagator()


@dataclass(frozen=True, slots=True)
class TracedClaim:
    """A claim of a run, as far as it determines the span of the claim. `root_run_id`: the ID of the
    topmost parent run, or of the run itself. `trace`: the position in the client's trace, as
    headers."""

    run_id: UUID
    root_run_id: UUID
    fence: int
    trace: Mapping[str, str] | None


def enter_trace(headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Enter the trace of a request with these headers until the task ends. A trace context that is
    not valid is ignored, as W3C Trace Context requires."""
    found = {name.decode(): value.decode("latin-1") for name, value in headers if name in _NAMES}
    if "traceparent" in found:
        attach(read_trace(found))


def read_trace(headers: Mapping[str, str]) -> Context:
    return _PROPAGATOR.extract(headers, Context())


def write_trace() -> dict[str, str]:
    """Return the headers with the current trace context. Empty without a trace."""
    headers: dict[str, str] = {}
    _PROPAGATOR.inject(headers)
    if len(headers.get("tracestate", "")) > MAX_STATE:
        del headers["tracestate"]
    return headers
