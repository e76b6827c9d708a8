"""The pages about agents, sessions, approvals and tools of the client's, told as they stand."""

import json
from pathlib import Path

import pytest

from tests.api.project import SCOPES, Project
from tests.docs.story import Story
from tests.support.tools.server import Behaviour

pytestmark = pytest.mark.timeout(180)

AMOUNT = {
    "type": "object",
    "properties": {"order": {"type": "string"}, "amount": {"type": "number"}},
    "required": ["amount"],
}


def test_agents(project: Project, tmp_path: Path) -> None:
    client = project.client
    project.tool("pay", Behaviour("return", value="paid"), parameters=AMOUNT, approval="always")
    offline = {"openai:gpt-5.2": "offline:rules"}
    with Story("docs/how-to/agents.md", client, tmp_path, offline) as page:
        run = page.http()
        assert client.settle(run["id"])["agent"] == "clerk"

        page.http()
        for name in ("lawyer", "researcher", "writer", "cashier"):
            client.call("POST", "/v1/agents", {"name": name, "model": "offline:rules"})
        handed = client.start_run_of("desk", input="transfer_to_clerk()")
        assert client.settle(handed["id"])["agent"] == "clerk"

        page.http()
        client.call("PATCH", "/v1/agents/cashier", {"tools": ["pay"]})
        cashier = {"name": "ask_cashier", "type": "agent", "agent": "cashier"}
        client.call("POST", "/v1/tools", cashier)
        client.call("PATCH", "/v1/agents/clerk", {"tools": ["ask_cashier"]})
        client.call("PATCH", "/v1/agents/desk", {"tools": ["ask_clerk"], "handoffs": []})
        asked = f"ask_cashier(input={json.dumps('pay(amount=500)')})"
        asked = f"ask_clerk(input={json.dumps(asked)})"
        run = client.settle(client.start_run_of("desk", input=asked)["id"])
        [action] = run["required_actions"]
        page.shows(action)

        assert page.http()["model"] is None
        report = client.start_run_of("report", input="hello")
        assert client.settle(report["id"])["status"] == "completed"


def test_sessions(project: Project, tmp_path: Path) -> None:
    client = project.client
    client.call("POST", "/v1/agents", {"name": "clerk", "model": "offline:rules"})
    with Story("docs/how-to/sessions.md", client, tmp_path) as page:
        last = client.settle(page.http()["id"])
        assert last["status"] == "completed"
        items = client.call("GET", f"/v1/sessions/{last['session_id']}/items")["data"]
        assert [item["content"] for item in items if item.get("role") == "user"] == [
            "Where is my order?",
            "And when will it come?",
        ]
        imported = client.settle(page.http()["id"])
        kinds = [item.get("role", item["type"]) for item in client.items(imported["id"])]
        history = ["user", "tool_call", "tool_result", "assistant", "user"]
        assert kinds == [*history, "assistant"]
        assert page.http()["state"] == {"order": {"id": "A-1017"}}
        fork = page.http()
        assert (fork["forked_from"], fork["name"]) == (last["session_id"], "What if")


def test_approvals(project: Project, tmp_path: Path) -> None:
    client = project.key(*SCOPES, name="shop")
    url = project.tools.tool(project.tool_key("refund"))
    here = {"http://127.0.0.1:9000/refund": url}
    with Story("docs/how-to/approvals.md", client, tmp_path, here) as page:
        run = page.http()
        assert run["status"] == "requires_action"
        rules = page.take("cel").text.splitlines()
        for number, rule in enumerate(rules):
            project.tool(f"rule_{number}", approval={"when": rule})
        page.shows(page.curl())
        assert page.http()["status"] == "edited"
    assert project.end(run)["status"] == "completed"
    assert [hit.arguments["amount"] for hit in project.hits("refund")] == [400]


def test_client_tools(project: Project, tmp_path: Path) -> None:
    with Story("docs/how-to/client-tools.md", project.client, tmp_path) as page:
        page.http()
        run = page.http()
        assert run["status"] == "requires_action"
        page.shows(run["required_actions"][0])
        answered = page.http()
    assert (answered["outcome"], answered["output"]) == ("completed", "Buy milk.")
    assert "Buy milk." in project.end(run)["output"]
