"""An MCP server that asks for input in the middle of a call. It is Runward itself: a second project
of the same service, at /mcp, with a tool of type `client`."""

import pytest

from tests.api.project import Project, call, of_type
from tests.api.test_mcp_elicitation_api import ADDRESS, ASK
from tests.support.models.chat_server import calls, text
from tests.support.services.client import TERMINAL, Json

SERVER = "box"
TOOL = "box_ask_address"


def register(project: Project, other: Project) -> None:
    other.client.call("POST", "/v1/tools", {**ASK, "output_schema": ADDRESS})
    headers = {"Authorization": f"Bearer {other.client.key}"}
    server = {
        "name": SERVER,
        "url": f"{other.client.url}/mcp",
        "headers": headers,
        "approval": "never",
    }
    made = project.client.call("POST", "/v1/mcp_servers", server)
    assert TOOL in made["tool_names"]


def asked(project: Project) -> tuple[Json, Json]:
    """A run that waits for input, and what it waits for."""
    model = project.script(calls(call(1, TOOL, '{"order": "A-1"}')), text("Sent."))
    run = project.client.settle(
        project.client.start_run(model=model, input="Hi", tools=[TOOL])["id"]
    )
    [action] = run["required_actions"]
    return run, action


@pytest.mark.parametrize("form", ["content", "result", "by key"])
def test_the_question_of_a_server_waits_for_the_client_and_the_call_continues(
    project: Project, other: Project, form: str
) -> None:
    register(project, other)
    run, action = asked(project)
    assert (run["status"], action["type"]) == ("requires_action", "tool_result")
    [(key, question)] = action["requests"]["elicitations"].items()
    assert question["message"] == 'Ask for the address.\n\n{"order":"A-1"}'
    assert question["requestedSchema"]["required"] == ["street"]
    content = {"street": "Main Street 1"}
    answer: Json = content if form == "content" else {"action": "accept", "content": content}
    output = {key: answer} if form == "by key" else answer
    path = f"/v1/runs/{run['id']}/tool_calls/{action['call_id']}/result"
    project.client.call("POST", path, {"output": output})
    assert project.client.settle(run["id"], TERMINAL)["status"] == "completed"
    [done] = project.client.tool_calls(run["id"])
    assert done["output"] == {"street": "Main Street 1", "gift": False}, "with the form's default"
    events = project.client.events(run["id"])
    statuses = [data["status"] for data in of_type(events, "tool_call.progress")]
    assert [one for one in statuses if one.startswith("input")] == ["input_required", "input_given"]
    assert len(other.client.call("GET", "/v1/runs")["data"]) == 1, "the call continues, once"


def test_a_person_can_decline(project: Project, other: Project) -> None:
    register(project, other)
    run, action = asked(project)
    path = f"/v1/runs/{run['id']}/tool_calls/{action['call_id']}/result"
    project.client.call("POST", path, {"output": {"action": "decline"}})
    project.client.settle(run["id"], TERMINAL)
    [done] = project.client.tool_calls(run["id"])
    assert (done["outcome"], done["output"]) == ("failed", "The user declined to answer.")
