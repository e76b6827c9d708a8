"""Secrets over the API: put, listed, deleted, and never shown."""

import pytest

from tests.api.project import Project
from tests.support.services.client import Json

VALUE = "a value that nobody may see"


def put(project: Project, name: str, value: str = VALUE) -> Json:
    return project.client.call("PUT", f"/v1/secrets/{name}", {"value": value})


def test_a_secret_is_made_then_replaced_and_deleted(project: Project) -> None:
    path = "/v1/secrets/CRM_TOKEN"
    response = project.client.request("PUT", path, {"value": VALUE})
    made = response.json()
    assert response.status_code == 201
    assert response.headers["Location"] == path
    assert made.keys() == {"object", "name", "version", "created_at", "updated_at"}
    assert made.items() >= {"object": "secret", "name": "CRM_TOKEN", "version": 1}.items()
    assert project.client.call("GET", path) == made
    response = project.client.request("PUT", path, {"value": "another"})
    changed = response.json()
    assert (response.status_code, changed["version"]) == (200, 2)
    assert changed["created_at"] == made["created_at"]
    assert changed["updated_at"] > made["updated_at"]
    response = project.client.request("DELETE", path)
    assert (response.status_code, response.content) == (204, b"")
    project.client.refused(404, "secret_not_found", "GET", path)
    project.client.refused(404, "secret_not_found", "DELETE", path)
    assert put(project, "CRM_TOKEN")["version"] == 1


def test_no_answer_shows_a_value(project: Project) -> None:
    put(project, "token")
    paths = ("/v1/secrets", "/v1/secrets/token")
    shown = [project.client.request("GET", path).text for path in paths]
    shown.append(project.client.request("PUT", "/v1/secrets/token", {"value": VALUE}).text)
    bad = {"value": VALUE, "more": VALUE}
    shown.append(project.client.request("PUT", "/v1/secrets/token", bad).text)
    shown.append(project.client.request("PUT", "/v1/secrets/token", {"value": [VALUE]}).text)
    assert VALUE not in str(shown)
    assert VALUE not in project.running.service.output()


def test_secrets_are_listed_by_name_page_by_page(project: Project) -> None:
    for name in ("b", "a", "c"):
        put(project, name)
    first = project.client.call("GET", "/v1/secrets", limit=2)
    assert [one["name"] for one in first["data"]] == ["a", "b"]
    assert (first["first_id"], first["last_id"], first["has_more"]) == ("a", "b", True)
    rest = project.client.call("GET", "/v1/secrets", after=first["last_id"])
    assert [one["name"] for one in rest["data"]] == ["c"]
    assert not rest["has_more"]
    back = project.client.call("GET", "/v1/secrets", order="desc")
    assert [one["name"] for one in back["data"]] == ["c", "b", "a"]


@pytest.mark.parametrize(
    ("name", "body", "path"),
    [
        ("1st", {"value": "x"}, "path.name"),
        ("a.b", {"value": "x"}, "path.name"),
        ("x" * 65, {"value": "x"}, "path.name"),
        ("ok", {"value": ""}, "value"),
        ("ok", {"value": "x" * 16_385}, "value"),
        ("ok", {"value": None}, "value"),
        ("ok", {}, "value"),
        ("ok", {"value": "x", "name": "ok"}, "name"),
    ],
)
def test_what_is_no_secret_is_refused(project: Project, name: str, body: Json, path: str) -> None:
    problem = project.client.refused(422, "invalid_request", "PUT", f"/v1/secrets/{name}", body)
    assert [error["path"] for error in problem["errors"]] == [path]
    assert project.client.call("GET", "/v1/secrets")["data"] == []


def test_the_longest_value_is_taken(project: Project) -> None:
    assert put(project, "x" * 64, "\u20ac" * 16_384)["version"] == 1
