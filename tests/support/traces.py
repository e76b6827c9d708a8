"""The spans that a receiver got from an exporter, as OTLP over HTTP (protobuf)."""

from collections.abc import Callable
from typing import Any, Final

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.receiver import Received, Receiver, Reply

PATH: Final = "v1/traces"


def environment(receiver: Receiver, **variables: str) -> dict[str, str]:
    """The variables of a process that exports to this receiver."""
    receiver.answer(PATH, Reply(status=200))
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
        "OTEL_BSP_SCHEDULE_DELAY": "50",
        **variables,
    }


def wait_for_spans(receiver: Receiver, hold: Callable[[list[Span]], bool]) -> list[Span]:
    """The spans as soon as `hold` is true of them. Raises TimeoutError."""
    return read_spans(receiver.until(PATH, lambda received: hold(read_spans(received))))


def read_spans(received: list[Received]) -> list[Span]:
    requests = [ExportTraceServiceRequest.FromString(one.raw) for one in received]
    return [
        span
        for request in requests
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def attributes_of(span: Span) -> dict[str, Any]:
    """The values without their types, as JSON has them."""
    found = MessageToDict(span)["attributes"]
    return {one["key"]: next(iter(one["value"].values())) for one in found}
