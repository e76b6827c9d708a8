"""An OpenTelemetry collector, and the spans that it passes on as OTLP over HTTP (protobuf)."""

import subprocess
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.programs import missing
from tests.support.receiver import Received, Receiver, Reply
from tests.support.services.service import free_port

PATH: Final = "v1/traces"


class Collector:
    """Rotel, a collector of another project. It parses the spans that it receives, and passes them
    on in batches of its own to the receiver of the test."""

    def __init__(self) -> None:
        self.receiver = Receiver()
        port = free_port()
        self.environment = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
            "OTEL_BSP_SCHEDULE_DELAY": "50",
        }
        """The variables of a process that exports to this collector."""
        self._command = [
            *(str(_find_program()), "start"),
            *("--otlp-http-endpoint", f"127.0.0.1:{port}"),
            *("--otlp-grpc-endpoint", f"127.0.0.1:{free_port()}"),
            *("--otlp-exporter-protocol", "http", "--otlp-exporter-compression", "none"),
            *("--batch-timeout", "20ms"),
        ]

    def __enter__(self) -> Self:
        self.receiver.__enter__()
        self.receiver.answer(PATH, Reply(status=200))
        self._process = subprocess.Popen(
            [*self._command, "--otlp-exporter-endpoint", self.receiver.url],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        self.receiver.__exit__(kind, error, trace)

    @property
    def spans(self) -> list[Span]:
        return read_spans(self.receiver.received(PATH))

    @property
    def sent(self) -> bytes:
        return b"".join(one.raw for one in self.receiver.received(PATH))

    def wait_for(self, hold: Callable[[list[Span]], bool]) -> list[Span]:
        """The spans as soon as `hold` is true of them. Raises TimeoutError."""
        return read_spans(self.receiver.until(PATH, lambda found: hold(read_spans(found))))


def _find_program() -> Path:
    package = find_spec("rotel")
    if package is None or package.origin is None:
        missing("rotel is not installed: make .venv/.dev")
    return Path(package.origin).with_name("rotel-agent")


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
