"""IDs of another project in paths, queries, bodies and headers. The response is identical to that
for an unknown ID, except for the ID itself, the request ID and times.
"""

import re
from collections.abc import Iterator

import pytest

from tests.api.contract import Operation
from tests.api.furnished import BODIES, UNKNOWN, Things, furnish
from tests.api.project import ALL_SCOPES, Project, Running
from tests.contract.credentials import bearer
from tests.contract.figures import record
from tests.contract.wire import Headers, Wire
from tests.hostile.mcp_peer import McpPeer
from tests.support.services.client import Json

OWN = re.compile(
    rb"req_[0-9a-f]{32}|\d{4}-\d\d-\d\dT[\d:.]+Z|[a-z]+_[0-9a-f]{32}|whsec_[\w+/=]+|made\d{4}"
)
REFERENCE = re.compile(r"(.*_)?(id|agent|agents|tools|handoffs|conversation|model|output)")
IDS = {
    *("run_id", "response_id", "session_id", "approval_id", "key_id", "project_id"),
    *("endpoint_id", "delivery_id", "schedule_id", "budget_id", "resource_id", "erasure_id"),
}
UNEVEN = {"date", "x-request-id", "content-length", "etag", "location"}


def twin(value: str) -> str:
    """One that nobody has, and that stands next to it in every order."""
    last = "0" if value[-1] in "789abcdef" else "f"
    return value[:-1] + (last if value[-5:].isalnum() and "_" in value else "q")


def told(wire: Wire, sent: tuple[str, str, Headers, Json | None], *ids: str) -> tuple[object, ...]:
    """All that an answer tells, but for `ids`."""
    response = wire.send(*sent)
    headers = {name: text for name, text in response.headers.items() if name not in UNEVEN}
    text = OWN.sub(b"!", response.content)
    for one in ids:
        text = text.replace(one.encode(), b"!")
    return response.status_code, headers, text


def requests(
    operation: Operation, values: list[str], own: Json, things: Things
) -> Iterator[tuple[str, str, Json | None, str]]:
    """Where in a request a foreign id could stand: target, header, body, and the id."""
    path = operation.filled(**own)
    foreign = things.agents if "/agents/" in operation.path else things.values
    foreign = things.servers if "/mcp_servers/" in operation.path else foreign
    body = BODIES.get(operation.id)
    for parameter in operation.spec.get("parameters", ()):
        name, place = parameter["name"], parameter["in"]
        if place == "path" and name not in {"token", "call_id"} and operation.id != "put_secret":
            target = operation.filled(**{**own, name: foreign[name]})
            yield target, "", body, foreign[name]
        elif operation.method == "GET" and place in {"query", "header"}:
            for value in values:
                at = f"?{name}={value}" if place == "query" else ""
                yield path + at, "" if at else name, body, value
    for field in operation.spec.get("x-fields", ()):
        for value in values:
            for filled in (value, [value]):
                yield path, "", {**(body or {}), field: filled}, value


def with_fields(running: Running, operation: Operation) -> Operation:
    """With the names of the body's fields that refer to something."""
    content: Json = operation.spec.get("requestBody", {}).get("content", {})
    schema: Json = content.get("application/json", {}).get("schema", {})
    while "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        schema = running.contract.document["components"]["schemas"][name]
    fields = [name for name in schema.get("properties", {}) if REFERENCE.fullmatch(name)]
    return Operation(operation.method, operation.path, {**operation.spec, "x-fields": fields})


@pytest.mark.timeout(240)
def test_a_foreign_id_anywhere_is_answered_like_one_that_nobody_has(
    running: Running, project: Project, other: Project
) -> None:
    wrong: list[str] = []
    with McpPeer() as peer, Wire(running.service.url) as wire:
        things = furnish(project, peer.url_of("box"))
        own: Json = UNKNOWN | {"run_id": other.run(model="offline:rules", input="hi")["id"]}
        values = [str(things.values[name]) for name in things.values if name in IDS]
        values += ["pay", "nobody-knows", "box"]
        headers = list(bearer(other.new_key(*ALL_SCOPES)["key"]))
        compared = 0
        for operation in running.contract.operations():
            if operation.path.startswith("/v1/projects"):
                continue
            known = with_fields(running, operation)
            for target, header, body, value in requests(known, values, own, things):
                ids = (value, twin(value))
                pair: list[tuple[object, ...]] = []
                for one in ids:
                    sent = [*headers, (header, one)] if header else headers
                    filled = replaced(body, value, one)
                    if filled and "name" in filled and operation.id.startswith("register"):
                        filled["name"] = f"made{wire.requests:04d}"
                    at = target.replace(value, one)
                    pair.append(told(wire, (operation.method, at, sent, filled), *ids))
                compared += 1
                if pair[0] != pair[1]:
                    wrong.append(f"{operation.method} {target} {header} {body}: {pair}"[:700])
    record(foreign_id_pairs=compared)
    assert not wrong, "\n".join(wrong)
    assert compared > 300


def replaced(body: Json | None, value: str, by: str) -> Json | None:
    if body is None:
        return None
    return {
        key: by if one == value else [by] if one == [value] else one for key, one in body.items()
    }
