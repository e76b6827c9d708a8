"""What an MCP server is logged in to with: references, values, and what is wrong with them."""

from typing import Any

import pytest
from pydantic import ValidationError

from runward.domain.registry.mcp_auth import Credentials, OAuth, OAuthClient, oauth_problems
from runward.domain.registry.tools import SecretReference
from runward.tools.mcp.session import credential_problems

URL = "https://mcp.example.com/mcp"
KEY = SecretReference(secret="key", prefix="Bearer ")


def client(**fields: Any) -> OAuthClient:
    about: dict[str, Any] = {"client_id": "me", **fields}
    return OAuthClient(**about)


def paths(given: Credentials) -> list[str]:
    return [error.path for error in credential_problems(given.resolve({"key": "value"}))]


def test_references_are_named_with_their_paths() -> None:
    oauth = OAuth(client_id="me", client_secret=SecretReference(secret="s"), refresh_token="r")
    given = Credentials({"A": KEY, "B": "text"}, oauth)
    assert list(given.references()) == [
        ("headers.A.secret", "key"),
        ("oauth.client_secret.secret", "s"),
    ]


def test_values_are_bound_to_whom_they_were_given_for_and_references_are_not() -> None:
    held = OAuth(client_id="me", client_secret="x")
    named = OAuth(client_id="me", client_secret=KEY)
    assert Credentials({"A": "x"}, held).literal_fields() == {"headers", "oauth"}
    assert Credentials({"A": KEY}, named).literal_fields() == set()
    assert Credentials({"A": KEY}, held).literal_fields() == {"oauth"}
    assert Credentials({}).literal_fields() == set()


def test_secrets_take_the_place_of_references_after_their_prefix() -> None:
    oauth = OAuth(client_id="me", client_secret=KEY, refresh_token="r", scope="a b")
    filled = Credentials({"A": KEY, "B": "x"}, oauth).resolve({"key": "value"})
    assert filled.headers == {"A": "Bearer value", "B": "x"}
    assert filled.oauth == client(client_secret="Bearer value", refresh_token="r", scope="a b")
    assert Credentials({}).resolve({}).oauth is None
    with pytest.raises(KeyError):
        Credentials({"A": KEY}).resolve({})


def test_what_it_is_given_says_which_grant_is_used() -> None:
    assert client(client_secret="x").grant == "client_credentials"
    assert client(client_secret="x", refresh_token="y").grant == "refresh_token"
    assert Credentials({}, OAuth(client_id="me")).resolve({}).oauth == client()


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({}, "oauth.client_secret"),
        ({"client_secret": "two\nlines"}, "oauth.client_secret"),
        ({"client_secret": "a line\n"}, "oauth.client_secret"),
        ({"refresh_token": "caf\u00e9"}, "oauth.refresh_token"),
        ({"client_secret": "x", "token_url": URL, "issuer": URL}, "oauth.issuer"),
    ],
)
def test_what_cannot_be_sent_is_named(fields: dict[str, Any], path: str) -> None:
    assert [error.path for error in oauth_problems(client(**fields))] == [path]


def test_a_good_client_has_no_problems() -> None:
    assert oauth_problems(client(client_secret="x", token_url=URL)) == []
    assert oauth_problems(client(refresh_token="x", issuer=URL)) == []


def test_no_secret_is_in_a_representation() -> None:
    oauth = OAuth(client_id="me", client_secret="hidden", refresh_token="hidden")
    given = Credentials({"A": "hidden"}, oauth)
    filled = given.resolve({})
    assert "hidden" not in repr((given, filled, filled.oauth))


@pytest.mark.parametrize("scope", ["", " a", "a ", "a  b", 'a"b', "a\\b", "caf\u00e9"])
def test_a_scope_is_words_with_single_spaces(scope: str) -> None:
    with pytest.raises(ValidationError):
        OAuth(client_id="me", client_secret="x", scope=scope)


@pytest.mark.parametrize(
    ("given", "path"),
    [
        (Credentials({"Accept": "x"}), "headers.Accept"),
        (Credentials({"Mcp-Session-Id": "x"}), "headers.Mcp-Session-Id"),
        (Credentials({"A": "x", "a": "x"}), "headers.a"),
        (Credentials({"A": "caf\u00e9"}), "headers.A"),
        (
            Credentials({"Authorization": "x"}, OAuth(client_id="me", client_secret="x")),
            "headers.Authorization",
        ),
    ],
)
def test_headers_that_the_protocol_or_oauth_needs_are_not_taken(
    given: Credentials, path: str
) -> None:
    assert paths(given) == [path]


def test_good_headers_have_no_problems() -> None:
    oauth = OAuth(client_id="me", client_secret="x")
    assert paths(Credentials({"X-A": "x", "X-B": KEY}, oauth)) == []
    assert paths(Credentials({"Authorization": KEY})) == []
