"""Tools that change while a model thinks."""

from tests.api.project import Project, call, of_type, types_of
from tests.support.model_server import Answer, text
from tests.support.serving import Hold


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
