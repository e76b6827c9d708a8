"""The spans of runs as an OpenTelemetry collector receives them, and the context of tools."""

# The names are in a package of their own as soon as OpenTelemetry publishes it.
# pyright: reportDeprecated=false, reportMissingTypeStubs=false

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes

from tests.docs.story import Story
from tests.e2e.conftest import Processes
from tests.support.models.chat_server import Call, HttpError, ModelServer, calls, text
from tests.support.services.client import Client, Json
from tests.support.services.service import Service
from tests.support.tools.hits import Hit
from tests.support.tools.server import Behaviour, ToolServer
from tests.support.traces import Collector, attributes_of

CLIENT = {"trace": "4bf92f3577b34da6a3ce929d0e0e4736", "span": "00f067aa0ba902b7"}
TRACEPARENT = f"00-{CLIENT['trace']}-{CLIENT['span']}-01"
SECRET = "marzipan-4711"
"""In messages, arguments and results."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as collector:
        yield collector


def start_run(client: Client, headers: dict[str, str] | None = None, **fields: object) -> Json:
    body = {"input": f"Pay {SECRET}.", **fields}
    response = client.request("POST", "/v1/runs", body, headers=headers)
    assert response.status_code == 202, response.text
    return response.json()


def named(spans: list[Span], name: str) -> list[Span]:
    return [span for span in spans if span.name == name]


def in_order(spans: list[Span]) -> list[Span]:
    return sorted(spans, key=lambda span: span.start_time_unix_nano)


def claims_have_ended(count: int, spans: list[Span]) -> bool:
    return sum(span.name.startswith("invoke_agent") for span in spans) >= count


def check_claims(spans: list[Span]) -> None:
    """Both belong to the client's span, and the second one refers to the first one."""
    first, second = in_order(named(spans, "invoke_agent payer"))
    assert first.parent_span_id.hex() == second.parent_span_id.hex() == CLIENT["span"]
    assert not first.links
    assert [link.span_id for link in second.links] == [first.span_id]
    assert attributes_of(first)["runward.run.status"] == "requires_action"
    assert attributes_of(second)["runward.run.status"] == "completed"


def check_operations(spans: list[Span], hit: Hit) -> None:
    _, second = in_order(named(spans, "invoke_agent payer"))
    [call] = named(spans, "execute_tool pay")
    assert hit.headers["traceparent"] == f"00-{CLIENT['trace']}-{call.span_id.hex()}-01"
    assert hit.headers["tracestate"] == "vendor=1"
    assert call.parent_span_id == second.span_id
    failed, *chats = in_order(named(spans, "chat payer"))
    assert failed.status.code == Status.STATUS_CODE_ERROR
    assert attributes_of(failed)["error.type"] == "model_unavailable"
    turns = {span.span_id for span in named(spans, "turn")}
    assert {chat.parent_span_id for chat in chats} == turns
    about = attributes_of(chats[0])
    assert about["gen_ai.operation.name"] == "chat"
    assert about["gen_ai.provider.name"] == "openai"
    assert about["gen_ai.request.model"] == "payer"
    assert int(about["gen_ai.usage.input_tokens"]) > 0


def check_notifications(spans: list[Span], collector: Collector) -> None:
    """A notification belongs to the last claim of its run."""
    _, second = in_order(named(spans, "invoke_agent payer"))
    completed = collector.receiver.wait_for_type("notifications", "run.completed")
    assert completed.headers["traceparent"] == f"00-{CLIENT['trace']}-{second.span_id.hex()}-01"
    assert completed.headers["tracestate"] == "vendor=1"


def check_names(spans: list[Span]) -> None:
    """Attributes have the names of OpenTelemetry's semantic conventions, or one of Runward's."""
    known = {one for one in vars(gen_ai_attributes).values() if isinstance(one, str)}
    used = {name for span in spans for name in attributes_of(span)} - {"error.type"}
    assert {one for one in used if not one.startswith("runward.")} - known == set()
    providers = {attributes_of(span).get("gen_ai.provider.name") for span in spans} - {None}
    assert providers <= {one.value for one in gen_ai_attributes.GenAiProviderNameValues}


def request_lines(service: Service, path: str) -> list[Json]:
    """The log lines of requests for this path."""
    lines = [json.loads(line) for line in service.output().splitlines() if line.startswith("{")]
    return [one for one in lines if one["event"] == "request" and one["path"] == path]


def test_the_spans_of_a_run_that_waits(
    start: Processes, model: ModelServer, tools: ToolServer, collector: Collector, tmp_path: Path
) -> None:
    service = start("serve", env=collector.environment)
    client = start.client(service)
    made = client.register_tool("pay", tools.tool("pay"), approval="always")
    tools.secrets("pay", made["secret"])
    asked = calls(Call("c1", "pay", f'{{"x":"{SECRET}"}}'))
    refused = HttpError(503, f"Overloaded by {SECRET}.", retry_after="0")
    model.script("payer", refused, asked, text(f"Paid {SECRET}."))
    agent = {"name": "payer", "model": "openai:payer", "tools": ["pay"]}
    client.call("POST", "/v1/agents", agent)
    trace = {"traceparent": TRACEPARENT, "tracestate": "vendor=1"}
    endpoint = collector.receiver.answer("notifications")
    run = start_run(client, trace, agent="payer", webhook={"url": endpoint})
    waiting = client.settle(run["id"])
    client.decide(waiting["required_actions"][0]["approval_id"], "approve")
    assert client.settle(run["id"])["status"] == "completed"

    spans = collector.wait_for(lambda found: claims_have_ended(2, found))
    assert {span.trace_id.hex() for span in spans} == {CLIENT["trace"]}
    assert Counter(span.name for span in spans) == {
        "invoke_agent payer": 2,
        "turn": 2,
        "chat payer": 3,
        "execute_tool pay": 1,
    }
    check_claims(spans)
    [hit] = tools.hits("pay")
    check_operations(spans, hit)
    check_notifications(spans, collector)
    assert {attributes_of(span)["runward.run.id"] for span in spans} == {run["id"]}
    assert SECRET.encode() not in collector.sent
    with Story("docs/how-to/tracing.md", client, tmp_path) as page:
        page.sh()
        page.sh()
        [line] = request_lines(service, "/v1/runs")
        page.shows({**line, "seconds": 0.0071})
    assert line["run"] == run["id"]


def test_content_failures_and_child_runs(
    start: Processes, model: ModelServer, tools: ToolServer, collector: Collector
) -> None:
    """A run without a client's trace has its own ID as the ID of its trace."""
    content = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "span_only"}
    client = start.client(start("serve", env={**collector.environment, **content}))
    made = client.register_tool("pay", tools.tool("pay", Behaviour("error")))
    tools.secrets("pay", made["secret"])
    model.script("clerk", calls(Call("c2", "pay", f'{{"x":"{SECRET}"}}')), text("It failed."))
    clerk = {"name": "clerk", "model": "openai:clerk", "tools": ["pay"]}
    client.call("POST", "/v1/agents", clerk)
    ask = {"name": "ask_clerk", "type": "agent", "agent": "clerk"}
    client.call("POST", "/v1/tools", ask)
    model.script("boss", calls(Call("c1", "ask_clerk", '{"input":"Pay."}')), text("Sorry."))
    run = start_run(client, model="openai:boss", tools=["ask_clerk"])
    assert client.settle(run["id"])["status"] == "completed"

    spans = collector.wait_for(lambda found: claims_have_ended(3, found))
    assert {span.trace_id.hex() for span in spans} == {run["id"].removeprefix("run_")}
    [asking] = named(spans, "execute_tool ask_clerk")
    [child] = named(spans, "invoke_agent clerk")
    assert child.parent_span_id == asking.span_id
    [paying] = named(spans, "execute_tool pay")
    assert paying.status.code == Status.STATUS_CODE_ERROR
    assert attributes_of(paying)["error.type"]
    assert SECRET in attributes_of(paying)["gen_ai.tool.call.arguments"]
    asked = in_order(named(spans, "chat boss"))
    assert SECRET in attributes_of(asked[0])["gen_ai.input.messages"]
    assert "Sorry." in attributes_of(asked[1])["gen_ai.output.messages"]
    check_names(spans)


def test_an_unsampled_trace_is_passed_on_and_not_recorded(
    start: Processes, model: ModelServer, tools: ToolServer, collector: Collector
) -> None:
    client = start.client(start("serve", env=collector.environment))
    made = client.register_tool("pay", tools.tool("pay"))
    tools.secrets("pay", made["secret"])
    for name in ("unsampled", "sampled"):
        model.script(name, calls(Call("c1", "pay", '{"x":"1"}')), text("Paid."))
    quiet = {"traceparent": TRACEPARENT[:-2] + "00"}
    for name, headers in (("unsampled", quiet), ("sampled", None)):
        run = start_run(client, headers, model=f"openai:{name}", tools=["pay"])
        assert client.settle(run["id"])["status"] == "completed"
    collector.wait_for(lambda found: claims_have_ended(1, found))
    found = {span.trace_id.hex() for span in collector.spans}
    assert CLIENT["trace"] not in found
    assert tools.hits("pay")[0].headers["traceparent"].startswith(f"00-{CLIENT['trace']}-")
    assert tools.hits("pay")[0].headers["traceparent"].endswith("-00")
