"""Tools that change while a model thinks, and calls that come back while others are retried."""

from tests.api.project import Project, call, of_type, types_of
from tests.api.test_tools_api import call_back
from tests.support.models.chat_server import Answer, calls, text
from tests.support.serving import Hold
from tests.support.tools.server import Behaviour


def test_a_call_is_made_with_the_tool_that_the_model_was_shown(project: Project) -> None:
    hold = Hold()
    project.tool("x")
    run = project.start(Answer(calls=(call(1, "x"),), hold=hold), text("fine"), tools=["x"])
    hold.arrived()
    project.client.call("PATCH", "/v1/tools/x", {"description": "Another."})
    hold.release()
    assert project.end(run)["status"] == "completed"
    events = project.client.events(run["id"])
    assert [one["tool_version"] for one in of_type(events, "tool_call.created")] == [1]
    assert "run.resumed" not in types_of(events)


def test_a_person_is_asked_about_a_call_if_its_tool_asks_since_the_model_was_asked(
    project: Project,
) -> None:
    hold = Hold()
    project.tool("x")
    run = project.start(Answer(calls=(call(1, "x"),), hold=hold), text("fine"), tools=["x"])
    hold.arrived()
    project.client.call("PATCH", "/v1/tools/x", {"approval": "always"})
    hold.release()
    [asked] = project.settle(run)["required_actions"]
    assert (asked["type"], project.hits("x")) == ("approval", [])
    assert project.client.call("GET", f"/v1/approvals/{asked['approval_id']}")["tool_version"] == 2


def test_retries_that_meet_callbacks_are_made_and_the_run_ends(project: Project) -> None:
    """Each callback changes the run while the others' retries are on their way to the gate."""
    unavailable = Behaviour("raise", status=503)
    flaky, later = [f"flaky{n}" for n in range(4)], [f"later{n}" for n in range(4)]
    retry = {"max_attempts": 4, "initial_seconds": 0.01, "max_seconds": 0.01}
    for name in flaky:
        answers = (unavailable, Behaviour("reset"), unavailable, Behaviour())
        project.tool(name, *answers, idempotent=True, retry=retry)
    for name in later:
        project.tool(name, Behaviour("later"))
    names = [*flaky, *later]
    asked = calls(*(call(number, name) for number, name in enumerate(names)))
    run = project.start(asked, text("ok"), tools=names)
    for name in later:
        [hit] = project.wait_for_hits(name)
        assert call_back(hit, status="completed", output=name).status_code == 200
    ended = project.end(run)
    assert (ended["status"], ended["output"]) == ("completed", "ok")
    assert [len(project.hits(name)) for name in names] == [4, 4, 4, 4, 1, 1, 1, 1]
