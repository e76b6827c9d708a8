"""Models without function calling use tools that the instructions describe."""

import json

from tests.api.project import Project, of_type
from tests.support.models.chat_server import text

SETTINGS = {"tools_in_prompt": True}
CALL = '<tool_call>{"name": "pay", "arguments": {"x": "5"}}</tool_call>'


def test_a_model_calls_a_tool_in_its_text_after_an_approval(project: Project) -> None:
    project.tool("pay", approval="always")
    run = project.run(
        text(f"I will pay.\n{CALL}"), text("Paid."), tools=["pay"], model_settings=SETTINGS
    )
    [approval] = project.client.approvals(run_id=run["id"])
    assert approval["arguments"] == {"x": "5"}
    project.client.decide(approval["id"], "approve")
    ended = project.end(run)
    assert ended["output"] == "Paid."
    assert len(project.hits("pay")) == 1
    first, second = project.asked()
    assert "tools" not in first.body
    system, _ = first.body["messages"]
    about = json.loads(system["content"].splitlines()[-1])
    assert about["name"] == "pay"
    said, result = second.body["messages"][2:]
    assert said["content"].splitlines()[0] == "I will pay."
    assert (result["role"], result["content"].startswith("<tool_result>")) == ("user", True)
    dropped = of_type(project.client.events(run["id"]), "model.setting_dropped")
    assert {event["setting"] for event in dropped} == {"tools"}


def test_a_malformed_call_is_repaired_and_recorded(project: Project) -> None:
    project.tool("pay")
    run = project.run(
        text("<tool_call>pay(5)</tool_call>"),
        text(CALL),
        text("Paid."),
        tools=["pay"],
        model_settings=SETTINGS,
    )
    assert run["output"] == "Paid."
    assert len(project.hits("pay")) == 1
    [retried] = of_type(project.client.events(run["id"]), "model.retried")
    assert retried["code"] == "tools_in_prompt"
