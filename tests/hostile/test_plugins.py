"""A plugin that returns what cannot be stored spoils nothing."""

from tests.api.project import Project, call, of_type
from tests.support.models.chat_server import calls, text


def test_parts_that_are_no_text_are_cleaned_and_a_sibling_s_result_is_kept(
    project: Project,
) -> None:
    project.tool("pay")
    asked = calls(call(1, "scribble", "{}"), call(2, "pay"))
    run = project.run(asked, text("done"), tools=["scribble", "pay"])
    assert run["status"] == "completed"
    ended = {one["call_id"]: one for one in project.client.tool_calls(run["id"])}
    assert [ended[one]["outcome"] for one in ("c1", "c2")] == ["completed", "completed"]
    assert len(of_type(project.client.events(run["id"]), "tool_call.started")) == len(ended)
    assert len(project.hits("pay")) == 1
