"""Spans that OpenTelemetry's SDK records and exports with OTLP. Their names and attributes are
those of OpenTelemetry's semantic conventions for generative AI.

All claims of a run belong to one trace, but no process knows the spans of the claims before it.
Therefore, the IDs are computed: the trace of a run without a client's trace has the ID of the run,
and the IDs of the spans to which others refer are digests."""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from types import TracebackType
from typing import Final
from uuid import UUID

from opentelemetry import trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import (
    SERVICE_NAME,
    SERVICE_VERSION,
    OTELResourceDetector,
    Resource,
)
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.util.types import AttributeValue

from runward.domain.ids import Prefix, format_id
from runward.domain.registry.tools import ToolSpec
from runward.domain.run.config import get_trace
from runward.domain.run.outcomes import Done, Failed, Outcome
from runward.domain.run.response import ModelResponse
from runward.domain.run.state import Call, RunState
from runward.domain.run.status import RunStatus
from runward.llm.base import ModelError, ModelRequest
from runward.loop import span_content
from runward.loop.spans import Operation, RunTrace, Tracing
from runward.tracing import TracedClaim, read_trace
from runward.version import VERSION

PROVIDERS: Final[Mapping[str, str]] = {
    "openai": "openai",
    "openai-responses": "openai",
    "anthropic": "anthropic",
    "gemini": "gcp.gemini",
    "bedrock": "aws.bedrock",
}
SETTINGS: Final[Mapping[str, str]] = {
    "max_output_tokens": "gen_ai.request.max_tokens",
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "frequency_penalty": "gen_ai.request.frequency_penalty",
    "presence_penalty": "gen_ai.request.presence_penalty",
    "seed": "gen_ai.request.seed",
}
"""The model settings that are attributes."""
MCP_SCOPE: Final = "mcp-python-sdk"
"""Instrumentation scope of the spans that MCP's SDK records."""
CLOSE_SECONDS: Final = 5.0
"""Maximum seconds for the export of the last spans when the process stops."""


class _Ids(RandomIdGenerator, threading.local):
    """Random IDs, except for the span that this thread starts next if its IDs are given. Plugins
    start spans in other threads."""

    trace_id = 0
    span_id = 0

    def generate_trace_id(self) -> int:
        given, self.trace_id = self.trace_id, 0
        return given or super().generate_trace_id()

    def generate_span_id(self) -> int:
        given, self.span_id = self.span_id, 0
        return given or super().generate_span_id()


class RecordedTracing(Tracing):
    """`provider`: see `open_tracing`. `with_content`: whether spans contain messages, arguments and
    results."""

    def __init__(self, provider: TracerProvider, ids: _Ids, *, with_content: bool) -> None:
        self._provider = provider
        self._ids = ids
        self._tracer = provider.get_tracer("runward")
        self.with_content = with_content

    def trace(self) -> RunTrace:
        return RecordedRun(self)

    async def aclose(self) -> None:
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._provider.force_flush(int(CLOSE_SECONDS * 1000))
        self._provider.shutdown()

    def start(
        self,
        name: str,
        parent: Context,
        attributes: Mapping[str, AttributeValue],
        *,
        kind: SpanKind = SpanKind.INTERNAL,
        ids: tuple[int, int] = (0, 0),
        links: tuple[Link, ...] = (),
    ) -> Span:
        """Start a span. `ids`: the IDs of its trace, if it has no parent, and of the span. 0: a
        random ID."""
        self._ids.trace_id, self._ids.span_id = ids
        try:
            return self._tracer.start_span(
                name, parent, kind, attributes, links, record_exception=False
            )
        finally:
            self._ids.trace_id = self._ids.span_id = 0

    def enter(self, claim: TracedClaim) -> None:
        trace_id, parent = _find_trace(claim.root_run_id, claim.trace)
        span_id = _compute_span_id(claim.run_id, str(claim.fence))
        span = trace.NonRecordingSpan(self.refer(trace_id, span_id, parent))
        attach(trace.set_span_in_context(span, Context()))

    def refer(self, trace_id: int, span_id: int, parent: Context) -> SpanContext:
        """Return the context of a span of another claim. It was sampled like a span with the same
        `parent`, and has its `tracestate`."""
        decision = self._provider.sampler.should_sample(parent, trace_id, "").decision
        flags = TraceFlags(TraceFlags.SAMPLED if decision.is_sampled() else TraceFlags.DEFAULT)
        state = trace.get_current_span(parent).get_span_context().trace_state
        return SpanContext(trace_id, span_id, is_remote=True, trace_flags=flags, trace_state=state)


class RecordedRun(RunTrace):
    _claim: Span
    _about: dict[str, AttributeValue]
    """Attributes of all spans."""
    _in_claim: Context
    _in_turn: Context
    """Where the spans of the current turn belong. Before the first turn, to the claim."""

    def __init__(self, tracing: RecordedTracing) -> None:
        self._tracing = tracing
        self._turn: Span | None = None

    def begin(self, state: RunState) -> None:
        self._run_id = state.id
        self._about = {
            "runward.project.id": format_id(Prefix.PROJECT, state.project_id),
            "runward.run.id": format_id(Prefix.RUN, state.id),
        }
        if state.place is not None:
            session = format_id(Prefix.SESSION, state.place.session_id)
            self._about["gen_ai.conversation.id"] = session
        root = state.lineage.ancestors[0] if state.lineage else state.id
        trace_id, client = _find_trace(root, get_trace(state.config))
        self._claim = self._tracing.start(
            _with_name("invoke_agent", state.agent),
            self._find_parent(state, trace_id, client),
            {
                **self._about,
                **_describe_agent(state),
                "gen_ai.operation.name": "invoke_agent",
                "runward.run.fence": state.fence,
            },
            ids=(trace_id, _compute_span_id(state.id, str(state.fence))),
            links=self._link_former_claim(state, trace_id, client),
        )
        self._in_claim = self._in_turn = trace.set_span_in_context(self._claim, Context())
        attach(self._in_claim)

    def _find_parent(self, state: RunState, trace_id: int, client: Context) -> Context:
        """Return the span to which the claim belongs: the call of the parent run, or the span of
        the client, if there is one."""
        if state.lineage is None:
            return client
        call = _compute_span_id(state.lineage.parent, state.lineage.call_id)
        caller = trace.NonRecordingSpan(self._tracing.refer(trace_id, call, client))
        return trace.set_span_in_context(caller, Context())

    def _link_former_claim(
        self, state: RunState, trace_id: int, client: Context
    ) -> tuple[Link, ...]:
        if state.fence <= 1:
            return ()
        former = _compute_span_id(state.id, str(state.fence - 1))
        return (Link(self._tracing.refer(trace_id, former, client)),)

    def begin_turn(self, state: RunState) -> None:
        self._end_turn()
        about = {**self._about, **_describe_agent(state), "runward.turn": state.turn + 1}
        self._turn = self._tracing.start("turn", self._in_claim, about)
        self._in_turn = trace.set_span_in_context(self._turn, Context())

    def ask_model(self, name: str, request: ModelRequest) -> Operation:
        provider, _, model = name.partition(":")
        about: dict[str, AttributeValue] = {
            **self._about,
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": PROVIDERS.get(provider, provider),
            "gen_ai.request.model": model,
        }
        for setting, attribute in SETTINGS.items():
            value = request.settings.get(setting)
            if isinstance(value, int | float):
                about[attribute] = value
        if self._tracing.with_content:
            about |= span_content.describe_request(request)
        span = self._tracing.start(f"chat {model}", self._in_turn, about, kind=SpanKind.CLIENT)
        return RecordedOperation(span, with_content=self._tracing.with_content)

    def call_tool(self, call: Call, tool: ToolSpec) -> Operation:
        is_first = call.attempt <= 1
        about: dict[str, AttributeValue] = {
            **self._about,
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.tool,
            "gen_ai.tool.call.id": call.id,
            "gen_ai.tool.type": "function" if tool.type in {"plugin", "client"} else "extension",
            "runward.tool.type": tool.type,
            "runward.tool_call.attempt": call.attempt,
        }
        if self._tracing.with_content:
            about["gen_ai.tool.call.arguments"] = span_content.encode(call.arguments)
        span = self._tracing.start(
            _with_name("execute_tool", call.tool),
            self._in_turn,
            about,
            ids=(0, _compute_span_id(self._run_id, call.id) if is_first else 0),
        )
        return RecordedOperation(span, with_content=self._tracing.with_content)

    def end(self, status: RunStatus | None, error: str | None) -> None:
        self._end_turn()
        if status is not None:
            self._claim.set_attribute("runward.run.status", status)
        if error is not None:
            _fail(self._claim, error)
        self._claim.end()

    def _end_turn(self) -> None:
        if self._turn is not None:
            self._turn.end()
            self._turn = None


class RecordedOperation(Operation):
    """An operation that is also the current span. So the tool receives its trace context, and the
    spans of a plugin are below it."""

    def __init__(self, span: Span, *, with_content: bool) -> None:
        self._span = span
        self._with_content = with_content

    def __enter__(self) -> "RecordedOperation":
        self._token = attach(trace.set_span_in_context(self._span, Context()))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        detach(self._token)
        if isinstance(error, ModelError):
            # A provider's message can quote the conversation.
            _fail(self._span, error.code, error.message if self._with_content else None)
        elif kind is not None:
            _fail(self._span, kind.__qualname__)
        self._span.end()

    def set_response(self, response: ModelResponse) -> None:
        usage = response.usage
        self._span.set_attributes(
            {
                "gen_ai.response.finish_reasons": [response.finish],
                "gen_ai.usage.input_tokens": usage.input,
                "gen_ai.usage.output_tokens": usage.output,
                "gen_ai.usage.cache_read.input_tokens": usage.cached_input,
                "gen_ai.usage.reasoning.output_tokens": usage.reasoning,
            }
        )
        if self._with_content:
            self._span.set_attributes(span_content.describe_response(response))

    def set_outcome(self, outcome: Outcome) -> None:
        if isinstance(outcome, Failed):
            _fail(self._span, outcome.reason)
        elif isinstance(outcome, Done) and self._with_content:
            result = span_content.encode(outcome.output)
            self._span.set_attribute("gen_ai.tool.call.result", result)


class ExporterWithoutMessages(OTLPSpanExporter):
    """Removes the error messages from spans of MCP's SDK, because they can quote arguments and
    results."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return super().export([_remove_messages(span) for span in spans])


def _remove_messages(span: ReadableSpan) -> ReadableSpan:
    scope = span.instrumentation_scope
    if scope is None or scope.name != MCP_SCOPE:
        return span
    return ReadableSpan(
        span.name,
        span.context,
        span.parent,
        span.resource,
        span.attributes,
        links=span.links,
        kind=span.kind,
        status=Status(span.status.status_code),
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=scope,
    )


def open_tracing(*, with_content: bool) -> RecordedTracing:
    """Return tracing that exports spans in the background. The SDK reads the endpoint, the headers,
    the sampler and the limits from its environment variables (OpenTelemetry specification)."""
    ids = _Ids()
    resource = Resource.create({SERVICE_NAME: "runward", SERVICE_VERSION: VERSION})
    provider = TracerProvider(
        resource=resource.merge(OTELResourceDetector().detect()),  # OTEL_SERVICE_NAME
        id_generator=ids,
        shutdown_on_exit=False,
    )
    exporter = OTLPSpanExporter() if with_content else ExporterWithoutMessages()
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)  # for the spans of plugins
    return RecordedTracing(provider, ids, with_content=with_content)


def _find_trace(root_run_id: UUID, given: Mapping[str, str] | None) -> tuple[int, Context]:
    """Return the ID of a run's trace, and the context of the client's span. Without a client's
    trace, the ID is that of the topmost run, and the context is empty."""
    if not given:
        return root_run_id.int, Context()
    client = read_trace(given)
    return trace.get_current_span(client).get_span_context().trace_id, client


def _compute_span_id(run_id: UUID, name: str) -> int:
    digest = blake2b(name.encode(), key=run_id.bytes, digest_size=8).digest()
    return int.from_bytes(digest) or 1


def _with_name(operation: str, name: str | None) -> str:
    return operation if name is None else f"{operation} {name}"


def _describe_agent(state: RunState) -> dict[str, AttributeValue]:
    return {} if state.agent is None else {"gen_ai.agent.name": state.agent}


def _fail(span: Span, error: str, message: str | None = None) -> None:
    span.set_attribute("error.type", error)
    span.set_status(Status(StatusCode.ERROR, message))
