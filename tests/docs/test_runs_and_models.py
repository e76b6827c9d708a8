"""The pages about runs, their events, the models that they ask, and other doors to them."""

import json
import sys
from contextlib import closing
from pathlib import Path

import httpx2
import pytest

from runward.domain.run.response import Usage
from runward.llm.prices import Price, Prices
from runward.settings import Settings
from tests.api.project import ALL_SCOPES, Project
from tests.api.test_mcp_tasks_api import start_task
from tests.api.test_webhook_endpoints_api import until
from tests.docs.shell import answers
from tests.docs.story import Story
from tests.docs.test_tools_and_guards import ASK, REFUND
from tests.support.mcp.client import mcp_client, said
from tests.support.mcp.oauth_server import SECRET, AuthServer, ProtectedServer
from tests.support.mcp.server import McpServer
from tests.support.models.chat_server import Answer, text
from tests.support.models.responses_server import HttpError
from tests.support.programs import node_program
from tests.support.services.client import Json
from tests.support.services.service import ROOT
from tests.support.serving import Hold

pytestmark = pytest.mark.timeout(180)


def test_api_conventions(project: Project, tmp_path: Path) -> None:
    with Story("docs/reference/api-conventions.md", project.client, tmp_path) as page:
        first, again = answers(page.sh())
        assert first["id"] == again["id"]


def test_errors(project: Project, tmp_path: Path) -> None:
    with Story("docs/reference/errors.md", project.client, tmp_path) as page:
        page.shows(page.refused())


def test_events(project: Project, tmp_path: Path) -> None:
    project.tool("refund", **REFUND)
    run = project.run(**ASK, tools=["refund"])
    hold = Hold()
    model = project.script(Answer("Hello!", pieces=2, hold=hold, hold_after=2))
    with Story("docs/reference/events.md", project.client, tmp_path) as page:
        [started] = [
            event
            for event in project.client.events(run["id"])
            if event["type"] == "tool_call.started"
        ]
        page.shows(started)
        body: Json = {"model": model, "input": "Say hello."}
        lines: list[str] = []
        with project.client.streaming(
            "POST", "/v1/runs", body, Accept="text/event-stream"
        ) as response:
            for line in response.iter_lines():
                lines.append(line)
                if line == "event: message.delta":
                    hold.release()
        page.streamed(lines)


def test_models(project: Project, tmp_path: Path) -> None:
    house = project.model_name()
    assert project.running.providers is not None
    project.running.providers.responses.script(house, HttpError(403, "not for this key"))
    project.model.script(house, text("On its way."))
    here = {"gpt-5.2": house, "sk-ant-…": "sk-ant-test"}
    with Story("docs/how-to/models.md", project.client, tmp_path, here) as page:
        assert page.curl()["name"] == "ANTHROPIC_API_KEY"
        run = page.http()
        assert (run["status"], run["output"]) == ("completed", "On its way.")


def test_secrets(project: Project, tmp_path: Path) -> None:
    with Story("docs/how-to/secrets.md", project.client, tmp_path) as page:
        assert page.curl()["name"] == "CRM_TOKEN"


def test_limits(project: Project, tmp_path: Path) -> None:
    order: Json = {"type": "object", "properties": {"order": {"type": "string"}}}
    project.tool("lookup_order", parameters=order)
    with Story("docs/how-to/limits.md", project.client, tmp_path) as page:
        more = page.http()
        assert project.settle(more)["status"] == "completed"
        stopped = project.client.get_run(more["continued_from"])
        assert stopped["incomplete_details"]["reason"] == "max_turns"
        given = json.loads(page.variable("RUNWARD_MODEL_PRICES"))
    settings = Settings.model_validate({"model_prices": given})
    prices = Prices({name: Price(**dict(one)) for name, one in settings.model_prices.items()})
    million = Usage(input=1_000_000, output=1_000_000)
    assert prices.cost_usd("openai:house-1", million) == 11.25
    assert prices.cost_usd("openai:house-2", million) == 2.5


def test_mcp(project: Project, tmp_path: Path) -> None:
    for name in ("FILES_TOKEN", "FILES_KEY"):
        project.client.call("PUT", f"/v1/secrets/{name}", {"value": f"the {name}"})
    project.client.call("PUT", "/v1/secrets/FILES_CLIENT", {"value": SECRET})
    with (
        McpServer() as files,
        AuthServer() as auth,
        ProtectedServer(auth) as archive,
        ProtectedServer(auth) as notes,
    ):
        here = {
            "https://mcp.example.com/files": files.url,
            "https://mcp.example.com/archive": archive.url,
            "https://mcp.example.com/notes": notes.url,
            "delete_everything": "die",
            "Bearer …": "Bearer t0ken",
            "runward mcp": "python -m runward mcp",
        }
        browser = {"BROWSER": f"{sys.executable} {ROOT / 'tests/e2e/opening.py'} %s"}
        with Story("docs/how-to/mcp.md", project.client, tmp_path, here, env=browser) as page:
            names = page.curl()["tool_names"]
            assert "files_echo" in names
            assert "files_die" not in names
            page.http()
            project.client.call("PATCH", "/v1/tools/files_echo", {"approval": "never"})
            echo = 'files_echo(text="hi")'
            project.run(model="offline:rules", tools=["files_echo"], input=echo)
            [sent] = [one["headers"] for one in files.seen() if one["what"] == "echo"]
            assert sent["authorization"] == "Bearer the FILES_TOKEN"
            assert sent["x-api-key"] == "the FILES_KEY"
            assert page.http()["tool_names"] == ["archive_whoami"]
            assert auth.asked[-1]["scope"] == "files:read"
            assert "notes_whoami" in page.sh()
            project.client.call("DELETE", "/v1/mcp_servers/notes")
            assert page.http()["tool_names"] == []
            logged_in = httpx2.get(page.http()["url"], follow_redirects=True)
            assert logged_in.status_code == 200, logged_in.text
            assert project.client.call("GET", "/v1/mcp_servers/notes")["tool_names"] != []


async def test_mcp_server(project: Project, tmp_path: Path) -> None:
    project.tool("refund", **REFUND)
    inspector = "npx @modelcontextprotocol/inspector"
    here = {inspector: node_program("mcp-inspector")}
    client = project.key(*ALL_SCOPES)
    with Story("docs/how-to/mcp-server.md", client, tmp_path, here) as page:
        assert page.http()["scopes"] == ["runs:write"]
        server = page.json()["mcpServers"]["runward"]
        assert server["url"] == f"{client.url}/mcp"
        assert server["headers"] == {"Authorization": f"Bearer {client.key}"}
        assert "refund" in page.program()
        listed = answers(page.sh())[0]["tools"]
        assert [tool["name"] for tool in listed] == ["refund", "runward_result"]
        run = project.run(**ASK, tools=["refund"])
        page.remember(run["id"])
        async with mcp_client(project.client.url, project.client.key) as client:
            result = await client.call_tool(**page.json())
        assert "refund" in said(result)
        asked = page.json()
        created = start_task(project.client, **asked["params"])["result"]
        assert created["task"]["taskId"].startswith("run_")


def test_erase(project: Project, tmp_path: Path) -> None:
    with Story("docs/how-to/erase.md", project.client, tmp_path) as page:
        page.http()
        [run] = project.client.call("GET", "/v1/runs")["data"]
        page.shows(run)
        page.http()
        later, _ = project.client.call("GET", "/v1/runs")["data"]
        assert later["erased_at"] is not None
        project.run(model="offline:rules", input="Hello.", metadata={"user": "u1"})
        erasure = page.http()
        path = f"/v1/erasures/{erasure['id']}"
        until(lambda: project.client.call("GET", path)["status"] == "completed")
        page.shows(page.http())


def test_retention(project: Project, tmp_path: Path) -> None:
    run = project.run(model="offline:rules", input="Hello.")
    with Story("docs/how-to/retention.md", project.key(*ALL_SCOPES), tmp_path) as page:
        page.remember(run["id"])
        page.shows(page.http())
        assert page.http()["tool_call_content"]["days"] == 30
        default = json.loads(page.variable("RUNWARD_RETENTION_DAYS"))
        maximum = json.loads(page.run('printf %s "$RUNWARD_RETENTION_MAX_DAYS"'))
        settings = Settings.model_validate(
            {"retention_days": default, "retention_max_days": maximum}
        )
        assert settings.retention_days.runs == 365
        assert settings.retention_max_days.runs == 730
        [hold] = page.http()["data"]
        assert (hold["id"], hold["reason"]) == (run["id"], "Case 2026-17")
        page.http()
    assert project.key("admin").call("GET", "/v1/legal_holds")["data"] == []


def test_responses(project: Project, tmp_path: Path) -> None:
    project.client.call("POST", "/v1/agents", {"name": "clerk", "model": "offline:rules"})
    project.tool("refund", **REFUND, approval="always")
    with Story("docs/how-to/responses.md", project.client, tmp_path) as page:
        names = page.python()
        with closing(names["client"]):
            assert "A-1017" in names["response"].output_text
            assert "sunny" in page.python()["response"].output_text
            assert "refund" in page.python()["response"].output_text
            assert page.python()["response"].store is False
    assert [hit.arguments["amount"] for hit in project.hits("refund")] == [500]


def test_chat_completions(project: Project, tmp_path: Path) -> None:
    project.client.call("POST", "/v1/agents", {"name": "clerk", "model": "offline:rules"})
    with Story("docs/reference/chat-completions.md", project.client, tmp_path) as page:
        names = page.python()
        with closing(names["client"]):
            assert "A-1017" in names["completion"].choices[0].message.content
