"""MCP servers in the console: a person logs in and out, and answers their questions."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from tests.api.project import Project, call
from tests.browser.conftest import Opens
from tests.support.mcp.oauth_server import AuthServer, ProtectedServer
from tests.support.mcp.server import McpServer
from tests.support.models.chat_server import calls, text

BOX = "/v1/mcp_servers/box"
LOGIN = {"grant_type": "authorization_code"}


@pytest.fixture
def auth(project: Project) -> Iterator[AuthServer]:
    with AuthServer() as auth, ProtectedServer(auth) as server:
        body = {"name": "box", "url": server.url, "oauth": LOGIN}
        project.client.call("POST", "/v1/mcp_servers", body)
        yield auth


def test_a_person_logs_in_to_a_server_and_out_again(
    project: Project, auth: AuthServer, opens: Opens
) -> None:
    window = opens(at="#/tools")
    page = window.page
    page.get_by_role("link", name="MCP servers").click()
    expect(page.get_by_text("0 tools · Login required")).to_be_visible()
    page.get_by_role("link", name="box", exact=True).click()
    login = page.get_by_role("region", name="Login")
    login.get_by_role("button", name="Log in").click()
    expect(login.get_by_text("Logged in", exact=True)).to_be_visible()
    assert page.url.endswith("/#/mcp-servers/box")
    assert window.serious_findings() == []
    page.get_by_role("link", name="box_whoami").click()
    page.get_by_role("link", name="box", exact=True).click()
    login.get_by_role("button", name="Log out").click()
    expect(login.get_by_text("Login required", exact=True)).to_be_visible()
    assert project.client.call("GET", BOX)["oauth"]["logged_in_at"] is None

    auth.issuer = "https://evil.example"
    login.get_by_role("button", name="Log in").click()
    expect(login.get_by_role("alert")).to_contain_text("The last login failed: ")
    assert page.url.endswith("/#/mcp-servers/box")
    assert window.foreign
    assert {urlsplit(url).path for url in window.foreign} == {"/authorize"}
    window.foreign.clear()


def test_who_may_not_change_tools_sees_the_login_and_no_buttons(
    auth: AuthServer, opens: Opens
) -> None:
    page = opens("runs:read", at="#/mcp-servers/box").page
    login = page.get_by_role("region", name="Login")
    expect(login).to_contain_text("tools:write")
    expect(page.get_by_role("main").get_by_role("button")).to_have_count(0)


def test_a_person_answers_the_form_of_a_server(project: Project, opens: Opens) -> None:
    with McpServer(module="tests.support.mcp.asking") as server:
        body = {"name": "box", "url": server.url, "approval": "never"}
        tools = project.client.call("POST", "/v1/mcp_servers", body)["tool_names"]
        ask = call(1, "box_ask", '{"questions": ["Who are you?", "And your cat?"]}')
        run = project.run(calls(ask), text("Hello."), tools=tools)
        window = opens(at=f"#/runs/{run['id']}")
        page = window.page
        card = page.get_by_role("region", name="Input required: box_ask")
        expect(card.get_by_text("Who are you?", exact=True)).to_be_visible()
        card.get_by_role("button", name="Answer").click()
        card.get_by_label("name").fill("Ada")
        card.get_by_label("pet").select_option(label="Cat")
        assert window.serious_findings() == []
        card.get_by_role("button", name="Send the answer").click()
        expect(card.get_by_text("And your cat?", exact=True)).to_be_visible()
        card.get_by_role("button", name="Decline").click()
        card.get_by_role("button", name="Decline", exact=True).click()
        assert project.end(run)["status"] == "completed"
        [done] = project.client.tool_calls(run["id"])
        assert done["output"] == {"result": "Ada and decline"}
