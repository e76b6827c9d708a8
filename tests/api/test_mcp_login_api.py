"""A person logs in to an MCP server in a browser, with a real authorization server and a real
resource server."""

from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from tests.api.project import Project
from tests.api.test_mcp_oauth_api import BOX, SERVERS, put, whoami
from tests.support.mcp.oauth_server import CLIENT, SECRET, AuthServer, ProtectedServer
from tests.support.services.client import Json

LOGIN = f"{BOX}/login"


def register(project: Project, server: ProtectedServer, **oauth: object) -> Json:
    oauth = {"grant_type": "authorization_code", **oauth}
    return project.client.call("POST", SERVERS, {"name": "box", "url": server.url, "oauth": oauth})


def log_in(project: Project, **options: object) -> httpx2.Response:
    """What the browser of a person does, and the page that it shows in the end."""
    url = project.client.call("POST", LOGIN, options or None)["url"]
    redirected = httpx2.get(url)
    assert redirected.status_code == 302
    return httpx2.get(redirected.headers["location"])


def test_a_login_adds_the_tools_and_lasts_by_its_refresh_tokens(
    project: Project, auth: AuthServer, server: ProtectedServer
) -> None:
    auth.expires_in = 1
    made = register(project, server)
    assert (made["tool_names"], made["oauth"]["logged_in_at"]) == ([], None)
    assert made["oauth"]["login_status"] == "required"
    page = log_in(project)
    assert (page.status_code, page.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    assert "Runward is logged in to the MCP server 'box'." in page.text
    shown = project.client.call("GET", BOX)
    assert shown["tool_names"] == ["box_whoami"]
    assert shown["oauth"]["logged_in_at"] is not None
    assert (shown["oauth"]["login_status"], shown["oauth"]["login_error"]) == ("logged_in", None)
    assert (shown["oauth"]["refresh_token"], shown["oauth"]["client_id"]) == (None, None)
    for name in ("one", "two"):
        assert whoami(project, name)["outcome"] == "completed"
        project.client.call("POST", f"{BOX}/refresh")
    project.client.call("PATCH", BOX, {"timeout_seconds": 19})
    assert whoami(project, "patched")["outcome"] == "completed"
    [about] = auth.registered
    assert about["redirect_uris"] == [f"{project.running.service.url}/mcp/oauth/callback"]
    assert {asked["resource"] for asked in auth.asked} == {server.url}
    assert auth.used_twice == []


def test_a_login_without_a_refresh_token_lasts_until_its_access_token_expires(
    project: Project, auth: AuthServer, server: ProtectedServer
) -> None:
    auth.gives_refresh_tokens = False
    put(project, "client", SECRET)
    register(project, server, client_id=CLIENT, client_secret={"secret": "client"})
    assert log_in(project).status_code == 200
    assert whoami(project)["outcome"] == "completed"
    assert auth.registered == []
    auth.revoke_access_tokens()
    project.client.call("PATCH", "/v1/tools/box_whoami", {"approval": "never"})
    failed = whoami(project, "revoked")
    assert (failed["outcome"], failed["reason"]) == ("failed", "not_sent")
    assert "A person must log in to the MCP server." in failed["detail"]
    assert log_in(project).status_code == 200
    assert whoami(project, "again")["outcome"] == "completed"


def test_a_call_without_a_login_says_who_must_log_in(
    project: Project, auth: AuthServer, server: ProtectedServer
) -> None:
    register(project, server)
    problem = project.client.refused(424, "mcp_unreachable", "POST", f"{BOX}/refresh")
    assert "A person must log in to the MCP server." in str(problem["detail"])


def test_the_address_of_a_login_is_good_once(
    project: Project, auth: AuthServer, server: ProtectedServer
) -> None:
    register(project, server)
    first = project.client.call("POST", LOGIN)
    assert first["expires_at"] > project.client.call("GET", BOX)["created_at"]
    back = httpx2.get(first["url"]).headers["location"]
    query = parse_qs(urlsplit(str(back)).query)
    other = back.replace(query["state"][0], query["state"][0][:-2] + "AA")
    assert httpx2.get(other).status_code == 400
    assert httpx2.get(back).status_code == 200
    assert httpx2.get(back).status_code == 400
    replaced = httpx2.get(project.client.call("POST", LOGIN)["url"]).headers["location"]
    project.client.call("POST", LOGIN)
    assert httpx2.get(replaced).status_code == 400
    assert httpx2.get(f"{project.running.service.url}/mcp/oauth/callback").status_code == 400


def test_a_login_from_the_console_returns_to_the_page_of_the_server(
    project: Project, auth: AuthServer, server: ProtectedServer
) -> None:
    """Also if it fails. The page shows the error."""
    register(project, server)
    auth.issuer = "https://evil.example"
    page = log_in(project, return_to_console=True)
    there = f"{project.running.service.url}/#/mcp-servers/box"
    assert (page.status_code, page.headers["location"]) == (303, there)
    shown = project.client.call("GET", BOX)["oauth"]
    assert shown["login_status"] == "required"
    assert "wrong `iss`" in shown["login_error"]
    auth.issuer = None
    started = project.client.call("POST", LOGIN, {"return_to_console": True})
    shown = project.client.call("GET", BOX)["oauth"]
    assert (shown["login_status"], shown["login_error"]) == ("pending", None)
    back = httpx2.get(started["url"]).headers["location"]
    assert httpx2.get(back).headers["location"] == there
    assert project.client.call("GET", BOX)["oauth"]["login_status"] == "logged_in"


def test_after_a_logout_the_tools_stay_and_their_calls_fail(
    project: Project, auth: AuthServer, server: ProtectedServer
) -> None:
    register(project, server)
    log_in(project)
    assert whoami(project)["outcome"] == "completed"
    project.client.call("DELETE", LOGIN)
    shown = project.client.call("GET", BOX)
    assert shown["tool_names"] == ["box_whoami"]
    assert (shown["oauth"]["login_status"], shown["oauth"]["logged_in_at"]) == ("required", None)
    project.client.call("PATCH", "/v1/tools/box_whoami", {"approval": "never"})
    failed = whoami(project, "after")
    assert (failed["outcome"], failed["reason"]) == ("failed", "not_sent")
    assert "A person must log in to the MCP server." in failed["detail"]
    project.client.call("DELETE", LOGIN)
    project.client.refused(404, "mcp_server_not_found", "DELETE", "/v1/mcp_servers/none/login")


def test_a_code_of_another_authorization_server_is_not_exchanged(
    project: Project, auth: AuthServer, server: ProtectedServer
) -> None:
    register(project, server)
    auth.issuer = "https://evil.example"
    page = log_in(project)
    assert page.status_code == 424
    assert "wrong `iss`" in page.text
    assert [asked["grant_type"] for asked in auth.asked] == []
    refused = project.client.call("POST", LOGIN)["url"]
    state = parse_qs(urlsplit(str(refused)).query)["state"][0]
    callback = f"{project.running.service.url}/mcp/oauth/callback"
    page = httpx2.get(callback, params={"state": state, "error": "access_denied"})
    assert (page.status_code, "access_denied" in page.text) == (400, True)


def test_a_login_belongs_to_one_origin(
    project: Project, auth: AuthServer, server: ProtectedServer
) -> None:
    register(project, server)
    log_in(project)
    moved = {"url": "http://127.0.0.2:9/mcp"}
    problem = project.client.refused(422, "invalid_request", "PATCH", BOX, moved)
    assert [one["path"] for one in problem["errors"]] == ["oauth"]
    project.client.call("PATCH", BOX, {"oauth": {"grant_type": "authorization_code"}})
    assert project.client.call("GET", BOX)["oauth"]["logged_in_at"] is None


@pytest.mark.parametrize(
    ("oauth", "path"),
    [
        ({"refresh_token": "abc"}, "oauth.refresh_token"),
        ({"token_url": "http://127.0.0.1/token"}, "oauth.token_url"),
        ({"grant_type": "client_credentials", "client_secret": "abc"}, "oauth.client_id"),
        ({"grant_type": "refresh_token", "client_id": "a"}, "oauth.refresh_token"),
    ],
)
def test_what_no_login_can_use_is_refused(
    project: Project, server: ProtectedServer, oauth: Json, path: str
) -> None:
    body = {"name": "box", "url": server.url, "oauth": {"grant_type": "authorization_code"} | oauth}
    problem = project.client.refused(422, "invalid_request", "POST", SERVERS, body)
    assert path in [one["path"] for one in problem["errors"]]


def test_only_a_server_with_a_login_can_be_logged_in_to(
    project: Project, auth: AuthServer, server: ProtectedServer
) -> None:
    register(project, server, grant_type=None, client_id=CLIENT, client_secret=SECRET)
    project.client.refused(422, "invalid_request", "POST", LOGIN)


def test_the_client_metadata_document_names_the_callback(project: Project) -> None:
    url = f"{project.running.service.url}/mcp/oauth/client.json"
    about = httpx2.get(url).json()
    assert about["client_id"] == url
    assert about["redirect_uris"] == [f"{project.running.service.url}/mcp/oauth/callback"]
