"""Request and response models of MCP servers."""

from datetime import datetime
from time import time
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field

from runward.api.http.models import (
    EXAMPLE_TIME,
    MCP_SERVER_ID,
    RequestModel,
    ResponseModel,
    create_request_model,
    make_optional,
    with_example,
)
from runward.api.registry.tool_models import HIDDEN_VALUE, hide_header_values
from runward.domain.ids import Prefix, format_id
from runward.domain.registry.mcp_auth import (
    OAUTH_SECRETS,
    SCOPE_PATTERN,
    Credentials,
    Grant,
    LoginStatus,
    OAuth,
    StoredOAuth,
)
from runward.domain.registry.mcp_servers import (
    McpServerSpec,
    ToolFilter,
    offered_tools,
)
from runward.domain.registry.tools import SecretReference
from runward.store.registry.mcp_servers import RegisteredServer

_SERVER_EXAMPLE: Final[dict[str, Any]] = {
    "name": "files",
    "url": "https://mcp.example.com/files",
    "tools": {"deny": ["delete_everything"]},
    "timeout_seconds": 20,
}

Headers = Annotated[dict[str, str | SecretReference], Field(max_length=32)]


class RegisterMcpServer(McpServerSpec):
    """An MCP server to register: either a `url` (streamable HTTP) or a `command`."""

    model_config = with_example(
        **_SERVER_EXAMPLE,
        headers={"X-Api-Key": {"secret": "FILES_KEY"}},
    )

    headers: Headers = Field(default_factory=dict)
    """HTTP headers that Runward sends with every request. A string is stored encrypted and never
    shown again. An object refers to a secret of the project."""
    oauth: OAuth | None = None
    """OAuth credentials with which Runward fetches access tokens for the MCP server. Runward sends
    an access token with every request. Null: no OAuth."""

    def to_spec(self) -> McpServerSpec:
        given = self.model_fields_set & McpServerSpec.model_fields.keys()
        return McpServerSpec.model_construct(None, **{name: getattr(self, name) for name in given})

    def to_credentials(self) -> Credentials:
        return Credentials(self.headers, self.oauth)


class SkippedTool(ResponseModel):
    """A tool of an MCP server that cannot become a tool of the project."""

    tool: str
    """Name of the tool on the MCP server."""
    reason: str
    """Reason why the tool cannot be used."""


class StartMcpLogin(RequestModel):
    """Options for a login to an MCP server."""

    model_config = with_example(scope="files:write")

    scope: Annotated[str, Field(max_length=4096, pattern=SCOPE_PATTERN)] | None = None
    """Scopes to request in addition to the scopes of the registration and of the last login,
    separated by spaces. Null: no additional scopes."""
    return_to_console: bool = False
    """Whether the browser shows the MCP server in the console after the login. By default, it shows
    a page with the result."""


class McpLogin(ResponseModel):
    """A login to an MCP server. It is complete when a person has logged in at `url`."""

    model_config = with_example(
        server="files",
        url="https://auth.example.com/authorize?response_type=code&client_id=runward",
        expires_at=EXAMPLE_TIME,
    )

    object: Literal["mcp_login"] = "mcp_login"
    server: str
    """Name of the MCP server."""
    url: str
    """URL of the login page. A person opens it in a browser."""
    expires_at: datetime
    """When the URL expires. A new login replaces an earlier one."""


class McpOAuth(ResponseModel):
    """OAuth credentials of an MCP server. Runward hides the values of secrets and shows references
    to secrets."""

    grant_type: Grant
    """How Runward gets access tokens. `authorization_code`: a person logs in with a browser."""
    client_id: str | None
    """Client ID of Runward at the authorization server. Null: Runward registers itself when a
    person logs in."""
    client_secret: str | SecretReference | None
    """Client secret, or a reference to a secret of the project. Null if no client secret is set."""
    private_key: str | SecretReference | None
    """Private key that Runward uses to authenticate at the token endpoint, or a reference to a
    secret of the project. Null if no private key is set."""
    refresh_token: str | SecretReference | None
    """Refresh token that Runward uses to fetch access tokens, or a reference to a secret of the
    project. Null if no refresh token is set."""
    token_url: str | None
    """URL of the token endpoint. Null: Runward discovers it from the MCP server's metadata."""
    issuer: str | None
    """Issuer of the only authorization server that may receive the credentials. Null: the
    authorization server that the MCP server names."""
    scope: str | None
    """Scopes that Runward requests, separated by spaces. Null: the scopes that the MCP server
    names."""
    token_endpoint_auth_method: str | None
    """How Runward sends the client secret to the token endpoint. Null: Runward chooses a method
    that the authorization server supports."""
    logged_in_at: datetime | None
    """When a person last logged in to the MCP server. Null if nobody is logged in."""
    login_status: LoginStatus | None
    """Status of the login. `required`: a person must log in. `pending`: a login has started and is
    not complete. `logged_in`: Runward has tokens. `expired`: the access token has expired and there
    is no refresh token, so a person must log in again. Null if `grant_type` is not
    `authorization_code`."""
    login_error: str | None
    """Error of the last login. Null if the last login succeeded or is not complete."""


class McpServer(ResponseModel):
    """A registered MCP server. Runward never shows the values of its headers."""

    model_config = with_example(
        id=MCP_SERVER_ID,
        **_SERVER_EXAMPLE,
        command=None,
        args=[],
        headers={"X-Api-Key": {"secret": "FILES_KEY", "prefix": ""}},
        oauth=None,
        prefix=None,
        approval=None,
        tool_names=["files_read", "files_write"],
        skipped=[],
        version=1,
        listed_at=EXAMPLE_TIME,
        created_at=EXAMPLE_TIME,
        updated_at=EXAMPLE_TIME,
    )

    id: str
    """ID of the MCP server. Globally unique."""
    object: Literal["mcp_server"] = "mcp_server"
    name: str
    """Name of the MCP server. Unique in the project."""
    url: str | None
    """URL of the MCP server. Null if Runward starts it with a command."""
    command: str | None
    """Command that starts the MCP server. Null if the server has a URL."""
    args: list[str]
    """Arguments of the command."""
    headers: dict[str, str | SecretReference]
    """HTTP headers that Runward sends with every request. Values are shown as `…`, and references
    to secrets are shown unchanged."""
    oauth: McpOAuth | None
    """OAuth credentials of the MCP server. Null if no credentials are set."""
    tools: ToolFilter
    """Filter that selects which tools of the server the project uses."""
    prefix: str | None
    """Prefix of the tool names in this project. Null: the name of the server."""
    approval: Any
    """Whether calls of the server's tools need approval. Null: `never` for tools that the server
    marks with `readOnlyHint`, and `always` for all others."""
    timeout_seconds: float | None
    """Timeout of one call of the server's tools, in seconds. Null: the run's
    `limits.tool_timeout_seconds`, or the default of the deployment."""
    tool_names: list[str]
    """Names of the server's tools in this project."""
    skipped: list[SkippedTool]
    """Tools of the server that cannot become tools of the project."""
    version: int
    """Version of the registration. It starts at 1 and grows by 1 with each update."""
    listed_at: datetime
    """When Runward last listed the server's tools."""
    created_at: datetime
    """When the MCP server was registered."""
    updated_at: datetime
    """When this version of the resource was created."""

    @classmethod
    def from_row(cls, server: RegisteredServer, credentials: Credentials) -> Self:
        """Return the server of a row. It is not validated again."""
        offered = offered_tools(server.spec, server.listed)
        fields = dict(server.spec) | {
            "args": list(server.spec.args),
            "headers": hide_header_values(credentials.headers),
            "oauth": None if credentials.oauth is None else _render_oauth(credentials.oauth),
            "tool_names": [spec.name for spec in offered.specs],
            "skipped": [SkippedTool.from_attributes(tool) for tool in offered.skipped],
        }
        return cls.model_construct(
            None,
            **fields,
            id=format_id(Prefix.MCP_SERVER, server.id),
            version=server.version,
            listed_at=server.listed_at,
            created_at=server.created_at,
            updated_at=server.updated_at,
        )


def _render_oauth(credentials: OAuth) -> McpOAuth:
    hidden = {name: _hide_value(getattr(credentials, name)) for name in OAUTH_SECRETS}
    kept = {name: getattr(credentials, name) for name in OAuth.model_fields}
    stored = credentials if isinstance(credentials, StoredOAuth) else StoredOAuth()
    status = stored.find_login_status(time())
    derived = "client_credentials" if credentials.refresh_token is None else "refresh_token"
    return McpOAuth.model_construct(
        None,
        **{**kept, **hidden, "grant_type": credentials.grant_type or derived},
        logged_in_at=None if stored.login is None else stored.login.logged_in_at,
        login_status=status if credentials.grant_type == "authorization_code" else None,
        login_error=stored.login_error,
    )


def _hide_value(value: str | SecretReference | None) -> str | SecretReference | None:
    return HIDDEN_VALUE if isinstance(value, str) else value


_ServerPatchFields = create_request_model(
    "_Optional", make_optional(RegisterMcpServer, without={"name"})
)


class UpdateMcpServer(_ServerPatchFields):
    """The fields to update. Each field in the request replaces the previous value completely. A new
    `url` also requires new `headers` and `oauth`, unless these fields contain only references to
    secrets."""

    def apply_to(self, spec: McpServerSpec) -> McpServerSpec:
        given = self.model_fields_set & McpServerSpec.model_fields.keys()
        return spec.model_copy(update={name: getattr(self, name) for name in given})
