"""openapi.json: served as it is committed, complete, and able to judge. Every answer that the
other tests of this folder see is held against it by their client."""

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.api.contract import OPENAI_PATHS, Contract, Operation
from tests.api.project import Project, Running, call
from tests.support.models.chat_server import Answer
from tests.support.services.client import Frame, Json
from tests.support.serving import Hold

COMMITTED = Path(__file__).parents[2] / "openapi" / "openapi.json"
PUBLIC = {"submit_callback", "check_liveness", "check_readiness", "get_metrics"}


@pytest.fixture(scope="module")
def operations(running: Running) -> list[Operation]:
    return list(running.contract.operations())


def test_the_service_serves_the_document_that_is_committed(running: Running) -> None:
    assert json.loads(COMMITTED.read_text()) == running.contract.document


def test_every_operation_is_described(operations: list[Operation]) -> None:
    for operation in operations:
        spec = operation.spec
        assert spec["tags"] and spec["summary"] and spec["description"], operation.id
        for parameter in operation.parameters:
            assert parameter["description"], (operation.id, parameter["name"])
    ids = [operation.id for operation in operations]
    assert len(set(ids)) == len(ids)


def test_every_operation_says_how_it_may_fail(operations: list[Operation]) -> None:
    for operation in operations:
        statuses = set(operation.spec["responses"])
        openai = operation.path.startswith(OPENAI_PATHS)
        wanted = {"500", "503"}
        if operation.takes_body or any(one["in"] != "path" for one in operation.parameters):
            wanted |= {"400" if openai else "422"}
        else:
            assert "422" not in statuses, operation.id
        if operation.id not in PUBLIC:
            wanted |= {"401", "429"}
            assert all(one.keys() == {"bearer"} for one in operation.spec["security"])
        if "{" in operation.path:
            wanted |= {"404"}
        if operation.takes_body:
            wanted |= {"400", "408", "413", "415"}
        assert wanted <= statuses, operation.id
        assert any(status.startswith("2") for status in statuses), operation.id


def test_every_success_with_a_body_has_a_shape(operations: list[Operation]) -> None:
    for operation in operations:
        for status, response in operation.spec["responses"].items():
            if status.startswith("2") and status != "204":
                assert response["content"], (operation.id, status)
                assert response["description"] != "Successful Response", (operation.id, status)
                assert "X-Request-Id" in response["headers"], (operation.id, status)


def test_no_union_consists_of_named_enumerations(running: Running) -> None:
    """Else the output of orval does not compile."""
    schemas: Json = running.contract.document["components"]["schemas"]
    enumerations = [
        {"$ref": f"#/components/schemas/{name}"} for name in schemas if "enum" in schemas[name]
    ]
    for name, schema in schemas.items():
        for field, shape in schema.get("properties", {}).items():
            union = shape.get("items", shape).get("anyOf", [])
            assert len([one for one in union if one in enumerations]) < 2, (name, field)


def test_every_example_fits_its_schema(running: Running) -> None:
    document = running.contract.document
    examples = 0
    for name, schema in document["components"]["schemas"].items():
        for example in schema.get("examples", []):
            errors = running.contract.find_errors(f"#/components/schemas/{name}", example)
            assert list(errors) == [], name
            examples += 1
    assert examples >= 15


def test_what_is_streamed_is_as_the_document_says(project: Project, running: Running) -> None:
    hold = Hold()
    asking = Answer(calls=(call(1, "nothing"),), pieces=3, hold=hold)
    run = project.start(asking, Answer(text="one two three", pieces=3))
    hold.arrived()
    seen: list[Frame] = []
    with project.following(run) as frames:
        for frame in frames:
            hold.release()
            seen.append(frame)
    for frame in seen:
        errors = running.contract.find_errors("#/components/schemas/StreamedEvent", frame.data)
        assert list(errors) == [], frame
        assert ("sequence" in frame.data) == (frame.id is not None)
    assert {"message.delta", "tool_call.arguments.delta", "run.completed"} <= {
        frame.type for frame in seen
    }


def answered(method: str, path: str, status: int, body: Any, **headers: str) -> httpx2.Response:
    kind = "application/json" if status < 400 else "application/problem+json"
    sent = {"Content-Type": kind, "X-Request-Id": "r", "WWW-Authenticate": "Bearer x"} | headers
    request = httpx2.Request(method, f"http://x{path}")
    return httpx2.Response(status, json=body, headers=sent, request=request)


PROBLEM: Json = {
    "type": "urn:runward:problem:not_found",
    "title": "Not Found",
    "status": 404,
    "detail": "No resource exists at this path.",
    "code": "not_found",
    "request_id": "r",
    "errors": [],
}


def test_the_judge_sees_what_is_not_as_promised(project: Project, running: Running) -> None:
    contract: Contract = running.contract
    run = project.run(model="offline:rules", input="hello")
    path = f"/v1/runs/{run['id']}"
    assert contract.broken_by(answered("GET", path, 200, run)) == []
    assert contract.broken_by(answered("GET", "/v1/nothing", 404, PROBLEM)) == []
    without = {name: value for name, value in run.items() if name != "usage"}
    for response in (
        answered("GET", path, 200, without),
        answered("GET", path, 200, {**run, "more": 1}),
        answered("GET", path, 200, {**run, "status": "asleep"}),
        answered("GET", path, 201, run),
        answered("GET", "/v1/nothing", 200, run),
        answered("GET", path, 404, {**PROBLEM, "status": "gone"}),
        answered("GET", path, 404, {**PROBLEM, "request_id": "another"}),
        answered("GET", path, 404, {**PROBLEM, "type": "about:blank"}),
        answered("GET", path, 422, {**PROBLEM, "status": 422}),
        answered("GET", path, 500, {**PROBLEM, "status": 500}),
        answered("GET", path, 200, run, **{"Content-Type": "text/plain"}),
        answered("GET", path, 200, run, **{"X-Request-Id": ""}),
    ):
        assert contract.broken_by(response) != [], (response.status_code, response.text)
