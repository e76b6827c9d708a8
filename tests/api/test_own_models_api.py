"""Models that a project reaches with keys, or at an address, of its own."""

from collections.abc import Iterator

import pytest

from tests.api.project import Project
from tests.support.models.chat_server import ModelServer, text
from tests.support.services.client import ApiError, Json

OWN_KEY = "sk-of-the-project"


@pytest.fixture
def elsewhere() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


def put(project: Project, name: str, value: str) -> None:
    project.client.call("PUT", f"/v1/secrets/{name}", {"value": value})


def run_of(project: Project, model: str) -> Json:
    return project.settle(project.client.start_run(model=model))


def test_a_project_s_own_key_is_sent_and_no_other_project_s(
    project: Project, other: Project
) -> None:
    put(project, "OPENAI_API_KEY", OWN_KEY)
    run = project.run(text("hello"))
    assert run["output"] == "hello"
    assert [one.headers["authorization"] for one in project.asked()] == [f"Bearer {OWN_KEY}"]
    other.run(text("hello"))
    assert OWN_KEY not in str([one.headers for one in other.asked()])
    shown = str([run, project.client.events(run["id"]), project.client.items(run["id"])])
    assert OWN_KEY not in shown


def test_a_key_that_is_changed_or_deleted_counts_from_the_next_request(project: Project) -> None:
    put(project, "OPENAI_API_KEY", OWN_KEY)
    first = project.script(text("1"), text("2"), text("3"))
    run_of(project, first)
    put(project, "OPENAI_API_KEY", "sk-changed")
    run_of(project, first)
    project.client.call("DELETE", "/v1/secrets/OPENAI_API_KEY")
    run_of(project, first)
    sent = [one.headers["authorization"] for one in project.asked()]
    assert sent[:2] == [f"Bearer {OWN_KEY}", "Bearer sk-changed"]
    assert sent[2] not in sent[:2]


def test_a_project_s_own_address_is_called_and_never_with_the_operator_s_key(
    project: Project, elsewhere: ModelServer
) -> None:
    put(project, "OPENAI_BASE_URL", elsewhere.base_url)
    elsewhere.script("llama", text("from elsewhere"), text("again"))
    assert run_of(project, "openai:llama")["output"] == "from elsewhere"
    put(project, "OPENAI_API_KEY", OWN_KEY)
    assert run_of(project, "openai:llama")["output"] == "again"
    sent = [one.headers["authorization"] for one in elsewhere.requests("llama")]
    assert sent == ["Bearer none", f"Bearer {OWN_KEY}"]


@pytest.mark.parametrize("url", ["http://169.254.169.254/v1", "ftp://example.com/v1", "nonsense"])
def test_an_address_that_may_not_be_called_is_refused_when_a_run_is_made(
    project: Project, url: str
) -> None:
    put(project, "OPENAI_BASE_URL", url)
    with pytest.raises(ApiError) as refused:
        project.client.start_run(model="openai:x")
    problem = refused.value.problem
    assert (problem["status"], problem["code"]) == (422, "unknown_model")
    assert "the project's OPENAI_BASE_URL" in problem["detail"]
    assert project.settle(project.client.start_run(model="offline:rules"))["status"] == "completed"


@pytest.mark.parametrize("value", ["sk-own\nX-Other: 1", "sk-own\n", "sk-ключ", "sk-\x7f"])
@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "GEMINI_API_KEY"])
def test_a_key_that_no_header_can_carry_is_refused_when_it_is_stored(
    project: Project, name: str, value: str
) -> None:
    problem = project.client.refused(
        422, "invalid_request", "PUT", f"/v1/secrets/{name}", {"value": value}
    )
    [error] = problem["errors"]
    assert error["path"] == "value"
    assert "Copy the key again" in error["message"]
    assert value not in str(problem)
    assert project.client.call("GET", "/v1/secrets")["data"] == []
    put(project, "CRM_NOTE", value)


def test_a_setting_that_none_of_the_models_has_is_refused(project: Project) -> None:
    put(project, "ANTHROPIC_API_KEY", OWN_KEY)
    asked: Json = {"model": "anthropic:claude", "model_settings": {"seed": 1}}
    with pytest.raises(ApiError) as refused:
        project.client.start_run(**asked)
    [error] = refused.value.problem["errors"]
    assert (error["path"], error["message"]) == (
        "model_settings",
        "seed: is not supported by anthropic",
    )
    agent = {"name": "both", **asked, "model": ["anthropic:claude", "openai:x"]}
    assert project.client.call("POST", "/v1/agents", agent)["name"] == "both"
