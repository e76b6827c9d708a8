"""MCP servers that want an access token, and headers that name secrets: with a real authorization
server and a real resource server."""

from collections.abc import Iterator
from typing import TypeAlias

import pytest

from tests.api.project import Project, call
from tests.support.mcp.oauth_server import CLIENT, SECRET, AuthServer, ProtectedServer
from tests.support.mcp.server import McpServer
from tests.support.models.chat_server import calls, text
from tests.support.services.client import Json

SERVERS = "/v1/mcp_servers"
BOX = f"{SERVERS}/box"


@pytest.fixture
def plain() -> Iterator[McpServer]:
    with McpServer() as server:
        yield server


def put(project: Project, name: str, value: str) -> None:
    project.client.call("PUT", f"/v1/secrets/{name}", {"value": value})


def body(server: ProtectedServer, oauth: Json | None = None, **fields: object) -> Json:
    oauth = {"client_secret": SECRET} if oauth is None else oauth
    fields = {"timeout_seconds": 20, **fields}
    return {"name": "box", "url": server.url, "oauth": {"client_id": CLIENT, **oauth}, **fields}


def register(
    project: Project, server: ProtectedServer, oauth: Json | None = None, **fields: object
) -> Json:
    return project.client.call("POST", SERVERS, body(server, oauth, **fields))


def refused(project: Project, server: ProtectedServer, oauth: Json) -> str:
    """What is said of a registration that cannot connect. Nothing of it is stored."""
    problem = project.client.refused(424, "mcp_unreachable", "POST", SERVERS, body(server, oauth))
    assert project.client.call("GET", SERVERS)["data"] == []
    return str(problem["detail"])


def whoami(project: Project, name: str = "main") -> Json:
    """The call of a run, as it ended."""
    model = project.script(calls(call(1, "box_whoami", "{}")), text("fine"), name=name)
    run = project.run(model=model, tools=["box_whoami"])
    [done] = project.client.tool_calls(run["id"])
    return done


# -- grants ---------------------------------------------------------------------------------------


def test_a_client_s_own_credentials_open_a_server_that_says_where_tokens_come_from(
    project: Project, auth: AuthServer, server: ProtectedServer
) -> None:
    put(project, "client", SECRET)
    made = register(project, server, {"client_secret": {"secret": "client"}, "scope": "read write"})
    assert made["tool_names"] == ["box_whoami"]
    assert made["oauth"] == {
        "grant_type": "client_credentials",
        "client_id": CLIENT,
        "client_secret": {"secret": "client", "prefix": ""},
        "private_key": None,
        "refresh_token": None,
        "token_url": None,
        "issuer": None,
        "scope": "read write",
        "token_endpoint_auth_method": None,
        "logged_in_at": None,
        "login_status": None,
        "login_error": None,
    }
    assert project.client.call("GET", BOX) == made
    done = whoami(project)
    assert done["outcome"] == "completed"
    assert (done["output"]["client"], done["output"]["scope"]) == (CLIENT, "read write")
    for asked in auth.asked:
        assert asked["grant_type"] == "client_credentials"
        assert asked["resource"] == server.url
        assert asked["by"] == "basic"


def test_one_session_asks_once(project: Project, auth: AuthServer, server: ProtectedServer) -> None:
    register(project, server)
    first, again = whoami(project), whoami(project, "again")
    assert first["output"]["token"] == again["output"]["token"]
    assert len(auth.asked) == 2, "one for the registration's session, one for the calls'"


def test_values_are_never_shown_again(
    project: Project, auth: AuthServer, server: ProtectedServer
) -> None:
    refresh_token = auth.new_refresh_token()
    made = register(project, server, {"client_secret": SECRET, "refresh_token": refresh_token})
    assert (made["oauth"]["client_secret"], made["oauth"]["refresh_token"]) == ("…", "…")
    shown = str([project.client.call("GET", path) for path in (SERVERS, "/v1/tools")])
    assert SECRET not in shown
    assert refresh_token not in shown
    assert SECRET not in project.running.service.output()


@pytest.mark.parametrize(
    ("offered", "chosen", "by"),
    [
        (["client_secret_post"], None, None),
        (["client_secret_post", "client_secret_basic"], None, "basic"),
        (None, "client_secret_post", None),
    ],
)
def test_the_secret_is_sent_as_the_authorization_server_likes_it(
    project: Project,
    auth: AuthServer,
    server: ProtectedServer,
    offered: list[str] | None,
    chosen: str | None,
    by: str | None,
) -> None:
    auth.metadata = {"token_endpoint_auth_methods_supported": offered}
    oauth: Json = {"client_secret": SECRET}
    if chosen is not None:
        oauth["token_endpoint_auth_method"] = chosen
    register(project, server, oauth)
    assert auth.asked[0].get("by") == by


def test_a_token_url_is_asked_without_looking_for_one(
    project: Project, auth: AuthServer, server: ProtectedServer
) -> None:
    register(project, server, {"client_secret": SECRET, "token_url": f"{auth.url}/token"})
    assert "/.well-known/oauth-authorization-server" not in auth.paths
    assert whoami(project)["outcome"] == "completed"


def test_a_refresh_token_that_is_good_for_one_use_is_followed(
    project: Project, auth: AuthServer, server: ProtectedServer
) -> None:
    auth.clients = {CLIENT: ""}  # a public client
    given = auth.new_refresh_token()
    register(project, server, {"refresh_token": given})
    assert given not in auth.refresh_tokens, "registering has used it"
    for name in ("one", "two"):
        assert whoami(project, name)["outcome"] == "completed"
        project.client.call("POST", f"{BOX}/refresh")
        project.client.call("PATCH", BOX, {"timeout_seconds": 19 if name == "one" else 20})
    tokens = [asked["refresh_token"] for asked in auth.asked]
    assert len(set(tokens)) == len(tokens) >= 6
    assert auth.used_twice == []


def test_a_refresh_token_that_is_given_anew_counts_from_then_on(
    project: Project, auth: AuthServer, server: ProtectedServer
) -> None:
    auth.clients = {CLIENT: ""}
    put(project, "refresh", auth.new_refresh_token())
    oauth: Json = {"refresh_token": {"secret": "refresh"}}
    register(project, server, oauth)
    auth.refresh_tokens.clear()
    assert "invalid_grant" in whoami(project, "revoked")["detail"]
    put(project, "refresh", auth.new_refresh_token())
    assert whoami(project, "given")["outcome"] == "completed"
    anew = auth.new_refresh_token()
    changed = {"oauth": {"client_id": CLIENT, "refresh_token": anew}}
    project.client.call("PATCH", BOX, changed)
    assert whoami(project, "patched")["outcome"] == "completed"
    assert auth.used_twice == []


# -- when tokens end ------------------------------------------------------------------------------


def test_a_token_is_replaced_before_it_expires(
    project: Project, auth: AuthServer, server: ProtectedServer
) -> None:
    auth.expires_in = 0
    register(project, server)
    before = len(auth.asked)
    first, again = whoami(project), whoami(project, "again")
    assert first["output"]["token"] != again["output"]["token"]
    assert len(auth.asked) > before + 1


def test_a_token_that_is_refused_is_replaced_and_the_call_is_made(
    project: Project, auth: AuthServer, server: ProtectedServer
) -> None:
    register(project, server)
    first = whoami(project)
    before = len(auth.asked)
    auth.revoke_access_tokens()
    again = whoami(project, "again")
    assert again["outcome"] == "completed"
    assert again["output"]["token"] != first["output"]["token"]
    assert len(auth.asked) == before + 1


def test_a_server_that_refuses_new_tokens_too_fails_the_call_as_not_sent(
    project: Project, auth: AuthServer, server: ProtectedServer
) -> None:
    register(project, server)
    auth.answer = (200, {"access_token": "of nobody", "token_type": "bearer"}, {})
    auth.revoke_access_tokens()
    done = whoami(project)
    assert (done["outcome"], done["reason"]) == ("failed", "not_sent")
    assert "rejected a new access token" in done["detail"]


# -- what the authorization server answers --------------------------------------------------------


def test_a_wrong_secret_is_told_without_being_shown(
    project: Project, auth: AuthServer, server: ProtectedServer
) -> None:
    said = refused(project, server, {"client_secret": "not the right one"})
    assert "HTTP 401, invalid_client: … is wrong." in said
    assert len(auth.asked) == 1, "it is not asked the same again"


def test_a_changed_secret_takes_effect(
    project: Project, auth: AuthServer, server: ProtectedServer
) -> None:
    put(project, "client", SECRET)
    register(project, server, {"client_secret": {"secret": "client"}})
    assert whoami(project)["outcome"] == "completed"
    auth.clients[CLIENT] = "another"
    put(project, "client", "wrong")
    done = whoami(project, "wrong")
    assert (done["outcome"], done["reason"]) == ("failed", "not_sent")
    assert "invalid_client" in done["detail"]
    put(project, "client", "another")
    assert whoami(project, "right")["outcome"] == "completed"
    project.client.call("DELETE", "/v1/secrets/client")
    done = whoami(project, "gone")
    assert (done["outcome"], done["reason"]) == ("failed", "not_sent")
    assert "The secret 'client' of MCP server" in done["detail"]
    problem = project.client.refused(424, "mcp_unreachable", "POST", f"{BOX}/refresh")
    assert "The secret 'client' of MCP server" in problem["detail"]
    put(project, "client", "another")
    assert whoami(project, "back")["outcome"] == "completed"


def test_a_secret_that_cannot_be_sent_is_named_with_its_field(
    project: Project, server: ProtectedServer
) -> None:
    put(project, "client", SECRET)
    register(project, server, {"client_secret": {"secret": "client"}})
    put(project, "client", "two\nlines")
    assert "oauth.client_secret must be printable" in whoami(project)["detail"]
    problem = project.client.refused(424, "mcp_unreachable", "POST", f"{BOX}/refresh")
    assert "oauth.client_secret must be printable" in problem["detail"]


Answer: TypeAlias = tuple[int, Json, dict[str, str]]
NO_TOKENS: list[tuple[Answer, str]] = [
    ((302, {}, {"Location": "/introspect"}), "Runward does not follow redirects"),
    ((500, {"error": "server_error"}, {}), "HTTP 500, server_error"),
    ((200, {"token_type": "bearer"}, {}), "not a bearer token"),
    ((200, {"access_token": "x", "token_type": "mac"}, {}), "not a bearer token"),
    ((200, {"access_token": "a\nb", "token_type": "bearer"}, {}), "not allowed in a header"),
]


@pytest.mark.parametrize(("answer", "said"), NO_TOKENS)
def test_what_is_no_token_is_told(
    project: Project,
    auth: AuthServer,
    server: ProtectedServer,
    answer: Answer,
    said: str,
) -> None:
    auth.answer = answer
    assert said in refused(project, server, {"client_secret": SECRET})
    assert auth.paths.count("/introspect") == 0


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        ({"token_endpoint": "http://10.0.0.1/token"}, "not public"),
        ({"token_endpoint": "http://169.254.169.254/token"}, "metadata"),
        ({"token_endpoint": "http://u:p@127.0.0.1/token"}, "user name or password"),
        ({"token_endpoint": 5}, "no valid OAuth metadata"),
        ({"issuer": "http://127.0.0.1:1"}, "has the issuer http://127.0.0.1:1"),
        (
            {"grant_types_supported": ["authorization_code"]},
            "let a person log in",
        ),
        ({"token_endpoint_auth_methods_supported": ["private_key_jwt"]}, "private_key_jwt"),
    ],
)
def test_an_authorization_server_that_cannot_be_used_is_told(
    project: Project, auth: AuthServer, server: ProtectedServer, metadata: Json, said: str
) -> None:
    auth.metadata = metadata
    assert said in refused(project, server, {"client_secret": SECRET})
    assert auth.asked == []


def test_only_the_issuer_that_is_trusted_gets_the_credentials(
    project: Project, auth: AuthServer, server: ProtectedServer
) -> None:
    said = refused(project, server, {"client_secret": SECRET, "issuer": "https://auth.example.com"})
    assert f"The metadata of the MCP server names: {auth.url}" in said
    assert auth.asked == []
    register(project, server, {"client_secret": SECRET, "issuer": auth.url})


def test_a_server_that_wants_a_token_and_gets_none_says_what_to_give(
    project: Project, server: ProtectedServer
) -> None:
    given = {"name": "box", "url": server.url}
    problem = project.client.refused(424, "mcp_unreachable", "POST", SERVERS, given)
    assert "set `oauth`" in problem["detail"]


# -- registrations --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("oauth", "path"),
    [
        ({}, "oauth.client_secret"),
        ({"client_secret": {"secret": "nobody"}}, "oauth.client_secret.secret"),
        ({"refresh_token": {"secret": "nobody"}}, "oauth.refresh_token.secret"),
        ({"client_secret": "…"}, "oauth.client_secret"),
        ({"client_secret": ""}, "oauth.client_secret"),
        ({"client_secret": "x", "client_id": ""}, "oauth.client_id"),
        ({"client_secret": "x", "scope": "a  b"}, "oauth.scope"),
        ({"client_secret": "x", "token_url": "http://10.0.0.1/token"}, "oauth.token_url"),
        ({"client_secret": "x", "token_url": "https://x.test", "issuer": "x"}, "oauth.issuer"),
        ({"client_secret": "x", "code": "x"}, "oauth.code"),
    ],
)
def test_what_cannot_work_is_refused_with_its_path(
    project: Project, server: ProtectedServer, oauth: Json, path: str
) -> None:
    problem = project.client.refused(422, "invalid_request", "POST", SERVERS, body(server, oauth))
    assert [error["path"] for error in problem["errors"]] == [path]


def test_oauth_and_an_authorization_header_exclude_each_other(
    project: Project, server: ProtectedServer
) -> None:
    given = body(server, headers={"authorization": "Bearer x"})
    problem = project.client.refused(422, "invalid_request", "POST", SERVERS, given)
    assert problem["errors"][0]["path"] == "headers.authorization"


def test_values_are_given_again_for_another_origin_and_references_stay(
    project: Project, auth: AuthServer, server: ProtectedServer
) -> None:
    register(project, server)
    elsewhere = "http://127.0.0.1:9/mcp"
    problem = project.client.refused(422, "invalid_request", "PATCH", BOX, {"url": elsewhere})
    assert [error["path"] for error in problem["errors"]] == ["oauth"]
    put(project, "client", SECRET)
    oauth = {"client_id": CLIENT, "client_secret": {"secret": "client"}}
    project.client.call("PATCH", BOX, {"oauth": oauth})
    with ProtectedServer(auth) as other:
        changed = project.client.call("PATCH", BOX, {"url": other.url})
        assert changed["url"] == other.url
        assert whoami(project)["outcome"] == "completed"
    problem = project.client.refused(
        424, "mcp_unreachable", "PATCH", BOX, {"url": server.url, "oauth": None}
    )
    assert "set `oauth`" in problem["detail"]


# -- headers --------------------------------------------------------------------------------------


def test_a_header_may_name_a_secret_and_follows_it(project: Project, plain: McpServer) -> None:
    put(project, "token", "first")
    made = project.client.call(
        "POST",
        SERVERS,
        {
            "name": "box",
            "url": plain.url,
            "approval": "never",
            "headers": {
                "Authorization": {"secret": "token", "prefix": "Bearer "},
                "X-Key": {"secret": "token"},
                "X-Own": "value",
            },
        },
    )
    assert made["headers"] == {
        "Authorization": {"secret": "token", "prefix": "Bearer "},
        "X-Key": {"secret": "token", "prefix": ""},
        "X-Own": "…",
    }
    echo(project, "one")
    put(project, "token", "second")
    echo(project, "two")
    seen = [one["headers"] for one in plain.seen() if one["what"] == "echo"]
    assert [one["authorization"] for one in seen] == ["Bearer first", "Bearer second"]
    assert [one["x-key"] for one in seen] == ["first", "second"]
    assert [one["x-own"] for one in seen] == ["value", "value"]


def echo(project: Project, name: str) -> None:
    model = project.script(calls(call(1, "box_echo", '{"text":"hi"}')), text("fine"), name=name)
    assert project.run(model=model, tools=["box_echo"])["status"] == "completed"


def test_a_header_that_names_no_secret_is_refused(project: Project, plain: McpServer) -> None:
    given: Json = {"name": "box", "url": plain.url}
    given["headers"] = {"X-Key": {"secret": "nobody"}}
    problem = project.client.refused(422, "invalid_request", "POST", SERVERS, given)
    assert problem["errors"] == [
        {
            "path": "headers.X-Key.secret",
            "message": (
                "names the secret 'nobody', which does not exist; create it with PUT "
                "/v1/secrets/nobody"
            ),
        }
    ]
    put(project, "token", "two\nlines")
    given["headers"] = {"X-Key": {"secret": "token"}}
    problem = project.client.refused(422, "invalid_request", "POST", SERVERS, given)
    assert problem["errors"][0]["path"] == "headers.X-Key"
    assert "lines" not in str(problem)
