"""openapi.json as a document to generate clients from: what every operation has, that no type is
without a name, that every example is one, and that what is said of events and webhooks is said of
what the code makes."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast
from uuid import UUID

import jsonschema_rs
import pytest

from runward.api.openapi.examples import REQUESTS
from runward.api.openapi.names import NAMED
from runward.api.routers import build_openapi
from runward.domain.events.kinds import STORED, TRANSIENT
from runward.domain.events.values import RunErrorCode
from runward.domain.ids import CallId, ProjectId, RunId
from runward.domain.json import JsonObject
from runward.domain.registry.guards import HookPoint, Stage
from runward.domain.registry.tools import ToolSpec
from runward.domain.run.items import (
    HostedCall,
    Item,
    MediaPart,
    Message,
    Native,
    Reasoning,
    TextPart,
    ToolCall,
    ToolResult,
)
from runward.loop import guard_payloads
from runward.tools.base import Invocation
from runward.tools.webhook.invoker import call_body, cancel_notice
from tests.support.closed import close_schemas
from tests.unit.domain_cases import call, response, state, wants

Json = dict[str, Any]
DOCUMENT = "urn:runward:openapi"
REFERENCE = re.compile(r'"#/components/(\w+)/([^"]+)"')


@pytest.fixture(scope="module")
def document() -> Json:
    return build_openapi()


def operations(document: Json) -> Iterator[Json]:
    for group in ("paths", "webhooks"):
        for methods in document[group].values():
            yield from methods.values()


def media_of(operation: Json) -> Iterator[tuple[str, Json]]:
    yield from operation.get("requestBody", {}).get("content", {}).items()
    for answer in operation["responses"].values():
        yield from answer.get("content", {}).items()


class Judge:
    """Compares values with schemas of the document, which is compiled once for all of them."""

    def __init__(self, document: Json) -> None:
        self._registry = jsonschema_rs.Registry([(DOCUMENT, close_schemas(document))])

    def errors(self, schema: Json, value: Any) -> list[str]:
        """Return what is wrong with a value. `schema` may refer to the document's components."""
        whole = json.loads(json.dumps(schema).replace('"#/', f'"{DOCUMENT}#/'))
        validator = jsonschema_rs.Draft202012Validator(whole, registry=self._registry)
        found = validator.iter_errors(value)
        return [f"{list(error.instance_path)}: {error.message}" for error in found]

    def wrong(self, name: str, value: Any) -> list[str]:
        return self.errors({"$ref": f"#/components/schemas/{name}"}, value)


@pytest.fixture(scope="module")
def judge(document: Json) -> Judge:
    return Judge(document)


def test_every_operation_has_a_name_a_summary_words_and_a_known_tag(document: Json) -> None:
    tags = {tag["name"] for tag in document["tags"]}
    ids: list[str] = []
    for operation in operations(document):
        ids.append(operation["operationId"])
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", operation["operationId"])
        assert operation["summary"] and not operation["summary"].endswith(".")
        assert operation["description"], operation["operationId"]
        assert set(operation["tags"]) <= tags and len(operation["tags"]) == 1
        assert all(one.keys() == {"bearer"} for one in operation["security"])
    assert len(set(ids)) == len(ids) >= 60
    assert document["servers"] and document["info"]["license"]["identifier"] == "Apache-2.0"


def test_every_body_has_an_example_that_is_one(document: Json, judge: Judge) -> None:
    known: Json = document["components"]["examples"]
    seen: set[str] = set()
    for operation in operations(document):
        for kind, media in media_of(operation):
            examples: Json = media.get("examples") or {"": {"value": media.get("example")}}
            for name, example in examples.items():
                shared = example.get("$ref", "").rpartition("/")[2]
                seen |= {shared} - {""}
                value = known[shared]["value"] if shared else example["value"]
                errors = judge.errors(media["schema"], value)
                assert not errors, (operation["operationId"], kind, name, errors[0])
    assert seen == set(known)


def test_every_request_example_belongs_to_an_operation(document: Json) -> None:
    taking = {o["operationId"] for o in operations(document) if "requestBody" in o}
    received = {o["post"]["operationId"] for o in document["webhooks"].values()}
    assert set(REQUESTS) <= taking - received


def test_every_error_is_of_one_shape_and_has_an_example_for_each_code(
    document: Json, judge: Judge
) -> None:
    responses: Json = document["components"]["responses"]
    codes: set[str] = set()
    for name, answer in responses.items():
        [(kind, media)] = answer["content"].items()
        theirs = name.startswith("OpenAI")
        model = "OpenAIError" if theirs else "Problem"
        assert kind == ("application/json" if theirs else "application/problem+json")
        assert media["schema"] == {"$ref": f"#/components/schemas/{model}"}
        assert media["examples"], name
        for code, example in media["examples"].items():
            assert judge.wrong(model, example["value"]) == []
            shown = example["value"]["error"] if theirs else example["value"]
            assert shown["code"] == code
            codes.add(code)
    assert {"run_not_found", "approval_already_decided", "idempotency_key_reused"} <= codes
    for operation in operations(document):
        for status, answer in operation["responses"].items():
            if operation["operationId"].startswith("receive_") or status < "400":
                continue
            assert answer.keys() == {"$ref"}, operation["operationId"]


def test_every_reference_leads_somewhere_and_every_component_is_used(document: Json) -> None:
    used = set(REFERENCE.findall(json.dumps(document)))
    there = {
        (kind, name)
        for kind in ("schemas", "responses", "examples", "links")
        for name in document["components"][kind]
    }
    assert used == there


def unnamed_types(document: Json) -> Iterator[str]:
    """Where enumerations and unions with a discriminator stand without a name."""
    for name, schema in document["components"]["schemas"].items():
        if "enum" not in schema and "discriminator" not in schema:
            yield from places(schema, name)
        else:
            inner = {k: v for k, v in schema.items() if k not in ("enum", "discriminator")}
            yield from places(inner, name)
    yield from places(document["paths"], "paths")


def places(node: Any, place: str) -> Iterator[str]:
    if isinstance(node, dict):
        found = cast("Json", node)
        if isinstance(found.get("enum"), list) or "propertyName" in found.get("discriminator", {}):
            yield place
        for key, value in found.items():
            if key != "examples":
                yield from places(value, f"{place}.{key}")
    elif isinstance(node, list):
        for value in node:  # pyright: ignore[reportUnknownVariableType]
            yield from places(value, place)


def test_no_enumeration_and_no_union_is_without_a_name(document: Json) -> None:
    assert list(unnamed_types(document)) == []
    assert set(NAMED) <= set(document["components"]["schemas"])
    named = document["components"]["schemas"]
    assert [name for name in named if re.search(r"\d$|-Input$|-Output$|__", name)] == []


def test_no_title_is_made_of_a_fields_name_and_no_parameter_is_nullable(document: Json) -> None:
    for operation in operations(document):
        for parameter in operation.get("parameters", ()):
            assert '"null"' not in json.dumps(parameter["schema"]), parameter
            assert parameter["description"]
    assert '"title": "' not in json.dumps(document["paths"])


def test_what_an_answer_shows_is_always_there(document: Json) -> None:
    schemas: Json = document["components"]["schemas"]
    for name in (
        "Run",
        "RunList",
        "Approval",
        "Tool",
        "Agent",
        "ToolCall",
        "Usage",
        "Capabilities",
    ):
        assert set(schemas[name]["required"]) == set(schemas[name]["properties"]), name


def schemas_of(document: Json, *, sent: bool) -> set[str]:
    """The names of all schemas of what clients send, or of what they receive."""
    sides: tuple[tuple[str, str], ...] = (("paths", "requestBody"), ("webhooks", "responses"))
    if not sent:
        sides = (("paths", "responses"), ("webhooks", "requestBody"))
    bodies = [
        operation.get(key)
        for group, key in sides
        for methods in document[group].values()
        for operation in methods.values()
    ]
    components: Json = document["components"]
    found: set[tuple[str, str]] = set()
    left = set(REFERENCE.findall(json.dumps(bodies)))
    while left:
        kind, name = left.pop()
        if kind in ("schemas", "responses") and (kind, name) not in found:
            found.add((kind, name))
            left |= set(REFERENCE.findall(json.dumps(components[kind][name])))
    return {name for kind, name in found if kind == "schemas"}


def test_responses_are_open_and_requests_are_closed(document: Json) -> None:
    schemas: Json = document["components"]["schemas"]
    shown = schemas_of(document, sent=False)
    assert {"Run", "Limits", "Event", "ToolCallRequest", "Problem"} <= shown
    for name in shown:
        assert '"additionalProperties": false' not in json.dumps(schemas[name]), name
    for name in schemas_of(document, sent=True) - shown:
        if "properties" in schemas[name]:
            assert schemas[name]["additionalProperties"] is False, name


def test_what_may_grow_says_so(document: Json) -> None:
    schemas: Json = document["components"]["schemas"]
    for name in schemas_of(document, sent=False):
        description = schemas[name].get("description", "")
        assert ("Later versions may add values." in description) == ("enum" in schemas[name])
        growing = "Later versions may add types." in description
        assert growing == ("discriminator" in schemas[name]), name


def test_the_schema_of_a_request_is_that_of_the_response_but_closed(
    document: Json, judge: Judge
) -> None:
    unlimited: Json = {"max_turns": 500}
    for name, limits in (("LimitsInput", {"max_turns": 5, "more": 1}), ("LimitsInput", unlimited)):
        assert judge.wrong(name, limits)
    assert judge.wrong("LimitsInput", {"max_turns": 5}) == []


def test_every_union_of_types_has_a_discriminator(document: Json) -> None:
    schemas: Json = document["components"]["schemas"]
    assert {"RunItem", "SessionItem", "ResponseInputItem"} <= {
        n for n, s in schemas.items() if "oneOf" in s
    }
    for name, schema in schemas.items():
        if "oneOf" not in schema:
            continue
        names = [one["$ref"].rpartition("/")[2] for one in schema["oneOf"]]
        key = schema["discriminator"]["propertyName"]
        mapping: dict[str, str] = schema["discriminator"]["mapping"]
        assert [ref.rpartition("/")[2] for ref in mapping.values()] == names or set(names) == {
            ref.rpartition("/")[2] for ref in mapping.values()
        }
        for value, ref in mapping.items():
            field = schemas[ref.rpartition("/")[2]]["properties"][key]
            assert value in (field.get("const"), *field.get("enum", ())) or "$ref" in field, name


def test_the_codes_of_errors_are_those_of_the_code(document: Json) -> None:
    schemas: Json = document["components"]["schemas"]
    assert schemas["Problem"]["properties"]["code"]["$ref"].endswith("/ErrorCode")
    shown = {
        code
        for name, answer in document["components"]["responses"].items()
        if not name.startswith("OpenAI")
        for code in answer["content"]["application/problem+json"]["examples"]
    }
    assert shown <= set(schemas["ErrorCode"]["enum"])
    assert set(schemas["RunErrorCode"]["enum"]) == set(RunErrorCode)
    assert schemas["RunError"]["properties"]["code"]["$ref"].endswith("/RunErrorCode")


def test_a_response_that_is_streamed_has_described_events(document: Json, judge: Judge) -> None:
    schemas: Json = document["components"]["schemas"]
    stream = schemas["ResponseStream"]
    assert stream["contentMediaType"] == "text/event-stream"
    assert stream["contentSchema"]["$ref"].endswith("/ResponseStreamEvent")
    begun = {"type": "response.mcp_call.in_progress", "sequence_number": 3, "item_id": "mcp_1"}
    assert judge.wrong("ResponseStreamEvent", {**begun, "output_index": 0}) == []
    assert judge.wrong("ResponseStreamEvent", begun)


def test_events_are_told_apart_by_their_type(document: Json, judge: Judge) -> None:
    schemas: Json = document["components"]["schemas"]
    unions: tuple[tuple[str, Mapping[str, type[Any]]], ...] = (
        ("Event", STORED),
        ("StreamedEvent", {**STORED, **TRANSIENT}),
    )
    for union, types in unions:
        mapping = schemas[union]["discriminator"]["mapping"]
        assert mapping == {
            type_: f"#/components/schemas/{kind.__name__}" for type_, kind in types.items()
        }
        assert [one["$ref"] for one in schemas[union]["oneOf"]] == list(mapping.values())
    example: Json = schemas["Event"]["examples"][0]
    assert judge.wrong("Event", example) == []
    assert judge.wrong("Event", {**example, "type": "run.started"})
    assert judge.wrong("Event", {**example, "type": "something.else"})


def test_the_stream_in_the_example_has_such_events(document: Json, judge: Judge) -> None:
    [stream] = document["components"]["schemas"]["EventStream"]["examples"]
    data = [line.removeprefix("data: ") for line in stream.split("\n") if line.startswith("data:")]
    assert len(data) == 2
    for line in data:
        assert judge.wrong("StreamedEvent", json.loads(line)) == []


INVOCATION = Invocation(
    project_id=ProjectId(UUID(int=1)),
    run_id=RunId(UUID(int=2)),
    call_id=CallId("call_1"),
    call_uuid=UUID(int=3),
    tool=ToolSpec(name="pay", parameters={"type": "object"}),
    tool_version=1,
    agent="clerk",
    arguments={"amount": 5},
    context={"tier": "gold"},
    attempt=1,
    fence=1,
    seconds=30.0,
    callback_url="http://127.0.0.1:8080/v1/callbacks/x",
    callback_token="x",
    secrets=(),
)
ITEMS: tuple[Item, ...] = (
    Message("user", "hello"),
    Message("user", (TextPart("see"), MediaPart("image", "https://a.example/b.png"))),
    Message("assistant", "no", refusal=True, native=Native("openai", {"a": 1})),
    ToolCall(CallId("c"), "pay", "{}", raw="{", native=Native("openai", {})),
    ToolResult(CallId("c"), {"a": 1}, parts=(TextPart("a"), MediaPart("file", data="YQ=="))),
    Reasoning("openai", {"a": 1}),
    HostedCall("c", "search", "web_search", "openai", {}, None, {}),
)


def test_what_tools_are_sent_is_as_the_webhooks_say(judge: Judge) -> None:
    answered = replace(INVOCATION, input={"responses": "42", "state": None}, context=None)
    for body in (
        call_body(INVOCATION),
        call_body(answered),
        cancel_notice(INVOCATION, "run_ended"),
    ):
        assert judge.wrong("ToolRequest", body) == []
    assert judge.wrong("ToolRequest", {**call_body(INVOCATION), "more": 1})


def test_what_guardrails_and_hooks_are_told_is_as_the_webhooks_say(judge: Judge) -> None:
    asking, one = state(), call(version=1)
    seen = guard_payloads.VisibleResult("done", parts=(TextPart("done"),))
    said = response(wants("pay", "{"), text="hi")
    items = guard_payloads.describe_conversation(ITEMS)
    told: list[tuple[Stage, JsonObject]] = [
        ("input", guard_payloads.describe_call(one)),
        ("output", guard_payloads.describe_call(one, seen)),
        ("run_input", {"input": items["items"]}),
        ("run_output", {"output": "bye"}),
    ]
    for stage, about in told:
        payload = guard_payloads.build_guardrail_payload(asking, stage, about)
        assert judge.wrong("GuardrailRequest", payload) == []
    around: list[tuple[HookPoint, JsonObject]] = [
        ("before_model", items),
        ("after_model", guard_payloads.describe_response(said)),
        ("before_tool", guard_payloads.describe_call(one)),
        ("after_tool", guard_payloads.describe_call(one, seen)),
    ]
    for moment, about in around:
        payload = guard_payloads.build_hook_payload(asking, moment, turn=1, about=about)
        assert judge.wrong("HookRequest", payload) == []


def resolved(document: Json, schema: Json, pointer: str) -> list[Json]:
    """The schemas that the value at the pointer may have."""
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if not pointer:
        return [schema]
    first, _, rest = pointer.removeprefix("/").partition("/")
    inner = schema["items"] if first == "0" else schema["properties"][first]
    return resolved(document, inner, f"/{rest}" if rest else "")


def test_every_link_takes_an_id_that_its_answer_holds(document: Json) -> None:
    known = {each["operationId"]: each for each in operations(document)}
    links: Json = document["components"]["links"]
    followed: set[str] = set()
    for operation in operations(document):
        for status, answer in operation["responses"].items():
            for name, reference in answer.get("links", {}).items():
                assert status.startswith("2") and name != operation["operationId"]
                shared = reference["$ref"].rpartition("/")[2]
                link, schema = links[shared], answer["content"]["application/json"]["schema"]
                assert link["operationId"] == name
                target = known[name]["parameters"]
                taken = {f"{one['in']}.{one['name']}" for one in target}
                needed = {f"path.{one['name']}" for one in target if one["in"] == "path"}
                assert needed <= link["parameters"].keys() <= taken, (shared, name)
                for expression in link["parameters"].values():
                    [held] = resolved(document, schema, expression.removeprefix("$response.body#"))
                    assert held["type"] == "string", (shared, name)
                followed.add(shared)
    assert followed == links.keys()


def test_every_operation_on_a_resource_can_be_reached_by_a_link(document: Json) -> None:
    links: Json = document["components"]["links"]
    reached = {link["operationId"] for link in links.values()}
    with_ids = {
        operation["operationId"]
        for path, methods in document["paths"].items()
        for operation in methods.values()
        if "{" in path
    }
    no_links = {
        "submit_callback",  # only a tool's request has a callback's token
        "get_conversation_item",  # the item does not contain the ID of its conversation
        "delete_conversation_item",
        "start_mcp_login",  # most servers have no login
        "delete_mcp_login",
    }
    assert with_ids - reached == no_links
