"""The spans that are exported without content."""

from collections.abc import Iterator

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter
from opentelemetry.trace import StatusCode

from runward.loop.recorded_spans import MCP_SCOPE, ExporterWithoutMessages
from tests.support.receiver import Receiver, Reply
from tests.support.traces import PATH, read_spans

SECRET = "marzipan-4711"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        receiver.answer(PATH, Reply(200))
        yield receiver


def export_failure(exporter: SpanExporter, scope: str) -> ReadableSpan:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    span = provider.get_tracer(scope).start_span("tools/call pay", attributes={"number": 1})
    span.record_exception(ValueError(SECRET))
    span.set_status(StatusCode.ERROR, SECRET)
    span.end()
    provider.shutdown()
    assert isinstance(span, ReadableSpan)
    return span


@pytest.mark.parametrize(("scope", "has_message"), [(MCP_SCOPE, False), ("plugin", True)])
def test_spans_of_mcp_are_exported_without_the_messages_of_errors(
    receiver: Receiver, scope: str, *, has_message: bool
) -> None:
    """The author of a plugin decides what its spans contain."""
    recorded = export_failure(ExporterWithoutMessages(f"{receiver.url}/{PATH}"), scope)
    [received] = receiver.wait_for(PATH)
    [span] = read_spans([received])
    assert (SECRET.encode() in received.raw) == has_message
    assert (span.name, span.status.code) == ("tools/call pay", Status.STATUS_CODE_ERROR)
    assert (span.kind, span.attributes[0].key) == (Span.SPAN_KIND_INTERNAL, "number")
    assert recorded.context is not None
    assert span.span_id == recorded.context.span_id.to_bytes(8)
    assert span.start_time_unix_nano == recorded.start_time
